//! What this process has: the one global of the engine, set by the constructor.
use crate::arena::{Arena, Conn, ProcPage};
use crate::config::Config;
use crate::fdtable::{self, Entry};
use crate::poll::Epolls;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::raw;
use crate::sys::real::RealCalls;
use crate::transport::loopback::{Control, Groups, Queues};
use core::cell::Cell;
use libc::c_int;
use once_cell::race::OnceBox;
use parking_lot::Mutex;

static PROCESS: OnceBox<Process> = OnceBox::new();

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) real: RealCalls,
    pub(crate) config: Config,
    pub(crate) arena: Arena,
    pub(crate) groups: Groups,
    pub(crate) queues: Queues,
    pub(crate) epolls: Epolls,
    pub(crate) control: Control,
    pub(crate) netlink: Mutex<c_int>,
    page: AtomicU32,
    pid: AtomicU32,
    /// Processors that it may run on; 1: spinning never pays.
    pub(crate) cpus: AtomicU32,
}

/// The process, once the engine has started.
#[inline(always)]
pub(crate) fn get() -> Option<&'static Process> {
    PROCESS.get()
}

/// Starts the engine; false: it stays off.
pub(crate) fn start(real: RealCalls, config: &Config) -> bool {
    let pid = raw::getpid();
    let Ok(arena) = Arena::create(raise) else { return false };
    let Some(page) = arena.enter_process(pid) else { return false };
    fdtable::set(arena.fd, Entry::internal());
    let process = Process {
        real,
        config: config.clone(),
        arena,
        groups: Groups::new(),
        queues: Queues::new(),
        epolls: Epolls::new(),
        control: Control::new(),
        netlink: Mutex::new(-1),
        page: AtomicU32::new(page as u32),
        pid: AtomicU32::new(pid),
        cpus: AtomicU32::new(raw::allowed_cpus()),
    };
    PROCESS.set(Box::new(process)).is_ok()
}

impl Process {
    /// The statistics page of this process.
    #[inline(always)]
    pub(crate) fn page(&self) -> Option<&ProcPage> {
        self.arena.proc_page(self.page.load(Ordering::Relaxed) as usize)
    }

    /// The pid as of the start or the last fork.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Whether this is a child that shares the memory of its parent (vfork): what it does to its
    /// descriptors must not touch our state.
    pub(crate) fn is_borrowed(&self) -> bool {
        raw::getpid() != self.pid()
    }

    /// The connection of a descriptor.
    #[inline(always)]
    pub(crate) fn conn_of(&self, fd: c_int) -> Option<(u32, &Conn)> {
        let index = fdtable::entry(fd).as_socket()?;
        Some((index, self.arena.conn(index)?))
    }

    /// In the child, after a fork.
    pub(crate) fn after_fork(&self) {
        let pid = raw::getpid();
        self.pid.store(pid, Ordering::Relaxed);
        if let Some(page) = self.arena.enter_process(pid) {
            self.page.store(page as u32, Ordering::Relaxed);
        }
        forget_thread();
    }
}

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
}

/// This thread's id.
#[inline(always)]
pub(crate) fn tid() -> u32 {
    match TID.get() {
        0 => first_tid(),
        tid => tid,
    }
}

#[cold]
fn first_tid() -> u32 {
    let tid = raw::gettid();
    TID.set(tid);
    tid
}

fn forget_thread() {
    TID.set(0);
}

/// Moves a descriptor of ours to a high number, out of the program's way, and closes the low one.
/// It stays where it is if there is no room.
pub(crate) fn raise(fd: c_int) -> c_int {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: requires a valid `rlimit` to write to. (getrlimit is no function that we hook.)
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let top = (limit.rlim_cur as usize).min(fdtable::LIMIT);
    let from = top - (top / 4).min(4096);
    match raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, from) {
        Ok(high) => {
            raw::close(fd);
            let high = high as c_int;
            fdtable::set(high, Entry::internal());
            high
        }
        Err(_) => {
            fdtable::set(fd, Entry::internal());
            fd
        }
    }
}

/// Closes a descriptor of ours.
pub(crate) fn drop_fd(fd: c_int) {
    if fd >= 0 {
        fdtable::take(fd);
        raw::close(fd);
    }
}

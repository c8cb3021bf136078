//! What this process has: the one global of the engine, set by the constructor.
use crate::arena::{Arena, Births, Conn, ProcPage};
use crate::config::Config;
use crate::conn::forecast::Forecast;
use crate::fdtable;
use crate::poll::Epolls;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::lock::Lock;
use crate::sys::real::RealCalls;
use crate::sys::{limits, raw, thread};
use crate::transport::loopback::Device;
use libc::c_int;
use once_cell::race::OnceBox;

static PROCESS: OnceBox<Process> = OnceBox::new();

/// With fewer descriptors than these the program may need all of them itself.
const FEWEST: usize = 128;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) real: RealCalls,
    pub(crate) config: Config,
    /// The file of the library, as the preload library tells it apart from others.
    pub(crate) build: [u64; 4],
    pub(crate) device: Device,
    pub(crate) epolls: Epolls,
    /// The socket for questions to sock_diag, or -1.
    pub(crate) netlink: Lock<c_int>,
    /// Held while a connection has a number of ours for a while.
    pub(crate) steady: Lock<()>,
    /// Children that will be other programs.
    pub(crate) births: Births,
    /// How long its accepted connections live.
    pub(crate) forecast: Forecast,
    /// Processors that it may run on; 1: spinning never pays.
    pub(crate) cpus: AtomicU32,
}

/// The process, once the engine has started.
#[inline(always)]
pub(crate) fn get() -> Option<&'static Process> {
    PROCESS.get()
}

/// Starts the engine; false: it stays off. `arena`, `born`: what the image before this one has left.
pub(crate) fn start(
    real: RealCalls,
    config: &Config,
    build: [u64; 4],
    arena: Option<Arena>,
    born: Option<u32>,
) -> bool {
    // What an image before this one has left must be gone on with.
    if arena.is_none() && limits::descriptors() < FEWEST {
        return false;
    }
    let made = arena.map_or_else(|| Arena::create(fdtable::raise), Ok);
    let Ok(arena) = made else { return false };
    let Some(device) = Device::new(arena, born) else { return false };
    let process = Process {
        real,
        config: config.clone(),
        build,
        device,
        epolls: Epolls::new(),
        netlink: Lock::new(-1),
        steady: Lock::new(()),
        births: Births::new(),
        forecast: Forecast::default(),
        cpus: AtomicU32::new(raw::allowed_cpus()),
    };
    PROCESS.set(Box::new(process)).is_ok()
}

impl Process {
    /// The statistics page of this process.
    #[inline(always)]
    pub(crate) fn page(&self) -> &ProcPage {
        self.device.page()
    }

    /// The connection of a descriptor.
    #[inline(always)]
    pub(crate) fn conn_of(&self, fd: c_int) -> Option<(u32, &Conn)> {
        let index = fdtable::entry(fd).as_socket()?;
        Some((index, self.device.arena.conn(index)?))
    }

    /// In the child, after a fork.
    pub(crate) fn after_fork(&self) {
        thread::forget_tid();
        fdtable::drop_internal(core::mem::replace(&mut *self.netlink.lock(), -1));
        self.births.after_fork();
        self.device.after_fork(|queue| self.epolls.owns_queue(queue));
        self.cpus.store(raw::allowed_cpus(), Ordering::Relaxed);
    }
}

//! Where the ends of a pair stand and what they have done: a file that all processes of one end map,
//! so that forked children, other images and whoever judges them know as well.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The environment variable that names the file.
pub const VARIABLE: &str = "SMC_SOAK_STATE";
/// Connections that a file has room for.
pub const ROOM: usize = 128;
/// A turn that does not come within that time never comes.
const PATIENCE: Duration = Duration::from_secs(50);

macro_rules! kinds {
    ($($kind:ident)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Kind { $($kind),* }
        impl Kind {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
            /// The calls that move bytes.
            pub const CALLS: &[Self] = Self::ALL.split_at(Self::Poll as usize).0;
        }
    };
}

kinds! {
    Send SendTo SendMsg SendMmsg SendMore Write Writev Sendfile SpliceOut Vmsplice Dprintf Fwrite
    Recv RecvFrom RecvMsg RecvMmsg Read Readv SpliceIn Peek WaitAll Trunc Fread
    Poll Ppoll Select Pselect EpollWait EpollPwait Edge OneShot TimedOut Interrupted
    Dup Dup2 Dup3 FDupFd
    Child Partner Heir ForkExec Spawn OnStandard BareImage Bystander Exec
    Demoted Abandoned ShutUnder ClosedUnder SharedByThreads ThreadEach EventLoop
}

/// One connection.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Progress {
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Bytes received.
    pub got: AtomicU64,
    /// It has left shared memory.
    pub left: AtomicU64,
    /// Errands begun.
    pub errands: AtomicU64,
    /// One of the ends has given the connection up.
    pub gone: AtomicU64,
    turns: [AtomicU64; 2],
}

/// Somebody's turn to send, or to receive.
#[derive(Debug)]
pub struct Turn<'a>(&'a AtomicU64);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Progress {
    /// Waits for the turn among all threads and processes of this end. What they send and take is one
    /// stream, so that one after the other must do it.
    pub fn turn(&self, receives: bool) -> Turn<'_> {
        let word = &self.turns[usize::from(receives)];
        let own = u64::from(std::process::id());
        let mut began = None;
        while let Err(holder) = word.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
            let began = began.get_or_insert_with(Instant::now);
            let what = if receives { "receive" } else { "send" };
            assert!(began.elapsed() < PATIENCE, "no turn to {what}");
            let lives = lives(holder);
            // It may just have given it back, and gone.
            assert!(lives || word.load(Ordering::Acquire) != holder, "died in its turn to {what}");
            std::thread::sleep(Duration::from_micros(30));
        }
        Turn(word)
    }
}

/// Whether a process runs: one that nobody has waited for does not.
fn lives(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may have blanks.
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
        && !stat.is_empty()
}

/// One end.
#[derive(Debug)]
#[repr(C)]
pub struct State {
    done: [AtomicU64; Kind::ALL.len()],
    carried: [AtomicU64; Kind::ALL.len()],
    looked: [AtomicU64; Kind::ALL.len()],
    /// Its connections.
    pub conns: [Progress; ROOM],
}

impl State {
    /// Counts one.
    pub fn did(&self, kind: Kind) {
        self.done[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
    /// Counts one of those that were looked at: whether the kernel's TCP had no part in it.
    pub fn saw(&self, kind: Kind, in_ring: bool) {
        self.looked[kind as usize].fetch_add(1, Ordering::Relaxed);
        self.carried[kind as usize].fetch_add(u64::from(in_ring), Ordering::Relaxed);
    }
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapped(*mut State);

impl Mapped {
    /// Maps a file, which is made if there is none.
    pub fn open(path: &Path) -> Self {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(size_of::<State>() as u64).unwrap();
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let none = std::ptr::null_mut();
        // SAFETY: a mapping of its own, at an address of the kernel's choice.
        let at =
            unsafe { libc::mmap(none, size_of::<State>(), access, shared, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED, "no room to map the state");
        Self(at.cast())
    }
}

impl std::ops::Deref for Mapped {
    type Target = State;
    fn deref(&self) -> &State {
        // SAFETY: mapped until it is dropped, page-aligned, and atomics alone, for which any value is
        // valid.
        unsafe { &*self.0 }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`, to which no reference is left.
        unsafe { libc::munmap(self.0.cast(), size_of::<State>()) };
    }
}

/// The state of the end that this process belongs to.
pub fn own() -> &'static State {
    struct Leaked(&'static State);
    static OWN: OnceLock<Leaked> = OnceLock::new();
    OWN.get_or_init(|| {
        let path = std::env::var_os(VARIABLE).unwrap();
        Leaked(Box::leak(Box::new(Mapped::open(Path::new(&path)))))
    })
    .0
}

/// How often each kind was done; and of how many looks at it how many found it in the ring.
#[derive(Clone, Debug)]
pub struct Tally([[u64; 3]; Kind::ALL.len()]);

impl Default for Tally {
    fn default() -> Self {
        Self([[0; 3]; Kind::ALL.len()])
    }
}

impl Tally {
    /// Takes what an end did in.
    pub fn add(&mut self, state: &State) {
        for (at, sum) in self.0.iter_mut().enumerate() {
            let all = [&state.done, &state.looked, &state.carried];
            for (sum, counts) in sum.iter_mut().zip(all) {
                *sum += counts[at].load(Ordering::Relaxed);
            }
        }
    }
    /// Takes another's in.
    pub fn merge(&mut self, other: &Self) {
        let all = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        all.for_each(|(sum, more)| *sum += more);
    }
    /// How often.
    pub fn done(&self, kind: Kind) -> u64 {
        self.0[kind as usize][0]
    }
    /// In the ring, of those looked at.
    pub fn carried(&self, kind: Kind) -> u64 {
        self.0[kind as usize][2]
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each =
            Kind::ALL.iter().zip(&self.0).map(|(kind, [done, looked, carried])| match looked {
                0 => format!("{kind:?} {done}"),
                _ => format!("{kind:?} {done} ({}% in the ring)", carried * 100 / looked),
            });
        f.write_str(&each.collect::<Vec<_>>().join(", "))
    }
}

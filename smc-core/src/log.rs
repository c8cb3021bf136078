//! Log lines from inside a program that knows nothing of us.
//!
//! An ordinary logger does not do there. Its writes come back through our hooks; it allocates
//! inside the program's allocator; and once the program has closed descriptor 2 and opened a
//! socket in its place, its text goes to the program's peer. So a line is built on the stack and
//! written by a raw system call, and only while descriptor 2 is still the file that it was at the
//! start. It is dropped rather than wait for a reader or raise SIGPIPE.
#![allow(unsafe_code)]
use core::fmt::{self, Write};

use ::log::{LevelFilter, Metadata, Record};
use syscalls::{syscall, Sysno};

use crate::errno::Errno;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::growth;

/// Bytes of a line. Less than `PIPE_BUF`, so lines of several processes do not mix.
const LINE: usize = 1024;
const STDERR: usize = 2;

/// The sink behind the macros of the `log` crate.
#[derive(Debug)]
pub struct Log {
    /// [`UNKNOWN`], [`USABLE`] or [`UNUSABLE`]. Its release pairs with the acquire in `recorded`:
    /// who sees `USABLE` sees the numbers as well.
    state: AtomicU32,
    device: AtomicU64,
    inode: AtomicU64,
}

const UNKNOWN: u32 = 0;
const USABLE: u32 = 1;
const UNUSABLE: u32 = 2;

static SINK: Log =
    Log { state: AtomicU32::new(UNKNOWN), device: AtomicU64::new(0), inode: AtomicU64::new(0) };

/// Remembers what descriptor 2 is, and has the `log` macros write there from `level` up.
///
/// To be called once, before the program's `main`; a later call changes the level alone.
pub fn install(level: LevelFilter) {
    SINK.record();
    // The only way to fail is that a logger is there already; ours is the only one in this image.
    let _ = ::log::set_logger(&SINK);
    ::log::set_max_level(level);
}

/// Writes one line at any level, for warnings about the settings themselves.
pub fn warn_line(text: fmt::Arguments<'_>) {
    SINK.record();
    SINK.write_line(format_args!("warning: {text}"));
}

impl ::log::Log for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= ::log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = match record.level() {
                ::log::Level::Error => "error",
                ::log::Level::Warn => "warning",
                ::log::Level::Info => "info",
                ::log::Level::Debug => "debug",
                ::log::Level::Trace => "trace",
            };
            self.write_line(format_args!("[{}] {level}: {}", pid(), record.args()));
        }
    }

    fn flush(&self) {}
}

impl Log {
    /// Remembers what descriptor 2 is, the first time.
    fn record(&self) {
        if self.state.load(Ordering::Acquire) != UNKNOWN {
            return;
        }
        let state = match identity(STDERR) {
            Some((device, inode)) if !is_internet_socket(STDERR) => {
                self.device.store(device, Ordering::Relaxed);
                self.inode.store(inode, Ordering::Relaxed);
                USABLE
            }
            _ => UNUSABLE,
        };
        self.state.store(state, Ordering::Release);
    }

    fn is_unchanged(&self) -> bool {
        self.state.load(Ordering::Acquire) == USABLE
            && identity(STDERR)
                == Some((self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed)))
    }

    fn write_line(&self, text: fmt::Arguments<'_>) {
        if !self.is_unchanged() || !takes_a_line(STDERR) {
            return;
        }
        let mut line = Line { bytes: [0; LINE], len: 0 };
        // A line that does not fit is cut off; the buffer holds what fitted.
        let _ = write!(line, "smc-run: {text}");
        write_all_or_nothing(STDERR, line.finish());
    }
}

/// A line under construction. Control characters become spaces, so that it stays one.
struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Line {
    fn finish(&mut self) -> &[u8] {
        let end = self.len.min(LINE - 1);
        if let Some(byte) = self.bytes.get_mut(end) {
            *byte = b'\n';
        }
        self.bytes.get(..=end).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // One byte is kept for the end of the line.
            if self.len >= LINE - 1 {
                return Err(fmt::Error);
            }
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = if byte.is_ascii_control() { b' ' } else { byte };
            }
            self.len += 1;
        }
        Ok(())
    }
}

/// Device and inode of what a descriptor stands for.
fn identity(fd: usize) -> Option<(u64, u64)> {
    // `struct stat` is 144 bytes long at most, and begins with st_dev and st_ino, 64 bits each,
    // on every 64-bit Linux.
    let mut stat = [0u64; 32];
    // SAFETY: fstat needs a place of the size of `struct stat`, which `stat` exceeds; the kernel
    // keeps no pointer to it.
    unsafe { syscall!(Sysno::fstat, fd, stat.as_mut_ptr()) }.ok()?;
    let [device, inode, ..] = stat;
    Some((device, inode))
}

/// Whether the descriptor is a socket of another family than AF_UNIX: under inetd and its like
/// descriptor 2 is the connection to the client.
fn is_internet_socket(fd: usize) -> bool {
    const SOL_SOCKET: usize = 1;
    const SO_DOMAIN: usize = 39;
    const AF_UNIX: u32 = 1;
    let mut domain = 0u32;
    let mut len = 4u32;
    // SAFETY: getsockopt needs `len` bytes at `domain`, and a length to change; both are local
    // variables of that size, and the kernel keeps no pointer to them.
    let result = unsafe {
        syscall!(Sysno::getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &raw mut domain, &raw mut len)
    };
    result.is_ok() && domain != AF_UNIX
}

/// Whether a write would neither wait nor raise SIGPIPE.
fn takes_a_line(fd: usize) -> bool {
    const POLLOUT: i16 = 4;
    #[repr(C)]
    struct PollFd {
        fd: i32,
        events: i16,
        revents: i16,
    }
    let Ok(fd) = i32::try_from(fd) else { return false };
    let mut entry = PollFd { fd, events: POLLOUT, revents: 0 };
    let mut timeout = [0u64; 2];
    let entries = &raw mut entry;
    // SAFETY: ppoll needs one `struct pollfd`, which `entry` is by its layout, and a timespec of
    // two 64-bit words; both are local, the signal mask is absent, and nothing is kept.
    let result = unsafe { syscall!(Sysno::ppoll, entries, 1, timeout.as_mut_ptr(), 0, 0) };
    result.is_ok() && entry.revents == POLLOUT
}

fn write_all_or_nothing(fd: usize, line: &[u8]) {
    loop {
        // Whoever logs has no use for a failure of it.
        if growth::write(fd as i32, line) != Err(Errno(libc::EINTR)) {
            return;
        }
    }
}

fn pid() -> usize {
    // SAFETY: getpid takes no argument and touches no memory.
    unsafe { syscall!(Sysno::getpid) }.unwrap_or_default()
}

//! Calls that make a file longer. Past the process's RLIMIT_FSIZE the kernel refuses them, and sends
//! SIGXFSZ besides, of which a program dies that has written nothing itself.
use super::raw::{self, SysResult};
use crate::errno::Errno;
use libc::c_int;
use syscalls::Sysno;

const SIGNAL: u64 = 1 << (libc::SIGXFSZ - 1);

/// `ftruncate`.
pub fn ftruncate(fd: c_int, len: usize) -> SysResult {
    quietly(|| call(Sysno::ftruncate, [fd as usize, len, 0, 0]))
}

/// `fallocate` of a range, without changing the size.
pub fn fallocate(fd: c_int, offset: usize, len: usize) -> SysResult {
    let mode = libc::FALLOC_FL_KEEP_SIZE as usize;
    quietly(|| call(Sysno::fallocate, [fd as usize, mode, offset, len]))
}

/// `write` of a whole buffer of ours.
pub fn write(fd: c_int, bytes: &[u8]) -> SysResult {
    quietly(|| raw::write(fd, bytes))
}

fn call(number: Sysno, [a, b, c, d]: [usize; 4]) -> SysResult {
    // SAFETY: requires arguments valid for the call: it takes no pointer.
    unsafe { raw::call6(number, [a, b, c, d, 0, 0]) }
}

/// The signal goes to the thread that calls: it is blocked there meanwhile, and taken away, unless
/// the program has one that waits already.
fn quietly(call: impl FnOnce() -> SysResult) -> SysResult {
    let before = raw::signal_mask();
    raw::set_signal_mask(before | SIGNAL);
    let waits = pending() & SIGNAL != 0;
    let result = call();
    if result == Err(Errno(libc::EFBIG)) && !waits {
        take();
    }
    raw::set_signal_mask(before);
    result
}

fn pending() -> u64 {
    let mut set = 0_u64;
    let arguments = [&raw mut set as usize, 8, 0, 0, 0, 0];
    // SAFETY: requires room for a set of 8 bytes.
    let _ = unsafe { raw::call6(Sysno::rt_sigpending, arguments) };
    set
}

fn take() {
    let (set, at_once) = (SIGNAL, [0_u64; 2]);
    let arguments = [&raw const set as usize, 0, at_once.as_ptr() as usize, 8, 0, 0];
    // SAFETY: requires a set of 8 bytes and a timespec, which two zeros are.
    let _ = unsafe { raw::call6(Sysno::rt_sigtimedwait, arguments) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// In a child: the limit is the process's.
    #[test]
    fn the_signal_is_left_out() {
        let fd = raw::memfd(c"smc-test").unwrap();
        // SAFETY: the child makes system calls alone, and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
            // SAFETY: a valid limit.
            unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
            let large = Err(Errno(libc::EFBIG));
            let right = ftruncate(fd, 4096).is_ok()
                && ftruncate(fd, 8192) == large
                && fallocate(fd, 4096, 8192) == large
                && raw::lseek(fd, 4096, libc::SEEK_SET) == Ok(4096)
                && write(fd, b"more") == large
                && pending() & SIGNAL == 0
                && raw::signal_mask() & SIGNAL == 0;
            // SAFETY: ends the child.
            unsafe { libc::_exit(if right { 7 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: room for the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 7 << 8);
        raw::close(fd);
    }
}

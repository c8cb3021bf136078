//! Processes, descriptors and signals for case programs.

use super::net::{check_fd, Errno, Fd, Res};
use crate::libc_call as call;

/// How a forked child leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// exit(3): handlers and destructors run.
    Exit,
    /// _exit(2): nothing runs.
    Quick,
}

/// Leaves the process the given way.
pub fn leave(how: Leave, code: i32) -> ! {
    match how {
        // SAFETY: no pointers; the process ends here.
        Leave::Exit => unsafe { libc::exit(code) },
        // SAFETY: no pointers; the process ends here.
        Leave::Quick => unsafe { libc::_exit(code) },
    }
}

/// Forks; the child runs `body` and leaves with its value through exit(3).
pub fn child(body: impl FnOnce() -> i32) -> i32 {
    child_that_leaves(Leave::Exit, body)
}

/// Forks; the child runs `body` and leaves the given way.
pub fn child_that_leaves(how: Leave, body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: case programs fork only where no other thread holds a lock that the child needs.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", Errno::last());
    if pid == 0 {
        leave(how, body());
    }
    pid
}

/// Waits for a child: `exit N` or `signal N`.
pub fn wait(pid: i32) -> String {
    let mut status = 0;
    loop {
        match call!(libc::waitpid(pid, &mut status, 0)) {
            Ok(_) if libc::WIFEXITED(status) => {
                return format!("exit {}", libc::WEXITSTATUS(status))
            }
            Ok(_) => return format!("signal {}", libc::WTERMSIG(status)),
            Err(Errno(libc::EINTR)) => {}
            Err(e) => return e.to_string(),
        }
    }
}

/// kill(2).
pub fn kill(pid: i32, signal: i32) -> Res {
    assert!(pid > 0, "kill of a group");
    call!(libc::kill(pid, signal))
}

/// dup(2).
pub fn dup(fd: Fd) -> Result<Fd, Errno> {
    // SAFETY: no pointers.
    check_fd(unsafe { libc::dup(fd) })
}

/// dup2(2).
pub fn dup2(from: Fd, to: Fd) -> Result<Fd, Errno> {
    // SAFETY: no pointers.
    check_fd(unsafe { libc::dup2(from, to) })
}

/// pipe(2): the end to read, the end to write.
pub fn pipe() -> (Fd, Fd) {
    let mut ends = [0; 2];
    call!(libc::pipe(ends.as_mut_ptr())).unwrap();
    (ends[0], ends[1])
}

/// Reads one byte, such as a baton.
pub fn read_byte(fd: Fd) {
    let mut byte = [0_u8; 1];
    assert_eq!(call!(libc::read(fd, byte.as_mut_ptr().cast(), 1)), Ok(1));
}

/// Writes one byte.
pub fn write_byte(fd: Fd) {
    assert_eq!(call!(libc::write(fd, c"x".as_ptr().cast(), 1)), Ok(1));
}

/// The open descriptors of this process, without the one that lists them.
pub fn open_fds() -> Vec<Fd> {
    let listed = std::fs::read_dir("/proc/self/fd").unwrap();
    let all: Vec<Fd> =
        listed.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    // The directory itself is closed by now, so it alone no longer answers.
    let mut live: Vec<Fd> =
        all.into_iter().filter(|&fd| call!(libc::fcntl(fd, libc::F_GETFD)).is_ok()).collect();
    live.sort_unstable();
    live
}

/// Processor time used so far by this process, in microseconds.
pub fn cpu_micros() -> i64 {
    // SAFETY: rusage is plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    call!(libc::getrusage(libc::RUSAGE_SELF, &mut usage)).unwrap();
    let micros = |t: libc::timeval| t.tv_sec * 1_000_000 + t.tv_usec;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

/// Sleeps.
pub fn pause_ms(millis: u64) {
    std::thread::sleep(std::time::Duration::from_millis(millis));
}

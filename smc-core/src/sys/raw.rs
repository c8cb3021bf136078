//! Raw system calls: never a PLT entry (our own hooks would answer), never `errno`, never a
//! cancellation point. All of them return at once: what may block is in [`super::real`].
use crate::errno::Errno;
use libc::{c_int, c_void, epoll_event, pollfd, sigset_t, socklen_t, timespec};
use syscalls::{raw_syscall, Sysno};

/// The result of a system call.
pub type SysResult = Result<usize, Errno>;

fn check(value: usize) -> SysResult {
    // The kernel returns -4095..=-1 for errors.
    if value > usize::MAX - 4096 {
        let negated = value.wrapping_neg();
        Err(Errno(i32::try_from(negated).unwrap_or(libc::EIO)))
    } else {
        Ok(value)
    }
}

/// A system call of any number with arguments that the program chose.
///
/// # Safety
/// As the system call: pointers must be what it expects.
pub unsafe fn call6(number: Sysno, a: [usize; 6]) -> SysResult {
    // SAFETY: requires arguments valid for `number`; the caller's promise.
    check(unsafe { raw_syscall!(number, a[0], a[1], a[2], a[3], a[4], a[5]) })
}

macro_rules! sys {
    ($number:expr $(, $arg:expr)*) => {{
        // SAFETY: requires that every pointer argument is valid for the size the kernel reads or
        // writes; each is derived from a reference or an owned buffer in the wrapper below, or is
        // the program's own pointer, for which the kernel answers EFAULT.
        check(unsafe { raw_syscall!($number $(, $arg)*) })
    }};
}

/// A descriptor as a system call's argument.
fn fd_arg(fd: c_int) -> usize {
    fd as usize
}

fn to_fd(value: usize) -> c_int {
    value as c_int
}

/// `close`; errors are of no use to a caller.
pub fn close(fd: c_int) {
    let _ = sys!(Sysno::close, fd_arg(fd));
}

/// `fcntl` with an integer argument.
pub fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> SysResult {
    sys!(Sysno::fcntl, fd_arg(fd), cmd as usize, arg)
}

/// Whether O_NONBLOCK is set on the open file.
pub fn is_nonblocking(fd: c_int) -> bool {
    matches!(fcntl(fd, libc::F_GETFL, 0), Ok(flags) if flags & libc::O_NONBLOCK as usize != 0)
}

/// `getpid`, asked of the kernel: right in a vfork child as well.
pub fn getpid() -> u32 {
    sys!(Sysno::getpid).map_or(0, |pid| pid as u32)
}

/// `gettid`.
pub fn gettid() -> u32 {
    sys!(Sysno::gettid).map_or(0, |tid| tid as u32)
}

/// `getuid`.
pub fn getuid() -> u32 {
    sys!(Sysno::getuid).map_or(u32::MAX, |uid| uid as u32)
}

/// `getppid`.
pub fn getppid() -> u32 {
    sys!(Sysno::getppid).map_or(0, |pid| pid as u32)
}

/// Real and effective ids, of user and group.
pub fn user_ids() -> [[u32; 2]; 2] {
    let id = |got: SysResult| got.map_or(u32::MAX, |id| id as u32);
    [
        [id(sys!(Sysno::getuid)), id(sys!(Sysno::getgid))],
        [id(sys!(Sysno::geteuid)), id(sys!(Sysno::getegid))],
    ]
}

/// Whether a thread or process of this id exists.
pub fn exists(id: u32) -> bool {
    // kill(2) with signal 0 takes thread ids as well.
    !matches!(sys!(Sysno::kill, id as usize, 0_usize), Err(Errno(libc::ESRCH)))
}

/// Whether the calling process has a child that lives, or that it has not waited for.
pub fn has_children() -> bool {
    let how = libc::WNOHANG | libc::WNOWAIT | libc::WEXITED | libc::__WALL;
    let all = libc::P_ALL as usize;
    let found = sys!(Sysno::waitid, all, 0_usize, 0_usize, how as usize, 0_usize);
    found != Err(Errno(libc::ECHILD))
}

/// `sched_yield`.
pub fn yield_now() {
    let _ = sys!(Sysno::sched_yield);
}

/// Number of processors that this thread may run on.
pub fn allowed_cpus() -> u32 {
    let mut mask = [0_u64; 16];
    let size = core::mem::size_of_val(&mask);
    match sys!(Sysno::sched_getaffinity, 0_usize, size, mask.as_mut_ptr() as usize) {
        Ok(_) => mask.iter().map(|word| word.count_ones()).sum(),
        Err(_) => 1,
    }
}

/// Fills the buffer from the kernel's generator; false if it will not.
pub fn random(buf: &mut [u8]) -> bool {
    // GRND_NONBLOCK: an early boot must not block a program.
    sys!(Sysno::getrandom, buf.as_mut_ptr() as usize, buf.len(), 1_usize) == Ok(buf.len())
}

/// `memfd_create` with sealing allowed, close-on-exec.
pub fn memfd(name: &core::ffi::CStr) -> Result<c_int, Errno> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    sys!(Sysno::memfd_create, name.as_ptr() as usize, flags as usize).map(to_fd)
}

/// Size of an open file.
pub fn file_size(fd: c_int) -> Result<u64, Errno> {
    // SAFETY: requires an all-zero bit pattern to be a valid `stat`; it is plain integers.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    sys!(Sysno::fstat, fd_arg(fd), &raw mut stat as usize)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Number of an open file's inode, or 0.
pub fn inode(fd: c_int) -> u64 {
    // SAFETY: as in `file_size`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    sys!(Sysno::fstat, fd_arg(fd), &raw mut stat as usize).map_or(0, |_| stat.st_ino)
}

/// Kind and permissions of an open file.
pub fn file_mode(fd: c_int) -> Option<u32> {
    // SAFETY: as in `file_size`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    sys!(Sysno::fstat, fd_arg(fd), &raw mut stat as usize).ok().map(|_| stat.st_mode)
}

/// User of an open file.
pub fn owner(fd: c_int) -> Option<u32> {
    // SAFETY: as in `file_size`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    sys!(Sysno::fstat, fd_arg(fd), &raw mut stat as usize).ok().map(|_| stat.st_uid)
}

/// Whether the descriptor is a pipe.
pub fn is_pipe(fd: c_int) -> bool {
    file_mode(fd).is_some_and(|mode| mode & libc::S_IFMT == libc::S_IFIFO)
}

/// What tells a file apart from all others, and from what it was before it was written again:
/// device, inode, size, time of the last change. Zeros where there is none.
pub fn identity(path: &core::ffi::CStr) -> [u64; 4] {
    // SAFETY: as in `file_size`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    match sys!(Sysno::stat, path.as_ptr() as usize, &raw mut stat as usize) {
        Ok(_) => {
            let changed =
                stat.st_ctime.wrapping_mul(1_000_000_000).wrapping_add(stat.st_ctime_nsec);
            [stat.st_dev, stat.st_ino, stat.st_size as u64, changed as u64]
        }
        Err(_) => [0; 4],
    }
}

/// `eventfd`, nonblocking, close-on-exec.
pub fn eventfd() -> Result<c_int, Errno> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    sys!(Sysno::eventfd2, 0_usize, flags as usize).map(to_fd)
}

/// Adds one to an eventfd: rings the bell.
pub fn eventfd_ring(fd: c_int) {
    let one = 1_u64;
    let _ = sys!(Sysno::write, fd_arg(fd), &raw const one as usize, 8_usize);
}

/// Sets an eventfd back to zero.
pub fn eventfd_clear(fd: c_int) {
    let mut count = 0_u64;
    let _ = sys!(Sysno::read, fd_arg(fd), &raw mut count as usize, 8_usize);
}

/// `socket`.
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    sys!(Sysno::socket, domain as usize, kind as usize, protocol as usize).map(to_fd)
}

/// `bind`, `connect`: an address of any family as bytes.
pub fn bind(fd: c_int, address: &[u8]) -> SysResult {
    sys!(Sysno::bind, fd_arg(fd), address.as_ptr() as usize, address.len())
}

/// `connect` of an internal, nonblocking socket.
pub fn connect(fd: c_int, address: &[u8]) -> SysResult {
    sys!(Sysno::connect, fd_arg(fd), address.as_ptr() as usize, address.len())
}

/// `listen`.
pub fn listen(fd: c_int, backlog: usize) -> SysResult {
    sys!(Sysno::listen, fd_arg(fd), backlog)
}

/// `accept4` on a nonblocking internal listener.
pub fn accept(fd: c_int) -> Result<c_int, Errno> {
    let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as usize;
    sys!(Sysno::accept4, fd_arg(fd), 0_usize, 0_usize, flags).map(to_fd)
}

/// `getsockopt` of a plain value.
pub fn getsockopt<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &mut T) -> SysResult {
    let mut len = core::mem::size_of::<T>() as socklen_t;
    sys!(
        Sysno::getsockopt,
        fd_arg(fd),
        level as usize,
        name as usize,
        (value as *mut T).cast::<c_void>() as usize,
        &raw mut len as usize
    )?;
    Ok(len as usize)
}

/// `setsockopt` of a plain value.
pub fn setsockopt<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &T) -> SysResult {
    sys!(
        Sysno::setsockopt,
        fd_arg(fd),
        level as usize,
        name as usize,
        (value as *const T).cast::<c_void>() as usize,
        core::mem::size_of::<T>()
    )
}

/// `getsockname`: the address and its length.
pub fn getsockname(fd: c_int, address: &mut [u8; 128]) -> SysResult {
    let mut len = address.len() as socklen_t;
    sys!(Sysno::getsockname, fd_arg(fd), address.as_mut_ptr() as usize, &raw mut len as usize)?;
    Ok(len as usize)
}

/// `getpeername`: the address and its length.
pub fn getpeername(fd: c_int, address: &mut [u8; 128]) -> SysResult {
    let mut len = address.len() as socklen_t;
    sys!(Sysno::getpeername, fd_arg(fd), address.as_mut_ptr() as usize, &raw mut len as usize)?;
    Ok(len as usize)
}

/// `ioctl` that yields an int.
pub fn ioctl_int(fd: c_int, request: u64) -> Result<c_int, Errno> {
    let mut value: c_int = 0;
    sys!(Sysno::ioctl, fd_arg(fd), request as usize, &raw mut value as usize)?;
    Ok(value)
}

/// `recv` into a buffer of ours; always with MSG_DONTWAIT.
pub fn recv(fd: c_int, buf: &mut [u8], flags: c_int) -> SysResult {
    recv_user(fd, buf.as_mut_ptr(), buf.len(), flags)
}

/// `recv` into the program's buffer, always with MSG_DONTWAIT; a bad pointer is EFAULT.
pub fn recv_user(fd: c_int, buf: *mut u8, len: usize, flags: c_int) -> SysResult {
    let flags = (flags | libc::MSG_DONTWAIT) as usize;
    sys!(Sysno::recvfrom, fd_arg(fd), buf as usize, len, flags, 0_usize, 0_usize)
}

/// `send` of the program's buffer, always with MSG_DONTWAIT | MSG_NOSIGNAL.
pub fn send_user(fd: c_int, buf: *const u8, len: usize, flags: c_int) -> SysResult {
    let flags = (flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    sys!(Sysno::sendto, fd_arg(fd), buf as usize, len, flags, 0_usize, 0_usize)
}

/// `sendmsg`, always with MSG_DONTWAIT | MSG_NOSIGNAL.
pub fn sendmsg(fd: c_int, message: &libc::msghdr, flags: c_int) -> SysResult {
    let flags = (flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    sys!(Sysno::sendmsg, fd_arg(fd), message as *const libc::msghdr as usize, flags)
}

/// `recvmsg`, always with MSG_DONTWAIT | MSG_CMSG_CLOEXEC.
pub fn recvmsg(fd: c_int, message: &mut libc::msghdr, flags: c_int) -> SysResult {
    let flags = (flags | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) as usize;
    sys!(Sysno::recvmsg, fd_arg(fd), message as *mut libc::msghdr as usize, flags)
}

/// Repeats a call that a signal cut short: `poll` says EINTR for a pending one even if it does not
/// wait at all.
fn again(call: impl Fn() -> SysResult) -> SysResult {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Which of the events are there now, for one descriptor; errors read as POLLNVAL.
pub fn poll_now(fd: c_int, events: i16) -> i16 {
    let entry = core::cell::Cell::new(pollfd { fd, events, revents: 0 });
    match again(|| sys!(Sysno::poll, entry.as_ptr() as usize, 1_usize, 0_usize)) {
        Ok(_) => entry.get().revents,
        Err(_) => libc::POLLNVAL,
    }
}

/// `poll` with no wait.
pub fn poll_many(fds: &mut [pollfd]) -> SysResult {
    let (first, count) = (fds.as_mut_ptr() as usize, fds.len());
    again(|| sys!(Sysno::poll, first, count, 0_usize))
}

/// `epoll_create1(EPOLL_CLOEXEC)`.
pub fn epoll_create() -> Result<c_int, Errno> {
    sys!(Sysno::epoll_create1, libc::EPOLL_CLOEXEC as usize).map(to_fd)
}

/// `epoll_ctl`.
pub fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> SysResult {
    let mut event = epoll_event { events, u64: data };
    sys!(Sysno::epoll_ctl, fd_arg(epfd), op as usize, fd_arg(fd), &raw mut event as usize)
}

/// `epoll_wait` with no wait.
pub fn epoll_now(epfd: c_int, events: &mut [epoll_event]) -> SysResult {
    let none: *const sigset_t = core::ptr::null();
    sys!(
        Sysno::epoll_pwait,
        fd_arg(epfd),
        events.as_mut_ptr() as usize,
        events.len(),
        0_usize,
        none as usize,
        8_usize
    )
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_MONOTONIC as usize;
    let _ = sys!(Sysno::clock_gettime, clock, &raw mut now as usize);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// `pread64` into memory that the caller vouches for by address (the program's, or a ring).
pub fn pread(fd: c_int, buf: *mut u8, len: usize, offset: u64) -> SysResult {
    sys!(Sysno::pread64, fd_arg(fd), buf as usize, len, offset as usize)
}

/// `lseek`.
pub fn lseek(fd: c_int, offset: i64, whence: c_int) -> SysResult {
    sys!(Sysno::lseek, fd_arg(fd), offset as usize, whence as usize)
}

/// Opens a file for appending, close-on-exec; the path ends with a NUL.
pub fn open_append(path: &core::ffi::CStr) -> Result<c_int, Errno> {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    sys!(
        Sysno::openat,
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        flags as usize,
        0o644_usize
    )
    .map(to_fd)
}

/// Opens a file for reading, close-on-exec.
pub fn open_read(path: &core::ffi::CStr) -> Result<c_int, Errno> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    sys!(Sysno::openat, libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, 0_usize)
        .map(to_fd)
}

/// Opens a directory, close-on-exec.
pub fn open_dir(path: &core::ffi::CStr) -> Result<c_int, Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    sys!(Sysno::openat, libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, 0_usize)
        .map(to_fd)
}

/// `getdents64`: the next entries of a directory.
pub fn list_dir(fd: c_int, entries: &mut [u8]) -> SysResult {
    sys!(Sysno::getdents64, fd_arg(fd), entries.as_mut_ptr() as usize, entries.len())
}

/// Whether the calling process has one thread alone.
pub fn is_single_threaded() -> bool {
    // SAFETY: as in `file_size`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let path = c"/proc/self/task";
    // A directory has a link for itself, one in its parent, and one for each that it holds.
    sys!(Sysno::stat, path.as_ptr() as usize, &raw mut stat as usize).is_ok() && stat.st_nlink == 3
}

/// The signals that this thread blocks.
pub fn signal_mask() -> u64 {
    let mut mask = 0_u64;
    let how = libc::SIG_BLOCK as usize;
    let _ = sys!(Sysno::rt_sigprocmask, how, 0_usize, &raw mut mask as usize, 8_usize);
    mask
}

/// Sets the signals that this thread blocks.
pub fn set_signal_mask(mask: u64) {
    let how = libc::SIG_SETMASK as usize;
    let _ = sys!(Sysno::rt_sigprocmask, how, &raw const mask as usize, 0_usize, 8_usize);
}

/// Two connected Unix sockets that keep messages apart, nonblocking, close-on-exec.
pub fn socket_pair() -> Result<[c_int; 2], Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let mut fds: [c_int; 2] = [-1; 2];
    let (domain, out) = (libc::AF_UNIX as usize, fds.as_mut_ptr() as usize);
    sys!(Sysno::socketpair, domain, kind as usize, 0_usize, out)?;
    Ok(fds)
}

/// `write` of a whole buffer of ours.
pub fn write(fd: c_int, bytes: &[u8]) -> SysResult {
    sys!(Sysno::write, fd_arg(fd), bytes.as_ptr() as usize, bytes.len())
}

/// `read` into a buffer of ours.
pub fn read(fd: c_int, bytes: &mut [u8]) -> SysResult {
    sys!(Sysno::read, fd_arg(fd), bytes.as_mut_ptr() as usize, bytes.len())
}

/// The disposition of a signal as the kernel has it: handler address and flags.
pub fn signal_disposition(signal: c_int) -> Option<(usize, u64)> {
    // struct kernel_sigaction: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    sys!(Sysno::rt_sigaction, signal as usize, 0_usize, action.as_mut_ptr() as usize, 8_usize)
        .ok()?;
    Some((action[0], action[1] as u64))
}

/// Sends this thread a signal that the kernel would have sent.
pub fn raise_thread(signal: c_int) {
    let _ = sys!(Sysno::tgkill, getpid() as usize, gettid() as usize, signal as usize);
}

/// `shutdown`.
pub fn shutdown(fd: c_int, how: c_int) -> SysResult {
    sys!(Sysno::shutdown, fd_arg(fd), how as usize)
}

/// The soft limit of a resource.
pub fn soft_limit(resource: libc::__rlimit_resource_t) -> Result<u64, Errno> {
    let mut limit = [0_u64; 2];
    let to = limit.as_mut_ptr() as usize;
    sys!(Sysno::prlimit64, 0_usize, resource as usize, 0_usize, to)?;
    Ok(limit[0])
}

/// RWF_NOWAIT of `preadv2`.
const NOWAIT: usize = 8;

/// `read` that does not wait, also where the descriptor would; into memory that the caller vouches
/// for by address.
pub fn read_nowait(fd: c_int, buf: *mut u8, len: usize) -> SysResult {
    let iov = libc::iovec { iov_base: buf.cast(), iov_len: len };
    let iov = &raw const iov as usize;
    match sys!(Sysno::preadv2, fd_arg(fd), iov, 1_usize, usize::MAX, 0_usize, NOWAIT) {
        Err(Errno(libc::EOPNOTSUPP)) => sys!(Sysno::read, fd_arg(fd), buf as usize, len),
        other => other,
    }
}

/// `write` that does not wait, also where the descriptor would.
pub fn write_nowait(fd: c_int, buf: *const u8, len: usize) -> SysResult {
    let iov = libc::iovec { iov_base: buf.cast_mut().cast(), iov_len: len };
    let iov = &raw const iov as usize;
    match sys!(Sysno::pwritev2, fd_arg(fd), iov, 1_usize, usize::MAX, 0_usize, NOWAIT) {
        Err(Errno(libc::EOPNOTSUPP)) => sys!(Sysno::write, fd_arg(fd), buf as usize, len),
        other => other,
    }
}

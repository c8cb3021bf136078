//! E12 and E13: numbers that come to mean something else.

use libc::{c_int, c_long};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::{sys, wait, Conn, Subject};
use smc_tests::say;

/// `dup2`
fn dup2(old: c_int, new: c_int) -> Ret {
    // SAFETY: no pointers.
    Ret::of(unsafe { libc::dup2(old, new) })
}

/// `dup3`
fn dup3(old: c_int, new: c_int, flags: c_int) -> Ret {
    // SAFETY: no pointers.
    Ret::of(unsafe { libc::dup3(old, new, flags) })
}

/// Turns in both directions, under whatever number the connection has now.
fn works(conn: &Conn, fd: c_int) -> String {
    let sent = conn.sent(sys::send(fd, &conn.payload(5000)[..], 0));
    let read = conn.peer_reads(5000);
    conn.start_send(3000, 0);
    conn.finish();
    let mut room = vec![0; 3000];
    let ret = sys::recv(fd, &mut room[..], libc::MSG_WAITALL);
    format!("sent {sent}, peer read {read}, received {ret} {}", show::yes(conn.came(&room)))
}

/// One connection over another, a dead one over a live one, a live one over a dead one.
pub(crate) fn replaced(subject: &Subject) {
    let (one, mut two) = (subject.connect(), subject.connect());
    say!("one over two {}", show::yes(dup2(one.fd, two.fd).value == i64::from(two.fd)));
    two.start_read_to_end(false);
    say!("two's peer read {}", two.finish());
    say!("by the old number: {}", works(&one, one.fd));
    say!("by the new number: {}", works(&one, two.fd));
    say!("close the new {}", two.close());
    say!("by the old number: {}", works(&one, one.fd));

    for reset in [false, true] {
        let mut live = subject.connect();
        let dead = subject.connect();
        if reset {
            dead.peer_resets();
            wait::tcp_state(dead.fd, wait::state::CLOSE);
        } else {
            dead.peer_closes();
            wait::tcp_state(dead.fd, wait::state::CLOSE_WAIT);
        }
        say!("dead over live {}", show::yes(dup2(dead.fd, live.fd).value == i64::from(live.fd)));
        live.start_read_to_end(false);
        say!("live's peer read {}", live.finish());
        let mut room = [0; 10];
        say!("recv {}", sys::recv(live.fd, &mut room, 0));
        say!("again {}", sys::recv(dead.fd, &mut room, 0));
        live.close();

        let (live, mut dead) = (subject.connect(), subject.connect());
        if reset {
            dead.peer_resets();
        } else {
            dead.peer_closes();
        }
        let ret = dup3(live.fd, dead.fd, libc::O_CLOEXEC);
        say!("live over dead {}", show::yes(ret.value == i64::from(dead.fd)));
        say!("by the dead number: {}", works(&live, dead.fd));
        dead.close();
        say!("by its own: {}", works(&live, live.fd));
    }
}

/// Copies that the kernel refuses leave everything as it was.
pub(crate) fn refused(subject: &Subject) {
    let (one, two) = (subject.connect(), subject.connect());
    let closed = sys::dup(one.fd).expect("dup");
    sys::close(closed);
    say!("dup2 of a closed one: {}", dup2(closed, one.fd));
    say!("dup3 of a closed one: {}", dup3(closed, one.fd, 0));
    say!("dup3 with unknown flags: {}", dup3(one.fd, two.fd, 1 << 20));
    say!("dup3 with O_NONBLOCK: {}", dup3(one.fd, two.fd, libc::O_NONBLOCK));
    say!("dup3 onto itself: {}", dup3(one.fd, one.fd, 0));
    say!("dup2 onto itself: {}", show::yes(dup2(one.fd, one.fd).value == i64::from(one.fd)));
    say!("dup2 onto -1: {}", dup2(one.fd, -1));
    say!("dup2 onto too many: {}", dup2(one.fd, 1 << 30));
    say!("F_DUPFD from too many: {}", sys::fcntl(one.fd, libc::F_DUPFD, 1 << 30));
    // SAFETY: no pointers.
    let unknown = Ret::of(unsafe { libc::close_range(one.fd.unsigned_abs(), u32::MAX, 1 << 20) });
    say!("close_range with unknown flags: {unknown}");
    // SAFETY: no pointers.
    let turned = Ret::of(unsafe { libc::close_range(u32::MAX, one.fd.unsigned_abs(), 0) });
    say!("close_range upside down: {turned}");
    say!("one: {}", works(&one, one.fd));
    say!("two: {}", works(&two, two.fd));
    // A smaller limit does not close what is above it, and nothing can be put there.
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives here.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old) };
    let small = libc::rlimit { rlim_cur: libc::rlim_t::from(two.fd.unsigned_abs()), ..old };
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const small) };
    say!("dup2 above the limit: {}", dup2(1, two.fd));
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const old) };
    say!("two: {}", works(&two, two.fd));
}

/// `close` by an instruction of the program's own.
#[cfg(target_arch = "x86_64")]
fn close_unseen(fd: c_int) -> c_long {
    let mut ret = libc::SYS_close;
    // SAFETY: the system call takes a number and touches no memory.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ret,
            in("rdi") c_long::from(fd),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    ret
}

const MAKERS: [&str; 10] = [
    "open",
    "openat",
    "memfd_create",
    "eventfd",
    "epoll_create1",
    "socket",
    "dup",
    "F_DUPFD",
    "pipe",
    "socketpair",
];

/// Makes a descriptor, or two, of which the lower comes first.
fn make(how: &str) -> [c_int; 2] {
    let zero = c"/dev/zero".as_ptr();
    let mut ends = [-1; 2];
    // SAFETY: strings with their end, room for two numbers, no other pointers.
    unsafe {
        match how {
            "open" => ends[0] = libc::open(zero, libc::O_RDWR),
            "openat" => ends[0] = libc::openat(libc::AT_FDCWD, zero, libc::O_RDWR),
            "memfd_create" => ends[0] = libc::memfd_create(zero, 0),
            "eventfd" => ends[0] = libc::eventfd(1, 0),
            "epoll_create1" => ends[0] = libc::epoll_create1(0),
            "socket" => ends[0] = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0),
            "dup" => ends[0] = libc::dup(2),
            "F_DUPFD" => ends[0] = libc::fcntl(2, libc::F_DUPFD, 3),
            "pipe" => assert_eq!(libc::pipe(ends.as_mut_ptr()), 0),
            _ => {
                let kind = libc::SOCK_STREAM;
                assert_eq!(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()), 0);
            }
        }
    }
    if ends[1] >= 0 {
        ends.sort_unstable();
    }
    ends
}

fn kind(fd: c_int) -> u32 {
    // SAFETY: a stat is plain numbers, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the stat lives here.
    Ret::of(unsafe { libc::fstat(fd, &raw mut stat) }).expect("fstat");
    stat.st_mode & libc::S_IFMT
}

/// A number closed where no hook sees it, and taken by something else.
pub(crate) fn closed_unseen(subject: &Subject) {
    for name in MAKERS {
        let mut conn = subject.connect();
        let fd = std::mem::replace(&mut conn.fd, -1);
        say!("{name}: close {}", close_unseen(fd));
        let [new, twin] = make(name);
        say!("{name}: the same number {}, kind {:o}", show::yes(new == fd), kind(new));
        let flags = sys::fcntl(new, libc::F_GETFL, 0).expect("F_GETFL") | libc::O_NONBLOCK;
        sys::fcntl(new, libc::F_SETFL, flags);
        let mut room = [7_u8; 8];
        // SAFETY: the room is this long.
        let read = Ret::of_size(unsafe { libc::read(new, room.as_mut_ptr().cast(), 8) });
        say!("{name}: read {read}, recv {}", sys::recv(new, &mut room, libc::MSG_DONTWAIT));
        say!("{name}: events {}", wait::poll_now(new));
        conn.start_read_to_end(false);
        say!("{name}: peer read {}", conn.finish());
        sys::close(new);
        if twin >= 0 {
            sys::close(twin);
        }
    }
}

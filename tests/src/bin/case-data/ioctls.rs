//! C11 and C12: what `ioctl` tells, and urgent data.

use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, In};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::Subject;
use smc_tests::say;

extern "C" {
    fn sockatmark(fd: libc::c_int) -> libc::c_int;
}

const SIOCATMARK: libc::c_ulong = 0x8905;

fn ask(fd: i32, request: libc::c_ulong) -> String {
    let mut value = -7;
    let ret = sys::ioctl(fd, request, &mut value);
    if ret.value < 0 {
        ret.to_string()
    } else {
        value.to_string()
    }
}

/// How much is there, how much is on its way, where the mark is.
pub(crate) fn ioctls(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    let all = || {
        let mark = ask(fd, SIOCATMARK);
        // SAFETY: no pointers.
        let at = Ret::of(unsafe { sockatmark(fd) });
        format!("FIONREAD {} SIOCATMARK {mark} sockatmark {at}", ask(fd, libc::FIONREAD))
    };
    say!("nothing: {}", all());
    for size in [1, 1000, 100_000] {
        conn.peer_sends(size);
        say!("{size} there: {}", all());
        let half = size / 2;
        say!("half taken {}: {}", show::yes(conn.takes(half)), all());
        say!("all taken {}: {}", show::yes(conn.takes(size - half)), all());
    }
    for size in [1, 1000, 20_000] {
        let ret = conn.send(size, 0);
        let gone = wait::until(|| ask(fd, libc::TIOCOUTQ) == "0");
        say!("sent {ret}, unread by the peer, on its way no more: {}", show::yes(gone));
        say!("peer read {}, out {}", conn.peer_reads(size), ask(fd, libc::TIOCOUTQ));
    }
    say!("unknown {}", ask(fd, 0x0000_5bad));
    for request in [libc::FIONREAD, libc::TIOCOUTQ, libc::FIONBIO, SIOCATMARK] {
        // SAFETY: the kernel checks the address, which is bad on purpose.
        let ret = Ret::of(unsafe { libc::ioctl(fd, request, 1_usize) });
        say!("{request:#x} to a bad address: {ret}");
    }
    conn.peer_sends(10);
    conn.peer_shuts(libc::SHUT_WR);
    wait::tcp_state(fd, wait::state::CLOSE_WAIT);
    say!("before the end: {}", all());
    say!("taken {}: {}", show::yes(conn.takes(10)), all());
    say!("closed by us {}: {}", sys::shutdown(fd, libc::SHUT_RDWR), all());
}

/// `FIONBIO`, `O_NONBLOCK`, a dup, and DONTWAIT all say the same thing.
pub(crate) fn nonblocking(subject: &Subject) {
    let conn = subject.connect();
    let other = sys::dup(conn.fd).expect("dup");
    let mut room = [0; 10];
    let mut look = |what: &str| {
        let flag = |fd| sys::fcntl(fd, libc::F_GETFL, 0).expect("F_GETFL") & libc::O_NONBLOCK != 0;
        let (a, b) = (show::yes(flag(conn.fd)), show::yes(flag(other)));
        say!("{what}: O_NONBLOCK {a} {b}");
        if flag(conn.fd) {
            for way in In::ALL {
                let (one, two) = (way.call(conn.fd, &mut room, 0), way.call(other, &mut room, 0));
                say!("  {way:?} {one} {two}");
            }
        } else {
            conn.start_send(4, 20);
            say!("  blocking {}", sys::recv(other, &mut room[..4], libc::MSG_WAITALL));
            conn.finish();
        }
    };
    look("at first");
    say!("FIONBIO 1: {}", sys::ioctl(conn.fd, libc::FIONBIO, &mut 1));
    look("on");
    say!("FIONBIO 0: {}", sys::ioctl(other, libc::FIONBIO, &mut 0));
    look("off");
    sys::nonblocking(other, true);
    look("on by the dup");
    sys::nonblocking(conn.fd, false);
    look("off by the first");
    sys::close(other);
}

/// Urgent data: apart from the stream, or in it.
pub(crate) fn urgent(subject: &Subject) {
    for inline in [false, true] {
        let conn = subject.connect();
        let fd = conn.fd;
        say!("inline {}: {}", show::yes(inline), {
            sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, i32::from(inline))
        });
        let epoll = Epoll::new();
        epoll.add(fd, (libc::EPOLLIN | libc::EPOLLPRI).cast_unsigned(), 0);
        let mut room = [0; 32];
        say!("none: {} {}", sys::recv(fd, &mut room, libc::MSG_OOB), epoll.now());
        conn.peer_sends(5);
        conn.peer_urgent(b'!');
        let urgent = wait::until(|| wait::poll(fd, libc::POLLPRI, 0).0.value == 1);
        say!("urgent {}: {} {}", show::yes(urgent), wait::poll_now(fd), epoll.now());
        // FIONREAD stops at the mark, so it cannot tell when these have come.
        conn.start_send(5, 0);
        conn.finish();
        wait::pause(20);
        say!("at mark {} of {}", ask(fd, SIOCATMARK), ask(fd, libc::FIONREAD));
        let ret = sys::recv(fd, &mut room, 0);
        say!("before the mark: {ret} {}", show::sum(&room[..ret.count()]));
        say!("at mark {}", ask(fd, SIOCATMARK));
        let peek = sys::recv(fd, &mut room[..1], libc::MSG_OOB | libc::MSG_PEEK);
        let ret = sys::recv(fd, &mut room[..1], libc::MSG_OOB);
        say!("out of band: {peek} {ret} {}", show::sum(&room[..1]));
        let ret = sys::recv(fd, &mut room, 0);
        say!("after: {ret} {}", show::sum(&room[..ret.count()]));
        say!("at the end: {} {}", wait::poll_now(fd), epoll.now());
        let ret = sys::send(fd, b"?", libc::MSG_OOB);
        say!("we send one: {ret}");
        conn.send(3, 0);
        say!("peer read {}", conn.peer_reads(3));
    }
}

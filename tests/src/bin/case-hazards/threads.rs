//! E11: one thread closes, replaces or shuts down what another one waits for.

use libc::{c_int, pollfd};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, In, Out};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{Conn, Subject};
use smc_tests::say;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A call that waits for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Data(In),
    Splice,
    Poll,
    Ppoll,
    Select,
    Pselect,
}

const WAITS: [Waits; 11] = [
    Waits::Data(In::Read),
    Waits::Data(In::Recv),
    Waits::Data(In::Recvfrom),
    Waits::Data(In::Readv),
    Waits::Data(In::Recvmsg),
    Waits::Data(In::Recvmmsg),
    Waits::Splice,
    Waits::Poll,
    Waits::Ppoll,
    Waits::Select,
    Waits::Pselect,
];

fn select_in(fd: c_int, with_mask: bool) -> Ret {
    // SAFETY: an fd_set is plain numbers, for which zero is valid.
    let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives here and the number is below its size.
    unsafe { libc::FD_SET(fd, &raw mut set) };
    let none = std::ptr::null_mut();
    // SAFETY: as above; the other pointers may be null.
    Ret::of(unsafe {
        if with_mask {
            let (time, mask) = (std::ptr::null(), std::ptr::null());
            libc::pselect(fd + 1, &raw mut set, none, none, time, mask)
        } else {
            libc::select(fd + 1, &raw mut set, none, none, std::ptr::null_mut())
        }
    })
}

/// From the socket to a pipe, and what is in the pipe then.
fn splice_in(fd: c_int) -> String {
    let (read, write) = std::io::pipe().unwrap();
    let none = std::ptr::null_mut();
    // SAFETY: offsets may be absent.
    let ret = Ret::of_size(unsafe { libc::splice(fd, none, write.as_raw_fd(), none, 64, 0) });
    let mut room = vec![0; ret.count()];
    In::Read.call(read.as_raw_fd(), &mut room[..], 0);
    format!("{ret} {}", show::sum(&room))
}

impl Waits {
    fn call(self, fd: c_int) -> String {
        match self {
            Self::Data(way) => {
                let mut room = [0; 64];
                let ret = way.call(fd, &mut room, 0);
                format!("{ret} {}", show::sum(&room[..ret.count().min(64)]))
            }
            Self::Splice => splice_in(fd),
            Self::Poll | Self::Ppoll => {
                let mut one = [pollfd { fd, events: libc::POLLIN, revents: 0 }];
                let ret = if self == Self::Poll {
                    wait::poll_all(&mut one, -1)
                } else {
                    let (time, mask) = (std::ptr::null(), std::ptr::null());
                    // SAFETY: one descriptor; the other pointers may be null.
                    Ret::of(unsafe { libc::ppoll(one.as_mut_ptr(), 1, time, mask) })
                };
                format!("{ret} {}", show::events(u32::from(one[0].revents.cast_unsigned())))
            }
            Self::Select => select_in(fd, false).to_string(),
            Self::Pselect => select_in(fd, true).to_string(),
        }
    }
}

/// A thread inside a call.
struct Waiter {
    done: Arc<AtomicBool>,
    thread: JoinHandle<String>,
}

impl Waiter {
    fn start(call: impl FnOnce() -> String + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: no pointers.
            tell.send(unsafe { libc::gettid() }).unwrap();
            let text = call();
            flag.store(true, Ordering::Release);
            text
        });
        wait::asleep(told.recv().unwrap());
        Self { done, thread }
    }

    fn has_returned(&self) -> bool {
        wait::pause(40);
        self.done.load(Ordering::Acquire)
    }

    fn join(self) -> String {
        self.thread.join().unwrap()
    }
}

/// A file in the place of the socket.
fn open_null() -> c_int {
    // SAFETY: a string with its end.
    Ret::of(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })
        .expect("/dev/null")
}

/// What the waiting thread and the peer see after `act` has taken the number away.
fn taken_away(subject: &Subject, act: impl Fn(&mut Conn) -> String) {
    for waits in WAITS {
        let mut conn = subject.connect();
        let fd = conn.fd;
        let waiter = Waiter::start(move || waits.call(fd));
        let acted = act(&mut conn);
        say!("{waits:?}: {acted}, returned {}", show::yes(waiter.has_returned()));
        // The call holds the socket: what comes is for it.
        conn.start_send(10, 0);
        let sent = conn.finish();
        say!("{waits:?}: peer sent {sent}, call {}", waiter.join());
        // With the call the socket has gone.
        conn.start_read_to_end(false);
        say!("{waits:?}: peer read {}", conn.finish());
    }
    // A sender goes on until all is with the peer.
    let mut conn = subject.connect();
    let fd = conn.fd;
    let payload = conn.payload(6 << 20);
    let waiter = Waiter::start(move || sys::send(fd, &payload[..], 0).to_string());
    let acted = act(&mut conn);
    say!("send: {acted}, returned {}", show::yes(waiter.has_returned()));
    conn.start_read_to_end(false);
    say!("send: peer read {}, call {}", conn.finish(), waiter.join());
    // An epoll instance does not hold it.
    let mut conn = subject.connect();
    let epoll = Epoll::new();
    epoll.add(conn.fd, libc::EPOLLIN.cast_unsigned(), 1);
    let waiter = Waiter::start(move || Epoll::list(&epoll.wait(4, 400)));
    let acted = act(&mut conn);
    conn.start_read_to_end(false);
    say!("epoll_wait: {acted}, peer read {}, call {}", conn.finish(), waiter.join());
}

/// `close` under a call that waits.
pub(crate) fn closed(subject: &Subject) {
    taken_away(subject, |conn| format!("close {}", conn.close()));
}

/// `dup2` of something else over it.
pub(crate) fn replaced(subject: &Subject) {
    taken_away(subject, |conn| {
        let null = open_null();
        let fd = std::mem::replace(&mut conn.fd, -1);
        // SAFETY: no pointers; both descriptors are this case's own.
        let ret = Ret::of(unsafe { libc::dup2(null, fd) });
        let text = format!("dup2 {}, write {}", show::yes(ret.value == i64::from(fd)), {
            // SAFETY: a byte of a constant.
            Ret::of_size(unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) })
        });
        sys::close(fd);
        sys::close(null);
        text
    });
}

/// `shutdown` ends the calls that wait, as it does bare.
pub(crate) fn shut(subject: &Subject) {
    for how in [libc::SHUT_RD, libc::SHUT_RDWR] {
        for waits in WAITS {
            let conn = subject.connect();
            let fd = conn.fd;
            let waiter = Waiter::start(move || waits.call(fd));
            let ret = sys::shutdown(fd, how);
            say!("{waits:?} {how}: {ret}, call {}", waiter.join());
        }
    }
    for how in [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR] {
        let conn = subject.connect();
        let (fd, epoll) = (conn.fd, Epoll::new());
        epoll.add(fd, (libc::EPOLLIN | libc::EPOLLRDHUP).cast_unsigned(), 1);
        let waiter = Waiter::start(move || Epoll::list(&epoll.wait(4, 400)));
        let ret = sys::shutdown(fd, how);
        say!("epoll_wait {how}: {ret}, call {}", waiter.join());
    }
    for how in [libc::SHUT_WR, libc::SHUT_RDWR] {
        for way in Out::ALL {
            let conn = subject.connect();
            let fd = conn.fd;
            // How much went out before differs from run to run.
            let waiter = Waiter::start(move || {
                let ret = way.call(fd, &vec![1; 16 << 20][..], libc::MSG_NOSIGNAL);
                format!("all {}", show::yes(ret.value == 16 << 20))
            });
            let ret = sys::shutdown(fd, how);
            say!("{way:?} {how}: {ret}, call {}", waiter.join());
        }
    }
}

//! E16: signals that come while a call waits or moves data.

use libc::{c_int, c_void, siginfo_t};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, In};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{Conn, Subject};
use smc_tests::say;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering};
use std::sync::Arc;

static COUNT: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: c_int, _info: *const siginfo_t, _context: *const c_void) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

type Handler = extern "C" fn(c_int, *const siginfo_t, *const c_void);

/// Installs a handler with these flags beside SA_SIGINFO.
fn handle(signal: c_int, handler: Handler, flags: c_int) {
    // SAFETY: a sigaction is plain numbers, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: the action lives here; each handler touches atomics or makes system calls.
    Ret::of(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })
        .expect("sigaction");
}

/// Makes a call, with a signal for this thread 40 ms later, and again until the call is over: on a
/// busy machine the first may come before the call.
fn with_signal<T>(signal: c_int, call: impl FnOnce() -> T) -> T {
    // SAFETY: no pointers.
    let this = unsafe { libc::pthread_self() } as usize;
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    let sender = std::thread::spawn(move || {
        wait::pause(40);
        while !seen.load(Ordering::Acquire) {
            // SAFETY: the thread waits for this one, so it lives.
            unsafe { libc::pthread_kill(this as libc::pthread_t, signal) };
            wait::pause(250);
        }
    });
    let result = call();
    over.store(true, Ordering::Release);
    sender.join().unwrap();
    result
}

/// Whether a handler has run since the last time.
fn ran() -> &'static str {
    show::yes(COUNT.swap(0, Ordering::Relaxed) > 0)
}

/// Calls that any handler ends, whatever its flags.
fn never_restarted(conn: &Conn, name: &str) {
    let fd = conn.fd;
    let epoll = Epoll::new();
    epoll.add(fd, libc::EPOLLIN.cast_unsigned(), 1);
    let mut room = [libc::epoll_event { events: 0, u64: 0 }];
    let ret = with_signal(libc::SIGINT, || {
        // SAFETY: room for one event.
        Ret::of(unsafe { libc::epoll_wait(epoll.fd, room.as_mut_ptr(), 1, -1) })
    });
    say!("{name}: epoll_wait {ret}, handlers {}", ran());
    let ret = with_signal(libc::SIGINT, || wait::poll(fd, libc::POLLIN, -1).0);
    say!("{name}: poll {ret}, handlers {}", ran());
    let ret = with_signal(libc::SIGINT, || {
        // SAFETY: an fd_set is plain numbers, for which zero is valid.
        let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
        // SAFETY: the number is below the size of the set, which lives here.
        unsafe { libc::FD_SET(fd, &raw mut set) };
        let none = std::ptr::null_mut();
        // SAFETY: as above; the other pointers may be null.
        Ret::of(unsafe { libc::select(fd + 1, &raw mut set, none, none, std::ptr::null_mut()) })
    });
    say!("{name}: select {ret}, handlers {}", ran());
    let mut room = [0; 16];
    let timeout = libc::timeval { tv_sec: 5, tv_usec: 0 };
    sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, timeout);
    let ret = with_signal(libc::SIGINT, || sys::recv(fd, &mut room, 0));
    say!("{name}: recv with a timeout {ret}, handlers {}", ran());
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, none);
}

/// Handlers without SA_RESTART end a call that has moved nothing; one that has returns what it has.
pub(crate) fn interrupted(subject: &Subject) {
    handle(libc::SIGINT, count, 0);
    let conn = subject.connect();
    let fd = conn.fd;
    never_restarted(&conn, "plain");
    for way in In::ALL {
        let mut room = [0; 64];
        let ret = with_signal(libc::SIGINT, || way.call(fd, &mut room, 0));
        say!("{way:?} {ret}, handlers {}", ran());
    }
    conn.peer_sends(20);
    let mut room = [0; 64];
    let ret = with_signal(libc::SIGINT, || sys::recv(fd, &mut room, libc::MSG_WAITALL));
    say!("WAITALL {ret} {}, handlers {}", show::yes(conn.came(&room[..ret.count()])), ran());
    // How much fits before it waits is each transport's own affair.
    let payload = conn.payload(32 << 20);
    let ret = with_signal(libc::SIGINT, || sys::send(fd, &payload[..], 0));
    conn.sent(ret);
    say!("send partly {}, handlers {}", show::yes(ret.value > 0 && ret.value < 32 << 20), ran());
    // Whatever has drained meanwhile is filled up again.
    for _ in 0..4 {
        while sys::send(fd, &payload[..], libc::MSG_DONTWAIT).value > 0 {}
        wait::pause(20);
    }
    let ret = with_signal(libc::SIGINT, || sys::send(fd, &payload[..], 0));
    say!("send of a full one {ret}, handlers {}", ran());
}

/// Handlers with SA_RESTART do not end a call without a timeout.
pub(crate) fn restarted(subject: &Subject) {
    handle(libc::SIGINT, count, libc::SA_RESTART);
    let conn = subject.connect();
    let fd = conn.fd;
    never_restarted(&conn, "restart");
    for way in In::ALL {
        let mut room = [0; 64];
        conn.start_send(50, 500);
        let ret = with_signal(libc::SIGINT, || way.call(fd, &mut room, 0));
        let right = show::yes(conn.came(&room[..ret.count()]));
        say!("{way:?} {ret} {right} of {}, handlers {}", conn.finish(), ran());
    }
    // Slowly, so that the signal comes before the end. A send that has moved something returns that.
    let payload = conn.payload(16 << 20);
    let reader = conn.start_read(16 << 20, 100);
    let ret = with_signal(libc::SIGINT, || sys::send(fd, &payload[..], 0));
    say!("send partly {}, handlers {}", show::yes(ret.value > 0 && ret.value < 16 << 20), ran());
    sys::shutdown(fd, libc::SHUT_WR);
    say!("peer read all of it {}", show::yes(reader.finish() == ret.value));
}

fn timer(micros: i64) {
    let every = libc::timeval { tv_sec: 0, tv_usec: micros };
    let value = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the value lives here.
    let ret = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const value, std::ptr::null_mut()) };
    Ret::of(ret).expect("setitimer");
}

/// Sends and receives by turns, in odd pieces, what the puppet returns, until a condition holds;
/// whether every byte was right.
fn exchange(conn: &Conn, mut done: impl FnMut() -> bool) -> bool {
    let mut right = true;
    let mut size = 1;
    let mut room = vec![0; 60_100];
    conn.peer_echoes();
    while !done() {
        size = size * 7 % 60_013 + 1;
        let payload = conn.payload(size);
        let (mut out, mut back) = (0, 0);
        while out < size {
            let ret = conn.sent(sys::send(conn.fd, &payload[out..], 0));
            assert!(ret.value > 0 || ret.is(libc::EINTR), "send: {ret}");
            out += ret.count();
        }
        while back < size {
            let ret = sys::recv(conn.fd, &mut room[back..size], 0);
            assert!(ret.value > 0 || ret.is(libc::EINTR), "recv: {ret}");
            back += ret.count();
        }
        right &= room[..size] == payload[..];
    }
    right
}

/// Ten thousand signals of an interval timer during transfers.
pub(crate) fn interval_timer(subject: &Subject) {
    for flags in [0, libc::SA_RESTART] {
        // The watchdog's own alarm gives way to the timer.
        handle(libc::SIGALRM, count, flags);
        let conn = subject.connect();
        ran();
        timer(60);
        let right = exchange(&conn, || COUNT.load(Ordering::Relaxed) >= 10_000);
        timer(0);
        say!("restart {}: right {}", show::yes(flags != 0), show::yes(right));
    }
}

static FD: AtomicI32 = AtomicI32::new(-1);
static WROTE: AtomicI64 = AtomicI64::new(0);

/// Sends one byte on a connection, perhaps the one that the interrupted call is about.
extern "C" fn send_one(_signal: c_int, _info: *const siginfo_t, _context: *const c_void) {
    let byte = 0x2e_u8;
    // SAFETY: the byte lives here; `send` may be called in a handler.
    let sent = unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::MSG_DONTWAIT;
        let sent =
            libc::send(FD.load(Ordering::Relaxed), std::ptr::from_ref(&byte).cast(), 1, flags);
        *libc::__errno_location() = errno;
        sent
    };
    if sent == 1 {
        WROTE.fetch_add(1, Ordering::Relaxed);
    }
}

/// A SA_SIGINFO handler that writes to a connection: to another one than the transfer's, and to the
/// one that the interrupted thread waits for.
pub(crate) fn handler_sends(subject: &Subject) {
    let (conn, other) = (subject.connect(), subject.connect());
    handle(libc::SIGALRM, send_one, libc::SA_RESTART);
    FD.store(other.fd, Ordering::Relaxed);
    timer(200);
    let right = exchange(&conn, || WROTE.load(Ordering::Relaxed) >= 2_000);
    timer(0);
    let wrote = WROTE.swap(0, Ordering::Relaxed);
    sys::shutdown(other.fd, libc::SHUT_WR);
    let same = other.start_count().finish() == wrote;
    say!("another: right {}, peer read all {}", show::yes(right), show::yes(same));

    handle(libc::SIGINT, send_one, libc::SA_RESTART);
    FD.store(conn.fd, Ordering::Relaxed);
    let mut room = [0; 64];
    conn.start_send(50, 500);
    let ret = with_signal(libc::SIGINT, || sys::recv(conn.fd, &mut room, 0));
    let right = show::yes(conn.came(&room[..ret.count()]));
    conn.finish();
    let wrote = WROTE.swap(0, Ordering::Relaxed);
    say!("the same, in recv: {ret} {right}, wrote {}", show::yes(wrote > 0));
    sys::shutdown(conn.fd, libc::SHUT_WR);
    let read = conn.start_count().finish();
    say!("peer read all {}", show::yes(read == wrote));
}

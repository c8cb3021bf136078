//! Listeners and connections that pass to another process.

use smc_tests::harness::net::{
    accept, accept_warm, close, dial, read, recv_to_end, send_all, serve, shutdown, write, Errno,
    Fd,
};
use smc_tests::harness::process::{child, leave, pipe, wait, Leave};
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer, answer_all, ask, ask_many};
use smc_tests::harness::{net, ready};
use smc_tests::say;

const WORKERS: usize = 3;
const DIALS: u32 = 30;

/// Takes connections from the shared listener until the pipe closes.
fn worker(listener: Fd, until: Fd, last: Fd) -> i32 {
    net::set_nonblocking(listener, true);
    loop {
        let mut set =
            [listener, until].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        ready::poll(&mut set, -1).unwrap();
        if set[1].revents != 0 {
            return 0;
        }
        let fd = match accept(listener) {
            Ok(fd) => fd,
            // Another worker was faster.
            Err(Errno(libc::EAGAIN)) => continue,
            Err(e) => panic!("accept: {e}"),
        };
        while let Ok(Some(turn)) = answer(fd) {
            if turn == u32::MAX {
                write(last, b"!").unwrap();
            }
        }
        close(fd).unwrap();
    }
}

/// The parent binds and listens, the children accept.
pub(crate) fn prefork_server() {
    let (listener, port) = serve();
    let (until, stop) = pipe();
    let (told, last) = pipe();
    let pids: Vec<i32> = (0..WORKERS)
        .map(|_| {
            child(|| {
                close(stop).unwrap();
                worker(listener, until, last)
            })
        })
        .collect();
    close(listener).unwrap();
    announce(port);
    assert_eq!(read(told, &mut [0]), Ok(1));
    close(stop).unwrap();
    for pid in pids {
        say!("worker: {}", wait(pid));
    }
}

/// Talks to whichever child takes the connection; several at once.
pub(crate) fn prefork_client(port: u16) {
    for _ in 0..DIALS / 3 {
        let fds = [dial(port), dial(port), dial(port)];
        for turns in [10, 20] {
            for fd in fds {
                ask_many(fd, turns).unwrap();
            }
        }
        for fd in fds {
            close(fd).unwrap();
        }
    }
    let fd = dial(port);
    ask_many(fd, 30).unwrap();
    ask(fd, u32::MAX, 0, 1).unwrap();
    say!("talked on {DIALS} connections");
    close(fd).unwrap();
}

fn become_daemon() {
    // SAFETY: no pointers; the process has one thread.
    let done = unsafe { libc::daemon(1, 1) };
    assert_eq!(done, 0, "daemon: {}", Errno::last());
}

/// Becomes a daemon after listen().
pub(crate) fn daemon_listener_server() {
    let (listener, port) = serve();
    become_daemon();
    announce(port);
    say!("answered {}", answer_all(accept_warm(listener)));
}

/// Becomes a daemon with a connection in use.
pub(crate) fn daemon_connection_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    become_daemon();
    say!("answered {}", answer_all(fd));
}

/// Forks twice with a connection in use; both parents leave at once.
pub(crate) fn double_fork_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let pid = child(|| {
        // SAFETY: no pointers.
        unsafe { libc::setsid() };
        let grandchild = child(|| {
            say!("answered {}", answer_all(fd));
            0
        });
        assert!(grandchild > 0);
        leave(Leave::Quick, 3)
    });
    say!("first child left with {}", wait(pid));
    // The order of the two lines is fixed: the client asks nothing before it reads this byte.
    send_all(fd, b"g").unwrap();
}

/// The client of all three.
pub(crate) fn daemon_client(port: u16) {
    let fd = net::dial_warm(port);
    let mut go = [0];
    if std::env::args().nth(1).as_deref() == Some("double_fork") {
        assert_eq!(net::recv_exact(fd, &mut go), Ok(1));
    }
    ask_many(fd, 50).unwrap();
    shutdown(fd, libc::SHUT_WR).unwrap();
    let (rest, error) = recv_to_end(fd);
    say!("then {rest}, error {error:?}");
}

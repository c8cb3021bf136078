//! A peer that dies by SIGKILL in the middle of a call.

use smc_tests::harness::net::{
    accept_warm, close, dial_warm, recv, recv_exact, send, send_all, send_file, serve, warm_client,
    Errno, Fd,
};
use smc_tests::harness::process::{child, kill, pause_ms, pipe, read_byte, wait, write_byte};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::say;
use std::time::{Duration, Instant};

/// Stays inside one blocking call for ever.
fn block_in(call: &str, fd: Fd) {
    match call {
        "recv" => {
            let got = recv(fd, &mut [0; 64], 0);
            panic!("the victim came back from recv: {got:?}");
        }
        "send" => loop {
            send(fd, &[0x2a; 65536], libc::MSG_NOSIGNAL).unwrap();
        },
        // "idle" waits for what never comes, and leaves data unread meanwhile.
        "epoll" | "idle" => {
            let epoll = ready::epoll();
            let mask = if call == "idle" { libc::EPOLLPRI } else { libc::EPOLLIN };
            ready::add(epoll, fd, mask, 1).unwrap();
            let got = ready::wait(epoll, 4, -1);
            panic!("the victim came back from epoll_wait: {got:?}");
        }
        "sendfile" => loop {
            send_file(fd, "/proc/self/exe", 1 << 20).unwrap();
        },
        other => panic!("no such call: {other}"),
    }
}

/// Runs `body` in a child, which says when it is about to block, and kills it where it has come to
/// a while later.
fn killed(body: impl FnOnce(&dyn Fn())) {
    let (reads, writes) = pipe();
    let pid = child(|| {
        body(&|| write_byte(writes));
        0
    });
    read_byte(reads);
    pause_ms(200);
    close(reads).unwrap();
    close(writes).unwrap();
    kill(pid, libc::SIGKILL).unwrap();
    let left = wait(pid);
    assert_eq!(left, "signal 9", "the victim did not stay in its call");
    say!("victim: {left}");
}

/// Uses the connection until it ends; it must end at once when the peer is dead.
fn survive(call: &str, fd: Fd) {
    let began = Instant::now();
    let end = match call {
        "recv" => loop {
            match recv(fd, &mut [0; 65536], 0) {
                Ok(0) => break "end or reset",
                // Gone before it had read everything: the kernel may say so either way.
                Err(Errno(libc::ECONNRESET)) => break "end or reset",
                Ok(_) => {}
                Err(e) => panic!("recv: {e}"),
            }
        },
        "send" => loop {
            match send(fd, &[0x33; 65536], libc::MSG_NOSIGNAL) {
                Ok(_) => {}
                Err(Errno(libc::EPIPE | libc::ECONNRESET)) => break "pipe or reset",
                Err(e) => panic!("send: {e}"),
            }
        },
        "epoll" => {
            let epoll = ready::epoll();
            let mask = libc::EPOLLIN | libc::EPOLLRDHUP;
            ready::add(epoll, fd, mask, 1).unwrap();
            loop {
                let events = ready::wait(epoll, 4, -1).unwrap();
                assert!(!events.is_empty());
                if events[0].1 & libc::EPOLLRDHUP.cast_unsigned() != 0 {
                    break "hang-up";
                }
                let mut buf = [0; 65536];
                assert!(recv(fd, &mut buf, 0).is_ok_and(|n| n > 0));
            }
        }
        other => panic!("no such call: {other}"),
    };
    // The victim lives for less than a second after its warm-up; the rest is allowance.
    assert!(began.elapsed() < Duration::from_secs(5), "noticed after {:?}", began.elapsed());
    say!("survivor in {call}: {end}");
    close(fd).unwrap();
}

/// The server dies.
pub(crate) fn victim_server(call: &str) {
    let (listener, port) = serve();
    announce(port);
    killed(|is_warm| {
        let fd = accept_warm(listener);
        is_warm();
        block_in(call, fd);
    });
}

/// Its client lives on.
pub(crate) fn survivor_client(port: u16, call: &str) {
    survive(call, dial_warm(port));
}

/// Looks for the end only when the peer has been dead for long, in instances made then: each way of
/// being told tells of it, again after the registration was taken out and put in again.
pub(crate) fn late_survivor_client(port: u16) {
    let ways = [0, libc::EPOLLET, libc::EPOLLONESHOT, libc::EPOLLRDHUP].map(|way| {
        // Each at a connection of its own: what one look finds is known to the next.
        let mask = libc::EPOLLIN | way;
        (dial_warm(port), mask, [ready::epoll(), ready::epoll()])
    });
    pause_ms(700);
    for (fd, mask, [first, second]) in ways {
        ready::add(first, fd, mask, 1).unwrap();
        say!("{mask:#x}: {}", ready::show(&ready::wait(first, 4, 2000)));
        ready::add(second, fd, mask, 2).unwrap();
        say!("{mask:#x} elsewhere: {}", ready::show(&ready::wait(second, 4, 2000)));
        ready::remove(first, fd).unwrap();
        ready::add(first, fd, mask, 3).unwrap();
        say!("{mask:#x} again: {}", ready::show(&ready::wait(first, 4, 2000)));
        close(fd).unwrap();
    }
}

/// Serves several and dies.
pub(crate) fn late_victim_server() {
    let (listener, port) = serve();
    announce(port);
    killed(|is_warm| {
        let all = [(); 4].map(|()| accept_warm(listener));
        is_warm();
        block_in("recv", all[0]);
    });
    // The process lives on, and with it the group.
    pause_ms(1500);
}

/// The client dies.
pub(crate) fn victim_client(port: u16, call: &str) {
    killed(|is_warm| {
        let fd = dial_warm(port);
        is_warm();
        block_in(call, fd);
    });
    // The server is as good as new for the next one.
    let fd = dial_warm(port);
    warm_client(fd);
    send_all(fd, b"bye").unwrap();
    close(fd).unwrap();
}

/// Its server lives on.
pub(crate) fn survivor_server(call: &str) {
    let (listener, port) = serve();
    announce(port);
    survive(call, accept_warm(listener));
    let fd = accept_warm(listener);
    smc_tests::harness::net::warm_server(fd);
    let mut word = [0; 8];
    say!("next client: {:?}", recv_exact(fd, &mut word).map(|n| word[..n].to_vec()));
}

//! D6 and D9: what wakes a thread that is already asleep.

use super::matrix::{ET, IN, ONESHOT, OUT, RDHUP};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{sys, Subject};
use smc_tests::say;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// A thread that is asleep in one blocking call; its answer comes through the channel.
fn asleep<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tx, rx) = channel();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        // SAFETY: no arguments.
        let _ = tell.send(unsafe { libc::gettid() });
        let _ = tx.send(call());
    });
    if let Ok(tid) = told.recv() {
        wait::asleep(tid);
    }
    rx
}

/// What it said within two seconds.
fn answer(from: &Receiver<String>) -> String {
    from.recv_timeout(Duration::from_secs(2)).unwrap_or_else(|_| "still asleep".to_owned())
}

fn waiting(fd: i32) -> Receiver<String> {
    asleep(move || {
        let epoll = std::mem::ManuallyDrop::new(Epoll { fd });
        Epoll::list(&epoll.wait(8, -1))
    })
}

fn still(from: &Receiver<String>) -> &'static str {
    show::yes(from.recv_timeout(Duration::from_millis(100)).is_err())
}

/// `epoll_ctl` from another thread while one is in `epoll_wait(-1)`.
pub(crate) fn control_while_waiting(subject: &Subject) {
    for mode in [0, ET] {
        let conn = subject.connect();
        let epoll = Epoll::new();
        let waiter = waiting(epoll.fd);
        epoll.add(conn.fd, IN | mode, 1);
        say!("added idle: asleep {}", still(&waiter));
        conn.peer_sends(10);
        say!("data: {}", answer(&waiter));
        say!("taken {}", show::yes(conn.takes(10)));

        let waiter = waiting(epoll.fd);
        epoll.modify(conn.fd, IN | OUT | mode, 2);
        say!("OUT by MOD: {}", answer(&waiter));

        epoll.modify(conn.fd, IN | mode, 3);
        let waiter = waiting(epoll.fd);
        epoll.control(libc::EPOLL_CTL_DEL, conn.fd, 0, 0);
        conn.peer_sends(10);
        say!("deleted, data: asleep {}", still(&waiter));
        epoll.add(conn.fd, IN | mode, 4);
        say!("added with data: {}", answer(&waiter));
        say!("taken {}", show::yes(conn.takes(10)));

        epoll.modify(conn.fd, 0, 5);
        let waiter = waiting(epoll.fd);
        conn.peer_sends(10);
        say!("no interest, data: asleep {}", still(&waiter));
        epoll.modify(conn.fd, IN | mode, 6);
        say!("interest by MOD: {}", answer(&waiter));
        say!("taken {}", show::yes(conn.takes(10)));

        let waiter = waiting(epoll.fd);
        let late = subject.connect();
        epoll.add(late.fd, IN | RDHUP | mode, 7);
        late.peer_shuts(libc::SHUT_WR);
        say!("a new one ends: {}", answer(&waiter));
    }
}

/// Every kind of wait ends when data, or room, comes.
pub(crate) fn data_while_waiting(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    for nonblocking in [false, true] {
        sys::nonblocking(fd, nonblocking);
        for way in ["epoll", "edge", "poll", "read", "recvmsg", "several"] {
            if nonblocking && matches!(way, "read" | "recvmsg") {
                continue;
            }
            let waiter = asleep(move || match way {
                "read" => sys::In::Read.call(fd, &mut [0; 1], 0).to_string(),
                "recvmsg" => sys::In::Recvmsg.call(fd, &mut [0; 1], 0).to_string(),
                "poll" => show::events(wait::poll(fd, libc::POLLIN, -1).1),
                "several" => {
                    let epoll = Epoll::new();
                    epoll.add(fd, IN, 0);
                    show::events(wait::poll(epoll.fd, libc::POLLIN, -1).1)
                }
                _ => {
                    let epoll = Epoll::new();
                    epoll.add(fd, if way == "edge" { IN | ET } else { IN }, 0);
                    Epoll::list(&epoll.wait(4, -1))
                }
            });
            conn.start_send(1, 0);
            conn.finish();
            say!("{way} nonblocking {}: {}", show::yes(nonblocking), answer(&waiter));
            while sys::recv(fd, &mut [0; 9], libc::MSG_DONTWAIT).value > 0 {}
        }
    }
    // Room: the peer reads what a full socket holds.
    for way in ["epoll", "edge", "once", "poll", "send"] {
        let conn = subject.connect();
        let fd = conn.fd;
        let mut total = 0;
        loop {
            let ret = conn.send(1 << 20, libc::MSG_DONTWAIT);
            total += ret.count();
            if ret.value < 0 && wait::poll(fd, libc::POLLOUT, 100).0.value == 0 {
                break;
            }
        }
        // Only a large send blocks for sure; the other waits write nothing.
        let more = if way == "send" { 4 << 20 } else { 0 };
        let data = conn.payload(more);
        let waiter = asleep(move || match way {
            "send" => sys::send(fd, &data[..], 0).to_string(),
            "poll" => show::events(wait::poll(fd, libc::POLLOUT, -1).1),
            _ => {
                let epoll = Epoll::new();
                let how = match way {
                    "edge" => ET,
                    "once" => ONESHOT,
                    _ => 0,
                };
                epoll.add(fd, OUT | how, 0);
                Epoll::list(&epoll.wait(4, -1))
            }
        });
        let read = conn.peer_reads(total + more);
        let whole = show::yes(usize::try_from(read) == Ok(total + more));
        say!("room, {way}: {}, whole {whole}", answer(&waiter));
    }
}

/// Blocked calls end when the peer shuts down, closes or resets, or we shut down ourselves.
pub(crate) fn ends_while_waiting(subject: &Subject) {
    for end in ["peer shuts", "peer resets", "we shut RD", "we shut WR", "we shut both"] {
        for way in ["recv", "poll", "epoll", "send"] {
            let conn = subject.connect();
            let fd = conn.fd;
            // The peer's FIN, and our own end of reading, say nothing to a sender.
            if way == "send" && matches!(end, "peer shuts" | "we shut RD") {
                continue;
            }
            let waiter = asleep(move || match way {
                "recv" => sys::recv(fd, &mut [0; 9], 0).to_string(),
                "poll" => {
                    let events = libc::POLLIN | libc::POLLRDHUP;
                    show::events(wait::poll(fd, events, -1).1)
                }
                "epoll" => {
                    let epoll = Epoll::new();
                    epoll.add(fd, IN | RDHUP, 0);
                    Epoll::list(&epoll.wait(4, -1))
                }
                _ => {
                    let most = 64 << 20;
                    let ret = sys::send(fd, &vec![0; most][..], libc::MSG_NOSIGNAL);
                    let part = ret.value > 0 && ret.count() < most;
                    let next = sys::send(fd, &[0], libc::MSG_NOSIGNAL);
                    format!("part {}, then {next}", show::yes(part))
                }
            });
            match end {
                "peer shuts" => drop(conn.peer_shuts(libc::SHUT_WR)),
                "peer resets" => conn.peer_resets(),
                "we shut RD" => report(sys::shutdown(fd, libc::SHUT_RD)),
                "we shut WR" => report(sys::shutdown(fd, libc::SHUT_WR)),
                _ => report(sys::shutdown(fd, libc::SHUT_RDWR)),
            }
            // After our SHUT_WR alone nothing comes to a reader: data must still do so.
            if end == "we shut WR" && way != "send" {
                say!("{end}, {way}: asleep {}", still(&waiter));
                conn.start_send(5, 0);
                conn.finish();
            }
            say!("{end}, {way}: {}", answer(&waiter));
        }
    }
}

fn report(ret: Ret) {
    say!("shutdown {ret}");
}

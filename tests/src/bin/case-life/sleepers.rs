//! Threads and processes that wait, and the places where they do.

use smc_tests::harness::net::{accept, accept_warm, close, dial, dial_warm, recv_exact, send_all};
use smc_tests::harness::net::{serve, shutdown, warm_client, warm_server, Fd};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::{child, dup, dup2, pause_ms, pipe, wait};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::say;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// More than there are wait slots of a side.
const CHILDREN: u8 = 70;

fn read_one(fd: Fd) -> u8 {
    let mut byte = [0];
    recv_exact(fd, &mut byte).unwrap();
    byte[0]
}

/// Wakes each child, which has said that it is there.
pub(crate) fn many_children_client(port: u16) {
    let fd = dial_warm(port);
    let other = dial_warm(port);
    for turn in 0..CHILDREN {
        assert_eq!(read_one(fd), turn);
        // For the child to fall asleep.
        pause_ms(1);
        send_all(fd, &[turn]).unwrap();
    }
    for turn in 0..2 {
        let fd = [fd, other][turn];
        assert_eq!(read_one(fd), 1);
        send_all(fd, &[2]).unwrap();
    }
    say!("heard {CHILDREN} children");
    close(fd).unwrap();
    close(other).unwrap();
}

/// As many children as there are wait slots sleep for the connection, one after the other; then epoll
/// instances, of one that was registered before and one that is new, are told of it.
pub(crate) fn many_children_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let other = accept_warm(listener);
    for turn in 0..CHILDREN {
        let pid = child(|| {
            send_all(fd, &[turn]).unwrap();
            i32::from(read_one(fd) != turn)
        });
        assert_eq!(wait(pid), "exit 0");
    }
    for (fd, turn) in [(fd, 0), (other, 1)] {
        let epoll = ready::epoll();
        ready::add(epoll, fd, libc::EPOLLIN, turn).unwrap();
        send_all(fd, &[1]).unwrap();
        say!("event: {}", ready::show(&ready::wait(epoll, 8, -1)));
        say!("byte: {}", read_one(fd));
        close(epoll).unwrap();
        close(fd).unwrap();
    }
}

const THREADS: usize = 4;
const ROUNDS: u64 = 400;

/// Answers byte by byte, until the end.
pub(crate) fn brief_epolls_client(port: u16) {
    let fds: Vec<Fd> = (0..THREADS)
        .map(|_| {
            let fd = dial(port);
            warm_client(fd);
            fd
        })
        .collect();
    let threads = fds.into_iter().map(|fd| {
        std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                let byte = read_one(fd);
                send_all(fd, &[byte]).unwrap();
            }
            close(fd).unwrap();
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    say!("answered");
}

/// Threads each make an epoll instance for one event and close it, while the others do the same: none
/// takes anything from another's.
pub(crate) fn brief_epolls_server() {
    let (listener, port) = serve();
    announce(port);
    let fds: Vec<Fd> = (0..THREADS)
        .map(|_| {
            let fd = accept(listener).unwrap();
            warm_server(fd);
            fd
        })
        .collect();
    let threads = fds.into_iter().map(|fd| {
        std::thread::spawn(move || {
            let mut heard = 0;
            for round in 0..ROUNDS {
                let epoll = ready::epoll();
                ready::add(epoll, fd, libc::EPOLLIN, round).unwrap();
                send_all(fd, b"x").unwrap();
                let got = ready::wait(epoll, 8, -1).unwrap();
                heard += usize::from(got == [(round, libc::EPOLLIN.cast_unsigned())]);
                read_one(fd);
                close(epoll).unwrap();
            }
            close(fd).unwrap();
            heard
        })
    });
    let threads: Vec<_> = threads.collect();
    let heard: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    say!("heard of {heard:?}");
}

/// Reads a byte and answers with one, until the end.
pub(crate) fn registered_client(port: u16) {
    let fd = dial(port);
    say!("byte: {}", read_one(fd));
    send_all(fd, &[2]).unwrap();
    say!("end: {:?}", recv_exact(fd, &mut [0]));
}

/// A child uses a connection that its parent has registered in an epoll instance, and so decides how it
/// goes; the registration is still the parent's to change.
pub(crate) fn registered_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept(listener).unwrap();
    let epoll = ready::epoll();
    ready::add(epoll, fd, libc::EPOLLIN, 7).unwrap();
    let pid = child(|| {
        send_all(fd, &[1]).unwrap();
        i32::from(read_one(fd) != 2)
    });
    say!("child: {}", wait(pid));
    say!("changed: {:?}", ready::modify(epoll, fd, libc::EPOLLIN | libc::EPOLLOUT, 8));
    say!("event: {}", ready::show(&ready::wait(epoll, 8, -1)));
    say!("removed: {:?}", ready::remove(epoll, fd));
    say!("removed again: {:?}", ready::remove(epoll, fd));
    close(fd).unwrap();
}

const SPAWNS: u64 = 25;
const BURST: usize = 30_000;
const BRIEFLY: Duration = Duration::from_micros(20);

/// Sends a burst for each connection, and waits until it has been read.
pub(crate) fn spawned_beside_client(port: u16) {
    for round in 0..SPAWNS {
        let fd = dial_warm(port);
        send_all(fd, &bytes(round, BURST)).unwrap();
        shutdown(fd, libc::SHUT_WR).unwrap();
        assert_eq!(read_one(fd), 1);
        close(fd).unwrap();
    }
    say!("sent {SPAWNS} bursts");
}

/// While a program is started that cannot go on with the connection, another thread makes and closes
/// other numbers of it, and puts them to other use: what is unread is there all the same.
pub(crate) fn spawned_beside_server() {
    let (listener, port) = serve();
    announce(port);
    let mut right = 0;
    for round in 0..SPAWNS {
        let first = accept_warm(listener);
        // The copies get lower numbers, and are found before it.
        let fd = dup2(first, 300).unwrap();
        close(first).unwrap();
        let over = AtomicBool::new(false);
        let mut got = vec![0; BURST];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let copy = dup(fd).unwrap();
                    std::thread::sleep(BRIEFLY);
                    close(copy).unwrap();
                    let (out, into) = pipe();
                    std::thread::sleep(BRIEFLY);
                    close(out).unwrap();
                    close(into).unwrap();
                }
            });
            got[0] = read_one(fd);
            // All that is sent is there, and cannot be asked for again.
            ready::poll_one(fd, libc::POLLRDHUP, -1).unwrap();
            Command::new("/bin/true").env_remove("LD_PRELOAD").status().unwrap();
            recv_exact(fd, &mut got[1..]).unwrap();
            over.store(true, Ordering::Release);
        });
        right += usize::from(got == bytes(round, BURST));
        send_all(fd, &[1]).unwrap();
        close(fd).unwrap();
    }
    say!("right: {right} of {SPAWNS}");
}

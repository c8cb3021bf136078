//! Forks of a process that holds a connection.

use smc_tests::harness::net::{
    accept, accept_warm, close, dial, dial_warm, read, recv_exact, recv_to_end, send_all, serve,
    shutdown, warm_client, warm_server, write, Fd,
};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::{child, child_that_leaves, dup2, open_fds, pipe, wait, Leave};
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;
use std::process::{Command, Stdio};

const ROUNDS: usize = 4;

/// The classic server: accept, fork, the child serves, the parent closes. Every other connection
/// has carried traffic in the parent before.
pub(crate) fn child_serves_server() {
    let (listener, port) = serve();
    announce(port);
    for round in 0..ROUNDS {
        let fd = accept(listener).unwrap();
        if round % 2 == 1 {
            warm_server(fd);
        }
        let pid = child(|| {
            close(listener).unwrap();
            warm_server(fd);
            say!("child: answered {}", answer_all(fd));
            0
        });
        close(fd).unwrap();
        say!("parent: child left with {}", wait(pid));
    }
}

/// Its client: the end of the stream comes when the child is gone.
pub(crate) fn child_serves_client(port: u16) {
    for round in 0..ROUNDS {
        let fd = dial(port);
        if round % 2 == 1 {
            warm_client(fd);
        }
        warm_client(fd);
        ask_many(fd, 40).unwrap();
        smc_tests::harness::net::shutdown(fd, libc::SHUT_WR).unwrap();
        let (rest, error) = recv_to_end(fd);
        say!("round {round}: then {rest}, error {error:?}");
        close(fd).unwrap();
    }
}

fn short_lived(fd: Fd) {
    for how in [Leave::Quick, Leave::Exit] {
        let pid = child_that_leaves(how, || 7);
        say!("child left by {how:?}: {}", wait(pid));
        let pid = child_that_leaves(how, || {
            close(fd).unwrap();
            8
        });
        say!("child that closed left by {how:?}: {}", wait(pid));
    }
}

/// Children come and go without touching the connection; it lives.
pub(crate) fn child_leaves_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    short_lived(fd);
    warm_server(fd);
    say!("answered {}", answer_all(fd));
}

/// The same on the client's side.
pub(crate) fn child_leaves_client(port: u16) {
    let fd = dial_warm(port);
    short_lived(fd);
    warm_client(fd);
    ask_many(fd, 40).unwrap();
    short_lived(fd);
    ask_many(fd, 5).unwrap();
    close(fd).unwrap();
}

const TURNS: u64 = 60;

/// Runs turns `first, first + 2, …`, each when the other process of the pair has had its own.
fn alternate(first: u64, from: Fd, to: Fd, mut turn_of: impl FnMut(u64)) {
    for turn in (first..TURNS).step_by(2) {
        if turn > 0 {
            assert_eq!(read(from, &mut [0]), Ok(1), "baton of turn {turn}");
        }
        turn_of(turn);
        write(to, b"x").unwrap();
    }
}

fn both_sides(turn_of: impl Fn(u64)) -> String {
    let (odd_waits, even_passes) = pipe();
    let (even_waits, odd_passes) = pipe();
    let pid = child(|| {
        alternate(1, odd_waits, odd_passes, &turn_of);
        0
    });
    alternate(0, even_waits, even_passes, &turn_of);
    wait(pid)
}

fn length(turn: u64) -> usize {
    usize::try_from(turn * 977 % 20_000).unwrap() + 1
}

/// Parent and child answer the requests of one connection in turn.
pub(crate) fn in_turn_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let left = both_sides(|turn| {
        let mut request = vec![0; length(turn)];
        assert_eq!(recv_exact(fd, &mut request), Ok(request.len()), "turn {turn}");
        assert!(request == bytes(turn, request.len()), "turn {turn}: wrong bytes");
        request.reverse();
        send_all(fd, &request).unwrap();
    });
    say!("child left with {left}");
    warm_server(fd);
}

/// Parent and child make the requests of it in turn.
pub(crate) fn in_turn_client(port: u16) {
    let fd = dial_warm(port);
    let left = both_sides(|turn| {
        let request = bytes(turn, length(turn));
        send_all(fd, &request).unwrap();
        let mut reply = vec![0; request.len()];
        assert_eq!(recv_exact(fd, &mut reply), Ok(reply.len()), "turn {turn}");
        reply.reverse();
        assert!(reply == request, "turn {turn}: wrong bytes");
    });
    say!("child left with {left}");
    warm_client(fd);
    say!("end: {:?}", recv_to_end(fd));
}

const FORKS: usize = 1000;

fn fork_often() {
    let mut bad = 0;
    for number in 0..FORKS {
        let how = if number % 10 == 0 { Leave::Exit } else { Leave::Quick };
        let code = i32::try_from(number % 100).unwrap();
        let pid = child_that_leaves(how, || code);
        if wait(pid) != format!("exit {code}") {
            bad += 1;
        }
    }
    say!("{FORKS} forks, {bad} bad");
}

/// Forks a thousand times while two threads serve connections.
pub(crate) fn many_forks_server() {
    let (listener, port) = serve();
    announce(port);
    let serving: Vec<_> = (0..2)
        .map(|_| {
            let fd = accept(listener).unwrap();
            std::thread::spawn(move || answer_all(fd))
        })
        .collect();
    fork_often();
    for thread in serving {
        say!("answered {}", thread.join().unwrap());
    }
}

/// Forks as often while it talks on both.
pub(crate) fn many_forks_client(port: u16) {
    let talking: Vec<_> = (0..2)
        .map(|_| {
            let fd = dial(port);
            std::thread::spawn(move || {
                ask_many(fd, 1500).unwrap();
                close(fd).unwrap();
            })
        })
        .collect();
    fork_often();
    say!("talked: {}", talking.into_iter().all(|thread| thread.join().is_ok()));
}

fn spawn_some(fd: Fd) {
    // Plain: the standard library spawns without a fork of its own.
    let plain = Command::new("/bin/true").stdin(Stdio::null()).status().unwrap();
    say!("plain child: {plain}");
    // With pipes on 0 to 2 and output read back.
    let echoed = Command::new("/bin/echo").arg("words").output().unwrap();
    say!("child said {:?}", String::from_utf8_lossy(&echoed.stdout));
    let missing = Command::new("/no/such/program").status().map(|s| s.to_string());
    say!("missing program: {}", missing.unwrap_or_else(|e| e.kind().to_string()));
    // A child of our own that moves the connection's number about.
    let pid = child(|| {
        dup2(0, fd).unwrap();
        for open in open_fds().into_iter().filter(|&open| open > 2) {
            close(open).unwrap();
        }
        9
    });
    say!("child that reused the number: {}", wait(pid));
}

/// Spawned children close, dup and replace descriptors; the connection of the parent is untouched.
pub(crate) fn spawned_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    spawn_some(fd);
    say!("answered {}", answer_all(fd));
}

/// The same on the client's side.
pub(crate) fn spawned_client(port: u16) {
    let fd = dial_warm(port);
    spawn_some(fd);
    ask_many(fd, 40).unwrap();
    spawn_some(fd);
    ask_many(fd, 5).unwrap();
    close(fd).unwrap();
}

const MUCH: usize = 12 << 20;

/// Sends much and receives as much, in two processes or two threads.
fn both_ways(fd: Fd, forks: bool) {
    let send = move || {
        send_all(fd, &bytes(5, MUCH)).unwrap();
        shutdown(fd, libc::SHUT_WR).unwrap();
    };
    let receive = || {
        let (sum, error) = recv_to_end(fd);
        say!("received {sum}, error {error:?}");
    };
    if forks {
        let pid = child_that_leaves(Leave::Exit, || {
            send();
            0
        });
        receive();
        say!("child left with {}", wait(pid));
    } else {
        let sender = std::thread::spawn(send);
        receive();
        sender.join().unwrap();
    }
    close(fd).unwrap();
}

/// One process of a fork sends while the other receives, at one end or both.
pub(crate) fn at_once_server(who: &str) {
    let (listener, port) = serve();
    announce(port);
    both_ways(accept_warm(listener), who != "client");
}

/// Its client.
pub(crate) fn at_once_client(port: u16, who: &str) {
    both_ways(dial_warm(port), who != "server");
}

//! A server that is replaced in place, with its listener and the connections in use.

use crate::images::Next;
use smc_tests::harness::net::{accept, close, dial, serve, shutdown, Fd};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer, ask};
use smc_tests::say;

const CLIENTS: usize = 6;
const TURNS: u32 = 120;
/// Requests that one image answers.
const EACH: u32 = 70;
/// Connections that come later, one after the other.
const LATER: usize = 5;

/// The first image.
pub(crate) fn server() {
    let (listener, port) = serve();
    announce(port);
    say!("{}", run(0, 0, listener, Vec::new()));
}

/// Images up to now, connections that have ended, the listener, the connections.
pub(crate) fn go_on(words: &[Fd]) {
    let counts: Vec<u32> = words[..2].iter().map(|word| word.cast_unsigned()).collect();
    say!("{}", run(counts[0], counts[1], words[2], words[3..].to_vec()));
}

fn run(image: u32, mut ended: u32, listener: Fd, mut conns: Vec<Fd>) -> String {
    let mut answered = 0;
    // By turns, since each image is a new one to both.
    let mut waits = Waits::new(image % 2 == 1);
    while ended < u32::try_from(CLIENTS + LATER).unwrap() {
        if answered >= EACH {
            let mut words = vec![(image + 1).cast_signed(), ended.cast_signed(), listener];
            words.extend(&conns);
            return format!("exec: {}", Next::this("upgraded", &words).exec(&words[2..]));
        }
        for fd in waits.ready(listener, &conns) {
            if fd == listener {
                conns.push(accept(listener).unwrap());
                continue;
            }
            match answer(fd).unwrap() {
                Some(_) => answered += 1,
                None => {
                    ended += 1;
                    conns.retain(|other| *other != fd);
                    close(fd).unwrap();
                    waits.forget(fd);
                }
            }
        }
    }
    format!("many images: {}", image > 5)
}

/// How an image waits for its descriptors.
enum Waits {
    Poll,
    /// With those that are registered.
    Epoll(Fd, Vec<Fd>),
}

impl Waits {
    fn new(by_epoll: bool) -> Self {
        if by_epoll {
            Self::Epoll(ready::epoll(), Vec::new())
        } else {
            Self::Poll
        }
    }

    /// What is closed is no longer registered, and its number may be used again.
    fn forget(&mut self, fd: Fd) {
        if let Self::Epoll(_, known) = self {
            known.retain(|other| *other != fd);
        }
    }

    /// Those that can be read, at least one.
    fn ready(&mut self, listener: Fd, conns: &[Fd]) -> Vec<Fd> {
        let all = std::iter::once(&listener).chain(conns).copied();
        match self {
            Self::Poll => {
                let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                let mut set: Vec<libc::pollfd> = all.map(entry).collect();
                ready::poll(&mut set, -1).unwrap();
                set.iter().filter(|entry| entry.revents != 0).map(|entry| entry.fd).collect()
            }
            Self::Epoll(epoll, known) => {
                for fd in all {
                    if !known.contains(&fd) {
                        ready::add(*epoll, fd, libc::EPOLLIN, fd.unsigned_abs().into()).unwrap();
                        known.push(fd);
                    }
                }
                let events = ready::wait(*epoll, 8, -1).unwrap();
                events.into_iter().map(|(data, _)| i32::try_from(data).unwrap()).collect()
            }
        }
    }
}

fn talk(port: u16, turns: u32) {
    let fd = dial(port);
    for turn in 0..turns {
        ask(fd, turn, turn * 131 % 20_000, turn * 77 % 40_000).unwrap();
    }
    shutdown(fd, libc::SHUT_WR).unwrap();
    assert_eq!(smc_tests::harness::net::recv(fd, &mut [0], 0), Ok(0));
    close(fd).unwrap();
}

/// Its clients know nothing of it.
pub(crate) fn client(port: u16) {
    let mut all: Vec<_> =
        (0..CLIENTS).map(|_| std::thread::spawn(move || talk(port, TURNS))).collect();
    all.push(std::thread::spawn(move || (0..LATER).for_each(|_| talk(port, 10))));
    let well = all.into_iter().filter_map(|thread| thread.join().ok()).count();
    say!("{well} talked");
}

/// An image that is given its listener as systemd does.
pub(crate) fn activating_server() {
    let (listener, port) = serve();
    announce(port);
    let third = smc_tests::harness::process::dup2(listener, 3).unwrap();
    let mut all: Vec<String> =
        std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    all.push("LISTEN_FDS=1".to_owned());
    all.push(format!("LISTEN_PID={}", std::process::id()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    say!("exec: {}", Next::this("activated", &[]).exec_with(&[third], &all));
}

/// What it does.
pub(crate) fn activated() {
    let told = |name| std::env::var(name).unwrap();
    let for_me = told("LISTEN_PID") == std::process::id().to_string();
    say!("listeners: {}, for me: {for_me}", told("LISTEN_FDS"));
    let fd = accept(3).unwrap();
    say!("answered {}", smc_tests::harness::talk::answer_all(fd));
}

/// Its client.
pub(crate) fn activating_client(port: u16) {
    talk(port, 60);
    say!("talked");
}

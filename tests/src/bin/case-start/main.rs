//! Cases about starting up and living inside a process.
#![allow(clippy::unwrap_used, clippy::panic)]

mod descriptors;
mod idle;
mod threads;

use smc_tests::harness::net::{accept_warm, close, dial_warm, recv_to_end, send_all, serve};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::role::{announce, Invocation, Role};
use smc_tests::harness::talk;
use smc_tests::say;

/// What was preloaded, whose sockets the constructor opened, and a conversation on them.
fn early() {
    let fds: Vec<i32> = std::env::var("EARLY_FDS")
        .unwrap()
        .split(' ')
        .map(|number| number.parse().unwrap())
        .collect();
    say!("constructor opened {fds:?}");
    let (client, server) = (fds[0], fds[1]);
    let answering = std::thread::spawn(move || talk::answer_all(server));
    talk::ask_many(client, 30).unwrap();
    close(client).unwrap();
    say!("answered {}", answering.join().unwrap());
}

/// Says its arguments and whether this library is mapped, then talks to itself.
fn arguments(args: &[String]) {
    say!("arguments {args:?}");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    say!("eatmydata mapped: {}", maps.contains("libeatmydata"));
    let (server, client) = smc_tests::harness::net::pair_warm();
    close(client).unwrap();
    say!("end: {:?}", recv_to_end(server));
}

fn stream_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    say!("answered {}", talk::answer_all(fd));
    let fd = accept_warm(listener);
    let (sum, error) = recv_to_end(fd);
    say!("received {sum}, error {error:?}");
}

fn stream_client(port: u16) {
    let fd = dial_warm(port);
    talk::ask_many(fd, 40).unwrap();
    close(fd).unwrap();
    let fd = dial_warm(port);
    send_all(fd, &bytes(4, 500_000)).unwrap();
    close(fd).unwrap();
    say!("done");
}

fn main() {
    let told = Invocation::parse();
    match (told.case.as_str(), told.role) {
        ("first_sockets", Role::Solo) => threads::first_sockets(),
        ("early", Role::Solo) => early(),
        ("arguments", Role::Solo) => arguments(&told.args),
        ("stream", Role::Server) => stream_server(),
        ("stream", Role::Client(port)) => stream_client(port),
        ("list", Role::Solo) => descriptors::list(),
        ("child_lists", Role::Server) => descriptors::child_lists_server(),
        ("child_lists", Role::Client(port)) => descriptors::child_lists_client(port),
        ("close_all", Role::Server) => descriptors::close_all_server(&told.args[0]),
        ("close_all", Role::Client(port)) => descriptors::close_all_client(port, &told.args[0]),
        ("idle", Role::Server) => idle::server(&told.args[0]),
        ("idle", Role::Client(port)) => idle::client(port),
        other => panic!("no such case: {other:?}"),
    }
}

//! Connections that stay open while somebody looks at them: both ends wait for the end of their
//! standard input.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::net::{accept, accept_warm, close, dial_warm, serve, warm_server};
use smc_tests::harness::process::{child, wait};
use smc_tests::harness::role::{announce, note, Invocation, Role};
use std::io::Read;

/// Room for many connections beside what the library opens for itself.
fn lift_limit() {
    let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
    // SAFETY: the pointer is to a live value.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0, "setrlimit");
}

/// Holds everything open until the test has seen enough.
fn hold(what: &str) {
    note(what);
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).unwrap();
}

fn server(count: usize) {
    let (listener, port) = serve();
    announce(port);
    for _ in 0..count {
        accept_warm(listener);
    }
    hold("ready");
}

/// Each connection is served by a child, and all of them have the same number.
fn forking_server(count: usize) {
    let (listener, port) = serve();
    announce(port);
    let children: Vec<i32> = (0..count)
        .map(|_| {
            let fd = accept(listener).unwrap();
            let pid = child(|| {
                close(listener).unwrap();
                warm_server(fd);
                hold(&format!("child {} has {fd}", std::process::id()));
                0
            });
            close(fd).unwrap();
            pid
        })
        .collect();
    hold("ready");
    for pid in children {
        assert_eq!(wait(pid), "exit 0");
    }
}

fn client(port: u16, count: usize) {
    for _ in 0..count {
        dial_warm(port);
    }
    hold("ready");
}

fn main() {
    lift_limit();
    let told = Invocation::parse();
    let count = told.args[0].parse().unwrap();
    match (told.case.as_str(), told.role) {
        ("plain", Role::Server) => server(count),
        ("forking", Role::Server) => forking_server(count),
        (_, Role::Client(port)) => client(port, count),
        other => panic!("no such case: {other:?}"),
    }
}

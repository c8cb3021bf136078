//! The smallest case, and ones that misbehave on purpose: they test the harness itself.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::net::{self, accept_warm, close, dial_warm, recv_to_end, send_all, serve};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::pause_ms;
use smc_tests::harness::role::{announce, Invocation, Role};
use smc_tests::say;

fn server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let (sum, error) = recv_to_end(fd);
    say!("got {sum} then {error:?}");
    close(fd).unwrap();
}

fn client(port: u16) {
    let fd = dial_warm(port);
    send_all(fd, &bytes(1, 300_000)).unwrap();
    say!("close {}", net::show(close(fd)));
}

fn main() {
    let told = Invocation::parse();
    match (told.case.as_str(), told.role) {
        ("stream", Role::Server) => server(),
        ("stream", Role::Client(port)) => client(port),
        // Says whether it was injected into, so that the arrangements differ.
        ("tells", Role::Solo) => say!("injected: {}", std::env::var_os("LD_PRELOAD").is_some()),
        ("hangs", Role::Solo) => {
            say!("before");
            pause_ms(60_000);
        }
        other => panic!("no such case: {other:?}"),
    }
}

//! Cases about how connections come to be.
#![allow(clippy::unwrap_used, clippy::panic)]

mod asynchronous;
mod binding;
mod families;
mod listeners;
mod queues;
mod speakers;

use smc_tests::harness::net::{accept, close, serve};
use smc_tests::harness::role::{announce, Invocation, Role};
use smc_tests::harness::talk::answer_all;
use smc_tests::say;

/// A server that answers `connections` conversations one after the other.
fn talk_server(connections: usize) {
    let (listener, port) = serve();
    announce(port);
    for _ in 0..connections {
        let fd = accept(listener).unwrap();
        say!("answered {}", answer_all(fd));
        close(fd).unwrap();
    }
}

fn main() {
    let told = Invocation::parse();
    match (told.case.as_str(), told.role) {
        ("epoll_before_connect", Role::Server) => talk_server(4),
        ("epoll_before_connect", Role::Client(port)) => asynchronous::epoll_before_connect(port),
        ("refused", Role::Solo) => asynchronous::refused(),
        ("in_progress", Role::Solo) => asynchronous::in_progress(),
        ("abandoned", Role::Server) => asynchronous::abandoned_server(),
        ("abandoned", Role::Client(port)) => asynchronous::abandoned_client(port),
        ("bound_client", Role::Server) => binding::bound_server(),
        ("bound_client", Role::Client(port)) => binding::bound_client(port),
        ("double_bind", Role::Solo) => binding::double_bind(),
        ("inert_options", Role::Server) => talk_server(1),
        ("inert_options", Role::Client(port)) => binding::inert_options(port),
        ("reuseport", Role::Server) => listeners::reuseport_server(),
        ("reuseport", Role::Client(port)) => listeners::reuseport_client(port),
        ("one_thread", Role::Solo) => listeners::one_thread(),
        ("reset_before_accept", Role::Solo) => listeners::reset_before_accept(),
        ("dual_stack", Role::Server) => families::dual_stack_server(),
        ("dual_stack", Role::Client(port)) => families::dual_stack_client(port),
        ("v6_only", Role::Server) => families::v6_only_server(),
        ("v6_only", Role::Client(port)) => families::v6_only_client(port),
        ("server_first", Role::Server) => speakers::server_first_server(),
        ("server_first", Role::Client(port)) => speakers::server_first_client(port),
        ("client_only_speaks", Role::Server) => speakers::client_only_speaks_server(),
        ("client_only_speaks", Role::Client(port)) => speakers::client_only_speaks_client(port),
        ("nobody_speaks", Role::Server) => speakers::nobody_speaks_server(),
        ("nobody_speaks", Role::Client(port)) => speakers::nobody_speaks_client(port),
        ("both_speak", Role::Server) => speakers::both_speak_server(),
        ("both_speak", Role::Client(port)) => speakers::both_speak_client(port),
        ("half_close", Role::Server) => speakers::half_close_server(),
        ("half_close", Role::Client(port)) => speakers::half_close_client(port),
        ("last_words", Role::Server) => speakers::last_words_server(),
        ("last_words", Role::Client(port)) => speakers::last_words_client(port),
        ("fast_open", Role::Server) => queues::fast_open_server(),
        ("fast_open", Role::Client(port)) => queues::fast_open_client(port),
        ("backlogs", Role::Solo) => queues::backlogs(),
        ("closed_with_queue", Role::Solo) => queues::closed_with_queue(),
        ("ended_in_accept", Role::Solo) => queues::ended_in_accept(),
        ("deferred", Role::Solo) => queues::deferred(),
        ("short", Role::Server) => speakers::short_server(),
        ("short", Role::Client(port)) => speakers::short_client(port),
        ("long_after_short", Role::Server) => speakers::long_after_short_server(),
        ("long_after_short", Role::Client(port)) => speakers::long_after_short_client(port),
        other => panic!("no such case: {other:?}"),
    }
}

//! Cases about `exec`: what a new image finds of the connections that it inherits.
#![allow(clippy::unwrap_used, clippy::panic)]

mod again;
mod children;
mod images;
mod input;
mod plain;
mod threads;
mod upgrade;

use smc_tests::harness::role::{Invocation, Role};

/// What a later image does: `then WHAT FD…`.
fn then(what: &str, words: &[String]) {
    let fd = |nth: usize| words[nth].parse().unwrap();
    match what {
        "again_serve" => again::serve_on(fd(0)),
        "again_ask" => again::ask_on(fd(0)),
        "serve_all" => children::serve_all(fd(0)),
        "odd_turns" => children::odd_turns(fd(0), fd(1), fd(2)),
        "foreign_serve" => plain::foreign_serve(fd(0)),
        "threads_go_on" => {
            let fds: Vec<i32> = words.iter().map(|word| word.parse().unwrap()).collect();
            threads::go_on(&fds);
        }
        "upgraded" => {
            let fds: Vec<i32> = words.iter().map(|word| word.parse().unwrap()).collect();
            upgrade::go_on(&fds);
        }
        "take_input" => input::take_input(),
        "activated" => upgrade::activated(),
        other => panic!("no such image: {other}"),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let ["then", what] = [words[1].as_str(), words[2].as_str()] {
        return then(what, &words[3..]);
    }
    let told = Invocation::parse();
    let args: Vec<&str> = told.args.iter().map(String::as_str).collect();
    match (told.case.as_str(), told.role) {
        ("again", Role::Server) => again::server(args[0] != "client"),
        ("again", Role::Client(port)) => again::client(port, args[0] != "server"),
        ("hands_over", Role::Server) => children::hands_over_server(args[0]),
        ("hands_over", Role::Client(port)) => children::hands_over_client(port),
        ("in_turn", Role::Server) => children::in_turn_server(args[0]),
        ("in_turn", Role::Client(port)) => children::in_turn_client(port),
        ("bystanders", Role::Server) => children::bystanders_server(),
        ("bystanders", Role::Client(port)) => children::bystanders_client(port),
        ("fails", Role::Server) => plain::fails_server(),
        ("fails", Role::Client(port)) => plain::fails_client(port),
        ("foreign", Role::Server) => plain::foreign_server(),
        ("foreign", Role::Client(port)) => plain::foreign_client(port),
        ("standard", Role::Server) => plain::standard_server(args[0]),
        ("standard", Role::Client(port)) => plain::standard_client(port),
        ("threads", Role::Server) => threads::server(),
        ("threads", Role::Client(port)) => threads::client(port),
        ("upgrade", Role::Server) => upgrade::server(),
        ("upgrade", Role::Client(port)) => upgrade::client(port),
        ("activation", Role::Server) => upgrade::activating_server(),
        ("activation", Role::Client(port)) => upgrade::activating_client(port),
        ("static", Role::Server) => plain::static_server(args[0]),
        ("static", Role::Client(port)) => plain::standard_client(port),
        ("busy_input", Role::Server) => input::busy_server(),
        ("busy_input", Role::Client(port)) => input::busy_client(port),
        ("ended_input", Role::Server) => input::ended_server(),
        ("ended_input", Role::Client(port)) => input::ended_client(port),
        other => panic!("no such case: {other:?}"),
    }
}

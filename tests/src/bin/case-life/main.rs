//! Cases about forks, deaths and shared descriptors.
#![allow(clippy::unwrap_used, clippy::panic)]

mod births;
mod closing;
mod forks;
mod killed;
mod leaving;
mod listening;
mod passing;
mod shared;
mod sleepers;

use smc_tests::harness::role::{Invocation, Role};

fn main() {
    let told = Invocation::parse();
    let args: Vec<&str> = told.args.iter().map(String::as_str).collect();
    match (told.case.as_str(), told.role) {
        ("child_serves", Role::Server) => forks::child_serves_server(),
        ("child_serves", Role::Client(port)) => forks::child_serves_client(port),
        ("child_leaves", Role::Server) => forks::child_leaves_server(),
        ("child_leaves", Role::Client(port)) => forks::child_leaves_client(port),
        ("in_turn", Role::Server) => forks::in_turn_server(),
        ("in_turn", Role::Client(port)) => forks::in_turn_client(port),
        ("at_once", Role::Server) => forks::at_once_server(args[0]),
        ("at_once", Role::Client(port)) => forks::at_once_client(port, args[0]),
        ("many_forks", Role::Server) => forks::many_forks_server(),
        ("many_forks", Role::Client(port)) => forks::many_forks_client(port),
        ("many_children", Role::Server) => sleepers::many_children_server(),
        ("many_children", Role::Client(port)) => sleepers::many_children_client(port),
        ("brief_epolls", Role::Server) => sleepers::brief_epolls_server(),
        ("brief_epolls", Role::Client(port)) => sleepers::brief_epolls_client(port),
        ("registered", Role::Server) => sleepers::registered_server(),
        ("registered", Role::Client(port)) => sleepers::registered_client(port),
        ("spawned_beside", Role::Server) => sleepers::spawned_beside_server(),
        ("spawned_beside", Role::Client(port)) => sleepers::spawned_beside_client(port),
        ("spawned_together", Role::Server) => births::spawned_together_server(),
        ("spawned_together", Role::Client(port)) => births::spawned_together_client(port),
        ("spawned", Role::Server) => forks::spawned_server(),
        ("spawned", Role::Client(port)) => forks::spawned_client(port),
        ("prefork", Role::Server) => listening::prefork_server(),
        ("prefork", Role::Client(port)) => listening::prefork_client(port),
        ("daemon_listener", Role::Server) => listening::daemon_listener_server(),
        ("daemon_connection", Role::Server) => listening::daemon_connection_server(),
        ("double_fork", Role::Server) => listening::double_fork_server(),
        ("daemon_listener" | "daemon_connection" | "double_fork", Role::Client(port)) => {
            listening::daemon_client(port)
        }
        ("server_killed", Role::Server) => killed::victim_server(args[0]),
        ("server_killed", Role::Client(port)) => killed::survivor_client(port, args[1]),
        ("late_look", Role::Server) => killed::late_victim_server(),
        ("late_look", Role::Client(port)) => killed::late_survivor_client(port),
        ("client_killed", Role::Server) => killed::survivor_server(args[1]),
        ("client_killed", Role::Client(port)) => killed::victim_client(port, args[0]),
        ("nonblock_shared", Role::Server) => shared::nonblock_server(),
        ("nonblock_shared", Role::Client(port)) => shared::nonblock_client(port),
        ("dups", Role::Server) => shared::dups_server(),
        ("dups", Role::Client(port)) => shared::dups_client(port),
        ("linger_zero", Role::Server) => closing::linger_zero_server(),
        ("linger_zero", Role::Client(port)) => closing::linger_zero_client(port),
        ("linger_data", Role::Server) => closing::linger_data_server(),
        ("linger_data", Role::Client(port)) => closing::linger_data_client(port),
        ("passed", Role::Server) => passing::server(&args),
        ("passed", Role::Client(port)) => passing::client(port, &args),
        ("received", Role::Solo) => passing::received(args[0], args[1]),
        ("owed", Role::Server) => leaving::owed_server(),
        ("owed", Role::Client(port)) => leaving::owed_client(port, args[0]),
        ("copied", Role::Server) => leaving::copied_server(),
        ("copied", Role::Client(port)) => leaving::copied_client(port),
        ("half", Role::Server) => leaving::half_server(),
        ("half", Role::Client(port)) => leaving::half_client(port),
        ("closed_in_forks", Role::Server) => leaving::closed_in_forks_server(),
        ("closed_in_forks", Role::Client(port)) => leaving::closed_in_forks_client(port),
        ("unread", Role::Server) => closing::unread_server(),
        ("unread", Role::Client(port)) => closing::unread_client(port),
        ("died_half_closed", Role::Server) => closing::died_half_closed_server(),
        ("died_half_closed", Role::Client(port)) => closing::died_half_closed_client(port),
        ("died_unread", Role::Server) => closing::died_unread_server(args[0]),
        ("died_unread", Role::Client(port)) => closing::unread_client(port),
        ("late", Role::Server) => closing::late_server(),
        ("late", Role::Client(port)) => closing::late_client(port),
        other => panic!("no such case: {other:?}"),
    }
}

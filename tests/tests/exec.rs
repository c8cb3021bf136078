//! A connection outlives the image of a process that inherits it: `exec`, and children that are
//! started as another program.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::{compile_c, Case};

fn exec(case: &str) -> Case {
    Case::pair("case-exec", case)
}

/// The server becomes another image while data lies unread in both directions.
#[test]
fn e7_server_execs() {
    exec("again").args(["server"]).images(2).check();
}

/// So does the client.
#[test]
fn e7_client_execs() {
    exec("again").args(["client"]).images(2).check();
}

/// And both.
#[test]
fn e7_both_exec() {
    exec("again").args(["both"]).images(2).check();
}

/// A child that is another image serves alone, whatever started it.
#[test]
fn e7_child_goes_on() {
    for how in ["fork", "vfork", "spawn"] {
        exec("hands_over").args([how]).images(4).check();
    }
}

/// A child that is another image, and its parent, use one connection in turn.
#[test]
fn e7_parent_and_child_in_turn() {
    for how in ["fork", "vfork", "spawn"] {
        exec("in_turn").args([how]).images(3).check();
    }
}

/// Programs that inherit a connection and leave it alone do it no harm.
#[test]
fn e6_bystanders() {
    exec("bystanders").images(2).check();
}

/// An exec that fails changes nothing.
#[test]
fn e7_exec_fails() {
    exec("fails").images(2).check();
}

/// An image without the library goes on over TCP.
#[test]
fn e7_foreign_image() {
    exec("foreign").check();
}

/// A connection on the standard descriptors of a child, as under inetd.
#[test]
fn e7_standard_descriptors() {
    for how in ["fork", "vfork", "spawn"] {
        exec("standard").args([how]).check();
    }
}

/// One thread execs while others are in the middle of sending and receiving.
#[test]
fn e7_exec_among_threads() {
    exec("threads").images(2).check();
}

/// A server is replaced in place, again and again, with its listener and connections in use.
#[test]
fn e20_replaced_in_place() {
    exec("upgrade").images(2).check();
}

/// A server that gets its listener as systemd gives it.
#[test]
fn e20_socket_activation() {
    exec("activation").images(2).check();
}

/// Children become a static program: the connection goes back to TCP before they see it.
#[test]
fn e7_static_children() {
    let program = compile_c("static_echo", &["-static"]);
    exec("static").args([program.to_str().unwrap()]).check();
}

/// A stream becomes a child's standard input while the peer is sending: its call returns when all
/// is sent.
#[test]
fn e7_input_of_a_busy_peer() {
    exec("busy_input").check();
}

/// A stream becomes a child's standard input when the peer has sent all and ended.
#[test]
fn e7_input_that_has_ended() {
    exec("ended_input").check();
}

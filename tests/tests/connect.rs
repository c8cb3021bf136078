//! How connections come to be: every way of connecting gives the same bytes, returns, errors and
//! events in every arrangement.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::Case;
use std::time::Duration;

/// A nonblocking connect registered in epoll beforehand: OUT when connected, IN with each reply.
#[test]
fn b1_epoll_before_connect() {
    Case::pair("case-connect", "epoll_before_connect").check();
}

/// A refused connect: writable, with ECONNREFUSED once, and ERR and HUP whatever the mask.
#[test]
fn b3_connect_refused() {
    Case::solo("case-connect", "refused").not_accelerated("no connection carries data").check();
}

/// Calls on a socket that is not yet connected say EAGAIN and EALREADY.
#[test]
fn b4_calls_while_connecting() {
    Case::solo("case-connect", "in_progress")
        .not_accelerated("a few bytes between one thread's own sockets")
        .check();
}

/// Two thousand connects closed at once leave no trace.
#[test]
fn b5_connects_closed_at_once() {
    Case::pair("case-connect", "abandoned").timeout(Duration::from_secs(60)).check();
}

/// A client may bind first, and its name is what it asked for.
#[test]
fn b6_bind_before_connect() {
    Case::pair("case-connect", "bound_client").check();
}

/// Socket options that TCP ignores read as the program left them.
#[test]
fn b6_inert_options_unchanged() {
    Case::pair("case-connect", "inert_options").check();
}

/// Addresses in use are refused.
#[test]
fn b7_double_bind() {
    Case::solo("case-connect", "double_bind").not_accelerated("no data").check();
}

/// Four processes share one port, and each gets connections.
#[test]
fn b8_reuseport_processes() {
    Case::pair("case-connect", "reuseport").timeout(Duration::from_secs(60)).check();
}

/// One thread is both ends: nothing may wait for the other.
#[test]
fn b9_client_and_server_in_one_thread() {
    Case::solo("case-connect", "one_thread").check();
}

/// A connection that is over before accept().
#[test]
fn b10_reset_before_accept() {
    Case::solo("case-connect", "reset_before_accept")
        .not_accelerated("the connections end before they are accepted")
        .check();
}

/// One listener for IPv4, IPv6 and v4-mapped clients.
#[test]
fn b12_dual_stack() {
    Case::pair("case-connect", "dual_stack").check();
}

/// A listener for IPv6 alone refuses IPv4.
#[test]
fn b12_v6_only() {
    Case::pair("case-connect", "v6_only").check();
}

/// The first bytes come with the SYN, by either way of asking for it.
#[test]
fn b11_fast_open() {
    Case::pair("case-connect", "fast_open").check();
}

/// Listening twice, with a negative backlog, and with one that overflows.
#[test]
fn b13_backlogs() {
    Case::solo("case-connect", "backlogs").not_accelerated("no data").check();
}

/// A listener closed with fifty connections in its queue.
#[test]
fn b14_listener_closed_with_queue() {
    Case::solo("case-connect", "closed_with_queue")
        .not_accelerated("nobody accepts the connections")
        .check();
}

/// A listener shut down or closed while another thread is in accept.
#[test]
fn b15_listener_ended_in_accept() {
    Case::solo("case-connect", "ended_in_accept")
        .not_accelerated("an accept on a listener that is closed brings a plain connection")
        .check();
}

/// TCP_DEFER_ACCEPT.
#[test]
fn b18_deferred_accept() {
    Case::solo("case-connect", "deferred").check();
}

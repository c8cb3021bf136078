//! Forks, deaths and shared descriptors: a connection outlives or dies with its holders exactly
//! as it does bare.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::Case;
use std::time::Duration;

fn life(case: &str) -> Case {
    Case::pair("case-life", case)
}

/// The child serves and the parent closes.
#[test]
fn e1_child_serves_after_accept() {
    life("child_serves").check();
}

/// A child that leaves, by exit or _exit, takes nothing with it.
#[test]
fn e2_child_leaves() {
    life("child_leaves").check();
}

/// Both sides of a fork use one connection in turn.
#[test]
fn e3_both_sides_of_a_fork() {
    life("in_turn").check();
}

/// One sends while the other receives: each wakes by its own bells.
#[test]
fn e3_both_sides_at_once() {
    for who in ["client", "server", "both"] {
        life("at_once").args([who]).check();
    }
}

/// Children accept on a listener they inherited.
#[test]
fn e4_children_accept() {
    life("prefork").check();
}

/// A thousand forks under traffic in two threads.
#[test]
fn e5_a_thousand_forks() {
    life("many_forks").timeout(Duration::from_secs(90)).check();
}

/// More children than there are wait slots have slept for a connection; epoll tells of it all the same.
#[test]
fn e5_more_sleepers_than_slots() {
    life("many_children").check();
}

/// A child moves a connection on that stands in an epoll instance of its parent's.
#[test]
fn e5_registered_by_the_parent() {
    life("registered").not_accelerated("it never pays").check();
}

/// A child is spawned while another thread makes and closes other numbers of a connection.
#[test]
fn e6_spawned_beside_other_numbers() {
    life("spawned_beside").check();
}

/// Epoll instances come and go in several threads at a time.
#[test]
fn d5_brief_epoll_instances() {
    life("brief_epolls").check();
}

/// Several threads start programs at the same moment: each of these holds the connections as long as it
/// lives, and no longer.
#[test]
fn e6_spawned_together() {
    life("spawned_together").check();
}

/// Spawned children close and replace descriptors without harm to the parent.
#[test]
fn e6_spawned_children() {
    life("spawned").check();
}

/// A daemon with a listener.
#[test]
fn e8_daemon_with_listener() {
    life("daemon_listener").check();
}

/// A daemon with a connection in use.
#[test]
fn e8_daemon_with_connection() {
    life("daemon_connection").check();
}

/// A double fork with a connection in use.
#[test]
fn e8_double_fork() {
    life("double_fork").check();
}

/// The server dies by SIGKILL in each blocking call; the client notices at once.
#[test]
fn e10_server_killed() {
    for (victim, survivor) in [
        ("recv", "recv"),
        ("recv", "epoll"),
        ("send", "recv"),
        ("idle", "send"),
        ("sendfile", "recv"),
    ] {
        life("server_killed").args([victim, survivor]).check();
    }
}

/// Who looks for the first time when the peer has been dead for long is told.
#[test]
fn e10_late_look_at_the_dead() {
    life("late_look").check();
}

/// The client dies by SIGKILL in each blocking call; the server notices and serves the next.
#[test]
fn e10_client_killed() {
    for (victim, survivor) in [
        ("recv", "recv"),
        ("epoll", "epoll"),
        ("send", "epoll"),
        ("idle", "send"),
        ("sendfile", "recv"),
    ] {
        life("client_killed").args([victim, survivor]).check();
    }
}

/// O_NONBLOCK is one flag for all who share the connection.
#[test]
fn e14_nonblocking_flag_is_shared() {
    life("nonblock_shared").check();
}

/// A connection under several numbers ends with the last.
#[test]
fn e14_dups_are_one_connection() {
    life("dups").check();
}

/// SO_LINGER 0: the peer sees a reset.
#[test]
fn e15_linger_zero() {
    life("linger_zero").check();
}

/// A close with much unsent loses nothing.
#[test]
fn e15_linger_with_data() {
    life("linger_data").check();
}

/// So is an end of the process that nobody announces, with unread data.
#[test]
fn e15_death_with_unread_data() {
    for way in ["killed", "exits"] {
        life("died_unread").args([way]).check();
    }
}

/// A peer that has shut its sending direction down dies while the sender waits for room.
#[test]
fn e10_half_closed_peer_killed() {
    life("died_half_closed").check();
}

/// A close with unread data is a reset.
#[test]
fn e15_close_with_unread_data() {
    life("unread").check();
}

/// A reply that is read after both ends, or a reset, have closed the connection.
#[test]
fn e16_read_after_the_end() {
    life("late").check();
}

/// A connection in use is passed to another program, which may or may not be under smc-run, with and
/// without data that were not read.
#[test]
fn e9_passed_in_use() {
    for passer in ["server", "client"] {
        for when in ["warm", "unread"] {
            for receiver in ["preloaded", "plain"] {
                life("passed").args([passer, when, receiver]).check();
            }
        }
    }
}

/// A connection is passed before its first byte. What a program that is under smc-run receives from
/// an accepting one is accelerated.
#[test]
fn e9_passed_before_the_first_byte() {
    life("passed").args(["server", "fresh", "preloaded"]).check();
    life("passed").args(["server", "twice", "preloaded"]).check();
    for (passer, receiver) in [("server", "plain"), ("client", "preloaded"), ("client", "plain")] {
        life("passed")
            .args([passer, "fresh", receiver])
            .not_accelerated("the receiver cannot tell that its socket bears the mark")
            .check();
    }
}

/// What a reader that leaves the ring has not read is sent to it by a peer that sleeps, whatever that
/// waits for.
#[test]
fn e12_owed_by_a_sleeper() {
    for how in ["recv", "poll", "select", "epoll"] {
        life("owed").args([how]).check();
    }
}

/// Copies of what the peer has from the ring are no new data to a connection that is shut.
#[test]
fn e13_shut_behind_copies() {
    life("copied").check();
}

/// A connection is closed in the middle of a fork of another thread: its end is complete.
#[test]
fn e13_closed_in_the_middle_of_forks() {
    life("closed_in_forks").check();
}

/// A connection that receives over TCP and sends through the ring is writable when the ring has room.
#[test]
fn e12_room_with_half_a_ring() {
    life("half").check();
}

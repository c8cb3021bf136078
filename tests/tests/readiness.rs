//! Readiness: which events come, how often, and what wakes whom, with either end as the subject.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::puppet::play;

macro_rules! cases {
    ($($name:ident)*) => { $(#[test] fn $name() {
        play("case-readiness", stringify!($name), &[]);
    })* };
}

cases! {
    d1_one_event
    d1_fair
    d1_in_order
    d2_rearm
    d2_arrival
    d3_no_interest
    d4_nested
    d4_nested_blocking
    d5_two_epolls
    d5_duplicates
    d5_bad_control
    d6_control_while_waiting
    d6_data_while_waiting
    d7_mixed
    d8_poll_many
    d8_select
    d8_bad_descriptors
    d9_shutdown
    d9_blocked_calls
    d10_reset
    d11_data_then_end
    d12_epoll_duplicate
    d13_exclusive
}

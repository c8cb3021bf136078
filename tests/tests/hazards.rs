//! Calls that are disturbed by other threads, by signals, and by descriptors that change their meaning,
//! with either end as the subject.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::puppet::play;

macro_rules! cases {
    ($($name:ident)*) => { $(#[test] fn $name() {
        play("case-hazards", stringify!($name), &[]);
    })* };
}

cases! {
    b10_disconnected
    e11_closed_by_another_thread
    e11_replaced_by_another_thread
    e11_shut_by_another_thread
    e12_replaced
    e12_refused
    e13_closed_unseen
    e16_interrupted
    e16_restarted
    e16_interval_timer
    e16_handler_sends
}

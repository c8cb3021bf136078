//! Socket options and ioctls read, take and do what they do bare, with either end as the subject.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::puppet::play;

macro_rules! cases {
    ($($name:ident)*) => { $(#[test] fn $name() {
        play("case-options", stringify!($name), &[]);
    })* };
}

cases! {
    sweep_fresh
    sweep_listening
    sweep_connected
    sweep_ioctls
    b17_inherited
    timestamps
    bytes_in_queue
    peek_offset
    filter
    zero_copy_receive
    user_timeout
    pacing
    signals
    not_sent_low_water
    sending_times
    zero_copy_send
    kernel_tls
    repair
}

//! Moving data: what each call returns and what arrives, with either end as the subject.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::puppet::play;

macro_rules! cases {
    ($($name:ident)*) => { $(#[test] fn $name() { play("case-data", stringify!($name), &[]); })* };
}

/// `SMC_TEST_ROUNDS` makes it longer, for soak runs.
#[test]
fn c5_fill_and_drain() {
    let rounds = std::env::var("SMC_TEST_ROUNDS").unwrap_or_else(|_| "2000".to_owned());
    play("case-data", "c5_fill_and_drain", &[format!("rounds={rounds}")]);
}

cases! {
    c1_blocking_send
    c2_buffer_sizes
    c3_bounded
    c4_partial_write
    c6_timeouts
    c6_lowat
    c7_receive_flags
    c7_waitall
    c7_send_flags
    c7_no_signal
    c8_empty_buffers
    c8_bad_receive
    c8_bad_send
    c8_bad_vectors
    c8_bad_descriptors
    c9_vectors
    c9_messages
    c9_many_messages
    c9_not_for_sockets
    c10_files
    c10_splices
    c11_ioctls
    c11_nonblocking
    c12_urgent
    c13_duplex
    c13_many
    c13_shared_writers
    c14_sizes
}

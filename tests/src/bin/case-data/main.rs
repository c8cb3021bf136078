//! Cases about moving data: what each call returns and what arrives.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bad;
mod blocking;
mod edge;
mod files;
mod flags;
mod ioctls;
mod sizes;
mod threads;
mod timeouts;
mod vectors;

use smc_tests::puppet::{self, Entry};

const CASES: &[Entry] = &[
    ("c1_blocking_send", blocking::whole),
    ("c2_buffer_sizes", blocking::buffer_sizes),
    ("c3_bounded", blocking::bounded),
    ("c4_partial_write", edge::partial_write),
    ("c5_fill_and_drain", edge::fill_and_drain),
    ("c6_timeouts", timeouts::timeouts),
    ("c6_lowat", timeouts::lowat),
    ("c7_receive_flags", flags::receive),
    ("c7_waitall", flags::waitall),
    ("c7_send_flags", flags::send),
    ("c7_no_signal", flags::no_signal),
    ("c8_empty_buffers", bad::empty),
    ("c8_bad_receive", bad::receive),
    ("c8_bad_send", bad::send),
    ("c8_bad_vectors", bad::vectors),
    ("c8_bad_descriptors", bad::descriptors),
    ("c9_vectors", vectors::vectors),
    ("c9_messages", vectors::messages),
    ("c9_many_messages", vectors::many),
    ("c9_not_for_sockets", vectors::not_for_sockets),
    ("c10_files", files::files),
    ("c10_splices", files::splices),
    ("c11_ioctls", ioctls::ioctls),
    ("c11_nonblocking", ioctls::nonblocking),
    ("c12_urgent", ioctls::urgent),
    ("c13_duplex", threads::duplex),
    ("c13_many", threads::many),
    ("c13_shared_writers", threads::shared_writers),
    ("c14_sizes", sizes::sizes),
];

fn main() -> std::process::ExitCode {
    puppet::main(CASES)
}

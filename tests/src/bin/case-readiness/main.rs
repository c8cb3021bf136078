//! Cases about readiness: which events come, how often, and what wakes whom.
#![allow(clippy::unwrap_used, clippy::panic)]

mod blocked;
mod ends;
mod load;
mod matrix;
mod nested;
mod sets;
mod several;

use smc_tests::puppet::{self, Entry};

const CASES: &[Entry] = &[
    ("d1_one_event", several::one_event),
    ("d1_fair", several::fair),
    ("d1_in_order", several::in_order),
    ("d2_rearm", matrix::rearm),
    ("d2_arrival", matrix::arrival),
    ("d3_no_interest", matrix::no_interest),
    ("d4_nested", nested::nested),
    ("d4_nested_blocking", nested::blocking),
    ("d5_two_epolls", several::two_epolls),
    ("d5_duplicates", several::duplicates),
    ("d5_bad_control", several::bad_control),
    ("d6_control_while_waiting", blocked::control_while_waiting),
    ("d6_data_while_waiting", blocked::data_while_waiting),
    ("d7_mixed", load::mixed),
    ("d8_poll_many", sets::poll_many),
    ("d8_select", sets::select_sets),
    ("d8_bad_descriptors", sets::bad_descriptors),
    ("d9_shutdown", ends::shutdown),
    ("d9_blocked_calls", blocked::ends_while_waiting),
    ("d10_reset", ends::reset),
    ("d11_data_then_end", ends::data_then_end),
    ("d12_epoll_duplicate", several::epoll_duplicate),
    ("d13_exclusive", several::exclusive),
];

fn main() -> std::process::ExitCode {
    puppet::main(CASES)
}

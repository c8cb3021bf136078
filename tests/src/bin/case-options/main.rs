//! Cases about socket options and ioctls: what each reads, which values it takes, and what it does to a
//! connection in use.
#![allow(clippy::unwrap_used, clippy::panic)]

mod behaviour;
mod differences;
mod directions;
mod sweep;

use smc_tests::puppet::{self, Entry};

const CASES: &[Entry] = &[
    ("sweep_fresh", sweep::fresh),
    ("sweep_listening", sweep::listening),
    ("sweep_connected", sweep::connected),
    ("sweep_ioctls", sweep::ioctls),
    ("b17_inherited", sweep::inherited),
    ("timestamps", directions::timestamps),
    ("bytes_in_queue", directions::bytes_in_queue),
    ("peek_offset", directions::peek_offset),
    ("filter", directions::filter),
    ("zero_copy_receive", directions::zero_copy_receive),
    ("user_timeout", directions::user_timeout),
    ("pacing", directions::pacing),
    ("signals", directions::signals),
    ("not_sent_low_water", behaviour::not_sent_low_water),
    ("sending_times", behaviour::sending_times),
    ("zero_copy_send", behaviour::zero_copy_send),
    ("kernel_tls", behaviour::kernel_tls),
    ("repair", behaviour::repair),
];

fn main() -> std::process::ExitCode {
    puppet::main(CASES)
}

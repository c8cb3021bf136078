//! Cases about calls that are disturbed: by another thread, by signals, by descriptors that change
//! their meaning behind the library's back.
#![allow(clippy::unwrap_used, clippy::panic)]

mod numbers;
mod reused;
mod signals;
mod threads;

use smc_tests::puppet::{self, Entry};

const CASES: &[Entry] = &[
    ("e11_closed_by_another_thread", threads::closed),
    ("e11_replaced_by_another_thread", threads::replaced),
    ("e11_shut_by_another_thread", threads::shut),
    ("e12_replaced", numbers::replaced),
    ("e12_refused", numbers::refused),
    ("e13_closed_unseen", numbers::closed_unseen),
    ("e16_interrupted", signals::interrupted),
    ("e16_restarted", signals::restarted),
    ("e16_interval_timer", signals::interval_timer),
    ("e16_handler_sends", signals::handler_sends),
    ("b10_disconnected", reused::disconnected),
];

fn main() -> std::process::ExitCode {
    puppet::main(CASES)
}

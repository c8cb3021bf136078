//! A busy connection makes no system calls: fewer than one for a thousand messages, the looks at the
//! kernel's events among them.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::stats::{read, Summary};
use smc_tests::harness::{preload_library, scratch};
use std::process::Command;

/// Messages of the long run beyond the short one.
const MESSAGES: u64 = 1_000_000;
const SHORT: u64 = 1_000;

/// System calls of a run by strace, and what the process counted itself.
fn run(operation: &str, calls: u64) -> (u64, Summary) {
    let folder = scratch();
    let (table, summary) = (folder.path().join("table"), folder.path().join("summary"));
    let status = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&table)
        .arg("-E")
        .arg(format!("LD_PRELOAD={}", preload_library().display()))
        .arg("-E")
        .arg(format!("SMC_SUMMARY={}", summary.display()))
        .args(["-E", "SMC_ATTACH_AFTER=0"])
        .args([env!("CARGO_BIN_EXE_hotpath"), operation, "--calls", &calls.to_string()])
        .status()
        .unwrap();
    assert!(status.success(), "{operation}: {status}");
    let table = std::fs::read_to_string(table).unwrap();
    // The last line: share, seconds, microseconds a call, calls, errors, "total".
    let total = table.lines().rfind(|line| line.ends_with(" total")).unwrap();
    let total = total.split_whitespace().nth(3).unwrap().parse().unwrap();
    let counted = read(&summary).into_iter().next().unwrap();
    assert_eq!(counted.smcd, 2, "both ends were accelerated");
    (total, counted)
}

fn check(operation: &str) {
    let (before, _) = run(operation, SHORT);
    let (after, counted) = run(operation, SHORT + MESSAGES);
    let calls = after.saturating_sub(before);
    assert!(calls < MESSAGES / 1000, "{operation}: {calls} system calls for {MESSAGES} messages");
    // The process's own count says the same: what it slept, rang and looked.
    let smc = &counted.smc;
    assert!(smc.tx_bytes >= 100 * MESSAGES, "{operation}: {smc:?}");
    let own = smc.doorbells + smc.sleeps + smc.kernel_checks;
    assert!(own < MESSAGES / 1000, "{operation}: {smc:?}");
}

#[test]
fn sending_and_receiving_makes_none() {
    check("recv");
}

#[test]
fn epoll_makes_none() {
    check("epoll_wait");
}

#[test]
fn poll_makes_none() {
    check("poll");
}

//! A busy connection makes no system calls: fewer than one for a thousand messages, the looks at the
//! kernel's events among them.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::apps::wait;
use smc_tests::harness::stats::{read, Summary};
use smc_tests::harness::{preload_library, scratch};
use std::process::Command;
use std::time::Duration;

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

/// A ping-pong of blocking calls for a while: its messages, and how often the client asked the kernel
/// whether it may wait.
fn ping_pong() -> (u64, u64) {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let own = env!("CARGO_BIN_EXE_loadgen");
    let at = format!("127.0.0.1:{}", wait::free_port().unwrap());
    let sizes = ["--request", "100", "--reply", "100"];
    let mut server = Command::new(own)
        .args(["answer", "--at", &at])
        .args(sizes)
        .env("LD_PRELOAD", preload_library())
        .env("SMC_ATTACH_AFTER", "0")
        .spawn()
        .unwrap();
    let listens = || Ok(std::net::TcpStream::connect(&at).is_ok());
    wait::until("the server listens", Duration::from_secs(20), listens).unwrap();
    let client = Command::new("strace")
        .args(["-f", "-e", "trace=fcntl", "-o"])
        .arg(path("calls"))
        .arg("-E")
        .arg(format!("LD_PRELOAD={}", preload_library().display()))
        .arg("-E")
        .arg(format!("SMC_SUMMARY={}", path("summary").display()))
        .args(["-E", "SMC_ATTACH_AFTER=0", own, "rr", "--to", &at])
        .args(["--connections", "1", "--seconds", "1"])
        .args(sizes)
        .status()
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(client.success());
    let counted = read(&path("summary")).into_iter().next().unwrap();
    assert_eq!(counted.smcd, 1, "{counted:?}");
    let calls = std::fs::read_to_string(path("calls")).unwrap();
    let asked = calls.lines().filter(|line| line.contains("F_GETFL")).count() as u64;
    (counted.smc.tx_bytes / 100, asked)
}

/// A blocking receive looks at the ring before it asks whether it may wait. On a machine where others
/// want the processors too it may have to sleep each time: then it is tried again.
#[test]
fn a_short_wait_asks_nothing() {
    let runs: Vec<_> = (0..6).map(|_| ping_pong()).collect();
    let few = |(messages, asked): &(u64, u64)| *messages > 1000 && asked * 10 < *messages;
    assert!(runs.iter().any(few), "messages and questions: {runs:?}");
}

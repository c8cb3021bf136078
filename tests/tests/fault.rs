//! Either end of a checksummed stream, or both, are killed at a random point, again and again: a
//! survivor sees an end or a reset at once, what it received was right, and nothing is left behind.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::payload::Stream;
use smc_tests::harness::{preload_library, program, smc_run};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;

fn start(role: &[&str], bare: bool) -> (Child, BufReader<ChildStdout>) {
    let own = program("case-abrupt");
    let mut command = if bare { Command::new(&own) } else { Command::new(smc_run()) };
    if !bare {
        command.arg("--").arg(&own).env("SMC_ATTACH_AFTER", "0");
    }
    command.args(role).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// Ends a child that must end by itself; panics when it does not.
fn ended(child: &mut Child, limit: Duration, what: &str) -> Option<i32> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            let pid = child.id();
            let stuck = |file: &str| {
                std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
            };
            let at = format!("{} {} {}", stuck("wchan"), stuck("syscall"), stuck("stack"));
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: the survivor hangs at {at}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills one end after a while; returns whether the stream had moved to shared memory by then.
fn round(number: usize, random: &mut Stream, bare: bool) -> bool {
    let (mut server, mut server_says) = start(&["stream", "server"], bare);
    let mut line = String::new();
    server_says.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("@port ").unwrap_or_else(|| panic!("no port: {line:?}"));
    let (mut client, mut client_says) = start(&["stream", "client", port], bare);
    // Mostly in the middle of things, at times before there is anything.
    let delay = random.below(60_000);
    std::thread::sleep(Duration::from_micros(u64::try_from(delay).unwrap()));
    let kill_server = random.below(2) == 0;
    let kill_both = random.below(5) == 0;
    let what = format!("round {number}, {} killed", if kill_server { "server" } else { "client" });
    let (victim, survivor, says) = if kill_server {
        (&mut server, &mut client, &mut client_says)
    } else {
        (&mut client, &mut server, &mut server_says)
    };
    let accelerated = maps_ring(survivor.id());
    victim.kill().unwrap();
    victim.wait().unwrap();
    if kill_both {
        survivor.kill().unwrap();
        survivor.wait().unwrap();
        return accelerated;
    }
    // A server whose client died before it connected has nobody to hear from.
    let never_met = !kill_server && !connected(survivor.id());
    if never_met {
        survivor.kill().unwrap();
        survivor.wait().unwrap();
        return accelerated;
    }
    let status = ended(survivor, Duration::from_secs(5), &what);
    let mut rest = String::new();
    says.read_to_string(&mut rest).unwrap();
    // A survivor whose peer died in the warm-up says so there.
    let mut complaint = String::new();
    survivor.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(status, Some(0), "{what}: {rest} {complaint}");
    assert!(rest.contains("ended well"), "{what}: {rest:?}");
    accelerated
}

/// Whether the process maps a link group's memory.
fn maps_ring(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.contains("/memfd:smc") && line.contains("rw-s"))
}

/// Whether the process has a connection beside its listener, or is done with it.
fn connected(pid: u32) -> bool {
    let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let sockets = fds
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket:"));
    let inodes: BTreeSet<String> =
        sockets.map(|to| to.to_string_lossy()[8..].trim_end_matches(']').to_owned()).collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    // State 0A is the listener; anything else of this process is a connection.
    let mut rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.any(|row| row.get(9).is_some_and(|inode| inodes.contains(*inode)) && row[3] != "0A")
        || inodes.is_empty()
}

/// Files of ours where files get left behind; those of the project's own scripts and tests, which
/// may run beside this one, are named for them.
fn leftovers() -> BTreeSet<PathBuf> {
    let dirs = ["/dev/shm".into(), std::env::temp_dir(), "/var/tmp".into(), "/run".into()];
    let all = dirs.iter().filter_map(|dir: &PathBuf| std::fs::read_dir(dir).ok()).flatten();
    let named = all.flatten().map(|entry| entry.path());
    named
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let script =
                ["smc-tests-", "smc-bench-", "smc-apps-"].iter().any(|p| name.starts_with(p));
            name.contains("smc") && !script
        })
        .collect()
}

/// Processes of this test's program that still run.
fn still_running() -> Vec<String> {
    let own = program("case-abrupt");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let ours =
        all.filter(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|e| e == own));
    ours.map(|entry| entry.path().display().to_string()).collect()
}

#[test]
fn killed_at_random_points() {
    let bare = std::env::var_os("SMC_TEST_BARE_ONLY").is_some();
    if !bare {
        assert!(preload_library().exists());
    }
    let seed = std::env::var("SMC_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_240);
    let before = leftovers();
    let mut random = Stream::new(seed);
    let accelerated = (0..ROUNDS).filter(|&number| round(number, &mut random, bare)).count();
    println!("{accelerated} of {ROUNDS} streams were in shared memory when the end came");
    assert!(bare || accelerated >= ROUNDS / 4, "only {accelerated} streams were accelerated");
    assert_eq!(still_running(), Vec::<String>::new(), "processes left behind");
    let left: Vec<_> = leftovers().difference(&before).cloned().collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "files left behind");
}

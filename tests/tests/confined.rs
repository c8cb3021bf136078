//! Processes that may not do, or do not have, what others can: seccomp filters, limits, full or missing
//! file systems. They are accelerated or on TCP, and never end or fail where they would not bare.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::{compile_c, scratch, Arrangement, Case};
use std::fs;
use std::path::PathBuf;

fn is_root() -> bool {
    // SAFETY: no pointers.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("SKIPPED: this needs root");
    }
    root
}

fn stream(wrap: &[&str]) -> Case {
    Case::pair("case-start", "stream").wrap(wrap.iter().copied())
}

fn sandbox(words: [&str; 3]) -> Case {
    Case::pair(compile_c("sandbox", &[]).to_str().unwrap(), "sandbox").args(words)
}

/// Seccomp filters of either end or both, that forbid what a library may want or all that the program
/// itself does not do, by an error or by the end of the process: before the first socket, with a fresh
/// connection, and with one in use and bytes unread.
#[test]
fn a16_filters() {
    for how in ["all", "kill", "errno"] {
        for when in ["early", "fresh", "late"] {
            // A part of what the others forbid.
            if (how, when) == ("errno", "early") || (how, when) == ("kill", "fresh") {
                continue;
            }
            for who in ["both", "server", "client"] {
                let case = sandbox([how, when, who]).only(&[
                    Arrangement::Both,
                    Arrangement::ServerOnly,
                    Arrangement::ClientOnly,
                ]);
                // One that is in use has been accelerated before.
                if when == "late" {
                    case.check();
                } else {
                    case.not_accelerated("what is confined stays on TCP").check();
                }
            }
        }
    }
}

/// Few descriptors: enough for both, enough for the program alone.
#[test]
fn a15_few_descriptors() {
    stream(&["/usr/bin/prlimit", "--nofile=256:256"]).check();
    for few in ["24", "12", "9"] {
        stream(&["/usr/bin/prlimit", &format!("--nofile={few}:{few}")])
            .told("TCP without records: the program needs them all", |sum| sum.connections == 0)
            .check();
    }
    stream(&["/usr/bin/prlimit", "--nofile=128:128"]).check();
}

/// Little address space.
#[test]
fn a15_little_address_space() {
    for megabytes in [2000_u64, 400, 150, 60, 30] {
        let limit = megabytes << 20;
        stream(&["/usr/bin/prlimit", &format!("--as={limit}:{limit}")])
            .not_accelerated("there may be no room for the region")
            .check();
    }
}

/// Nothing may be written to files: memory of ours is no file.
#[test]
fn a15_no_file_size() {
    stream(&["/usr/bin/prlimit", "--fsize=0:0"])
        .not_accelerated("without its records the library does nothing")
        .check();
    // The records fit, a link group's memory does not.
    stream(&["/usr/bin/prlimit", "--fsize=100000000"])
        .told("TCP for want of memory", |sum| sum.smcd == 0 && sum.fallback.get(MEM) == Some(&2))
        .check();
}

const MEM: &str = "0x01010000";

/// Limits of one end that are set in the middle.
#[test]
fn a15_limited_in_the_middle() {
    let program = compile_c("changes", &[]);
    for who in ["server", "client"] {
        for limit in ["number of files", "locked memory", "address space"] {
            Case::pair(program.to_str().unwrap(), limit)
                .args([who])
                .only(&[Arrangement::Both])
                .told("all in the ring", |sum| (sum.smcd, sum.tcp) == (4, 0))
                .check();
        }
        Case::pair(program.to_str().unwrap(), "file size")
            .args([who])
            .only(&[Arrangement::Both])
            .told("in the ring, as far as an end can say", |sum| sum.smcd >= 2 && sum.tcp == 0)
            .check();
    }
}

/// A memory group, as far as this host has them, that has room for the program and little more.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("smc-tests-{}-{bytes}", std::process::id());
        let (old, new) = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup");
        for (root, limit) in [(old, "memory.limit_in_bytes"), (new, "memory.max")] {
            let folder = PathBuf::from(root).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self(folder);
            if fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A small memory group: the rings are charged as they are used, and nobody is killed for it.
#[test]
fn a15_small_memory_group() {
    if !is_root() {
        return;
    }
    let Some(group) = Group::new(24 << 20) else {
        eprintln!("SKIPPED: no memory group can be made here");
        return;
    };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    stream(&["/bin/sh", "-c", &enter, "sh"]).check();
}

/// /dev/shm, /tmp and all else that can be written to is full.
#[test]
fn a15_full_file_systems() {
    if !is_root() {
        return;
    }
    // But for the one where the programs and their summaries are.
    let place = scratch();
    let dirs = ["/dev/shm", "/tmp", "/var/tmp", "/run"].into_iter();
    let dirs: Vec<_> = dirs.filter(|dir| !place.path().starts_with(dir)).collect();
    let fill = format!(
        "for dir in {}; do mount -t tmpfs -o size=4k none $dir; \
         cat /dev/zero > $dir/full 2>/dev/null; done; exec \"$@\"",
        dirs.join(" ")
    );
    stream(&["/usr/bin/unshare", "--mount", "/bin/sh", "-c", &fill, "sh"]).check();
}

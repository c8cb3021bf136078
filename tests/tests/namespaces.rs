//! Programs in name spaces of their own, with other users and other roots: accelerated where the two
//! ends can find each other, TCP otherwise, and never a hang. These need root.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::apps::netns::{self, Netns};
use smc_tests::apps::{Launch, Scratch};
use smc_tests::harness::Scratch as Folder;
use smc_tests::harness::{compile_c, program, scratch, stats, Arrangement, Case};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Whether these can be run; says so aloud if not.
fn root() -> bool {
    // SAFETY: no pointers.
    let root = unsafe { libc::geteuid() } == 0 && netns::possible();
    if !root {
        eprintln!("SKIPPED: name spaces need root");
    }
    root
}

fn stream(wrap: &[&str]) -> Case {
    Case::pair("case-start", "stream").wrap(wrap.iter().copied())
}

/// Each end in mount, process and host name spaces of its own.
#[test]
fn other_mounts_and_processes() {
    if !root() {
        return;
    }
    for kind in ["--mount", "--uts", "--ipc", "--cgroup"] {
        stream(&["/usr/bin/unshare", kind]).check();
    }
    stream(&["/usr/bin/unshare", "--pid", "--fork", "--kill-child"]).check();
    stream(&["/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]).check();
}

/// A script in front of the program, which then runs it.
fn by(line: &str) -> (Folder, PathBuf) {
    let folder = scratch();
    let path = folder.path().join("case");
    let program = program("case-start");
    std::fs::write(&path, format!("#!/bin/sh\n{line} {} \"$@\"\n", program.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

/// The two ends, each by a line in front of it.
fn ends(server: &str, client: &str) -> ([Folder; 2], Case) {
    let (server_folder, server) = by(server);
    let (client_folder, client) = by(client);
    let case = Case::pair(server.to_str().unwrap(), "stream").client(&client);
    let only = [Arrangement::Both, Arrangement::ClientOnly, Arrangement::ServerOnly];
    ([server_folder, client_folder], case.only(&only))
}

/// The connections of both ends in the ring.
fn all_accelerated(case: Case) -> Case {
    case.told("all in the ring", |sum| (sum.smcd, sum.tcp, sum.back.own) == (4, 0, 0))
}

const ROOT: &str = "exec";
const NOBODY: &str = "exec /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups";

/// The ends are different users', or in user name spaces.
#[test]
fn other_user() {
    if !root() {
        return;
    }
    for (server, client) in [
        (ROOT, NOBODY),
        (NOBODY, ROOT),
        (NOBODY, "exec /usr/bin/setpriv --reuid=65533 --regid=65533 --clear-groups"),
        (ROOT, "exec /usr/bin/unshare --user --map-root-user"),
        (ROOT, "exec /usr/bin/unshare --user"),
        ("exec /usr/bin/unshare --user", "exec /usr/bin/unshare --user"),
        ("exec /usr/bin/unshare --user --map-root-user", NOBODY),
    ] {
        let (_folders, case) = ends(server, client);
        all_accelerated(case).check();
    }
}

/// One end is the first process of a name space.
#[test]
fn first_process() {
    if !root() {
        return;
    }
    let first = "exec /usr/bin/unshare --pid --fork --kill-child --mount-proc";
    for (server, client) in [(ROOT, first), (first, ROOT), (first, first)] {
        let (_folders, case) = ends(server, client);
        all_accelerated(case).check();
    }
}

/// What is at /dev/shm: nothing, another file system, one that is read-only or full. The library does
/// not need it.
#[test]
fn other_shared_memory() {
    if !root() {
        return;
    }
    let at = "-t tmpfs none /dev/shm";
    for mount in [
        "umount -l /dev/shm".to_owned(),
        format!("mount {at}"),
        format!("mount -o ro {at}"),
        format!("mount -o size=4k {at} && head -c 4096 /dev/zero > /dev/shm/full"),
    ] {
        let line = format!("exec /usr/bin/unshare --mount /bin/sh -c '{mount} && exec \"$@\"' sh");
        for (server, client) in [(line.as_str(), ROOT), (ROOT, line.as_str())] {
            let (_folders, case) = ends(server, client);
            all_accelerated(case).check();
        }
    }
}

/// The client has another root, without a /proc.
#[test]
fn other_root() {
    if !root() {
        return;
    }
    let place = scratch();
    let at = place.path().display();
    let line = format!(
        "exec /usr/bin/unshare --mount /bin/sh -c 'mount --rbind / {at} && \
         umount -l {at}/proc && exec /usr/sbin/chroot {at} \"$@\"' sh"
    );
    let (_folders, case) = ends(ROOT, &line);
    all_accelerated(case).check();
}

const PEER_UID: &str = "0x0a130000";

/// One end becomes something else with a connection in use, and makes another.
fn changes(change: &str, who: &str) -> Case {
    let program = compile_c("changes", &[]);
    Case::pair(program.to_str().unwrap(), change).args([who]).only(&[
        Arrangement::Both,
        Arrangement::ClientOnly,
        Arrangement::ServerOnly,
    ])
}

/// Users and name spaces that change in the middle, which concerns a new connection at most.
#[test]
fn changed_in_the_middle() {
    if !root() {
        return;
    }
    for change in
        ["effective user", "user space", "mounts", "processes", "descriptors", "undumpable"]
    {
        for who in ["server", "client"] {
            all_accelerated(changes(change, who)).check();
        }
    }
    all_accelerated(changes("user", "server")).check();
    all_accelerated(changes("user", "client")).check();
    // There is no other connection then.
    for who in ["server", "client"] {
        changes("network", who).told("in the ring", |sum| (sum.smcd, sum.tcp) == (2, 0)).check();
        // Without a place for the summary; only the other end tells.
        changes("root", who).told("in the ring", |sum| (sum.smcd, sum.tcp) == (2, 0)).check();
    }
}

/// A socket that was made as one user, and is used by another.
#[test]
fn user_of_a_socket() {
    if !root() {
        return;
    }
    changes("user between", "client")
        .told("one in the ring, one is another's", |sum| {
            sum.smcd == 2 && sum.fallback.get(PEER_UID) == Some(&1)
        })
        .check();
}

fn ip(line: &str) {
    let done = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Two network name spaces with a cable between them: TCP, for the reason that the peer is elsewhere.
#[test]
fn other_network() {
    if !root() {
        return;
    }
    let (here, there) = (Netns::new().unwrap(), Netns::new().unwrap());
    let (a, b) = (here.name(), there.name());
    ip(&format!("link add cable0 netns {a} type veth peer name cable0 netns {b}"));
    for (name, address) in [(a, "10.213.0.1/24"), (b, "10.213.0.2/24")] {
        ip(&format!("-n {name} addr add {address} dev cable0"));
        ip(&format!("-n {name} link set cable0 up"));
    }
    let folder = Scratch::new("namespaces").unwrap();
    let summary = |name: &str| folder.path().join(format!("{name}.jsonl"));
    let port = 7379;
    let mut server = Launch::new(folder.path(), "redis-server")
        .words(format!("--port {port} --bind 10.213.0.1 --protected-mode no --appendonly no"))
        .words("--loglevel warning --save")
        .arg("")
        .netns(Some(a))
        .accelerated(Some(summary("server")))
        .listening(port)
        .unwrap();
    Launch::new(folder.path(), "redis-benchmark")
        .words(format!("-h 10.213.0.1 -p {port} -c 8 -n 4000 -d 512 -t set,get --csv"))
        .netns(Some(b))
        .accelerated(Some(summary("client")))
        .output(Duration::from_secs(60))
        .unwrap();
    server.stop().unwrap();
    for name in ["server", "client"] {
        let sum = stats::total(&stats::read(&summary(name)));
        assert!(sum.connections >= 8, "{name}: {sum:?}");
        assert_eq!((sum.smcd, sum.smc.tx_bytes), (0, 0), "{name}: {sum:?}");
        println!("{name}: {:?}", sum.fallback);
        assert_eq!(sum.fallback.values().sum::<u64>(), sum.tcp, "{name}: {sum:?}");
    }
    let server = stats::total(&stats::read(&summary("server")));
    assert!(server.fallback.contains_key("0x0a160000"), "the reason is another: {server:?}");
}

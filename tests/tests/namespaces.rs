//! Programs in name spaces of their own, with other users and other roots: accelerated where the two
//! ends can find each other, TCP otherwise, and never a hang. These need root.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::apps::netns::{self, Netns};
use smc_tests::apps::{Launch, Scratch};
use smc_tests::harness::{program, scratch, stats, Arrangement, Case, Scratch as Folder};
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

/// A script in front of the client, which then runs the same program.
fn client_by(line: &str) -> (Folder, PathBuf) {
    let folder = scratch();
    let path = folder.path().join("client");
    let program = program("case-start");
    std::fs::write(&path, format!("#!/bin/sh\n{line} {} \"$@\"\n", program.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

/// The client is another user's, or in a user name space: as bare, accelerated or not.
#[test]
fn other_user() {
    if !root() {
        return;
    }
    for line in [
        "exec /usr/bin/setpriv --reuid=65534 --clear-groups",
        "exec /usr/bin/unshare --user --map-root-user",
        "exec /usr/bin/unshare --user",
    ] {
        let (_folder, client) = client_by(line);
        Case::pair("case-start", "stream")
            .client(&client)
            .not_accelerated("the ends check each other's user, who may be another here")
            .check();
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
    let (_folder, client) = client_by(&line);
    Case::pair("case-start", "stream")
        .client(&client)
        .only(&[Arrangement::Both, Arrangement::ClientOnly, Arrangement::ServerOnly])
        .not_accelerated("without /proc little can be asked")
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

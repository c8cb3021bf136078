//! Runtimes that do their own waiting and passing: Node, Java, Python.
use std::fs;
use std::process::Command;

use smc_tests::apps::{artefacts, Result, Scratch};

use crate::session::{in_every_pairing, Expect, Session};

/// Whether a program is installed; says so aloud if not, since none of these is needed elsewhere.
fn installed(program: &str) -> bool {
    let there = artefacts::installed(program);
    if !there {
        eprintln!("SKIPPED: {program} is not installed");
    }
    there
}

fn node(how: &'static str, uring: &'static str) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let (serve, fetch) = (session.folder().join("serve.js"), session.folder().join("fetch.js"));
        fs::write(&serve, include_str!("node_serve.js"))?;
        fs::write(&fetch, include_str!("node_fetch.js"))?;
        let port = session.port();
        let server = session.server("node").arg(&serve).arg(port.to_string()).arg(how);
        let mut server = server.env("UV_USE_IO_URING", uring).listening(port)?;
        let client = session.client("node").arg(&fetch).arg(port.to_string());
        let report = client.env("UV_USE_IO_URING", uring).output(session.limit())?.stdout;
        assert_eq!(report.trim(), "160 answers are right");
        server.stop()?;
        Ok(())
    }
}

/// HTTP over kept connections.
#[test]
fn node_keep_alive() {
    if installed("node") {
        in_every_pairing(&["node"], Expect::SomeRingAtOnce, node("alone", "0"));
    }
}

/// libuv told to use io_uring.
#[test]
fn node_io_uring() {
    if installed("node") {
        in_every_pairing(&["node"], Expect::SomeRingAtOnce, node("alone", "1"));
    }
}

/// The primary accepts and hands the connections to two workers.
#[test]
fn node_cluster() {
    if installed("node") {
        in_every_pairing(&["node"], Expect::SomeRingAtOnce, node("cluster", "0"));
    }
}

/// `child_process.send` of each connection.
#[test]
fn node_child_send() {
    if installed("node") {
        in_every_pairing(&["node"], Expect::SomeRingAtOnce, node("handed", "0"));
    }
}

fn java(how: &'static str) {
    if !installed("java") || !installed("javac") {
        return;
    }
    let built = Scratch::new("java").unwrap();
    let source = built.path().join("Echo.java");
    fs::write(&source, include_str!("Echo.java")).unwrap();
    let done = Command::new("javac").arg("-d").arg(built.path()).arg(&source).output().unwrap();
    assert!(done.status.success(), "javac: {}", String::from_utf8_lossy(&done.stderr));
    in_every_pairing(&["java"], Expect::SomeRingAtOnce, |session| {
        let port = session.port();
        let line = |role: &str| {
            format!(
                "-Xshare:auto -XX:TieredStopAtLevel=1 -cp {} Echo {role} {port}",
                built.path().display()
            )
        };
        let mut server = session.server("java").words(line(how)).spawn()?;
        let limit = session.limit();
        smc_tests::apps::wait::until("java listens", limit, || {
            Ok(smc_tests::apps::wait::listens(server.pid(), port))
        })?;
        let report = session.client("java").words(line("client")).output(limit)?.stdout;
        assert_eq!(report.trim(), "180 answers are right, the reader was closed");
        server.stop()?;
        Ok(())
    });
}

#[test]
fn java_blocking() {
    java("blocking");
}

#[test]
fn java_nio() {
    java("nio");
}

fn python(how: &'static str) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let (serve, talk) = (session.folder().join("serve.py"), session.folder().join("talk.py"));
        fs::write(&serve, include_str!("serve_passed.py"))?;
        fs::write(&talk, include_str!("talk_echo.py"))?;
        let port = session.port();
        let server = session.server("python3").arg(&serve).arg(port.to_string()).arg(how);
        let mut server = server.listening(port)?;
        let client = session.client("python3").arg(&talk).arg(port.to_string());
        let report = client.output(session.limit())?.stdout;
        assert_eq!(report.trim(), "120 answers are right");
        server.stop()?;
        Ok(())
    }
}

/// `socket.send_fds` to a forked worker.
#[test]
fn python_send_fds() {
    in_every_pairing(&["python3"], Expect::SomeRingByClient, python("fds"));
}

/// `multiprocessing`, which passes a socket in a pickle.
#[test]
fn python_multiprocessing() {
    in_every_pairing(&["python3"], Expect::SomeRingByClient, python("pickled"));
}

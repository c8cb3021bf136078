//! Programs that become others, or newer ones, with sockets in use: socat and nginx.
use std::fs;
use std::path::Path;
use std::time::Duration;

use smc_tests::apps::nginx::prepare;
use smc_tests::apps::{artefacts, wait, Failure, Proof, Result};

use crate::session::{in_every_pairing, Expect, Session};

/// Bytes that go to and fro.
const AMOUNT: usize = 3 << 20;

/// A server that becomes `cat`, the connection on its standard descriptors, or starts one; by itself,
/// or in a child for each connection.
fn socat(
    options: &'static str,
    cat: &'static str,
    rounds: usize,
) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let port = session.port();
        let place = format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr{options}");
        let mut server = session.server("socat").words(place).words(cat).listening(port)?;
        let sent: Vec<u8> = (0..AMOUNT).map(|n| (n * n / 251 % 256) as u8).collect();
        fs::write(session.folder().join("sent"), &sent)?;
        for round in 0..rounds {
            let got = format!("got-{round}");
            let files = format!("OPEN:sent,rdonly!!CREATE:{got} TCP:127.0.0.1:{port}");
            session.client("socat").words("-t 30").words(files).output(session.limit())?;
            let got = fs::read(session.folder().join(got))?;
            assert!(got == sent, "round {round}: {} of {} bytes", got.len(), sent.len());
        }
        if options.is_empty() {
            server.wait(session.limit())?;
        } else {
            server.stop_by(libc::SIGTERM)?;
        }
        Ok(())
    }
}

#[test]
fn socat_becomes_cat() {
    in_every_pairing(&["socat"], Expect::SomeRingAtOnce, socat("", "EXEC:cat,nofork", 1));
}

#[test]
fn socat_children_become_cat() {
    in_every_pairing(&["socat"], Expect::SomeRingAtOnce, socat(",fork", "EXEC:cat,nofork", 3));
}

#[test]
fn socat_starts_cat() {
    in_every_pairing(&["socat"], Expect::SomeRingAtOnce, socat(",fork", "EXEC:cat", 2));
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a process that this test has started.
    unsafe { libc::kill(pid, signal) };
}

fn pid_in(file: &Path) -> Option<i32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Load that must see no error; the summary of its own, if it runs under `smc-run`.
fn load(session: &Session, seconds: u32, summary: &Path) -> Result<smc_tests::apps::Running> {
    let url = format!("http://127.0.0.1:{}/large", session.port());
    let wrk = session.client("wrk").words(format!("-t1 -c20 -d{seconds}s --timeout 20s {url}"));
    let own = session.accelerates_client().then(|| summary.to_path_buf());
    wrk.accelerated(own).spawn()
}

fn has_no_errors(mut load: smc_tests::apps::Running, session: &Session) -> Result<()> {
    load.wait(session.limit())?;
    let report = load.logs().stdout;
    if report.contains("Socket errors") || report.contains("Non-2xx") {
        return Err(Failure::new(format!("wrk reports errors: {report}")));
    }
    assert!(report.contains("Requests/sec:"), "wrk says {report}");
    Ok(())
}

/// nginx is replaced by a new binary under load, as its manual says.
#[test]
fn nginx_upgraded_under_load() {
    in_every_pairing(&["nginx", "wrk"], Expect::SomeRingAtOnce, |session| {
        let configuration = prepare(session.folder(), session.port(), 1, true)?;
        let text = fs::read_to_string(&configuration)?;
        // Only a daemon can be replaced; it keeps these variables for the new binary alone.
        let kept = "env LD_PRELOAD; env SMC_SUMMARY; env SMC_ATTACH_AFTER;";
        fs::write(&configuration, format!("{kept}\n{}", text.replace("daemon off", "daemon on")))?;
        let folder = session.folder();
        // It starts the new one by the name that it was started by.
        let nginx = artefacts::path_of("nginx").unwrap_or_default();
        session
            .server(&nginx.to_string_lossy())
            .words(format!("-p {} -e {}/nginx-error.log -c", folder.display(), folder.display()))
            .arg(&configuration)
            .output(session.limit())?;
        let (now, before) = (folder.join("nginx.pid"), folder.join("nginx.pid.oldbin"));
        let patience = Duration::from_secs(20);
        wait::until("nginx has started", patience, || Ok(pid_in(&now).is_some()))?;
        let old = pid_in(&now).unwrap_or_default();
        let upgraded = || -> Result<()> {
            let first = load(session, 3, &folder.join("first.jsonl"))?;
            std::thread::sleep(Duration::from_secs(1));
            signal(old, libc::SIGUSR2);
            wait::until("the new binary runs", patience, || {
                Ok(before.exists() && pid_in(&now).is_some_and(|pid| pid != old))
            })?;
            has_no_errors(first, session)?;
            signal(old, libc::SIGQUIT);
            wait::until("the old binary has ended", patience, || Ok(!before.exists()))?;
            let last = folder.join("last.jsonl");
            has_no_errors(load(session, 1, &last)?, session)?;
            if session.accelerates_client() {
                let proof = Proof::read(&last)?;
                let ring = proof.ring_bytes > 0;
                assert_eq!(ring, session.accelerates_server(), "the new binary: {proof:?}");
            }
            // For the judge of the session, which knows nothing of the two files.
            let ours = [folder.join("first.jsonl"), last];
            let lines: Vec<String> =
                ours.iter().filter_map(|f| fs::read_to_string(f).ok()).collect();
            if session.accelerates_client() {
                fs::write(folder.join("client.jsonl"), lines.concat())?;
            }
            Ok(())
        };
        let outcome = upgraded();
        for file in [&now, &before] {
            if let Some(pid) = pid_in(file) {
                signal(pid, libc::SIGTERM);
                wait::until("nginx has ended", patience, || Ok(!file.exists()))?;
            }
        }
        outcome
    });
}

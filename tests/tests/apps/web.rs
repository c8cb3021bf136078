//! nginx with wrk, ab and curl.
use std::fs;

use smc_tests::apps::nginx::{body, prepare, HUGE, LARGE, SMALL};
use smc_tests::apps::{wait, Failure, Result, Running};

use crate::session::{in_every_pairing, Expect, Session};

fn start(session: &Session, workers: usize, sendfile: bool) -> Result<Running> {
    let configuration = prepare(session.folder(), session.port(), workers, sendfile)?;
    let folder = session.folder().display();
    session
        .server("nginx")
        .words(format!("-p {folder} -e {folder}/nginx-error.log -c"))
        .arg(configuration)
        .listening(session.port())
}

/// Loads nginx by wrk, which must see no error.
fn wrk(
    workers: usize,
    options: &'static str,
    path: &'static str,
) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let mut server = start(session, workers, true)?;
        let url = format!("http://127.0.0.1:{}/{path}", session.port());
        let client = session.client("wrk").words(format!("{options} -d2s --timeout 20s {url}"));
        let report = client.output(session.limit())?.stdout;
        if report.contains("Socket errors") || report.contains("Non-2xx") {
            return Err(Failure::new(format!("wrk reports errors: {report}")));
        }
        assert!(report.contains("Requests/sec:"), "wrk says {report}");
        server.stop()?;
        Ok(())
    }
}

#[test]
fn one_worker() {
    in_every_pairing(&["nginx", "wrk"], Expect::Ring, wrk(1, "-t1 -c100", "large"));
}

#[test]
fn one_worker_small_pages() {
    in_every_pairing(&["nginx", "wrk"], Expect::Ring, wrk(1, "-t1 -c20", "small"));
}

#[test]
fn two_workers_many_connections() {
    in_every_pairing(&["nginx", "wrk"], Expect::Ring, wrk(2, "-t8 -c1000", "large"));
}

/// Each file whole and unchanged, several over one connection, with sendfile and without.
#[test]
fn curl() {
    for sendfile in [true, false] {
        in_every_pairing(&["nginx", "curl"], Expect::SomeRingAtOnce, |session| {
            let mut server = start(session, 1, sendfile)?;
            let files = [("small", SMALL), ("large", LARGE), ("huge", HUGE), ("small", SMALL)];
            let mut client = session.client("curl").words("-sS --fail");
            for (number, (name, _)) in files.iter().enumerate() {
                let url = format!("http://127.0.0.1:{}/{name}", session.port());
                client = client.words(format!("-o got-{number} {url}"));
            }
            client.output(session.limit())?;
            for (number, (_, size)) in files.into_iter().enumerate() {
                session.assert_got(number, &body(size));
            }
            server.stop()?;
            Ok(())
        });
    }
}

fn ab(options: &'static str, requests: u32) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let mut server = start(session, 1, true)?;
        let url = format!("http://127.0.0.1:{}/small", session.port());
        let client = session.client("ab").words(format!("-q {options} -n {requests} {url}"));
        let report = client.output(session.limit())?.stdout;
        let field = |name: &str| {
            let line = report.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_whitespace().last().unwrap_or_default().to_owned()
        };
        assert_eq!(field("Complete requests:"), requests.to_string(), "{report}");
        assert_eq!(field("Failed requests:"), "0", "{report}");
        assert_eq!(field("Document Length:"), "bytes", "{report}");
        server.stop()?;
        Ok(())
    }
}

#[test]
fn apache_bench_kept_alive() {
    in_every_pairing(&["nginx", "ab"], Expect::SomeRingAtOnce, ab("-k -c 10", 5000));
}

#[test]
fn apache_bench_short_connections() {
    in_every_pairing(&["nginx", "ab"], Expect::Results, ab("-c 10", 2000));
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// nginx reads its configuration again, and a worker is killed, between and under requests: each
/// answer is whole.
#[test]
fn reload_and_killed_worker() {
    in_every_pairing(&["nginx", "curl"], Expect::SomeRingAtOnce, |session| {
        let mut server = start(session, 2, true)?;
        let url = format!("http://127.0.0.1:{}/huge", session.port());
        for round in 0..24 {
            let before = children(server.pid());
            match round {
                6 | 14 => server.signal(libc::SIGHUP),
                // SAFETY: a worker of the server that this test has started.
                10 | 18 => drop(unsafe { libc::kill(before[0], libc::SIGKILL) }),
                _ => {}
            }
            if matches!(round, 10 | 18) {
                wait::until("another worker is there", session.limit(), || {
                    let now = children(server.pid());
                    Ok(now.len() >= 2 && !now.contains(&before[0]))
                })?;
            }
            let client = session
                .client("curl")
                .words("-sS --fail -Z")
                .words(format!("-o got-0 {url} -o got-1 {url}"));
            client.output(session.limit())?;
            for number in 0..2 {
                let got = fs::read(session.folder().join(format!("got-{number}")))?;
                assert!(got == body(HUGE), "round {round}: {} bytes", got.len());
            }
        }
        server.stop()?;
        Ok(())
    });
}

//! qperf, sockperf and iperf3.
use smc_tests::apps::{Failure, Result};

use crate::session::{in_every_pairing, Expect, Session};

/// qperf's tests over message sizes from one byte to several megabytes.
#[test]
fn qperf() {
    in_every_pairing(&["qperf"], Expect::Ring, |session| {
        let port = session.port();
        let mut server = session.server("qperf").words(format!("-lp {port}")).listening(port)?;
        for test in
            ["-m 1 tcp_lat", "-m 2048 tcp_lat", "-m 1 tcp_bw", "-m 64K tcp_bw", "-m 4M tcp_bw"]
        {
            let client = session.client("qperf").words(format!("127.0.0.1 -lp {port} -t 1 {test}"));
            let report = client.output(session.limit())?.stdout;
            let rate = report.split_once('=').map(|(_, value)| value.trim());
            let positive =
                rate.is_some_and(|value| value.starts_with(|c: char| c.is_ascii_digit()));
            assert!(positive, "qperf {test} says {report}");
        }
        session
            .helper("qperf")
            .words(format!("127.0.0.1 -lp {port} quit"))
            .output(session.limit())?;
        server.wait(session.limit())?;
        Ok(())
    });
}

fn sockperf(mode: &'static str, mark: &'static str) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let place = format!("--tcp -i 127.0.0.1 -p {}", session.port());
        let server = session.server("sockperf").words(format!("server {place}"));
        let mut server = server.listening(session.port())?;
        let client = session.client("sockperf").words(format!("{mode} {place} -t 2"));
        let report = client.output(session.limit())?.stdout;
        assert!(report.contains(mark), "sockperf {mode} says {report}");
        let lost = "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0";
        if mode.starts_with("ping-pong") && !report.contains(lost) {
            return Err(Failure::new(format!("sockperf lost messages: {report}")));
        }
        server.stop_by(libc::SIGINT)?;
        Ok(())
    }
}

#[test]
fn sockperf_ping_pong() {
    // It has sequence numbers for 600,000 messages a second, and fails where there are more.
    let ping_pong = sockperf("ping-pong -m 1000 --mps=400000", "Latency is");
    in_every_pairing(&["sockperf"], Expect::Ring, ping_pong);
}

#[test]
fn sockperf_throughput() {
    in_every_pairing(&["sockperf"], Expect::Ring, sockperf("throughput -m 64000", "BandWidth is"));
}

fn iperf3(option: &'static str) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let port = session.port();
        let server = session.server("iperf3").words(format!("-s -1 -p {port}"));
        let mut server = server.listening(port)?;
        // A fixed amount, so that what arrived can be compared with it; so much that what TCP's
        // buffers hold when a stream goes over to its ring is little of it.
        let amount: u64 = if option.starts_with("-P") { 4 << 30 } else { 1 << 30 };
        let client = session
            .client("iperf3")
            .words(format!("-c 127.0.0.1 -p {port} -n {amount} -J {option}"));
        let report = client.output(session.limit())?.stdout;
        let report: serde_json::Value =
            serde_json::from_str(&report).map_err(|error| Failure::new(error.to_string()))?;
        let received = report.pointer("/end/sum_received/bytes").and_then(|bytes| bytes.as_u64());
        // The receiver stops counting when the sender has said that it is done, which may be a
        // few reads before the last byte.
        let enough = received.is_some_and(|received| received * 10 >= amount * 9);
        assert!(enough, "iperf3 received {received:?} of {amount}: {report}");
        server.wait(session.limit())?;
        Ok(())
    }
}

#[test]
fn iperf3_forward() {
    in_every_pairing(&["iperf3"], Expect::Ring, iperf3(""));
}

#[test]
fn iperf3_reverse() {
    in_every_pairing(&["iperf3"], Expect::Ring, iperf3("-R"));
}

#[test]
fn iperf3_parallel_streams() {
    in_every_pairing(&["iperf3"], Expect::Ring, iperf3("-P 4"));
}

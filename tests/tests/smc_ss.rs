//! `smc-ss` shows the connections of running programs as they are.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use smc_tests::harness::{preload_library, program, smc_run};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

const KEYS: [&str; 16] = [
    "comm",
    "fd",
    "local",
    "mode",
    "peer",
    "pid",
    "rcvbuf",
    "reason",
    "reason_text",
    "role",
    "rx_bytes",
    "smc_rx_bytes",
    "smc_tx_bytes",
    "sndbuf",
    "state",
    "tx_bytes",
];
/// Bytes of a warm-up, each way.
const WARM: u64 = 12 * 200;

/// One end, held open until it is dropped.
struct End {
    child: Child,
    lines: Receiver<String>,
}

impl End {
    fn start(accelerated: bool, arguments: &[&str]) -> Self {
        let own = program("case-listed");
        let mut command = if accelerated {
            assert!(preload_library().exists());
            let mut command = Command::new(smc_run());
            command.arg("--").arg(own).env("SMC_ATTACH_AFTER", "0");
            command
        } else {
            Command::new(own)
        };
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|l| send.send(l))
        });
        Self { child, lines }
    }

    fn pid(&self) -> u64 {
        u64::from(self.child.id())
    }

    /// The rest of the next line, which begins so.
    fn line(&self, start: &str) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(60));
        let line = line.unwrap_or_else(|e| panic!("{start}: {e}"));
        line.strip_prefix(start).unwrap_or_else(|| panic!("{start}: {line}")).to_owned()
    }

    fn ready(&self) {
        self.line("@note ready");
    }
}

impl Drop for End {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends by itself, unless the test has failed before it was ready.
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn smc_ss(arguments: &[&str]) -> Output {
    let tool = smc_run().parent().unwrap().join("smc-ss");
    let output = Command::new(tool).args(arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "{output:?}");
    output
}

/// The objects that concern these processes; all that there are, if none is named.
fn objects(arguments: &[&str], pids: &[u64]) -> Vec<Value> {
    let named: Vec<String> = pids.iter().map(u64::to_string).collect();
    let arguments: Vec<&str> =
        arguments.iter().copied().chain(named.iter().map(String::as_str)).collect();
    serde_json::from_slice(&smc_ss(&arguments).stdout).unwrap()
}

fn rows(pids: &[u64]) -> Vec<Value> {
    objects(&["--json"], pids)
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// Whether two rows are the two ends of one connection.
fn are_ends(one: &Value, other: &Value) -> bool {
    one["local"] == other["peer"] && one["peer"] == other["local"]
}

#[test]
fn both_ends_are_shown_and_a_plain_client_with_the_reason() {
    let server = End::start(true, &["plain", "server", "2"]);
    let port = server.line("@port ");
    let client = End::start(true, &["plain", "client", &port, "1"]);
    client.ready();
    let stranger = End::start(false, &["plain", "client", &port, "1"]);
    stranger.ready();
    server.ready();

    let shown = rows(&[server.pid(), client.pid()]);
    assert_eq!(shown.len(), 3, "{shown:#?}");
    for row in &shown {
        let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, KEYS);
        assert_eq!(row["state"], "ESTAB");
        assert_eq!(row["comm"], "case-listed");
        assert_eq!((number(row, "rx_bytes"), number(row, "tx_bytes")), (WARM, WARM), "{row}");
    }
    let near = shown.iter().find(|row| number(row, "pid") == client.pid()).unwrap();
    let far = shown.iter().find(|row| are_ends(row, near)).unwrap();
    assert_eq!(number(far, "pid"), server.pid());
    assert_eq!(far["local"], format!("127.0.0.1:{port}"));
    assert_eq!((near["role"].as_str(), far["role"].as_str()), (Some("client"), Some("server")));
    for row in [near, far] {
        assert_eq!((row["mode"].as_str(), &row["reason"]), (Some("SMCD"), &Value::Null), "{row}");
        assert!(number(row, "smc_rx_bytes") > 0 && number(row, "smc_tx_bytes") > 0, "{row}");
    }
    assert_eq!((&near["rcvbuf"], &near["sndbuf"]), (&far["sndbuf"], &far["rcvbuf"]));
    assert!(number(near, "rcvbuf") >= 16 << 10);
    assert_eq!(near["smc_rx_bytes"], far["smc_tx_bytes"]);

    let plain = shown.iter().find(|row| *row != near && *row != far).unwrap();
    assert_eq!(number(plain, "pid"), server.pid());
    assert_eq!((plain["mode"].as_str(), plain["role"].as_str()), (Some("TCP"), Some("server")));
    assert_eq!(plain["reason"], "0x03010000");
    assert!(plain["reason_text"].as_str().unwrap().contains("peer"));
    assert_eq!((&plain["rcvbuf"], number(plain, "smc_rx_bytes")), (&Value::Null, 0));

    // The same without names, and for people.
    let all = rows(&[]);
    assert!(shown.iter().all(|row| all.contains(row)), "{all:#?}");
    assert!(all.iter().all(|row| number(row, "pid") != stranger.pid()));
    let table = smc_ss(&[&server.pid().to_string()]).stdout;
    let table = String::from_utf8(table).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains(" SMCD ") && table.contains(" TCP "), "{table}");

    let counted = objects(&["--summary", "--json"], &[server.pid()]);
    let [totals] = &counted[..] else { panic!("{counted:?}") };
    assert_eq!((number(totals, "live"), number(totals, "connections")), (2, 2));
    assert_eq!(number(totals, "smcd"), 1);
    assert_eq!(totals["smc"]["rx_bytes"], far["smc_rx_bytes"]);
    let rest = 2 * WARM - number(far, "smc_tx_bytes");
    assert_eq!(number(&totals["tcp_bytes"], "tx"), rest, "{totals}");
    assert!(number(&totals["tcp_calls"], "rx") > 0);
    let report = smc_ss(&["--summary", &server.pid().to_string()]).stdout;
    let report = String::from_utf8(report).unwrap();
    assert!(report.contains("2 now, 2 so far: 1 SMCD"), "{report}");
}

#[test]
fn a_connection_is_shown_where_a_fork_has_left_it() {
    let server = End::start(true, &["forking", "server", "2"]);
    let port = server.line("@port ");
    let client = End::start(true, &["plain", "client", &port, "2"]);
    client.ready();
    // The second child is not made before the first client's connection is served.
    let mut said: Vec<String> = (0..3).map(|_| server.line("@note ")).collect();
    said.retain(|line| line != "ready");
    let children: Vec<(u64, i64)> = said
        .iter()
        .map(|line| {
            let (pid, fd) = line.strip_prefix("child ").unwrap().split_once(" has ").unwrap();
            (pid.parse().unwrap(), fd.parse().unwrap())
        })
        .collect();
    assert_eq!(children.len(), 2, "{said:?}");

    let near = rows(&[client.pid()]);
    assert_eq!(near.len(), 2, "{near:#?}");
    assert_eq!(rows(&[server.pid()]), [] as [Value; 0]);
    let mut met = BTreeSet::new();
    for (pid, fd) in children {
        let shown = rows(&[pid]);
        let [row] = &shown[..] else { panic!("{pid} has one connection: {shown:#?}") };
        assert_eq!(row["fd"].as_i64(), Some(fd));
        assert_eq!((number(row, "rx_bytes"), number(row, "tx_bytes")), (WARM, WARM), "{row}");
        let end = near.iter().position(|end| are_ends(end, row));
        met.insert(end.unwrap_or_else(|| panic!("whose peer is {row}? {near:#?}")));
    }
    assert_eq!(met.len(), 2, "each child has a connection of its own");
}

#[test]
fn a_thousand_connections_are_listed() {
    let server = End::start(true, &["plain", "server", "1000"]);
    let port = server.line("@port ");
    let client = End::start(true, &["plain", "client", &port, "1000"]);
    client.ready();
    server.ready();
    let shown = rows(&[server.pid(), client.pid()]);
    assert_eq!(shown.len(), 2000);
    let of = |pid, key| -> BTreeSet<&str> {
        shown
            .iter()
            .filter(|row| number(row, "pid") == pid)
            .filter_map(|row| row[key].as_str())
            .collect()
    };
    assert_eq!(of(server.pid(), "peer").len(), 1000);
    assert_eq!(of(server.pid(), "peer"), of(client.pid(), "local"));
}

#[test]
fn a_process_that_ends_meanwhile_is_no_error() {
    let server = End::start(true, &["plain", "server", "1"]);
    let port = server.line("@port ");
    let client = End::start(true, &["plain", "client", &port, "1"]);
    client.ready();
    let passing = std::thread::spawn(|| {
        for _ in 0..40 {
            let status = Command::new(smc_run()).args(["--", "true"]).status().unwrap();
            assert!(status.success());
        }
    });
    let mut looks = 0;
    while looks < 5 || !passing.is_finished() {
        let shown = rows(&[]);
        assert!(shown.iter().any(|row| number(row, "pid") == client.pid()));
        looks += 1;
    }
    passing.join().unwrap();
    drop(client);
    let gone = rows(&[]);
    assert!(gone.iter().all(|row| number(row, "pid") != server.pid() || row["state"] != "ESTAB"));
}

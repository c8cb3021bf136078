//! What a process has counted, as `smc-ss --summary` shows it.
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;
use smc_core::arena::{Moved, ProcessImage};
use smc_core::reason::Reason;

use super::render::printable;

/// Counts of a process since it started. Where the summary line that it leaves at its end has the
/// same count, the name is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Its connections now.
    pub live: usize,
    /// TCP connections that it has had.
    pub connections: u64,
    /// Those that shared memory carried.
    pub smcd: u64,
    /// Those that RDMA carried.
    pub smcr: u64,
    /// Those that ended, or will stay, on TCP.
    pub tcp: u64,
    /// Why they did: how many for each reason code.
    pub fallback: BTreeMap<String, u32>,
    /// What went through shared memory.
    pub smc: Smc,
    /// Bytes that went over TCP.
    pub tcp_bytes: Amounts,
    /// Calls that moved them.
    pub tcp_calls: Amounts,
    #[serde(skip)]
    reasons: Vec<(Reason, u32)>,
}

/// Counts of the shared-memory transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Smc {
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Times that a sleeping peer was woken.
    pub doorbells: u64,
    /// Times that a thread slept.
    pub sleeps: u64,
    /// Waits that ended without a sleep.
    pub spins: u64,
    /// Calls that sent.
    pub tx_calls: u64,
    /// Calls that received.
    pub rx_calls: u64,
    /// Looks at the kernel's events while rings were busy.
    pub kernel_checks: u64,
}

/// A count for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Sent.
    pub tx: u64,
    /// Received.
    pub rx: u64,
}

impl Totals {
    /// What the page of a process says.
    pub fn new(pid: u32, comm: String, live: usize, page: &ProcessImage) -> Self {
        let mut reasons = page.fallbacks.clone();
        reasons.sort_unstable();
        Self {
            pid,
            comm,
            live,
            connections: page.connections,
            smcd: page.smcd,
            smcr: page.smcr,
            tcp: page.tcp,
            fallback: reasons.iter().map(|(reason, n)| (reason.to_string(), *n)).collect(),
            smc: Smc {
                tx_bytes: page.smc_tx.bytes,
                rx_bytes: page.smc_rx.bytes,
                doorbells: page.doorbells,
                sleeps: page.sleeps,
                spins: page.spins,
                tx_calls: page.smc_tx.calls,
                rx_calls: page.smc_rx.calls,
                kernel_checks: page.kernel_checks,
            },
            tcp_bytes: Amounts { tx: page.tcp_tx.bytes, rx: page.tcp_rx.bytes },
            tcp_calls: Amounts { tx: page.tcp_tx.calls, rx: page.tcp_rx.calls },
            reasons,
        }
    }
}

/// A paragraph for each process.
pub fn report(all: &[Totals]) -> String {
    let paragraphs = all.iter().map(|totals| {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = paragraph(&mut text, totals);
        text
    });
    paragraphs.collect::<Vec<_>>().join("\n")
}

fn paragraph(text: &mut String, totals: &Totals) -> fmt::Result {
    let Totals { pid, comm, live, connections, smcd, smcr, tcp, smc, .. } = totals;
    writeln!(text, "{pid} {}", printable(comm))?;
    writeln!(
        text,
        "  connections  {live} now, {connections} so far: {smcd} SMCD, {smcr} SMCR, {tcp} TCP"
    )?;
    for (reason, count) in &totals.reasons {
        writeln!(text, "  on TCP       {count} {reason} {}", reason.text())?;
    }
    let (bytes, calls) = (totals.tcp_bytes, totals.tcp_calls);
    let lines = [
        ("SMC sent", Moved { bytes: smc.tx_bytes, calls: smc.tx_calls }),
        ("SMC received", Moved { bytes: smc.rx_bytes, calls: smc.rx_calls }),
        ("TCP sent", Moved { bytes: bytes.tx, calls: calls.tx }),
        ("TCP received", Moved { bytes: bytes.rx, calls: calls.rx }),
    ];
    for (name, Moved { bytes, calls }) in lines {
        writeln!(text, "  {name:<12} {bytes} bytes in {calls} calls")?;
    }
    let Smc { doorbells, sleeps, spins, kernel_checks, .. } = smc;
    writeln!(
        text,
        "  waiting      {sleeps} sleeps, {spins} spins, {doorbells} doorbells, \
         {kernel_checks} kernel checks"
    )
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn totals() -> Totals {
        let page = ProcessImage {
            pid: 3,
            connections: 6,
            smcd: 2,
            tcp: 3,
            smc_tx: Moved { bytes: 100, calls: 10 },
            smc_rx: Moved { bytes: 200, calls: 20 },
            tcp_tx: Moved { bytes: 1, calls: 2 },
            tcp_rx: Moved { bytes: 3, calls: 4 },
            doorbells: 5,
            sleeps: 6,
            spins: 7,
            kernel_checks: 8,
            fallbacks: vec![(Reason::URGENT, 1), (Reason::PEERNOSMC, 2)],
            ..ProcessImage::default()
        };
        Totals::new(4711, "a\nb".to_owned(), 1, &page)
    }

    #[test]
    fn a_report_has_a_paragraph_for_each_process() {
        let expected = "4711 a?b
  connections  1 now, 6 so far: 2 SMCD, 0 SMCR, 3 TCP
  on TCP       2 0x03010000 the peer does not show that it can do SMC
  on TCP       1 0x0a0e0000 urgent data was sent
  SMC sent     100 bytes in 10 calls
  SMC received 200 bytes in 20 calls
  TCP sent     1 bytes in 2 calls
  TCP received 3 bytes in 4 calls
  waiting      6 sleeps, 7 spins, 5 doorbells, 8 kernel checks
";
        assert_eq!(report(&[totals()]), expected);
        assert_eq!(report(&[totals(), totals()]), format!("{expected}\n{expected}"));
        assert_eq!(report(&[]), "");
    }

    #[test]
    fn json_has_the_names_of_the_summary_line() -> Result<(), serde_json::Error> {
        let value: serde_json::Value = serde_json::from_str(&json(&[totals()]))?;
        let expected = serde_json::json!([{
            "pid": 4711, "comm": "a\nb", "live": 1,
            "connections": 6, "smcd": 2, "smcr": 0, "tcp": 3,
            "fallback": {"0x03010000": 2, "0x0a0e0000": 1},
            "smc": {
                "tx_bytes": 100, "rx_bytes": 200, "doorbells": 5, "sleeps": 6, "spins": 7,
                "tx_calls": 10, "rx_calls": 20, "kernel_checks": 8,
            },
            "tcp_bytes": {"tx": 1, "rx": 3}, "tcp_calls": {"tx": 2, "rx": 4},
        }]);
        assert_eq!(value, expected);
        Ok(())
    }
}

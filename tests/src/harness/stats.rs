//! The summary lines that each process leaves behind.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What one transport moved.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Moved {
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Times the peer was woken.
    pub doorbells: u64,
    /// Times a thread slept.
    pub sleeps: u64,
    /// Looks at the kernel's events while rings were busy.
    #[serde(default)]
    pub kernel_checks: u64,
}

/// Bytes that went over TCP.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct TcpBytes {
    /// Bytes sent.
    pub tx: u64,
    /// Bytes received.
    pub rx: u64,
}

/// Connections that went back to TCP in mid-stream.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Back {
    /// By this process.
    pub own: u64,
    /// By its peer.
    pub peer: u64,
}

/// One line of the summary file: one process.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Summary {
    /// Process id.
    pub pid: u32,
    /// Process name.
    pub comm: String,
    /// Connections of any kind.
    pub connections: u64,
    /// Connections that moved to shared memory.
    pub smcd: u64,
    /// Connections that moved to RDMA.
    pub smcr: u64,
    /// Connections that stayed on TCP.
    pub tcp: u64,
    /// Why they stayed, by reason code.
    #[serde(default)]
    pub fallback: BTreeMap<String, u64>,
    /// Connections that went back to TCP in mid-stream.
    pub back: Back,
    /// What shared memory moved.
    pub smc: Moved,
    /// What TCP moved.
    pub tcp_bytes: TcpBytes,
}

/// Reads a summary file; a missing file is no process at all.
pub fn read(path: &Path) -> Vec<Summary> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("summary: {e}: {line}")))
        .collect()
}

/// The sum over several processes.
pub fn total(all: &[Summary]) -> Summary {
    let mut sum = Summary::default();
    for one in all {
        sum.connections += one.connections;
        sum.smcd += one.smcd;
        sum.smcr += one.smcr;
        sum.tcp += one.tcp;
        sum.back.own += one.back.own;
        sum.back.peer += one.back.peer;
        sum.smc.tx_bytes += one.smc.tx_bytes;
        sum.smc.rx_bytes += one.smc.rx_bytes;
        sum.smc.doorbells += one.smc.doorbells;
        sum.smc.sleeps += one.smc.sleeps;
        sum.tcp_bytes.tx += one.tcp_bytes.tx;
        sum.tcp_bytes.rx += one.tcp_bytes.rx;
        for (code, n) in &one.fallback {
            *sum.fallback.entry(code.clone()).or_default() += n;
        }
    }
    sum
}

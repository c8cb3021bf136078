//! What the summaries of processes under `smc-run` prove.
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Failure, Result};

/// The sums over the summaries in a file, one JSON line for each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Processes that left a summary.
    pub processes: u64,
    /// Their connections.
    pub connections: u64,
    /// Connections that moved to a ring.
    pub accelerated: u64,
    /// Bytes sent and received through rings.
    pub ring_bytes: u64,
    /// Bytes sent and received through TCP.
    pub tcp_bytes: u64,
}

impl Proof {
    /// Reads the file; one that no process has written proves nothing.
    pub fn read(summary: &Path) -> Result<Self> {
        let text = fs::read_to_string(summary).unwrap_or_default();
        Self::parse(&text)
    }

    /// Sums up the lines of `text`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut sum = Self::default();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line)
                .map_err(|error| Failure::new(format!("summary {line:?}: {error}")))?;
            let number = |pointer: &str| {
                value
                    .pointer(pointer)
                    .and_then(Value::as_u64)
                    .ok_or_else(|| Failure::new(format!("summary {line:?} lacks {pointer}")))
            };
            sum.processes += 1;
            sum.connections += number("/connections")?;
            sum.accelerated += number("/smcd")? + number("/smcr")?;
            sum.ring_bytes += number("/smc/tx_bytes")? + number("/smc/rx_bytes")?;
            sum.tcp_bytes += number("/tcp_bytes/tx")? + number("/tcp_bytes/rx")?;
        }
        Ok(sum)
    }

    /// The sum of two.
    pub fn and(self, other: Self) -> Self {
        Self {
            processes: self.processes + other.processes,
            connections: self.connections + other.connections,
            accelerated: self.accelerated + other.accelerated,
            ring_bytes: self.ring_bytes + other.ring_bytes,
            tcp_bytes: self.tcp_bytes + other.tcp_bytes,
        }
    }

    /// The part of all connections that moved to a ring, from 0 to 1; 0 when there were none.
    pub fn accelerated_share(&self) -> f64 {
        self.accelerated as f64 / self.connections.max(1) as f64
    }

    /// The part of all bytes that the ring carried, from 0 to 1; 0 when there were none.
    pub fn share(&self) -> f64 {
        let all = self.ring_bytes + self.tcp_bytes;
        if all == 0 {
            0.0
        } else {
            self.ring_bytes as f64 / all as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"pid":1,"comm":"a","connections":2,"smcd":1,"smcr":0,"tcp":1,"fallback":{},"smc":{"tx_bytes":60,"rx_bytes":39,"doorbells":0,"sleeps":0},"tcp_bytes":{"tx":1,"rx":0}}"#;

    #[test]
    fn sums_lines() {
        let proof = Proof::parse(&format!("{LINE}\n{LINE}\n")).expect("the lines are whole");
        assert_eq!(proof.processes, 2);
        assert_eq!((proof.connections, proof.accelerated), (4, 2));
        assert_eq!((proof.ring_bytes, proof.tcp_bytes), (198, 2));
        assert!((proof.share() - 0.99).abs() < 1e-9);
    }

    #[test]
    fn refuses_a_torn_line() {
        assert!(Proof::parse(&LINE[..40]).is_err());
        assert!(Proof::parse("{\"pid\":1}").is_err());
    }

    #[test]
    fn nothing_proves_nothing() {
        assert_eq!(Proof::parse("").expect("empty is whole").share(), 0.0);
    }
}

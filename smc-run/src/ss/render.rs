//! Rows as a table for people and as JSON for programs.
use serde::Serialize;

use super::row::code;
use super::Row;
use crate::table;

const HEADER: [&str; 15] = [
    "PID", "COMM", "FD", "STATE", "LOCAL", "PEER", "MODE", "REASON", "ROLE", "RCVBUF", "SNDBUF",
    "RX", "TX", "SMC-RX", "SMC-TX",
];
/// Columns of numbers.
const NUMBERS: [usize; 8] = [0, 2, 9, 10, 11, 12, 13, 14];

/// A table with a header, and one line for each row.
pub fn table(rows: &[Row]) -> String {
    let mut table = table::plain(HEADER, &NUMBERS);
    for row in rows {
        let size = |size: Option<u32>| size.map_or_else(|| "-".to_owned(), |s| s.to_string());
        table.add_row([
            row.pid.to_string(),
            printable(&row.comm),
            row.fd.to_string(),
            row.state.clone(),
            row.local.clone(),
            row.peer.clone(),
            row.mode.name().to_owned(),
            reason(row),
            row.role.name().to_owned(),
            size(row.rcvbuf),
            size(row.sndbuf),
            row.rx_bytes.to_string(),
            row.tx_bytes.to_string(),
            row.smc_rx_bytes.to_string(),
            row.smc_tx_bytes.to_string(),
        ]);
    }
    table::text(&table)
}

/// An array of objects.
pub fn json<T: Serialize>(objects: &[T]) -> String {
    // They hold strings and numbers only, which are always representable.
    serde_json::to_string_pretty(objects).unwrap_or_default() + "\n"
}

fn reason(row: &Row) -> String {
    match (row.reason, &row.reason_text) {
        (Some(reason), Some(text)) => format!("{} {text}", code(reason)),
        (Some(reason), None) => code(reason),
        (None, _) => "-".to_owned(),
    }
}

/// A process may call itself anything; a terminal must not obey it.
pub(super) fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, Role};
    use super::*;

    fn rows() -> [Row; 2] {
        let smcd = Row {
            pid: 4711,
            comm: "redis-server".into(),
            fd: 8,
            state: "ESTAB".into(),
            local: "127.0.0.1:6379".into(),
            peer: "127.0.0.1:40000".into(),
            mode: Mode::Smcd,
            reason: None,
            reason_text: None,
            role: Role::Server,
            rcvbuf: Some(131_072),
            sndbuf: Some(131_072),
            rx_bytes: 10,
            tx_bytes: 20,
            smc_rx_bytes: 8,
            smc_tx_bytes: 20,
        };
        let tcp = Row {
            comm: "a\x1b[2J".into(),
            mode: Mode::Tcp,
            reason: Some(0x0301_0000),
            reason_text: Some("peer does not run under smc-run".into()),
            role: Role::Unknown,
            rcvbuf: None,
            sndbuf: None,
            smc_rx_bytes: 0,
            smc_tx_bytes: 0,
            ..smcd.clone()
        };
        [smcd, tcp]
    }

    #[test]
    fn a_table_has_a_header_and_a_line_for_each_row() {
        let text = table(&rows());
        let lines: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], HEADER);
        let smcd = "4711 redis-server 8 ESTAB 127.0.0.1:6379 127.0.0.1:40000 SMCD - server 131072 \
                    131072 10 20 8 20";
        assert_eq!(lines[1].join(" "), smcd);
        let tcp = "4711 a?[2J 8 ESTAB 127.0.0.1:6379 127.0.0.1:40000 TCP 0x03010000 peer does not \
                   run under smc-run - - - 10 20 0 0";
        assert_eq!(lines[2].join(" "), tcp);
        assert_eq!(table(&[]).lines().count(), 1);
    }

    #[test]
    fn json_is_an_array_of_objects() -> Result<(), serde_json::Error> {
        let value: serde_json::Value = serde_json::from_str(&json(&rows()))?;
        assert_eq!(
            value[0],
            serde_json::json!({
                "pid": 4711, "comm": "redis-server", "fd": 8, "state": "ESTAB",
                "local": "127.0.0.1:6379", "peer": "127.0.0.1:40000", "mode": "SMCD",
                "reason": null, "reason_text": null, "role": "server",
                "rcvbuf": 131_072, "sndbuf": 131_072, "rx_bytes": 10, "tx_bytes": 20,
                "smc_rx_bytes": 8, "smc_tx_bytes": 20,
            })
        );
        assert_eq!(value[1]["reason"], "0x03010000");
        assert_eq!(value[1]["role"], "-");
        assert_eq!(value[1]["rcvbuf"], serde_json::Value::Null);
        assert_eq!(json::<Row>(&[]), "[]\n");
        Ok(())
    }
}

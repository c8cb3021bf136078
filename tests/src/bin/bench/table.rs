//! The ratio table.
use std::fmt::Write;

use crate::measure::Row;
use crate::sweep;
use crate::workload::{Better, Judgement, Transport};

/// The rows as a table for a terminal.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    let (references, compared): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.judgement == Judgement::Reference);
    if !compared.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<38} {:<10} {:>11} {:>11} {:>11} {:<9} {:>8} {:>8} {:<12} {:>7}",
            "workload", "where", "tcp", "unix", "smc", "unit", "result", "worst", "goal", "ring"
        );
    }
    let (sweep, single): (Vec<&Row>, Vec<&Row>) =
        compared.into_iter().partition(|row| sweep::has(row));
    for row in single {
        let _ = writeln!(text, "{}", line(row).trim_end());
    }
    for line in sweep::lines(&sweep) {
        let _ = writeln!(text, "{line}");
    }
    if !references.is_empty() {
        let _ = writeln!(text, "\nlimits of this machine, a bare ring in shared memory");
    }
    for row in references {
        let value = figure(row.median(Transport::Tcp));
        let _ = writeln!(text, "{:<38} {value:>11} {}", row.name, row.unit);
    }
    text
}

fn line(row: &Row) -> String {
    let sign = if row.better == Better::Higher { ">=" } else { "<=" };
    let goal = row.goal().map_or(String::new(), |(goal, met)| {
        format!("{sign} {goal} {}", if met { "ok" } else { "NO" })
    });
    let ring = match row.share {
        None => "-".to_owned(),
        Some(share) => format!("{:.1} %", share * 100.0),
    };
    let flag = if row.accelerated() { "" } else { "  NOT ACCELERATED" };
    format!(
        "{:<38} {:<10} {:>11} {:>11} {:>11} {:<9} {:>8} {:>8} {:<12} {:>7}{flag}",
        row.name,
        row.placement.to_string(),
        figure(row.median(Transport::Tcp)),
        figure(row.median(Transport::Unix)),
        figure(row.median(Transport::Smc)),
        row.unit,
        verdict(row, row.verdict()),
        verdict(row, row.worst()),
        goal,
        ring,
    )
}

/// A ratio as a factor, a difference with its sign.
pub(crate) fn verdict(row: &Row, value: Option<f64>) -> String {
    match (row.judgement, value) {
        (_, None) => "-".to_owned(),
        (Judgement::Excess(_), Some(value)) => format!("{value:+.2}"),
        (_, Some(value)) if value < 0.1 => format!("{value:.3}x"),
        (_, Some(value)) => format!("{value:.2}x"),
    }
}

/// A figure with four digits that matter.
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

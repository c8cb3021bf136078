//! The report: `performance.md` and its charts.
use std::fmt::Write;
use std::fs;
use std::path::Path;

use smc_tests::apps::{artefacts, Result};

use crate::charts;
use crate::facts::Facts;
use crate::measure::Row;
use crate::sweep;
use crate::table::{figure, verdict};
use crate::workload::{Judgement, Transport};

/// Writes the report into `folder`.
pub(crate) fn write(folder: &Path, facts: &Facts, rows: &[Row]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut text = String::from(
        "# Performance\n\n\
         Written by `scripts/bench.sh`, which repeats it all. Each workload runs over bare TCP \
         and under `smc-run` by turns, each run in a network namespace of its own with \
         congestion control cubic. Figures are medians; the result is the ratio to bare TCP, \
         or, where a sign stands before it, what was added to TCP's cost. `ring` is the least \
         part of the bytes that shared memory carried in any run, or of the connections \
         where they are idle.\n\n## Machine\n\n",
    );
    for (name, value) in &facts.0 {
        let _ = writeln!(text, "- {name}: {value}");
    }
    limits(&mut text, rows);
    table(&mut text, rows);
    if artefacts::installed("gnuplot") {
        for chart in charts::ALL {
            if chart.draw(folder, rows)? {
                let _ = writeln!(text, "\n![{}]({})", chart.title, chart.file);
            }
        }
    }
    fs::write(folder.join("performance.md"), text)?;
    Ok(())
}

fn limits(text: &mut String, rows: &[Row]) {
    text.push_str("\n## Limits\n\nA bare ring between two processes:\n\n| | |\n|---|---|\n");
    for row in rows.iter().filter(|row| row.judgement == Judgement::Reference) {
        let _ = writeln!(
            text,
            "| {} | {} {} |",
            row.name,
            figure(row.median(Transport::Tcp)),
            row.unit
        );
    }
}

fn table(text: &mut String, rows: &[Row]) {
    text.push_str(
        "\n## Results\n\n| workload | where | TCP | Unix socket | smc-run | unit | result | worst | ring |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    // The sweep's two hundred rows are for its chart.
    let (sweeps, shown): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| sweep::has(row));
    let shown = shown.into_iter().filter(|row| row.judgement != Judgement::Reference);
    for row in shown {
        let ring = row.share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {ring} |",
            row.name,
            row.placement,
            figure(row.median(Transport::Tcp)),
            figure(row.median(Transport::Unix)),
            figure(row.median(Transport::Smc)),
            row.unit,
            verdict(row, row.verdict()),
            verdict(row, row.worst()),
        );
    }
    let lines = sweep::lines(&sweeps);
    if !lines.is_empty() {
        text.push_str("\n## Sweep\n\n");
    }
    for line in lines {
        let _ = writeln!(text, "- {line}");
    }
}

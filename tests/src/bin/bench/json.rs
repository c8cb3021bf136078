//! All figures as JSON.
use serde_json::{json, Map, Value};

use crate::facts::Facts;
use crate::measure::Row;

/// The machine's facts and every row with every run's figure.
pub(crate) fn render(facts: &Facts, rows: &[Row]) -> String {
    let machine: Map<String, Value> =
        facts.0.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let rows: Vec<Value> = rows.iter().map(row).collect();
    format!("{:#}\n", json!({ "machine": machine, "rows": rows }))
}

fn row(row: &Row) -> Value {
    let runs: Map<String, Value> =
        row.figures.iter().map(|(transport, runs)| (transport.to_string(), json!(runs))).collect();
    let medians: Map<String, Value> = row
        .figures
        .keys()
        .map(|&transport| (transport.to_string(), json!(row.median(transport))))
        .collect();
    json!({
        "name": row.name,
        "workload": row.workload,
        "figure": row.figure,
        "placement": row.placement.to_string(),
        "unit": row.unit,
        "medians": medians,
        "runs": runs,
        "result": row.verdict(),
        "worst": row.worst(),
        "goal": row.goal().map(|(goal, _)| goal),
        "reached": row.goal().map(|(_, reached)| reached),
        "ring_share": row.share,
        "accelerated": row.accelerated(),
    })
}

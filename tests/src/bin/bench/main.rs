//! Benchmarks: each workload over bare TCP, over a Unix socket where the program can, and under
//! `smc-run`, by turns, in fresh network namespaces; the result is a ratio.
//!
//! `scripts/bench.sh` builds what this needs and starts it.
mod charts;
mod crowd;
mod facts;
mod families;
mod json;
mod machine;
mod measure;
mod options;
mod performance;
mod run;
mod stats;
mod sweep;
mod table;
mod workload;

use std::process::ExitCode;

use options::Options;
use smc_tests::apps::Result;

fn main() -> ExitCode {
    match Options::from_env().and_then(bench) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen workloads; false when one of them could not be run.
fn bench(options: Options) -> Result<bool> {
    let workloads: Vec<_> =
        families::all().into_iter().filter(|workload| options.chooses(workload)).collect();
    if options.list {
        for workload in &workloads {
            println!("{:<48} {}", workload.label(), workload.about);
        }
        return Ok(true);
    }
    let facts = facts::Facts::collect();
    println!("{facts}");
    let machine = machine::Machine::prepare();
    if let Some(warning) = machine.warning() {
        println!("note: {warning}");
    }

    let mut rows = Vec::new();
    let mut failures = 0;
    for (number, workload) in workloads.iter().enumerate() {
        eprintln!("[{}/{}] {}", number + 1, workloads.len(), workload.label());
        match measure::measure(workload, &machine, &options) {
            Ok(more) => rows.extend(more),
            Err(error) => {
                failures += 1;
                println!("{}: could not be measured: {error}", workload.label());
            }
        }
    }
    print!("{}", table::render(&rows));
    if let Some(path) = &options.json {
        std::fs::write(path, json::render(&facts, &rows))?;
    }
    if let Some(folder) = &options.docs {
        performance::write(folder, &facts, &rows)?;
    }
    Ok(failures == 0)
}

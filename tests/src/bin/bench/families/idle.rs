//! What a thousand silent connections cost.
use std::collections::BTreeMap;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use smc_tests::apps::{wait, Failure, Result, Running};

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Evidence, Figures, Judgement, Workload};

const CONNECTIONS: usize = 1000;

pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        Workload::new(
            "idle/processor",
            "both ends, 1,000 connections",
            ("%", Better::Lower),
            processor,
        )
        .shown_by(Evidence::Connections)
        .judged(Judgement::Excess(0.0))
        .quick(),
        Workload::new("idle/memory", "both ends, for a connection", ("KiB", Better::Lower), memory)
            .shown_by(Evidence::Connections)
            .judged(Judgement::Excess(8.0))
            .quick(),
    ]
}

/// The two ends of the silent connections.
struct Ends {
    server: Running,
    client: Running,
}

fn connect(run: &Run<'_>, count: usize) -> Result<Ends> {
    let (port, address) = (run.port(), run.address());
    let server = run
        .server(&run.own("loadgen")?)
        .words(format!("answer --at {address} --request 100 --reply 100"))
        .env("SMC_ATTACH_AFTER", "0")
        .listening(port)?;
    let client = run
        .client(&run.own("idleconns")?)
        .words(format!("hold --to {address} --count {count} --exchanges 10 --bytes 100"))
        // So that ten exchanges are enough to move to a ring.
        .env("SMC_ATTACH_AFTER", "0")
        .spawn()?;
    wait::until("the connections are idle", run.limit(), || {
        Ok(client.logs().stdout.contains("ready"))
    })?;
    Ok(Ends { server, client })
}

fn processor(run: &Run<'_>) -> Result<Figures> {
    let ends = connect(run, CONNECTIONS)?;
    let used = || Ok::<_, Failure>(ticks(ends.server.pid())? + ticks(ends.client.pid())?);
    let period = Duration::from_secs_f64(run.seconds * 2.0);
    let before = used()?;
    thread::sleep(period);
    let after = used()?;
    // The kernel counts in hundredths of a second.
    Ok(parse::one((after - before) as f64 / period.as_secs_f64()))
}

/// The processor time that a process has used, in ticks.
fn ticks(pid: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may hold blanks; user and system time are fields 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// What a connection adds, beyond what the processes have with one connection alone.
fn memory(run: &Run<'_>) -> Result<Figures> {
    let base = {
        let mut ends = connect(run, 1)?;
        let used = used_by(&ends)?;
        ends.client.stop()?;
        ends.server.stop()?;
        used
    };
    let ends = connect(run, CONNECTIONS + 1)?;
    let used = used_by(&ends)?;
    Ok(parse::one(used.saturating_sub(base) as f64 / CONNECTIONS as f64))
}

/// KiB of memory of both ends, with shared memory counted once, whether touched or only reserved.
fn used_by(ends: &Ends) -> Result<u64> {
    let mut private = 0;
    let mut shared = BTreeMap::new();
    for pid in [ends.server.pid(), ends.client.pid()] {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        private += parse::after(&rollup, "Pss_Anon:")? as u64;
        for folder in ["fd", "map_files"] {
            let Ok(entries) = fs::read_dir(format!("/proc/{pid}/{folder}")) else { continue };
            for entry in entries.flatten() {
                let Ok(target) = fs::read_link(entry.path()) else { continue };
                let target = target.to_string_lossy().into_owned();
                // Shared memory without a name: a memfd, or a shared anonymous mapping.
                if target.starts_with("/memfd:") || target.starts_with("/dev/zero (deleted)") {
                    if let Ok(file) = fs::metadata(entry.path()) {
                        shared.insert((file.st_dev(), file.st_ino()), file.st_blocks() / 2);
                    }
                }
            }
        }
    }
    Ok(private + shared.values().sum::<u64>())
}

//! nginx under wrk.
use smc_tests::apps::nginx::prepare;
use smc_tests::apps::{Failure, Result};

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Evidence, Figures, Placement, Workload};

const RATE: (&str, Better) = ("req/s", Better::Higher);

pub(crate) fn workloads() -> Vec<Workload> {
    let load = |name: &str, workers: usize, options: &'static str, path: &'static str| {
        Workload::new(name, format!("wrk {options} {path}"), RATE, move |run| {
            measure(run, workers, options, path)
        })
    };
    let mut list = vec![load("nginx/t1-c100 612 B", 1, "-t1 -c100", "small").goal(1.4).quick()];
    for placement in [Placement::Shared, Placement::Free, Placement::Crowded] {
        list.push(load("nginx/t1-c100 612 B", 1, "-t1 -c100", "small").at(placement));
    }
    for placement in [Placement::Apart, Placement::Shared, Placement::Free] {
        list.extend([
            load("nginx/t1-c100 64 KiB", 1, "-t1 -c100", "large").at(placement),
            load("nginx/t1-c100 memory", 1, "-t1 -c100", "memory").at(placement),
        ]);
    }
    list.push(load("nginx/t8-c1000 612 B", 2, "-t8 -c1000", "small").at(Placement::Free));
    list.push(
        load("nginx/t1-c100 close", 1, "-t1 -c100 -H Connection:close", "small")
            .shown_by(Evidence::None),
    );
    list
}

fn measure(run: &Run<'_>, workers: usize, options: &str, path: &str) -> Result<Figures> {
    let port = run.port();
    let configuration = prepare(run.folder(), port, workers, true)?;
    let folder = run.folder().display();
    let _server = run
        .server("nginx")
        .words(format!("-p {folder} -e {folder}/nginx-error.log -c"))
        .arg(configuration)
        .listening(port)?;
    let seconds = run.seconds.ceil();
    let client = run
        .client("wrk")
        .words(format!("{options} -d{seconds}s --latency http://127.0.0.1:{port}/{path}"));
    let report = client.output(run.limit())?.stdout;
    if report.contains("Socket errors") || report.contains("Non-2xx") {
        return Err(Failure::new(format!("wrk reports errors: {report}")));
    }
    Ok(parse::one(parse::after(&report, "Requests/sec:")?))
}

//! iperf3, both directions.
use serde_json::Value;
use smc_tests::apps::{Failure, Result};

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Figures, Placement, Workload};

const BANDWIDTH: (&str, Better) = ("GB/s", Better::Higher);

pub(crate) fn workloads() -> Vec<Workload> {
    let mut list = Vec::new();
    for placement in Placement::ALL {
        for (name, option) in [("iperf3/forward", ""), ("iperf3/reverse", "-R")] {
            let run = move |run: &Run<'_>| measure(run, option);
            list.push(Workload::new(name, "128 KiB writes", BANDWIDTH, run).at(placement));
        }
    }
    list
}

fn measure(run: &Run<'_>, option: &str) -> Result<Figures> {
    let port = run.port();
    let mut server = run.server("iperf3").words(format!("-s -1 -p {port}")).listening(port)?;
    let seconds = run.seconds.ceil();
    let client =
        run.client("iperf3").words(format!("-c 127.0.0.1 -p {port} -t {seconds} -J {option}"));
    let report = client.output(run.limit())?.stdout;
    server.wait(run.limit())?;
    let bits = serde_json::from_str::<Value>(&report)
        .ok()
        .and_then(|report| report.pointer("/end/sum_received/bits_per_second")?.as_f64())
        .ok_or_else(|| Failure::new(format!("iperf3 says {report:?}")))?;
    Ok(parse::one(bits / 8e9))
}

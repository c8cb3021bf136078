//! sockperf: ping-pong, throughput, and latency under load.
use smc_tests::apps::Result;

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Figures, Placement, Workload};

const LATENCY: (&str, Better) = ("us", Better::Lower);
const BANDWIDTH: (&str, Better) = ("GB/s", Better::Higher);

/// The longest message that sockperf knows, one byte short of 1 MiB.
const MAXIMUM: usize = (1 << 20) - 1;

pub(crate) fn workloads() -> Vec<Workload> {
    let throughput = |run: &Run<'_>| throughput(run, 64_000);
    let mut list = vec![
        Workload::new("sockperf/tp 64000 B", "one-way stream", BANDWIDTH, throughput)
            .quick()
            .goal(1.5),
        Workload::new("sockperf/tp 64000 B", "one-way stream", BANDWIDTH, throughput)
            .at(Placement::Shared),
        Workload::new("sockperf/tp 64000 B", "one-way stream", BANDWIDTH, throughput)
            .at(Placement::Free),
        Workload::new("sockperf/tp 64000 B", "one-way stream", BANDWIDTH, throughput)
            .at(Placement::Crowded),
        Workload::new("sockperf/under-load 14 B", "100,000 messages a second", LATENCY, |run| {
            latency(run, "under-load --mps 100000 -m 14")
        }),
    ];
    for size in [14, 128 << 10, 256 << 10, 512 << 10, MAXIMUM] {
        for placement in Placement::ALL {
            // It has sequence numbers for 600,000 messages a second, and fails where there are more.
            let ping_pong =
                move |run: &Run<'_>| latency(run, &format!("ping-pong -m {size} --mps=400000"));
            let name = format!("sockperf/pp {size} B");
            list.push(Workload::new(name, "half a round trip", LATENCY, ping_pong).at(placement));
        }
    }
    list
}

fn client(run: &Run<'_>, mode: &str) -> Result<String> {
    let port = run.port();
    let _server = run
        .server("sockperf")
        .words(format!("server --tcp -i 127.0.0.1 -p {port} -m {MAXIMUM}"))
        .listening(port)?;
    let seconds = run.seconds.ceil();
    let line = format!("{mode} --tcp -i 127.0.0.1 -p {port} -t {seconds}");
    let report = run.client("sockperf").words(line).output(run.limit())?.stdout;
    Ok(plain(&report))
}

fn throughput(run: &Run<'_>, size: usize) -> Result<Figures> {
    let report = client(run, &format!("throughput -m {size}"))?;
    // sockperf's MBps are 2^20 bytes.
    Ok(parse::one(parse::after(&report, "BandWidth is")? * 1_048_576.0 / 1e9))
}

fn latency(run: &Run<'_>, mode: &str) -> Result<Figures> {
    let report = client(run, mode)?;
    Ok(vec![
        ("p50".to_owned(), parse::after(&report, "percentile 50.000 =")?),
        ("p99".to_owned(), parse::after(&report, "percentile 99.000 =")?),
    ])
}

/// The report without the colours that sockperf writes even to a file.
fn plain(report: &str) -> String {
    let mut text = String::with_capacity(report.len());
    let mut rest = report;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        text.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn colours_vanish() {
        assert_eq!(plain("a\x1b[2;35mb\x1b[0mc"), "abc");
    }
}

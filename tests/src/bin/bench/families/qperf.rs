//! qperf: latency and bandwidth by message size.
use smc_tests::apps::{Failure, Result};

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Figures, Placement, Workload};

const LATENCY: (&str, Better) = ("us", Better::Lower);
const BANDWIDTH: (&str, Better) = ("GB/s", Better::Higher);
/// The port of the server's control connection, qperf's default.
const PORT: u16 = 19_765;

pub(crate) fn workloads() -> Vec<Workload> {
    let latency = |sizes: &'static [usize]| move |run: &Run<'_>| measure(run, "tcp_lat", sizes);
    let bandwidth = |sizes: &'static [usize]| move |run: &Run<'_>| measure(run, "tcp_bw", sizes);
    let all_latencies = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    let all_bandwidths = &[
        1,
        64,
        100,
        512,
        1024,
        4096,
        16_384,
        65_536,
        131_072,
        262_144,
        524_288,
        1 << 20,
        2 << 20,
        4 << 20,
        8 << 20,
    ];
    vec![
        Workload::new("qperf/lat", "one way, 64 B", LATENCY, latency(&[64])).quick().goal(0.05),
        Workload::new("qperf/lat", "one way, 64 B", LATENCY, latency(&[64]))
            .at(Placement::Shared)
            .quick()
            .goal(0.5),
        Workload::new("qperf/lat", "one way, 64 B", LATENCY, latency(&[64]))
            .at(Placement::Crowded)
            .goal(1.0),
        Workload::new("qperf/lat-sizes", "one way, by size", LATENCY, latency(all_latencies)),
        Workload::new("qperf/lat-sizes", "one way, by size", LATENCY, latency(all_latencies))
            .at(Placement::Shared),
        Workload::new("qperf/lat-sizes", "one way, by size", LATENCY, latency(all_latencies))
            .at(Placement::Free),
        Workload::new("qperf/bw-sizes", "by message size", BANDWIDTH, bandwidth(all_bandwidths)),
        Workload::new("qperf/bw-sizes", "by message size", BANDWIDTH, bandwidth(all_bandwidths))
            .at(Placement::Shared),
    ]
}

fn measure(run: &Run<'_>, test: &str, sizes: &[usize]) -> Result<Figures> {
    let mut server = run.server("qperf").listening(PORT)?;
    let seconds = run.seconds.ceil();
    let mut figures = Figures::new();
    for size in sizes {
        let client = run.client("qperf").words(format!("127.0.0.1 -t {seconds} -m {size} {test}"));
        let report = client.output(run.limit())?.stdout;
        figures.push((format!("{size} B"), value(&report)?));
    }
    run.helper("qperf").words("127.0.0.1 quit").output(run.limit())?;
    server.wait(run.limit())?;
    Ok(figures)
}

/// Reads `NAME = NUMBER UNIT`; microseconds for a time, GB/s for a bandwidth.
fn value(report: &str) -> Result<f64> {
    let unknown = || Failure::new(format!("qperf says {report:?}"));
    let (_, rest) = report.split_once('=').ok_or_else(unknown)?;
    let (number, unit) = parse::number(rest.trim_start()).ok_or_else(unknown)?;
    let factor = match unit.trim() {
        "ns" => 1e-3,
        "us" | "GB/sec" => 1.0,
        "ms" => 1e3,
        "sec" => 1e6,
        "MB/sec" => 1e-3,
        "KB/sec" => 1e-6,
        "bytes/sec" => 1e-9,
        _ => return Err(unknown()),
    };
    Ok(number * factor)
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn units() {
        assert_eq!(value("tcp_lat:\n    latency  =  5.25 us\n").expect("known"), 5.25);
        assert_eq!(value("tcp_bw:\n    bw  =  250 MB/sec\n").expect("known"), 0.25);
        assert!(value("tcp_bw:\n    bw  =  4.5 furlongs\n").is_err());
        assert!(value("failed").is_err());
    }
}

//! redis-server under redis-benchmark.
use smc_tests::apps::{Failure, Result};

use crate::run::Run;
use crate::workload::{Better, Figures, Placement, Transport, Workload};

const RATE: (&str, Better) = ("req/s", Better::Higher);

pub(crate) fn workloads() -> Vec<Workload> {
    let load = |name: &str, options: &'static str, requests: u64| {
        Workload::new(name, format!("redis-benchmark {options}"), RATE, move |run| {
            measure(run, options, requests)
        })
    };
    let many = || load("redis/c200-d1024", "-c 200 -d 1024", 80_000);
    let one = || load("redis/c1", "-c 1", 30_000);
    let pipelined = || load("redis/P16-c50", "-P 16 -c 50", 400_000);
    vec![
        many().goal(1.5).quick().unix(),
        one().quick().unix(),
        pipelined().quick().unix(),
        many().at(Placement::Shared).unix(),
        one().at(Placement::Shared).unix(),
        pipelined().at(Placement::Shared).unix(),
        many().at(Placement::Free).unix(),
        one().at(Placement::Free).unix(),
        pipelined().at(Placement::Free).unix(),
        many().at(Placement::Crowded).unix(),
        one().at(Placement::Crowded).unix(),
        pipelined().at(Placement::Crowded).unix(),
    ]
}

fn measure(run: &Run<'_>, options: &str, requests: u64) -> Result<Figures> {
    let (port, folder, socket) = (run.port(), run.folder().display(), run.socket());
    let socket = socket.display();
    let _server = run
        .server("redis-server")
        .words(format!("--port {port} --bind 127.0.0.1 --appendonly no --dir {folder}"))
        .words(format!("--daemonize no --unixsocket {socket} --loglevel warning"))
        .arg("--save")
        .arg("")
        .listening(port)?;
    let place = match run.transport {
        Transport::Unix => format!("-s {socket}"),
        _ => format!("-h 127.0.0.1 -p {port}"),
    };
    // The count is for a measurement of one second on a slow machine.
    let requests = (requests as f64 * run.seconds) as u64;
    let client = run
        .client("redis-benchmark")
        .words(format!("{place} {options} -n {requests} -t set,get --csv"));
    figures(&client.output(run.limit())?.stdout)
}

/// Reads lines such as `"SET","71428.57","0.3",…`.
fn figures(report: &str) -> Result<Figures> {
    let figures: Figures = report
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(',').map(|field| field.trim_matches('"'));
            let name = fields.next()?;
            let rate = fields.next()?.parse().ok()?;
            Some((name.to_owned(), rate))
        })
        .collect();
    if figures.len() == 2 {
        Ok(figures)
    } else {
        Err(Failure::new(format!("redis-benchmark says {report:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn reads_rates_and_skips_the_heading() {
        let report = "\"test\",\"rps\"\n\"SET\",\"100.5\",\"1\"\n\"GET\",\"200.0\",\"1\"\n";
        let figures = figures(report).expect("whole");
        assert_eq!(figures, [("SET".into(), 100.5), ("GET".into(), 200.0)]);
        assert!(super::figures("Could not connect").is_err());
    }
}

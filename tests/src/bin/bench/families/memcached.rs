//! memcached under this project's own client.
use smc_tests::apps::Result;

use super::loadgen::started;
use super::parse;
use crate::run::Run;
use crate::workload::{Better, Figures, Placement, Transport, Workload};

const RATE: (&str, Better) = ("req/s", Better::Higher);

pub(crate) fn workloads() -> Vec<Workload> {
    let mut list = Vec::new();
    for placement in Placement::ALL {
        for connections in [1, 50] {
            let name = format!("memcached/get 1 KiB c{connections}");
            let get =
                Workload::new(name, "GET of one key", RATE, move |run| measure(run, connections));
            list.push(get.at(placement).unix());
        }
    }
    list
}

fn measure(run: &Run<'_>, connections: usize) -> Result<Figures> {
    let place = match run.transport {
        Transport::Unix => format!("-s {}", run.socket().display()),
        _ => format!("-l 127.0.0.1 -p {} -U 0", run.port()),
    };
    let server = run.server("memcached").words(format!("-u root -t 2 {place}"));
    let _server = started(run, server)?;
    let client = run.client(&run.own("loadgen")?).words(format!(
        "memcached --to {} --value 1024 --connections {connections} --seconds {}",
        run.address(),
        run.seconds
    ));
    Ok(parse::one(parse::line(&client.output(run.limit())?.stdout, "rate")?))
}

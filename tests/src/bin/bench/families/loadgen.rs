//! This project's own load generator: request and response, and streams of small messages.
use smc_tests::apps::{Launch, Result, Running};

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Figures, Placement, Transport, Workload};

const RATE: (&str, Better) = ("msg/s", Better::Higher);
const EXCHANGES: (&str, Better) = ("req/s", Better::Higher);

pub(crate) fn workloads() -> Vec<Workload> {
    let mut list = Vec::new();
    for placement in Placement::ALL {
        let stream = Workload::new("loadgen/stream 100 B", "one way", RATE, |run| {
            let _server = sink(run)?;
            Ok(parse::one(stream(run, 100)?))
        });
        list.push(stream.at(placement).unix());
        for size in [40, 44, 100, 1024] {
            for connections in [1, 200, 250] {
                let name = format!("loadgen/rr {size} B c{connections}");
                let rr = Workload::new(name, "request and response", EXCHANGES, move |run| {
                    exchange(run, size, connections, 0)
                });
                list.push(rr.at(placement).unix());
            }
        }
    }
    let scale = Workload::new("loadgen/rr 100 B c100+9900", "1 % active", EXCHANGES, |run| {
        exchange(run, 100, 100, 9900)
    });
    list.push(scale);
    list
}

fn exchange(run: &Run<'_>, size: usize, connections: usize, idle: usize) -> Result<Figures> {
    let address = run.address();
    let server = run
        .server(&run.own("loadgen")?)
        .words(format!("answer --at {address} --request {size} --reply {size}"));
    let _server = started(run, server)?;
    let client = run.client(&run.own("loadgen")?).words(format!(
        "rr --to {address} --request {size} --reply {size} --connections {connections} \
         --idle {idle} --seconds {}",
        run.seconds
    ));
    let report = client.output(run.limit())?.stdout;
    Ok(parse::one(parse::line(&report, "rate")?))
}

/// Starts a server that swallows streams.
pub(crate) fn sink(run: &Run<'_>) -> Result<Running> {
    started(run, sink_launch(run)?)
}

/// The same, to be started.
pub(crate) fn sink_launch(run: &Run<'_>) -> Result<Launch> {
    let address = run.address();
    Ok(run.server(&run.own("loadgen")?).words(format!("sink --at {address}")))
}

/// Messages in a second, for messages of `size` bytes.
fn stream(run: &Run<'_>, size: usize) -> Result<f64> {
    let (address, seconds) = (run.address(), run.seconds);
    let client = run
        .client(&run.own("loadgen")?)
        .words(format!("stream --to {address} --sizes {size} --seconds {seconds}"));
    parse::line(&client.output(run.limit())?.stdout, &size.to_string())
}

/// Starts a server and waits until clients can connect.
pub(crate) fn started(run: &Run<'_>, server: Launch) -> Result<Running> {
    if run.transport != Transport::Unix {
        return server.listening(run.port());
    }
    let running = server.spawn()?;
    let socket = run.socket();
    smc_tests::apps::wait::until("the Unix socket", run.limit(), || Ok(socket.exists()))?;
    Ok(running)
}

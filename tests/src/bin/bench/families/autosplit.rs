//! Long messages in pieces of different lengths: which pays best.
use smc_tests::apps::Result;

use super::loadgen::started;
use super::parse;
use crate::run::Run;
use crate::workload::{Better, Figures, Transport, Workload};

const TIME: (&str, Better) = ("us", Better::Lower);
const MESSAGES: [usize; 4] = [128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// The last is longer than any message: none is split.
const SEGMENTS: [usize; 6] = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 4 << 20];

pub(crate) fn workloads() -> Vec<Workload> {
    let each = |message: usize| {
        let name = format!("autosplit/{} KiB", message >> 10);
        let about = "round trip by SMC_AUTOSPLIT_SIZE";
        Workload::new(name, about, TIME, move |run| measure(run, message))
    };
    MESSAGES.into_iter().map(each).collect()
}

/// For TCP, which splits nothing, each figure is the same measurement.
fn measure(run: &Run<'_>, message: usize) -> Result<Figures> {
    let once = |segment: usize| -> Result<f64> {
        let address = run.address();
        let own = run.own("loadgen")?;
        let split = segment.to_string();
        let server = run
            .server(&own)
            .env("SMC_AUTOSPLIT_SIZE", &split)
            .words(format!("answer --at {address} --request {message} --reply {message}"));
        let _server = started(run, server)?;
        let client = run.client(&own).env("SMC_AUTOSPLIT_SIZE", &split).words(format!(
            "rr --to {address} --request {message} --reply {message} --connections 1 --seconds {}",
            run.seconds
        ));
        Ok(1e6 / parse::line(&client.output(run.limit())?.stdout, "rate")?)
    };
    if run.transport != Transport::Smc {
        let time = once(SEGMENTS[0])?;
        return Ok(SEGMENTS.into_iter().map(|segment| (name(segment), time)).collect());
    }
    SEGMENTS.into_iter().map(|segment| Ok((name(segment), once(segment)?))).collect()
}

fn name(segment: usize) -> String {
    if segment > 1 << 20 {
        "unsplit".to_owned()
    } else {
        format!("in {} KiB", segment >> 10)
    }
}

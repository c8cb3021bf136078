//! What a program pays that uses no accelerated socket.
use smc_tests::apps::Result;

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Evidence, Figures, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    let about = "read and write of files that are no sockets";
    vec![Workload::new("foreign fd", about, ("ns", Better::Lower), measure)
        .shown_by(Evidence::None)
        .goal(1.03)
        .quick()]
}

fn measure(run: &Run<'_>) -> Result<Figures> {
    let program = run.client(&run.own("fdcost")?).words("run");
    Ok(parse::one(parse::line(&program.output(run.limit())?.stdout, "call")?))
}

//! Connections that live for one exchange.
use smc_tests::apps::Result;

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Evidence, Figures, Placement, Workload};

const TIME: (&str, Better) = ("us", Better::Lower);

pub(crate) fn workloads() -> Vec<Workload> {
    let short = || {
        let about = "connect, 100 B, 1 KiB, close";
        Workload::new("short connection", about, TIME, measure).shown_by(Evidence::None)
    };
    vec![
        short().goal(1.2).quick(),
        short().at(Placement::Shared).goal(1.2),
        short().at(Placement::Free).goal(1.2),
        short().at(Placement::Crowded).goal(1.2),
    ]
}

fn measure(run: &Run<'_>) -> Result<Figures> {
    let (port, address) = (run.port(), run.address());
    let program = run.own("shortconn")?;
    let _server = run.server(&program).words(format!("serve --at {address}")).listening(port)?;
    let client =
        run.client(&program).words(format!("run --to {address} --seconds {}", run.seconds));
    let rate = parse::line(&client.output(run.limit())?.stdout, "rate")?;
    Ok(parse::one(1e6 / rate))
}

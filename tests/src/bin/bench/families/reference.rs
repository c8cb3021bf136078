//! The limits of the machine: a bare ring between two processes.
use smc_tests::apps::{Failure, Result};

use super::parse;
use crate::run::Run;
use crate::workload::{Better, Evidence, Figures, Judgement, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    let limit = |name: &str, unit: (&'static str, Better), line: &'static str| {
        Workload::new(name, format!("ringref {line}"), unit, move |run| measure(run, line))
            .shown_by(Evidence::None)
            .judged(Judgement::Reference)
            .quick()
    };
    vec![
        limit("ring/ping own cores, spin", ("us", Better::Lower), "ping"),
        limit("ring/ping one core, yield", ("us", Better::Lower), "ping --wait yield --cpus 0,0"),
        limit("ring/ping one core, futex", ("us", Better::Lower), "ping --wait sleep --cpus 0,0"),
        limit("ring/100 B messages", ("msg/s", Better::Higher), "rate"),
        limit("ring/two copies", ("GB/s", Better::Higher), "copy"),
    ]
}

fn measure(run: &Run<'_>, line: &str) -> Result<Figures> {
    let program = run.helper(&run.own("ringref")?).words(format!("{line} --seconds 0.5"));
    let report = program.output(run.limit())?.stdout;
    let value = report.trim().parse();
    Ok(parse::one(value.map_err(|_| Failure::new(format!("ringref says {report:?}")))?))
}

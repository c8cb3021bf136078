//! Interleaved runs of a workload, and the rows they give.
use std::collections::BTreeMap;

use smc_tests::apps::{Failure, Result, Scratch};

use crate::crowd::Crowd;
use crate::machine::Machine;
use crate::options::Options;
use crate::run::Run;
use crate::stats;
use crate::workload::{Better, Evidence, Figures, Judgement, Placement, Transport, Workload};

/// The part of the bytes that the ring must have carried for a row to count as accelerated.
const PROOF: f64 = 0.99;

/// All figures of one thing that a workload measures.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Workload and figure.
    pub(crate) name: String,
    /// The figure's own name within the workload; a size, for sweeps.
    pub(crate) figure: String,
    /// The workload's name.
    pub(crate) workload: String,
    /// Where the ends ran.
    pub(crate) placement: Placement,
    /// The figures' unit.
    pub(crate) unit: &'static str,
    /// Which are better.
    pub(crate) better: Better,
    /// What counts.
    pub(crate) judgement: Judgement,
    /// Every run's figure, by transport, in the order of the runs.
    pub(crate) figures: BTreeMap<Transport, Vec<f64>>,
    /// The least part of the bytes that the ring carried, or of the connections that it took, in
    /// any run; none where no evidence is asked.
    pub(crate) share: Option<f64>,
}

impl Row {
    /// The median of a transport.
    pub(crate) fn median(&self, transport: Transport) -> Option<f64> {
        self.figures.get(&transport).map(|figures| stats::median(figures))
    }

    /// What the row says: the ratio to TCP, or what was added to TCP's cost.
    pub(crate) fn verdict(&self) -> Option<f64> {
        self.compare(self.median(Transport::Smc)?)
    }

    /// The same for the worst accelerated run.
    pub(crate) fn worst(&self) -> Option<f64> {
        let (low, high) = stats::range(self.figures.get(&Transport::Smc)?);
        self.compare(if self.better == Better::Higher { low } else { high })
    }

    /// The goal, and whether the median reaches it.
    pub(crate) fn goal(&self) -> Option<(f64, bool)> {
        let verdict = self.verdict()?;
        match (self.judgement, self.better) {
            (Judgement::Ratio(Some(goal)), Better::Higher) => Some((goal, verdict >= goal)),
            (Judgement::Ratio(Some(goal)) | Judgement::Excess(goal), _) => {
                Some((goal, verdict <= goal))
            }
            _ => None,
        }
    }

    /// False when the statistics do not show that the ring carried the bytes.
    pub(crate) fn accelerated(&self) -> bool {
        self.share.is_none_or(|share| share >= PROOF)
    }

    fn compare(&self, figure: f64) -> Option<f64> {
        let tcp = self.median(Transport::Tcp)?;
        match self.judgement {
            Judgement::Ratio(_) => Some(figure / tcp),
            Judgement::Excess(_) => Some(figure - tcp),
            Judgement::Reference => None,
        }
    }
}

/// Runs the workload over each transport by turns, so that a slow spell of the machine hits all.
pub(crate) fn measure(
    workload: &Workload,
    machine: &Machine,
    options: &Options,
) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..options.runs {
        for transport in workload.transports() {
            if options.bare && transport == Transport::Smc {
                continue;
            }
            let once = once(workload, transport, machine, options.seconds);
            let (figures, share) = once.map_err(|e| Failure::new(format!("{transport}: {e}")))?;
            for (figure, value) in figures {
                let row = match rows.iter_mut().position(|row| row.figure == figure) {
                    Some(index) => &mut rows[index],
                    None => {
                        rows.push(row(workload, figure));
                        rows.last_mut().ok_or_else(|| Failure::new("no row"))?
                    }
                };
                row.figures.entry(transport).or_default().push(value);
                if let Some(share) = share {
                    row.share = Some(row.share.map_or(share, |least| least.min(share)));
                }
            }
        }
    }
    Ok(rows)
}

fn once(
    workload: &Workload,
    transport: Transport,
    machine: &Machine,
    seconds: f64,
) -> Result<(Figures, Option<f64>)> {
    let scratch = Scratch::new("bench")?;
    let netns = machine.namespace()?;
    let name = netns.as_ref().map(|netns| netns.name());
    let run = Run::new(transport, workload.placement, seconds, scratch.path(), name)?;
    let crowd = (workload.placement == Placement::Crowded).then(Crowd::gather);
    let figures = (workload.run)(&run);
    crowd.map_or(Ok(()), Crowd::leave)?;
    let figures = figures?;
    if figures.is_empty() || figures.iter().any(|(_, value)| !value.is_finite()) {
        return Err(Failure::new("the run gave no figure"));
    }
    let share = match (transport, workload.evidence) {
        (Transport::Smc, Evidence::Bytes) => Some(run.proof()?.share()),
        (Transport::Smc, Evidence::Connections) => Some(run.proof()?.accelerated_share()),
        _ => None,
    };
    Ok((figures, share))
}

fn row(workload: &Workload, figure: String) -> Row {
    let gap = if figure.is_empty() { "" } else { " " };
    Row {
        name: format!("{}{gap}{figure}", workload.name),
        figure,
        workload: workload.name.clone(),
        placement: workload.placement,
        unit: workload.unit,
        better: workload.better,
        judgement: workload.judgement,
        figures: BTreeMap::new(),
        share: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(better: Better, judgement: Judgement, tcp: &[f64], smc: &[f64]) -> Row {
        let workload = Workload::new("w", "", ("u", better), |_| Ok(Vec::new())).judged(judgement);
        let mut row = row(&workload, String::new());
        row.figures.insert(Transport::Tcp, tcp.to_vec());
        row.figures.insert(Transport::Smc, smc.to_vec());
        row
    }

    #[test]
    fn ratio_of_medians_and_worst_run() {
        let judgement = Judgement::Ratio(Some(2.0));
        let row = example(Better::Higher, judgement, &[10.0, 11.0, 9.0], &[30.0, 15.0, 25.0]);
        assert_eq!(row.verdict(), Some(2.5));
        assert_eq!(row.worst(), Some(1.5));
        assert_eq!(row.goal(), Some((2.0, true)));
    }

    #[test]
    fn lower_is_better_turns_the_goal_round() {
        let row = example(Better::Lower, Judgement::Ratio(Some(0.5)), &[10.0], &[6.0]);
        assert_eq!(row.goal(), Some((0.5, false)));
    }

    #[test]
    fn excess_is_a_difference() {
        let row = example(Better::Lower, Judgement::Excess(8.0), &[1.0], &[7.0]);
        assert_eq!(row.verdict(), Some(6.0));
        assert_eq!(row.goal(), Some((8.0, true)));
    }

    #[test]
    fn a_row_without_its_proof_is_flagged() {
        let mut row = example(Better::Higher, Judgement::Ratio(None), &[1.0], &[1.0]);
        assert!(row.accelerated());
        row.share = Some(0.5);
        assert!(!row.accelerated());
    }
}

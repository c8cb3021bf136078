//! What a workload is.
use std::fmt;

use smc_tests::apps::Result;

use crate::run::Run;

/// The name and the figure of each thing that one run measured. A run that measures one thing
/// leaves its name empty.
pub(crate) type Figures = Vec<(String, f64)>;

/// Measures a workload once.
pub(crate) type Measure = Box<dyn Fn(&Run<'_>) -> Result<Figures>>;

/// Whether a larger figure is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// A rate.
    Higher,
    /// A time or a cost.
    Lower,
}

/// Where the two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The server on processor 0, the client on processor 1.
    Apart,
    /// Both on processor 0.
    Shared,
    /// Where the scheduler puts them.
    Free,
    /// As apart, and each processor has something else to do as well.
    Crowded,
}

impl Placement {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Apart, Self::Shared, Self::Free, Self::Crowded];

    /// The server's processors, in the notation of taskset.
    pub(crate) fn server(self) -> Option<&'static str> {
        match self {
            Self::Apart | Self::Shared | Self::Crowded => Some("0"),
            Self::Free => None,
        }
    }

    /// The client's processors.
    pub(crate) fn client(self) -> Option<&'static str> {
        match self {
            Self::Apart | Self::Crowded => Some("1"),
            Self::Shared => Some("0"),
            Self::Free => None,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apart => "own cores",
            Self::Shared => "one core",
            Self::Free => "unpinned",
            Self::Crowded => "oversubscribed",
        })
    }
}

/// How the two ends talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    /// Bare, over TCP.
    Tcp,
    /// Bare, over a Unix socket.
    Unix,
    /// Both ends under `smc-run`.
    Smc,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Smc => "smc",
        })
    }
}

/// What the statistics of an accelerated run must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The ring carried nearly all bytes.
    Bytes,
    /// Nearly all connections moved to a ring.
    Connections,
    /// Nothing: the run uses no connection that pays for a ring.
    None,
}

/// What the figures mean for the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Judgement {
    /// The ratio to bare TCP counts; the bound is what it must reach, if anything is demanded.
    Ratio(Option<f64>),
    /// What `smc-run` adds to bare TCP counts, in the workload's own unit, and its bound.
    Excess(f64),
    /// A limit of the machine; there is nothing to compare.
    Reference,
}

/// A workload: one program pair, one way to load it, one placement.
pub(crate) struct Workload {
    /// Program and load, such as `redis/c200-d1024`.
    pub(crate) name: String,
    /// The same in words.
    pub(crate) about: String,
    /// The unit of its figures.
    pub(crate) unit: &'static str,
    /// Which figures are better.
    pub(crate) better: Better,
    /// Where the ends run.
    pub(crate) placement: Placement,
    /// Also measured over a Unix socket.
    pub(crate) unix: bool,
    /// Part of the short list.
    pub(crate) quick: bool,
    /// What its accelerated runs must show.
    pub(crate) evidence: Evidence,
    /// What to compare.
    pub(crate) judgement: Judgement,
    /// Measures once.
    pub(crate) run: Measure,
}

impl Workload {
    /// A workload compared by its ratio, with both ends on their own core, in the long list.
    pub(crate) fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        (unit, better): (&'static str, Better),
        run: impl Fn(&Run<'_>) -> Result<Figures> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            about: about.into(),
            unit,
            better,
            placement: Placement::Apart,
            unix: false,
            quick: false,
            evidence: Evidence::Bytes,
            judgement: Judgement::Ratio(None),
            run: Box::new(run),
        }
    }

    /// Places its ends.
    pub(crate) fn at(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Demands this ratio: at least, or at most where lower is better.
    pub(crate) fn goal(mut self, ratio: f64) -> Self {
        self.judgement = Judgement::Ratio(Some(ratio));
        self
    }

    /// Compares in another way.
    pub(crate) fn judged(mut self, judgement: Judgement) -> Self {
        self.judgement = judgement;
        self
    }

    /// Puts it on the short list.
    pub(crate) fn quick(mut self) -> Self {
        self.quick = true;
        self
    }

    /// Measures it over a Unix socket too.
    pub(crate) fn unix(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Asks its accelerated runs for other evidence than bytes.
    pub(crate) fn shown_by(mut self, evidence: Evidence) -> Self {
        self.evidence = evidence;
        self
    }

    /// Name and placement.
    pub(crate) fn label(&self) -> String {
        match self.judgement {
            Judgement::Reference => self.name.clone(),
            _ => format!("{} ({})", self.name, self.placement),
        }
    }

    /// The transports to measure, in the order of one round.
    pub(crate) fn transports(&self) -> Vec<Transport> {
        match (self.judgement, self.unix) {
            (Judgement::Reference, _) => vec![Transport::Tcp],
            (_, false) => vec![Transport::Tcp, Transport::Smc],
            (_, true) => vec![Transport::Tcp, Transport::Smc, Transport::Unix],
        }
    }
}

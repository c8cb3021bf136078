//! The command line.
use std::path::PathBuf;

use smc_tests::apps::{Failure, Result};

use crate::workload::Workload;

const USAGE: &str = "usage: bench.sh [--quick] [--only NAME]… [--bare] [--runs N] \
                     [--seconds S] [--json FILE] [--docs FOLDER] [--list]";

/// What to run, how often, and where to write the results.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Only the workloads of the short list.
    pub(crate) quick: bool,
    /// Only workloads whose label contains one of these.
    pub(crate) only: Vec<String>,
    /// Nothing under `smc-run`: shows that the workloads themselves are sound.
    pub(crate) bare: bool,
    /// How often each transport is measured.
    pub(crate) runs: usize,
    /// How long one measurement lasts.
    pub(crate) seconds: f64,
    /// Where to write all figures.
    pub(crate) json: Option<PathBuf>,
    /// Where to write the report and its charts.
    pub(crate) docs: Option<PathBuf>,
    /// Only name the workloads.
    pub(crate) list: bool,
}

impl Options {
    /// Reads the process's arguments.
    pub(crate) fn from_env() -> Result<Self> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            quick: false,
            only: Vec::new(),
            bare: false,
            runs: 5,
            seconds: 2.0,
            json: None,
            docs: None,
            list: false,
        };
        let (mut runs, mut seconds) = (None, None);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(Failure::new(format!("{word} needs a value")));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--bare" => options.bare = true,
                "--list" => options.list = true,
                "--only" => options.only.push(value()?),
                "--runs" => runs = Some(positive::<usize>(&value()?)?),
                "--seconds" => seconds = Some(positive::<f64>(&value()?)?),
                "--json" => options.json = Some(value()?.into()),
                "--docs" => options.docs = Some(value()?.into()),
                _ => return Err(Failure::new(format!("{word}: {USAGE}"))),
            }
        }
        if options.quick {
            (options.runs, options.seconds) = (3, 1.0);
        }
        options.runs = runs.unwrap_or(options.runs);
        options.seconds = seconds.unwrap_or(options.seconds);
        Ok(options)
    }

    /// Whether the workload is among those asked for.
    pub(crate) fn chooses(&self, workload: &Workload) -> bool {
        let named = |part: &String| workload.label().contains(part.as_str());
        if self.only.is_empty() {
            !self.quick || workload.quick
        } else {
            self.only.iter().any(named)
        }
    }
}

fn positive<T: std::str::FromStr + PartialOrd + Default>(text: &str) -> Result<T> {
    match text.parse() {
        Ok(value) if value > T::default() => Ok(value),
        _ => Err(Failure::new(format!("{text} is not a positive number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn quick_shortens_unless_told_otherwise() {
        let options = parse("--quick").expect("well formed");
        assert_eq!(options.runs, 3);
        let options = parse("--runs 7 --quick").expect("well formed");
        assert_eq!(options.runs, 7);
    }

    #[test]
    fn refuses_nonsense() {
        assert!(parse("--runs 0").is_err());
        assert!(parse("--runs").is_err());
        assert!(parse("--fast").is_err());
    }
}

//! Reading the figures out of programs' reports.
use smc_tests::apps::{Failure, Result};

use crate::workload::Figures;

/// The number that follows `mark` in `text`, whatever blanks lie between.
pub(crate) fn after(text: &str, mark: &str) -> Result<f64> {
    text.find(mark)
        .map(|at| text[at + mark.len()..].trim_start())
        .and_then(|rest| number(rest).map(|(value, _)| value))
        .ok_or_else(|| Failure::new(format!("no number after {mark:?} in: {}", brief(text))))
}

/// A number at the start of `text`, and what follows it.
pub(crate) fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// The value of the line `name VALUE`, as this project's load generators print it.
pub(crate) fn line(text: &str, name: &str) -> Result<f64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| Failure::new(format!("no {name} in: {}", brief(text))))
}

/// A run's only figure.
pub(crate) fn one(value: f64) -> Figures {
    vec![(String::new(), value)]
}

fn brief(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_after_marks() {
        assert_eq!(after("a: b  =  12.5 us", "b  =").expect("there"), 12.5);
        assert!(after("a: b", "c").is_err());
    }

    #[test]
    fn lines_by_name() {
        assert_eq!(line("p50 1.5\np99 2.5\n", "p99").expect("there"), 2.5);
        assert!(line("p50 1.5", "p5").is_err());
    }
}

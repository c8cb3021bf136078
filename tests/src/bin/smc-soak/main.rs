//! Long runs of random use; see `scripts/soak.sh`.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::soak::crew::{self, Name, Order, Until};
use smc_tests::soak::role;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn number(words: &[String], option: &str) -> Option<u64> {
    let at = words.iter().position(|word| word == option)?;
    words.get(at + 1)?.parse().ok()
}

fn soak(words: &[String], wild: bool) -> ExitCode {
    let has = |option: &str| words.iter().any(|word| word == option);
    let count = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(300);
    let only = number(words, "--only");
    let seed = only.or(number(words, "--seed")).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| u64::from(now.subsec_nanos()))
    });
    println!("seed {seed}");
    if has("--show") {
        println!("{:#?}", Name { seed, wild }.batch());
        return ExitCode::SUCCESS;
    }
    let pairs = if only.is_some() { 1 } else { 4 };
    let until = match (only, wild) {
        (Some(_), _) => Until::Pairs(number(words, "--times").unwrap_or(1)),
        (None, true) => Until::Time(Instant::now() + Duration::from_secs(60 * count)),
        (None, false) => Until::Left(count),
    };
    let (_, faults) = crew::run(Order {
        until,
        seed,
        wild,
        wide: !has("--narrow"),
        pairs: number(words, "--pairs").unwrap_or(pairs),
        bare: has("--bare"),
        kills: wild && !has("--no-kills"),
        same: only.is_some(),
    });
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("demote") => soak(&words, false),
        Some("random") => soak(&words, true),
        Some("server" | "client" | "resume" | "idle") => role::play(&words),
        _ => {
            eprintln!("usage: smc-soak demote COUNT [--seed N] [--pairs N] [--bare]");
            eprintln!(
                "       smc-soak random MINUTES [--seed N] [--pairs N] [--bare] [--no-kills] [--narrow]"
            );
            eprintln!(
                "       smc-soak (demote|random) --only SEED [--times N] [--pairs N] [--show]"
            );
            ExitCode::FAILURE
        }
    }
}

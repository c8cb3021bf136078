//! Long runs of random use; see `scripts/soak.sh`.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::soak::crew::{self, Name, Order};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn number(words: &[String], option: &str) -> Option<u64> {
    let at = words.iter().position(|word| word == option)?;
    words.get(at + 1)?.parse().ok()
}

fn soak(words: &[String], random: bool) -> ExitCode {
    let count = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(300);
    let seed = number(words, "--seed").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| u64::from(now.subsec_nanos()))
    });
    let only = number(words, "--only")
        .map(|seed| Name { seed, alone: words.iter().any(|word| word == "--alone") });
    let bare = words.iter().any(|word| word == "--bare");
    let pairs = if only.is_some() { 1 } else { number(words, "--pairs").unwrap_or(4) };
    let until = random.then(|| Instant::now() + Duration::from_secs(60 * count));
    println!("seed {seed}");
    let faults = crew::demote(Order { count, seed, pairs, bare, kills: random, until, only });
    if let (Some(name), true) = (only, words.iter().any(|word| word == "--show")) {
        println!("{:?}", smc_tests::soak::plan::batch(name.seed, name.alone, crew::CONNS));
    }
    for fault in &faults {
        println!("FAULT {fault}");
    }
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
        Some("server" | "client" | "resume") => crew::play(&words),
        _ => {
            eprintln!("usage: smc-soak demote COUNT [--seed N] [--pairs N] [--bare]");
            eprintln!("       smc-soak random MINUTES [--seed N] [--pairs N] [--bare]");
            eprintln!("       smc-soak demote 1 --only SEED [--alone]");
            ExitCode::FAILURE
        }
    }
}

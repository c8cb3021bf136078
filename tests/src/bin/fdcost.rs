//! What reading and writing files that are no sockets costs.
//!
//! ```text
//! fdcost run [--calls N]
//! ```
//!
//! Reads one byte from /dev/zero and writes one to /dev/null, by turns, and prints the best of
//! several rounds as nanoseconds for a call: interruptions only ever add.
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Instant;

use smc_tests::load::Args;

const ROUNDS: usize = 9;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fdcost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::from_env()?;
    let calls: u32 = args.get("calls", 400_000)?;
    let mut zero = File::open("/dev/zero")?;
    let mut null = File::create("/dev/null")?;
    let mut best = f64::INFINITY;
    let mut byte = [0];
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..calls {
            zero.read_exact(&mut byte)?;
            null.write_all(&byte)?;
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(calls) / 2.0);
    }
    println!("call {best:.2}");
    Ok(())
}

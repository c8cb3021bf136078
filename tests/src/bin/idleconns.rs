//! Holds connections that have exchanged a few messages and are silent since.
//!
//! ```text
//! idleconns hold --to ADDRESS --count N [--exchanges N] [--bytes N]
//! ```
//!
//! The server is `loadgen answer` with requests and replies of `--bytes`. Prints `ready` when all
//! connections are idle, then waits for a signal.
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use smc_tests::load::{Args, Endpoint, Stream};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("idleconns: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::from_env()?;
    if args.verb() != "hold" {
        return Err(format!("{} is not known", args.verb()).into());
    }
    let endpoint: Endpoint = args.need("to")?;
    let exchanges: usize = args.get("exchanges", 20)?;
    let mut buffer = vec![b'i'; args.get("bytes", 100)?];
    let mut held = Vec::new();
    for _ in 0..args.need::<usize>("count")? {
        let mut stream = Stream::connect(&endpoint)?;
        for _ in 0..exchanges {
            stream.write_all(&buffer)?;
            stream.read_exact(&mut buffer)?;
        }
        held.push(stream);
    }
    println!("ready");
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

//! Holds connections that have exchanged a few messages and are silent since.
//!
//! ```text
//! idleconns hold --to ADDRESS --count N [--exchanges N] [--bytes N]
//! ```
//!
//! The server is `loadgen answer` with requests and replies of `--bytes`. Prints `ready` when all
//! connections are idle, then waits for SIGTERM.
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

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
    wait_for_termination();
    Ok(())
}

/// Sleeps until SIGTERM, and lets the process end in the normal way then.
fn wait_for_termination() {
    // SAFETY: the set is a plain bit array that sigemptyset initialises; all pointers are valid
    // for their calls. The process has one thread, so blocking the signal here blocks it for all.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut signal = 0;
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::sigwait(&set, &mut signal);
    }
}

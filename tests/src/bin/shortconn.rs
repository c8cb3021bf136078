//! Connections that live for one exchange: connect, a request of 100 bytes, a reply of 1 KiB,
//! close.
//!
//! ```text
//! shortconn serve --at HOST:PORT
//! shortconn run   --to HOST:PORT [--seconds S]
//! ```
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use smc_tests::load::{Args, Endpoint, Latencies, Listener, Stream};

const REQUEST: [u8; 100] = [b'q'; 100];
const REPLY: [u8; 1024] = [b'r'; 1024];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shortconn: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::from_env()?;
    match args.verb() {
        "serve" => serve(&args.need("at")?),
        "run" => connect(&args.need("to")?, Duration::from_secs_f64(args.get("seconds", 2.0)?)),
        verb => Err(format!("{verb} is not known").into()),
    }
}

fn serve(endpoint: &Endpoint) -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind(endpoint)?;
    loop {
        let mut stream = listener.accept()?;
        let mut request = REQUEST;
        // The server closes first, so that the client's port is free again at once.
        if stream.read_exact(&mut request).is_ok() {
            let _ = stream.write_all(&REPLY);
        }
    }
}

fn connect(endpoint: &Endpoint, duration: Duration) -> Result<(), Box<dyn Error>> {
    let mut latencies = Latencies::default();
    let mut reply = Vec::with_capacity(REPLY.len());
    let begin = Instant::now();
    let mut started = begin;
    while started - begin < duration {
        let mut stream = Stream::connect(endpoint)?;
        stream.write_all(&REQUEST)?;
        reply.clear();
        stream.read_to_end(&mut reply)?;
        if reply != REPLY {
            return Err(format!("a reply of {} bytes is wrong", reply.len()).into());
        }
        drop(stream);
        let now = Instant::now();
        latencies.add(now - started);
        started = now;
    }
    println!("rate {:.1}", latencies.count() as f64 / begin.elapsed().as_secs_f64());
    println!("p50 {:.3}", latencies.quantile(0.5));
    println!("p99 {:.3}", latencies.quantile(0.99));
    Ok(())
}

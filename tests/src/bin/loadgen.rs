//! A small load generator, in the manner of netperf and uperf.
//!
//! ```text
//! loadgen answer    --at ADDRESS --request N --reply N
//! loadgen sink      --at ADDRESS [--buffer N]
//! loadgen rr        --to ADDRESS --request N --reply N [--connections N] [--idle N] [--seconds S]
//!                   [--threads N]
//! loadgen stream    --to ADDRESS --sizes N[,N…] [--seconds S]
//! loadgen memcached --to ADDRESS [--value N] [--connections N] [--seconds S] [--threads N]
//! ```
//!
//! ADDRESS is `HOST:PORT` or `unix:PATH`. Clients print `NAME VALUE` lines.
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use smc_tests::load::{answer, in_threads, sink, stream, Args, Endpoint, RequestResponse, Stream};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadgen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::from_env()?;
    match args.verb() {
        "answer" => answer(&args.need("at")?, args.need("request")?, args.need("reply")?)?,
        "sink" => sink(&args.need("at")?, args.get("buffer", 1 << 20)?)?,
        "rr" => {
            let request = vec![b'q'; args.need("request")?];
            exchange(&args, request, args.need("reply")?)?;
        }
        "stream" => streams(&args)?,
        "memcached" => memcached(&args)?,
        verb => return Err(format!("{verb} is not known").into()),
    }
    Ok(())
}

fn duration(args: &Args) -> Result<Duration, String> {
    args.get("seconds", 2.0).map(Duration::from_secs_f64)
}

fn exchange(args: &Args, request: Vec<u8>, reply: usize) -> Result<(), Box<dyn Error>> {
    let load = RequestResponse {
        endpoint: args.need("to")?,
        connections: args.get("connections", 1)?,
        idle: args.get("idle", 0)?,
        request,
        reply,
        duration: duration(args)?,
    };
    let (latencies, elapsed) = in_threads(&load, args.get("threads", 1)?)?;
    println!("rate {:.1}", latencies.count() as f64 / elapsed.as_secs_f64());
    println!("p50 {:.3}", latencies.quantile(0.5));
    println!("p99 {:.3}", latencies.quantile(0.99));
    Ok(())
}

fn streams(args: &Args) -> Result<(), Box<dyn Error>> {
    let endpoint: Endpoint = args.need("to")?;
    let sizes: String = args.need("sizes")?;
    for size in sizes.split(',') {
        let rate = stream(&endpoint, size.parse()?, duration(args)?)?;
        println!("{size} {rate:.1}");
    }
    Ok(())
}

/// GET of one key: each request and each reply is the same, so this is request and response too.
fn memcached(args: &Args) -> Result<(), Box<dyn Error>> {
    let value = "v".repeat(args.get("value", 1024)?);
    let endpoint: Endpoint = args.need("to")?;
    let mut stream = Stream::connect(&endpoint)?;
    write!(stream, "set k 0 0 {}\r\n{value}\r\n", value.len())?;
    expect(&mut stream, b"STORED\r\n")?;
    let reply = format!("VALUE k 0 {}\r\n{value}\r\nEND\r\n", value.len());
    stream.write_all(b"get k\r\n")?;
    expect(&mut stream, reply.as_bytes())?;
    exchange(args, b"get k\r\n".to_vec(), reply.len())
}

fn expect(stream: &mut Stream, text: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut found = vec![0; text.len()];
    stream.read_exact(&mut found)?;
    if found == text {
        Ok(())
    } else {
        let found = String::from_utf8_lossy(&found).into_owned();
        Err(std::io::Error::new(ErrorKind::InvalidData, format!("unexpected reply {found:?}"))
            .into())
    }
}

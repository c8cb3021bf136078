//! Clients: request and response over many connections, and a one-way stream.
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use super::{Endpoint, Epoll, Latencies, Stream};

/// What a request-response client does.
#[derive(Clone, Debug)]
pub struct RequestResponse {
    /// The server.
    pub endpoint: Endpoint,
    /// Connections, each with one request under way at any time.
    pub connections: usize,
    /// Connections that make one request at the start and then stay idle.
    pub idle: usize,
    /// A request.
    pub request: Vec<u8>,
    /// The length of each reply.
    pub reply: usize,
    /// How long to go on.
    pub duration: Duration,
}

#[derive(Debug)]
struct Pending {
    stream: Stream,
    started: Instant,
    missing: usize,
}

/// Runs the client; the latencies of all exchanges and the time they took together.
pub fn request_response(load: &RequestResponse) -> io::Result<(Latencies, Duration)> {
    let mut buffer = vec![0; load.reply.max(1)];
    let _idle = open(load, load.idle, &mut buffer)?;
    let streams = open(load, load.connections, &mut buffer)?;
    match <[Stream; 1]>::try_from(streams) {
        Ok([stream]) => one_by_one(load, stream, &mut buffer),
        Err(streams) => many(load, streams, &mut buffer),
    }
}

/// Opens connections and makes one request on each.
fn open(load: &RequestResponse, count: usize, buffer: &mut [u8]) -> io::Result<Vec<Stream>> {
    (0..count)
        .map(|_| {
            let mut stream = Stream::connect(&load.endpoint)?;
            stream.write_all(&load.request)?;
            stream.read_exact(&mut buffer[..load.reply])?;
            Ok(stream)
        })
        .collect()
}

/// With blocking calls, as a program with one connection would.
fn one_by_one(
    load: &RequestResponse,
    mut stream: Stream,
    buffer: &mut [u8],
) -> io::Result<(Latencies, Duration)> {
    let mut latencies = Latencies::default();
    let begin = Instant::now();
    let mut started = begin;
    while started - begin < load.duration {
        stream.write_all(&load.request)?;
        stream.read_exact(&mut buffer[..load.reply])?;
        let now = Instant::now();
        latencies.add(now - started);
        started = now;
    }
    Ok((latencies, begin.elapsed()))
}

/// With epoll, in one thread.
fn many(
    load: &RequestResponse,
    streams: Vec<Stream>,
    buffer: &mut [u8],
) -> io::Result<(Latencies, Duration)> {
    let mut epoll = Epoll::new()?;
    let begin = Instant::now();
    let mut pending = Vec::with_capacity(streams.len());
    for (key, mut stream) in (0..).zip(streams) {
        stream.write_all(&load.request)?;
        stream.set_nonblocking()?;
        epoll.add(&stream, key)?;
        pending.push(Pending { stream, started: Instant::now(), missing: load.reply });
    }
    let mut latencies = Latencies::default();
    let mut last = begin;
    while begin.elapsed() < load.duration {
        let events = match epoll.wait(Some(Duration::from_secs(10))) {
            Ok(events) => events,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut progress = false;
        for event in events {
            progress = true;
            let Some(exchange) =
                usize::try_from(event.key).ok().and_then(|key| pending.get_mut(key))
            else {
                continue;
            };
            if advance(exchange, buffer)? {
                last = Instant::now();
                latencies.add(last - exchange.started);
                exchange.started = last;
                exchange.missing = load.reply;
                // One request is under way, and small: there is room for it.
                exchange.stream.write_all(&load.request)?;
            }
        }
        if !progress {
            return Err(io::Error::new(ErrorKind::TimedOut, "no reply for 10 s"));
        }
    }
    Ok((latencies, last - begin))
}

/// Reads what has come; true when the reply is whole.
fn advance(exchange: &mut Pending, buffer: &mut [u8]) -> io::Result<bool> {
    match exchange.stream.read(&mut buffer[..exchange.missing]) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            exchange.missing -= count;
            Ok(exchange.missing == 0)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends messages of `size` bytes, one blocking call each, for `duration`; messages in a second,
/// counted until the server has taken the last.
pub fn stream(endpoint: &Endpoint, size: usize, duration: Duration) -> io::Result<f64> {
    let mut stream = Stream::connect(endpoint)?;
    let message = vec![b'x'; size];
    // The clock is asked rarely, so that it does not slow small messages.
    let batch = (65_536 / size.max(1)).clamp(1, 512) as u64;
    let mut count: u64 = 0;
    let begin = Instant::now();
    while begin.elapsed() < duration {
        for _ in 0..batch {
            stream.write_all(&message)?;
        }
        count += batch;
    }
    stream.finish()?;
    let mut total = [0; 8];
    stream.read_exact(&mut total)?;
    let elapsed = begin.elapsed();
    if u64::from_be_bytes(total) != count * size as u64 {
        return Err(io::Error::new(ErrorKind::InvalidData, "bytes were lost or doubled"));
    }
    Ok(count as f64 / elapsed.as_secs_f64())
}

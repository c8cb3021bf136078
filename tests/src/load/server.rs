//! Servers: one that answers requests of a fixed size, and one that swallows a stream.
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};

use super::{Endpoint, Epoll, Listener, Stream};

const LISTENER: u64 = u64::MAX;

/// A client's connection and how far its exchange has come.
#[derive(Debug)]
struct Exchange {
    stream: Stream,
    /// Bytes of the current request that have arrived.
    received: usize,
    /// Bytes of replies that are still to be sent.
    owed: usize,
    /// Whether epoll watches for room to send.
    watched: bool,
}

/// Answers each `request` bytes by `reply` bytes, for any number of clients in one thread.
/// Returns only by an error, or by a signal's default action.
pub fn answer(endpoint: &Endpoint, request: usize, reply: usize) -> io::Result<()> {
    let listener = Listener::bind(endpoint)?;
    listener.set_nonblocking()?;
    let mut epoll = Epoll::new()?;
    epoll.add(&listener, LISTENER)?;
    let mut clients: HashMap<u64, Exchange> = HashMap::new();
    let mut next = 0;
    let mut buffer = vec![0; request.max(reply).max(65_536)];
    let mut ready = Vec::new();
    loop {
        ready.clear();
        match epoll.wait(None) {
            Ok(events) => ready.extend(events.map(|event| event.key)),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        for &key in &ready {
            if key == LISTENER {
                take_clients(&listener, &epoll, &mut clients, &mut next)?;
                continue;
            }
            let Some(client) = clients.get_mut(&key) else { continue };
            let alive = serve(client, &mut buffer, request, reply).unwrap_or(false);
            if !alive {
                clients.remove(&key);
            } else if client.watched != (client.owed > 0) {
                client.watched = client.owed > 0;
                epoll.watch_writable(&client.stream, key, client.watched)?;
            }
        }
    }
}

fn take_clients(
    listener: &Listener,
    epoll: &Epoll,
    clients: &mut HashMap<u64, Exchange>,
    next: &mut u64,
) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok(stream) => {
                stream.set_nonblocking()?;
                epoll.add(&stream, *next)?;
                clients.insert(*next, Exchange { stream, received: 0, owed: 0, watched: false });
                *next += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

/// One round of reading and replying; false when the client is done.
fn serve(
    client: &mut Exchange,
    buffer: &mut [u8],
    request: usize,
    reply: usize,
) -> io::Result<bool> {
    if client.owed == 0 {
        match client.stream.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => client.received += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
        client.owed = client.received / request * reply;
        client.received %= request;
    }
    while client.owed > 0 {
        let piece = client.owed.min(buffer.len());
        match client.stream.write(&buffer[..piece]) {
            Ok(count) => client.owed -= count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Swallows one client's stream after the other; at a stream's end tells the client how many
/// bytes arrived.
pub fn sink(endpoint: &Endpoint, size: usize) -> io::Result<()> {
    let listener = Listener::bind(endpoint)?;
    let mut buffer = vec![0; size];
    loop {
        let mut stream = listener.accept()?;
        let mut total: u64 = 0;
        let ended = loop {
            match stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(count) => total += count as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        if ended {
            stream.write_all(&total.to_be_bytes())?;
        }
    }
}

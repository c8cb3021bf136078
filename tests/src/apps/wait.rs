//! Waiting for things that other processes do, with an end to patience.
use std::time::{Duration, Instant};
use std::{fs, io, net, thread};

use super::{Failure, Result};

/// Asks `done` every few milliseconds until it says yes, or fails with `what` after `patience`.
pub fn until(what: &str, patience: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + patience;
    while !done()? {
        if Instant::now() > end {
            return Err(Failure::new(format!("{what}: not within {patience:?}")));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether something listens on TCP port `port` in the network namespace of process `pid`.
///
/// Reads the kernel's table: a connection made to find out would be one more client to a server
/// that serves only one.
pub fn listens(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    ["tcp", "tcp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().and_then(|address| address.rsplit(':').next());
            local.and_then(|hex| u16::from_str_radix(hex, 16).ok()) == Some(port)
                && fields.nth(1) == Some(LISTEN)
        })
    })
}

/// A TCP port on which nothing listens on this host.
pub fn free_port() -> io::Result<u16> {
    Ok(net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

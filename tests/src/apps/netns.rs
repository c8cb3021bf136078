//! A network namespace for one run.
//!
//! Its loopback device and its TCP settings are its own: no run inherits another's TIME_WAIT
//! sockets or metrics, and congestion control is cubic whatever the host's default is. A host
//! default of bbr paces even on loopback, halves TCP's bandwidth, and would flatter the ring.
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Failure, Result};

/// A namespace, removed when dropped.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one, with loopback up and congestion control cubic. Needs root.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("smc-{}-{number}", process::id());
        run(&["ip", "netns", "add", &name])?;
        let netns = Self { name };
        run(&["ip", "-n", &netns.name, "link", "set", "lo", "up"])?;
        netns.sysctl("net.ipv4.tcp_congestion_control=cubic")?;
        Ok(netns)
    }

    /// Its name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a kernel setting inside.
    pub fn sysctl(&self, setting: &str) -> Result<()> {
        run(&["ip", "netns", "exec", &self.name, "sysctl", "-qw", setting])
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = run(&["ip", "netns", "del", &self.name]);
    }
}

/// Whether this process may make namespaces.
pub fn possible() -> bool {
    Netns::new().is_ok()
}

fn run(line: &[&str]) -> Result<()> {
    let output = Command::new(line[0]).args(&line[1..]).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("{}: {}", line.join(" "), text.trim())))
}

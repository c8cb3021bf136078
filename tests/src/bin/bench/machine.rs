//! What the machine lets the benchmark do.
use std::fs;

use smc_tests::apps::netns::{self, Netns};
use smc_tests::apps::Result;

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Whether runs can have namespaces of their own.
#[derive(Debug)]
pub(crate) struct Machine {
    isolated: bool,
}

impl Machine {
    /// Finds out, and lets namespaces use cubic.
    pub(crate) fn prepare() -> Self {
        if let Ok(allowed) = fs::read_to_string(ALLOWED) {
            if !allowed.split_whitespace().any(|name| name == "cubic") {
                // Not fatal: without the right to, making a namespace fails too, and is reported.
                let _ = fs::write(ALLOWED, format!("{} cubic", allowed.trim()));
            }
        }
        Self { isolated: netns::possible() }
    }

    /// A namespace for one run, where possible.
    pub(crate) fn namespace(&self) -> Result<Option<Netns>> {
        self.isolated.then(Netns::new).transpose()
    }

    /// What makes the figures less comparable here.
    pub(crate) fn warning(&self) -> Option<String> {
        if self.isolated {
            return None;
        }
        let control = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        let control = control.unwrap_or_default();
        Some(format!(
            "no root, so no network namespaces: TCP runs on the host's own loopback with \
             congestion control {}; bbr paces even there and flatters the ring",
            control.trim()
        ))
    }
}

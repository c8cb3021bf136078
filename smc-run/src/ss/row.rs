//! One connection as `smc-ss` shows it.
use serde::{Serialize, Serializer};

/// A live connection of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Process that holds it.
    pub pid: u32,
    /// That process's name.
    pub comm: String,
    /// Descriptor there.
    pub fd: i32,
    /// State, in the words of ss(8).
    pub state: String,
    /// Local address and port.
    pub local: String,
    /// The peer's address and port.
    pub peer: String,
    /// What carries it.
    pub mode: Mode,
    /// Why it is plain TCP, or why the peer was dropped.
    #[serde(serialize_with = "hexadecimal")]
    pub reason: Option<u32>,
    /// The same in words.
    pub reason_text: Option<String>,
    /// Which end this is.
    pub role: Role,
    /// Bytes of the receive ring, when there is one.
    pub rcvbuf: Option<u32>,
    /// Bytes of the send ring, when there is one.
    pub sndbuf: Option<u32>,
    /// Bytes that the program received.
    pub rx_bytes: u64,
    /// Bytes that the program sent.
    pub tx_bytes: u64,
    /// Those received that came through shared memory or RDMA.
    pub smc_rx_bytes: u64,
    /// Those sent that went that way.
    pub smc_tx_bytes: u64,
}

/// What carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// Shared memory.
    Smcd,
    /// RDMA.
    Smcr,
    /// The kernel's TCP.
    Tcp,
}

impl Mode {
    /// Its name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smcd => "SMCD",
            Self::Smcr => "SMCR",
            Self::Tcp => "TCP",
        }
    }
}

/// Which end of a connection a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It connected.
    Client,
    /// It accepted.
    Server,
    /// Not known, of a connection that another program handed over.
    #[serde(rename = "-")]
    Unknown,
}

impl Role {
    /// Its name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Unknown => "-",
        }
    }
}

/// A reason code as the kernel's tools write it.
pub(super) fn code(reason: u32) -> String {
    format!("0x{reason:08x}")
}

fn hexadecimal<S: Serializer>(reason: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(code).serialize(serializer)
}

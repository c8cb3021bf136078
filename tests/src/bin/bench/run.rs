//! One run: one workload, once, over one transport.
use std::path::{Path, PathBuf};
use std::time::Duration;

use smc_tests::apps::{artefacts, wait, Launch, Proof, Result};

use crate::workload::{Placement, Transport};

/// Where a run happens; makes its servers and clients.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// How the ends talk.
    pub(crate) transport: Transport,
    /// How long to measure.
    pub(crate) seconds: f64,
    folder: &'a Path,
    netns: Option<&'a str>,
    placement: Placement,
    port: u16,
}

impl<'a> Run<'a> {
    /// A run in the namespace `netns`, with its files in `folder`.
    pub(crate) fn new(
        transport: Transport,
        placement: Placement,
        seconds: f64,
        folder: &'a Path,
        netns: Option<&'a str>,
    ) -> Result<Self> {
        // Alone in its namespace, any port is free.
        let port = if netns.is_some() { 7000 } else { wait::free_port()? };
        Ok(Self { transport, seconds, folder, netns, placement, port })
    }

    /// The port for the server.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A folder of this run's own.
    pub(crate) fn folder(&self) -> &Path {
        self.folder
    }

    /// The path for the server's Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The server's address as the load generators take it.
    pub(crate) fn address(&self) -> String {
        match self.transport {
            Transport::Unix => format!("unix:{}", self.socket().display()),
            _ => format!("127.0.0.1:{}", self.port),
        }
    }

    /// A time in which any program of this run has ended.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.seconds * 4.0 + 60.0)
    }

    /// A server, to be started.
    pub(crate) fn server(&self, program: &str) -> Launch {
        self.launch(program).cpus(self.placement.server()).accelerated(self.summary("server"))
    }

    /// A client, to be started.
    pub(crate) fn client(&self, program: &str) -> Launch {
        self.launch(program).cpus(self.placement.client()).accelerated(self.summary("client"))
    }

    /// A program that only helps, and is never accelerated.
    pub(crate) fn helper(&self, program: &str) -> Launch {
        self.launch(program)
    }

    /// The path of a program of this project's tests.
    pub(crate) fn own(&self, name: &str) -> Result<String> {
        Ok(artefacts::own(name)?.to_string_lossy().into_owned())
    }

    /// What the summaries of this run's processes prove.
    pub(crate) fn proof(&self) -> Result<Proof> {
        let read = |name| Proof::read(&self.folder.join(name));
        Ok(read("server.jsonl")?.and(read("client.jsonl")?))
    }

    fn launch(&self, program: &str) -> Launch {
        Launch::new(self.folder, program).netns(self.netns)
    }

    fn summary(&self, side: &str) -> Option<PathBuf> {
        (self.transport == Transport::Smc).then(|| self.folder.join(format!("{side}.jsonl")))
    }
}

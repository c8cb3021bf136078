//! A server and a client, and which of them runs under `smc-run`.
use std::path::{Path, PathBuf};
use std::time::Duration;

use smc_tests::apps::{artefacts, wait, Launch, Proof, Result, Scratch};

/// Which ends run under `smc-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Neither,
    Server,
    Client,
    Both,
}

/// What the statistics must show when both ends run under `smc-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The ring carried all but the connections' first moments.
    Ring,
    /// Some connection moved to the ring, having been told to attach at once.
    SomeRingAtOnce,
    /// The same by the client's statistics: the process that serves is killed, and leaves none.
    SomeRingByClient,
    /// The server is a chain of programs, whose connections to each other move to the ring whatever the
    /// client is.
    Chain,
    /// Nothing: correct results are all that is asked.
    Results,
}

/// What a connection may send through TCP before it moves to the ring, each way: its first two
/// requests and replies.
const FIRST_MOMENTS: u64 = 128 * 1024;
/// The part of the other bytes that the ring must carry.
const SHARE: f64 = 0.99;

/// One pairing of the two programs.
#[derive(Debug)]
pub(crate) struct Session {
    ends: Ends,
    expect: Expect,
    port: u16,
    scratch: Scratch,
}

impl Session {
    /// The port for the server.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A folder of the session's own.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The client has stored a file as `got-NUMBER`, whole and unchanged.
    pub(crate) fn assert_got(&self, number: usize, whole: &[u8]) {
        let got = std::fs::read(self.folder().join(format!("got-{number}"))).unwrap();
        assert!(got == whole, "got-{number} differs: {} of {} bytes", got.len(), whole.len());
    }

    /// A time in which any program of the session ends, even on a busy machine.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(90)
    }

    /// Whether the server runs under `smc-run`.
    pub(crate) fn accelerates_server(&self) -> bool {
        matches!(self.ends, Ends::Server | Ends::Both)
    }

    /// Whether the client does.
    pub(crate) fn accelerates_client(&self) -> bool {
        matches!(self.ends, Ends::Client | Ends::Both)
    }

    /// A server, to be started.
    pub(crate) fn server(&self, program: &str) -> Launch {
        let on = matches!(self.ends, Ends::Server | Ends::Both);
        self.launch(program, on.then(|| self.summary("server")))
    }

    /// A client, to be started.
    pub(crate) fn client(&self, program: &str) -> Launch {
        let on = matches!(self.ends, Ends::Client | Ends::Both);
        self.launch(program, on.then(|| self.summary("client")))
    }

    /// A program that only looks at the others.
    pub(crate) fn helper(&self, program: &str) -> Launch {
        self.launch(program, None)
    }

    fn launch(&self, program: &str, summary: Option<PathBuf>) -> Launch {
        let launch = Launch::new(self.folder(), program).accelerated(summary);
        match self.expect {
            Expect::SomeRingAtOnce | Expect::SomeRingByClient => {
                launch.env("SMC_ATTACH_AFTER", "0")
            }
            _ => launch,
        }
    }

    fn summary(&self, side: &str) -> PathBuf {
        self.folder().join(format!("{side}.jsonl"))
    }

    fn proof(&self, side: &str) -> Proof {
        Proof::read(&self.summary(side)).unwrap()
    }

    /// Checks the statistics of the ends against what is expected of them.
    fn judge(&self) {
        let client = self.proof("client");
        let server = self.proof("server");
        let all = client.and(server);
        match self.ends {
            Ends::Neither => assert_eq!(all.processes, 0, "a bare process left a summary"),
            Ends::Server | Ends::Client => {
                assert!(all.processes > 0, "{:?}: no summary was written", self.ends);
                if (self.ends, self.expect) == (Ends::Server, Expect::Chain) {
                    assert!(all.ring_bytes > 0, "no ring in the chain: {all:?}");
                    return;
                }
                assert_eq!(all.ring_bytes, 0, "{:?}: a ring with a bare peer", self.ends);
            }
            Ends::Both => {
                for (side, proof) in [("client", client), ("server", server)] {
                    assert!(proof.processes > 0, "{side}: no summary was written");
                    self.judge_side(side, proof);
                }
            }
        }
    }

    fn judge_side(&self, side: &str, proof: Proof) {
        match self.expect {
            Expect::Ring => {
                let first_moments = proof.connections * FIRST_MOMENTS * 2;
                let late = proof.tcp_bytes.saturating_sub(first_moments);
                let share = proof.ring_bytes as f64 / (proof.ring_bytes + late).max(1) as f64;
                assert!(share >= SHARE, "{side}: the ring carried {share:.4}: {proof:?}");
                // So that the first moments are not all there was.
                assert!(proof.share() >= 0.8, "{side}: too few ring bytes: {proof:?}");
            }
            Expect::SomeRingAtOnce | Expect::Chain => {
                assert!(proof.accelerated > 0, "{side}: nothing moved to a ring: {proof:?}");
            }
            Expect::SomeRingByClient => {
                assert!(side != "client" || proof.accelerated > 0, "no ring: {proof:?}");
            }
            Expect::Results => {}
        }
    }
}

/// Runs `exchange` in every pairing of its two programs, and judges the statistics of each.
/// `exchange` itself checks the results, and stops its server before it returns.
pub(crate) fn in_every_pairing(
    programs: &[&str],
    expect: Expect,
    exchange: impl Fn(&Session) -> Result<()>,
) {
    let missing: Vec<_> =
        programs.iter().filter(|program| !artefacts::installed(program)).collect();
    if !missing.is_empty() {
        let skip = std::env::var_os("SMC_TEST_SKIP_MISSING").is_some_and(|value| value == "1");
        assert!(skip, "not installed: {missing:?}; see scripts/setup.sh");
        eprintln!("skipped: not installed: {missing:?}");
        return;
    }
    for ends in [Ends::Neither, Ends::Server, Ends::Client, Ends::Both] {
        let port = wait::free_port().unwrap();
        let scratch = Scratch::new("apps").unwrap();
        let session = Session { ends, expect, port, scratch };
        if let Err(failure) = exchange(&session) {
            panic!("{ends:?} under smc-run: {failure}");
        }
        session.judge();
    }
}

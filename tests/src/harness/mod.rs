//! Running one case in every arrangement and comparing what it did.

mod artefacts;
mod run;
mod watchdog;

pub mod net;
pub mod payload;
pub mod process;
pub mod ready;
pub mod role;
pub mod stats;
pub mod talk;
pub mod threads;

pub use artefacts::{compile_c, find_library, preload_library, program, scratch, smc_run, Scratch};
pub use run::{End, Outcome};

use std::time::Duration;

/// Where the two ends of a case run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Neither end under `smc-run`: what every other arrangement is compared with.
    Bare,
    /// Both ends under `smc-run`, connections attach as soon as they can.
    Both,
    /// Both ends under `smc-run` with the settings a user gets.
    Default,
    /// Only the server under `smc-run`.
    ServerOnly,
    /// Only the client under `smc-run`.
    ClientOnly,
    /// Both under `smc-run`, the server switched off by `SMC_MODE=off`.
    ServerOff,
    /// Both under `smc-run`, the client switched off by `SMC_MODE=off`.
    ClientOff,
    /// Both under `smc-run`, both switched off by `SMC_MODE=off`.
    BothOff,
    /// Both under `smc-run`, whose hooks are all at work and decline every connection.
    Declined,
}

/// How one end is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    Bare,
    /// Under `smc-run`, attaching at once.
    Eager,
    /// Under `smc-run` with default settings.
    Default,
    /// Under `smc-run` with `SMC_MODE=off`.
    Off,
    /// Under `smc-run` with `SMC_MODE=rdma`, which nothing carries.
    Declining,
}

impl Arrangement {
    /// All but bare, in the order in which a pair runs them.
    pub const PAIR: [Self; 8] = [
        Self::Both,
        Self::Default,
        Self::ServerOnly,
        Self::ClientOnly,
        Self::ServerOff,
        Self::ClientOff,
        Self::BothOff,
        Self::Declined,
    ];
    /// All but bare that make sense for one program that is both ends.
    pub const SOLO: [Self; 4] = [Self::Both, Self::Default, Self::BothOff, Self::Declined];

    pub(crate) fn launch(self, end: End) -> Launch {
        use Arrangement as A;
        match (self, end) {
            (A::Bare, _) | (A::ServerOnly, End::Client) | (A::ClientOnly, End::Server) => {
                Launch::Bare
            }
            (A::Default, _) => Launch::Default,
            (A::Declined, _) => Launch::Declining,
            (A::BothOff, _) | (A::ServerOff, End::Server) | (A::ClientOff, End::Client) => {
                Launch::Off
            }
            _ => Launch::Eager,
        }
    }
}

/// Whether a case must be seen to move data through shared memory when both ends are accelerated.
#[derive(Clone, Copy, Debug)]
enum Proof {
    Required,
    /// Not expected.
    Waived,
    /// Required, and seen with one end alone as well: that end talks to itself, too.
    Itself,
    /// Required for at least so many connections, and with the settings a user gets as well.
    AsShipped(u64),
    /// Required of so many processes, each by its own line: of one that has become another image
    /// it is the last image's, and tells of that one alone.
    Images(usize),
    /// What the statistics of all processes together must tell, in words and as a question.
    Told(&'static str, fn(&stats::Summary) -> bool),
}

/// Whether another library is preloaded before or after ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The other library comes first in `LD_PRELOAD`.
    BeforeOurs,
    /// Ours comes first.
    AfterOurs,
}

/// One small program and how to run it.
///
/// ```no_run
/// # use smc_tests::harness::Case;
/// Case::pair("case-connect", "b1_epoll_before_connect").check();
/// ```
#[derive(Clone, Debug)]
pub struct Case {
    program: std::path::PathBuf,
    client: Option<std::path::PathBuf>,
    name: String,
    args: Vec<String>,
    pair: bool,
    wrap: Vec<String>,
    preload: Option<(Order, std::path::PathBuf)>,
    env: Vec<(String, String)>,
    only: Option<Vec<Arrangement>>,
    proof: Proof,
    timeout: Duration,
    status: String,
    transcript_file: bool,
    compare_stderr: bool,
}

impl Case {
    fn new(program: &str, name: &str, pair: bool) -> Self {
        let program = if program.contains('/') { program.into() } else { self::program(program) };
        Self {
            program,
            client: None,
            name: name.to_owned(),
            args: Vec::new(),
            pair,
            wrap: Vec::new(),
            preload: None,
            env: Vec::new(),
            only: None,
            proof: Proof::Required,
            timeout: Duration::from_secs(30),
            status: "exit 0".to_owned(),
            transcript_file: false,
            compare_stderr: true,
        }
    }

    /// A case of two processes, `program name server` and `program name client PORT`. The server
    /// tells its port with [`role::announce`].
    pub fn pair(program: &str, name: &str) -> Self {
        Self::new(program, name, true)
    }

    /// A case of one process that is both ends: `program name solo`.
    pub fn solo(program: &str, name: &str) -> Self {
        Self::new(program, name, false)
    }

    /// Another program for the client's end.
    pub fn client(mut self, program: &std::path::Path) -> Self {
        self.client = Some(program.to_owned());
        self
    }

    /// More arguments for the program, after the role and port.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// An environment variable for both ends, bare and accelerated.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Words in front of the program, as in `env -i PROGRAM`. `smc-run` stays in front of them.
    pub fn wrap<I: IntoIterator<Item = S>, S: Into<String>>(mut self, words: I) -> Self {
        self.wrap.extend(words.into_iter().map(Into::into));
        self
    }

    /// Another preload library beside ours.
    pub fn preload(mut self, order: Order, library: std::path::PathBuf) -> Self {
        self.preload = Some((order, library));
        self
    }

    /// Runs only in these arrangements (bare is always run).
    pub fn only(mut self, arrangements: &[Arrangement]) -> Self {
        self.only = Some(arrangements.to_vec());
        self
    }

    /// Does not ask for proof of acceleration; `reason` is for the reader of the test.
    pub fn not_accelerated(mut self, reason: &str) -> Self {
        assert!(!reason.is_empty(), "say why {} is not accelerated", self.name);
        self.proof = Proof::Waived;
        self
    }

    /// A program of a pair also has connections to itself, which are accelerated whatever the
    /// other end is.
    pub fn talks_to_itself(mut self) -> Self {
        self.proof = Proof::Itself;
        self
    }

    /// So many connections live so long that they are accelerated with the settings a user gets.
    pub fn accelerated_as_shipped(mut self, connections: u64) -> Self {
        self.proof = Proof::AsShipped(connections);
        self
    }

    /// Asks for proof, in both directions, from so many processes each.
    pub fn images(mut self, count: usize) -> Self {
        self.proof = Proof::Images(count);
        self
    }

    /// With both ends under `smc-run`, the sum of the statistics tells this.
    pub fn told(mut self, what: &'static str, is_so: fn(&stats::Summary) -> bool) -> Self {
        self.proof = Proof::Told(what, is_so);
        self
    }

    /// How long one run may take before it counts as hung (30 s if not told).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// The status each end must leave with, as in `exit 0` or `signal 9`.
    pub fn status(mut self, status: &str) -> Self {
        self.status = status.to_owned();
        self
    }

    /// The program has no usable stdout; its transcript is taken from a file (`say!`).
    pub fn transcript_file(mut self) -> Self {
        self.transcript_file = true;
        self
    }

    /// What the program says on stderr differs between runs even bare.
    pub fn ignore_stderr(mut self) -> Self {
        self.compare_stderr = false;
        self
    }

    /// Runs the case bare and in every arrangement; panics with both transcripts where they
    /// differ. For the developer: `SMC_TEST_ONLY=Both` runs one arrangement, `SMC_TEST_BARE_ONLY=1`
    /// none but bare, and `SMC_TEST_REPEAT=20` each of them that many times.
    pub fn check(&self) {
        let bare = self.run(Arrangement::Bare);
        for (end, outcome) in &bare.ends {
            assert_eq!(
                outcome.status, self.status,
                "{}: bare {end:?} ended badly\n{bare}",
                self.name
            );
            assert!(
                !self.status.starts_with("exit") || !outcome.transcript.is_empty(),
                "{}: bare {end:?} said nothing",
                self.name
            );
        }
        let mut faults = Vec::new();
        for arrangement in self.arrangements() {
            let case = self.clone();
            let bare = bare.clone();
            // Every arrangement is tried, so that one report shows which of them fail.
            let tried = std::panic::catch_unwind(move || {
                let got = case.run(arrangement);
                case.compare(arrangement, &bare, &got);
                case.prove(arrangement, &got);
            });
            if let Err(payload) = tried {
                let text = payload.downcast_ref::<String>().cloned();
                faults.push(text.unwrap_or_else(|| format!("{arrangement:?}: panic")));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    }

    /// What to run after the first bare run.
    fn arrangements(&self) -> Vec<Arrangement> {
        let setting = |name| std::env::var(name).ok();
        let repeat = setting("SMC_TEST_REPEAT").and_then(|n| n.parse().ok()).unwrap_or(1);
        let all: &[Arrangement] = if self.pair { &Arrangement::PAIR } else { &Arrangement::SOLO };
        let all = self.only.as_deref().unwrap_or(all);
        let chosen: Vec<Arrangement> = match setting("SMC_TEST_ONLY") {
            _ if setting("SMC_TEST_BARE_ONLY").is_some() => vec![Arrangement::Bare],
            Some(name) => all.iter().copied().filter(|a| format!("{a:?}") == name).collect(),
            None => all.to_vec(),
        };
        chosen.repeat(repeat)
    }

    fn compare(&self, arrangement: Arrangement, bare: &run::Report, got: &run::Report) {
        for ((end, want), (_, have)) in bare.ends.iter().zip(&got.ends) {
            let same = want.status == have.status
                && want.transcript == have.transcript
                && (!self.compare_stderr || want.stderr == have.stderr);
            assert!(
                same,
                "{} {arrangement:?}: {end:?} differs: {}\n--- bare\n{bare}--- {arrangement:?}\n{got}",
                self.name,
                run::first_difference(want, have),
            );
        }
    }

    fn prove(&self, arrangement: Arrangement, got: &run::Report) {
        use Arrangement as A;
        let sum = stats::total(&got.summaries);
        let enough = match self.proof {
            // Each end counts its own.
            Proof::AsShipped(connections) => 2 * connections,
            _ => 1,
        };
        let accelerated = sum.smcd >= enough && sum.smc.tx_bytes + sum.smc.rx_bytes > 0;
        let expected = match (arrangement, self.proof) {
            (A::Both, Proof::Required | Proof::Itself | Proof::AsShipped(_)) => true,
            (A::Default, Proof::AsShipped(_)) => true,
            (A::Both, Proof::Images(count)) => {
                let moved = |one: &&stats::Summary| {
                    one.smcd >= 1 && one.smc.tx_bytes > 0 && one.smc.rx_bytes > 0
                };
                let seen = got.summaries.iter().filter(moved).count();
                assert!(seen >= count, "{}: {seen} images: {:#?}", self.name, got.summaries);
                true
            }
            (A::Both, Proof::Told(what, is_so)) => {
                assert!(is_so(&sum), "{}: not {what}: {sum:#?}", self.name);
                return;
            }
            (A::Bare | A::Default, _) | (A::Both, Proof::Waived) => return,
            (A::ServerOnly | A::ClientOnly | A::ServerOff | A::ClientOff, Proof::Itself) => return,
            _ => false,
        };
        assert_eq!(
            accelerated, expected,
            "{} {arrangement:?}: accelerated by the statistics: {sum:?}",
            self.name
        );
    }
}

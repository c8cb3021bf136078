//! One run of a case in one arrangement.

use super::{artefacts, stats, watchdog, Arrangement, Case, Launch, Order};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Which of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process that listens.
    Server,
    /// The process that connects.
    Client,
    /// The only process.
    Solo,
}

/// What one end did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `exit N` or `signal N`.
    pub status: String,
    /// The lines it said, without notes to the harness.
    pub transcript: Vec<String>,
    /// What it wrote to stderr.
    pub stderr: String,
}

/// What all of a run did.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) ends: Vec<(End, Outcome)>,
    pub(crate) summaries: Vec<stats::Summary>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (end, outcome) in &self.ends {
            writeln!(f, "{end:?}: {}", outcome.status)?;
            for line in &outcome.transcript {
                writeln!(f, "  | {line}")?;
            }
            for line in outcome.stderr.lines() {
                writeln!(f, "  ! {line}")?;
            }
        }
        Ok(())
    }
}

/// The first thing in which two outcomes differ.
pub(crate) fn first_difference(want: &Outcome, have: &Outcome) -> String {
    if let Some((a, b)) = want.transcript.iter().zip(&have.transcript).find(|(a, b)| a != b) {
        return format!("expected `{a}`, got `{b}`");
    }
    let (n, m) = (want.transcript.len(), have.transcript.len());
    if n != m {
        let extra = want.transcript.get(m).or(have.transcript.get(n));
        return format!("expected {n} lines, got {m} (first odd one: {extra:?})");
    }
    if want.status != have.status {
        return format!("expected {}, got {}", want.status, have.status);
    }
    format!("expected stderr {:?}, got {:?}", want.stderr, have.stderr)
}

/// One started process and the threads that drain its output.
struct Process {
    end: End,
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
    said: Vec<String>,
    stderr: String,
    status: Option<ExitStatus>,
}

/// Sends each line of `from` as it comes; the channel closes at end of file.
fn drain(from: impl Read + Send + 'static) -> Receiver<String> {
    let (tx, rx) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            if tx.send(text).is_err() {
                break;
            }
            line.clear();
        }
    });
    rx
}

impl Process {
    /// Takes what has come; true when the process and everyone who holds its output is gone.
    fn step(&mut self) -> bool {
        let mut open = false;
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.said.push(line),
                Err(e) => {
                    open |= e == TryRecvError::Empty;
                    break;
                }
            }
        }
        loop {
            match self.errors.try_recv() {
                Ok(line) => self.stderr.push_str(&format!("{line}\n")),
                Err(e) => {
                    open |= e == TryRecvError::Empty;
                    break;
                }
            }
        }
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or(None);
        }
        !open && self.status.is_some()
    }

    /// Ended, but not as the case should.
    fn failed(&self, expected: &str) -> bool {
        self.status.is_some_and(|status| describe(status) != expected)
    }

    /// Waits for the port that a server announces.
    fn port(&mut self, deadline: Instant) -> Result<u16, String> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|e| format!("no port: {e}"))?;
            if let Some(port) = line.strip_prefix("@port ") {
                return port.trim().parse().map_err(|_| format!("bad port {port}"));
            }
            self.said.push(line);
        }
    }

    /// Takes what has come so far, for a report of a run that hung.
    fn outcome(&mut self, transcript: Option<&Path>) -> Outcome {
        self.said.extend(self.lines.try_iter());
        for line in self.errors.try_iter() {
            self.stderr.push_str(&format!("{line}\n"));
        }
        if let Some(path) = transcript {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            self.said.extend(text.lines().map(str::to_owned));
        }
        let status = self.status.map_or_else(|| "still running".to_owned(), describe);
        Outcome {
            status,
            transcript: self.said.iter().filter(|l| !l.starts_with('@')).cloned().collect(),
            stderr: self.stderr.clone(),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    let signal = || format!("signal {}", status.signal().unwrap_or(0));
    status.code().map_or_else(signal, |code| format!("exit {code}"))
}

/// Steps all of them until they are gone or time is up. When one has failed, the others get only
/// a few seconds more: they may wait for it for ever.
fn finish(all: &mut [Process], mut deadline: Instant, expected: &str) -> Result<(), String> {
    let mut hurried = false;
    loop {
        // Not `all`: every one of them must be drained each time.
        let left = all.iter_mut().filter_map(|p| (!p.step()).then_some(p.end)).collect::<Vec<_>>();
        if left.is_empty() {
            return Ok(());
        }
        if !hurried && all.iter().any(|p| p.failed(expected)) {
            hurried = true;
            deadline = deadline.min(Instant::now() + Duration::from_secs(3));
        }
        if Instant::now() >= deadline {
            return Err(format!("does not end: {left:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn preload_words(case: &Case, launch: Launch) -> Vec<String> {
    let Some((order, library)) = &case.preload else { return Vec::new() };
    let other = library.display().to_string();
    let list = match (launch, order) {
        (Launch::Bare, _) => other,
        (_, Order::BeforeOurs) => format!("{other}:{}", artefacts::preload_library().display()),
        (_, Order::AfterOurs) => format!("{}:{other}", artefacts::preload_library().display()),
    };
    vec!["/usr/bin/env".to_owned(), format!("LD_PRELOAD={list}")]
}

/// Everything one run needs to start its processes.
struct Stage<'a> {
    case: &'a Case,
    mark: String,
    scratch: artefacts::Scratch,
}

impl Stage<'_> {
    fn file(&self, end: End, what: &str) -> PathBuf {
        self.scratch.path().join(format!("{end:?}.{what}"))
    }

    fn start(&self, arrangement: Arrangement, end: End, port: Option<u16>) -> Process {
        let case = self.case;
        let launch = arrangement.launch(end);
        let mut words: Vec<String> = Vec::new();
        if launch != Launch::Bare {
            words.extend([artefacts::smc_run().display().to_string(), "--".to_owned()]);
        }
        words.extend(case.wrap.iter().cloned());
        words.extend(preload_words(case, launch));
        let program = match (&case.client, end) {
            (Some(client), End::Client) => client,
            _ => &case.program,
        };
        words.extend([program.display().to_string(), case.name.clone()]);
        words.push(format!("{end:?}").to_lowercase());
        words.extend(port.map(|p| p.to_string()));
        words.extend(case.args.iter().cloned());

        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let ours = std::env::vars_os().filter(|(k, _)| {
            let k = k.to_string_lossy();
            k.starts_with("SMC_") || k == "LD_PRELOAD"
        });
        for (key, _) in ours {
            command.env_remove(key);
        }
        command.env(watchdog::MARK, &self.mark).env("RUST_BACKTRACE", "0");
        if case.transcript_file {
            command.env("SMC_TEST_TRANSCRIPT", self.file(end, "transcript"));
        }
        command.envs(case.env.iter().map(|(k, v)| (k, v)));
        if launch != Launch::Bare {
            command.env("SMC_SUMMARY", artefacts::for_everybody(self.file(end, "summary")));
        }
        match launch {
            Launch::Eager => command.env("SMC_ATTACH_AFTER", "0"),
            Launch::Off => command.env("SMC_MODE", "off"),
            Launch::Declining => command.env("SMC_MODE", "rdma"),
            Launch::Bare | Launch::Default => &mut command,
        };
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{}: cannot start {words:?}: {e}", case.name));
        Process {
            end,
            lines: drain(child.stdout.take().unwrap()),
            errors: drain(child.stderr.take().unwrap()),
            child,
            said: Vec::new(),
            stderr: String::new(),
            status: None,
        }
    }

    fn play(&self, arrangement: Arrangement, started: &mut Vec<Process>) -> Result<(), String> {
        let deadline = Instant::now() + self.case.timeout;
        if self.case.pair {
            started.push(self.start(arrangement, End::Server, None));
            let port = started[0].port(deadline)?;
            started.push(self.start(arrangement, End::Client, Some(port)));
        } else {
            started.push(self.start(arrangement, End::Solo, None));
        }
        finish(started, deadline, &self.case.status)
    }
}

impl Case {
    /// Runs the case once; a run that does not end in time is killed and panics with a report.
    pub(crate) fn run(&self, arrangement: Arrangement) -> Report {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let stage = Stage { case: self, mark, scratch: artefacts::scratch() };
        let mut started = Vec::new();
        let ended = stage.play(arrangement, &mut started);

        let groups: Vec<i32> =
            started.iter().filter_map(|p| i32::try_from(p.child.id()).ok()).collect();
        let left = watchdog::members(&stage.mark, &groups);
        let stuck = watchdog::describe(&left);
        watchdog::kill(&left);
        let mut report = Report { ends: Vec::new(), summaries: Vec::new() };
        if ended.is_err() {
            // The last words: everything is dead, so this cannot take long.
            let _ = finish(&mut started, Instant::now() + Duration::from_secs(2), &self.status);
        }
        for process in &mut started {
            let file = stage.file(process.end, "transcript");
            let outcome = process.outcome(self.transcript_file.then_some(&file));
            report.ends.push((process.end, outcome));
            report.summaries.extend(stats::read(&stage.file(process.end, "summary")));
        }
        if let Err(why) = ended {
            panic!("{} {arrangement:?}: {why}\n{report}{stuck}", self.name);
        }
        assert!(left.is_empty(), "{} {arrangement:?}: left running:\n{stuck}{report}", self.name);
        report
    }
}

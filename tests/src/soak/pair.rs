//! One pair of processes, from start to end.

use super::crew::Name;
use super::state::{Mapped, Tally, VARIABLE};
use super::stuck;
use crate::harness::{program, scratch, smc_run, stats};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A pair that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// One of which an end was killed.
const LIMIT_OF_REST: Duration = Duration::from_secs(20);
/// Helpers of one that was killed hold its other connections: bare as well the rest may wait for each
/// other without end. So they follow it.
const HELPERS_LIVE: Duration = Duration::from_secs(3);
/// The other end is given a moment to say what it saw.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a pair came to.
#[derive(Debug)]
pub struct Done {
    /// Faults in words; empty if there were none.
    pub fault: String,
    /// The lines that they left.
    pub summaries: Vec<stats::Summary>,
    /// What they did.
    pub tally: Tally,
    /// An end was killed.
    pub killed: bool,
}

fn state_of(place: &Path, client: bool) -> PathBuf {
    place.join(if client { "client" } else { "server" })
}

fn start(name: Name, client: bool, port: Option<&str>, place: &Path, bare: bool) -> Child {
    let own = program("smc-soak");
    let plan = name.batch();
    let mut command = if bare { Command::new(&own) } else { Command::new(smc_run()) };
    if !bare {
        let at = usize::from(!client);
        command.arg("--").arg(&own).env("SMC_ATTACH_AFTER", "0");
        command.env("SMC_SUMMARY", place.join("summary"));
        command.env("SMC_RCVBUF", plan.rings[at][0].to_string());
        command.env("SMC_SNDBUF", plan.rings[at][1].to_string());
        if let Some(spin) = plan.spin[at] {
            command.env("SMC_SPIN_US", spin.to_string());
        }
    }
    command.arg(if client { "client" } else { "server" }).args(name.words()).args(port);
    command.env(VARIABLE, state_of(place, client));
    // Its helpers are of the group.
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn kill_group(group: u32) {
    // SAFETY: no pointers; a group that this process has made.
    unsafe { libc::kill(-i32::try_from(group).unwrap(), libc::SIGKILL) };
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Who hangs, and where. Looked at before any is killed: the end of one is news for the others.
fn report(name: Name, place: &Path, ends: &[(&str, Child); 2], killed: bool) -> String {
    let mut fault = String::new();
    let totals: Vec<[u64; 2]> = name.batch().plans.iter().map(|plan| plan.total).collect();
    for (who, child) in ends {
        for pid in stuck::members(child.id()) {
            let waits = stuck::waits(pid);
            // One whose peer was killed before it had connected is waited for for ever.
            if !(killed && waits.contains("inet_csk_accept")) {
                fault +=
                    &format!("  {who}, process {pid}, hangs:\n{waits}\n{}", stuck::stacks(pid));
            }
        }
        let client = *who == "client";
        let turned = totals.iter().map(|[a, b]| if client { [*a, *b] } else { [*b, *a] });
        let state = Mapped::open(&state_of(place, client));
        if !fault.is_empty() {
            fault += &stuck::unfinished(who, &state, &turned.collect::<Vec<_>>());
        }
    }
    fault
}

/// The time of a pair. A machine that stands still for a while, or is so busy that this thread hardly
/// gets a turn, is no fault of the pair's: of each step only so much counts.
struct Clock {
    last: Instant,
    passed: Duration,
}

impl Clock {
    const STEP: Duration = Duration::from_millis(20);

    fn new() -> Self {
        Self { last: Instant::now(), passed: Duration::ZERO }
    }

    fn tick(&mut self) {
        self.passed += self.last.elapsed().min(Self::STEP);
        self.last = Instant::now();
    }

    fn elapsed(&self) -> Duration {
        self.passed
    }
}

/// Runs one pair; `kills`: an end of every third is killed.
pub fn run(name: Name, bare: bool, kills: bool) -> Done {
    let place = scratch();
    let place = place.path();
    let mut server = start(name, false, None, place, bare);
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("@port ").unwrap_or("0").to_owned();
    let mut client = start(name, true, Some(&port), place, bare);
    let mut texts = Vec::new();
    for child in [&mut server, &mut client] {
        texts.push(collect(child.stderr.take().unwrap()));
    }
    let mut began = Clock::new();
    let mut fault = String::new();
    // After that time, in milliseconds, one of the two is killed; with its helpers, or alone.
    let dies = (kills && name.seed.is_multiple_of(3))
        .then_some(Duration::from_millis(name.seed / 3 % 150));
    let (mut killed, mut followed) = (false, false);
    let mut ends = [("server", server), ("client", client)];
    let groups = ends.each_ref().map(|(_, child)| child.id());
    loop {
        let left = ends.each_mut().map(|(_, child)| child.try_wait().unwrap());
        let victim = usize::from(name.seed & 8 != 0);
        if killed && !followed && began.elapsed() >= HELPERS_LIVE {
            followed = true;
            kill_group(groups[victim]);
        }
        if dies.is_some_and(|after| !killed && began.elapsed() >= after) {
            killed = true;
            if name.seed & 32 != 0 {
                kill_group(groups[victim]);
            } else {
                let _ = ends[victim].1.kill();
            }
        }
        let all_left = left.iter().all(Option::is_some);
        // With one of them killed, the other may see anything but wrong bytes, and must end.
        let failed = !killed && left.iter().flatten().any(|status| !status.success());
        if failed && fault.is_empty() {
            fault += &format!("  ends: {left:?}\n");
        }
        // A helper may live on a little.
        let helpers = all_left && groups.iter().any(|group| !stuck::members(*group).is_empty());
        if all_left && !helpers {
            break;
        }
        let limit = match (failed, killed) {
            (true, _) => LAST_WORDS,
            (false, true) => LIMIT_OF_REST,
            (false, false) => LIMIT,
        };
        if began.elapsed() > limit {
            fault += &report(name, place, &ends, killed);
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
        began.tick();
    }
    groups.into_iter().for_each(kill_group);
    for (_, child) in &mut ends {
        child.wait().unwrap();
    }
    for (text, (who, _)) in texts.into_iter().zip(&ends) {
        let text = text.join().unwrap();
        let wrong = ["lost", "again", "strange"].iter().any(|word| text.contains(word));
        if !fault.is_empty() || (killed && wrong) {
            text.lines().for_each(|line| fault += &format!("  {who}: {line}\n"));
        }
    }
    let mut tally = Tally::default();
    for client in [true, false] {
        tally.add(&Mapped::open(&state_of(place, client)));
    }
    Done { fault, summaries: stats::read(&place.join("summary")), tally, killed }
}

//! Who starts the pairs of processes, and judges them.

use super::plan::{batch, Batch};
use super::stream::{Progress, Work};
use crate::harness::net::{accept, close, dial, serve, warm_client, warm_server, Fd};
use crate::harness::role::announce;
use crate::harness::{program, scratch, smc_run, stats};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A pair that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Connections between two processes that are not replaced.
pub const CONNS: usize = 8;

/// Names a batch on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// What all choices come from.
    pub seed: u64,
    /// One connection, whose ends may be replaced by exec.
    pub alone: bool,
}

impl Name {
    fn batch(self) -> Batch {
        batch(self.seed, self.alone, CONNS)
    }
    fn words(self) -> [String; 2] {
        [self.seed.to_string(), u8::from(self.alone).to_string()]
    }
}

/// Replaces this process by another that goes on with the stream.
fn replace(name: Name, index: usize, work: &Work<'_>) {
    let own = work.plan.ends[usize::from(!work.client)];
    let mut next = Command::new(std::env::current_exe().unwrap());
    let at = |counter: &AtomicU64| counter.load(Ordering::Acquire).to_string();
    next.arg("resume").args(name.words()).arg(index.to_string());
    next.arg(u8::from(work.client).to_string());
    next.arg(work.fd.load(Ordering::Acquire).to_string());
    next.args([at(&work.progress.sent), at(&work.progress.got)]);
    if own.cause == super::plan::Cause::ExecBare {
        next.env_remove("LD_PRELOAD");
    }
    panic!("exec: {}", next.exec());
}

fn work(name: Name, index: usize, client: bool, fd: Fd, progress: &Progress) {
    let plan = name.batch().plans[index];
    let standard = i32::try_from(index).unwrap();
    let (fd, old) = (AtomicI32::new(fd), AtomicI32::new(-1));
    let work = Work { plan, client, fd, old, progress, standard };
    work.run(&|work| replace(name, index, work));
}

/// One end of a batch: a thread for each connection.
fn end(name: Name, client: bool, port: u16) -> bool {
    let (listener, port) = if client { (-1, port) } else { serve() };
    if !client {
        announce(port);
    }
    // One after the other, so that both ends number them alike.
    let fds: Vec<Fd> = name
        .batch()
        .plans
        .iter()
        .map(|_| {
            let fd = if client { dial(port) } else { accept(listener).unwrap() };
            if client {
                warm_client(fd);
            } else {
                warm_server(fd);
            }
            fd
        })
        .collect();
    if !client {
        close(listener).unwrap();
    }
    if let [fd] = fds[..] {
        work(name, 0, client, fd, &Progress::default());
        return true;
    }
    let threads: Vec<_> = fds
        .into_iter()
        .enumerate()
        .map(|(index, fd)| {
            std::thread::spawn(move || work(name, index, client, fd, &Progress::default()))
        })
        .collect();
    // The other threads may wait for ever for what one failed to do: the first fault ends all.
    threads.into_iter().all(|thread| thread.join().is_ok())
}

/// The roles that the crew starts: `end` and `resume`.
pub fn play(words: &[String]) -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        // SAFETY: no pointers.
        unsafe { libc::_exit(3) };
    }));
    let number = |at: usize| -> u64 { words[at].parse().unwrap() };
    let name = Name { seed: number(1), alone: number(2) != 0 };
    let done = match words[0].as_str() {
        "server" => end(name, false, 0),
        "client" => end(name, true, u16::try_from(number(3)).unwrap()),
        "resume" => {
            let progress = Progress::default();
            progress.sent.store(number(6), Ordering::Release);
            progress.got.store(number(7), Ordering::Release);
            progress.left.store(1, Ordering::Release);
            let fd = Fd::try_from(number(5)).unwrap();
            work(name, usize::try_from(number(3)).unwrap(), number(4) != 0, fd, &progress);
            true
        }
        other => panic!("no such role: {other}"),
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What a pair of processes came to.
#[derive(Debug)]
pub struct Done {
    /// Faults in words; empty if there were none.
    pub fault: String,
    /// The lines that they left.
    pub summaries: Vec<stats::Summary>,
}

fn start(name: Name, client: bool, port: Option<&str>, summary: &Path, bare: bool) -> Child {
    let own = program("smc-soak");
    let plan = name.batch();
    let mut command = if bare { Command::new(&own) } else { Command::new(smc_run()) };
    if !bare {
        let at = usize::from(!client);
        command.arg("--").arg(&own).env("SMC_ATTACH_AFTER", "0").env("SMC_SUMMARY", summary);
        command.env("SMC_RCVBUF", plan.rings[at][0].to_string());
        command.env("SMC_SNDBUF", plan.rings[at][1].to_string());
        if let Some(spin) = plan.spin[at] {
            command.env("SMC_SPIN_US", spin.to_string());
        }
    }
    command.arg(if client { "client" } else { "server" }).args(name.words()).args(port);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Where a process that hangs stands.
fn stuck(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let each = tasks.map(|task| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        format!("    {} {}", read("wchan"), read("syscall").trim())
    });
    each.collect::<Vec<_>>().join("\n")
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Runs one pair.
pub fn run(name: Name, bare: bool, kills: bool) -> Done {
    let place = scratch();
    let summary = place.path().join("summary");
    let mut server = start(name, false, None, &summary, bare);
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("@port ").unwrap_or("0").to_owned();
    let mut client = start(name, true, Some(&port), &summary, bare);
    let mut texts = Vec::new();
    for child in [&mut server, &mut client] {
        texts.push(collect(child.stderr.take().unwrap()));
    }
    let began = Instant::now();
    let mut fault = String::new();
    // After that time, in milliseconds, one of the two is killed.
    let dies = (kills && name.seed.is_multiple_of(3))
        .then_some(Duration::from_millis(name.seed / 3 % 150));
    let mut killed = false;
    let mut ends = [("server", server), ("client", client)];
    loop {
        let left = ends.each_mut().map(|(_, child)| child.try_wait().unwrap());
        if let Some(after) = dies.filter(|after| !killed && began.elapsed() >= *after) {
            killed = true;
            let _ = ends[usize::from(name.seed & 8 != 0)].1.kill();
            let _ = after;
        }
        // With one of them killed, the other may see anything but wrong bytes, and must end.
        let failed = !killed && left.iter().flatten().any(|status| !status.success());
        if left.iter().all(Option::is_some) && !failed {
            break;
        }
        // The other end is given a moment to say what it saw.
        let limit = match (failed, killed) {
            (true, _) => Duration::from_secs(2),
            (false, true) => Duration::from_secs(15),
            (false, false) => LIMIT,
        };
        if failed && fault.is_empty() {
            fault += &format!("  ends: {left:?}\n");
        }
        if left.iter().all(Option::is_some) {
            break;
        }
        if began.elapsed() > limit {
            // Looked at before either is killed: the end of one is news for the other.
            for ((who, child), left) in ends.iter().zip(&left) {
                // One that was killed before it had connected is waited for for ever.
                let waits = killed && stuck(child.id()).contains("inet_csk_accept");
                if left.is_none() && !waits {
                    fault += &format!("  {who} hangs:\n{}\n", stuck(child.id()));
                }
            }
            for ((_, child), _) in ends.iter_mut().zip(left).filter(|(_, left)| left.is_none()) {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for (text, (who, _)) in texts.into_iter().zip(&ends) {
        let text = text.join().unwrap();
        let wrong = ["lost", "again", "strange"].iter().any(|word| text.contains(word));
        if !fault.is_empty() || (killed && wrong) {
            text.lines().for_each(|line| fault += &format!("  {who}: {line}\n"));
        }
    }
    Done { fault, summaries: stats::read(&summary) }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Connections that are to have left shared memory, by the statistics.
    pub count: u64,
    /// The first seed.
    pub seed: u64,
    /// Pairs at a time.
    pub pairs: u64,
    /// Without `smc-run`, to try the soak itself.
    pub bare: bool,
    /// Kill an end of every third pair.
    pub kills: bool,
    /// Go on until then, whatever the count.
    pub until: Option<Instant>,
    /// Only this batch.
    pub only: Option<Name>,
}

/// What all pairs did.
#[derive(Debug, Default)]
struct Total {
    pairs: u64,
    /// Connections that left the ring in mid-stream, by the statistics.
    left: u64,
    sum: stats::Summary,
}

impl Total {
    fn add(&mut self, name: Name, summaries: Vec<stats::Summary>) {
        self.pairs += 1;
        let back = stats::total(&summaries).back;
        // What a process that was replaced has counted is gone with it; its peer tells.
        self.left += back.own + if name.alone { back.peer } else { 0 };
        let mut all = summaries;
        all.push(std::mem::take(&mut self.sum));
        self.sum = stats::total(&all);
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stats::Summary { smcd, smc, tcp_bytes, .. } = &self.sum;
        write!(
            f,
            "{} pairs of processes, {smcd} ends of connections in shared memory, {} left it in \
             mid-stream; {} MB through rings, {} MB over TCP",
            self.pairs,
            self.left,
            smc.rx_bytes >> 20,
            tcp_bytes.rx >> 20
        )
    }
}

/// Runs pairs until as many connections as ordered have left; the faults.
pub fn demote(order: Order) -> Vec<String> {
    let next = Arc::new(AtomicU64::new(order.seed));
    let (stop, faults) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let total = Arc::new(Mutex::new(Total::default()));
    let began = Instant::now();
    let threads: Vec<_> = (0..order.pairs)
        .map(|_| {
            let (next, stop) = (next.clone(), stop.clone());
            let (faults, total) = (faults.clone(), total.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let seed = next.fetch_add(1, Ordering::AcqRel);
                    let name = order.only.unwrap_or(Name { seed, alone: seed % 4 != 0 });
                    let done = run(name, order.bare, order.kills);
                    if !done.fault.is_empty() {
                        let mut faults = faults.lock().unwrap();
                        faults.push(format!("{name:?}:\n{}", done.fault));
                        if faults.len() > 4 {
                            stop.store(true, Ordering::Release);
                        }
                    }
                    let mut total = total.lock().unwrap();
                    total.add(name, done.summaries);
                    let left = if order.bare { total.pairs } else { total.left };
                    let over = match order.until {
                        Some(until) => Instant::now() >= until,
                        None => left >= order.count,
                    };
                    if over || order.only.is_some() {
                        stop.store(true, Ordering::Release);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{} in {:.1} s", total.lock().unwrap(), began.elapsed().as_secs_f64());
    let faults = faults.lock().unwrap();
    faults.clone()
}

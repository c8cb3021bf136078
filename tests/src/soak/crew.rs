//! Who runs pairs of processes, several at a time, and adds up what they came to.

use super::pair::{self, Done};
use super::plan::{batch, Batch, Shape};
use super::state::Tally;
use crate::harness::stats;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// So many faults are enough.
const FAULTS: usize = 4;

/// Names a batch on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// What all choices come from.
    pub seed: u64,
    /// With all kinds of use, else with the causes alone.
    pub wild: bool,
}

impl Name {
    /// What it does.
    pub fn batch(self) -> Batch {
        batch(self.seed, self.wild)
    }
    /// For another process.
    pub fn words(self) -> [String; 2] {
        [self.seed.to_string(), u8::from(self.wild).to_string()]
    }
}

/// When it is enough.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// So many connections have left shared memory, by the statistics.
    Left(u64),
    /// So many pairs have run.
    Pairs(u64),
    /// The time has come.
    Time(Instant),
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// When it is enough.
    pub until: Until,
    /// The first seed, or the only one.
    pub seed: u64,
    /// With all kinds of use.
    pub wild: bool,
    /// Also with 32 threads in each process.
    pub wide: bool,
    /// Pairs at a time.
    pub pairs: u64,
    /// Without `smc-run`, to try the soak itself.
    pub bare: bool,
    /// Kill an end of every third pair.
    pub kills: bool,
    /// The same seed each time.
    pub same: bool,
}

/// What all pairs did.
#[derive(Debug, Default)]
pub struct Total {
    /// Pairs of processes.
    pub pairs: u64,
    killed: u64,
    /// Connections that left the ring in mid-stream, by the statistics.
    pub left: u64,
    /// The sum of the statistics.
    pub sum: stats::Summary,
    /// How often each kind of use came.
    pub tally: Tally,
}

impl Total {
    fn add(&mut self, name: Name, done: Done) {
        self.pairs += 1;
        self.killed += u64::from(done.killed);
        self.tally.merge(&done.tally);
        let back = stats::total(&done.summaries).back;
        // What a process that was replaced has counted is gone with it; its peer tells.
        let alone = name.batch().shape == Shape::Alone;
        self.left += back.own + if alone { back.peer } else { 0 };
        let mut all = done.summaries;
        all.push(std::mem::take(&mut self.sum));
        self.sum = stats::total(&all);
    }

    fn is_enough(&self, order: Order) -> bool {
        match order.until {
            Until::Left(count) if !order.bare => self.left >= count,
            Until::Left(count) | Until::Pairs(count) => self.pairs >= count,
            Until::Time(until) => Instant::now() >= until,
        }
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stats::Summary { smcd, smc, tcp_bytes, .. } = &self.sum;
        writeln!(f, "{}", self.tally)?;
        write!(
            f,
            "{} pairs of processes, {} killed, {smcd} ends of connections in shared memory, {} left \
             it in mid-stream; {} MB through rings, {} MB over TCP",
            self.pairs,
            self.killed,
            self.left,
            smc.rx_bytes >> 20,
            tcp_bytes.rx >> 20
        )
    }
}

/// Runs pairs until it is enough; what they did, and the faults.
pub fn run(order: Order) -> (Total, Vec<String>) {
    let next = AtomicU64::new(order.seed);
    let stop = AtomicBool::new(false);
    let faults = Mutex::new(Vec::new());
    let total = Mutex::new(Total::default());
    let began = Instant::now();
    let work = || {
        while !stop.load(Ordering::Acquire) {
            let step = u64::from(!order.same);
            let seed = next.fetch_add(step, Ordering::AcqRel);
            let name = Name { seed, wild: order.wild };
            if !order.wide && name.batch().shape == Shape::Wide {
                continue;
            }
            let done = pair::run(name, order.bare, order.kills);
            if !done.fault.is_empty() {
                let mut faults = faults.lock().unwrap();
                println!("FAULT --only {seed}: {name:?}:\n{}", done.fault);
                faults.push(format!("{name:?}:\n{}", done.fault));
                if faults.len() > FAULTS {
                    stop.store(true, Ordering::Release);
                }
            }
            let mut total = total.lock().unwrap();
            total.add(name, done);
            if total.is_enough(order) {
                stop.store(true, Ordering::Release);
            }
        }
    };
    std::thread::scope(|scope| (0..order.pairs).for_each(|_| drop(scope.spawn(work))));
    let total = total.into_inner().unwrap();
    println!("{total} in {:.1} s", began.elapsed().as_secs_f64());
    (total, faults.into_inner().unwrap())
}

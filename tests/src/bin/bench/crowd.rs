//! Others that want the processors as well.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use smc_tests::apps::{Failure, Result};

/// Processors on which the two ends of a run are.
const PROCESSORS: [usize; 2] = [0, 1];

/// A busy loop on each of these processors, until they are sent away.
#[derive(Debug)]
pub(crate) struct Crowd {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<bool>>,
}

impl Crowd {
    /// Starts them.
    pub(crate) fn gather() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let start = |processor: usize| {
            let over = over.clone();
            std::thread::spawn(move || {
                let pinned = pin(processor);
                while pinned && !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                pinned
            })
        };
        let threads = PROCESSORS.into_iter().map(start).collect();
        Self { over, threads }
    }

    /// Sends them away; an error if one was not there.
    pub(crate) fn leave(self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        let all = self.threads.into_iter().all(|thread| thread.join().is_ok_and(|pinned| pinned));
        all.then_some(()).ok_or_else(|| Failure::new("the processors could not be kept busy"))
    }
}

fn pin(processor: usize) -> bool {
    // SAFETY: a set of processors is plain bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid, and the number below its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the calling thread, and a set of that length.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0 }
}

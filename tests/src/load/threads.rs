//! A client in several threads.
use std::io;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::{request_response, Latencies, RequestResponse};

/// Runs the client in `count` threads, each with its share of the connections; the latencies of
/// all exchanges and the time that the slowest thread took.
pub fn in_threads(load: &RequestResponse, count: usize) -> io::Result<(Latencies, Duration)> {
    let count = count.min(load.connections);
    if count < 2 {
        return request_response(load);
    }
    let all = Mutex::new((Latencies::default(), Duration::ZERO));
    let one = |nth: usize| -> io::Result<()> {
        let mine = RequestResponse {
            connections: share(load.connections, count, nth),
            idle: share(load.idle, count, nth),
            ..load.clone()
        };
        let (latencies, elapsed) = request_response(&mine)?;
        let mut all = all.lock();
        all.0.merge(&latencies);
        all.1 = all.1.max(elapsed);
        Ok(())
    };
    thread::scope(|scope| {
        let one = &one;
        let running: Vec<_> = (0..count).map(|nth| scope.spawn(move || one(nth))).collect();
        running.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    })?;
    Ok(all.into_inner())
}

/// What the `nth` of `count` gets of a whole.
fn share(whole: usize, count: usize, nth: usize) -> usize {
    whole / count + usize::from(nth < whole % count)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up_and_differ_by_one_at_most() {
        for (whole, count) in [(0, 3), (2, 3), (7, 3), (9, 3)] {
            let shares: Vec<_> = (0..count).map(|nth| share(whole, count, nth)).collect();
            assert_eq!(shares.iter().sum::<usize>(), whole);
            assert!(shares.iter().all(|&part| part.abs_diff(whole / count) <= 1), "{shares:?}");
        }
    }
}

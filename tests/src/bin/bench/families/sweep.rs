//! Bandwidth over many message sizes: no size may be a hole.
use smc_tests::apps::{Launch, Result};

use super::loadgen::{self, started};
use super::parse;
use crate::run::Run;
use crate::sweep;
use crate::workload::{Better, Figures, Workload};

/// Rings for which the sizes are chosen.
const RINGS: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
const SIZES: usize = 200;
/// Seconds for one size: in less the start of a stream counts for too much.
const SHORTEST: f64 = 0.1;

/// Rings of the default size, and others.
pub(crate) fn workloads() -> Vec<Workload> {
    let rings = [None, Some(RINGS[0]), Some(RINGS[2])];
    let sweep = |ring: Option<usize>| {
        let name = ring.map_or(sweep::NAME.to_owned(), |ring| {
            format!("{}, rings of {} KiB", sweep::NAME, ring >> 10)
        });
        let measure = move |run: &Run<'_>| measure(run, ring);
        Workload::new(name, "200 message sizes", ("GB/s", Better::Higher), measure).goal(1.0)
    };
    rings.into_iter().map(sweep).collect()
}

fn with_ring(launch: Launch, ring: Option<usize>) -> Launch {
    let Some(ring) = ring else { return launch };
    let ring = ring.to_string();
    launch.env("SMC_SNDBUF", &ring).env("SMC_RCVBUF", &ring)
}

fn measure(run: &Run<'_>, ring: Option<usize>) -> Result<Figures> {
    let _server = started(run, with_ring(loadgen::sink_launch(run)?, ring))?;
    let sizes = sizes();
    let list: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let client = run.client(&run.own("loadgen")?).words(format!(
        "stream --to {} --sizes {} --seconds {}",
        run.address(),
        list.join(","),
        (run.seconds / 10.0).max(SHORTEST)
    ));
    let client = with_ring(client, ring);
    let report = client.output(run.limit())?.stdout;
    sizes
        .iter()
        .zip(list)
        .map(|(&size, name)| {
            let rate = parse::line(&report, &name)?;
            Ok((name, rate * size as f64 / 1e9))
        })
        .collect()
}

/// Each power of two and its neighbours, multiples of each ring and theirs, and random sizes.
fn sizes() -> Vec<usize> {
    let powers = (6..=22).map(|bits| 1 << bits);
    let multiples = RINGS.into_iter().flat_map(|ring| [ring * 3 / 2, ring * 2, ring * 3]);
    let mut sizes: Vec<usize> =
        powers.chain(multiples).flat_map(|size| [size - 1, size, size + 1]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // A fixed sequence, spread evenly over the powers of two, so that runs can be compared.
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    while sizes.len() < SIZES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let power = 6 + (state >> 59) as u32 % 16;
        let size = (1_usize << power) + (state >> 20) as usize % (1 << power);
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes.sort_unstable();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_many_different_and_bounded() {
        let sizes = sizes();
        assert_eq!(sizes.len(), SIZES);
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(sizes.contains(&131_073) && sizes.contains(&(3 << 20)));
        assert!(sizes[0] >= 63 && sizes[SIZES - 1] <= (4 << 20) + 1);
    }
}

//! Latencies, kept in buckets of equal relative width.
use std::time::Duration;

/// Buckets for each power of two: a quantile is right within 1/32.
const FINE: u32 = 5;

/// A histogram of durations.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; 64 << FINE], count: 0 }
    }
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanoseconds)] += 1;
        self.count += 1;
    }

    /// Adds all that another histogram holds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latency, in microseconds, that the fraction `part` of all does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let rank = (part * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(index) as f64 / 1e3;
            }
        }
        0.0
    }
}

fn bucket(value: u64) -> usize {
    let width = 64 - value.leading_zeros();
    let shift = width.saturating_sub(FINE + 1);
    ((shift as usize) << FINE) + (value >> shift) as usize
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let row = (index >> FINE).saturating_sub(1);
    let mantissa = (index - (row << FINE)) as u64;
    (((mantissa as u128 + 1) << row) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_values() {
        for value in (0..5000).chain([1 << 20, (1 << 20) + 77_777, 123_456_789_012]) {
            let top = upper(bucket(value));
            assert!(top >= value, "{value} lies above its bucket's end {top}");
            assert!(top - value <= value / 32, "{value} is far from its bucket's end {top}");
        }
    }

    #[test]
    fn merged_histograms_hold_both() {
        let (mut all, mut slow) = (Latencies::default(), Latencies::default());
        all.add(Duration::from_micros(1));
        slow.add(Duration::from_micros(900));
        all.merge(&slow);
        assert_eq!(all.count(), 2);
        assert!(all.quantile(0.5) < 2.0 && all.quantile(1.0) >= 900.0);
    }

    #[test]
    fn quantiles() {
        let mut latencies = Latencies::default();
        for n in 1..=100 {
            latencies.add(Duration::from_micros(n));
        }
        assert!((latencies.quantile(0.5) - 50.0).abs() < 2.0);
        assert!((latencies.quantile(0.99) - 99.0).abs() < 4.0);
        assert_eq!(latencies.count(), 100);
    }
}

//! Whether the connections that a process accepts live long enough to become SMC.
//!
//! An ACCEPT in front of the first bytes costs both ends system calls, about a tenth of the time of a
//! connection for one request. A process whose connections have turned out to be short, or whose
//! clients do not take an ACCEPT, puts none there; a connection that lives long nevertheless gets it
//! beside the stream, which costs more, and shows that the forecast was wrong.
use crate::sync::{AtomicU32, Ordering};

/// Connections in a row to which an ACCEPT was of no use.
const ROW: u32 = 8;

/// The last connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    // Relaxed everywhere: a guess, which orders nothing.
    short: AtomicU32,
}

impl Forecast {
    /// Whether the next connection will probably not become SMC.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed) >= ROW
    }

    /// An accepted connection has ended and never became SMC.
    pub(crate) fn lived_short(&self) {
        if !self.is_short() {
            self.short.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An accepted connection has become SMC.
    pub(crate) fn lived_long(&self) {
        if self.short.load(Ordering::Relaxed) != 0 {
            self.short.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Forecast, ROW};

    #[test]
    fn only_a_row_of_short_ones_is_a_forecast() {
        let forecast = Forecast::default();
        for _ in 1..ROW {
            forecast.lived_short();
        }
        assert!(!forecast.is_short());
        forecast.lived_long();
        forecast.lived_short();
        assert!(!forecast.is_short());
        for _ in 0..2 * ROW {
            forecast.lived_short();
        }
        assert!(forecast.is_short());
        forecast.lived_long();
        assert!(!forecast.is_short());
    }
}

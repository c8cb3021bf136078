//! The change of one direction from TCP to the ring.
//!
//! The sender records how many bytes it has written to TCP, by the kernel's count, and goes on in
//! the ring; the reader takes TCP up to that count, then the ring. No byte is framed.
use crate::reason::Reason;

/// The sender's half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TxSwitch {
    /// Sends by TCP.
    #[default]
    Tcp,
    /// Sends through the ring.
    Ring {
        /// Bytes that went by TCP before.
        offset: u64,
    },
}

impl TxSwitch {
    /// Whether the sender may switch now.
    ///
    /// `peer_consents`: every wait of the reader looks at the ring ([`super::ConsentGate`]).
    /// `own_waits_seen`: the program waits for space in ways that look at the ring, too.
    pub const fn may_switch(
        &self,
        attached: bool,
        peer_consents: bool,
        own_waits_seen: bool,
    ) -> bool {
        matches!(self, Self::Tcp) && attached && peer_consents && own_waits_seen
    }

    /// The sender has published `offset` and sends through the ring from now on.
    pub fn switched(&mut self, offset: u64) {
        if matches!(self, Self::Tcp) {
            *self = Self::Ring { offset };
        }
    }

    /// Whether it sends through the ring.
    pub const fn in_ring(&self) -> bool {
        matches!(self, Self::Ring { .. })
    }
}

/// The reader's half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RxSwitch {
    /// Reads TCP.
    #[default]
    Tcp,
    /// The sender has switched; TCP still holds bytes from before, or they are on their way. Until
    /// they are taken, data in the ring does not make the connection readable: whoever waits and
    /// takes it for readiness spins.
    Drain {
        /// How many.
        remaining: u64,
    },
    /// Reads the ring.
    Ring,
}

/// Where the next byte of the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// In TCP.
    Tcp {
        /// Take no more than so many bytes; `None`: as many as there are.
        at_most: Option<u64>,
    },
    /// In the ring. TCP bytes that come all the same were written behind the library's back: they
    /// are delivered when the ring is empty. It must be found empty after they were found there,
    /// or they would overtake what the sender put into the ring before.
    Ring,
}

impl RxSwitch {
    /// The sender has switched at `offset`, of which `read_total` bytes were read by the kernel's
    /// count. Returns how many are left in TCP. To be called again when TCP is empty before that
    /// many were taken: the kernel's count wins over what was reported by [`Self::took`], as the
    /// program may have read behind the library's back.
    ///
    /// An offset below what was already read breaks the protocol: the connection must be reset,
    /// as bytes would be lost or doubled.
    pub fn on_peer_switched(&mut self, offset: u64, read_total: u64) -> Result<u64, Reason> {
        if matches!(self, Self::Ring) {
            return Ok(0);
        }
        let remaining = offset.checked_sub(read_total).ok_or(Reason::PROTOCOL)?;
        *self = if remaining == 0 { Self::Ring } else { Self::Drain { remaining } };
        Ok(remaining)
    }

    /// The reader took `bytes` from where [`Self::where_to_read`] said.
    pub fn took(&mut self, bytes: u64) {
        if let Self::Drain { remaining } = self {
            *self = match remaining.saturating_sub(bytes) {
                0 => Self::Ring,
                remaining => Self::Drain { remaining },
            };
        }
    }

    /// Where the next byte is.
    pub const fn where_to_read(&self) -> ReadFrom {
        match *self {
            Self::Tcp => ReadFrom::Tcp { at_most: None },
            Self::Drain { remaining } => ReadFrom::Tcp { at_most: Some(remaining) },
            Self::Ring => ReadFrom::Ring,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReadFrom, RxSwitch, TxSwitch};
    use crate::reason::Reason;

    #[test]
    fn a_sender_needs_all_three() {
        let sender = TxSwitch::Tcp;
        for case in 0..8 {
            let [attached, consents, seen] = [case & 1 != 0, case & 2 != 0, case & 4 != 0];
            assert_eq!(sender.may_switch(attached, consents, seen), case == 7, "{case}");
        }
        let mut sender = sender;
        sender.switched(10);
        sender.switched(20);
        assert_eq!(sender, TxSwitch::Ring { offset: 10 });
        assert!(!sender.may_switch(true, true, true), "once");
    }

    #[test]
    fn a_reader_takes_tcp_up_to_the_offset() {
        let mut reader = RxSwitch::Tcp;
        assert_eq!(reader.where_to_read(), ReadFrom::Tcp { at_most: None });
        assert_eq!(reader.on_peer_switched(100, 40), Ok(60));
        assert_eq!(reader.where_to_read(), ReadFrom::Tcp { at_most: Some(60) });
        reader.took(59);
        assert_eq!(reader.where_to_read(), ReadFrom::Tcp { at_most: Some(1) });
        reader.took(1);
        assert_eq!(reader.where_to_read(), ReadFrom::Ring);
        reader.took(1000);
        assert_eq!(reader.where_to_read(), ReadFrom::Ring);
        assert_eq!(reader.on_peer_switched(100, 100), Ok(0));
    }

    #[test]
    fn a_reader_that_has_everything_goes_to_the_ring_at_once() {
        let mut reader = RxSwitch::Tcp;
        assert_eq!(reader.on_peer_switched(40, 40), Ok(0));
        assert_eq!(reader.where_to_read(), ReadFrom::Ring);
    }

    #[test]
    fn the_kernels_count_wins() {
        let mut reader = RxSwitch::Tcp;
        assert_eq!(reader.on_peer_switched(100, 40), Ok(60));
        assert_eq!(reader.on_peer_switched(100, 90), Ok(10));
        assert_eq!(reader, RxSwitch::Drain { remaining: 10 });
    }

    #[test]
    fn an_offset_in_the_past_is_a_violation() {
        let mut reader = RxSwitch::Tcp;
        assert_eq!(reader.on_peer_switched(39, 40), Err(Reason::PROTOCOL));
        assert_eq!(reader, RxSwitch::Tcp);
    }
}

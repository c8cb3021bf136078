//! One direction of a TCP connection.

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pipe {
    pub in_flight: Vec<u8>,
    pub arrived: Vec<u8>,
    pub fin_sent: bool,
    pub fin_arrived: bool,
    /// By the kernel's count.
    pub written: u64,
    pub read: u64,
}

impl Pipe {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        assert!(!self.fin_sent);
        self.in_flight.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
    }

    pub(crate) fn can_deliver(&self) -> bool {
        !self.in_flight.is_empty() || self.fin_sent != self.fin_arrived
    }

    pub(crate) fn deliver(&mut self, count: usize) {
        let count = count.min(self.in_flight.len());
        self.arrived.extend(self.in_flight.drain(..count));
        self.fin_arrived = self.fin_sent && self.in_flight.is_empty();
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        self.read += count as u64;
        self.arrived.drain(..count).collect()
    }
}

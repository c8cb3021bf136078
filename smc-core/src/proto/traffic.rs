//! What went over TCP before a connection is SMC: whether it lives long enough to pay.

/// Bytes of both directions, and how often a request followed a reply, or a reply a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Traffic {
    pub(super) bytes: u64,
    pub(super) turns: u32,
    received_last: bool,
}

impl Traffic {
    pub(super) const NONE: Self = Self { bytes: 0, turns: 0, received_last: false };

    pub(super) fn sent(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.turns = self.turns.saturating_add(u32::from(self.received_last));
        self.received_last = false;
    }

    pub(super) fn received(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.received_last = true;
    }
}

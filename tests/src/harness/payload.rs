//! Data that can be told apart at every byte, and its checksum.

/// A stream of bytes that depends on the seed and the position alone.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
    spare: Vec<u8>,
}

impl Stream {
    /// The stream of this seed, at its start.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, spare: Vec::new() }
    }

    fn word(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Writes the next bytes of the stream.
    pub fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.spare.is_empty() {
                self.spare = self.word().to_le_bytes().to_vec();
            }
            *byte = self.spare.pop().unwrap_or_default();
        }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.fill(&mut out);
        out
    }

    /// A number below `limit`, from the same source.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.word() % limit.max(1) as u64).unwrap_or(0)
    }
}

/// `len` bytes of the stream `seed`.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Stream::new(seed).take(len)
}

/// A running FNV-1a checksum with the count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    hash: u64,
    len: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, len: 0 }
    }
}

impl Sum {
    /// The checksum of one buffer.
    pub fn of(data: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.add(data);
        sum
    }

    /// Takes more bytes in.
    pub fn add(&mut self, data: &[u8]) {
        for &byte in data {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.len += data.len() as u64;
    }

    /// How many bytes went in.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes {:016x}", self.len, self.hash)
    }
}

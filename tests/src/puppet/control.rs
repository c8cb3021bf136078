//! The channel by which the subject tells the puppet what to do.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// What the puppet can be told; each is answered by one number once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Makes the next connection; buffers of `a` (send) and `b` (receive) bytes unless 0.
    Open,
    /// Answers `a` requests of `b` bytes each, or makes them if it is the client.
    Talk,
    /// Sends the stream's next `a` bytes after `b` milliseconds.
    Send,
    /// Reads exactly `a` bytes, at most 4 KiB at a time with `b` microseconds between if not 0.
    Read,
    /// Reads to the end of the stream, in random bites with random pauses if `a` is not 0.
    ReadToEnd,
    /// Reads to the end of the stream and counts, whatever the bytes are.
    Count,
    /// `shutdown(a)` after `b` milliseconds.
    Shutdown,
    /// `close` after `b` milliseconds; with a reset instead of FIN if `a`.
    Close,
    /// Sends one urgent byte `a`.
    Urgent,
    /// Sends and reads `a` bytes at the same time.
    Duplex,
    /// Starts a thread that returns every byte that comes on this connection.
    Echo,
    /// Sends as fast as it can until the connection ends.
    Flood,
}

const OPS: [Op; 12] = [
    Op::Open,
    Op::Talk,
    Op::Send,
    Op::Read,
    Op::ReadToEnd,
    Op::Count,
    Op::Shutdown,
    Op::Close,
    Op::Urgent,
    Op::Duplex,
    Op::Echo,
    Op::Flood,
];

/// One order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) op: Op,
    pub(crate) conn: usize,
    pub(crate) a: i64,
    pub(crate) b: i64,
}

/// One end of the channel.
#[derive(Debug)]
pub(crate) struct Control(UnixStream);

fn address(port: u16) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("smc-case-{port}")).unwrap()
}

/// Where the server waits for the client's end.
pub(crate) fn listen(port: u16) -> UnixListener {
    UnixListener::bind_addr(&address(port)).unwrap()
}

impl Control {
    pub(crate) fn accept(listener: &UnixListener) -> Self {
        Self(listener.accept().unwrap().0)
    }

    pub(crate) fn connect(port: u16) -> Self {
        Self(UnixStream::connect_addr(&address(port)).unwrap())
    }

    fn put(&self, words: &[i64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (&self.0).write_all(&bytes).unwrap();
    }

    fn get(&self) -> Option<i64> {
        let mut word = [0; 8];
        (&self.0).read_exact(&mut word).ok()?;
        Some(i64::from_le_bytes(word))
    }

    pub(crate) fn order(&self, order: Order) {
        let conn = i64::try_from(order.conn).unwrap_or(0);
        self.put(&[order.op as i64, conn, order.a, order.b]);
    }

    /// The next order, or nothing when the subject is done.
    pub(crate) fn obey(&self) -> Option<Order> {
        let op = OPS[usize::try_from(self.get()?).unwrap_or(usize::MAX)];
        let conn = usize::try_from(self.get()?).unwrap_or(0);
        Some(Order { op, conn, a: self.get()?, b: self.get()? })
    }

    pub(crate) fn answer(&self, value: i64) {
        self.put(&[value]);
    }

    pub(crate) fn result(&self) -> i64 {
        self.get().unwrap_or_else(|| panic!("the puppet died"))
    }
}

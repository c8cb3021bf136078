//! A connection between subject and puppet, seen from the subject.

use super::control::{Control, Op, Order};
use super::show::Ret;
use super::{pattern, sys, wait};
use libc::c_int;
use std::cell::Cell;
use std::rc::Rc;

/// A connection; dropping it closes both ends.
#[derive(Debug)]
pub struct Conn {
    /// The subject's descriptor; -1 once the case has closed it.
    pub fd: c_int,
    id: usize,
    control: Rc<Control>,
    sent: Cell<u64>,
    read: Cell<u64>,
}

impl Conn {
    pub(crate) fn new(fd: c_int, id: usize, control: Rc<Control>) -> Self {
        Self { fd, id, control, sent: Cell::new(0), read: Cell::new(0) }
    }

    fn start(&self, op: Op, a: impl Into<i64>, b: impl Into<i64>) -> &Self {
        self.control.order(Order { op, conn: self.id, a: a.into(), b: b.into() });
        self
    }

    /// Waits for what was started with the puppet: the count, or a negative error number.
    pub fn finish(&self) -> i64 {
        self.control.result()
    }

    /// Both ends take turns, the client first; leaves the stream offsets as they were.
    pub fn talk(&self, first: bool, turns: i64, size: i64) {
        self.start(Op::Talk, turns, size);
        talk(self.fd, first, turns, size);
        self.finish();
    }

    // ---- the puppet's side

    /// The puppet sends, and it has all reached our socket.
    pub fn peer_sends(&self, count: usize) {
        let before = wait::available(self.fd);
        self.start_send(count, 0);
        assert_eq!(self.finish(), len(count));
        wait::queued(self.fd, before + count);
    }

    /// The puppet will send after a while; `finish` tells how much it did.
    pub fn start_send(&self, count: usize, millis: i64) {
        self.start(Op::Send, len(count), millis);
    }

    /// The puppet reads, checks and counts that many bytes.
    pub fn peer_reads(&self, count: usize) -> i64 {
        self.start_read(count, 0).finish()
    }

    /// The puppet starts to read; slowly, if it pauses that many microseconds between bites.
    pub fn start_read(&self, count: usize, micros: i64) -> &Self {
        self.start(Op::Read, len(count), micros)
    }

    /// The puppet starts to read to the end of the stream, at random if `wild`.
    pub fn start_read_to_end(&self, wild: bool) -> &Self {
        self.start(Op::ReadToEnd, i64::from(wild), 0)
    }

    /// The puppet starts to read to the end of the stream, whatever the bytes are.
    pub fn start_count(&self) -> &Self {
        self.start(Op::Count, 0, 0)
    }

    /// The puppet shuts down a direction.
    pub fn peer_shuts(&self, how: c_int) -> i64 {
        self.start_shut(how, 0).finish()
    }

    /// The same after a while.
    pub fn start_shut(&self, how: c_int, millis: i64) -> &Self {
        self.start(Op::Shutdown, how, millis)
    }

    /// The puppet closes its socket.
    pub fn peer_closes(&self) {
        self.start(Op::Close, 0, 0).finish();
    }

    /// The same after a while.
    pub fn start_close(&self, millis: i64) -> &Self {
        self.start(Op::Close, 0, millis)
    }

    /// The puppet resets the connection.
    pub fn peer_resets(&self) {
        self.start_reset(0).finish();
        wait::settle();
    }

    /// The same after a while.
    pub fn start_reset(&self, millis: i64) -> &Self {
        self.start(Op::Close, 1, millis)
    }

    /// The puppet sends one urgent byte.
    pub fn peer_urgent(&self, byte: u8) {
        self.start(Op::Urgent, byte, 0).finish();
        wait::settle();
    }

    /// The puppet starts to send and read that many bytes at once.
    pub fn start_duplex(&self, count: usize) -> &Self {
        self.start(Op::Duplex, len(count), 0)
    }

    /// The puppet returns all that comes from now on.
    pub fn peer_echoes(&self) {
        self.start(Op::Echo, 0, 0).finish();
    }

    /// The puppet sends as fast as it can until the connection ends.
    pub fn start_flood(&self) {
        self.start(Op::Flood, 0, 0);
    }

    /// Ends a flood by a close with unread data, that is by a reset.
    pub fn stop_flood(&mut self) -> i64 {
        self.close();
        self.finish()
    }

    // ---- our side of the two streams

    /// What is to be sent next, so that the puppet finds it in order.
    pub fn payload(&self, count: usize) -> Vec<u8> {
        pattern::stream(self.sent.get(), count)
    }

    /// Notes how much of it was taken.
    pub fn sent(&self, ret: Ret) -> Ret {
        self.sent.set(self.sent.get() + ret.count() as u64);
        ret
    }

    /// Sends that many bytes by `send` with these flags.
    pub fn send(&self, count: usize, flags: c_int) -> Ret {
        self.sent(sys::send(self.fd, &self.payload(count)[..], flags))
    }

    /// Checks bytes that came: whether they are the next ones of the puppet's stream.
    pub fn came(&self, data: &[u8]) -> bool {
        let at = self.read.replace(self.read.get() + data.len() as u64);
        pattern::check(data, at)
    }

    /// Takes exactly that many bytes: whether they came and were right.
    pub fn takes(&self, count: usize) -> bool {
        let mut data = vec![0; count];
        let mut have = 0;
        while have < count {
            let ret = sys::recv(self.fd, &mut data[have..], 0);
            if ret.value == 0 {
                return false;
            }
            if ret.value < 0 {
                assert!(ret.is(libc::EAGAIN) || ret.is(libc::EINTR), "recv: {ret}");
                wait::poll(self.fd, libc::POLLIN, wait::LONG);
            }
            have += ret.count();
        }
        self.came(&data)
    }

    /// Closes our end.
    pub fn close(&mut self) -> Ret {
        sys::close(std::mem::replace(&mut self.fd, -1))
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.start(Op::Close, 0, 0).finish();
        if self.fd >= 0 {
            self.close();
        }
    }
}

fn len(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// One end of the talk.
pub(crate) fn talk(fd: c_int, first: bool, turns: i64, size: i64) {
    let size = usize::try_from(size).unwrap_or(0);
    let mut data = vec![7; size];
    for _ in 0..turns {
        if first {
            sys::send(fd, &data[..], 0).expect("talk");
        }
        let mut have = 0;
        while have < size {
            let ret = sys::recv(fd, &mut data[have..], 0);
            assert!(ret.value > 0, "talk: {ret}");
            have += ret.count();
        }
        if !first {
            sys::send(fd, &data[..], 0).expect("talk");
        }
    }
}

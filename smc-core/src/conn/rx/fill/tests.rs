//! The receiving step over the double: partial progress, and failure at every call.
use super::Fill;
use crate::errno::Errno;
use crate::ring::{RingError, Violation};
use crate::sys::iov::Bufs;
use crate::transport::mock::{halves, Failure, Mock, Script};
use crate::transport::{Link, Receiver, Sender};
use libc::{c_int, iovec};

/// A mock to whose side 1 these bytes have been sent; how many calls that took.
fn sent(script: Script, bytes: &[u8]) -> (Mock, u64) {
    let mock = Mock::new(Script { size: 256, ..script });
    let mut tx = halves().0;
    let mut sender = mock.link(0).sender(&mut tx);
    let mut done = 0;
    while done < bytes.len() {
        done += sender.put(bytes[done..].into(), 1000).unwrap();
    }
    sender.flush();
    drop(sender);
    let calls = mock.calls();
    (mock, calls)
}

fn sample(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + 1) as u8).collect()
}

/// Room for bytes, in buffers of some lengths.
struct Room {
    bytes: Vec<u8>,
    iov: Vec<iovec>,
}

impl Room {
    fn new(lens: &[usize]) -> Self {
        let mut bytes = vec![0_u8; lens.iter().sum()];
        let mut rest = bytes.as_mut_slice();
        let mut iov = Vec::new();
        for len in lens {
            let (now, later) = rest.split_at_mut(*len);
            iov.push(iovec { iov_base: now.as_mut_ptr().cast(), iov_len: *len });
            rest = later;
        }
        Self { bytes, iov }
    }

    fn bufs(&self) -> Bufs {
        Bufs::Many(self.iov.as_ptr(), self.iov.len())
    }
}

fn call(bufs: &Bufs, flags: c_int) -> Fill<'_> {
    Fill::new(bufs, flags, bufs.total().unwrap())
}

const SHAPES: [&[usize]; 5] = [&[1], &[10, 0, 5, 9], &[200], &[0, 0, 64, 65, 0], &[300, 1]];

#[test]
fn bytes_that_come_late_fill_the_buffers_in_order() {
    let bytes = sample(200);
    for seed in 1..9 {
        for lens in SHAPES {
            let (mock, _) = sent(Script { seed, delay: 40, ..Script::PLAIN }, &bytes);
            let mut rx = halves().1;
            let room = Room::new(lens);
            let bufs = room.bufs();
            let mut fill = call(&bufs, 0);
            let wanted = fill.total.min(200);
            let mut steps = 0;
            while fill.done < wanted {
                assert!(steps < 200, "{} of {wanted} came", fill.done);
                steps += 1;
                let mut receiver = mock.link(1).receiver(&mut rx);
                assert_eq!(fill.take(&mut receiver), Ok(()));
                receiver.done();
            }
            assert_eq!(fill.or(Errno::AGAIN), Ok(wanted.cast_signed()));
            assert_eq!(room.bytes[..wanted], bytes[..wanted]);
        }
    }
}

#[test]
fn peeking_and_truncating_leave_and_drop_bytes() {
    let bytes = sample(100);
    for lens in SHAPES {
        let (mock, _) = sent(Script::PLAIN, &bytes);
        let mut rx = halves().1;
        let mut receiver = mock.link(1).receiver(&mut rx);
        let room = Room::new(lens);
        let bufs = room.bufs();
        let wanted = bufs.total().unwrap().min(100);
        for _ in 0..2 {
            let mut fill = call(&bufs, libc::MSG_PEEK);
            assert_eq!(fill.take(&mut receiver), Ok(()));
            assert_eq!(fill.done, wanted);
            assert_eq!(room.bytes[..wanted], bytes[..wanted]);
        }
        let mut fill = call(&bufs, libc::MSG_PEEK | libc::MSG_TRUNC);
        assert_eq!(fill.take(&mut receiver), Ok(()));
        assert_eq!((fill.done, receiver.queued()), (wanted, Ok(100)));
        let mut fill = call(&bufs, libc::MSG_TRUNC);
        assert_eq!(fill.take(&mut receiver), Ok(()));
        assert_eq!((fill.done, receiver.queued()), (wanted, Ok(100 - wanted)));
    }
}

/// A step with a failure at each of its calls: the error, or the bytes so far.
fn at_each_call(failure: Failure, flags: c_int, error: RingError, errno: Errno) {
    let bytes = sample(150);
    let (mut errors, mut shorts) = (0, 0);
    for lens in SHAPES {
        for at in 0..20 {
            let before = sent(Script::PLAIN, &bytes).1;
            let script = Script { failure: Some((before + at, failure)), ..Script::PLAIN };
            let (mock, _) = sent(script, &bytes);
            let mut rx = halves().1;
            let room = Room::new(lens);
            let bufs = room.bufs();
            let mut fill = call(&bufs, flags);
            let taken = fill.take(&mut mock.link(1).receiver(&mut rx));
            let done = fill.done;
            assert_eq!(room.bytes[..done], bytes[..done]);
            match taken {
                Ok(()) => {
                    assert_eq!(fill.or(errno), Ok(done.cast_signed()));
                    shorts += u32::from(done < fill.total.min(150));
                }
                Err(seen) => {
                    // Nothing was taken: the call answers the error.
                    assert_eq!((seen, done), (error, 0));
                    assert_eq!(fill.or(errno), Err(errno));
                    errors += 1;
                }
            }
            // Bytes of a short count, or of an error, are not lost: the rest follows.
            if failure == Failure::Fault {
                let left = mock.link(1).receiver(&mut rx).queued();
                let peeked = flags & libc::MSG_PEEK != 0;
                assert_eq!(left, Ok(150 - if peeked { 0 } else { done }));
            }
        }
    }
    assert!(errors > 0, "{errors} errors, {shorts} short counts");
}

#[test]
fn a_bad_buffer_gives_a_short_count_or_efault() {
    for flags in [0, libc::MSG_PEEK] {
        let error = RingError::Fault(crate::sys::copy::Fault);
        at_each_call(Failure::Fault, flags, error, Errno::FAULT);
    }
}

#[test]
fn a_violation_gives_a_short_count_or_an_error() {
    for flags in [0, libc::MSG_PEEK] {
        let error = RingError::Violation(Violation::Prod);
        let failure = Failure::Violation(Violation::Prod);
        at_each_call(failure, flags, error, Errno(libc::ECONNRESET));
    }
}

#[test]
fn what_a_dead_peer_sent_is_read_to_the_end() {
    let bytes = sample(150);
    let (mock, _) = sent(Script::PLAIN, &bytes);
    mock.fail(1, Failure::Gone);
    let mut rx = halves().1;
    let room = Room::new(&[100, 100]);
    let bufs = room.bufs();
    let mut fill = call(&bufs, libc::MSG_WAITALL);
    assert_eq!(fill.take(&mut mock.link(1).receiver(&mut rx)), Ok(()));
    assert_eq!((fill.done, &room.bytes[..150]), (150, bytes.as_slice()));
    assert!(mock.link(1).is_gone());
}

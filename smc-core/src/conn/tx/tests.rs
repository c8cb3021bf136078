//! The sending step over the double: partial progress, and failure at every call.
use super::{fill, Place, Put};
use crate::errno::Errno;
use crate::ring::Violation;
use crate::sys::iov::Bufs;
use crate::transport::mock::{halves, Failure, Mock, Script};
use crate::transport::{Link, Receiver};
use libc::iovec;

const SEGMENT: usize = 24;

/// What a program's call came to.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    answer: Result<usize, Errno>,
    violated: bool,
    arrived: Vec<u8>,
    calls: u64,
}

/// Sends buffers of these lengths as a blocking call does, the peer taking what arrives.
fn send(script: Script, lens: &[usize]) -> (Vec<u8>, Sent) {
    let total = lens.iter().sum();
    let mut bytes: Vec<u8> = (0..total).map(|n| (n * 7 + n / 250) as u8).collect();
    let mut rest = bytes.as_mut_slice();
    let mut iov = Vec::new();
    for len in lens {
        let (now, later) = rest.split_at_mut(*len);
        iov.push(iovec { iov_base: now.as_mut_ptr().cast(), iov_len: *len });
        rest = later;
    }
    let bufs = Bufs::Many(iov.as_ptr(), iov.len());
    let mock = Mock::new(script);
    let (mut tx, mut rx) = halves();
    let mut place = Place::default();
    let mut sent = Sent { answer: Ok(0), violated: false, arrived: Vec::new(), calls: 0 };
    // The peer has no part in the failures: it is looked at between the steps alone.
    let mut take = |arrived: &mut Vec<u8>| {
        mock.settle();
        let mut buf = [0; 4096];
        let mut receiver = mock.link(1).receiver(&mut rx);
        if let Ok(n) = receiver.take(buf.as_mut_slice().into()) {
            arrived.extend(&buf[..n]);
        }
        receiver.done();
        mock.settle();
    };
    for round in 0.. {
        assert!(round < 1000, "no end, {} of {total} sent", place.done);
        let step = fill(&mut mock.link(0).sender(&mut tx), &bufs, total, SEGMENT, &mut place);
        take(&mut sent.arrived);
        match step {
            Put::All => sent.answer = Ok(place.done),
            Put::Part if mock.link(0).is_gone() => sent.answer = place.or(Errno(libc::EPIPE)),
            Put::Part => continue,
            Put::Failed(errno) => sent.answer = place.or(errno),
            Put::Violation => {
                sent.violated = true;
                sent.answer = place.or(Errno(libc::ECONNRESET));
            }
        }
        break;
    }
    take(&mut sent.arrived);
    sent.calls = mock.calls();
    (bytes, sent)
}

fn scripts() -> impl Iterator<Item = Script> {
    let kinds = [(0, false), (0, true), (6, false), (6, true)];
    kinds.into_iter().flat_map(|(delay, partial)| {
        (1..6).map(move |seed| Script { seed, delay, partial, ..Script::PLAIN })
    })
}

const SHAPES: [&[usize]; 6] =
    [&[], &[1], &[10, 0, 5, 9], &[200], &[0, 0, 64, 65, 0], &[3, 100, 1, 1, 24, 25]];

#[test]
fn partial_progress_sends_each_byte_once() {
    for script in scripts() {
        for lens in SHAPES {
            let (bytes, sent) = send(script, lens);
            assert_eq!(sent.answer, Ok(bytes.len()), "{script:?} {lens:?}");
            assert_eq!(sent.arrived, bytes, "{script:?} {lens:?}");
        }
    }
}

/// Runs with a failure at every call there is.
fn at_each_call(failure: Failure, check: impl Fn(&[u8], &Sent)) {
    let mut failed = 0;
    for script in scripts() {
        for lens in SHAPES {
            let calls = send(script, lens).1.calls;
            for at in 0..calls {
                let script = Script { failure: Some((at, failure)), ..script };
                let (bytes, sent) = send(script, lens);
                check(&bytes, &sent);
                failed += u32::from(sent.answer != Ok(bytes.len()));
            }
        }
    }
    assert!(failed > 100, "{failed} calls failed");
}

#[test]
fn a_bad_buffer_gives_a_short_count_or_efault() {
    at_each_call(Failure::Fault, |bytes, sent| {
        match sent.answer {
            // What the count says has arrived, and nothing else.
            Ok(done) => assert_eq!(sent.arrived, bytes[..done]),
            Err(errno) => {
                assert_eq!(errno, Errno::FAULT);
                assert!(sent.arrived.is_empty());
            }
        }
        assert!(!sent.violated);
    });
}

#[test]
fn a_violation_ends_the_call() {
    at_each_call(Failure::Violation(Violation::Cons), |bytes, sent| {
        assert_eq!(sent.arrived, bytes[..sent.arrived.len()]);
        match sent.answer {
            // Nothing looked at the peer any more.
            Ok(done) if done == bytes.len() => {}
            Ok(done) => assert!(sent.violated && sent.arrived.len() <= done),
            Err(errno) => {
                assert_eq!(errno, Errno(libc::ECONNRESET));
                assert!(sent.violated && sent.arrived.is_empty());
            }
        }
    });
}

#[test]
fn the_end_of_the_peer_stops_a_call_that_waits() {
    at_each_call(Failure::Gone, |bytes, sent| match sent.answer {
        Ok(done) => assert_eq!(sent.arrived, bytes[..done]),
        Err(errno) => assert_eq!(errno, Errno(libc::EPIPE)),
    });
}

//! `sendfile`'s step over the double: short reads, and failure at every call.
use super::{load, Put};
use crate::errno::Errno;
use crate::ring::{Piece, Violation};
use crate::sys::iov::store;
use crate::transport::mock::{halves, Failure, Mock, Script};
use crate::transport::{Link, Receiver};

/// A file that gives at most `most` bytes at once, and fails to read at an offset.
struct File {
    bytes: Vec<u8>,
    most: usize,
    bad: usize,
}

impl File {
    fn read(&self, piece: Piece, at: usize) -> Result<usize, Errno> {
        if at >= self.bad {
            return Err(Errno(libc::EIO));
        }
        let end = self.bytes.len().min(self.bad);
        let n = piece.len.min(self.most).min(end - at);
        for (place, byte) in self.bytes[at..at + n].iter().enumerate() {
            store(piece.ptr.wrapping_add(place), byte)?;
        }
        Ok(n)
    }
}

/// Sends the file as a blocking call does: bytes moved, what ended it, what arrived, calls made.
fn send(script: Script, file: &File) -> (usize, Option<Errno>, Vec<u8>, u64) {
    let mock = Mock::new(script);
    let (mut tx, mut rx) = halves();
    let (mut done, mut arrived) = (0, Vec::new());
    for _ in 0..2000 {
        let read = |piece, skip| file.read(piece, done + skip);
        let step = load(&mut mock.link(0).sender(&mut tx), 50, read);
        mock.settle();
        let mut buf = [0; 1024];
        let mut receiver = mock.link(1).receiver(&mut rx);
        if let Ok(n) = receiver.take(buf.as_mut_slice().into()) {
            arrived.extend(&buf[..n]);
        }
        receiver.done();
        mock.settle();
        let end = match step {
            (n, Put::All) if n > 0 => {
                done += n;
                continue;
            }
            (0, Put::Part) => continue,
            (0, Put::All) => None,
            (0, Put::Failed(errno)) => Some(errno),
            (0, Put::Violation) => Some(Errno(libc::ECONNRESET)),
            step => unreachable!("{step:?}"),
        };
        return (done, end, arrived, mock.calls());
    }
    unreachable!("no end, {done} bytes moved");
}

fn file() -> File {
    let bytes = (0..500_usize).map(|n| (n * 11 + n / 200) as u8).collect();
    File { bytes, most: usize::MAX, bad: usize::MAX }
}

#[test]
fn short_reads_move_each_byte_once() {
    for seed in 1..20 {
        for most in [1, 7, 50, usize::MAX] {
            let file = File { most, ..file() };
            let script = Script { seed, delay: seed % 3 * 5, ..Script::PLAIN };
            let (done, end, arrived, _) = send(script, &file);
            assert_eq!((done, end), (500, None));
            assert!(arrived == file.bytes);
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_the_call_there() {
    for bad in [0, 1, 49, 50, 51, 300] {
        let file = File { bad, ..file() };
        let (done, end, arrived, _) = send(Script::PLAIN, &file);
        assert_eq!((done, end), (bad, Some(Errno(libc::EIO))));
        assert!(arrived == file.bytes[..bad]);
    }
}

#[test]
fn a_violation_at_any_call_ends_the_call() {
    let file = file();
    let (_, _, _, calls) = send(Script::PLAIN, &file);
    let mut violated = 0;
    for at in 0..calls {
        let failure = Some((at, Failure::Violation(Violation::Cons)));
        let (done, end, arrived, _) = send(Script { failure, ..Script::PLAIN }, &file);
        assert!(arrived.len() <= done);
        assert!(arrived == file.bytes[..arrived.len()]);
        violated += u32::from(end == Some(Errno(libc::ECONNRESET)));
    }
    assert!(violated > 10, "{violated}");
}

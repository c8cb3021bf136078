//! A conversation that the client leads: each request says how long it and its reply are.

use super::net::{recv_exact, send_all, Errno, Fd};
use super::payload::{bytes, Sum};

const HEAD: usize = 12;

/// One request of `out` bytes and its reply of `back` bytes; fails if the reply is not the one
/// that belongs to this turn.
pub fn ask(fd: Fd, turn: u32, out: u32, back: u32) -> Result<(), Errno> {
    let mut request = Vec::with_capacity(HEAD + out as usize);
    for word in [turn, out, back] {
        request.extend(word.to_le_bytes());
    }
    request.extend(bytes(u64::from(turn), out as usize));
    send_all(fd, &request)?;
    let mut reply = vec![0; back as usize];
    let got = recv_exact(fd, &mut reply)?;
    assert_eq!(got, reply.len(), "reply of turn {turn} cut short");
    assert!(reply == bytes(u64::from(turn) + 1_000_000, reply.len()), "reply of turn {turn} wrong");
    Ok(())
}

/// Answers one request; `None` at the end of the stream, else the number of the turn.
pub fn answer(fd: Fd) -> Result<Option<u32>, Errno> {
    let mut head = [0; HEAD];
    if recv_exact(fd, &mut head)? < HEAD {
        return Ok(None);
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (turn, out, back) = (word(0), word(4), word(8));
    let mut request = vec![0; out as usize];
    let got = recv_exact(fd, &mut request)?;
    assert_eq!(got, request.len(), "request of turn {turn} cut short");
    assert!(request == bytes(u64::from(turn), request.len()), "request of turn {turn} wrong");
    send_all(fd, &bytes(u64::from(turn) + 1_000_000, back as usize))?;
    Ok(Some(turn))
}

/// Turns of growing size, enough for a connection to be accelerated on the way.
pub fn ask_many(fd: Fd, turns: u32) -> Result<(), Errno> {
    (0..turns).try_for_each(|turn| ask(fd, turn, turn * 37 % 9000, turn * 101 % 30_000))
}

/// Answers until the stream ends: how many turns, a checksum over their numbers, the error if any.
pub fn answer_all(fd: Fd) -> String {
    let mut sum = Sum::default();
    let mut turns = 0;
    loop {
        match answer(fd) {
            Ok(Some(turn)) => {
                turns += 1;
                sum.add(&turn.to_le_bytes());
            }
            Ok(None) => return format!("{turns} turns ({sum}) then end"),
            Err(e) => return format!("{turns} turns ({sum}) then {e}"),
        }
    }
}

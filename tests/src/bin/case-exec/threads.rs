//! The exec of one thread while others are in the middle of sending and receiving: they end with
//! the image, wherever they are, and no byte is lost, doubled or mixed up.

use crate::images::Next;
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, recv, send, send_all, serve, set_inherited, shutdown, Fd,
};
use smc_tests::harness::process::pause_ms;
use smc_tests::harness::role::announce;
use smc_tests::say;
use std::thread::spawn;

const CONNS: usize = 4;
const PIECE: usize = 50_000;
/// What the old image sends, the new one, and the client before and after it has seen that.
const OLD: u8 = b'a';
const NEW: u8 = b'b';
const BEFORE: u8 = b'x';
const AFTER: u8 = b'y';
const LAST: usize = 100_000;

/// Sends one byte over and over.
fn send_for_ever(fd: Fd, byte: u8) {
    let piece = vec![byte; PIECE];
    while send(fd, &piece, libc::MSG_NOSIGNAL).is_ok() {}
}

/// The server: each connection has a thread that sends and one that receives when the exec comes.
pub(crate) fn server() {
    let (listener, port) = serve();
    announce(port);
    let fds: Vec<Fd> = (0..CONNS).map(|_| accept_warm(listener)).collect();
    for fd in fds.clone() {
        spawn(move || send_for_ever(fd, OLD));
        spawn(move || {
            let mut room = vec![0; PIECE];
            while recv(fd, &mut room, 0).is_ok_and(|n| n > 0) {}
        });
    }
    pause_ms(150);
    set_inherited(listener, false);
    // Not by the first thread: whoever execs is the first one afterwards.
    let exec = spawn(move || Next::this("threads_go_on", &fds).exec(&fds));
    say!("exec: {}", exec.join().unwrap());
}

/// The next image ends both directions of each.
pub(crate) fn go_on(fds: &[Fd]) {
    let all: Vec<_> = fds
        .iter()
        .map(|&fd| {
            spawn(move || {
                let sender = spawn(move || {
                    send_all(fd, &[NEW; LAST]).unwrap();
                    shutdown(fd, libc::SHUT_WR).unwrap();
                });
                let told = runs(fd, |_| {});
                sender.join().unwrap();
                close(fd).unwrap();
                told
            })
        })
        .collect();
    for (nth, thread) in all.into_iter().enumerate() {
        let told = thread.join().unwrap();
        let [(first, _), (second, count)] = told[..] else { panic!("{nth}: {told:?}") };
        say!("{nth}: {} then {count} of {}", char::from(first), char::from(second));
    }
}

/// Receives to the end: the bytes in order, each with how often it came in a row.
fn runs(fd: Fd, mut seen: impl FnMut(u8)) -> Vec<(u8, usize)> {
    let mut all: Vec<(u8, usize)> = Vec::new();
    let mut room = vec![0; PIECE];
    loop {
        let n = recv(fd, &mut room, 0).unwrap();
        if n == 0 {
            return all;
        }
        for byte in &room[..n] {
            match all.last_mut() {
                Some((last, count)) if last == byte => *count += 1,
                _ => {
                    seen(*byte);
                    all.push((*byte, 1));
                }
            }
        }
    }
}

/// The client: it goes over to other bytes when it sees that the server has.
pub(crate) fn client(port: u16) {
    let fds: Vec<Fd> = (0..CONNS).map(|_| dial_warm(port)).collect();
    let all: Vec<_> = fds
        .into_iter()
        .map(|fd| {
            spawn(move || {
                let (tell, told) = std::sync::mpsc::channel();
                let sender = spawn(move || {
                    let piece = vec![BEFORE; PIECE];
                    while told.try_recv().is_err() {
                        send_all(fd, &piece).unwrap();
                    }
                    send_all(fd, &[AFTER; LAST]).unwrap();
                    shutdown(fd, libc::SHUT_WR).unwrap();
                });
                let all = runs(fd, |byte| {
                    if byte == NEW {
                        tell.send(()).unwrap();
                    }
                });
                sender.join().unwrap();
                all
            })
        })
        .collect();
    for (nth, thread) in all.into_iter().enumerate() {
        let got = thread.join().unwrap();
        let [(first, _), (second, count)] = got[..] else { panic!("{nth}: {got:?}") };
        say!("{nth}: {} then {count} of {}", char::from(first), char::from(second));
    }
}

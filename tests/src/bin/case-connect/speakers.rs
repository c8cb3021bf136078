//! Who speaks first, and whether anyone does.

use smc_tests::harness::net::{
    accept, close, dial, recv, recv_exact, recv_to_end, send, send_all, serve, show, shutdown, Fd,
};
use smc_tests::harness::payload::{bytes, Sum};
use smc_tests::harness::process::pause_ms;
use smc_tests::harness::ready::poll_one;
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;

const BULK: usize = 1 << 20;

fn accept_one() -> Fd {
    let (listener, port) = serve();
    announce(port);
    let fd = accept(listener).unwrap();
    close(listener).unwrap();
    fd
}

fn say_end(fd: Fd) {
    let (sum, error) = recv_to_end(fd);
    say!("received {sum}, error {error:?}");
    say!("close {}", show(close(fd)));
}

/// A greeting, then a stream; the client only reads.
pub(crate) fn server_first_server() {
    let fd = accept_one();
    say!("greeting {}", show(send(fd, b"220 ready\r\n", 0)));
    // Time for the client to have read the greeting alone.
    pause_ms(100);
    send_all(fd, &bytes(3, BULK)).unwrap();
    shutdown(fd, libc::SHUT_WR).unwrap();
    say_end(fd);
}

/// Reads the greeting as one piece: nothing may stand in front of it.
pub(crate) fn server_first_client(port: u16) {
    let fd = dial(port);
    let mut line = [0; 64];
    let got = recv(fd, &mut line, 0).unwrap();
    say!("greeting {:?}", String::from_utf8_lossy(&line[..got]));
    say_end(fd);
}

/// Reads a stream and never says a word.
pub(crate) fn client_only_speaks_server() {
    say_end(accept_one());
}

/// Streams and closes without ever reading: the close must not cut the stream.
pub(crate) fn client_only_speaks_client(port: u16) {
    let fd = dial(port);
    let mut sum = Sum::default();
    for part in 0..16 {
        let data = bytes(part, BULK / 16);
        send_all(fd, &data).unwrap();
        sum.add(&data);
        pause_ms(2);
    }
    say!("sent {sum}");
    say!("close {}", show(close(fd)));
}

/// Waits for words that never come.
pub(crate) fn nobody_speaks_server() {
    let fd = accept_one();
    say!("nothing yet: {}", show(recv(fd, &mut [0; 8], libc::MSG_DONTWAIT)));
    say_end(fd);
}

/// Connects, stays a while, leaves.
pub(crate) fn nobody_speaks_client(port: u16) {
    let fd = dial(port);
    pause_ms(200);
    say!("nothing: {}", show(recv(fd, &mut [0; 8], libc::MSG_DONTWAIT)));
    say!("close {}", show(close(fd)));
}

/// Sends and receives at once, in two threads.
fn full_duplex(fd: Fd, mine: u64) {
    let sender = std::thread::spawn(move || {
        // In many calls: one that blocks cannot change its transport half way. And far more than
        // the kernel's buffers hold, or all is sent before the peer has read a byte.
        for part in bytes(mine, 24 * BULK).chunks(16_000) {
            send_all(fd, part).unwrap();
        }
        shutdown(fd, libc::SHUT_WR).unwrap();
    });
    let (sum, error) = recv_to_end(fd);
    assert!(sender.join().is_ok(), "the sender failed");
    say!("received {sum}, error {error:?}");
    close(fd).unwrap();
}

/// Both speak at once from the first moment.
pub(crate) fn both_speak_server() {
    full_duplex(accept_one(), 21);
}

/// The other side of it.
pub(crate) fn both_speak_client(port: u16) {
    full_duplex(dial(port), 22);
}

/// Reads to the end of the request, then answers: the reply comes after the client's FIN.
pub(crate) fn half_close_server() {
    let fd = accept_one();
    let (sum, error) = recv_to_end(fd);
    say!("request {sum}, error {error:?}");
    send_all(fd, &bytes(9, BULK)).unwrap();
    say!("close {}", show(close(fd)));
}

/// Closes its direction after the request.
pub(crate) fn half_close_client(port: u16) {
    let fd = dial(port);
    send_all(fd, &bytes(8, 200_000)).unwrap();
    say!("shutdown {}", show(shutdown(fd, libc::SHUT_WR)));
    say_end(fd);
}

/// Bytes of the requests before the server's last words: one turn, a little, an upload.
const REQUESTS: [usize; 3] = [100, 100_000, 20_000_000];

/// Reads to the end of the request, then answers and closes at once.
pub(crate) fn last_words_server() {
    let (listener, port) = serve();
    announce(port);
    for len in REQUESTS {
        let fd = accept(listener).unwrap();
        let (sum, error) = recv_to_end(fd);
        say!("request {len}: {sum}, error {error:?}");
        send_all(fd, b"farewell").unwrap();
        say!("close {}", show(close(fd)));
    }
}

/// Reads the answer after the server has closed: its socket knows both ends by then.
pub(crate) fn last_words_client(port: u16) {
    for len in REQUESTS {
        let fd = dial(port);
        for chunk in bytes(8, len).chunks(10_000) {
            send_all(fd, chunk).unwrap();
        }
        say!("shutdown {}", show(shutdown(fd, libc::SHUT_WR)));
        poll_one(fd, libc::POLLIN, 30_000).unwrap();
        pause_ms(50);
        say_end(fd);
    }
}

const SHORTS: usize = 50;

/// Connections of one request and one reply.
pub(crate) fn short_server() {
    let (listener, port) = serve();
    announce(port);
    serve_shorts(listener);
}

fn serve_shorts(listener: Fd) {
    let mut sum = Sum::default();
    for _ in 0..SHORTS {
        let fd = accept(listener).unwrap();
        let mut request = [0; 100];
        assert_eq!(recv_exact(fd, &mut request), Ok(100));
        sum.add(&request);
        send_all(fd, &request).unwrap();
        close(fd).unwrap();
    }
    say!("served {sum}");
}

/// The client of these: a reply, then the end of the stream, every time.
pub(crate) fn short_client(port: u16) {
    let mut sum = Sum::default();
    for turn in 0..SHORTS {
        let fd = dial(port);
        let request = bytes(turn as u64, 100);
        send_all(fd, &request).unwrap();
        let (reply, error) = recv_to_end(fd);
        assert_eq!((reply, error), (Sum::of(&request), None), "turn {turn}");
        sum.add(&request);
        close(fd).unwrap();
    }
    say!("received {sum}");
}

/// Short connections, then of each kind a long one.
pub(crate) fn long_after_short_server() {
    let (listener, port) = serve();
    announce(port);
    for kind in [Long::Talk, Long::Upload, Long::Download] {
        serve_shorts(listener);
        let fd = accept(listener).unwrap();
        match kind {
            Long::Talk => say!("answered {}", answer_all(fd)),
            Long::Upload => say!("received {:?}", recv_to_end(fd)),
            Long::Download => {
                send_in_parts(fd);
                say!("sent");
            }
        }
        say!("close {}", show(close(fd)));
    }
}

/// What a long connection carries.
#[derive(Clone, Copy, Debug)]
enum Long {
    Talk,
    Upload,
    Download,
}

fn send_in_parts(fd: Fd) {
    for part in 0..4000 {
        send_all(fd, &bytes(part, 4_000)).unwrap();
    }
}

/// The client of these.
pub(crate) fn long_after_short_client(port: u16) {
    for kind in [Long::Talk, Long::Upload, Long::Download] {
        short_client(port);
        let fd = dial(port);
        match kind {
            Long::Talk => ask_many(fd, 300).unwrap(),
            Long::Upload => send_in_parts(fd),
            Long::Download => say_end(fd),
        }
        say!("close {}", show(close(fd)));
    }
}

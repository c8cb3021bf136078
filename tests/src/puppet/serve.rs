//! The puppet: obeys until the subject hangs up.

use super::control::{Control, Op, Order};
use super::show::Ret;
use super::subject::{Buffers, Way};
use super::{conn, pattern, sys, wait};
use std::collections::HashMap;
use std::time::Duration;

/// A connection seen from the puppet, with its place in both streams.
#[derive(Clone, Copy, Debug)]
struct End {
    fd: i32,
    sent: u64,
    read: u64,
}

/// What came back is not what was sent.
const WRONG: i64 = -1_000;
const BITE: usize = 64 * 1024;

fn failure(ret: Ret) -> i64 {
    -i64::from(ret.errno)
}

impl End {
    fn send(&mut self, count: usize) -> i64 {
        let data = pattern::stream(self.sent, count);
        let mut done = 0;
        while done < count {
            let ret = sys::send(self.fd, &data[done..], libc::MSG_NOSIGNAL);
            if ret.value < 0 {
                return failure(ret);
            }
            done += ret.count();
        }
        self.sent += count as u64;
        i64::try_from(count).unwrap_or(0)
    }

    /// Reads until `stop` says so of the total or the stream ends.
    fn read(&mut self, limit: u64, mut bite: impl FnMut() -> usize) -> i64 {
        let mut room = vec![0; BITE];
        let mut total = 0_u64;
        while total < limit {
            let left = usize::try_from(limit - total).unwrap_or(usize::MAX);
            let size = bite().min(left);
            let ret = sys::recv(self.fd, &mut room[..size], 0);
            if ret.value < 0 {
                return failure(ret);
            }
            if ret.value == 0 {
                break;
            }
            if !pattern::check(&room[..ret.count()], self.read) {
                return WRONG;
            }
            self.read += ret.count() as u64;
            total += ret.count() as u64;
        }
        i64::try_from(total).unwrap_or(0)
    }

    /// Reads to the end, whatever comes.
    fn count(&self) -> i64 {
        let mut room = vec![0; BITE];
        let mut total = 0;
        loop {
            let ret = sys::recv(self.fd, &mut room[..], 0);
            match ret.value {
                0 => return total,
                ..0 => return failure(ret),
                more => total += more,
            }
        }
    }

    fn duplex(&mut self, count: usize) -> i64 {
        let mut other = *self;
        let sender = std::thread::spawn(move || other.send(count));
        let read = self.read(count as u64, || BITE);
        let sent = sender.join().unwrap_or(WRONG);
        self.sent += count as u64;
        if sent == read {
            read
        } else {
            WRONG
        }
    }

    fn echo(self) {
        let mut room = vec![0; BITE];
        loop {
            let got = sys::recv(self.fd, &mut room[..], 0).count();
            if got == 0 || sys::send(self.fd, &room[..got], libc::MSG_NOSIGNAL).value < 0 {
                return;
            }
        }
    }
}

/// Bites and pauses at random, but the same ones in each run.
fn wild() -> impl FnMut() -> usize {
    let mut state = 88_172_645_463_325_252_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state % 64 {
            0 => std::thread::sleep(Duration::from_micros(50)),
            1..=8 => std::thread::yield_now(),
            _ => {}
        }
        1 + usize::try_from((state >> 8) % BITE as u64).unwrap_or(0)
    }
}

fn open(way: Way, order: Order, control: &Control) -> End {
    let size = |n| i32::try_from(n).unwrap_or(0);
    let buffers = Buffers { send: size(order.a), receive: size(order.b) };
    let fd = match way {
        Way::Listener(listener) => {
            buffers.apply(listener);
            control.answer(0);
            sys::accept(listener).expect("accept")
        }
        Way::Port(port) => {
            let fd = sys::socket();
            buffers.apply(fd);
            sys::connect(fd, port).expect("connect");
            fd
        }
    };
    End { fd, sent: 0, read: 0 }
}

fn close(end: End, reset: bool) -> i64 {
    if reset {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        sys::setsockopt(end.fd, libc::SOL_SOCKET, libc::SO_LINGER, linger);
    }
    sys::close(end.fd).value
}

fn play(order: Order, end: &mut End, client: bool) -> i64 {
    let later = |millis: i64| wait::pause(u64::try_from(millis).unwrap_or(0));
    let count = usize::try_from(order.a).unwrap_or(0);
    let small = i32::try_from(order.a).unwrap_or(0);
    match order.op {
        Op::Talk => {
            conn::talk(end.fd, client, order.a, order.b);
            0
        }
        Op::Send => {
            later(order.b);
            end.send(count)
        }
        Op::Read => {
            let pause = Duration::from_micros(order.b.unsigned_abs());
            end.read(count as u64, || {
                if pause.is_zero() {
                    return BITE;
                }
                std::thread::sleep(pause);
                4096
            })
        }
        Op::ReadToEnd if order.a == 0 => end.read(u64::MAX, || BITE),
        Op::ReadToEnd => end.read(u64::MAX, wild()),
        Op::Count => end.count(),
        Op::Shutdown => {
            later(order.b);
            sys::shutdown(end.fd, small).value
        }
        Op::Urgent => sys::send(end.fd, &[order.a.to_le_bytes()[0]], libc::MSG_OOB).value,
        Op::Duplex => end.duplex(count),
        Op::Flood => loop {
            let sent = end.send(BITE);
            if sent < 0 {
                return sent;
            }
        },
        Op::Open | Op::Close | Op::Echo => 0,
    }
}

/// Does as told; returns what the puppet has to say at the end.
pub(crate) fn obey(way: Way, control: &Control) -> String {
    let client = matches!(way, Way::Port(_));
    let mut ends: HashMap<usize, End> = HashMap::new();
    let mut echoes: HashMap<usize, std::thread::JoinHandle<()>> = HashMap::new();
    let mut orders = 0_u32;
    while let Some(order) = control.obey() {
        let result = match order.op {
            Op::Open => {
                ends.insert(order.conn, open(way, order, control));
                0
            }
            Op::Close => {
                wait::pause(order.b.unsigned_abs());
                let end = ends.remove(&order.conn);
                // The number may be used again at once: no thread may still believe in it.
                if let (Some(end), Some(echo)) = (end, echoes.remove(&order.conn)) {
                    sys::shutdown(end.fd, libc::SHUT_RDWR);
                    let _ = echo.join();
                }
                end.map_or(0, |end| close(end, order.a != 0))
            }
            Op::Echo => {
                if let Some(&end) = ends.get(&order.conn) {
                    echoes.insert(order.conn, std::thread::spawn(move || end.echo()));
                }
                0
            }
            _ => ends.get_mut(&order.conn).map_or(WRONG, |end| play(order, end, client)),
        };
        control.answer(result);
        orders += 1;
    }
    format!("{orders} orders, {} left open", ends.len())
}

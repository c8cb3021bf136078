//! C1 to C3: blocking calls finish, buffers bound.

use smc_tests::puppet::sys::{self, Out};
use smc_tests::puppet::{show, wait, Buffers, Subject};
use smc_tests::say;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// A blocking send returns the whole count, however slowly the peer reads.
pub(crate) fn whole(subject: &Subject) {
    let conn = subject.connect();
    let some = [Out::Send, Out::Writev];
    for (size, micros, ways) in
        [(MIB, 0, &Out::ALL[..]), (MIB, 300, &some[..]), (8 * MIB, 20, &some[..1])]
    {
        for &way in ways {
            conn.start_read(size, micros);
            let ret = conn.sent(way.call(conn.fd, &conn.payload(size)[..], 0));
            say!("{way:?} of {size}: {ret}, peer read {}", conn.finish());
        }
        let data = conn.payload(size);
        let pieces: Vec<sys::Mem> = data.chunks(size / 13).map(Into::into).collect();
        conn.start_read(size, micros);
        let ret = conn.sent(sys::writev(conn.fd, &sys::iov(&pieces)));
        say!("writev of {} pieces: {ret}, peer read {}", pieces.len(), conn.finish());
    }
    conn.start_read(3 * MIB, 50);
    let ret = conn.send(3 * MIB, libc::MSG_WAITALL | libc::MSG_NOSIGNAL);
    say!("with WAITALL: {ret}, peer read {}", conn.finish());
}

/// Buffers of every size carry everything, and the options read back as they do on TCP.
pub(crate) fn buffer_sizes(subject: &Subject) {
    const SIZE: usize = 300_001;
    for size in [1, 2303, 4608, 16_384, 40_000, 65_536, 131_071, 262_144, 1_000_003, MIB as i32] {
        let conn = subject.connect_with(Buffers { send: size, receive: size });
        let option = |name| sys::getsockopt::<i32>(conn.fd, libc::SOL_SOCKET, name);
        say!("set {size}: {:?} {:?}", option(libc::SO_SNDBUF), option(libc::SO_RCVBUF));
        conn.start_duplex(SIZE);
        let mut fed = 0;
        let mut taken = true;
        while fed < SIZE {
            let step = (SIZE - fed).min(8_000);
            fed += conn.send(step, 0).count();
            taken &= conn.takes(step);
        }
        say!("  sent {fed}, received {}, peer {}", show::yes(taken), conn.finish());
    }
    let conn = subject.connect();
    for size in [0, 1, 16_384, 99_999, 300_000, MIB as i32] {
        for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            let set = sys::setsockopt(conn.fd, libc::SOL_SOCKET, name, size);
            let got = sys::getsockopt::<i32>(conn.fd, libc::SOL_SOCKET, name);
            say!("in mid-life {name} {size}: {set} {got:?}");
        }
        conn.start_read(SIZE, 0);
        let ret = conn.send(SIZE, 0);
        say!("  {ret}, peer {}", conn.finish());
        conn.peer_sends(10_000.min(usize::try_from(size).unwrap_or(0) / 4));
        say!("  taken {}", show::yes(conn.takes(wait::available(conn.fd))));
    }
}

/// A writer whose peer does not read stops after a bounded amount, and goes on when it does.
pub(crate) fn bounded(subject: &Subject) {
    const MOST: usize = 64 * MIB;
    const STEP: usize = 65_536;
    let conn = subject.connect();
    sys::nonblocking(conn.fd, true);
    let mut total = 0;
    while total < MOST {
        let ret = conn.send(STEP, 0);
        total += ret.count();
        if ret.is(libc::EAGAIN) && wait::poll(conn.fd, libc::POLLOUT, 200).0.value == 0 {
            break;
        }
    }
    say!("nonblocking: bounded {}, nothing lost {}", show::yes(total < MOST), {
        let read = conn.peer_reads(total);
        show::yes(usize::try_from(read) == Ok(total))
    });
    say!("writable again: {}", wait::poll(conn.fd, libc::POLLOUT, wait::LONG).0);

    sys::nonblocking(conn.fd, false);
    let count = Arc::new(AtomicU64::new(0));
    let (fd, seen, data) = (conn.fd, count.clone(), conn.payload(MOST));
    let writer = std::thread::spawn(move || {
        let mut ret = show::Ret { value: 0, errno: 0 };
        for piece in data.chunks(STEP) {
            let one = sys::send(fd, piece, 0);
            if one.value < 0 {
                return one;
            }
            seen.fetch_add(one.count() as u64, Ordering::Relaxed);
            ret.value += one.value;
        }
        ret
    });
    let mut last = u64::MAX;
    let stopped = wait::until(|| {
        wait::pause(200);
        let now = count.load(Ordering::Relaxed);
        std::mem::replace(&mut last, now) == now
    });
    let blocked = last < MOST as u64;
    say!("blocking: stopped {}, before the end {}", show::yes(stopped), show::yes(blocked));
    let read = conn.peer_reads(MOST);
    let wrote = writer.join().unwrap();
    say!("then wrote {wrote}, peer read {read}");
}

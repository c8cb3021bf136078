//! C13: threads on one socket, and threads on many.

use smc_tests::puppet::{show, sys, Subject};
use smc_tests::say;

/// One thread sends while another receives.
pub(crate) fn duplex(subject: &Subject) {
    let conn = subject.connect();
    for size in [1000, 100_000, 24 << 20] {
        conn.start_duplex(size);
        let (fd, data) = (conn.fd, conn.payload(size));
        let sender = std::thread::spawn(move || {
            let rets = data.chunks(30_011).map(|piece| sys::send(fd, piece, 0).value);
            rets.sum::<i64>()
        });
        let right = conn.takes(size);
        let sent = sender.join().unwrap();
        conn.sent(show::Ret { value: sent, errno: 0 });
        say!("{size}: sent {sent}, received {}, peer {}", show::yes(right), conn.finish());
    }
}

/// Thirty-two threads, each with a connection of its own to one that returns what comes.
pub(crate) fn many(subject: &Subject) {
    let conns: Vec<_> = (0..32).map(|_| subject.connect()).collect();
    let mut threads = Vec::new();
    for (id, conn) in conns.iter().enumerate() {
        conn.peer_echoes();
        let fd = conn.fd;
        threads.push(std::thread::spawn(move || {
            let mut seen = Vec::new();
            for turn in 0..60_usize {
                let size = 1 + (id * 7_919 + turn * 104_729) % 30_000;
                let data = smc_tests::puppet::stream((id * 1000 + turn) as u64, size);
                let sent = sys::send(fd, &data[..], 0).count();
                let mut back = vec![0; size];
                let mut have = 0;
                while have < size {
                    match sys::recv(fd, &mut back[have..], 0).count() {
                        0 => return None,
                        got => have += got,
                    }
                }
                if sent != size || back != data {
                    return None;
                }
                seen.extend_from_slice(&back);
            }
            Some(show::sum(&seen))
        }));
    }
    for (id, thread) in threads.into_iter().enumerate() {
        say!("thread {id}: {:?}", thread.join().unwrap());
    }
}

/// Four threads write records to one socket, four read from it: no record is torn, no byte lost.
pub(crate) fn shared_writers(subject: &Subject) {
    const RECORDS: usize = 3_000;
    const RECORD: usize = 64;
    let conn = subject.connect();
    conn.peer_echoes();
    let fd = conn.fd;
    let writers: Vec<_> = (0..4_u8)
        .map(|id| {
            std::thread::spawn(move || {
                (0..RECORDS).all(|_| sys::send(fd, &[id; RECORD], 0).value == RECORD as i64)
            })
        })
        .collect();
    let mut counts = [0_usize; 4];
    let mut torn = 0;
    for _ in 0..4 * RECORDS {
        let mut record = [0xff; RECORD];
        let ret = sys::recv(fd, &mut record, libc::MSG_WAITALL);
        if ret.count() != RECORD || record.iter().any(|&byte| byte != record[0]) {
            torn += 1;
        } else {
            counts[usize::from(record[0])] += 1;
        }
    }
    let wrote = writers.into_iter().all(|writer| writer.join().unwrap());
    say!("wrote {}, torn {torn}, records {counts:?}", show::yes(wrote));

    let conn = subject.connect();
    const TOTAL: usize = 4 << 20;
    conn.start_send(TOTAL, 10);
    let fd = conn.fd;
    let readers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut total = 0_u64;
                let mut bytes = 0;
                let mut room = [0; 5000];
                loop {
                    let got = sys::recv(fd, &mut room, 0).count();
                    if got == 0 {
                        return (bytes, total);
                    }
                    bytes += got;
                    total += room[..got].iter().map(|&byte| u64::from(byte)).sum::<u64>();
                }
            })
        })
        .collect();
    conn.finish();
    conn.peer_shuts(libc::SHUT_WR);
    let parts: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    let bytes: usize = parts.iter().map(|part| part.0).sum();
    let total: u64 = parts.iter().map(|part| part.1).sum();
    say!("four readers: {bytes} bytes, sum {total}");
}

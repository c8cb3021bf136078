//! C10: `sendfile`, `splice` and `tee`.

use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, Out};
use smc_tests::puppet::{wait, Conn, Subject};
use smc_tests::say;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};

/// An unnamed file with this content, read from its start.
fn file(content: &[u8]) -> File {
    let name = std::env::temp_dir().join(format!("smc-case-{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).open(&name).unwrap();
    std::fs::remove_file(&name).unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

fn sendfile(out: i32, input: i32, offset: Option<&mut i64>, count: usize) -> Ret {
    let offset = offset.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the offset is the caller's or absent.
    Ret::of_size(unsafe { libc::sendfile(out, input, offset, count) })
}

fn sendfile64(out: i32, input: i32, offset: Option<&mut i64>, count: usize) -> Ret {
    let offset = offset.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: as in `sendfile`.
    Ret::of_size(unsafe { libc::sendfile64(out, input, offset, count) })
}

/// Whole files, parts, beyond the end, with and without an offset, to sockets of either kind.
pub(crate) fn files(subject: &Subject) {
    let conn = subject.connect();
    for size in [1, 5_000, 100_000, 3 << 20] {
        for call in [sendfile, sendfile64] {
            let mut source = file(&conn.payload(size));
            conn.start_read(size, 0);
            let ret = conn.sent(call(conn.fd, source.as_raw_fd(), None, size));
            let at = source.stream_position().unwrap();
            say!("{size}: {ret}, peer read {}, position {at}", conn.finish());
            say!("  at the end: {}", call(conn.fd, source.as_raw_fd(), None, size));

            let source = file(&conn.payload(size));
            conn.start_read(size, 20);
            let mut offset = 0;
            let ret = conn.sent(call(conn.fd, source.as_raw_fd(), Some(&mut offset), size * 2));
            let at = (&source).stream_position().unwrap();
            say!("  by offset: {ret}, peer read {}, offset {offset}, position {at}", conn.finish());
        }
    }
    let mut source = file(&conn.payload(100));
    source.seek(SeekFrom::Start(40)).unwrap();
    let input = source.as_raw_fd();
    let first = conn.sent(sendfile(conn.fd, input, Some(&mut 0), 40));
    let second = conn.sent(sendfile(conn.fd, input, None, 1000));
    say!("two parts: {first} {second}, peer read {}", conn.peer_reads(100));
    source.write_all(&conn.payload(50)).unwrap();
    let grown = conn.sent(sendfile(conn.fd, input, Some(&mut 100), 1000));
    say!("grown: {grown}, peer read {}", conn.peer_reads(50));
    say!("none: {}", sendfile(conn.fd, input, Some(&mut 0), 0));
    say!("far beyond: {}", sendfile(conn.fd, input, Some(&mut 9999), 10));
    say!("before the start: {}", sendfile(conn.fd, input, Some(&mut -1), 10));
    say!("closed: {} {}", sendfile(-1, input, None, 10), sendfile(conn.fd, -1, None, 10));
    // SAFETY: the kernel checks the address of the offset, which is bad on purpose.
    let ret = unsafe { libc::sendfile(conn.fd, input, std::ptr::without_provenance_mut(8), 10) };
    say!("bad offset: {}", Ret::of_size(ret));
    nonblocking(&conn);
    conn.send(7, 0);
    say!("in order: {}", conn.peer_reads(7));
    sys::shutdown(conn.fd, libc::SHUT_WR);
    let mut set = [0; 1];
    // SAFETY: no pointers; SIGPIPE is ignored in these programs.
    set[0] = unsafe { libc::sendfile(conn.fd, input, std::ptr::null_mut(), 10) };
    say!("after shutdown, at the end of the file: {}", set[0]);
    say!("after shutdown: {}", sendfile(conn.fd, input, Some(&mut 0), 10));
}

/// A nonblocking socket takes a part, then EAGAIN, then the rest.
fn nonblocking(conn: &Conn) {
    const SIZE: usize = 40 << 20;
    let source = file(&conn.payload(SIZE));
    let mut offset = 0;
    sys::nonblocking(conn.fd, true);
    let first = conn.sent(sendfile(conn.fd, source.as_raw_fd(), Some(&mut offset), SIZE));
    let part = first.value > 0 && first.count() < SIZE && offset == first.value;
    // What is in flight makes room for a while; then nothing fits.
    let mut refused = false;
    while !refused {
        let ret = conn.sent(sendfile(conn.fd, source.as_raw_fd(), Some(&mut offset), SIZE));
        assert!(ret.value != 0 && (ret.value > 0 || ret.is(libc::EAGAIN)), "sendfile {ret}");
        refused = ret.value < 0;
    }
    conn.start_read(SIZE, 0);
    while usize::try_from(offset).unwrap() < SIZE {
        let left = SIZE - usize::try_from(offset).unwrap();
        let ret = conn.sent(sendfile(conn.fd, source.as_raw_fd(), Some(&mut offset), left));
        if ret.value < 0 {
            assert!(ret.is(libc::EAGAIN), "sendfile {ret}");
            assert_eq!(wait::poll(conn.fd, libc::POLLOUT, wait::LONG).0.value, 1, "no room");
        }
    }
    let (part, refused) = (show::yes(part), show::yes(refused));
    say!("nonblocking: part {part}, EAGAIN {refused}, peer read {}", conn.finish());
    sys::nonblocking(conn.fd, false);
}

fn splice(from: i32, to: i32, count: usize, flags: u32) -> Ret {
    let null = std::ptr::null_mut();
    // SAFETY: offsets may be absent.
    Ret::of_size(unsafe { libc::splice(from, null, to, null, count, flags) })
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (read.into(), write.into())
}

/// Splices until so much has moved.
fn splice_all(from: i32, to: i32, count: usize) -> usize {
    let mut moved = 0;
    while moved < count {
        match splice(from, to, count - moved, 0).count() {
            0 => break,
            more => moved += more,
        }
    }
    moved
}

/// A pipe that waits, with something in it already: what does not fit is not waited for.
fn into_a_filled_pipe(from: &Conn) {
    const SIZE: usize = 300_000;
    let (read, write) = pipe();
    let into = write.as_raw_fd();
    from.start_send(SIZE, 0);
    let mut right = true;
    let mut have = 0;
    for before in [1, 246, 4_096, 60_000].into_iter().cycle() {
        Out::Write.call(into, &vec![9; before][..], 0);
        let mut moved = 0;
        while have + moved < SIZE {
            let nowait = libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
            sys::nonblocking(from.fd, true);
            let ret = splice(from.fd, into, SIZE - have - moved, nowait);
            moved += ret.count();
            if ret.value <= 0 {
                break;
            }
        }
        let mut data = vec![0; before + moved];
        let mut file = File::from(read.try_clone().unwrap());
        file.read_exact(&mut data).unwrap();
        right &= data[..before].iter().all(|&byte| byte == 9) && from.came(&data[before..]);
        have += moved;
        if have == SIZE {
            break;
        }
        wait::poll(from.fd, libc::POLLIN, wait::LONG);
    }
    sys::nonblocking(from.fd, false);
    say!("into a filled pipe: {have}, right {}, peer {}", show::yes(right), from.finish());
}

/// From socket to pipe to socket, with a copy by `tee` on the way.
pub(crate) fn splices(subject: &Subject) {
    let (from, to) = (subject.connect(), subject.connect());
    let (read, write) = pipe();
    let (out, into) = (read.as_raw_fd(), write.as_raw_fd());
    for size in [1, 1_000, 30_000] {
        from.peer_sends(size);
        let moved = splice_all(from.fd, into, size);
        let (second, copy) = pipe();
        // SAFETY: no pointers.
        let ret = unsafe { libc::tee(out, copy.as_raw_fd(), size, 0) };
        let mut data = vec![0; size];
        File::from(second).read_exact(&mut data).unwrap();
        say!("{size}: in {moved}, tee {ret}, right {}", show::yes(from.came(&data)));
        // Both streams are the same function of the offset, and both started together.
        to.sent(Ret { value: moved as i64, errno: 0 });
        say!("  out {}, peer read {}", splice_all(out, to.fd, size), to.peer_reads(size));
    }
    let none = libc::SPLICE_F_NONBLOCK;
    say!("empty pipe: {}", splice(out, to.fd, 10, none));
    // SPLICE_F_NONBLOCK speaks of the pipe alone; the socket has its own flag.
    sys::nonblocking(from.fd, true);
    say!("empty socket: {} {}", splice(from.fd, into, 10, none), splice(from.fd, into, 10, 0));
    sys::nonblocking(from.fd, false);
    say!("socket to socket: {}", splice(from.fd, to.fd, 10, none));
    say!("of none: {}", splice(from.fd, into, 0, none));
    let (null, mut offset) = (std::ptr::null_mut(), 0_i64);
    // SAFETY: the offset lives here.
    let ret = unsafe { libc::splice(from.fd, &raw mut offset, into, null, 10, none) };
    say!("with an offset: {}", Ret::of_size(ret));
    // SAFETY: no pointers.
    let ret = unsafe { libc::tee(from.fd, into, 10, none) };
    say!("tee of a socket: {}", Ret::of_size(ret));
    for flags in [0, none] {
        from.start_send(500, 40);
        let moved = splice(from.fd, into, 500, flags);
        say!("waits: {moved}, peer {}", from.finish());
        let mut data = vec![0; 500];
        sys::In::Read.call(out, &mut data[..], 0);
        say!("right {}", show::yes(from.came(&data)));
    }
    into_a_filled_pipe(&from);
    say!("a big pipe full: {}", {
        const BIG: usize = 2 << 20;
        let feeder = std::thread::spawn({
            let data = to.payload(BIG);
            move || {
                let sent = data.chunks(50_000).map(|piece| Out::Write.call(into, piece, 0).value);
                sent.sum::<i64>()
            }
        });
        to.start_read(BIG, 0);
        let moved = splice_all(out, to.fd, BIG);
        to.sent(Ret { value: moved as i64, errno: 0 });
        format!("{} {moved}, peer read {}", feeder.join().unwrap(), to.finish())
    });
    from.peer_sends(20);
    from.peer_shuts(libc::SHUT_WR);
    wait::tcp_state(from.fd, wait::state::CLOSE_WAIT);
    let last = [splice(from.fd, into, 100, 0), splice(from.fd, into, 100, 0)];
    say!("to the end: {} {}", last[0], last[1]);
}

//! D1, D5, D12, D13: several sockets in one epoll, one socket in several.

use super::matrix::{ET, IN, OUT, RDHUP};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{show, sys, Conn, Subject};
use smc_tests::say;

/// One event for each descriptor, with all its bits.
pub(crate) fn one_event(subject: &Subject) {
    let conns: Vec<_> = (0..3).map(|_| subject.connect()).collect();
    let epoll = Epoll::new();
    for (id, conn) in conns.iter().enumerate() {
        epoll.add(conn.fd, IN | OUT | RDHUP, id as u64);
    }
    say!("new: {}", epoll.twice());
    for conn in &conns {
        conn.peer_sends(10);
        conn.peer_sends(10);
    }
    say!("data: {}", epoll.twice());
    conns[1].peer_shuts(libc::SHUT_WR);
    wait::tcp_state(conns[1].fd, wait::state::CLOSE_WAIT);
    say!("end of one: {}", epoll.twice());
    say!("taken {}: {}", show::yes(conns[0].takes(20)), epoll.twice());
    say!("taken {}: {}", show::yes(conns[1].takes(20)), epoll.twice());
    for max in [0, -1] {
        let mut room = [libc::epoll_event { events: 0, u64: 0 }; 1];
        // SAFETY: the kernel refuses these counts before it looks at the array.
        let ret = unsafe { libc::epoll_wait(epoll.fd, room.as_mut_ptr(), max, 0) };
        say!("at most {max}: {}", show::Ret::of(ret));
    }
    // SAFETY: the kernel checks the address, which is bad on purpose.
    let ret = unsafe { libc::epoll_wait(epoll.fd, std::ptr::without_provenance_mut(8), 4, 0) };
    say!("to a bad address: {}", show::Ret::of(ret));
    say!("still: {}", epoll.twice());
}

/// With room for one event, each ready descriptor gets its turn.
pub(crate) fn fair(subject: &Subject) {
    const COUNT: usize = 5;
    let conns: Vec<_> = (0..COUNT).map(|_| subject.connect()).collect();
    let pipe = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut &pipe.1, b"x").unwrap();
    let epoll = Epoll::new();
    for (id, conn) in conns.iter().enumerate() {
        epoll.add(conn.fd, IN, id as u64);
        conn.peer_sends(10);
    }
    epoll.add(std::os::fd::AsRawFd::as_raw_fd(&pipe.0), IN, COUNT as u64);
    for max in [1, 2, 4] {
        let mut seen = [false; COUNT + 1];
        let mut calls = 0;
        while seen.contains(&false) && calls < 50 {
            for (id, _) in epoll.wait(max, wait::LONG) {
                seen[usize::try_from(id).unwrap()] = true;
            }
            calls += 1;
        }
        // The kernel's order is a rotation: all are seen in as few calls as fit, or one more.
        let least = (COUNT + 1).div_ceil(usize::try_from(max).unwrap());
        say!("by {max}: all seen {}, at once {}", show::yes(!seen.contains(&false)), {
            show::yes(calls <= 2 * least + 1)
        });
    }
}

/// Who becomes ready first is told of first, whatever carries the bytes.
pub(crate) fn in_order(subject: &Subject) {
    const ORDERS: [[usize; 6]; 4] =
        [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2], [2, 5, 0, 4, 3, 1]];
    let mut conns: Vec<_> = (0..6).map(|_| subject.connect()).collect();
    for (name, kind) in [("level", 0), ("edge", ET)] {
        let epoll = Epoll::new();
        for (id, conn) in conns.iter().enumerate() {
            epoll.add(conn.fd, IN | kind, id as u64);
        }
        say!("{name}: nothing {}", epoll.twice());
        for order in ORDERS {
            for id in order {
                conns[id].peer_sends(10);
            }
            let told = |got: Vec<(u64, u32)>| got.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            // In two parts: who is left comes first the next time.
            let mut first = told(epoll.wait_in_order(4, 0));
            for id in &first {
                assert!(conns[usize::try_from(*id).unwrap()].takes(10));
            }
            first.extend(told(epoll.wait_in_order(4, 0)));
            say!("{name}: sent {order:?}, told {first:?}");
            for id in &first[4..] {
                assert!(conns[usize::try_from(*id).unwrap()].takes(10));
            }
            say!("{name}: then {}", epoll.twice());
        }
    }
    // Of a connection that is on its way to a ring the kernel speaks first: it knows no times.
    if subject.is_warm() {
        ends_in_order(subject, &conns);
    }
    // One that is new, and speaks before another that is not.
    let new = subject.connect_new();
    let epoll = Epoll::new();
    epoll.add(conns[0].fd, IN, 0);
    epoll.add(new.fd, IN, 1);
    new.peer_sends(10);
    conns[0].peer_sends(10);
    say!("a new one first: {:?}", epoll.wait_in_order(4, 0));
    conns.clear();
}

/// Ends have their place, too: each way of ending after the words of one and before those of another.
fn ends_in_order(subject: &Subject, conns: &[Conn]) {
    for (name, kind) in [("level", 0), ("edge", ET)] {
        for how in ["close", "shut", "reset"] {
            let ended = subject.connect();
            let epoll = Epoll::new();
            for (id, conn) in conns.iter().enumerate() {
                epoll.add(conn.fd, IN | kind, id as u64);
            }
            epoll.add(ended.fd, IN | kind, 9);
            let _ = epoll.twice();
            conns[2].peer_sends(10);
            match how {
                "close" => ended.peer_closes(),
                "shut" => assert_eq!(ended.peer_shuts(libc::SHUT_WR), 0),
                _ => ended.peer_resets(),
            }
            conns[1].peer_sends(10);
            let told: Vec<u64> = (0..3)
                .flat_map(|_| epoll.wait_in_order(1, 0))
                .map(|(id, _)| {
                    if id < 9 {
                        assert!(conns[usize::try_from(id).unwrap()].takes(10));
                    } else {
                        epoll.control(libc::EPOLL_CTL_DEL, ended.fd, 0, 0);
                    }
                    id
                })
                .collect();
            say!("{name}, {how} between: told {told:?}");
        }
    }
}

/// One socket in two epolls: both say so, each by its own rule.
pub(crate) fn two_epolls(subject: &Subject) {
    let mut conn = subject.connect();
    let (level, edge) = (Epoll::new(), Epoll::new());
    level.add(conn.fd, IN, 1);
    edge.add(conn.fd, IN | RDHUP | ET, 2);
    say!("new: {} | {}", level.twice(), edge.twice());
    conn.peer_sends(10);
    say!("data: {} | {}", level.twice(), edge.twice());
    say!("taken {}: {} | {}", show::yes(conn.takes(10)), level.twice(), edge.twice());
    conn.peer_sends(10);
    say!("data: {} | {}", edge.twice(), level.twice());
    level.control(libc::EPOLL_CTL_DEL, conn.fd, 0, 0);
    conn.peer_sends(10);
    say!("deleted from one: {} | {}", level.twice(), edge.twice());
    level.add(conn.fd, IN | ET, 3);
    say!("back: {} | {}", level.twice(), edge.twice());
    conn.peer_sends(10);
    let second = Epoll::new();
    second.add(conn.fd, IN, 4);
    say!("a third: {} | {} | {}", level.twice(), edge.twice(), second.twice());
    drop(second);
    say!("without it: {} | {}", level.twice(), edge.twice());
    conn.peer_sends(10);
    say!("data: {} | {}", level.twice(), edge.twice());
    say!("close {}: {} | {}", conn.close(), level.twice(), edge.twice());
}

/// A duplicate is another registration of the same socket, and keeps it alive.
pub(crate) fn duplicates(subject: &Subject) {
    let mut conn = subject.connect();
    let epoll = Epoll::new();
    let old = conn.fd;
    let other = sys::dup(old).expect("dup");
    epoll.add(old, IN, 1);
    epoll.add(other, IN, 2);
    conn.peer_sends(10);
    say!("both: {}", epoll.twice());
    say!("close of the first {}: {}", conn.close(), epoll.twice());
    let del = epoll.control(libc::EPOLL_CTL_DEL, old, 0, 0);
    say!("it cannot be deleted by its number: {del}");
    conn.fd = other;
    say!("read by the second {}: {}", show::yes(conn.takes(10)), epoll.twice());
    conn.peer_sends(10);
    say!("data: {}", epoll.twice());
    let third = sys::dup(other).expect("dup");
    say!("del by a third: {}", epoll.control(libc::EPOLL_CTL_DEL, third, 0, 0));
    sys::close(third);
    say!("taken {}", show::yes(conn.takes(10)));
    say!("close of the second {}: {}", conn.close(), epoll.twice());

    // dup2 over a registered number.
    let (mut a, b) = (subject.connect(), subject.connect());
    let epoll = Epoll::new();
    epoll.add(a.fd, IN, 1);
    b.peer_sends(10);
    // SAFETY: no pointers.
    let ret = unsafe { libc::dup2(b.fd, a.fd) };
    say!("dup2 {}: {}", show::yes(ret == a.fd), epoll.twice());
    epoll.add(a.fd, IN, 3);
    say!("added: {}", epoll.twice());
    say!("close {}: {}", a.close(), epoll.twice());
    say!("read by the other {}", show::yes(b.takes(10)));
    say!("in the end {}", epoll.twice());
}

/// What `epoll_ctl` refuses.
pub(crate) fn bad_control(subject: &Subject) {
    let mut conn = subject.connect();
    let epoll = Epoll::new();
    let (add, modify, delete) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL);
    let fd = conn.fd;
    say!("mod of none {}", epoll.control(modify, fd, IN, 0));
    say!("del of none {}", epoll.control(delete, fd, IN, 0));
    say!("add {} {}", epoll.control(add, fd, IN, 0), epoll.control(add, fd, IN, 0));
    say!("unknown {}", epoll.control(9, fd, IN, 0));
    say!("itself {}", epoll.control(add, epoll.fd, IN, 0));
    say!("not open {} {}", epoll.control(add, -1, IN, 0), epoll.control(add, 100_000, IN, 0));
    let exclusive = libc::EPOLLEXCLUSIVE.cast_unsigned();
    say!("to exclusive {}", epoll.control(modify, fd, IN | exclusive, 0));
    let control = |epfd, op, event| {
        // SAFETY: the kernel checks the address of the event.
        show::Ret::of(unsafe { libc::epoll_ctl(epfd, op, fd, event) })
    };
    let null = std::ptr::null_mut();
    say!("no event {} {}", control(epoll.fd, modify, null), control(epoll.fd, delete, null));
    say!("bad event {}", control(epoll.fd, add, std::ptr::without_provenance_mut(8)));
    let mut event = libc::epoll_event { events: IN, u64: 0 };
    say!("no epoll {} {}", control(fd, add, &raw mut event), control(-1, add, &raw mut event));
    epoll.add(fd, IN, 0);
    conn.peer_sends(5);
    say!("works {}", epoll.twice());
    say!("close {}", conn.close());
    say!("mod after close {}", epoll.control(modify, fd, IN, 0));
    say!("del after close {}", epoll.control(delete, fd, IN, 0));
    say!("none {}", epoll.twice());
}

/// A duplicate of the epoll descriptor is the same instance, and outlives the first.
pub(crate) fn epoll_duplicate(subject: &Subject) {
    let conn = subject.connect();
    let first = Epoll::new();
    let other = Epoll { fd: sys::dup(first.fd).expect("dup") };
    first.add(conn.fd, IN | OUT | ET, 1);
    say!("new: {} | {}", other.now(), first.now());
    say!("the same: {}", other.control(libc::EPOLL_CTL_ADD, conn.fd, IN, 2));
    drop(first);
    conn.peer_sends(10);
    say!("data: {}", other.twice());
    other.modify(conn.fd, IN, 3);
    say!("level: {}", other.twice());
    let late = subject.connect();
    late.peer_sends(10);
    other.add(late.fd, IN, 4);
    say!("another: {}", other.twice());
    say!("taken {} {}", show::yes(conn.takes(10)), show::yes(late.takes(10)));
    say!("none: {}", other.twice());
}

/// EXCLUSIVE on a socket: no ONESHOT with it, no MOD of it, and data wakes at least one.
pub(crate) fn exclusive(subject: &Subject) {
    let exclusive = libc::EPOLLEXCLUSIVE.cast_unsigned();
    let conn = subject.connect();
    let all: Vec<Epoll> = (0..3).map(|_| Epoll::new()).collect();
    let oneshot = libc::EPOLLONESHOT.cast_unsigned();
    let add = libc::EPOLL_CTL_ADD;
    say!("with ONESHOT {}", all[0].control(add, conn.fd, IN | exclusive | oneshot, 0));
    say!("with RDHUP {}", all[0].control(add, conn.fd, IN | exclusive | RDHUP, 0));
    for epoll in &all {
        epoll.add(conn.fd, IN | exclusive, 0);
    }
    say!("mod {}", all[0].control(libc::EPOLL_CTL_MOD, conn.fd, IN, 0));
    let fds: Vec<i32> = all.iter().map(|epoll| epoll.fd).collect();
    let waiters: Vec<_> = fds
        .into_iter()
        .map(|fd| std::thread::spawn(move || wait::poll(fd, libc::POLLIN, wait::LONG).0.value))
        .collect();
    wait::pause(30);
    conn.peer_sends(10);
    let woken = waiters.into_iter().filter_map(|waiter| waiter.join().ok());
    say!("polled: {}", show::yes(woken.sum::<i64>() >= 1));
    let level: Vec<String> = all.iter().map(Epoll::now).collect();
    say!("level at each: {}", level.join(" | "));
    say!("taken {}", show::yes(conn.takes(10)));
}

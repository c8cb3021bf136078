//! Children that are started as another program with a connection of their parent's.

use crate::images::Next;
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, recv_exact, recv_to_end, send_all, serve, set_inherited,
    shutdown, warm_client, warm_server, Fd,
};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::{child_that_leaves, pipe, read_byte, wait, write_byte, Leave};
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;
use std::ptr::{null, null_mut};

extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Starts the next image in a child, by some means; waits until it has begun where libc does.
pub(crate) fn start(how: &str, next: &Next, fds: &[Fd]) -> i32 {
    match how {
        "fork" => child_that_leaves(Leave::Quick, || {
            say!("exec: {}", next.exec(fds));
            127
        }),
        "vfork" => vforked(next, fds),
        "spawn" => spawned(next, fds),
        other => panic!("no such way: {other}"),
    }
}

fn vforked(next: &Next, fds: &[Fd]) -> i32 {
    let (path, words) = next.raw();
    // SAFETY: the child makes system calls alone, and leaves.
    #[allow(deprecated)]
    let pid = unsafe { libc::vfork() };
    if pid == 0 {
        for fd in fds {
            // SAFETY: no pointers.
            unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) };
        }
        // SAFETY: strings and vectors of the parent's, which waits.
        unsafe {
            libc::execve(path, words, environ.cast());
            libc::_exit(127)
        }
    }
    assert!(pid > 0);
    pid
}

fn spawned(next: &Next, fds: &[Fd]) -> i32 {
    let (path, words) = next.raw();
    for fd in fds {
        set_inherited(*fd, true);
    }
    let mut pid = 0;
    // SAFETY: strings and vectors that live until it returns.
    let error = unsafe { libc::posix_spawn(&mut pid, path, null(), null(), words.cast(), environ) };
    assert_eq!(error, 0);
    for fd in fds {
        set_inherited(*fd, false);
    }
    pid
}

/// A server whose child goes on as another image, while it closes: the child alone serves.
pub(crate) fn hands_over_server(how: &str) {
    let (listener, port) = serve();
    announce(port);
    for round in 0..3 {
        let fd = accept_warm(listener);
        set_inherited(fd, false);
        set_inherited(listener, false);
        let pid = start(how, &Next::this("serve_all", &[fd]), &[fd]);
        close(fd).unwrap();
        say!("round {round}: child left with {}", wait(pid));
    }
}

/// What its child does.
pub(crate) fn serve_all(fd: Fd) {
    warm_server(fd);
    say!("child: answered {}", answer_all(fd));
}

/// Its client.
pub(crate) fn hands_over_client(port: u16) {
    for round in 0..3 {
        let fd = dial_warm(port);
        warm_client(fd);
        ask_many(fd, 40).unwrap();
        shutdown(fd, libc::SHUT_WR).unwrap();
        let (rest, error) = recv_to_end(fd);
        say!("round {round}: then {rest}, error {error:?}");
        close(fd).unwrap();
    }
}

const TURNS: u8 = 40;
const TURN: usize = 3000;

/// Server and child, which is another image, answer requests of one connection in turn.
pub(crate) fn in_turn_server(how: &str) {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let (child_waits, parent_passes) = pipe();
    let (parent_waits, child_passes) = pipe();
    let all = [fd, child_waits, child_passes];
    for other in [listener, fd, child_waits, parent_passes, parent_waits, child_passes] {
        set_inherited(other, false);
    }
    let pid = start(how, &Next::this("odd_turns", &all), &all);
    turns(fd, parent_waits, parent_passes, 0);
    say!("child left with {}", wait(pid));
    // The parent alone holds it now.
    warm_server(fd);
    say!("answered {}", answer_all(fd));
}

fn turns(fd: Fd, waits: Fd, passes: Fd, first: u8) {
    for turn in (first..TURNS).step_by(2) {
        if turn > 0 {
            read_byte(waits);
        }
        let mut request = vec![0; TURN];
        assert_eq!(recv_exact(fd, &mut request), Ok(TURN), "turn {turn}");
        assert!(request == bytes(u64::from(turn), TURN), "turn {turn}: wrong bytes");
        request.reverse();
        send_all(fd, &request).unwrap();
        write_byte(passes);
    }
}

/// What its child does.
pub(crate) fn odd_turns(fd: Fd, waits: Fd, passes: Fd) {
    turns(fd, waits, passes, 1);
    say!("child: done");
}

/// Its client.
pub(crate) fn in_turn_client(port: u16) {
    let fd = dial_warm(port);
    for turn in 0..TURNS {
        let request = bytes(u64::from(turn), TURN);
        send_all(fd, &request).unwrap();
        let mut reply = vec![0; TURN];
        assert_eq!(recv_exact(fd, &mut reply), Ok(TURN), "turn {turn}");
        reply.reverse();
        assert!(reply == request, "turn {turn}: wrong bytes");
    }
    warm_client(fd);
    ask_many(fd, 20).unwrap();
    close(fd).unwrap();
    say!("done");
}

/// Programs that inherit the connection and do not use it: it goes on, and ends with its parent.
pub(crate) fn bystanders(fd: Fd) {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    set_inherited(fd, true);
    // SAFETY: constant strings.
    unsafe {
        say!("system: {}", libc::system(c"exit 3".as_ptr()));
        say!("missing: {}", libc::system(c"exec /no/such/program 2>/dev/null".as_ptr()));
        let stream = libc::popen(c"echo words".as_ptr(), c"r".as_ptr());
        let mut line = [0; 16];
        let read = libc::fgets(line.as_mut_ptr(), 16, stream);
        say!("popen: {} {}", !read.is_null(), line[0]);
        say!("pclose: {}", libc::pclose(stream));
        let mut pid = 0;
        let words = [c"/no/such".as_ptr(), null()];
        let error = libc::posix_spawn(
            &mut pid,
            c"/no/such".as_ptr(),
            null(),
            null(),
            words.as_ptr().cast(),
            environ,
        );
        say!("spawn of nothing: {error}");
        let long = std::ffi::CString::new(vec![b'x'; 200_000]).unwrap();
        let words = [c"/bin/sh".as_ptr(), long.as_ptr(), null()];
        let error = libc::posix_spawn(
            &mut pid,
            c"/bin/sh".as_ptr(),
            null(),
            null(),
            words.as_ptr().cast(),
            environ,
        );
        say!("spawn with too much: {error}");
        let mut pid = 0;
        let words = [c"true".as_ptr(), null_mut()];
        let error = libc::posix_spawnp(
            &mut pid,
            c"true".as_ptr(),
            null(),
            null(),
            words.as_ptr().cast(),
            environ,
        );
        say!("spawn by name: {error}, {}", wait(pid));
    }
    for how in ["fork", "vfork", "spawn"] {
        let pid = start(how, &Next::program("/bin/sh", &["-c", "exit 5"]), &[fd]);
        say!("{how}: {}", wait(pid));
    }
    let pid = vforked(&Next::program("/no/such/program", &[]), &[fd]);
    say!("vfork of nothing: {}", wait(pid));
    say!("descriptors stay: {}", open() == before);
}

/// The server's end of it.
pub(crate) fn bystanders_server() {
    let (listener, port) = serve();
    announce(port);
    set_inherited(listener, false);
    let fd = accept_warm(listener);
    bystanders(fd);
    say!("answered {}", answer_all(fd));
}

/// The client's.
pub(crate) fn bystanders_client(port: u16) {
    let fd = dial_warm(port);
    bystanders(fd);
    ask_many(fd, 40).unwrap();
    bystanders(fd);
    ask_many(fd, 5).unwrap();
    shutdown(fd, libc::SHUT_WR).unwrap();
    let (rest, error) = recv_to_end(fd);
    say!("then {rest}, error {error:?}");
}

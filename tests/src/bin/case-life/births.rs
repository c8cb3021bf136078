//! Children that several threads start at a time.

use smc_tests::harness::net::{
    accept_warm, close, dial_warm, read, recv, recv_exact, send_all, serve, Fd,
};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::{child, pipe, wait};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::say;
use std::process::{Command, Stdio};

/// Threads, and connections.
const THREADS: u64 = 6;
/// Programs that each starts.
const EACH: usize = 8;
/// Bytes of each connection; the kernel's buffers have room for them.
const BURST: usize = 24 << 10;

/// Some programs have held the connections for a while, and the last who closes each was this process:
/// so what its peer has not read is sent on, whatever the peer does then.
pub(crate) fn spawned_together_server() {
    let (listener, port) = serve();
    announce(port);
    // One more of the family lives, so that who holds what goes by the counts alone.
    let (hears, ends) = pipe();
    let other = child(|| {
        close(ends).unwrap();
        read(hears, &mut [0]).map_or(1, |n| i32::try_from(n).unwrap())
    });
    let quits = accept_warm(listener);
    let fds: Vec<Fd> = (0..THREADS).map(|_| accept_warm(listener)).collect();
    for (seed, fd) in (0..).zip(&fds) {
        send_all(*fd, &bytes(seed, BURST)).unwrap();
    }
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let mut program = Command::new("/bin/true");
                    program.stdin(Stdio::null()).stdout(Stdio::null());
                    assert!(program.status().unwrap().success());
                }
            });
        }
    });
    for fd in fds {
        close(fd).unwrap();
    }
    assert_eq!(read(quits, &mut [0]), Ok(0));
    close(ends).unwrap();
    say!("the other: {}", wait(other));
    say!("started {}", THREADS as usize * EACH);
}

/// Goes on over TCP with what is left, once the peer has closed.
pub(crate) fn spawned_together_client(port: u16) {
    let quits = dial_warm(port);
    let fds: Vec<Fd> = (0..THREADS).map(|_| dial_warm(port)).collect();
    for (seed, fd) in (0..).zip(fds) {
        let mut got = vec![0; BURST];
        recv_exact(fd, &mut got[..1]).unwrap();
        ready::poll_one(fd, libc::POLLRDHUP, -1).unwrap();
        // One that knows nothing of rings inherits it, so that it leaves shared memory.
        let mut program = Command::new("/bin/true");
        assert!(program.env_remove("LD_PRELOAD").status().unwrap().success());
        let rest = recv_exact(fd, &mut got[1..]);
        let right = got == bytes(seed, BURST);
        say!("{seed}: {rest:?}, right: {right}, then {:?}", recv(fd, &mut [0; 8], 0));
        close(fd).unwrap();
    }
    close(quits).unwrap();
}

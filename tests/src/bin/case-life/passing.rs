//! Connections that are passed to another program by SCM_RIGHTS.

use smc_tests::harness::net::{
    accept, close, dial, ioctl_int, recv_exact, recv_to_end, send_all, serve, shutdown,
    warm_client, warm_server, Fd,
};
use smc_tests::harness::payload::{bytes, Sum};
use smc_tests::harness::process::pause_ms;
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::{libc_call, say};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// When the connection is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Before its first byte.
    Fresh,
    /// So, and twice: one socket with two numbers for who receives it.
    Twice,
    /// In use.
    Warm,
    /// In use, with data that the passer has not read.
    Unread,
}

const UNREAD: usize = 50_000;

impl When {
    fn parse(word: &str) -> Self {
        match word {
            "fresh" => Self::Fresh,
            "twice" => Self::Twice,
            "warm" => Self::Warm,
            _ => Self::Unread,
        }
    }
}

/// Sends or receives one descriptor over a Unix socket.
fn rights(socket: Fd, pass: Option<Fd>) -> Fd {
    let mut byte = 0_u8;
    let mut vector = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // A head of sixteen bytes and a number.
    let mut control = [0_u64; 3];
    // SAFETY: a msghdr is plain numbers and pointers, for which zero is valid.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut vector;
    msg.msg_iovlen = 1;
    msg.msg_control = control.as_mut_ptr().cast();
    msg.msg_controllen = size_of_val(&control);
    // SAFETY: the control data have room for one head and one number.
    let (head, number) = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const msg);
        (head, libc::CMSG_DATA(head).cast::<Fd>())
    };
    if let Some(fd) = pass {
        // SAFETY: both point into the control data.
        unsafe {
            head.write(libc::cmsghdr {
                cmsg_len: 20,
                cmsg_level: libc::SOL_SOCKET,
                cmsg_type: libc::SCM_RIGHTS,
            });
            number.write_unaligned(fd);
        }
        assert_eq!(libc_call!(libc::sendmsg(socket, &msg, 0)), Ok(1), "pass");
        return fd;
    }
    assert_eq!(libc_call!(libc::recvmsg(socket, &mut msg, 0)), Ok(1), "receive");
    // SAFETY: as above.
    unsafe { number.read_unaligned() }
}

/// Sends a connection to this very program and goes on with the number that it gets: so it leaves
/// shared memory.
pub(super) fn through_a_message(fd: Fd) -> Fd {
    let (here, there) = UnixStream::pair().unwrap();
    rights(here.as_raw_fd(), Some(fd));
    let new = rights(there.as_raw_fd(), None);
    close(fd).unwrap();
    new
}

/// Passes the connection to another program, which plays this end from here on.
fn pass(fd: Fd, role: &str, when: &str, plain: bool) {
    let (here, there) = UnixStream::pair().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["received", "solo", role, when]).stdin(Stdio::from(OwnedFd::from(there)));
    if plain {
        command.env_remove("LD_PRELOAD");
    }
    let mut child = command.spawn().unwrap();
    rights(here.as_raw_fd(), Some(fd));
    if When::parse(when) == When::Twice {
        rights(here.as_raw_fd(), Some(fd));
    }
    close(fd).unwrap();
    say!("receiver: {}", child.wait().unwrap());
}

/// The program that the connection is passed to.
pub(crate) fn received(role: &str, when: &str) {
    let fd = rights(0, None);
    let other = if When::parse(when) == When::Twice { rights(0, None) } else { fd };
    if When::parse(when) == When::Unread {
        let mut data = vec![0; UNREAD];
        assert_eq!(recv_exact(fd, &mut data), Ok(UNREAD));
        say!("unread ones {}", Sum::of(&data));
    }
    play(fd, other, role);
}

/// What both ends do after the passing; `other` is the same connection.
fn play(fd: Fd, other: Fd, role: &str) {
    if role == "server" {
        warm_server(fd);
        say!("answered {}", answer_all(other));
    } else {
        warm_client(fd);
        ask_many(fd, 40).unwrap();
        shutdown(fd, libc::SHUT_WR).unwrap();
        let (rest, error) = recv_to_end(fd);
        say!("then {rest}, error {error:?}");
    }
    close(fd).unwrap();
}

/// One end: `[who passes, when, to whom]`.
fn end(fd: Fd, role: &str, args: &[&str]) {
    let (passer, when, plain) = (args[0], args[1], args[2] == "plain");
    let time = When::parse(when);
    if time != When::Fresh && time != When::Twice {
        if role == "server" {
            warm_server(fd);
        } else {
            warm_client(fd);
        }
    }
    if role != passer {
        if time == When::Unread {
            send_all(fd, &bytes(9, UNREAD)).unwrap();
        }
        play(fd, fd, role);
        return;
    }
    while time == When::Unread && ioctl_int(fd, libc::FIONREAD).unwrap() < UNREAD as i32 {
        pause_ms(1);
    }
    pass(fd, role, when, plain);
}

/// The server's end.
pub(crate) fn server(args: &[&str]) {
    let (listener, port) = serve();
    announce(port);
    end(accept(listener).unwrap(), "server", args);
}

/// The client's end.
pub(crate) fn client(port: u16, args: &[&str]) {
    end(dial(port), "client", args);
}

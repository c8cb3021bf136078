//! Descriptors that the program did not open, and those that it closes.

use smc_tests::harness::net::{accept_warm, close, dial_warm, read, recv_to_end, serve, Fd};
use smc_tests::harness::process::open_fds;
use smc_tests::harness::role::announce;
use smc_tests::harness::{net, talk};
use smc_tests::{libc_call, say};
use std::process::{Command, Stdio};

fn is_open(fd: Fd) -> bool {
    libc_call!(libc::fcntl(fd, libc::F_GETFD)).is_ok()
}

/// Descriptors that `fstat` knows, by which some programs look for what they have inherited.
fn statable() -> Vec<Fd> {
    // SAFETY: requires an all-zero `stat` to be valid: integers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    (0..20_000).filter(|fd| libc_call!(libc::fstat(*fd, &raw mut stat)).is_ok()).collect()
}

/// Says which descriptors it was given.
pub(crate) fn list() {
    say!("descriptors {:?}, known to fstat {:?}", open_fds(), statable());
}

/// A child inherits what it would inherit bare.
fn child_lists(fd: Fd) {
    let kept = libc_call!(libc::fcntl(fd, libc::F_DUPFD, 50)).unwrap();
    let own = std::env::current_exe().unwrap();
    let output = Command::new(own).args(["list", "solo"]).stdin(Stdio::null()).output().unwrap();
    say!("inherited: {}", String::from_utf8_lossy(&output.stdout).trim_end());
    say!("own: {:?}", statable());
    close(i32::try_from(kept).unwrap()).unwrap();
}

/// Lists before the first connection, with one in use, and after it.
pub(crate) fn child_lists_server() {
    let (listener, port) = serve();
    child_lists(listener);
    announce(port);
    let fd = accept_warm(listener);
    child_lists(fd);
    say!("answered {}", talk::answer_all(fd));
    close(fd).unwrap();
    child_lists(listener);
}

/// The same on the client's side.
pub(crate) fn child_lists_client(port: u16) {
    child_lists(2);
    let fd = dial_warm(port);
    child_lists(fd);
    talk::ask_many(fd, 20).unwrap();
    close(fd).unwrap();
}

extern "C" {
    fn closefrom(lowest: i32);
}

/// Closes everything from 3 up, in one of the ways in which programs do it.
fn close_everything(how: &str) {
    match how {
        "loop" => {
            for fd in 3..2000 {
                let _ = close(fd);
            }
        }
        "range" => {
            let all = libc_call!(libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32));
            assert_eq!(all, Ok(0));
        }
        "hooked range" => {
            let all = libc_call!(libc::close_range(3, u32::MAX, 0));
            assert_eq!(all, Ok(0));
        }
        // SAFETY: no pointers; nothing in this program owns a descriptor from 3 up.
        "from" => unsafe { closefrom(3) },
        "listed" => {
            for fd in open_fds().into_iter().filter(|&fd| fd > 2) {
                let _ = close(fd);
            }
        }
        other => panic!("no such way: {other}"),
    }
}

/// Closes everything at the start, and once more with connections behind it.
pub(crate) fn close_all_server(how: &str) {
    close_everything(how);
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    say!("listener {listener}, connection {fd}");
    say!("answered {}", talk::answer_all(fd));
    close_everything(how);
    let (listener, port) = serve();
    let client = net::dial(port);
    let server = net::accept(listener).unwrap();
    say!("listener {listener}, client {client}, server {server}");
    let answering = std::thread::spawn(move || talk::answer_all(server));
    talk::ask_many(client, 20).unwrap();
    close(client).unwrap();
    say!("answered {}", answering.join().unwrap());
}

/// Closes everything with the connection open, which the server sees as its end.
pub(crate) fn close_all_client(port: u16, how: &str) {
    let fd = dial_warm(port);
    talk::ask_many(fd, 30).unwrap();
    close_everything(how);
    say!("still open: {}", is_open(fd));
    say!("read: {}", net::show(read(fd, &mut [0; 4])));
    let (server, client) = net::pair_warm();
    say!("client {client}, server {server}");
    close(client).unwrap();
    say!("end: {:?}", recv_to_end(server));
}

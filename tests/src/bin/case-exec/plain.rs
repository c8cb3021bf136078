//! Where the connection goes back to TCP, or the exec fails: the stream is whole all the same.

use crate::again::await_unread;
use crate::images::Next;
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, recv_exact, recv_to_end, send_all, serve, set_inherited,
    shutdown, warm_client, warm_server, Fd,
};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::{child_that_leaves, dup2, wait, Leave};
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;

/// Files that cannot be run: none, one without the permission, one that is no program, a script
/// without its interpreter, a directory.
fn failures(fd: Fd) {
    let folder = std::env::temp_dir().join(format!("case-exec-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let make = |name: &str, text: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = [
        "/no/such/program".to_owned(),
        make("closed", "#!/bin/sh\n", 0o644),
        make("orphan", "#!/no/such/shell\n", 0o755),
        folder.to_str().unwrap().to_owned(),
    ];
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for file in files {
        say!("exec: {}", Next::program(&file, &[]).exec(&[fd]));
    }
    // One that is found to fail only when all is prepared.
    let own = std::env::current_exe().unwrap();
    let long = "x".repeat(200_000);
    for _ in 0..3 {
        say!("exec: {}", Next::program(own.to_str().unwrap(), &[&long]).exec(&[fd]));
    }
    say!("descriptors stay: {}", open() == before);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The server fails to exec, again and again, with data unread.
pub(crate) fn fails_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    await_unread(fd, 5000);
    failures(fd);
    // Beside another thread.
    std::thread::spawn(|| smc_tests::harness::process::pause_ms(60_000));
    failures(fd);
    let mut unread = vec![0; 5000];
    assert_eq!(recv_exact(fd, &mut unread), Ok(5000));
    say!("unread is right: {}", unread == bytes(3, 5000));
    warm_server(fd);
    say!("answered {}", answer_all(fd));
}

/// So does its client.
pub(crate) fn fails_client(port: u16) {
    let fd = dial_warm(port);
    send_all(fd, &bytes(3, 5000)).unwrap();
    failures(fd);
    warm_client(fd);
    ask_many(fd, 40).unwrap();
    failures(fd);
    ask_many(fd, 40).unwrap();
    close(fd).unwrap();
}

/// The server becomes an image without the library.
pub(crate) fn foreign_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let marks = std::env::vars().filter(|(name, _)| name.starts_with("SMC_TEST"));
    let kept: Vec<String> = marks.map(|(name, value)| format!("{name}={value}")).collect();
    let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
    say!("exec: {}", Next::this("foreign_serve", &[fd]).exec_with(&[fd], &kept));
}

/// What it does there.
pub(crate) fn foreign_serve(fd: Fd) {
    say!("answered {}", answer_all(fd));
    shutdown(fd, libc::SHUT_WR).unwrap();
}

/// Its client.
pub(crate) fn foreign_client(port: u16) {
    let fd = dial_warm(port);
    ask_many(fd, 60).unwrap();
    shutdown(fd, libc::SHUT_WR).unwrap();
    let (rest, error) = recv_to_end(fd);
    say!("then {rest}, error {error:?}");
}

/// Children become a program that no library can be loaded into, by each of the ways.
pub(crate) fn static_server(program: &str) {
    let (listener, port) = serve();
    announce(port);
    set_inherited(listener, false);
    for how in ["fork", "vfork", "spawn"] {
        let fd = accept_warm(listener);
        set_inherited(fd, false);
        let next = Next::program(program, &[&fd.to_string()]);
        let pid = crate::children::start(how, &next, &[fd]);
        close(fd).unwrap();
        say!("{how}: left with {}", wait(pid));
    }
}

/// A server in the manner of inetd: its child puts the connection on 0 and 1 and becomes `cat`.
pub(crate) fn standard_server(how: &str) {
    let (listener, port) = serve();
    announce(port);
    set_inherited(listener, false);
    for round in 0..3 {
        let fd = accept_warm(listener);
        set_inherited(fd, false);
        let cat = Next::program("/bin/cat", &[]);
        let pid = match how {
            "fork" => child_that_leaves(Leave::Quick, || {
                dup2(fd, 0).unwrap();
                dup2(fd, 1).unwrap();
                close(fd).unwrap();
                cat.exec(&[]);
                127
            }),
            "vfork" => {
                let (path, words) = cat.raw();
                // SAFETY: the child makes system calls alone, and leaves.
                #[allow(deprecated)]
                let pid = unsafe { libc::vfork() };
                if pid == 0 {
                    // SAFETY: strings and vectors of the parent's, which waits.
                    unsafe {
                        libc::dup2(fd, 0);
                        libc::dup2(fd, 1);
                        libc::execv(path, words);
                        libc::_exit(127)
                    }
                }
                pid
            }
            _ => {
                use std::os::fd::FromRawFd;
                use std::process::{Command, Stdio};
                let copy = || {
                    // SAFETY: a new descriptor, which the command owns.
                    Stdio::from(unsafe { std::os::fd::OwnedFd::from_raw_fd(libc::dup(fd)) })
                };
                // It is waited for by its number.
                #[allow(clippy::zombie_processes)]
                let child = Command::new("/bin/cat").stdin(copy()).stdout(copy()).spawn().unwrap();
                i32::try_from(child.id()).unwrap()
            }
        };
        close(fd).unwrap();
        say!("round {round}: cat left with {}", wait(pid));
    }
}

/// Its client.
pub(crate) fn standard_client(port: u16) {
    for round in 0..3 {
        let fd = dial_warm(port);
        for turn in 0..20 {
            let text = bytes(turn, 2000);
            send_all(fd, &text).unwrap();
            let mut echo = vec![0; text.len()];
            assert_eq!(recv_exact(fd, &mut echo), Ok(echo.len()), "turn {turn}");
            assert!(echo == text, "turn {turn}: wrong bytes");
        }
        shutdown(fd, libc::SHUT_WR).unwrap();
        let (rest, error) = recv_to_end(fd);
        say!("round {round}: then {rest}, error {error:?}");
        close(fd).unwrap();
    }
}

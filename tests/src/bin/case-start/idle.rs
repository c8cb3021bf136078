//! Waiting must cost nothing.

use smc_tests::harness::net::{accept_warm, close, dial_warm, recv, serve, set_nonblocking, show};
use smc_tests::harness::net::{send_all, Fd};
use smc_tests::harness::process::{cpu_micros, pause_ms};
use smc_tests::harness::ready;
use smc_tests::harness::role::{announce, note};
use smc_tests::say;

const IDLE_MS: u64 = 5000;

/// Waits in the given call until the client speaks; says whether it used processor time.
pub(crate) fn server(how: &str) {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    let before = cpu_micros();
    wait_for_data(how, fd);
    let used = cpu_micros() - before;
    note(&format!("{used} us of processor time in {IDLE_MS} ms"));
    // One spin before sleeping is allowed; a thousandth of the time is far more than that.
    say!("idle in {how}: {}", used < 5000);
    say!("then {}", show(recv(fd, &mut [0; 8], 0)));
    close(fd).unwrap();
}

fn wait_for_data(how: &str, fd: Fd) {
    match how {
        "recv" => assert_eq!(recv(fd, &mut [0; 1], libc::MSG_PEEK), Ok(1)),
        "poll" => {
            let events = ready::poll_one(fd, libc::POLLIN, -1).unwrap();
            assert_eq!(ready::names(events), "IN");
        }
        "epoll" => {
            set_nonblocking(fd, true);
            let epoll = ready::epoll();
            ready::add(epoll, fd, libc::EPOLLIN | libc::EPOLLET, 1).unwrap();
            // What a switch to another transport might wake up for is no event of the program's.
            let events = ready::wait(epoll, 4, -1).unwrap();
            assert_eq!(ready::show(&Ok(events)), "1:IN");
        }
        other => panic!("no such call: {other}"),
    }
}

/// Is silent, then speaks.
pub(crate) fn client(port: u16) {
    let fd = dial_warm(port);
    let before = cpu_micros();
    pause_ms(IDLE_MS);
    say!("idle meanwhile: {}", cpu_micros() - before < 5000);
    send_all(fd, b"awake").unwrap();
    say!("end {}", show(recv(fd, &mut [0; 8], 0)));
}

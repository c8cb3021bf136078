//! The processes of a pair.

use super::crew::Name;
use super::plan::Shape;
use super::state::{self, Kind};
use super::stream::{Part, Stop, Work};
use super::wait::serve_all;
use crate::harness::net::{self, accept, close, dial, serve, warm_client, warm_server, Fd};
use crate::harness::process::pause_ms;
use crate::harness::role::announce;
use crate::libc_call as call;
use std::process::ExitCode;

extern "C" fn tick(_signal: i32) {}

/// Signals that interrupt calls.
fn start_ticks(micros: u32, restarts: bool) {
    if micros == 0 {
        return;
    }
    // SAFETY: plain numbers and pointers, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = tick as extern "C" fn(i32) as usize;
    action.sa_flags = if restarts { libc::SA_RESTART } else { 0 };
    call!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())).unwrap();
    let each = libc::timeval { tv_sec: 0, tv_usec: i64::from(micros) };
    let timer = libc::itimerval { it_interval: each, it_value: each };
    call!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut())).unwrap();
}

/// One end of a batch.
fn end(name: Name, client: bool, port: u16) {
    let (listener, port) = if client { (-1, port) } else { serve() };
    if !client {
        announce(port);
    }
    let batch = name.batch();
    let state = state::own();
    // One after the other, so that both ends number them alike.
    let works: Vec<Work<'static>> = (0..batch.plans.len())
        .map(|index| {
            let fd = if client { dial(port) } else { accept(listener).unwrap() };
            if client {
                warm_client(fd);
            } else {
                warm_server(fd);
            }
            Work::new(name, index, client, fd, &state.conns[index])
        })
        .collect();
    if !client {
        close(listener).unwrap();
    }
    if batch.shape == Shape::Alone {
        return works[0].run();
    }
    let ticks = batch.ticks[usize::from(!client)];
    start_ticks(ticks, name.seed & 16 != 0);
    let [_, each] = batch.shape.size();
    std::thread::scope(|scope| {
        for works in works.chunks(each) {
            scope.spawn(move || {
                state.did(Kind::ThreadEach);
                match works {
                    [work] => work.run(),
                    several => run_together(several),
                }
            });
        }
    });
}

/// Several connections in one loop, in the manner of the first.
fn run_together(works: &[Work<'_>]) {
    state::own().did(Kind::EventLoop);
    works.iter().for_each(Work::prepare);
    serve_all(&works.iter().collect::<Vec<_>>(), works[0].own().style);
    works.iter().for_each(Work::finish);
}

/// An image that goes on with a connection.
fn resume(name: Name, words: &[String]) {
    let number = |at: usize| -> u64 { words[at].parse().unwrap() };
    let index = usize::try_from(number(0)).unwrap();
    let fd = Fd::try_from(number(2)).unwrap();
    let mut work = Work::new(name, index, number(1) != 0, fd, &state::own().conns[index]);
    work.ticks = false;
    work.stop = words.get(3).map(|_| Stop {
        at: number(3),
        part: [Part::Both, Part::Sends, Part::Receives][usize::try_from(number(4)).unwrap()],
    });
    work.run();
}

/// The roles that the crew and the ends start.
pub fn play(words: &[String]) -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        // Without the lock of standard error, which another thread of the parent may have held.
        let _ = net::write(libc::STDERR_FILENO, format!("{info}\n").as_bytes());
        // The other threads may wait for ever for what one failed to do: the first fault ends all.
        // SAFETY: no pointers.
        unsafe { libc::_exit(3) };
    }));
    let number = |at: usize| -> u64 { words[at].parse().unwrap() };
    if words[0] == "idle" {
        pause_ms(number(1));
        return ExitCode::SUCCESS;
    }
    let name = Name { seed: number(1), wild: number(2) != 0 };
    match words[0].as_str() {
        "server" => end(name, false, 0),
        "client" => end(name, true, u16::try_from(number(3)).unwrap()),
        "resume" => resume(name, &words[3..]),
        other => panic!("no such role: {other}"),
    }
    ExitCode::SUCCESS
}

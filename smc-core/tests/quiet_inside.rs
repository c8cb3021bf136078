//! What the library does in a program's own process must not be noticed by it: reading the
//! settings and logging allocate nothing, and a log line never lands where it does not belong.
//!
//! Logging is about descriptor 2 of a whole process, so each case runs in a child: this test
//! program again, with the case in the environment.
#![allow(clippy::unwrap_used, clippy::panic)]
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};

use smc_core::config::Config;

const CASE: &str = "QUIET_INSIDE_CASE";

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn settings_are_read_without_allocation() {
    let vars: [(&[u8], &[u8]); 5] = [
        (b"SMC_MODE", b"quick"),
        (b"SMC_RCVBUF", b"256k"),
        (b"SMC_SUMMARY", b"/tmp/summary"),
        (b"SMC_DEBUG", b"1"),
        (b"SMC_COLOUR", b"red"),
    ];
    let mut warnings = 0;
    let mut code = 0;
    let count = allocations(|| {
        code = Config::from_env(vars.into_iter(), &mut |_| warnings += 1).rcvbuf_code;
    });
    assert_eq!((count, warnings, code), (0, 2, 4));
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1, "the counter counts");
}

/// The body of the children; without a case there is nothing to do.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    smc_core::log::install(log::LevelFilter::Info);
    match case.as_str() {
        "lines" => {
            let count = allocations(|| {
                log::info!("a line\nwith a break {}", 7);
                log::debug!("below the level");
                smc_core::log::warn_line(format_args!("{:?}", "wrong"));
            });
            assert_eq!(count, 0);
        }
        "long" => log::warn!("{}", "x".repeat(5000)),
        "replaced" => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            // SAFETY: dup2 works on numbers alone; both are open.
            unsafe { libc::dup2(theirs.as_raw_fd(), 2) };
            log::warn!("not for you");
            ours.set_nonblocking(true).unwrap();
            let read = (&ours).read(&mut [0; 16]);
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        }
        "closed" => {
            // SAFETY: nothing else in this process uses descriptor 2 in this case.
            unsafe { libc::close(2) };
            log::warn!("to nobody");
        }
        "once" => log::warn!("hello"),
        "flood" => (0..10_000).for_each(|i| log::warn!("{i} {}", "x".repeat(500))),
        other => panic!("no case {other}"),
    }
}

fn run(case: &str, stderr: impl Into<Stdio>) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env(CASE, case)
        .stdout(Stdio::null())
        .stderr(stderr)
        .status()
        .unwrap()
}

/// The child's standard error, a regular file, when it is over.
fn stderr_of(case: &str) -> String {
    let path = std::env::temp_dir().join(format!("quiet-inside-{}-{case}", std::process::id()));
    let status = run(case, std::fs::File::create(&path).unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(status.success(), "{case}: {status}, {text}");
    text
}

#[test]
fn lines_have_a_prefix_and_stay_lines() {
    let text = stderr_of("lines");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("smc-run: ["), "{text}");
    assert!(lines[0].ends_with("] info: a line with a break 7"), "{text}");
    assert_eq!(lines[1], "smc-run: warning: \"wrong\"");
}

#[test]
fn a_long_line_is_cut_off() {
    let text = stderr_of("long");
    assert_eq!(text.len(), 1024);
    assert!(text.ends_with("xxx\n"));
}

#[test]
fn nothing_goes_to_what_took_the_place_of_standard_error() {
    assert_eq!(stderr_of("replaced"), "");
    assert_eq!(stderr_of("closed"), "");
}

#[test]
fn a_client_on_standard_error_sees_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (served, _) = listener.accept().unwrap();
    assert!(run("once", OwnedFd::from(served)).success());
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}

#[test]
fn a_pipe_without_a_reader_does_not_kill_and_a_full_one_does_not_stop() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(run("once", writer).success());
    let (mut reader, writer) = std::io::pipe().unwrap();
    assert!(run("flood", writer).success());
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("smc-run: [") && text.ends_with("x\n"));
}

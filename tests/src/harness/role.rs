//! What a case program is told on its command line, and how it talks back.

use std::io::Write;

/// Which end this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that listens; it announces its port.
    Server,
    /// The one that connects to this port of the loopback address.
    Client(u16),
    /// Both in one process.
    Solo,
}

/// The command line of a case program.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Which case to play.
    pub case: String,
    /// Which end of it.
    pub role: Role,
    /// Everything after.
    pub args: Vec<String>,
}

impl Invocation {
    /// Reads `CASE server [ARGS…]`, `CASE client PORT [ARGS…]` or `CASE solo [ARGS…]`.
    pub fn parse() -> Self {
        let mut words = std::env::args().skip(1);
        let case = words.next().unwrap_or_else(|| panic!("which case?"));
        let role = match words.next().as_deref() {
            Some("server") => Role::Server,
            Some("client") => {
                let port = words.next().and_then(|p| p.parse().ok());
                Role::Client(port.unwrap_or_else(|| panic!("client of which port?")))
            }
            Some("solo") => Role::Solo,
            other => panic!("unknown role {other:?}"),
        };
        Self { case, role, args: words.collect() }
    }
}

/// Puts one line into the transcript: stdout, or the file named by `SMC_TEST_TRANSCRIPT`.
pub fn say_line(line: &str) {
    let whole = format!("{line}\n");
    if let Some(path) = std::env::var_os("SMC_TEST_TRANSCRIPT") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut f| f.write_all(whole.as_bytes())).unwrap();
        return;
    }
    // One write per line: lines of several processes never mix, and no buffer crosses a fork.
    // SAFETY: the buffer is a live String of that length.
    let wrote = unsafe { libc::write(1, whole.as_ptr().cast(), whole.len()) };
    assert_eq!(usize::try_from(wrote), Ok(whole.len()), "transcript");
}

/// Puts one formatted line into the transcript.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => { $crate::harness::role::say_line(&format!($($arg)*)) };
}

/// Tells the harness which port the server listens on; not part of the transcript.
pub fn announce(port: u16) {
    say_line(&format!("@port {port}"));
}

/// Says something that may differ between runs; not compared.
pub fn note(text: &str) {
    say_line(&format!("@note {text}"));
}

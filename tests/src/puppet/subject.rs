//! The end that a case is about, and the start of both.

use super::control::{self, Control, Op, Order};
use super::{serve, sys, Conn};
use crate::harness::role::{announce, Invocation, Role};
use std::cell::Cell;
use std::os::fd::IntoRawFd;
use std::process::ExitCode;
use std::rc::Rc;

/// A case by name.
pub type Entry = (&'static str, fn(&Subject));

/// Buffer sizes for both ends of a connection, set before it is made; 0 leaves the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffers {
    /// `SO_SNDBUF`
    pub send: i32,
    /// `SO_RCVBUF`
    pub receive: i32,
}

impl Buffers {
    /// Applies them to a listener or a socket that is not connected yet.
    pub(crate) fn apply(self, fd: i32) {
        for (name, value) in [(libc::SO_SNDBUF, self.send), (libc::SO_RCVBUF, self.receive)] {
            if value != 0 {
                sys::setsockopt(fd, libc::SOL_SOCKET, name, value).expect("buffer size");
            }
        }
    }
}

/// How a process reaches the other one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Listener(i32),
    Port(u16),
}

/// Turns and size of the talk after which a connection is expected to have left TCP.
pub(crate) const TURNS: i64 = 24;
pub(crate) const TURN: i64 = 1024;

/// The subject's process.
#[derive(Debug)]
pub struct Subject {
    way: Way,
    port: u16,
    control: Rc<Control>,
    next: Cell<usize>,
    warm: bool,
    args: Vec<String>,
}

impl Subject {
    /// A connection to the puppet with default buffers, warmed up unless the run is `cold`.
    pub fn connect(&self) -> Conn {
        self.connect_with(Buffers::default())
    }

    /// Whether connections are warmed up.
    pub fn is_warm(&self) -> bool {
        self.warm
    }

    /// A connection that has carried nothing yet.
    pub fn connect_new(&self) -> Conn {
        self.open(Buffers::default())
    }

    /// A connection with these buffers at both ends.
    pub fn connect_with(&self, buffers: Buffers) -> Conn {
        let conn = self.open(buffers);
        if self.warm {
            conn.talk(matches!(self.way, Way::Port(_)), TURNS, TURN);
        }
        conn
    }

    fn open(&self, buffers: Buffers) -> Conn {
        let id = self.next.replace(self.next.get() + 1);
        let (a, b) = (i64::from(buffers.send), i64::from(buffers.receive));
        let fd = match self.way {
            Way::Listener(listener) => {
                buffers.apply(listener);
                self.control.order(Order { op: Op::Open, conn: id, a, b });
                sys::accept(listener).expect("accept")
            }
            Way::Port(port) => {
                self.control.order(Order { op: Op::Open, conn: id, a, b });
                self.control.result();
                let fd = sys::socket();
                buffers.apply(fd);
                sys::connect(fd, port).expect("connect");
                fd
            }
        };
        self.control.result();
        Conn::new(fd, id, self.control.clone())
    }

    /// The listening socket, if the subject is the server.
    pub fn listener(&self) -> Option<i32> {
        match self.way {
            Way::Listener(fd) => Some(fd),
            Way::Port(_) => None,
        }
    }

    /// A number given on the command line, as in `rounds=100`.
    pub fn arg(&self, name: &str) -> Option<u32> {
        self.args.iter().find_map(|arg| arg.strip_prefix(name)?.parse().ok())
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Ends a process that hangs long before the harness would, with a status of its own.
fn watchdog() {
    // SAFETY: no pointers; SIGALRM's default is to end the process.
    unsafe { libc::alarm(110) };
}

/// Runs a case program: either end of one of these cases.
pub fn main(cases: &[Entry]) -> ExitCode {
    watchdog();
    let called = Invocation::parse();
    let name = &called.case;
    let Some((_, case)) = cases.iter().find(|(known, _)| known == name) else {
        crate::say!("no case {name}");
        return ExitCode::FAILURE;
    };
    let (way, port, control) = match called.role {
        Role::Server => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let waiting = control::listen(port);
            announce(port);
            (Way::Listener(listener.into_raw_fd()), port, Control::accept(&waiting))
        }
        Role::Client(port) => (Way::Port(port), port, Control::connect(port)),
        Role::Solo => panic!("{name} has two ends"),
    };
    let has = |word: &str| called.args.iter().any(|arg| arg == word);
    let client = matches!(way, Way::Port(_));
    if client == has("subject=client") {
        let (control, next) = (Rc::new(control), Cell::new(0));
        let (warm, args) = (!has("cold"), called.args);
        let subject = Subject { way, port, control, next, warm, args };
        case(&subject);
        crate::say!("{name} done");
    } else {
        crate::say!("puppet: {}", serve::obey(way, &control));
    }
    ExitCode::SUCCESS
}

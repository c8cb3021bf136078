//! The settings, read once from the environment.
//!
//! [`VARIABLES`] is the only list of them: the reader, the documentation and the tools use it.
//! Reading happens in a constructor inside a program that knows nothing of us, so it never
//! allocates, never panics and never fails: a value that makes no sense is one warning, and the
//! default stands.
mod parse;
mod path;
mod warning;

#[cfg(test)]
mod tests;

use ::log::LevelFilter;

pub use parse::Malformed;
pub use path::BytePath;
pub use warning::{Problem, Warning};

/// The smallest ring, of size code 0.
pub const RING_MIN: u32 = 16 << 10;
/// The largest size code: rings of 1 MiB.
pub const RING_CODE_MAX: u8 = 6;
/// The default size code: rings of 1 MiB. A peer that waits for a processor then finds as much work as
/// TCP would have for it, and a program may write much before anybody reads, as it may to TCP. Only
/// what is used of a ring takes memory.
pub const RING_CODE_DEFAULT: u8 = 6;
/// The shortest segment of a large send; below it the bookkeeping costs more than the overlap gains.
pub const AUTOSPLIT_MIN: u32 = 4 << 10;
/// The default of `SMC_AUTOSPLIT_SIZE`: of 16 to 256 KiB the one with the shortest round trips for
/// messages of 128 KiB to 1 MiB; streams are as fast with any of them.
pub const AUTOSPLIT_DEFAULT: u32 = 32 << 10;
/// The longest spin that `SMC_SPIN_US` may ask for.
pub const SPIN_US_MAX: u32 = 1_000_000;

/// Names that begin with `SMC_` and are no settings of the library.
const OTHER_NAMES: [&str; 1] = ["SMC_PRELOAD_LIB"];

/// Which transports may carry a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever fits: shared memory on this host, TCP otherwise.
    Auto,
    /// Shared memory only (SMC-D).
    Loopback,
    /// RDMA only (SMC-R), which nothing carries yet: TCP.
    Rdma,
    /// None: everything is TCP.
    Off,
}

/// What the `SMC_…` variables say; immutable after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `SMC_MODE`.
    pub mode: Mode,
    /// `SMC_RCVBUF`: size code (16 KiB << code) of the ring that this side drains.
    pub rcvbuf_code: u8,
    /// `SMC_SNDBUF`: size code of the ring that this side fills.
    pub sndbuf_code: u8,
    /// `SMC_SPIN_US`: how long to spin before sleeping; `None`: as long as it has paid off.
    pub spin_us: Option<u32>,
    /// `SMC_AUTOSPLIT_SIZE`: bytes of a segment; see [`Config::segment`].
    pub autosplit_size: u32,
    /// `SMC_ATTACH_AFTER`: bytes after which a connection takes a ring; `None`: when it pays.
    pub attach_after: Option<u64>,
    /// `SMC_IO_URING`: whether the program may have io_uring, which no hook sees.
    pub io_uring: bool,
    /// `SMC_LOG`, when it is set; see [`Config::log_level`].
    pub log: Option<LevelFilter>,
    /// `SMC_DEBUG`.
    pub debug: bool,
    /// `SMC_SUMMARY`: where to append a line of statistics at exit.
    pub summary: Option<BytePath>,
}

impl Config {
    /// The settings of an empty environment.
    pub const DEFAULT: Self = Self {
        mode: Mode::Auto,
        rcvbuf_code: RING_CODE_DEFAULT,
        sndbuf_code: RING_CODE_DEFAULT,
        spin_us: None,
        autosplit_size: AUTOSPLIT_DEFAULT,
        attach_after: None,
        io_uring: false,
        log: None,
        debug: false,
        summary: None,
    };

    /// Reads the environment `vars`, pairs of name and value, and tells `warn` of each value that
    /// is malformed.
    ///
    /// As with getenv, the first of several variables of one name counts. An empty value is as
    /// good as none. Unknown names are worth a warning only when debugging: other software may
    /// have an `SMC_` of its own.
    pub fn from_env<'a, I>(vars: I, warn: &mut dyn FnMut(&Warning<'_>)) -> Self
    where
        I: Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    {
        let mut config = Self::DEFAULT;
        let mut seen = [false; VARIABLES.len()];
        let ours = vars.filter(|(name, _)| name.starts_with(b"SMC_"));
        for (name, value) in ours.clone() {
            let known = VARIABLES.iter().zip(&mut seen).find(|(v, _)| v.name.as_bytes() == name);
            let Some((variable, seen)) = known else { continue };
            if core::mem::replace(seen, true) || value.is_empty() {
                continue;
            }
            if let Err(Malformed(why)) = (variable.set)(&mut config, value) {
                warn(&Warning { name, value, problem: Problem::Malformed(why) });
            }
        }
        if config.log_level() >= LevelFilter::Debug {
            for (name, value) in ours.filter(|(name, _)| !is_known(name)) {
                warn(&Warning { name, value, problem: Problem::Unknown });
            }
        }
        config
    }

    /// Whether any connection may be accelerated.
    pub fn enabled(&self) -> bool {
        self.mode != Mode::Off
    }

    /// What to log: `SMC_LOG` if given, else everything but traces when debugging, else warnings.
    pub fn log_level(&self) -> LevelFilter {
        match self.log {
            Some(level) => level,
            None if self.debug => LevelFilter::Debug,
            None => LevelFilter::Warn,
        }
    }

    /// Bytes of a segment in a ring of `ring` bytes: at most half of it, so that one half can be
    /// filled while the other is drained.
    pub fn segment(&self, ring: u32) -> u32 {
        self.autosplit_size.min(ring / 2).max(1)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One setting.
#[derive(Debug)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// What values it takes.
    pub values: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    set: fn(&mut Config, &[u8]) -> Result<(), Malformed>,
}

impl Variable {
    /// Looks a setting up by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        VARIABLES.iter().find(|v| v.name == name)
    }

    /// Whether `value` is one that [`Config::from_env`] takes; for tools that set the variable.
    pub fn check(&self, value: &[u8]) -> Result<(), Malformed> {
        let mut scratch = Config::DEFAULT;
        (self.set)(&mut scratch, value)
    }
}

/// All settings.
pub static VARIABLES: [Variable; 10] = [
    Variable {
        name: "SMC_MODE",
        values: "auto, loopback, rdma or off",
        default: "auto",
        doc: "Which transports may carry a connection.",
        set: |c, v| parse::mode(v).map(|mode| c.mode = mode),
    },
    Variable {
        name: "SMC_RCVBUF",
        values: "bytes, or KiB or MiB with suffix k or m",
        default: "1m",
        doc: "Size of the receive ring, rounded up to a power of two from 16k to 1m.",
        set: |c, v| parse::ring_code(v).map(|code| c.rcvbuf_code = code),
    },
    Variable {
        name: "SMC_SNDBUF",
        values: "bytes, or KiB or MiB with suffix k or m",
        default: "1m",
        doc: "Size of the send ring, rounded up to a power of two from 16k to 1m.",
        set: |c, v| parse::ring_code(v).map(|code| c.sndbuf_code = code),
    },
    Variable {
        name: "SMC_SPIN_US",
        values: "microseconds up to 1000000, or auto",
        default: "auto",
        doc: "How long a thread looks at the ring before it sleeps; 0 sleeps at once.",
        set: |c, v| parse::spin_us(v).map(|spin| c.spin_us = spin),
    },
    Variable {
        name: "SMC_AUTOSPLIT_SIZE",
        values: "bytes, or KiB or MiB with suffix k or m",
        default: "32k",
        doc: "Large sends become visible to the peer in segments of this size, half the ring at most.",
        set: |c, v| parse::autosplit(v).map(|size| c.autosplit_size = size),
    },
    Variable {
        name: "SMC_ATTACH_AFTER",
        values: "bytes, or KiB or MiB with suffix k or m, or auto",
        default: "auto",
        doc: "Bytes that a connection carries over TCP before it takes a ring; 0 takes it at once.",
        set: |c, v| parse::attach_after(v).map(|bytes| c.attach_after = bytes),
    },
    Variable {
        name: "SMC_IO_URING",
        values: "allow or refuse",
        default: "refuse",
        doc: "Whether the program may set io_uring up, which works on sockets unseen.",
        set: |c, v| parse::io_uring(v).map(|allowed| c.io_uring = allowed),
    },
    Variable {
        name: "SMC_LOG",
        values: "off, error, warn, info, debug or trace",
        default: "warn",
        doc: "What the library tells on standard error.",
        set: |c, v| parse::level(v).map(|level| c.log = Some(level)),
    },
    Variable {
        name: "SMC_DEBUG",
        values: "1 or 0",
        default: "0",
        doc: "Short for SMC_LOG=debug.",
        set: |c, v| parse::switch(v).map(|on| c.debug = on),
    },
    Variable {
        name: "SMC_SUMMARY",
        values: "a path",
        default: "none",
        doc: "File to which each process appends a line of statistics when it ends.",
        set: |c, v| parse::path(v).map(|path| c.summary = Some(path)),
    },
];

fn is_known(name: &[u8]) -> bool {
    VARIABLES.iter().map(|v| v.name).chain(OTHER_NAMES).any(|known| known.as_bytes() == name)
}

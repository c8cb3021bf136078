//! What the hooks call.
//!
//! A hook asks [`tracked`] first; an fd that is not ours costs one load. For ours it calls the
//! function of the same name here and hands over the real call as a closure, which the engine runs
//! at most once: a connection in TCP state is the kernel's business, and the engine only brackets
//! the call. `Ok(n)` is the C return value (with `errno` already set by the kernel's libc wrapper
//! where it is -1), `Err` an error of ours, which the hook stores in `errno`.
//!
//! What a child in its parent's memory (`vfork`) does to its descriptors must not touch our state:
//! the hooks see to it that nothing that makes or ends a descriptor is called in one.
mod confinement;
mod handover;
mod heritage;
mod io;
mod life;
mod mux;
mod processes;
mod streams;

pub use confinement::*;
pub use handover::*;
pub use io::*;
pub use life::*;
pub use mux::*;
pub use processes::*;
pub use streams::{
    before_abort, before_unseen, stream_opened, streams_are_seen, unseen_from_now_on,
};

pub use crate::errno::Ret;
pub use crate::fdtable::Kind;

use crate::config::Config;
use crate::fdtable;
use crate::process;
use crate::sys::clock;
use crate::sys::real::RealCalls;
use heritage::Heritage;
use libc::{c_int, timespec, timeval};

/// How long a readiness call may wait, in the form in which the program said it.
#[derive(Clone, Copy, Debug)]
pub enum Timeout {
    /// Milliseconds; negative: for ever.
    Millis(c_int),
    /// `ppoll`, `epoll_pwait2`, `pselect`: null is for ever.
    Spec(*const timespec),
    /// `select`: null is for ever; the time left is written back, as Linux does.
    Val(*mut timeval),
}

/// Starts the engine; called once, by the constructor of the preload library. `build` tells the
/// library's file apart from others.
pub fn start(real: RealCalls, config: &Config, build: [u64; 4]) {
    clock::start();
    let mut heritage = Heritage::find(build);
    let (arena, born) = (heritage.arena(), heritage.page());
    if process::start(real, config, build, arena, born) {
        heritage.take();
        life::adopt_inherited();
    }
}

/// Whether an fd needs the engine at all: one load.
#[inline(always)]
pub fn tracked(fd: c_int) -> bool {
    fdtable::is_tracked(fd)
}

/// What the fd is to us.
pub fn kind(fd: c_int) -> Kind {
    fdtable::entry(fd).kind()
}

//! What an `exec` is about to start: whether this library will be there again.
use crate::environment::Environment;
use libc::{c_char, c_int};
use smc_core::config::Config;
use smc_core::engine::Target;
use smc_core::sync::{AtomicU64, Ordering};
use smc_core::sys::iov::fetch;
use smc_core::sys::program::{look, Program};
use smc_core::sys::raw::identity;
use std::ffi::CStr;

pub(crate) type Words = *const *const c_char;

extern "C" {
    static environ: Words;
}

/// What tells the file of this library apart from others; zeros: not known.
static BUILD: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Longest path of a search.
const PATH: usize = 4096;
/// Where `execvp` searches without PATH.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Finds out which file this library is; called once, by the constructor.
pub(crate) fn find_build(inside: *const ()) {
    // SAFETY: plain pointers and integers, for which zeros are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: room for the answer.
    if unsafe { libc::dladdr(inside.cast(), &mut info) } == 0 || info.dli_fname.is_null() {
        return;
    }
    // SAFETY: the loader's string.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    for (word, value) in BUILD.iter().zip(identity(path)) {
        word.store(value, Ordering::Relaxed);
    }
}

/// What tells the file apart.
pub(crate) fn build() -> [u64; 4] {
    [0, 1, 2, 3].map(|at: usize| BUILD[at].load(Ordering::Relaxed))
}

/// The environment of this process as it is now.
pub(crate) fn own_environment() -> Words {
    // SAFETY: a word that libc keeps valid.
    unsafe { environ }
}

/// What `execveat` with these arguments starts.
///
/// # Safety
/// `envp` is the program's own: null, or pointers to strings with a null at the end. A pointer that
/// leads nowhere is found.
pub(crate) unsafe fn of_file(dir: c_int, path: *const c_char, flags: c_int, envp: Words) -> Target {
    match look(dir, path, flags) {
        Program::Nothing => Target::Nothing,
        // SAFETY: as above.
        Program::Dynamic if unsafe { loads_us(envp) } => Target::Ours,
        Program::Dynamic | Program::Foreign => Target::Foreign,
    }
}

/// What `execve` with these arguments starts. `here`: it starts in this directory; else where a
/// relative path leads is not known.
///
/// # Safety
/// As for [`of_file`].
pub(crate) unsafe fn of_path(path: *const c_char, envp: Words, here: bool) -> Target {
    if !here && fetch(path) != Ok(b'/' as c_char) {
        return Target::Foreign;
    }
    // SAFETY: the caller's promise.
    unsafe { of_file(libc::AT_FDCWD, path, 0, envp) }
}

/// What `execvpe` with these arguments starts; `here` as for [`of_path`].
///
/// # Safety
/// `file` is a string; `envp` as for [`of_file`].
pub(crate) unsafe fn of_search(file: *const c_char, envp: Words, here: bool) -> Target {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(file) }.to_bytes();
    if name.contains(&b'/') || name.is_empty() {
        // SAFETY: the caller's promise.
        return unsafe { of_path(file, envp, here) };
    }
    // SAFETY: the environment of the process.
    let mut own = unsafe { entries(own_environment()) };
    let search = own.find(|(variable, _)| *variable == b"PATH").map_or(DEFAULT_PATH, |(_, v)| v);
    for dir in search.split(|byte| *byte == b':') {
        let mut path = [0_u8; PATH];
        let slash: &[u8] = if dir.is_empty() { b"" } else { b"/" };
        let mut len = 0;
        for part in [dir, slash, name] {
            let Some(room) = path.get_mut(len..len + part.len()) else { return Target::Foreign };
            room.copy_from_slice(part);
            len += part.len();
        }
        if len == path.len() {
            return Target::Foreign;
        }
        // SAFETY: as above; the path ends with a zero.
        let found = unsafe { of_path(path.as_ptr().cast(), envp, here) };
        if found != Target::Nothing {
            return found;
        }
    }
    Target::Nothing
}

/// Names and values, as far as the pointers lead somewhere.
///
/// # Safety
/// As for [`of_file`].
unsafe fn entries(envp: Words) -> Environment {
    static NONE: AtomicU64 = AtomicU64::new(0);
    let mut at = envp;
    while let Ok(entry) = fetch(at) {
        if entry.is_null() {
            // SAFETY: all pointers up to the null have been followed.
            return unsafe { Environment::new(envp) };
        }
        if fetch(entry).is_err() {
            break;
        }
        at = at.wrapping_add(1);
    }
    // SAFETY: a vector that is nothing but its end.
    unsafe { Environment::new((&raw const NONE).cast()) }
}

/// Whether a program with this environment loads this very library, and is not told to leave it off.
///
/// # Safety
/// As for [`of_file`].
unsafe fn loads_us(envp: Words) -> bool {
    let build = build();
    if build == [0; 4] {
        return false;
    }
    // SAFETY: the caller's promise.
    let all = unsafe { entries(envp) };
    let mut named = false;
    for (_, list) in all.clone().filter(|(name, _)| *name == b"LD_PRELOAD") {
        // Of several the loader takes one: all must name it.
        named = list.split(|byte| matches!(byte, b' ' | b':')).any(|path| is_us(path, build));
        if !named {
            break;
        }
    }
    let config = Config::from_env(all, &mut |_| {});
    named && config.enabled() && !config.io_uring
}

fn is_us(path: &[u8], build: [u64; 4]) -> bool {
    let mut text = [0_u8; PATH];
    match text.get_mut(..path.len()) {
        Some(room) if path.starts_with(b"/") => room.copy_from_slice(path),
        _ => return false,
    }
    CStr::from_bytes_until_nul(&text).is_ok_and(|path| identity(path) == build)
}

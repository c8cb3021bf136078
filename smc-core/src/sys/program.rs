//! What an `exec` of a file leads to, told beforehand: whether the loader will heed `LD_PRELOAD`.
//!
//! In doubt the answer is no.
use super::raw;
use crate::errno::Errno;
use core::ffi::{c_char, CStr};
use libc::c_int;
use syscalls::Sysno;

/// What a file is to an `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The `exec` fails.
    Nothing,
    /// It runs; whether and how a library can be loaded into it is not known.
    Foreign,
    /// It runs, and the loader of this libc loads what `LD_PRELOAD` names.
    Dynamic,
}

/// Scripts that are each other's interpreters, at most.
const SCRIPTS: u32 = 5;
/// Bytes of the front of a file that are looked at.
const FRONT: usize = 512;
/// Program headers that are looked at, and bytes of each.
const HEADERS: u16 = 64;
const HEADER: usize = 56;
/// Bytes of a note segment that are looked at.
const NOTES: usize = 1024;
/// Longest path of an interpreter.
const PATH: usize = 256;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: u16 = 0;

const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;

/// Looks at the file that `execveat` with these arguments would run.
pub fn look(dir: c_int, path: *const c_char, flags: c_int) -> Program {
    judge(dir, path, flags, SCRIPTS)
}

fn judge(dir: c_int, path: *const c_char, flags: c_int, scripts: u32) -> Program {
    let by_fd = flags & libc::AT_EMPTY_PATH != 0;
    if flags & !libc::AT_EMPTY_PATH != 0 {
        return Program::Foreign;
    }
    if !by_fd {
        // The program's own pointer, for which the kernel answers EFAULT, as it will again.
        let arguments = [dir as usize, path as usize, libc::X_OK as usize, 0, 0, 0];
        // SAFETY: requires what faccessat expects: the kernel checks the pointer.
        match unsafe { raw::call6(Sysno::faccessat, arguments) } {
            Err(Errno(libc::ENOSYS | libc::EPERM)) | Ok(_) => {}
            Err(_) => return Program::Nothing,
        }
    }
    let file = if by_fd { reopen(dir) } else { open(dir, path) };
    let Ok(file) = file else { return Program::Foreign };
    let found = File(file).judge(scripts);
    raw::close(file);
    found
}

fn open(dir: c_int, path: *const c_char) -> Result<c_int, Errno> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let arguments = [dir as usize, path as usize, flags as usize, 0, 0, 0];
    // SAFETY: requires what openat expects: the kernel checks the pointer.
    unsafe { raw::call6(Sysno::openat, arguments) }.map(|fd| fd as c_int)
}

/// The file of a descriptor that may have been opened for its path alone.
fn reopen(fd: c_int) -> Result<c_int, Errno> {
    let mut path = *b"/proc/self/fd/0000000000\0";
    let mut rest = fd.unsigned_abs();
    for digit in path[14..24].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The list has no leading zeros.
    let zeros = path[14..23].iter().take_while(|digit| **digit == b'0').count();
    path.copy_within(14 + zeros.., 14);
    open(libc::AT_FDCWD, path.as_ptr().cast())
}

struct File(c_int);

impl File {
    fn judge(&self, scripts: u32) -> Program {
        let Some(mode) = raw::file_mode(self.0) else { return Program::Foreign };
        if mode & libc::S_IFMT != libc::S_IFREG {
            return Program::Nothing;
        }
        if mode & (libc::S_ISUID | libc::S_ISGID) != 0 || self.has_capabilities() {
            return Program::Foreign;
        }
        let front = self.front();
        if let Some(line) = front.strip_prefix(b"#!") {
            return interpreter(line, scripts);
        }
        match self.loader(&front) {
            Some(loader) if is_ours(&loader) => Program::Dynamic,
            _ => Program::Foreign,
        }
    }

    /// The front of the file.
    fn front(&self) -> [u8; FRONT] {
        self.bytes(0)
    }

    fn has_capabilities(&self) -> bool {
        let name = c"security.capability";
        let arguments = [self.0 as usize, name.as_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: requires a string, and room for no bytes.
        unsafe { raw::call6(Sysno::fgetxattr, arguments) }.is_ok()
    }

    /// Some bytes; zeros behind the end.
    fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let _ = raw::pread(self.0, bytes.as_mut_ptr(), N, at);
        bytes
    }

    /// The path of the loader of a dynamic program that calls the kernel by libc.
    fn loader(&self, front: &[u8; FRONT]) -> Option<[u8; PATH]> {
        let half = |at: usize| u16::from_ne_bytes([front[at], front[at + 1]]);
        // 64 bits, the byte order of this machine.
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        let plain = front.starts_with(&[0x7f, b'E', b'L', b'F', 2, order]);
        let count = half(56);
        if !plain || half(18) != MACHINE || usize::from(half(54)) != HEADER || count > HEADERS {
            return None;
        }
        let table = long(front, 32);
        let mut loader = None;
        for nth in 0..count {
            let header: [u8; HEADER] = self.bytes(table + u64::from(nth) * HEADER as u64);
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let at = long(&header, 8);
            if kind == PT_INTERP {
                loader = Some(self.bytes(at));
            } else if kind == PT_NOTE && calls_kernel_itself(&self.bytes::<NOTES>(at)) {
                return None;
            }
        }
        loader
    }
}

/// Whether the loader is that of this process, which has loaded this library: another one may have
/// another libc, and refuse it.
fn is_ours(loader: &[u8; PATH]) -> bool {
    let file = |path: &[u8; PATH]| CStr::from_bytes_until_nul(path).map_or([0; 4], raw::identity);
    let Ok(own) = open(libc::AT_FDCWD, c"/proc/self/exe".as_ptr()) else { return false };
    let known = File(own).loader(&File(own).front());
    raw::close(own);
    known.is_some_and(|known| file(&known) != [0; 4] && file(&known) == file(loader))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk().copied());
    u64::from_ne_bytes(word.unwrap_or([0; 8]))
}

/// Whether the notes are those of a Go program, which makes system calls without libc also where it
/// is linked with it: name and descriptor sizes, type, name, descriptor, each padded to 4 bytes.
fn calls_kernel_itself(mut notes: &[u8]) -> bool {
    while let Some([name, descriptor]) = notes.first_chunk::<8>().map(|sizes| {
        let size = |at: usize| {
            u32::from_ne_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]) as usize
        };
        [size(0), size(4)]
    }) {
        if name == 0 || name > NOTES || descriptor > NOTES {
            return false;
        }
        if notes.get(12..).is_some_and(|rest| rest.starts_with(b"Go\0\0")) {
            return true;
        }
        let next = 12 + name.next_multiple_of(4) + descriptor.next_multiple_of(4);
        notes = notes.get(next..).unwrap_or(&[]);
    }
    false
}

/// What the first line of a script runs.
fn interpreter(line: &[u8], scripts: u32) -> Program {
    if scripts == 0 {
        return Program::Foreign;
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().take_while(|byte| blank(byte)).count();
    let rest = line.get(start..).unwrap_or(&[]);
    let len = rest.iter().take_while(|byte| !blank(byte) && !matches!(byte, b'\n' | 0)).count();
    let mut path = [0; PATH];
    match (path.get_mut(..len), rest.get(..len)) {
        (Some(room), Some(name)) if 0 < len && len < PATH => room.copy_from_slice(name),
        _ => return Program::Foreign,
    }
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return Program::Foreign };
    judge(libc::AT_FDCWD, path.as_ptr(), 0, scripts - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::ffi::CString;
    use std::fs::{set_permissions, write, Permissions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    fn of(path: &str) -> Program {
        let path = CString::new(path).unwrap();
        look(libc::AT_FDCWD, path.as_ptr(), 0)
    }

    #[test]
    fn files_are_what_the_kernel_makes_of_them() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(of(own.to_str().unwrap()), Program::Dynamic);
        assert_eq!(of("/bin/sh"), Program::Dynamic);
        for missing in ["/no/such/file", "/etc/passwd", "/", ""] {
            assert_eq!(of(missing), Program::Nothing, "{missing}");
        }
        assert_eq!(look(libc::AT_FDCWD, core::ptr::null(), 0), Program::Nothing);
        let file = std::fs::File::open("/bin/sh").unwrap();
        let by_fd = look(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH);
        assert_eq!(by_fd, Program::Dynamic);
    }

    #[test]
    fn what_the_loader_would_not_heed_is_foreign() {
        let dir = std::env::temp_dir().join(format!("smc-program-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let make = |name: &str, bytes: &[u8], mode: u32| {
            let path = dir.join(name);
            write(&path, bytes).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            of(path.to_str().unwrap())
        };
        let shell = std::fs::read("/bin/sh").unwrap();
        assert_eq!(make("copy", &shell, 0o755), Program::Dynamic);
        assert_eq!(make("setuid", &shell, 0o4755), Program::Foreign);
        assert_eq!(make("setgid", &shell, 0o2755), Program::Foreign);
        assert_eq!(make("plain", &shell, 0o644), Program::Nothing);
        assert_eq!(make("script", b"#! /bin/sh -e\necho\n", 0o755), Program::Dynamic);
        assert_eq!(make("lost", b"#!/no/such/shell\n", 0o755), Program::Nothing);
        assert_eq!(make("text", b"echo hello\n", 0o755), Program::Foreign);
        assert_eq!(make("cut", &shell[..40], 0o755), Program::Foreign);
        // Without the segment that names the loader it is a static one.
        let mut bare = shell.clone();
        let table = long(&bare, 32) as usize;
        for at in (table..).step_by(HEADER).take(usize::from(bare[56])) {
            if bare[at] == PT_INTERP as u8 {
                bare[at] = 0;
            }
        }
        assert_eq!(make("static", &bare, 0o755), Program::Foreign);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn notes_tell_a_go_program() {
        let note = |name: &[u8], descriptor: &[u8]| {
            let sizes = [name.len() as u32, descriptor.len() as u32, 4];
            let mut note: Vec<u8> = sizes.iter().flat_map(|word| word.to_ne_bytes()).collect();
            for part in [name, descriptor] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let gnu = note(b"GNU\0", b"12345");
        let go = note(b"Go\0\0", b"build");
        assert!(!calls_kernel_itself(&gnu));
        assert!(calls_kernel_itself(&[gnu, go].concat()));
        assert!(!calls_kernel_itself(&[0xff; 64]));
        assert!(!calls_kernel_itself(&[]));
    }
}

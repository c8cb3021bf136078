//! Streams whose functions are our hooks.
use crate::dispatch::{errno, set_errno};
use crate::hooks::io::{read, write};
use crate::hooks::life::close;
use libc::{c_char, c_int, c_void, size_t, ssize_t, FILE};
use smc_core::sync::{AtomicU64, Ordering};

/// Which descriptors have a stream of ours; those beyond are taken to have one.
static OPEN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The word and the bit of a descriptor.
fn mark(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let word = OPEN.get(fd as usize / 64)?;
    Some((word, 1 << (fd % 64)))
}

/// Whether the descriptor has a stream of ours.
pub(crate) fn is_open(fd: c_int) -> bool {
    // Relaxed: who closes a stream has got it from who opened it.
    mark(fd).is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

type Read = unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t;
type Write = unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t;
type Seek = unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int;
type Close = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: Read,
    write: Write,
    seek: Seek,
    close: Close,
}

extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// Where glibc's `FILE` keeps the descriptor: part of its binary interface since 2.1.
const FILENO_OFFSET: usize = 112;
/// What stands there for a stream without descriptor.
const NO_FILENO: c_int = -2;

/// A stream on a socket of ours; `fileno` of it is the socket.
///
/// # Safety
/// `mode` as for `fdopen`.
pub(crate) unsafe fn open(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = Functions { read: on_read, write: on_write, seek: on_seek, close: on_close };
    // SAFETY: the functions take the cookie for what it is, a number.
    let stream = unsafe { fopencookie(cookie(fd), mode, functions) };
    if stream.is_null() {
        return stream;
    }
    // SAFETY: glibc's FILE is at least 216 bytes long on every 64-bit system.
    let number = unsafe { stream.byte_add(FILENO_OFFSET) }.cast::<c_int>();
    // SAFETY: as above.
    if unsafe { number.read() } == NO_FILENO {
        // SAFETY: as above; nobody else has the stream yet.
        unsafe { number.write(fd) };
    }
    if let Some((word, bit)) = mark(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
    stream
}

/// The descriptor of a stream, or -1; `errno` stays.
///
/// # Safety
/// An open stream.
pub(crate) unsafe fn descriptor(stream: *mut FILE) -> c_int {
    let before = errno();
    // SAFETY: the caller's promise.
    let fd = unsafe { libc::fileno(stream) };
    if fd < 0 {
        set_errno(before);
    }
    fd
}

/// Writes until all is written or a write fails; the count.
///
/// # Safety
/// `buf` holds `len` bytes.
pub(crate) unsafe fn write_all(fd: c_int, buf: *const c_void, len: size_t) -> size_t {
    let mut done = 0;
    while done < len {
        // SAFETY: within the buffer.
        let written = unsafe { write(fd, buf.byte_add(done), len - done) };
        match usize::try_from(written) {
            Ok(more) => done += more,
            Err(_) => break,
        }
    }
    done
}

fn cookie(fd: c_int) -> *mut c_void {
    std::ptr::without_provenance_mut(fd as usize)
}

fn number(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int
}

unsafe extern "C-unwind" fn on_read(cookie: *mut c_void, buf: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { read(number(cookie), buf.cast(), len) }
}

unsafe extern "C-unwind" fn on_write(
    cookie: *mut c_void,
    buf: *const c_char,
    len: size_t,
) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { write_all(number(cookie), buf.cast(), len) as ssize_t }
}

unsafe extern "C-unwind" fn on_seek(_: *mut c_void, _: *mut i64, _: c_int) -> c_int {
    set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C-unwind" fn on_close(cookie: *mut c_void) -> c_int {
    let fd = number(cookie);
    if let Some((word, bit)) = mark(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
    // SAFETY: the stream owned the descriptor.
    unsafe { close(fd) }
}

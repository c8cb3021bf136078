//! libc's streams.
//!
//! They read, write and close by calls inside libc that no symbol leads to. But each does so by its
//! table of functions, and the tables lie in libc's data: `_IO_file_jumps`, and `_IO_wfile_jumps` for
//! wide characters. There our functions take the place of libc's, once, by the constructor. They ask
//! whether the descriptor is one of ours, as every hook does, and otherwise go on in libc. So it
//! does not matter when a stream was made or what number it has, and it stays libc's own: buffers,
//! orientation, locks, `fileno`.
//!
//! libc makes the tables read-only once they are relocated, so a page or two are writable for a
//! moment. Nothing is changed unless the tables hold the very functions that libc exports, so one
//! of another form is left alone; then streams are not seen, and a connection on a descriptor that
//! one may use stays on TCP.
use crate::cold::{find, sys};
use crate::dispatch::{errno, set_errno, tracked};
use crate::hooks::io::{read, write};
use crate::hooks::life::close;
use crate::symbols::Slot;
use libc::{c_int, c_void, dl_phdr_info, size_t, ssize_t, FILE};
use smc_core::sync::{AtomicU8, Ordering};
use std::mem::transmute;
use std::ptr::null_mut;

type Read = unsafe extern "C-unwind" fn(*mut FILE, *mut c_void, ssize_t) -> ssize_t;
type Write = unsafe extern "C-unwind" fn(*mut FILE, *const c_void, ssize_t) -> ssize_t;
type Close = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;

/// A table is so many words, and these are the ones for reading, writing and closing.
const READ: usize = 14;
const WRITE: usize = 15;
const CLOSE: usize = 17;

/// libc's own functions.
static LIBC_READ: Slot = Slot::new(std::ptr::null());
static LIBC_WRITE: Slot = Slot::new(std::ptr::null());
static LIBC_CLOSE: Slot = Slot::new(std::ptr::null());

/// Where glibc's `FILE` keeps the descriptor and the offset that it knows, if not negative: part of
/// its binary interface since 2.1.
const FILENO: usize = 112;
const OFFSET: usize = 144;
/// The bit of its first word that `ferror` tells.
const ERROR_SEEN: c_int = 0x20;

const PAGE: usize = 4096;

/// Whether all streams pass our functions.
static SEEN: AtomicU8 = AtomicU8::new(0);

/// Whether they do. Relaxed: the constructor has set it.
pub(crate) fn are_seen() -> bool {
    SEEN.load(Ordering::Relaxed) != 0
}

/// Lets all streams pass our functions; false: they do not.
pub(crate) fn install() -> bool {
    let done = enter_tables();
    SEEN.store(u8::from(done), Ordering::Relaxed);
    done
}

fn enter_tables() -> bool {
    let tables = [find("_IO_file_jumps\0"), find("_IO_wfile_jumps\0")];
    let [reads, writes, closes] =
        ["_IO_file_read\0", "_IO_file_write\0", "_IO_file_close\0"].map(find);
    if tables.contains(&null_mut()) || [reads, writes, closes].contains(&null_mut()) {
        return false;
    }
    let (read, write, close): (Read, Write, Close) = (on_read, on_write, on_close);
    let rows = [
        (READ, reads, read as *mut c_void),
        (WRITE, writes, write as *mut c_void),
        (CLOSE, closes, close as *mut c_void),
    ];
    for table in tables.map(<*mut c_void>::cast::<*mut c_void>) {
        for (at, libcs, _) in rows {
            // SAFETY: a table of libc's, which is longer than that.
            if unsafe { table.add(at).read() } != libcs {
                return false;
            }
        }
    }
    LIBC_READ.set(reads);
    LIBC_WRITE.set(writes);
    LIBC_CLOSE.set(closes);
    tables.into_iter().all(|table| {
        let place = |at: usize| table.cast::<*mut c_void>().wrapping_add(at);
        while_writable(place(READ).addr(), place(CLOSE + 1).addr(), || {
            for (at, _, ours) in rows {
                // SAFETY: a word of the table, writable now; aligned, so that another thread reads
                // the one function or the other.
                unsafe { place(at).write_volatile(ours) };
            }
        })
    })
}

/// Changes memory that libc has made read-only, or that it has not; false: it cannot be.
fn while_writable(start: usize, end: usize, change: impl FnOnce()) -> bool {
    let (first, last) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
    let protect = |protection: c_int| {
        let words = [first, last - first, protection as usize];
        // SAFETY: whole pages of libc's data, which stay readable; others in them are only read.
        unsafe { sys(libc::SYS_mprotect, &words) == 0 }
    };
    if !is_read_only(start, end) {
        change();
        return true;
    }
    if !protect(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    change();
    protect(libc::PROT_READ);
    true
}

/// Whether the loader has made this read-only after it had relocated it.
fn is_read_only(start: usize, end: usize) -> bool {
    struct Question {
        range: [usize; 2],
        answer: bool,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, data: *mut c_void) -> c_int {
        // SAFETY: what the loader hands over, and what was handed to it.
        let (info, question) = unsafe { (&*info, &mut *data.cast::<Question>()) };
        for nth in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: within the table.
            let header = unsafe { &*info.dlpi_phdr.add(nth) };
            let from = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
            let [start, end] = question.range;
            if header.p_type == libc::PT_GNU_RELRO
                && from <= start
                && end <= from.wrapping_add(header.p_memsz as usize)
            {
                question.answer = true;
            }
        }
        c_int::from(question.answer)
    }
    let mut question = Question { range: [start, end], answer: false };
    // SAFETY: the function takes what is handed over for what it is.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut question).cast()) };
    question.answer
}

/// The descriptor of a stream that libc calls a function of its table for.
fn number(file: *mut FILE) -> c_int {
    // SAFETY: glibc's FILE is at least 216 bytes long on every 64-bit system.
    unsafe { file.byte_add(FILENO).cast::<c_int>().read() }
}

unsafe extern "C-unwind" fn on_read(file: *mut FILE, buf: *mut c_void, len: ssize_t) -> ssize_t {
    let fd = number(file);
    // SAFETY: libc's own call, which goes on in libc or in our hook.
    unsafe {
        if tracked(fd) {
            read(fd, buf, len as size_t)
        } else {
            transmute::<*mut c_void, Read>(LIBC_READ.get())(file, buf, len)
        }
    }
}

unsafe extern "C-unwind" fn on_write(file: *mut FILE, buf: *const c_void, len: ssize_t) -> ssize_t {
    let fd = number(file);
    // SAFETY: as above; the words of the stream are changed as libc's function does, by the thread
    // that has its lock.
    unsafe {
        if !tracked(fd) {
            return transmute::<*mut c_void, Write>(LIBC_WRITE.get())(file, buf, len);
        }
        let done = write_all(fd, buf, len as size_t) as ssize_t;
        if done < len {
            has_failed(file);
        }
        let offset = file.byte_add(OFFSET).cast::<i64>();
        if *offset >= 0 {
            *offset += done as i64;
        }
        done
    }
}

unsafe extern "C-unwind" fn on_close(file: *mut FILE) -> c_int {
    let fd = number(file);
    // SAFETY: as above; the stream owns the descriptor.
    unsafe {
        if tracked(fd) {
            close(fd)
        } else {
            transmute::<*mut c_void, Close>(LIBC_CLOSE.get())(file)
        }
    }
}

/// What `ferror` tells of the stream is that a write has failed.
///
/// # Safety
/// An open stream.
pub(crate) unsafe fn has_failed(stream: *mut FILE) {
    // SAFETY: its first word.
    unsafe { *stream.cast::<c_int>() |= ERROR_SEEN };
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

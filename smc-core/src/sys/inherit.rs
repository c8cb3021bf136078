//! What an `exec` keeps: the open descriptors of this process, and whether the new program is
//! trusted as this one is.
use super::{limits, raw};
use libc::c_int;

/// Bytes of a list that are fetched at a time.
const BATCH: usize = 4096;

/// The open descriptors of the calling process as the kernel lists them: right also in a child that
/// shares its parent's memory. False: the list cannot be had. `with` may close none of them.
pub fn each_open(mut with: impl FnMut(c_int)) -> bool {
    let Ok(list) = raw::open_dir(c"/proc/self/fd") else { return false };
    let mut batch = Batch([0; BATCH]);
    let whole = loop {
        match raw::list_dir(list, &mut batch.0) {
            Ok(0) => break true,
            Ok(len) => names(batch.0.get(..len).unwrap_or(&[]), |name| {
                if let Some(fd) = number(name).filter(|fd| *fd != list) {
                    with(fd);
                }
            }),
            Err(_) => break false,
        }
    };
    raw::close(list);
    whole
}

/// Aligned as the kernel writes its entries.
#[repr(align(8))]
struct Batch([u8; BATCH]);

/// The names in a list: entries of inode, offset, length (16 bits, at 16), type, name, NUL.
fn names(mut entries: &[u8], mut with: impl FnMut(&[u8])) {
    while let Some(length) = entries.get(16..18) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let Some(entry) = entries.get(19..length) else { return };
        with(entry.split(|byte| *byte == 0).next().unwrap_or(&[]));
        entries = entries.get(length..).unwrap_or(&[]);
    }
}

fn number(name: &[u8]) -> Option<c_int> {
    if name.is_empty() || name.len() > 9 {
        return None;
    }
    name.iter().try_fold(0, |value: c_int, digit| match digit {
        b'0'..=b'9' => Some(value * 10 + c_int::from(digit - b'0')),
        _ => None,
    })
}

/// Whether the descriptor stays open over an `exec`.
pub fn is_inherited(fd: c_int) -> bool {
    raw::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize == 0)
}

/// Whether nothing but the program's own file can make the system distrust what an `exec` starts,
/// so that it ignores `LD_PRELOAD`; and nothing can keep the new image from mapping memory.
pub fn trusts_next_image() -> bool {
    let [real, effective] = raw::user_ids();
    if real != effective || limits::has_memory_limit() {
        return false;
    }
    // A security module that confines this process may distrust what it starts.
    let mut label = [0; 16];
    let Ok(fd) = raw::open_read(c"/proc/self/attr/current") else { return true };
    let got = raw::read(fd, &mut label);
    raw::close(fd);
    match got {
        Ok(len) => matches!(label.get(..len), Some(b"" | b"unconfined" | b"unconfined\n")),
        // There is none.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sys::raw;

    #[test]
    fn the_list_holds_what_is_open() {
        // More than one batch.
        let mine: Vec<c_int> = (0..300).map(|_| raw::eventfd().unwrap()).collect();
        let mut seen = Vec::new();
        assert!(each_open(|fd| seen.push(fd)));
        assert!(mine.iter().all(|fd| seen.contains(fd)));
        // The list itself is no more.
        let unknown =
            |fd: &&c_int| !mine.contains(fd) && raw::fcntl(**fd, libc::F_GETFD, 0).is_err();
        assert_eq!(seen.iter().filter(unknown).count(), 0);
        for fd in mine {
            assert!(!is_inherited(fd));
            raw::close(fd);
        }
    }

    #[test]
    fn names_that_are_no_numbers_are_none() {
        assert_eq!(number(b"17"), Some(17));
        for name in [&b"."[..], b"..", b"", b"1x", b"12345678901"] {
            assert_eq!(number(name), None);
        }
    }
}

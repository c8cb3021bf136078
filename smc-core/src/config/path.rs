//! A file path that lies in the settings themselves.
use core::ffi::CStr;
use core::fmt;

/// The kernel's `PATH_MAX`, the final NUL included.
const CAPACITY: usize = 4096;

/// A path with a NUL behind it, of fixed capacity.
///
/// The program may overwrite or free its environment at any time, and the constructor that reads
/// it must not allocate: so the bytes are kept by value.
#[derive(Clone, Copy)]
pub struct BytePath {
    /// All bytes from `len` on are 0, and none before is.
    bytes: [u8; CAPACITY],
    len: usize,
}

impl BytePath {
    /// A copy of `path`, unless it is empty, too long or holds a NUL.
    pub fn new(path: &[u8]) -> Option<Self> {
        Self::join(path, b"", b"")
    }

    /// This path seen from the directory `cwd`: itself when it is absolute. `None` when the two
    /// together are too long.
    pub fn absolute(&self, cwd: &[u8]) -> Option<Self> {
        match self.is_absolute() {
            true => Some(*self),
            false => Self::join(cwd, b"/", self.as_bytes()),
        }
    }

    /// Whether it means the same from every directory.
    pub fn is_absolute(&self) -> bool {
        self.as_bytes().first() == Some(&b'/')
    }

    /// The path without the final NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The path as system calls want it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    fn join(head: &[u8], middle: &[u8], tail: &[u8]) -> Option<Self> {
        let mut path = Self { bytes: [0; CAPACITY], len: 0 };
        for part in [head, middle, tail] {
            let end = path.len.checked_add(part.len()).filter(|&end| end < CAPACITY)?;
            path.bytes.get_mut(path.len..end)?.copy_from_slice(part);
            path.len = end;
        }
        (path.len > 0 && !path.as_bytes().contains(&0)).then_some(path)
    }
}

impl PartialEq for BytePath {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for BytePath {}

impl fmt::Debug for BytePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

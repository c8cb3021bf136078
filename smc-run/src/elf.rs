//! The little that is to know of a program file: can a library be loaded into it?
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What an ELF file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elf {
    /// For this machine and word size, as far as the header tells.
    pub is_native: bool,
    /// A shared library or a position-independent program.
    pub is_shared_object: bool,
    /// Started by the dynamic linker.
    pub has_interpreter: bool,
}

const HEADER: usize = 64;
const ET_DYN: u16 = 3;
const PT_INTERP: u32 = 3;
/// Bytes of a 64-bit program header.
const ENTRY: u64 = 56;

/// Reads the file at `path`; `None` for a file that is not ELF.
pub fn read(path: &Path) -> io::Result<Option<Elf>> {
    let mut file = File::open(path)?;
    let mut header = [0; HEADER];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    if !header.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let is_shared_object = half(&header, 16) == ET_DYN;
    // Class, byte order and machine as in this very program.
    let mut own = [0; HEADER];
    File::open("/proc/self/exe")?.read_exact(&mut own)?;
    if own[4..6] != header[4..6] || own[18..20] != header[18..20] {
        return Ok(Some(Elf { is_native: false, is_shared_object, has_interpreter: false }));
    }
    let start = u64::from_ne_bytes(header[32..40].try_into().unwrap_or_default());
    let count = u64::from(half(&header, 56));
    let mut has_interpreter = false;
    for index in 0..count {
        let mut kind = [0; 4];
        let offset = start.saturating_add(index * ENTRY);
        if file.read_exact_at(&mut kind, offset).is_err() {
            break;
        }
        has_interpreter |= u32::from_ne_bytes(kind) == PT_INTERP;
    }
    Ok(Some(Elf { is_native: true, is_shared_object, has_interpreter }))
}

fn half(header: &[u8; HEADER], offset: usize) -> u16 {
    u16::from_ne_bytes([header[offset], header[offset + 1]])
}

//! Which file a command names, and why the library may stay out of it.
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{access, getxattr, Access};

use crate::elf;

/// Where execvp looks when there is no PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Interpreters of interpreters that the kernel follows.
const SCRIPT_DEPTH: usize = 5;

/// Why a program runs over plain TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uninterposable {
    /// It is linked statically, as most Go programs are.
    Static,
    /// It is for another machine or word size.
    Foreign,
    /// It is set-user-ID or set-group-ID to somebody else.
    SetId,
    /// It has file capabilities.
    Capabilities,
}

impl fmt::Display for Uninterposable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "is linked statically",
            Self::Foreign => "is built for another architecture",
            Self::SetId => "is set-user-ID or set-group-ID",
            Self::Capabilities => "has file capabilities",
        })
    }
}

/// The file that execvp would run: the first in PATH that can be executed, not a directory.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return is_executable(&path).then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let folders = path.as_bytes().split(|&byte| byte == b':').map(|folder| match folder {
        // An empty entry is the current directory.
        b"" => Path::new("."),
        folder => Path::new(OsStr::from_bytes(folder)),
    });
    (!name.is_empty()).then_some(())?;
    folders.map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// Why the library will not be in the program at `path`, if so. For a script it is about the
/// interpreter.
pub fn uninterposable(path: &Path) -> io::Result<Option<Uninterposable>> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPT_DEPTH {
        match interpreter(&path)? {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    let metadata = fs::metadata(&path)?;
    let (mode, user) = (metadata.mode(), rustix::process::getuid());
    let set_user = mode & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let set_group = mode & 0o2010 == 0o2010 && metadata.gid() != rustix::process::getgid().as_raw();
    if set_user || set_group {
        return Ok(Some(Uninterposable::SetId));
    }
    let capabilities = getxattr(&path, c"security.capability", &mut [0u8; 64]);
    if capabilities.is_ok_and(|len| len > 0) && !user.is_root() {
        return Ok(Some(Uninterposable::Capabilities));
    }
    Ok(match elf::read(&path)? {
        Some(file) if !file.is_native => Some(Uninterposable::Foreign),
        Some(file) if !file.has_interpreter => Some(Uninterposable::Static),
        // A file of no known kind is one that execvp gives to the shell.
        _ => None,
    })
}

/// The program that a script names in its first line.
fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    File::open(path)?.take(256).read_to_end(&mut line)?;
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let name = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    Ok((!name.is_empty()).then(|| PathBuf::from(OsString::from_vec(name.to_vec()))))
}

fn is_executable(path: &Path) -> bool {
    let is_program = |m: fs::Metadata| m.is_file() && m.permissions().mode() & 0o111 != 0;
    fs::metadata(path).is_ok_and(is_program) && access(path, Access::EXEC_OK).is_ok()
}

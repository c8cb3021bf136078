//! Where the library is, and how it gets into `LD_PRELOAD`.
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::elf;

/// The library's file name.
pub const NAME: &str = "libsmc_preload.so";

/// Why there is no library to load.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Not where it is looked for.
    #[error("cannot find {NAME} in {0}; set SMC_PRELOAD_LIB to its path")]
    NotFound(String),
    /// Named by SMC_PRELOAD_LIB, but not readable there.
    #[error("cannot read the library {}: {error}", .path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// What reading it says.
        error: io::Error,
    },
    /// A file of another kind.
    #[error("{} is not a shared library", .0.display())]
    NotALibrary(PathBuf),
    /// The dynamic linker splits LD_PRELOAD at these.
    #[error("the path of the library, {}, has a space or colon, which LD_PRELOAD cannot hold", .0.display())]
    Unnameable(PathBuf),
}

/// The absolute path of the library: `SMC_PRELOAD_LIB`, or one beside this program.
pub fn find() -> Result<PathBuf, LibraryError> {
    let path = match crate::cli::setting("SMC_PRELOAD_LIB") {
        Some(path) => PathBuf::from(path),
        None => installed()?,
    };
    // The program may change its directory before it starts others, so the path must be absolute.
    let path = path.canonicalize().map_err(|error| LibraryError::Unreadable { path, error })?;
    match elf::read(&path) {
        Ok(Some(file)) if file.is_shared_object => {}
        Ok(_) => return Err(LibraryError::NotALibrary(path)),
        Err(error) => return Err(LibraryError::Unreadable { path, error }),
    }
    if path.as_os_str().as_bytes().iter().any(|&byte| is_separator(byte)) {
        return Err(LibraryError::Unnameable(path));
    }
    Ok(path)
}

fn installed() -> Result<PathBuf, LibraryError> {
    let not_found = |places| LibraryError::NotFound(places);
    let program = std::env::current_exe().map_err(|e| not_found(format!("/proc: {e}")))?;
    let folders = folders(&program);
    let found = folders.iter().map(|folder| folder.join(NAME)).find(|path| path.exists());
    found.ok_or_else(|| {
        let shown = folders.iter().map(|folder| folder.display().to_string());
        not_found(shown.collect::<Vec<_>>().join(", "))
    })
}

/// Where the library of the program at `program` may lie: beside it, in `../lib`, or, in a build
/// tree, where the other profile puts it.
fn folders(program: &Path) -> Vec<PathBuf> {
    let Some(own) = program.parent() else { return Vec::new() };
    let mut folders = vec![own.to_owned()];
    if let Some(above) = own.parent() {
        folders.push(above.join("lib"));
        if above.file_name() == Some(OsStr::new("target")) {
            let profiles = ["release", "debug"].map(|profile| above.join(profile));
            folders.extend(profiles.into_iter().filter(|folder| folder != own));
        }
    }
    folders
}

/// `LD_PRELOAD` with `library` in it.
///
/// What is there keeps its order, and ours comes last: next to the C library. So it takes the
/// kernel's place for the others as well. A library that wraps connect() or write() still sees
/// every call, and the sanitizers, which must be first, are. A copy of ours that is there, from
/// an `smc-run` inside another, gives way: it must not be loaded twice.
pub fn preload(existing: Option<&OsStr>, library: &Path) -> OsString {
    let existing = existing.unwrap_or_default().as_bytes();
    let others = existing.split(|&byte| is_separator(byte)).filter(|entry| !entry.is_empty());
    let others = others.filter(|entry| {
        let entry = Path::new(OsStr::from_bytes(entry));
        entry != library && entry.file_name() != Some(OsStr::new(NAME))
    });
    let mut entries: Vec<&[u8]> = others.collect();
    entries.push(library.as_os_str().as_bytes());
    OsString::from_vec(entries.join(&b':'))
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(existing: &str) -> OsString {
        preload(Some(OsStr::new(existing)), Path::new("/opt/libsmc_preload.so"))
    }

    #[test]
    fn others_keep_their_order_and_ours_is_last() {
        assert_eq!(preload(None, Path::new("/a.so")), "/a.so");
        assert_eq!(preloaded(""), "/opt/libsmc_preload.so");
        assert_eq!(preloaded("liba.so: /b.so"), "liba.so:/b.so:/opt/libsmc_preload.so");
    }

    #[test]
    fn ours_is_there_once() {
        let once = preloaded("/x/libsmc_preload.so /a.so:/opt/libsmc_preload.so");
        assert_eq!(once, "/a.so:/opt/libsmc_preload.so");
        assert_eq!(preloaded(once.to_str().unwrap_or_default()), once);
    }

    #[test]
    fn build_trees_and_installations_are_searched() {
        let installed = folders(Path::new("/usr/bin/smc-run"));
        assert_eq!(installed, ["/usr/bin", "/usr/lib"].map(PathBuf::from));
        let built = folders(Path::new("/s/target/debug/smc-run"));
        let expected = ["/s/target/debug", "/s/target/lib", "/s/target/release"];
        assert_eq!(built, expected.map(PathBuf::from));
    }
}

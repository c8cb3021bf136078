//! Where the things under test lie.
use std::env;
use std::path::PathBuf;

use super::{Failure, Result};

/// `smc-run`, built in release: from `SMC_BIN_DIR`, beside the running program, or from the
/// project's own target folder.
pub fn smc_run() -> Result<PathBuf> {
    find("smc-run")
}

/// `smc-ss`.
pub fn smc_ss() -> Result<PathBuf> {
    find("smc-ss")
}

/// A program of this package.
pub fn own(name: &str) -> Result<PathBuf> {
    find(name)
}

/// The root of the project.
pub fn project() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Whether the shell would find `program`.
pub fn installed(program: &str) -> bool {
    path_of(program).is_some()
}

/// Where the shell would find `program`.
pub fn path_of(program: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

fn find(name: &str) -> Result<PathBuf> {
    let mut folders = Vec::new();
    if let Some(folder) = env::var_os("SMC_BIN_DIR") {
        folders.push(PathBuf::from(folder));
    }
    if let Ok(exe) = env::current_exe() {
        // A test runs from target/PROFILE/deps, a program from target/PROFILE.
        folders.extend(exe.ancestors().skip(1).take(2).map(PathBuf::from));
    }
    folders.push(project().join("target/release"));
    folders
        .iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| Failure::new(format!("{name} is not built; run cargo build --release")))
}

//! Finding what cargo built, and building the C cases.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// `target/debug` or `target/release`, wherever this test was built.
fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let dir = exe.parent().unwrap();
    if dir.ends_with("deps") { dir.parent().unwrap() } else { dir }.to_path_buf()
}

fn existing(path: PathBuf, how: &str) -> PathBuf {
    assert!(path.exists(), "{} is missing: {how}", path.display());
    path
}

/// A case program of this package.
pub fn program(name: &str) -> PathBuf {
    existing(profile_dir().join(name), "cargo build -p smc-tests --bins")
}

/// The `smc-run` under test: `SMC_RUN`, else the one beside the test programs.
pub fn smc_run() -> PathBuf {
    let path =
        std::env::var_os("SMC_RUN").map_or_else(|| profile_dir().join("smc-run"), PathBuf::from);
    existing(path, "cargo build --workspace")
}

/// The preload library that `smc-run` injects.
pub fn preload_library() -> PathBuf {
    let path = smc_run().parent().unwrap().join("libsmc_preload.so");
    existing(path, "cargo build --workspace")
}

/// A shared library of the system by its file name, with its full path.
pub fn find_library(name: &str) -> PathBuf {
    let dirs =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let hit = dirs
        .iter()
        .flat_map(|dir| [Path::new(dir).join(name), Path::new(dir).join("faketime").join(name)])
        .find(|path| path.exists());
    hit.unwrap_or_else(|| panic!("{name} is not installed (scripts/test.sh installs it)"))
}

/// A directory below the target directory that goes away with its owner.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A fresh, empty directory.
pub fn scratch() -> Scratch {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let unique = format!("case-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let dir = profile_dir().join("case-tmp").join(unique);
    std::fs::create_dir_all(&dir).unwrap();
    Scratch(dir)
}

/// An empty file that every user may write to.
pub(super) fn for_everybody(path: PathBuf) -> PathBuf {
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    path
}

/// Compiles `tests/c/NAME.c` or `NAME.cc` with these extra flags, once per test process, and tells where it is.
pub fn compile_c(name: &str, flags: &[&str]) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let dir = profile_dir().join("case-c");
    std::fs::create_dir_all(&dir).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let c = folder.join(format!("{name}.c"));
    let (compiler, source) =
        if c.exists() { ("gcc", c) } else { ("g++", folder.join(format!("{name}.cc"))) };
    let tag: String =
        flags.iter().flat_map(|f| f.chars()).filter(char::is_ascii_alphanumeric).collect();
    let out = dir.join(format!("{name}{tag}"));
    // Tests run side by side: build under a name of our own, then put it in place whole.
    let unique = format!("{name}.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let part = dir.join(unique);
    let done = Command::new(compiler)
        .args(["-O2", "-Wall", "-Werror", "-D_GNU_SOURCE", "-pthread", "-o"])
        .arg(&part)
        .arg(&source)
        .args(flags)
        .output()
        .unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(done.status.success(), "{compiler} {name}: {}", String::from_utf8_lossy(&done.stderr));
    std::fs::rename(&part, &out).unwrap();
    out
}

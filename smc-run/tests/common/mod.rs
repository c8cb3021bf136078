//! What the tests of the tools share.
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assert_cmd::Command;

/// A stand-in for the library: it says so when it is loaded and asked to.
pub(crate) const STUB: &str = r#"
#include <stdlib.h>
#include <unistd.h>
#define TEXT(x) #x
#define LINE(x) TEXT(x) " is here\n"
__attribute__((constructor)) static void here(void) {
    if (getenv("STUB_TELL"))
        (void)!write(1, LINE(NAME), sizeof LINE(NAME) - 1);
}
"#;

/// `smc-run` with the stand-in, in an environment without settings.
pub(crate) fn smc_run() -> Command {
    let mut command = bare(env!("CARGO_BIN_EXE_smc-run"));
    command.env("SMC_PRELOAD_LIB", stub());
    command
}

/// A program in an environment without settings.
pub(crate) fn bare(program: &str) -> Command {
    let mut command = Command::new(program);
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.as_encoded_bytes().starts_with(b"SMC_")) {
        command.env_remove(name);
    }
    command.env_remove("LD_PRELOAD").env_remove("RUST_LOG");
    command.timeout(std::time::Duration::from_secs(30));
    command
}

/// The stand-in's path.
pub(crate) fn stub() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(concat!("stub-", env!("CARGO_CRATE_NAME")));
        std::fs::create_dir_all(&folder).unwrap();
        library(&folder.join("libsmc_preload.so"), STUB, "library");
        folder.canonicalize().unwrap()
    });
    folder.join("libsmc_preload.so")
}

/// Compiles C text to a shared library.
pub(crate) fn library(path: &Path, text: &str, name: &str) {
    compile(path, text, &["-shared", "-fPIC", &format!("-DNAME={name}")]);
}

/// Compiles C text with the compiler that also links Rust programs.
pub(crate) fn compile(path: &Path, text: &str, options: &[&str]) {
    let input = path.with_extension("c");
    std::fs::write(&input, text).unwrap();
    let mut command = Command::new("cc");
    command.args(options).arg(&input).arg("-o").arg(path).assert().success();
}

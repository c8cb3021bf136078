//! The preload library exports its hooks, nothing else, and needs nothing that a host may lack.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use smc_tests::apps::{artefacts, Scratch};

fn library() -> PathBuf {
    artefacts::smc_run().unwrap().with_file_name("libsmc_preload.so")
}

fn list() -> PathBuf {
    artefacts::project().join("smc-preload/exports.txt")
}

fn check(library: &Path, list: &Path) -> Output {
    let script = artefacts::project().join("scripts/check-exports.sh");
    Command::new(script).args([library, list]).output().unwrap()
}

#[test]
fn exports_are_those_of_the_list() {
    let output = check(&library(), &list());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The check itself must see a hook that has vanished and one that nobody asked for.
#[test]
fn a_difference_is_seen() {
    let scratch = Scratch::new("exports").unwrap();
    let changed = scratch.path().join("exports.txt");
    let text = fs::read_to_string(list()).unwrap();

    fs::write(&changed, format!("{text}\nno_such_hook\n")).unwrap();
    let output = check(&library(), &changed);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing: no_such_hook"));

    let without: String =
        text.lines().filter(|line| *line != "connect").map(|line| format!("{line}\n")).collect();
    fs::write(&changed, without).unwrap();
    let output = check(&library(), &changed);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("unexpected: connect"));
}

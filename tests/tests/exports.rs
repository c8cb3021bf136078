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

/// What becomes of each export is written down, with tests that exist.
#[test]
fn coverage_is_complete() {
    let script = artefacts::project().join("scripts/check-coverage.sh");
    let run = |args: &[&Path]| Command::new(&script).args(args).output().unwrap();
    let output = run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let scratch = Scratch::new("coverage").unwrap();
    let changed = scratch.path().join("coverage.md");
    let text = fs::read_to_string(artefacts::project().join("docs/coverage.md")).unwrap();
    for (old, new, complaint) in [
        ("`connect` ", "", "no row for: connect"),
        ("`listen`", "`listen` `no_such_call`", "not exported: no_such_call"),
        ("data::c10_files", "data::c10_no_such_test", "data::c10_no_such_test: not in"),
        ("data::c10_files", "nowhere::c10_files", "there is no tests/tests/nowhere.rs"),
        ("data::c10_files", "", "no test in the row"),
    ] {
        fs::write(&changed, text.replacen(old, new, 1)).unwrap();
        let output = run(&[&changed]);
        assert!(!output.status.success(), "{old:?} became {new:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(complaint), "{old:?} became {new:?}: {stderr}");
    }
}

//! The structure rules hold, and the scripts that check them see a fault.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use smc_tests::apps::{artefacts, Scratch};

fn check(script: &str, tree: &Path) -> Output {
    let script = artefacts::project().join("scripts").join(script);
    Command::new(script).arg(tree).output().unwrap()
}

/// A tree with the given file in place of the project's.
fn tree_with(file: &str, text: &str) -> Scratch {
    let scratch = Scratch::new("tree").unwrap();
    for folder in ["smc-core/src", "smc-preload/src", "smc-run/src"] {
        fs::create_dir_all(scratch.path().join(folder)).unwrap();
    }
    fs::write(scratch.path().join("smc-core/src/lib.rs"), "").unwrap();
    let path = scratch.path().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    scratch
}

fn assert_refused(file: &str, text: &str, complaint: &str) {
    let tree = tree_with(file, text);
    let output = check("check-layers.sh", tree.path());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{file} with {text:?} passed");
    assert!(stderr.contains(complaint), "{file} with {text:?}: {stderr}");
}

fn assert_allowed(file: &str, text: &str) {
    let tree = tree_with(file, text);
    let output = check("check-layers.sh", tree.path());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{file} with {text:?}: {stderr}");
}

#[test]
fn the_project_keeps_its_layers() {
    let output = check("check-layers.sh", &artefacts::project());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_import_from_above_is_seen() {
    let complaint = "ring may not import conn";
    assert_refused("smc-core/src/ring/mod.rs", "use crate::conn::Connection;\n", complaint);
    assert_refused("smc-core/src/ring/mod.rs", "use super::conn::Connection;\n", complaint);
    let grouped = "use crate::{\n    shm::Region,\n    conn::{Connection, State},\n};\n";
    assert_refused("smc-core/src/ring/cursor.rs", grouped, complaint);
    let inline = "fn f() { crate::conn::close() }\n";
    assert_refused("smc-core/src/ring/cursor.rs", inline, complaint);
}

#[test]
fn a_sibling_and_an_unknown_module_are_seen() {
    let file = "smc-core/src/proto/mod.rs";
    assert_refused(file, "use crate::transport::Transport;\n", "proto may not import transport");
    assert_refused("smc-core/src/extra.rs", "", "extra has no layer");
}

#[test]
fn stray_atomics_and_unsafe_code_are_seen() {
    let atomics = "use std::sync::atomic::AtomicU32;\n";
    assert_refused("smc-core/src/ring/cursor.rs", atomics, "atomics come from");
    assert_refused("smc-core/src/conn/mod.rs", "fn f() { unsafe { g() } }\n", "unsafe code");
}

#[test]
fn what_the_rules_allow_passes() {
    assert_allowed("smc-core/src/conn/mod.rs", "use crate::{ring::Ring, errno::Errno};\n");
    assert_allowed("smc-core/src/conn/mod.rs", "// An unsafe crate::engine is only named here.\n");
    assert_allowed("smc-core/src/sys/mem.rs", "fn f() { unsafe { g() } }\n");
    let tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::engine::Engine;\n}\n";
    assert_allowed("smc-core/src/conn/mod.rs", tests);
}

#[test]
fn no_file_is_too_long() {
    let output = check("check-size.sh", &artefacts::project());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_long_file_is_seen() {
    let tree = tree_with("smc-core/src/long.rs", &"//\n".repeat(501));
    assert!(!check("check-size.sh", tree.path()).status.success());
    let tree = tree_with("smc-core/src/short.rs", &"//\n".repeat(500));
    assert!(check("check-size.sh", tree.path()).status.success());
}

//! What the options set, and what is said of a command line that makes no sense.
#![allow(clippy::unwrap_used, clippy::panic)]
mod common;

use std::fs;

use common::{bare, smc_run};

/// The settings that a program finds.
fn settings(options: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let mut command = smc_run();
    command.envs(environment.iter().copied()).current_dir("/");
    let output = command.args(options).arg("env").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let settings = text.lines().filter(|line| line.starts_with("SMC_"));
    let mut settings: Vec<_> = settings.map(str::to_owned).collect();
    settings.retain(|line| !line.starts_with("SMC_PRELOAD_LIB"));
    settings.sort();
    settings
}

/// Runs what must be refused; gives the one line of explanation.
fn refusal(command: &mut assert_cmd::Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "something was started");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("smc-run: ") && text.ends_with('\n'), "{text}");
    text
}

#[test]
fn no_option_sets_nothing() {
    assert_eq!(settings(&[], &[]), [""; 0]);
}

#[test]
fn every_option_sets_its_variable() {
    let expected = [
        "SMC_ATTACH_AFTER=0",
        "SMC_DEBUG=1",
        "SMC_MODE=loopback",
        "SMC_RCVBUF=64k",
        "SMC_SNDBUF=1M",
        "SMC_SPIN_US=10",
        "SMC_SUMMARY=/s.json",
    ];
    let short = "-d -r 64k -t 1M --mode loopback --attach-after 0 --spin-us 10 --summary s.json";
    assert_eq!(settings(&short.split(' ').collect::<Vec<_>>(), &[]), expected);
    let long = "--debug --receive-buffer=64k --sndbuf=1M --mode=loopback --attach-after=0 \
                --spin-us=10 --summary=/s.json";
    assert_eq!(settings(&long.split_whitespace().collect::<Vec<_>>(), &[]), expected);
}

#[test]
fn options_win_over_the_environment() {
    let environment = [("SMC_MODE", "off"), ("SMC_SNDBUF", "32k")];
    assert_eq!(settings(&["--mode", "rdma"], &environment), ["SMC_MODE=rdma", "SMC_SNDBUF=32k"]);
}

#[test]
fn a_summary_is_the_same_file_from_every_directory() {
    assert_eq!(settings(&[], &[("SMC_SUMMARY", "x/y")]), ["SMC_SUMMARY=/x/y"]);
}

#[test]
fn malformed_options_are_refused() {
    let malformed = [
        (vec!["-r", "12q"], "12q"),
        (vec!["-r", "0"], "size of 0"),
        (vec!["-r", ""], "--rcvbuf"),
        (vec!["-t", "k"], "--sndbuf"),
        (vec!["--mode", "fast"], "not one of auto, loopback, rdma, off"),
        (vec!["--attach-after", "soon"], "soon"),
        (vec!["--spin-us", "-1"], "-1"),
        (vec!["--bogus"], "--bogus"),
    ];
    for (options, part) in malformed {
        let line = refusal(smc_run().args(&options).args(["echo", "started"]), 2);
        assert!(line.contains(part), "{options:?}: {line}");
    }
    assert!(refusal(&mut smc_run(), 2).contains("no command given"));
}

#[test]
fn a_program_that_cannot_run_is_refused_as_by_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let line = refusal(smc_run().arg(&missing), 127);
    assert!(line.contains("missing: command not found"), "{line}");
    refusal(smc_run().arg("no-such-program-anywhere"), 127);
    refusal(smc_run().arg(""), 127);

    let plain = folder.path().join("plain");
    fs::write(&plain, "echo started\n").unwrap();
    let line = refusal(smc_run().arg(&plain), 126);
    assert!(line.contains("Permission denied"), "{line}");
    refusal(smc_run().arg(folder.path()), 126);
}

#[test]
fn without_the_library_nothing_starts() {
    let folder = tempfile::tempdir().unwrap();
    let run = |path: &std::path::Path| {
        refusal(smc_run().env("SMC_PRELOAD_LIB", path).args(["echo", "started"]), 125)
    };
    let missing = folder.path().join("missing.so");
    assert!(run(&missing).contains("missing.so"));
    let text = folder.path().join("text.so");
    fs::write(&text, "text").unwrap();
    assert!(run(&text).contains("not a shared library"));
    let spaced = folder.path().join("a b.so");
    fs::copy(common::stub(), &spaced).unwrap();
    assert!(run(&spaced).contains("space or colon"));
}

#[test]
fn the_library_is_found_beside_the_program_and_in_lib() {
    let folder = tempfile::tempdir().unwrap();
    let [bin, lib] = ["bin", "lib"].map(|name| folder.path().join(name));
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&lib).unwrap();
    let program = bin.join("smc-run");
    fs::copy(env!("CARGO_BIN_EXE_smc-run"), &program).unwrap();
    let mut run = bare(program.to_str().unwrap());
    run.env("STUB_TELL", "1").arg("true");
    assert!(refusal(&mut run, 125).contains("SMC_PRELOAD_LIB"));
    for place in [lib, bin] {
        let library = place.join("libsmc_preload.so");
        fs::copy(common::stub(), &library).unwrap();
        run.assert().success().stdout("library is here\n");
        fs::remove_file(library).unwrap();
    }
}

#[test]
fn help_version_manual_and_completions() {
    let text = |option: &[&str]| {
        let output = smc_run().args(option).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(text(&["-v"]), concat!("smc-run ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(text(&["--version"]), text(&["-v"]));
    assert!(text(&["-h"]).contains("--rcvbuf <SIZE>"));
    for variable in &smc_core::config::VARIABLES {
        assert!(text(&["--help"]).contains(variable.name));
    }
    assert!(text(&["--print-man"]).starts_with(".ie"));
    assert!(text(&["--print-man"]).contains("SMC_ATTACH_AFTER"));
    assert!(text(&["--print-completions", "bash"]).contains("--attach-after"));
}

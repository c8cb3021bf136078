//! `smc-ss` without any process to show.
#![allow(clippy::unwrap_used, clippy::panic)]
use assert_cmd::Command;

fn smc_ss(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_smc-ss")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A process that certainly has no statistics: this one.
fn own_pid() -> String {
    std::process::id().to_string()
}

#[test]
fn a_process_without_statistics_is_named() {
    let output = smc_ss(&["--json", &own_pid()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "[]\n");
    let line = format!("smc-ss: {}: no process under smc-run", own_pid());
    assert!(text(&output.stderr).starts_with(&line), "{output:?}");
    let output = smc_ss(&[&own_pid()]);
    assert!(text(&output.stdout).starts_with("PID "), "{output:?}");
}

#[test]
fn malformed_arguments_are_one_line() {
    for arguments in [["--wide"], ["x12"], ["-1"]] {
        let output = smc_ss(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn help_version_manual_and_completions() {
    assert_eq!(text(&smc_ss(&["-v"]).stdout), concat!("smc-ss ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(text(&smc_ss(&["--help"]).stdout).contains("--json"));
    assert!(text(&smc_ss(&["--print-man"]).stdout).contains("smc\\-ss"));
    assert!(text(&smc_ss(&["--print-completions", "zsh"]).stdout).contains("--json"));
}

//! A program under `smc-run` starts just as it would without, with the library in it.
#![allow(clippy::unwrap_used, clippy::panic)]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use common::{bare, compile, smc_run, stub};

fn stdout(command: &mut assert_cmd::Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_library_is_loaded() {
    assert_eq!(stdout(smc_run().env("STUB_TELL", "1").arg("true")), "library is here\n");
}

#[test]
fn exit_status_and_signal_are_the_programs() {
    smc_run().args(["sh", "-c", "exit 42"]).assert().code(42);
    let killed = smc_run().args(["sh", "-c", "kill -KILL $$"]).output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
}

#[test]
fn the_process_stays_the_same() {
    let script = "echo $$; exec \"$0\" sh -c 'echo $$'";
    let output = stdout(bare("sh").env("SMC_PRELOAD_LIB", stub()).args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_smc-run"),
    ]));
    let pids: Vec<_> = output.lines().collect();
    assert_eq!(pids.len(), 2);
    assert_eq!(pids[0], pids[1]);
}

#[test]
fn what_follows_the_command_is_the_commands() {
    let arguments = ["-d", "--mode", "off", "--", "-v", ""];
    let expected = "-d --mode off -- -v \n";
    assert_eq!(stdout(smc_run().arg("echo").args(arguments)), expected);
    assert_eq!(stdout(smc_run().args(["--", "echo"]).args(arguments)), expected);
}

#[test]
fn an_existing_preload_stays_and_ours_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("libother.so");
    common::library(&other, common::STUB, "other");
    let show = ["sh", "-c", "echo \"$LD_PRELOAD\""];
    let both = format!("{}:{}\n", other.display(), stub().display());
    assert_eq!(stdout(smc_run().env("LD_PRELOAD", &other).args(show)), both);
    let nested = [env!("CARGO_BIN_EXE_smc-run"), "sh", "-c", "echo \"$LD_PRELOAD\""];
    assert_eq!(stdout(smc_run().env("LD_PRELOAD", &other).args(nested)), both);
    let output = stdout(smc_run().env("LD_PRELOAD", &other).args(["env", "STUB_TELL=1", "true"]));
    assert!(output.contains("library is here\n") && output.contains("other is here\n"), "{output}");
}

/// The Rust runtime and `CommandExt::exec` change all three.
#[test]
fn ignored_signals_blocked_signals_and_closed_descriptors_are_handed_on() {
    let run = env!("CARGO_BIN_EXE_smc-run");
    let status = |prelude: &str, runner: &str| {
        let script = format!("{prelude} exec {runner} grep -E 'Sig(Ign|Blk)' /proc/self/status");
        stdout(bare("sh").env("SMC_PRELOAD_LIB", stub()).args(["-c", &script]))
    };
    for prelude in ["", "trap '' PIPE;", "trap '' PIPE HUP;", "trap '' HUP;"] {
        assert_eq!(status(prelude, run), status(prelude, ""), "{prelude}");
    }
    assert_ne!(status("trap '' PIPE;", run), status("", run), "the test sees SIGPIPE");

    let block = "import os, signal, sys\n\
                 signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n\
                 os.execvp(sys.argv[1], sys.argv[1:])";
    let blocked = |runner: &[&str]| {
        let mut command = bare("python3");
        command.env("SMC_PRELOAD_LIB", stub()).args(["-c", block]).args(runner);
        stdout(command.args(["grep", "SigBlk", "/proc/self/status"]))
    };
    assert_eq!(blocked(&[run]), blocked(&[]));
    assert_eq!(blocked(&[run]), "SigBlk:\t0000000000000200\n");

    let script = format!("exec {run} sh -c '[ -e /proc/self/fd/0 ] || echo closed' <&-");
    let output = stdout(bare("sh").env("SMC_PRELOAD_LIB", stub()).args(["-c", &script]));
    assert_eq!(output, "closed\n");
}

#[test]
fn programs_are_found_as_execvp_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let sub = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let [directory, plain, script, later] = ["a", "b", "c", "d"].map(sub);
    fs::create_dir(directory.join("tool")).unwrap();
    fs::write(plain.join("tool"), "echo plain").unwrap();
    // No "#!": execvp gives it to the shell.
    executable(&script.join("tool"), "echo script\n");
    executable(&later.join("tool"), "#!/bin/sh\necho later\n");
    let path = std::env::join_paths([&directory, &plain, &script, &later]).unwrap();
    assert_eq!(stdout(smc_run().env("PATH", &path).arg("tool")), "script\n");
    // An empty entry is the current directory.
    let here = std::env::join_paths([directory.as_os_str(), "".as_ref()]).unwrap();
    let mut command = smc_run();
    assert_eq!(stdout(command.env("PATH", here).current_dir(&later).arg("tool")), "later\n");
}

#[test]
fn a_static_program_runs_and_debugging_says_that_it_is_plain_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("static");
    compile(&program, "int main(void) { return 7; }", &["-static"]);
    smc_run().arg(&program).assert().code(7).stderr("");
    let line = format!(
        "smc-run: {} is linked statically: its connections will be plain TCP\n",
        program.display()
    );
    smc_run().arg("-d").arg(&program).assert().code(7).stderr(line);
    let script = folder.path().join("script");
    executable(&script, &format!("#! {}\n", program.display()));
    let output = smc_run().arg("-d").arg(&script).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("linked statically"), "{output:?}");
    smc_run().args(["-d", "true"]).assert().code(0).stderr("");
}

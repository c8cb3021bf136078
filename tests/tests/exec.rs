//! A connection outlives the image of a process that inherits it: `exec`, and children that are
//! started as another program.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::{compile_c, Arrangement, Case};
use smc_tests::harness::{scratch, smc_run, stats, Scratch};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn exec(case: &str) -> Case {
    Case::pair("case-exec", case)
}

/// The server becomes another image while data lies unread in both directions.
#[test]
fn e7_server_execs() {
    exec("again").args(["server"]).images(2).check();
}

/// So does the client.
#[test]
fn e7_client_execs() {
    exec("again").args(["client"]).images(2).check();
}

/// And both.
#[test]
fn e7_both_exec() {
    exec("again").args(["both"]).images(2).check();
}

/// A child that is another image serves alone, whatever started it.
#[test]
fn e7_child_goes_on() {
    for how in ["fork", "vfork", "spawn"] {
        exec("hands_over").args([how]).images(4).check();
    }
}

/// A child that is another image, and its parent, use one connection in turn.
#[test]
fn e7_parent_and_child_in_turn() {
    for how in ["fork", "vfork", "spawn"] {
        exec("in_turn").args([how]).images(3).check();
    }
}

/// Programs that inherit a connection and leave it alone do it no harm.
#[test]
fn e6_bystanders() {
    exec("bystanders").images(2).check();
}

/// An exec that fails changes nothing.
#[test]
fn e7_exec_fails() {
    exec("fails").images(2).check();
}

/// An image without the library goes on over TCP.
#[test]
fn e7_foreign_image() {
    exec("foreign").check();
}

/// A connection on the standard descriptors of a child, as under inetd.
#[test]
fn e7_standard_descriptors() {
    for how in ["fork", "vfork", "spawn"] {
        exec("standard").args([how]).images(4).check();
    }
}

/// One thread execs while others are in the middle of sending and receiving.
#[test]
fn e7_exec_among_threads() {
    exec("threads").images(2).check();
}

/// A server is replaced in place, again and again, with its listener and connections in use.
#[test]
fn e20_replaced_in_place() {
    exec("upgrade").images(2).check();
}

/// A server that gets its listener as systemd gives it.
#[test]
fn e20_socket_activation() {
    exec("activation").images(2).check();
}

/// Children become a static program: the connection goes back to TCP before they see it.
#[test]
fn e7_static_children() {
    let program = compile_c("static_echo", &["-static"]);
    exec("static").args([program.to_str().unwrap()]).check();
}

/// A stream becomes a child's standard input while the peer is sending: its call returns when all
/// is sent.
#[test]
fn e7_input_of_a_busy_peer() {
    exec("busy_input").check();
}

/// A stream becomes a child's standard input when the peer has sent all and ended.
#[test]
fn e7_input_that_has_ended() {
    exec("ended_input").check();
}

/// A server in the manner of inetd, whose child becomes this program.
fn inetd(conversation: &str, program: &Path, words: &[&str]) -> Case {
    let inetd = compile_c("inetd", &[]);
    Case::pair(inetd.to_str().unwrap(), conversation)
        .args([program.to_str().unwrap()])
        .args(words.iter().copied())
        .only(&[Arrangement::Both, Arrangement::ServerOnly, Arrangement::ClientOnly])
}

/// The server, its child and the client by their own lines.
const THREE: usize = 3;

/// Every kind of input and output by libc's streams, on the standard descriptors.
#[test]
fn e18_standard_streams() {
    let program = compile_c("streams", &[]);
    inetd("lines", &program, &["lines"]).images(THREE).check();
    inetd("lines", &program, &["wide"]).images(THREE).check();
    inetd("lines", &program, &["reopened"]).images(THREE).check();
    inetd("bulk", &program, &["echo"]).images(THREE).check();
    inetd("ends", &program, &["mixed"]).check();
    inetd("ends", &program, &["terminal"]).check();
}

/// What libc says by itself on descriptor 2 comes where it was said.
#[test]
fn e18_messages_of_libc() {
    let program = compile_c("streams", &["-D_FORTIFY_SOURCE=2"]);
    inetd("ends", &program, &["messages"]).check();
    inetd("ends", &program, &["logged"]).check();
    for end in ["assert", "free", "overflow", "err", "abort"] {
        inetd("listens", &program, &[end]).check();
        inetd("listens", &program, &[end, "handled"]).check();
    }
}

/// As inetd does it: the program is the first that uses the connection. It may also be the first that
/// runs with the library.
#[test]
fn e7_first_used_as_standard_descriptors() {
    let streams = compile_c("streams", &[]);
    let smc_run = smc_run();
    let run = ["-u", "LD_PRELOAD", smc_run.to_str().unwrap()];
    for program in [["/bin/sed", "-u"], [streams.to_str().unwrap(), "lines"], ["/bin/cat", "-"]] {
        let words = if program[0].ends_with("sed") { &["s/line/row/"][..] } else { &[] };
        let cold = |first: &str, more: &[&str]| {
            let more = [more, words].concat();
            inetd("lines", Path::new(first), &more).env("COLD", "1")
        };
        cold(program[0], &program[1..]).told("two in the ring", both_ends).check();
        let under = [&run[..], &program].concat();
        let case = cold("/usr/bin/env", &under).only(&[Arrangement::Both]);
        case.told("two in the ring", both_ends).check();
    }
}

/// Client and child.
fn both_ends(sum: &stats::Summary) -> bool {
    sum.smcd == 2 && sum.smc.tx_bytes > 200 && sum.smc.rx_bytes > 200
}

/// Sockets that are born as standard input.
#[test]
fn e18_low_numbers() {
    let program = compile_c("low_numbers", &[]);
    Case::pair(program.to_str().unwrap(), "low_numbers").images(2).check();
}

/// C++ streams, in step with C's and not.
#[test]
fn e18_iostreams() {
    let program = compile_c("iostreams", &[]);
    for how in ["together", "apart"] {
        inetd("lines", &program, &[how]).images(THREE).check();
    }
}

/// Programs that answer each line at once, and programs that read much.
#[test]
fn e7_filters_on_standard_descriptors() {
    let sh = Path::new("/bin/sh");
    for (program, words) in [
        ("/bin/cat", &[][..]),
        ("/bin/sed", &["-u", "s/line/row/"]),
        ("/usr/bin/perl", &["-ne", "$| = 1; print \"perl $_\""]),
        ("/usr/bin/awk", &["{ print \"awk \" $0; fflush() }"]),
        ("/bin/sh", &["-c", "while read -r line; do echo \"sh $line\" >&0; done"]),
        ("/bin/bash", &["-c", "while read -r line; do echo \"bash $line\" >&2; done"]),
    ] {
        inetd("lines", Path::new(program), words).images(THREE).check();
    }
    for (program, words) in [
        ("/bin/cat", &[][..]),
        ("/bin/sed", &["s/never/ever/"]),
        ("/usr/bin/perl", &["-e", "$/ = \\30000; print while <>"]),
    ] {
        inetd("bulk", Path::new(program), words).images(THREE).check();
    }
    // A shell that starts others.
    let script = "read -r line; echo \"$line\"; cat | sed -u s/line/row/ | cat; echo over";
    inetd("lines", sh, &["-c", script]).check();
    let script = "while read -r line; do /bin/echo \"$line\"; done; exec /bin/echo over";
    inetd("lines", sh, &["-c", script]).images(2).check();
}

/// Python, by its own buffers and without.
#[test]
fn e7_python_on_standard_descriptors() {
    let Some(python) = smc_tests::apps::artefacts::path_of("python3") else {
        eprintln!("SKIPPED: python3 is not there");
        return;
    };
    let script = "import sys\nfor line in sys.stdin:\n  print('py', line, end='', flush=True)\n";
    inetd("lines", &python, &["-c", script]).images(THREE).check();
    let script = "import sys, shutil\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)\n";
    inetd("bulk", &python, &["-c", script]).images(THREE).check();
}

/// The client has seen its connection go to the ring and back.
fn goes_back(case: Case) {
    case.only(&[Arrangement::Both])
        .told("back on TCP", |sum| sum.smcd >= 2 && sum.back.peer == 1 && sum.tcp_bytes.tx > 0)
        .check();
}

/// A program in a folder of its own, which goes away with it.
fn copy_of(program: &Path, mode: u32) -> (Scratch, PathBuf) {
    let folder = scratch();
    let path = folder.path().join("copy");
    std::fs::copy(program, &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (folder, path)
}

/// Programs that the library does not reach because of what they are.
#[test]
fn a11_back_before_foreign_files() {
    let echo = compile_c("static_echo", &["-static"]);
    goes_back(inetd("lines", &echo, &[]));
    goes_back(inetd("bulk", &echo, &[]));
    for how in ["fexecve", "memfd", "execveat", "by descriptor", "no new privileges"] {
        goes_back(inetd("lines", &echo, &[]).env("HOW", how));
    }
    // A script whose interpreter is one.
    let folder = scratch();
    let script = folder.path().join("script");
    std::fs::write(&script, format!("#!{}\n", echo.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    goes_back(inetd("lines", &script, &[]));
}

/// Programs with the rights of somebody else, started by root and by another user.
#[test]
fn a10_back_before_privileged_files() {
    let (_folder, setuid) = copy_of(Path::new("/bin/cat"), 0o4755);
    let (_folder, setgid) = copy_of(Path::new("/bin/cat"), 0o2755);
    let (_folder, capable) = copy_of(Path::new("/bin/cat"), 0o755);
    let tool = smc_tests::apps::artefacts::path_of("setcap");
    let set = tool.is_some_and(|tool| {
        let words = ["cap_net_raw+ep", capable.to_str().unwrap()];
        std::process::Command::new(tool).args(words).status().is_ok_and(|status| status.success())
    });
    if !set {
        eprintln!("SKIPPED: no file can be given capabilities here");
    }
    let mut files = vec![&setuid, &setgid];
    files.extend(set.then_some(&capable));
    for file in files {
        goes_back(inetd("lines", file, &[]));
        // SAFETY: no pointers.
        if unsafe { libc::geteuid() } == 0 {
            let nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
            goes_back(inetd("lines", file, &[]).wrap(nobody));
            // Without new rights they are programs like others; the library need not rely on it.
            goes_back(inetd("lines", file, &[]).wrap(nobody).env("HOW", "no new privileges"));
        }
    }
}

/// Programs that the library does not reach because of what they are told.
#[test]
fn a12_back_before_other_environments() {
    let env = Path::new("/usr/bin/env");
    goes_back(inetd("lines", env, &["-i", "/bin/cat"]));
    goes_back(inetd("lines", env, &["-u", "LD_PRELOAD", "/bin/cat"]));
    goes_back(inetd("lines", env, &["LD_PRELOAD=libm.so.6", "/bin/cat"]));
    goes_back(inetd("lines", env, &["SMC_MODE=off", "/bin/cat"]));
}

/// Every way to start one that it reaches.
#[test]
fn e7_ways_to_go_on() {
    for how in ["fexecve", "memfd", "execveat", "by descriptor", "no new privileges"] {
        inetd("lines", Path::new("/bin/cat"), &[]).env("HOW", how).images(THREE).check();
    }
    // By programs that only start others.
    let env = Path::new("/usr/bin/env");
    inetd("lines", env, &["A=b", "nice", "env", "setsid", "/bin/cat"]).images(THREE).check();
}

/// Files that are found to be no programs only by the kernel: back on TCP, or not, and right.
#[test]
fn e7_no_program() {
    let folder = scratch();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut other = std::fs::read("/bin/cat").unwrap();
    // Another machine.
    other[18] ^= 0x55;
    for file in [file("text", b"no program\n"), file("other", &other), file("empty", b"")] {
        goes_back(inetd("lines", Path::new("/bin/cat"), &[&file]).env("HOW", "tried before"));
    }
}

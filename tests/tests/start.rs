//! Starting up and living inside a process that knows nothing of us.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::{compile_c, find_library, program, scratch, Arrangement, Case, Order};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Sixty-four threads make the first sockets of the process together.
#[test]
fn a1_first_sockets_in_many_threads() {
    Case::solo("case-start", "first_sockets").check();
}

/// Another library's constructor opens and uses sockets, before or after ours has run.
#[test]
fn a2_sockets_in_a_constructor() {
    for order in [Order::BeforeOurs, Order::AfterOurs] {
        let library = compile_c("early", &["-shared", "-fPIC"]);
        Case::solo("case-start", "early")
            .env("SMC_TEST_EARLY", "1")
            .preload(order, library)
            .not_accelerated("it was connected before we could mark it")
            .check();
    }
}

/// The allocator is replaced, by a library in front of ours or behind it.
#[test]
fn a3_replaced_malloc() {
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        for order in [Order::BeforeOurs, Order::AfterOurs] {
            let library = find_library(name);
            Case::pair("case-start", "stream").preload(order, library.clone()).check();
            Case::solo("case-start", "first_sockets").preload(order, library).check();
        }
    }
}

/// A program built with AddressSanitizer, which wraps the same calls itself.
#[test]
fn a4_address_sanitizer() {
    let built = compile_c("turns", &["-fsanitize=address", "-static-libasan"]);
    Case::pair(built.to_str().unwrap(), "turns").check();
}

/// Other preload libraries beside ours, in either order.
#[test]
fn a5_other_preload_libraries() {
    let config = scratch();
    let path = config.path().join("proxychains.conf");
    let text =
        "strict_chain\nquiet_mode\nlocalnet 127.0.0.0/255.0.0.0\n[ProxyList]\nsocks5 127.0.0.1 9\n";
    std::fs::write(&path, text).unwrap();
    for name in ["libeatmydata.so", "libfaketime.so.1", "libproxychains.so.4"] {
        for order in [Order::BeforeOurs, Order::AfterOurs] {
            Case::pair("case-start", "stream")
                .env("FAKETIME", "-15d")
                .env("PROXYCHAINS_CONF_FILE", path.to_str().unwrap())
                .preload(order, find_library(name))
                .check();
        }
    }
}

/// A library that the user preloads stays preloaded.
#[test]
fn a5_existing_preload_is_kept() {
    let library = find_library("libeatmydata.so");
    let case = Case::solo("case-start", "arguments").env("LD_PRELOAD", library.to_str().unwrap());
    case.check();
}

/// Arguments pass unchanged, whatever is in them.
#[test]
fn a6_arguments() {
    let odd =
        ["", " ", "a b", "it's", "\"quoted\"", "$HOME", "-v", "--", "--mode", "\\n", "a\nb", "*"];
    Case::solo("case-start", "arguments").args(odd).check();
}

/// Standard descriptors closed at the start stay the program's to reuse.
#[test]
fn a7_no_standard_descriptors() {
    for closed in ["<&- >&- 2>&-", "<&-", "<&- >&-"] {
        let built = compile_c("no_standard_fds", &[]);
        Case::solo(built.to_str().unwrap(), "no_standard_fds")
            .wrap(["/bin/sh", "-c", &format!("exec \"$@\" {closed}"), "sh"])
            .transcript_file()
            .check();
    }
}

/// A child has the descriptors that it would have bare.
#[test]
fn a8_descriptors_of_a_child() {
    Case::pair("case-start", "child_lists").check();
}

/// The program closes all it did not open, then goes on using sockets.
#[test]
fn a9_everything_closed() {
    for how in ["loop", "range", "hooked range", "from", "listed"] {
        Case::pair("case-start", "close_all").args([how]).talks_to_itself().check();
    }
}

/// A setuid program runs, silent and unaccelerated.
#[test]
fn a10_setuid_program() {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } != 0 {
        // Only root can make a program that gains rights, so there is nothing to run.
        eprintln!("not root: a setuid program cannot be made");
        return;
    }
    // Not below the target directory, which another user may not be able to reach.
    let copy = std::env::temp_dir().join(format!("smc-tests-setuid-{}", std::process::id()));
    std::fs::copy(program("case-start"), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
    Case::pair(copy.to_str().unwrap(), "stream")
        .wrap(["/usr/bin/setpriv", "--reuid=65534", "--clear-groups"])
        .not_accelerated("the loader ignores LD_PRELOAD for a program that gains rights")
        .check();
    std::fs::remove_file(&copy).unwrap();
}

/// A program with file capabilities, likewise.
#[test]
fn a10_file_capabilities() {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } != 0 || !std::path::Path::new("/usr/sbin/setcap").exists() {
        eprintln!("SKIPPED: capabilities need root and setcap");
        return;
    }
    let copy = std::env::temp_dir().join(format!("smc-tests-caps-{}", std::process::id()));
    std::fs::copy(program("case-start"), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let set = std::process::Command::new("/usr/sbin/setcap");
    let set = { set }.arg("cap_net_bind_service+ep").arg(&copy).status().unwrap();
    assert!(set.success(), "setcap: {set}");
    Case::pair(copy.to_str().unwrap(), "stream")
        .wrap(["/usr/bin/setpriv", "--reuid=65534", "--clear-groups"])
        .not_accelerated("the loader ignores LD_PRELOAD for a program that gains rights")
        .check();
    std::fs::remove_file(&copy).unwrap();
}

/// A static program runs over TCP, against a peer of either kind.
#[test]
fn a11_static_program() {
    let unmoved = compile_c("turns", &["-static"]);
    let dynamic = compile_c("turns", &[]);
    for (server, client) in [(&unmoved, &unmoved), (&unmoved, &dynamic), (&dynamic, &unmoved)] {
        Case::pair(server.to_str().unwrap(), "turns")
            .client(client)
            .not_accelerated("nothing can be injected into a static program")
            .check();
    }
}

/// A program started with an empty environment runs over TCP.
#[test]
fn a12_empty_environment() {
    Case::pair("case-start", "stream")
        .wrap(["/usr/bin/env", "-i"])
        .not_accelerated("LD_PRELOAD is gone")
        .check();
}

/// An idle connection costs no processor time, in whichever call its owner waits.
#[test]
fn a14_idle_server() {
    for how in ["recv", "poll", "epoll"] {
        Case::pair("case-start", "idle")
            .args([how])
            .timeout(Duration::from_secs(30))
            .only(&[Arrangement::Both, Arrangement::ServerOnly])
            .check();
    }
}

/// A child of vfork shares its parent's memory, but not its descriptors.
#[test]
fn e6_vfork_child() {
    let built = compile_c("vfork_child", &[]);
    Case::pair(built.to_str().unwrap(), "vfork_child").check();
}

/// Dispositions of signals are those that the program set, whichever function it used, and a child
/// of vfork changes its own alone.
#[test]
fn a17_signal_dispositions() {
    let built = compile_c("signals", &[]);
    Case::pair(built.to_str().unwrap(), "signals").check();
}

//! Every hooked call by its other names and by number; cancelled threads; io_uring.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::{compile_c, Arrangement, Case};

fn solo(name: &str, flags: &[&str]) -> Case {
    Case::solo(compile_c(name, flags).to_str().unwrap(), name)
}

/// `fdopen`, `dprintf` and their kin, underscore names, calls by number; plain and fortified.
#[test]
fn e18_names_and_numbers() {
    for level in ["0", "2", "3"] {
        let fortify = format!("-D_FORTIFY_SOURCE={level}");
        solo("calls", &["-U_FORTIFY_SOURCE", &fortify, "-Wno-unused-result"]).check();
    }
}

/// A thread cancelled in a call that waits runs its cleanups, and the connection still works.
#[test]
fn e17_cancelled_threads() {
    solo("cancel", &[]).check();
}

/// Children that no fork handler saw, and children in their parent's memory.
#[test]
fn e6_raw_forks() {
    solo("raw_forks", &[]).not_accelerated("the socket is never connected").check();
}

/// `execl` and its kin, with more arguments than registers.
#[test]
fn exec_with_lists() {
    solo("exec_lists", &[]).status("exit 7").not_accelerated("it has no connection").check();
}

/// A program with io_uring: refused, it falls back and is accelerated; allowed, TCP carries it.
#[test]
fn e19_io_uring() {
    let program = compile_c("uring", &["-luring"]);
    Case::pair(program.to_str().unwrap(), "uring").check();
    Case::pair(program.to_str().unwrap(), "uring")
        .env("SMC_IO_URING", "allow")
        .only(&[Arrangement::Both, Arrangement::ServerOnly, Arrangement::ClientOnly])
        .not_accelerated("io_uring goes past the library")
        .check();
}

/// A signal handler that jumps out of a call that waits.
#[test]
fn e16_jump_out_of_a_call() {
    let program = compile_c("jump", &[]);
    Case::pair(program.to_str().unwrap(), "jump").check();
}

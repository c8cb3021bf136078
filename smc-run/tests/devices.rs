//! `--devices` and `--check`, where there are RDMA devices and where there are none.
#![allow(clippy::unwrap_used, clippy::panic)]
mod common;

use common::{bare, smc_run};

fn stdout(command: &mut assert_cmd::Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn the_loopback_device_is_always_there() {
    let text = stdout(smc_run().arg("--devices"));
    let lines = words(&text);
    assert_eq!(lines[0], ["NAME", "MODE", "TYPE", "GUID", "PORT", "STATE", "GID"]);
    assert_eq!(lines[1], ["loopback-ism", "SMCD", "shared", "memory", "-", "1", "ACTIVE", "-"]);
}

/// The tools must start where libibverbs is not installed.
#[test]
fn libibverbs_is_no_dependency() {
    for program in [env!("CARGO_BIN_EXE_smc-run"), env!("CARGO_BIN_EXE_smc-ss")] {
        let text = stdout(bare("readelf").args(["-d", program]));
        assert!(text.contains("(NEEDED)") && text.contains("[libc.so.6]"), "{text}");
        assert!(!text.contains("ibverbs"), "{text}");
    }
}

#[cfg(feature = "rdma")]
mod rdma {
    use super::*;

    /// A libibverbs with two devices, the second of which cannot be opened. The structures are
    /// those of verbs.h, as far as they are used.
    const LIBIBVERBS: &str = r#"
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <stdlib.h>
struct device { void *ops[2]; int node_type, transport; char name[64], rest[576]; };
struct context { struct device *device; };
static struct device a = { .node_type = 1, .name = "stub0" };
static struct device b = { .node_type = 99, .name = "stub1" };
static struct device *list[] = { &a, &b, 0 };
static struct context open_a = { &a };
struct device **ibv_get_device_list(int *n) {
    if (getenv("STUB_NO_MODULE")) { errno = ENOSYS; return 0; }
    if (getenv("STUB_BROKEN")) { errno = EACCES; return 0; }
    *n = getenv("STUB_EMPTY") ? 0 : 2;
    return list;
}
void ibv_free_device_list(struct device **l) { if (l != list) abort(); }
const char *ibv_get_device_name(struct device *d) { return d->name; }
uint64_t ibv_get_device_guid(struct device *d) { return __builtin_bswap64(0x0002c90300001234); }
struct context *ibv_open_device(struct device *d) { return d == &a ? &open_a : 0; }
int ibv_close_device(struct context *c) { if (c != &open_a) abort(); return 0; }
int ibv_query_device(struct context *c, char *attr) { attr[227] = 2; return 0; }
int ibv_query_port(struct context *c, uint8_t port, uint32_t *attr) {
    if (port < 1 || port > 2) abort();
    attr[0] = port == 1 ? 4 : 1;
    return 0;
}
int ibv_query_gid(struct context *c, uint8_t port, int index, uint8_t *gid) {
    if (port != 1 || index) return -1;
    memset(gid, 0, 16); gid[0] = 0xfe; gid[1] = 0x80; gid[15] = 1;
    return 0;
}
"#;

    fn with_library(variable: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        common::library(&folder.path().join("libibverbs.so.1"), LIBIBVERBS, "unused");
        let mut command = smc_run();
        command.env("LD_LIBRARY_PATH", folder.path()).envs(variable.map(|name| (name, "1")));
        stdout(command.arg("--devices"))
    }

    #[test]
    fn rdma_devices_are_listed_with_their_ports() {
        let text = with_library(None);
        let lines = words(&text);
        let guid = "0002:c903:0000:1234";
        let kind = ["stub0", "SMCR", "channel", "adapter", guid];
        assert_eq!(lines[2], [&kind[..], &["1", "ACTIVE", "fe80::1"]].concat());
        assert_eq!(lines[3], [&kind[..], &["2", "DOWN", "-"]].concat());
        assert_eq!(lines[4], ["stub1", "SMCR", "unknown", guid, "-", "-", "-"]);
        assert_eq!(lines.len(), 5, "{text}");
    }

    #[test]
    fn no_devices_is_a_remark() {
        for (variable, remark) in [
            ("STUB_EMPTY", "no RDMA devices"),
            ("STUB_NO_MODULE", "no RDMA devices"),
            ("STUB_BROKEN", "no RDMA devices: Permission denied (os error 13)"),
        ] {
            let text = with_library(Some(variable));
            assert_eq!(text.lines().count(), 3, "{text}");
            assert_eq!(text.lines().last(), Some(remark));
        }
    }

    /// A library without the functions stands for none at all, which cannot be arranged here.
    #[test]
    fn a_library_of_another_kind_is_a_remark() {
        let folder = tempfile::tempdir().unwrap();
        common::library(&folder.path().join("libibverbs.so.1"), "int none;", "unused");
        let mut command = smc_run();
        command.env("LD_LIBRARY_PATH", folder.path()).arg("--devices");
        let text = stdout(&mut command);
        let remark = "no RDMA devices: libibverbs.so.1 has no function ibv_get_device_list";
        assert_eq!(text.lines().last(), Some(remark));
    }
}

#[test]
fn a_check_tells_of_library_kernel_program_and_settings() {
    let mut command = smc_run();
    command.env("SMC_RCVBUF", "lots").args(["--mode", "loopback", "--check", "--", "true"]);
    let text = stdout(&mut command);
    let lines = words(&text);
    let value = |name: &str| {
        let line = lines.iter().find(|line| line.join(" ").starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).join(" ")[name.len() + 1..].to_owned()
    };
    assert_eq!(value("library"), common::stub().display().to_string());
    for name in ["sealed memory", "abstract sockets", "eventfd", "sock_diag"] {
        assert_eq!(value(name), "ok");
    }
    assert!(value("program").ends_with("/true"));
    assert_eq!(value("SMC_MODE"), "loopback");
    assert!(value("SMC_RCVBUF").starts_with("lots: not a size"));
    assert!(value("loopback-ism").starts_with("SMCD"));
}

#[test]
fn a_check_fails_where_nothing_can_be_accelerated() {
    let mut command = smc_run();
    let output = command.env("SMC_PRELOAD_LIB", "/none.so").arg("--check").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("library            no: cannot read the library /none.so"), "{text}");
}

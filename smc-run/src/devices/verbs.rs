//! RDMA devices, as libibverbs sees them.
mod ffi;

use std::net::Ipv6Addr;

use ibverbs::{Gid, Guid};

use super::{Device, Port};
use ffi::{DeviceRef, Verbs, VerbsError};

pub(super) fn devices() -> Result<Vec<Device>, impl std::error::Error> {
    let verbs = Verbs::load()?;
    let list = verbs.devices()?;
    Ok::<_, VerbsError>(list.iter().map(|device| describe(&device)).collect())
}

fn describe(device: &DeviceRef<'_>) -> Device {
    let context = device.open();
    if context.is_none() {
        log::debug!("cannot open {}: {}", device.name(), std::io::Error::last_os_error());
    }
    let ports = context.iter().flat_map(|context| {
        (1..=context.port_count()).map(|number| Port {
            number,
            state: context.port_state(number).map_or("?", state_name).to_owned(),
            gid: context.gid(number).map_or_else(|| "-".to_owned(), |found| gid(&found)),
        })
    });
    Device {
        name: device.name(),
        mode: "SMCR",
        node_type: node_name(device.node_type()).to_owned(),
        guid: guid(device.guid()),
        ports: ports.collect(),
    }
}

/// Four groups of four digits, as rdma(8) and ibv_devices(1) have it.
fn guid(guid: Guid) -> String {
    let bytes = u64::from(guid).to_be_bytes();
    let groups = bytes.chunks(2).map(|pair| pair.iter().map(|b| format!("{b:02x}")).collect());
    groups.collect::<Vec<String>>().join(":")
}

/// As an IPv6 address, which it is on Ethernet.
fn gid(gid: &Gid) -> String {
    let number = u128::from(gid.subnet_prefix()) << 64 | u128::from(gid.interface_id());
    Ipv6Addr::from(number).to_string()
}

fn node_name(node_type: i32) -> &'static str {
    match node_type {
        1 => "channel adapter",
        2 => "switch",
        3 => "router",
        4 => "RNIC",
        5 | 6 => "usNIC",
        7 => "unspecified",
        _ => "unknown",
    }
}

fn state_name(state: u32) -> &'static str {
    match state {
        0 => "NOP",
        1 => "DOWN",
        2 => "INIT",
        3 => "ARMED",
        4 => "ACTIVE",
        5 => "ACTIVE_DEFER",
        _ => "?",
    }
}

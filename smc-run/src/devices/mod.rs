//! What can carry connections on this machine.
#[cfg(feature = "rdma")]
mod verbs;

use crate::table;

/// A device, as `--devices` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// `SMCD` or `SMCR`.
    pub mode: &'static str,
    /// What kind of device it is.
    pub node_type: String,
    /// Its globally unique number.
    pub guid: String,
    /// Its ports; none for a device without any, or one that cannot be opened.
    pub ports: Vec<Port>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// From 1.
    pub number: u8,
    /// `ACTIVE`, `DOWN`, …
    pub state: String,
    /// The first entry of its address table.
    pub gid: String,
}

/// All devices, and a remark when some cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The loopback device, then the RDMA devices.
    pub devices: Vec<Device>,
    /// Why there are no RDMA devices in the list.
    pub remark: Option<String>,
}

/// Looks for devices.
pub fn list() -> Listing {
    let (rdma, remark) = match rdma() {
        Ok(devices) if devices.is_empty() => (devices, Some("no RDMA devices".to_owned())),
        Ok(devices) => (devices, None),
        Err(why) => (Vec::new(), Some(format!("no RDMA devices: {why}"))),
    };
    Listing { devices: std::iter::once(loopback()).chain(rdma).collect(), remark }
}

/// The list as text.
pub fn report() -> String {
    let Listing { devices, remark } = list();
    let header = ["NAME", "MODE", "TYPE", "GUID", "PORT", "STATE", "GID"];
    let mut table = table::plain(header, &[]);
    for device in &devices {
        let Device { name, mode, node_type, guid, ports } = device;
        if ports.is_empty() {
            table.add_row([name, *mode, node_type, guid, "-", "-", "-"]);
        }
        for Port { number, state, gid } in ports {
            table.add_row([name, *mode, node_type, guid, &number.to_string(), state, gid]);
        }
    }
    let remark = remark.map(|remark| remark + "\n");
    table::text(&table) + &remark.unwrap_or_default()
}

/// The device that is always there: shared memory, as the kernel's loopback-ism.
fn loopback() -> Device {
    let port = Port { number: 1, state: "ACTIVE".to_owned(), gid: "-".to_owned() };
    Device {
        name: "loopback-ism".to_owned(),
        mode: "SMCD",
        node_type: "shared memory".to_owned(),
        guid: "-".to_owned(),
        ports: vec![port],
    }
}

#[cfg(feature = "rdma")]
fn rdma() -> Result<Vec<Device>, String> {
    verbs::devices().map_err(|error| error.to_string())
}

#[cfg(not(feature = "rdma"))]
fn rdma() -> Result<Vec<Device>, String> {
    Err("built without RDMA support".to_owned())
}

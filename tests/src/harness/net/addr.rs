//! Socket addresses in the kernel's form.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IPv4 or IPv6 address with port, as libc takes and gives it.
#[derive(Clone, Copy)]
pub struct Addr {
    bytes: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl Addr {
    /// Room for an address that a call fills in.
    pub fn empty() -> Self {
        let len = u32::try_from(size_of::<libc::sockaddr_storage>()).unwrap();
        // SAFETY: a sockaddr_storage is plain numbers, for which zero is valid.
        Self { bytes: unsafe { std::mem::zeroed() }, len }
    }

    /// From the standard library's form.
    pub fn new(addr: SocketAddr) -> Self {
        let mut out = Self::empty();
        let at = std::ptr::from_mut(&mut out.bytes);
        match addr {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: u16::try_from(libc::AF_INET).unwrap(),
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage is large and aligned enough for any address.
                unsafe { at.cast::<libc::sockaddr_in>().write(raw) };
                out.len = u32::try_from(size_of_val(&raw)).unwrap();
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: u16::try_from(libc::AF_INET6).unwrap(),
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: 0,
                };
                // SAFETY: a sockaddr_storage is large and aligned enough for any address.
                unsafe { at.cast::<libc::sockaddr_in6>().write(raw) };
                out.len = u32::try_from(size_of_val(&raw)).unwrap();
            }
        }
        out
    }

    /// 127.0.0.1.
    pub fn v4(port: u16) -> Self {
        Self::new((Ipv4Addr::LOCALHOST, port).into())
    }

    /// ::1.
    pub fn v6(port: u16) -> Self {
        Self::new((Ipv6Addr::LOCALHOST, port).into())
    }

    /// ::ffff:127.0.0.1.
    pub fn mapped(port: u16) -> Self {
        Self::new((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port).into())
    }

    /// The standard library's form; `None` for another family.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let at = std::ptr::from_ref(&self.bytes);
        match i32::from(self.bytes.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which struct the storage holds.
                let raw = unsafe { at.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Some((ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says which struct the storage holds.
                let raw = unsafe { at.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                Some((ip, u16::from_be(raw.sin6_port)).into())
            }
            _ => None,
        }
    }

    /// The port; 0 for another family.
    pub fn port(&self) -> u16 {
        self.socket_addr().map_or(0, |addr| addr.port())
    }

    /// For a call that reads an address.
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        std::ptr::from_ref(&self.bytes).cast()
    }

    /// The length of the address.
    pub fn len(&self) -> libc::socklen_t {
        self.len
    }

    /// Whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// For a call that writes an address.
    pub fn out(&mut self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        (std::ptr::from_mut(&mut self.bytes).cast(), &mut self.len)
    }
}

/// The address without its port, which differs between runs, and its length.
impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket_addr() {
            Some(addr) => write!(f, "{} ({} bytes)", addr.ip(), self.len),
            None => write!(f, "family {} ({} bytes)", self.bytes.ss_family, self.len),
        }
    }
}

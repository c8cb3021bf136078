//! sock_diag: what anyone may know of a socket on this machine, by its exact 4-tuple.
//!
//! The answer carries the socket's cookie, its owner and, in `INET_DIAG_SOCKOPT`, the four options
//! whose pattern is the capability mark (`net/ipv4/inet_diag.c`).
use super::raw;
use crate::errno::Errno;
use libc::c_int;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_SOCKOPT: u16 = 22;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const TCP_LISTEN: u8 = 10;
/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
const REQUEST: usize = 16 + 56;
/// `struct nlmsghdr` and `struct inet_diag_msg`.
const ANSWER: usize = 16 + 72;

/// One end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// IPv6; false: the first four bytes of the address are an IPv4 one.
    pub v6: bool,
    /// In network order.
    pub address: [u8; 16],
    /// In host order.
    pub port: u16,
}

impl Endpoint {
    /// From a `sockaddr_in` or `sockaddr_in6`; a v4-mapped address becomes IPv4.
    pub fn from_sockaddr(bytes: &[u8]) -> Option<Self> {
        let family = i32::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let mut address = [0_u8; 16];
        if family == libc::AF_INET {
            address[..4].copy_from_slice(bytes.get(4..8)?);
            return Some(Self { v6: false, address, port });
        }
        if family != libc::AF_INET6 {
            return None;
        }
        let six = bytes.get(8..24)?;
        if six[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] {
            address[..4].copy_from_slice(&six[12..]);
            return Some(Self { v6: false, address, port });
        }
        address.copy_from_slice(six);
        Some(Self { v6: true, address, port })
    }
}

/// What sock_diag says of a connected socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kernel's name of the socket, never used twice.
    pub cookie: u64,
    /// Its owner.
    pub uid: u32,
    /// Bytes in its receive queue, and one for a FIN.
    pub queued: u32,
    /// The inode of its descriptors; 0: no process has it any more.
    pub inode: u32,
    /// It bears the mark.
    pub marked: bool,
}

/// Opens a socket for queries.
pub fn open() -> Result<c_int, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    raw::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG)
}

/// Looks the socket up whose local end is `local` and whose peer is `remote`. `Ok(None)`: there is
/// none in this network namespace, or it is not connected.
pub fn query(netlink: c_int, local: Endpoint, remote: Endpoint) -> Result<Option<Found>, Errno> {
    let mut request = [0_u8; REQUEST];
    let family = if local.v6 { libc::AF_INET6 } else { libc::AF_INET };
    request[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[16] = family as u8;
    request[17] = libc::IPPROTO_TCP as u8;
    request[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[24..26].copy_from_slice(&local.port.to_be_bytes());
    request[26..28].copy_from_slice(&remote.port.to_be_bytes());
    request[28..44].copy_from_slice(&local.address);
    request[44..60].copy_from_slice(&remote.address);
    // idiag_if stays 0; INET_DIAG_NOCOOKIE.
    request[64..72].copy_from_slice(&[0xff; 8]);
    raw::send_user(netlink, request.as_ptr(), request.len(), 0)?;
    let mut answer = [0_u8; 1024];
    let got = raw::recv(netlink, &mut answer, 0)?;
    parse(answer.get(..got).unwrap_or(&[]), local, remote)
}

fn parse(answer: &[u8], local: Endpoint, remote: Endpoint) -> Result<Option<Found>, Errno> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?))
    };
    let half = |at: usize| -> Option<u16> {
        Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?))
    };
    let kind = half(4).ok_or(Errno::PROTO)?;
    if kind == NLMSG_ERROR {
        let code = word(16).ok_or(Errno::PROTO)?.cast_signed();
        return if code == -libc::ENOENT { Ok(None) } else { Err(Errno(-code)) };
    }
    if kind != SOCK_DIAG_BY_FAMILY || answer.len() < ANSWER {
        return Err(Errno::PROTO);
    }
    // A lookup falls back to a listener of the port: that is not the peer.
    let ports = (answer.get(20..22), answer.get(22..24));
    let right = ports == (Some(&local.port.to_be_bytes()), Some(&remote.port.to_be_bytes()));
    if answer[17] == TCP_LISTEN || !right {
        return Ok(None);
    }
    let cookie =
        u64::from(word(60).ok_or(Errno::PROTO)?) | u64::from(word(64).ok_or(Errno::PROTO)?) << 32;
    let uid = word(80).ok_or(Errno::PROTO)?;
    let queued = word(72).ok_or(Errno::PROTO)?;
    let inode = word(84).ok_or(Errno::PROTO)?;
    let mut marked = false;
    let mut at = ANSWER;
    while let (Some(len), Some(name)) = (half(at), half(at + 2)) {
        let len = usize::from(len);
        if len < 4 {
            break;
        }
        if name == INET_DIAG_SOCKOPT {
            let bits = (answer.get(at + 4), answer.get(at + 5));
            // Bits of struct inet_diag_sockopt: mc_loop 0x10 and mc_all 0x40 off in the first
            // byte, bind_address_no_port 1 and recverr_rfc4884 2 on in the second.
            marked = matches!(bits, (Some(a), Some(b)) if a & 0x50 == 0 && b & 3 == 3);
        }
        at += (len + 3) & !3;
    }
    Ok(Some(Found { cookie, uid, queued, inode, marked }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn mapped_addresses_are_ipv4() {
        let mut bytes = [0_u8; 28];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&80_u16.to_be_bytes());
        bytes[18..20].fill(0xff);
        bytes[20..24].copy_from_slice(&[127, 0, 0, 1]);
        let end = Endpoint::from_sockaddr(&bytes).unwrap();
        assert!(!end.v6);
        assert_eq!((end.port, &end.address[..4]), (80, &[127, 0, 0, 1][..]));
    }

    #[test]
    fn garbage_is_an_error_and_not_a_panic() {
        let end = Endpoint { v6: false, address: [0; 16], port: 1 };
        for len in 0..200 {
            let _ = parse(&vec![0xff; len], end, end);
            let mut answer = vec![0; len];
            if len > 6 {
                answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            assert_eq!(parse(&answer, end, end).is_ok(), len >= ANSWER);
        }
    }
}

//! One attempt at each thing that the library needs of the kernel.
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};

use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use rustix::net::{netlink, AddressFamily, RecvFlags, SendFlags, SocketType};

/// One thing to try.
pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) run: fn() -> io::Result<()>,
    /// What becomes of connections where it does not work.
    pub(super) without: &'static str,
}

pub(super) static ALL: [Probe; 4] = [
    Probe {
        name: "sealed memory",
        run: sealed_memory,
        without: "there is nothing to share, every connection is TCP",
    },
    Probe {
        name: "abstract sockets",
        run: abstract_sockets,
        without: "processes cannot meet, every connection is TCP",
    },
    Probe {
        name: "eventfd",
        run: event_descriptor,
        without: "sleepers cannot be woken, every connection is TCP",
    },
    Probe {
        name: "sock_diag",
        run: socket_diagnosis,
        without: "peers cannot be recognised, every connection is TCP",
    },
];

fn sealed_memory() -> io::Result<()> {
    let file = memfd_create(c"smc-check", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, 4096)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    match ftruncate(&file, 0) {
        Err(_) => Ok(()),
        Ok(()) => Err(io::Error::other("seals do not hold")),
    }
}

fn abstract_sockets() -> io::Result<()> {
    let name = UnixAddr::from_abstract_name(format!("smc-check-{}", std::process::id()))?;
    let listener = UnixListener::bind_addr(&name)?;
    let _client = UnixStream::connect_addr(&name)?;
    listener.accept().map(drop)
}

fn event_descriptor() -> io::Result<()> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    rustix::io::write(&bell, &1u64.to_ne_bytes())?;
    let mut count = [0; 8];
    rustix::io::read(&bell, &mut count)?;
    match u64::from_ne_bytes(count) {
        1 => Ok(()),
        _ => Err(io::Error::other("it does not count")),
    }
}

/// Whether a socket option that has no meaning for TCP can be seen from outside: such options are
/// how a program shows that it runs under smc-run.
fn socket_diagnosis() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    rustix::net::sockopt::set_ip_multicast_loop(&client, true)?;
    let without = options_of(&client)?;
    rustix::net::sockopt::set_ip_multicast_loop(&client, false)?;
    if options_of(&client)? == without {
        return Err(io::Error::other("it does not show socket options"));
    }
    Ok(())
}

const REQUEST_LEN: usize = 16 + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// Netlink header and `struct inet_diag_msg`, in front of the attributes of an answer.
const ATTRIBUTES: usize = 16 + 72;
const INET_DIAG_SOCKOPT: u16 = 22;

/// The flags of `struct inet_diag_sockopt` for one end of an IPv4 connection.
fn options_of(end: &TcpStream) -> io::Result<[u8; 2]> {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let protocol = Some(netlink::SOCK_DIAG);
    let family = AddressFamily::NETLINK;
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, protocol)?;
    let limit = Some(std::time::Duration::from_secs(1));
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, limit)?;
    let request = request(end.local_addr()?, end.peer_addr()?)?;
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 4096];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    sockopt_attribute(&answer[..len])
}

/// Asks for the socket of exactly this pair of addresses.
fn request(local: SocketAddr, peer: SocketAddr) -> io::Result<[u8; REQUEST_LEN]> {
    let (SocketAddr::V4(local), SocketAddr::V4(peer)) = (local, peer) else {
        return Err(ErrorKind::AddrNotAvailable.into());
    };
    let mut bytes = [0; REQUEST_LEN];
    let mut put = |offset: usize, part: &[u8]| {
        bytes[offset..offset + part.len()].copy_from_slice(part);
    };
    put(0, &(REQUEST_LEN as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    // struct inet_diag_req_v2: family, protocol, no extensions, any state, then the socket.
    put(16, &[2, 6]);
    put(20, &u32::MAX.to_ne_bytes());
    put(24, &local.port().to_be_bytes());
    put(26, &peer.port().to_be_bytes());
    put(28, &local.ip().octets());
    put(44, &peer.ip().octets());
    // No cookie is known.
    put(64, &[0xff; 8]);
    Ok(bytes)
}

fn sockopt_attribute(answer: &[u8]) -> io::Result<[u8; 2]> {
    let half = |offset| {
        let bytes = answer.get(offset..offset + 2).and_then(|b| b.try_into().ok());
        bytes.map(u16::from_ne_bytes)
    };
    if half(4) != Some(SOCK_DIAG_BY_FAMILY) {
        let code = answer.get(16..20).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
        return Err(io::Error::from_raw_os_error(code.unwrap_or(0).saturating_neg()));
    }
    let mut offset = ATTRIBUTES;
    while let (Some(len), Some(kind)) = (half(offset), half(offset + 2)) {
        if let (INET_DIAG_SOCKOPT, Some(&[a, b])) = (kind, answer.get(offset + 4..offset + 6)) {
            return Ok([a, b]);
        }
        // Attributes are aligned to four bytes; a length below the header's would be none.
        offset += usize::from(len).max(4).next_multiple_of(4);
    }
    Err(io::Error::other("it does not tell socket options"))
}

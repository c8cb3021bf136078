//! What the sweep does not compare, in one table: values that differ from run to run even bare, and
//! those that tell of TCP's own traffic, which a ring takes away from it.

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

/// Why a value is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It names the socket, the processor or the moment: no two runs agree.
    Varies,
    /// It follows the traffic that TCP has carried: buffers and windows that grew, counters.
    Traffic,
}

/// Level, name, reason. The return value, the errno and the length are compared all the same.
pub(crate) const VALUES: &[(i32, i32, Why)] = &[
    (SOL_SOCKET, libc::SO_SNDBUF, Why::Traffic),
    (SOL_SOCKET, libc::SO_RCVBUF, Why::Traffic),
    (SOL_SOCKET, libc::SO_PEERNAME, Why::Varies),
    (SOL_SOCKET, libc::SO_INCOMING_CPU, Why::Varies),
    (SOL_SOCKET, libc::SO_MEMINFO, Why::Traffic),
    (SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, Why::Varies),
    (SOL_SOCKET, libc::SO_COOKIE, Why::Varies),
    (SOL_SOCKET, libc::SO_NETNS_COOKIE, Why::Varies),
    (IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, Why::Traffic),
    (IPPROTO_TCP, libc::TCP_INFO, Why::Traffic),
    (IPPROTO_TCP, libc::TCP_QUICKACK, Why::Traffic),
    (IPPROTO_TCP, 21, Why::Traffic), // TCP_QUEUE_SEQ
    (IPPROTO_TCP, libc::TCP_TIMESTAMP, Why::Varies),
    (IPPROTO_TCP, libc::TCP_CC_INFO, Why::Traffic),
    (IPPROTO_TCP, libc::TCP_MAXSEG, Why::Traffic),
    (IPPROTO_TCP, 29, Why::Traffic), // TCP_REPAIR_WINDOW
    (IPPROTO_TCP, 35, Why::Traffic), // TCP_ZEROCOPY_RECEIVE
    (IPPROTO_IP, 52, Why::Varies),   // IP_PROTOCOL: the port
    (IPPROTO_IP, 9, Why::Varies),    // IP_PKTOPTIONS
    (IPPROTO_IPV6, 6, Why::Varies),  // IPV6_2292PKTOPTIONS
];

/// Whether the value of an option is left out.
pub(crate) fn is_left_out(level: i32, name: i32) -> bool {
    VALUES.iter().any(|(l, n, _)| (*l, *n) == (level, name))
}

/// Options that the sweep does not set on a connection in use: they stop its traffic bare as well, and
/// have cases of their own or none to be carried.
pub(crate) const NOT_SET_IN_USE: &[(i32, i32)] = &[
    (IPPROTO_TCP, 19),                   // TCP_REPAIR: `repair`
    (SOL_SOCKET, libc::SO_BINDTODEVICE), // loses its route
    (SOL_SOCKET, libc::SO_BINDTOIFINDEX),
    (SOL_SOCKET, libc::SO_MAX_PACING_RATE), // one byte a second: `pacing`
    (IPPROTO_TCP, 37),                      // TCP_TX_DELAY
    (IPPROTO_IP, 21),                       // IP_MINTTL
    (IPPROTO_IPV6, 73),                     // IPV6_MINHOPCOUNT
    (IPPROTO_IPV6, 1),                      // IPV6_ADDRFORM
];

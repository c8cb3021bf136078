//! Why a connection is plain TCP.
//!
//! The codes are the kernel's (`SMC_CLC_DECL_…`, explained in smcss(8)) where one fits, so that
//! operators find what they know. What only this product can meet has a code of the private range
//! from [`Reason::PRIVATE_BASE`] on.
#![forbid(unsafe_code)]

use core::fmt;

/// A reason code, the kernel's where one fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Reason(pub u32);

macro_rules! reasons {
    ($($name:ident = $code:literal, $text:literal;)+) => {
        impl Reason {
            $(
                #[doc = concat!("`", stringify!($code), "`: ", $text, ".")]
                pub const $name: Self = Self($code);
            )+

            /// Every code that has a name, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// What the code means, in a few words for people.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($code => $text,)+
                    _ => "unknown reason",
                }
            }

            /// The name of the code, without a prefix; `None` for a code that has none.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    MEM = 0x0101_0000, "not enough memory";
    TIMEOUT_CL = 0x0201_0000, "timed out while waiting for a CLC message";
    TIMEOUT_AL = 0x0202_0000, "timed out while adding a link";
    CNFERR = 0x0300_0000, "configuration error";
    PEERNOSMC = 0x0301_0000, "the peer does not show that it can do SMC";
    IPSEC = 0x0302_0000, "the connection uses IPsec";
    NOSMCDEV = 0x0303_0000, "no SMC device found";
    NOSMCDDEV = 0x0303_0001, "no SMC-D device found";
    NOSMCRDEV = 0x0303_0002, "no SMC-R device found";
    NOISM2SUPP = 0x0303_0003, "the device has no SMC-D version 2 support";
    NOV2EXT = 0x0303_0004, "the peer sent no version 2 extension";
    NOV2DEXT = 0x0303_0005, "the peer sent no SMC-D version 2 extension";
    NOSEID = 0x0303_0006, "the peer sent no system EID";
    NOSMCD2DEV = 0x0303_0007, "no SMC-D version 2 device found";
    NOUEID = 0x0303_0008, "no user EID in common";
    RELEASEERR = 0x0303_0009, "the releases cannot be agreed on";
    MAXCONNERR = 0x0303_000a, "the number of connections cannot be agreed on";
    MAXLINKERR = 0x0303_000b, "the number of links cannot be agreed on";
    MODEUNSUPP = 0x0304_0000, "the peer does not support this mode (SMC-D or SMC-R)";
    RMBE_EC = 0x0305_0000, "the peer has an eyecatcher in its buffer";
    OPTUNSUPP = 0x0306_0000, "a socket option is not supported, such as fast open";
    DIFFPREFIX = 0x0307_0000, "the two addresses are in different subnets";
    GETVLANERR = 0x0308_0000, "the VLAN of the connection cannot be found out";
    ISMVLANERR = 0x0309_0000, "the VLAN cannot be registered with the ISM device";
    NOACTLINK = 0x030a_0000, "no active link in the link group";
    NOSRVLINK = 0x030b_0000, "the link that the server names is unknown";
    VERSMISMAT = 0x030c_0000, "the versions of SMC do not match";
    MAX_DMB = 0x030d_0000, "the limit of shared buffers is reached";
    NOROUTE = 0x030e_0000, "no route to the peer for SMC-R version 2";
    NOINDIRECT = 0x030f_0000, "the peer is reached through a gateway of another kind";
    SYNCERR = 0x0400_0000, "the two ends disagree about the link group";
    PEERDECL = 0x0500_0000, "the peer declined";
    INTERR = 0x0999_0000, "internal error";
    ERR_RTOK = 0x0999_0001, "a remote token cannot be handled";
    ERR_RDYLNK = 0x0999_0002, "a link cannot be made ready";
    ERR_REGBUF = 0x0999_0003, "a buffer cannot be registered";
    MODE_OFF = 0x0a00_0000, "switched off by the settings";
    NO_DIAG = 0x0a01_0000, "sock_diag is not available here";
    NOT_PAID = 0x0a02_0000, "has not yet moved enough to be worth it";
    UNSEEN_WAIT = 0x0a03_0000, "the program waits by means that cannot be seen";
    SHARED_FORK = 0x0a04_0000, "several processes share the socket";
    TOO_MANY = 0x0a05_0000, "the link group is full";
    CANCELLED = 0x0a06_0000, "the server has not answered the request";
    OFFSET = 0x0a07_0000, "the stream was in use before it was first seen";
    PEER_VERSION = 0x0a08_0000, "the peer runs another version of this library";
    EXEC = 0x0a09_0000, "handed to a program that cannot be accelerated";
    PASSED = 0x0a0a_0000, "passed to another process";
    STDIO = 0x0a0b_0000, "libc uses it by means that cannot be seen";
    KTLS = 0x0a0c_0000, "kernel TLS is in use";
    ZEROCOPY = 0x0a0d_0000, "zero-copy sending is in use";
    URGENT = 0x0a0e_0000, "urgent data was sent";
    REPAIR = 0x0a0f_0000, "TCP repair mode is in use";
    IO_URING = 0x0a10_0000, "the program uses io_uring";
    MARK = 0x0a11_0000, "the socket cannot carry the capability mark";
    NO_CONTROL = 0x0a12_0000, "the peer's control channel cannot be reached";
    PEER_UID = 0x0a13_0000, "the control channel belongs to another user";
    BAD_TOKEN = 0x0a14_0000, "the token of the request is unknown";
    PROTOCOL = 0x0a15_0000, "the peer broke the protocol";
    REMOTE = 0x0a16_0000, "the peer is on another host or in another namespace";
    FD_LIMIT = 0x0a17_0000, "no file descriptors left";
    BEHIND_BACK = 0x0a18_0000, "the program used the socket without the library";
    NO_CONSENT = 0x0a19_0000, "the reader has not agreed to the ring";
    PEER_GONE = 0x0a1a_0000, "the peer's process has ended";
    RECONNECTED = 0x0a1b_0000, "the socket was disconnected and connected again";
    SIGIO = 0x0a1c_0000, "the program asked for a signal when the socket is ready";
    CONFINED = 0x0a1d_0000, "the program has confined itself to a few system calls";
}

impl Reason {
    /// Where the codes of this product begin; the kernel's end below.
    pub const PRIVATE_BASE: u32 = 0x0a00_0000;

    /// Whether the code is of this product and not the kernel's.
    pub const fn is_private(self) -> bool {
        self.0 >= Self::PRIVATE_BASE
    }

    /// All codes that have a name, in ascending order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        Self::ALL.iter().copied()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn codes_ascend_and_each_has_its_own_text() {
        for pair in Reason::ALL.windows(2) {
            assert!(pair[0] < pair[1], "{} before {}", pair[0], pair[1]);
        }
        let mut texts: Vec<_> = Reason::all().map(Reason::text).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Reason::ALL.len());
        assert!(Reason::all().all(|reason| reason.name().is_some()));
    }

    #[test]
    fn kernel_codes_keep_their_values() {
        assert_eq!(Reason::PEERNOSMC.0, 0x0301_0000);
        assert_eq!(Reason::SYNCERR.to_string(), "0x04000000");
        assert_eq!(Reason::NOUEID.name(), Some("NOUEID"));
        assert!(!Reason::ERR_REGBUF.is_private());
        assert!(Reason::MODE_OFF.is_private());
    }

    #[test]
    fn an_unknown_code_still_prints() {
        let unknown = Reason(0xdead_beef);
        assert_eq!(unknown.to_string(), "0xdeadbeef");
        assert_eq!(unknown.text(), "unknown reason");
        assert_eq!(unknown.name(), None);
    }
}

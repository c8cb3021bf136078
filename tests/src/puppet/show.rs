//! Writing results down in a form that does not depend on the run.

use std::fmt;

/// What a call returned: its value, and `errno` where it is -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ret {
    /// The return value.
    pub value: i64,
    /// `errno` after a failure, else 0.
    pub errno: i32,
}

impl Ret {
    /// Takes a C return value, and `errno` at once.
    pub fn of(value: impl Into<i64>) -> Self {
        let value = value.into();
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { value, errno: if value < 0 { errno } else { 0 } }
    }

    /// The same, of a `ssize_t`.
    pub fn of_size(value: isize) -> Self {
        Self::of(value as i64)
    }

    /// Whether the call failed with this error.
    pub fn is(self, errno: i32) -> bool {
        self.value < 0 && self.errno == errno
    }

    /// The count of a call that worked, 0 of one that did not.
    pub fn count(self) -> usize {
        usize::try_from(self.value).unwrap_or(0)
    }

    /// The value of a call that must work.
    pub fn expect(self, what: &str) -> i32 {
        assert!(self.value >= 0, "{what}: {self}");
        i32::try_from(self.value).unwrap_or(i32::MAX)
    }
}

impl fmt::Display for Ret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value < 0 {
            write!(f, "{}", errno(self.errno))
        } else {
            write!(f, "{}", self.value)
        }
    }
}

const ERRORS: &[(i32, &str)] = &[
    (0, "none"),
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::EBADF, "EBADF"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EFAULT, "EFAULT"),
    (libc::EEXIST, "EEXIST"),
    (libc::EINVAL, "EINVAL"),
    (libc::EMFILE, "EMFILE"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ESPIPE, "ESPIPE"),
    (libc::EPIPE, "EPIPE"),
    (libc::EDOM, "EDOM"),
    (libc::ELOOP, "ELOOP"),
    (libc::ENOTSOCK, "ENOTSOCK"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::EISCONN, "EISCONN"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::ESHUTDOWN, "ESHUTDOWN"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
];

/// The name of an error.
pub fn errno(number: i32) -> String {
    let known = ERRORS.iter().find(|(n, _)| *n == number);
    known.map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
}

fn bits(mask: u32, names: &[(u32, &str)]) -> String {
    let mut rest = mask;
    let mut out = Vec::new();
    for (bit, name) in names {
        if mask & bit != 0 {
            out.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 {
        out.push(format!("{rest:#x}"));
    }
    if out.is_empty() {
        "-".to_owned()
    } else {
        out.join("|")
    }
}

/// Poll or epoll events (the numbers are the same), and epoll's modes.
pub fn events(mask: u32) -> String {
    bits(
        mask,
        &[
            (0x001, "IN"),
            (0x002, "PRI"),
            (0x004, "OUT"),
            (0x008, "ERR"),
            (0x010, "HUP"),
            (0x020, "NVAL"),
            (0x040, "RDNORM"),
            (0x080, "RDBAND"),
            (0x100, "WRNORM"),
            (0x200, "WRBAND"),
            (0x2000, "RDHUP"),
            (1 << 28, "EXCLUSIVE"),
            (1 << 30, "ONESHOT"),
            (1 << 31, "ET"),
        ],
    )
}

/// Flags of `send` and `recv`.
pub fn flags(mask: i32) -> String {
    bits(
        mask.cast_unsigned(),
        &[
            (0x1, "OOB"),
            (0x2, "PEEK"),
            (0x8, "CTRUNC"),
            (0x20, "TRUNC"),
            (0x40, "DONTWAIT"),
            (0x80, "EOR"),
            (0x100, "WAITALL"),
            (0x4000, "NOSIGNAL"),
            (0x8000, "MORE"),
        ],
    )
}

/// A checksum (FNV-1a) that stands for data in a transcript.
pub fn sum(data: &[u8]) -> String {
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// `yes` or `no`.
pub fn yes(truth: bool) -> &'static str {
    if truth {
        "yes"
    } else {
        "no"
    }
}

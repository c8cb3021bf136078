//! Other numbers of a connection.

use super::state::{self, Kind};
use crate::harness::net::{close, Fd};
use crate::harness::process;
use crate::libc_call as call;

/// Numbers from here on are each for one use, so that none is taken for another's.
const SPOTS: Fd = 600;
/// Behind the spots of all connections.
const LAST: Fd = 900;

/// A number that only this direction of this connection uses.
pub fn spot(index: usize, receives: bool) -> Fd {
    SPOTS + 2 * Fd::try_from(index).unwrap() + Fd::from(receives)
}

/// A number that only the end of this connection uses.
pub fn last_spot(index: usize) -> Fd {
    LAST + Fd::try_from(index).unwrap()
}

/// One more number, by one of the ways there are.
pub fn another(way: u64, fd: Fd, spot: Fd) -> Fd {
    let fcntl = |request| call!(libc::fcntl(fd, request, 400)).map(|fd| Fd::try_from(fd).unwrap());
    let (kind, new) = match way % 5 {
        0 => (Kind::Dup, process::dup(fd)),
        1 => (Kind::Dup2, process::dup2(fd, spot)),
        2 => {
            let new = call!(libc::dup3(fd, spot, libc::O_CLOEXEC));
            (Kind::Dup3, new.map(|fd| Fd::try_from(fd).unwrap()))
        }
        3 => (Kind::FDupFd, fcntl(libc::F_DUPFD)),
        _ => (Kind::FDupFd, fcntl(libc::F_DUPFD_CLOEXEC)),
    };
    state::own().did(kind);
    new.unwrap()
}

/// A number for one call, which is closed when it is dropped.
#[derive(Debug)]
pub struct ForNow {
    /// The number.
    pub fd: Fd,
    closes: bool,
}

impl ForNow {
    /// One that stays.
    pub fn lent(fd: Fd) -> Self {
        Self { fd, closes: false }
    }
    /// One that goes.
    pub fn new(fd: Fd) -> Self {
        Self { fd, closes: true }
    }
}

impl Drop for ForNow {
    fn drop(&mut self) {
        if self.closes {
            close(self.fd).unwrap();
        }
    }
}

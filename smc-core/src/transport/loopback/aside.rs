//! An ACCEPT beside the stream, for a connection on which the server never sends, or that was
//! expected to be short.
//!
//! In the stream it would lie unread in the socket of a client that only sends, whose end would reset
//! the connection and lose what it had sent; and on a short connection it costs more than it gains.
//! So the server listens on a socket named by the cookie of
//! its TCP socket, which the client learns from sock_diag; each checks that the other's process
//! belongs to the user of its TCP socket.
use crate::errno::Errno;
use crate::fdtable;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::lock::Lock;
use crate::sys::{raw, scm};
use libc::c_int;

/// Connections of a process that are at it at a time; more stay on TCP.
const MANY: usize = 256;

/// Sockets of this kind, by connection.
#[derive(Debug)]
pub(crate) struct Asides {
    entries: Lock<[(u32, c_int); MANY]>,
    count: AtomicU32,
}

fn name(cookie: u64) -> [u8; 16] {
    let mut name = *b"aside-by-cookie:";
    name[8..].copy_from_slice(&cookie.to_be_bytes());
    name
}

fn socket() -> Result<c_int, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    raw::socket(libc::AF_UNIX, kind, 0).map(fdtable::raise)
}

impl Asides {
    pub(crate) fn new() -> Self {
        Self { entries: Lock::new([(0, -1); MANY]), count: AtomicU32::new(0) }
    }

    /// The socket of a connection.
    pub(crate) fn of(&self, conn: u32) -> Option<c_int> {
        // Relaxed: only this connection's own calls put its entry there.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let entries = self.entries.lock();
        entries.iter().find(|(index, fd)| *fd >= 0 && *index == conn).map(|(_, fd)| *fd)
    }

    /// Whether one more may be at it.
    pub(crate) fn has_room(&self) -> bool {
        // Relaxed: only a hint, which saves system calls; `put` looks itself.
        (self.count.load(Ordering::Relaxed) as usize) < MANY
    }

    fn put(&self, conn: u32, fd: c_int) -> Result<(), Errno> {
        let mut entries = self.entries.lock();
        match entries.iter_mut().find(|(_, fd)| *fd < 0) {
            Some(free) => {
                *free = (conn, fd);
                self.count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            None => {
                fdtable::drop_internal(fd);
                Err(Errno::NOMEM)
            }
        }
    }

    /// Closes the socket of a connection.
    pub(crate) fn drop_of(&self, conn: u32) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut entries = self.entries.lock();
        for entry in entries.iter_mut().filter(|(index, fd)| *fd >= 0 && *index == conn) {
            fdtable::drop_internal(core::mem::replace(&mut entry.1, -1));
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Server: listens under the cookie of its TCP socket.
    pub(crate) fn listen(&self, conn: u32, cookie: u64) -> Result<(), Errno> {
        let fd = socket()?;
        let mut address = [0; 64];
        let len = scm::abstract_address(&name(cookie), &mut address);
        match raw::bind(fd, &address[..len]).and_then(|_| raw::listen(fd, 4)) {
            Ok(_) => self.put(conn, fd),
            Err(errno) => {
                fdtable::drop_internal(fd);
                Err(errno)
            }
        }
    }

    /// Server: hands the ACCEPT to the client, if it has come and is the right user's.
    pub(crate) fn hand_over(&self, listener: c_int, uid: u32, accept: &[u8]) -> bool {
        while let Ok(fd) = raw::accept(listener) {
            let known = scm::peer_uid(fd).is_some_and(|(peer, _)| peer == uid);
            let sent = known && scm::send(fd, accept, None).is_ok();
            raw::close(fd);
            if sent {
                return true;
            }
        }
        false
    }

    /// Client: asks the server whose TCP socket has this cookie and user.
    pub(crate) fn ask(&self, conn: u32, cookie: u64, uid: u32) -> Result<(), Errno> {
        let fd = socket()?;
        let mut address = [0; 64];
        let len = scm::abstract_address(&name(cookie), &mut address);
        let asked = raw::connect(fd, &address[..len]);
        if asked.is_ok() && scm::peer_uid(fd).is_some_and(|(peer, _)| peer == uid) {
            return self.put(conn, fd);
        }
        fdtable::drop_internal(fd);
        asked.and(Err(Errno::PROTO))
    }

    /// In the child of a fork: they are the parent's.
    pub(crate) fn after_fork(&self) {
        // SAFETY: requires that nobody holds the lock: this is the only thread.
        unsafe { self.entries.let_go() };
        for (_, fd) in self.entries.lock().iter_mut() {
            fdtable::drop_internal(core::mem::replace(fd, -1));
        }
        self.count.store(0, Ordering::Relaxed);
    }
}

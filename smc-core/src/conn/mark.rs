//! The mark of a connecting socket: four options that mean nothing to TCP, and that the accepting
//! end can look up.
use super::Ctx;
use crate::arena::flag;
use crate::config::Mode;
use crate::sync::Ordering;
use crate::sys::raw;
use libc::c_int;

/// Values of the four options, in the order of the `VIEW` bits: level IPPROTO_IP; name, value of
/// the mark, the kernel's default.
pub(crate) const MARK: [(c_int, c_int, c_int); 4] = [
    (libc::IP_MULTICAST_LOOP, 0, 1),
    (IP_MULTICAST_ALL, 0, 1),
    (libc::IP_BIND_ADDRESS_NO_PORT, 1, 0),
    (IP_RECVERR_RFC4884, 1, 0),
];
/// Options of the mark that a value without a byte is refused for.
pub(super) const NEEDS_A_BYTE: [c_int; 2] = [libc::IP_MULTICAST_LOOP, IP_MULTICAST_ALL];
/// Options of the mark that take 0 and 1 alone.
pub(super) const ONE_OR_NONE: [c_int; 2] = [IP_MULTICAST_ALL, IP_RECVERR_RFC4884];
const IP_MULTICAST_ALL: c_int = 49;
const IP_RECVERR_RFC4884: c_int = 26;

/// Whether an option is one of the mark's.
pub(super) fn is_of_mark(level: c_int, name: c_int) -> bool {
    level == libc::IPPROTO_IP && MARK.iter().any(|(option, _, _)| *option == name)
}

impl Ctx<'_> {
    /// Client, before the real `connect`: sets the mark.
    pub(crate) fn mark(&self) {
        let mode = self.process.config.mode;
        if matches!(mode, Mode::Off | Mode::Rdma) || self.conn.has(flag::MARKED) {
            return;
        }
        // The program's own values are the kernel's unless it has set them.
        let asks = self.conn.has(flag::OWN_OPTIONS);
        let mut view = 0;
        for (bit, (name, value, default)) in MARK.into_iter().enumerate() {
            let mut now = default;
            if asks {
                let _ = raw::getsockopt(self.fd(), libc::IPPROTO_IP, name, &mut now);
            }
            view |= u32::from(now != default) << bit;
            if raw::setsockopt(self.fd(), libc::IPPROTO_IP, name, &value).is_err() {
                self.unmark(view);
                return;
            }
        }
        self.conn.raise(flag::MARKED | view << flag::VIEW_SHIFT);
    }

    /// Takes the mark off again.
    pub(super) fn unmark_all(&self) {
        self.unmark(self.conn.flags.load(Ordering::Acquire) >> flag::VIEW_SHIFT);
    }

    /// Gives the program's own values back to the socket.
    fn unmark(&self, view: u32) {
        for (bit, (name, _, default)) in MARK.into_iter().enumerate() {
            let own = default ^ c_int::from(view >> bit & 1 != 0);
            let _ = raw::setsockopt(self.fd(), libc::IPPROTO_IP, name, &own);
        }
        self.conn.lower(flag::MARKED);
    }
}

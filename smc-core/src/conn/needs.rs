//! What a program may ask of a socket that only the kernel's TCP can do: the direction concerned goes
//! back to it, or never leaves it.
use super::Ctx;
use crate::arena::{flag, phase};
use crate::errno::{Errno, Ret};
use crate::reason::Reason;
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::raw;
use libc::{c_int, c_void, socklen_t};

/// The direction that must be TCP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Sending,
    Receiving,
    Both,
}

/// When an option asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Whatever its value.
    Always,
    /// With a value that is not 0.
    NotZero,
    /// With a value that is not negative.
    NotNegative,
    /// With a limit, which all ones is not.
    Limited,
}

struct Row {
    level: c_int,
    name: c_int,
    when: When,
    needs: Needs,
}

const fn row(level: c_int, name: c_int, when: When, needs: Needs) -> Row {
    Row { level, name, when, needs }
}

const SOCKET: c_int = libc::SOL_SOCKET;
const TCP: c_int = libc::IPPROTO_TCP;

const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;
const SO_PEEK_OFF: c_int = 42;
const SO_MAX_PACING_RATE: c_int = 47;
const SO_ATTACH_BPF: c_int = 50;
const TCP_MD5SIG: c_int = 14;
const TCP_USER_TIMEOUT: c_int = 18;
const TCP_REPAIR: c_int = 19;
const TCP_ULP: c_int = 31;
const TCP_MD5SIG_EXT: c_int = 32;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;
const TCP_INQ: c_int = 36;
const TCP_TX_DELAY: c_int = 37;
const TCP_AO_ADD_KEY: c_int = 38;

/// Of its request: address, length, how much to copy instead.
const ASKED: usize = 16;

const UNSUPPORTED: Reason = Reason::OPTUNSUPP;

const ROWS: [Row; 16] = [
    // Control data with what is received, or with the packets that are sent.
    row(SOCKET, libc::SO_TIMESTAMP, When::NotZero, Needs::Receiving),
    row(SOCKET, libc::SO_TIMESTAMPNS, When::NotZero, Needs::Receiving),
    row(SOCKET, libc::SO_TIMESTAMPING, When::NotZero, Needs::Both),
    row(SOCKET, SO_TIMESTAMP_NEW, When::NotZero, Needs::Receiving),
    row(SOCKET, SO_TIMESTAMPNS_NEW, When::NotZero, Needs::Receiving),
    row(SOCKET, SO_TIMESTAMPING_NEW, When::NotZero, Needs::Both),
    row(TCP, TCP_INQ, When::NotZero, Needs::Receiving),
    // Where the next MSG_PEEK begins.
    row(SOCKET, SO_PEEK_OFF, When::NotNegative, Needs::Receiving),
    // Packets that the program wants to look at first.
    row(SOCKET, libc::SO_ATTACH_FILTER, When::Always, Needs::Receiving),
    row(SOCKET, SO_ATTACH_BPF, When::Always, Needs::Receiving),
    // How fast, how late, and for how long it is tried.
    row(SOCKET, SO_MAX_PACING_RATE, When::Limited, Needs::Sending),
    row(TCP, TCP_TX_DELAY, When::NotZero, Needs::Sending),
    row(TCP, TCP_USER_TIMEOUT, When::NotZero, Needs::Sending),
    // What TCP's own bytes look like.
    row(TCP, TCP_MD5SIG, When::Always, Needs::Both),
    row(TCP, TCP_MD5SIG_EXT, When::Always, Needs::Both),
    row(TCP, TCP_AO_ADD_KEY, When::Always, Needs::Both),
];

impl When {
    fn asks(self, value: c_int) -> bool {
        match self {
            Self::Always => true,
            Self::NotZero => value != 0,
            Self::NotNegative => value >= 0,
            Self::Limited => value != -1,
        }
    }
}

fn find(level: c_int, name: c_int) -> Option<&'static Row> {
    ROWS.iter().find(|row| (row.level, row.name) == (level, name))
}

impl Ctx<'_> {
    /// Before the kernel sets an option: what it must not find in a ring when it does.
    pub(super) fn before_option(&self, (level, name): (c_int, c_int), value: *const c_void) {
        if (level, name) == (TCP, TCP_REPAIR) && fetch(value.cast::<c_int>()) == Ok(1) {
            // Also what has come already: the program looks at TCP's queues.
            self.needs_tcp_at_once(Reason::REPAIR);
        }
    }

    /// After the kernel has set an option.
    pub(super) fn after_option(
        &self,
        (level, name): (c_int, c_int),
        value: *const c_void,
        len: socklen_t,
    ) {
        if (level, name) == (TCP, TCP_ULP) {
            // Also what has come already: it may be in cipher.
            self.needs_tcp_at_once(Reason::KTLS);
            return;
        }
        let Some(row) = find(level, name) else { return };
        let value: Result<c_int, Errno> = match len {
            0..4 => Ok(1),
            _ => fetch(value.cast::<c_int>()),
        };
        if value.is_ok_and(|value| row.when.asks(value)) {
            self.needs_tcp(row.needs, UNSUPPORTED);
        }
    }

    /// Both directions, with what the ring holds.
    #[cold]
    fn needs_tcp_at_once(&self, reason: Reason) {
        self.conn.raise(flag::TX_TCP | flag::RX_TCP);
        self.leave(reason);
    }

    /// Before an option is asked for: TCP_ZEROCOPY_RECEIVE maps what TCP has received. What a ring
    /// still holds is to be copied first, which the kernel may ask for at any time.
    pub(super) fn ask_by_mapping(
        &self,
        (level, name): (c_int, c_int),
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> Option<Ret> {
        if (level, name) != (TCP, TCP_ZEROCOPY_RECEIVE) {
            return None;
        }
        self.needs_tcp(Needs::Receiving, UNSUPPORTED);
        let queued = self.queued_in_ring();
        if queued == 0 || !fetch(len).is_ok_and(|len| len as usize >= ASKED) {
            return None;
        }
        let word = |at: usize| value.cast::<u8>().wrapping_add(at).cast::<u32>();
        let answer = || -> Ret {
            let wanted: u32 = fetch(word(8))?;
            store(word(8), &0_u32)?;
            store(word(12), &wanted.min(u32::try_from(queued).unwrap_or(u32::MAX)))?;
            Ok(0)
        };
        Some(answer())
    }

    /// The program wants a signal when the socket is ready (O_ASYNC).
    #[cold]
    pub(crate) fn wants_signals(&self) {
        // Of a listener it is not inherited.
        if self.conn.phase() != phase::LISTENER {
            self.needs_tcp(Needs::Both, Reason::SIGIO);
        }
    }

    /// libc's streams may use it by means that no hook sees.
    #[cold]
    pub(crate) fn needs_tcp_for_streams(&self) {
        match self.conn.phase() {
            // Of a listener it is not inherited.
            phase::LISTENER => {}
            phase::FRESH => {
                self.conn.raise(flag::TX_TCP | flag::RX_TCP);
            }
            _ => self.needs_tcp_at_once(Reason::STDIO),
        }
    }

    /// A direction is TCP's from now on.
    #[cold]
    fn needs_tcp(&self, needs: Needs, reason: Reason) {
        let flags = match needs {
            Needs::Sending => flag::TX_TCP,
            Needs::Receiving => flag::RX_TCP,
            Needs::Both => flag::TX_TCP | flag::RX_TCP,
        };
        match (self.conn.phase(), needs) {
            (phase::FRESH | phase::LISTENER, _) => {
                self.conn.raise(flags);
            }
            (phase::ATTACHED, Needs::Sending) => {
                self.stop_sending_in_ring();
                self.conn.reason.store(reason.0, Ordering::Relaxed);
            }
            (phase::ATTACHED, Needs::Receiving) => {
                self.ask_for_tcp();
                self.conn.reason.store(reason.0, Ordering::Relaxed);
            }
            (phase::ATTACHED, Needs::Both) => {
                self.stop_sending_in_ring();
                self.ask_for_tcp();
                self.conn.reason.store(reason.0, Ordering::Relaxed);
            }
            (_, Needs::Sending) => {
                self.conn.raise(flags);
            }
            // Without a ring to read there is none to fill either.
            (_, Needs::Receiving | Needs::Both) => {
                self.conn.raise(flags);
                self.leave(reason);
            }
        }
    }

    /// Peeks at what comes first, wherever the program's own next MSG_PEEK is to begin.
    pub(super) fn at_the_start<T>(&self, peek: impl FnOnce() -> T) -> T {
        let mut own: c_int = -1;
        if self.conn.has(flag::RX_TCP) {
            let _ = raw::getsockopt(self.fd(), SOCKET, SO_PEEK_OFF, &mut own);
        }
        if own < 0 {
            return peek();
        }
        let _ = raw::setsockopt(self.fd(), SOCKET, SO_PEEK_OFF, &0);
        let result = peek();
        let _ = raw::setsockopt(self.fd(), SOCKET, SO_PEEK_OFF, &own);
        result
    }

    /// Why a socket that has not been connected yet cannot come to a ring.
    pub(crate) fn plain_from_birth(&self) -> Option<Reason> {
        self.conn.has(flag::RX_TCP).then_some(UNSUPPORTED)
    }

    /// An accepted socket has what its listener was set to.
    pub(crate) fn inherits(&self, listener: Self) {
        let flags = listener.conn.flags.load(Ordering::Acquire) & (flag::TX_TCP | flag::RX_TCP);
        if flags != 0 {
            self.conn.raise(flags);
            if flags & flag::RX_TCP != 0 {
                self.fall_back(UNSUPPORTED);
            }
        }
    }

    /// A socket that somebody else has made: what it is set to, as far as the kernel tells.
    pub(crate) fn ask_what_it_needs(&self) {
        for row in ROWS.iter().filter(|row| row.when != When::Always) {
            // A value that asks for nothing, should the kernel not know the option.
            let mut value: c_int = if row.when == When::NotZero { 0 } else { -1 };
            let known = raw::getsockopt(self.fd(), row.level, row.name, &mut value).is_ok();
            if known && row.when.asks(value) {
                self.needs_tcp(row.needs, UNSUPPORTED);
            }
        }
        // Without room the kernel tells how long the filter is.
        if raw::getsockopt(self.fd(), SOCKET, libc::SO_ATTACH_FILTER, &mut ()).is_ok_and(|n| n > 0) {
            self.needs_tcp(Needs::Receiving, UNSUPPORTED);
        }
        let flags = raw::fcntl(self.fd(), libc::F_GETFL, 0).unwrap_or(0);
        if flags & libc::O_ASYNC as usize != 0 {
            self.wants_signals();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_one_row() {
        for (index, row) in ROWS.iter().enumerate() {
            let found = ROWS.iter().position(|other| (other.level, other.name) == (row.level, row.name));
            assert_eq!(found, Some(index), "{} {}", row.level, row.name);
        }
    }

    #[test]
    fn values_that_switch_off_ask_for_nothing() {
        assert!(When::NotZero.asks(1) && !When::NotZero.asks(0));
        assert!(When::NotNegative.asks(0) && !When::NotNegative.asks(-1));
        assert!(When::Limited.asks(1_000_000) && !When::Limited.asks(-1));
        assert!(find(TCP, TCP_INQ).is_some() && find(TCP, libc::TCP_NODELAY).is_none());
    }
}

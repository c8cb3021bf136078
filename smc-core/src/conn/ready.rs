//! What poll says of a connection that has consented.
use super::Ctx;
use crate::arena::{flag, MODE_DRAIN, MODE_HYBRID, MODE_RING};
use crate::sync::Ordering;
use crate::sys::{raw, tcp};
use crate::transport::loopback::Loopback;
use crate::transport::{Link, Receiver, Sender};

/// Readiness bits; poll's and epoll's values are the same.
pub(crate) const IN: u32 = (libc::POLLIN | libc::POLLRDNORM) as u32;
pub(crate) const OUT: u32 = (libc::POLLOUT | libc::POLLWRNORM) as u32;
pub(crate) const RDHUP: u32 = libc::POLLRDHUP as u32;
pub(crate) const HUP: u32 = libc::POLLHUP as u32;
pub(crate) const ERR: u32 = libc::POLLERR as u32;
const PRI: u32 = libc::POLLPRI as u32;

/// Flags of a connection of which the kernel has something to tell.
const STICKY: u32 =
    flag::TCP_NEWS | flag::FIN | flag::PEER_GONE | flag::TX_SHUT | flag::RX_SHUT;

/// Looks at a FIN or a reset that is just arriving.
const ARRIVING: u32 = 4096;
/// The same at an end of which the peer has only said that it comes: it may have to wait for something
/// before, and tells of it in time; the kernel does in any case.
const ANNOUNCED: u32 = 16;

impl Ctx<'_> {
    /// Events that are there now, of those wanted (errors and hang-ups always).
    #[inline]
    pub(crate) fn ready(&self, wanted: u32) -> u32 {
        self.ready_by(self.link(), wanted)
    }

    /// As [`Self::ready`], for whoever has the transport at hand.
    #[inline]
    pub(crate) fn ready_by(&self, link: Option<Loopback<'_>>, wanted: u32) -> u32 {
        let conn = self.conn;
        let rings = conn.rx_mode.load(Ordering::Acquire) == MODE_RING
            && conn.tx_mode.load(Ordering::Acquire) == MODE_RING;
        let Some(link) = link.filter(|_| rings) else { return self.ready_in_full(link, wanted) };
        let peer = link.peer();
        if peer.wants_tcp() | peer.copying | peer.ended() | conn.has(STICKY) {
            return self.ready_in_full(Some(link), wanted);
        }
        let mut events = 0;
        if wanted & IN != 0 && self.is_readable(link) {
            events |= IN;
        }
        if wanted & OUT != 0 && self.is_writable(link) {
            events |= OUT;
        }
        events & wanted
    }

    /// The same where the ring need not be all that counts.
    #[inline(never)]
    fn ready_in_full(&self, link: Option<Loopback<'_>>, wanted: u32) -> u32 {
        let conn = self.conn;
        let mut events = 0;
        let peer = link.map(Link::peer).unwrap_or_default();
        // Seldom: the peer goes back to TCP.
        let (mut free, mut hidden) = (true, false);
        if peer.wants_tcp() | peer.copying {
            free = self.see_leave();
            hidden = self.pass_copies_of_empty();
        }
        let rx_mode = self.see_switch().unwrap_or(MODE_RING);
        let tx_ring = conn.tx_mode.load(Ordering::Acquire) == MODE_RING;
        if rx_mode != MODE_RING || !tx_ring || peer.ended() || conn.has(STICKY) {
            events |= self.ready_kernel(rx_mode, tx_ring);
            // What came since may be a copy as well: the next look tells.
            hidden |= !peer.copying && link.is_some_and(|link| link.peer().copying);
            events &= if hidden { !IN } else { u32::MAX };
        }
        if wanted & IN != 0 && rx_mode == MODE_RING && link.is_none_or(|link| self.is_readable(link)) {
            events |= IN;
        }
        let can_send = tx_ring && free && !conn.has(flag::TX_SHUT | flag::PEER_GONE);
        if wanted & OUT != 0 && can_send && link.is_some_and(|link| self.is_writable(link)) {
            events |= OUT;
        }
        events & (wanted | ERR | HUP)
    }

    /// Whether the ring holds as much as the program wants to be told of.
    #[inline(always)]
    fn is_readable(&self, link: Loopback<'_>) -> bool {
        let conn = self.conn;
        let mut rx = conn.lock_rx();
        let low = conn.low_water.load(Ordering::Relaxed) as usize;
        let mut receiver = link.receiver(&mut rx);
        let there = match receiver.ready() {
            Ok(n) if n < low => receiver.queued().unwrap_or(n),
            Ok(n) => n,
            Err(_) => usize::MAX,
        };
        rx.error != 0 || (there >= low.max(1) && conn.rx_mode.load(Ordering::Acquire) == MODE_RING)
    }

    /// Whether the ring has room; if not, the peer is asked to tell of it.
    #[inline(always)]
    fn is_writable(&self, link: Loopback<'_>) -> bool {
        let mut tx = self.conn.lock_tx();
        let mut sender = link.sender(&mut tx);
        let enough = sender.enough();
        sender.room().is_ok_and(|room| room >= enough) || sender.block().unwrap_or(true)
    }

    /// How the TCP socket stands: what is ready, and how many bytes it holds.
    pub(crate) fn tcp_now(&self) -> (i16, usize) {
        let asked = libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP;
        (raw::poll_now(self.fd(), asked), tcp::queued_in(self.fd()).unwrap_or(0))
    }

    /// What the TCP socket says, as far as it counts.
    fn ready_kernel(&self, rx_mode: u32, tx_ring: bool) -> u32 {
        let conn = self.conn;
        conn.lower(flag::TCP_NEWS);
        let asked = libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP;
        let mut revents = raw::poll_now(self.fd(), asked);
        let ends = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
        for look in 0..ARRIVING {
            // The kernel counts a FIN as something to read before it calls it an end, and a reset as
            // an error before it hangs up. The peer's word comes first and brings us here, at times
            // before either is there.
            let none = look < ANNOUNCED
                && revents & (ends | libc::POLLIN) == 0
                && self.link().is_some_and(|link| link.peer().brings_end());
            let fin = revents & (libc::POLLIN | libc::POLLRDHUP) == libc::POLLIN
                && tcp::queued_in(self.fd()) == Ok(0);
            let reset = revents & (libc::POLLERR | libc::POLLHUP) == libc::POLLERR
                && self.link().is_some_and(|link| link.peer().ended());
            if !fin && !reset && !none {
                break;
            }
            raw::yield_now();
            revents = raw::poll_now(self.fd(), asked);
        }
        if revents & ends != 0 && self.judge_end(revents & !libc::POLLIN) {
            revents = raw::poll_now(self.fd(), asked);
        }
        let bits = u32::from(revents.cast_unsigned());
        let mut events = bits & (RDHUP | HUP | ERR | PRI);
        // At the end of the stream TCP is readable; so is what came behind our back.
        events |= bits & IN;
        if rx_mode == MODE_DRAIN || rx_mode == MODE_HYBRID || conn.has(flag::RX_SHUT) {
            events |= bits & IN;
        }
        if !tx_ring || conn.has(flag::TX_SHUT | flag::PEER_GONE) {
            events |= bits & OUT;
        }
        events
    }
}

//! What poll says of a connection that has consented.
use super::Ctx;
use crate::arena::{flag, MODE_DRAIN, MODE_HYBRID, MODE_RING};
use crate::sync::Ordering;
use crate::sys::{raw, tcp};
use crate::transport::{Link, Receiver, Sender};

/// Readiness bits; poll's and epoll's values are the same.
pub(crate) const IN: u32 = (libc::POLLIN | libc::POLLRDNORM) as u32;
pub(crate) const OUT: u32 = (libc::POLLOUT | libc::POLLWRNORM) as u32;
pub(crate) const RDHUP: u32 = libc::POLLRDHUP as u32;
pub(crate) const HUP: u32 = libc::POLLHUP as u32;
pub(crate) const ERR: u32 = libc::POLLERR as u32;
const PRI: u32 = libc::POLLPRI as u32;

/// Looks at a FIN or a reset that is just arriving.
const ARRIVING: u32 = 4096;

impl Ctx<'_> {
    /// Events that are there now, of those wanted (errors and hang-ups always).
    pub(crate) fn ready(&self, wanted: u32) -> u32 {
        let conn = self.conn;
        let mut events = 0;
        let link = self.link();
        let peer = link.map(Link::peer).unwrap_or_default();
        // Seldom: the peer goes back to TCP.
        let (mut free, mut hidden) = (true, false);
        if peer.left | peer.asks_for_tcp | peer.copying {
            free = self.see_leave();
            hidden = self.pass_copies_of_empty();
        }
        let rx_mode = self.see_switch().unwrap_or(MODE_RING);
        let tx_ring = conn.tx_mode.load(Ordering::Acquire) == MODE_RING;
        let over = peer.ended();
        let sticky = flag::TCP_NEWS | flag::FIN | flag::PEER_GONE | flag::TX_SHUT | flag::RX_SHUT;
        let kernel = rx_mode != MODE_RING || !tx_ring || over || conn.has(sticky);
        if kernel {
            events |= self.ready_kernel(rx_mode, tx_ring);
            // What came since may be a copy as well: the next look tells.
            hidden |= !peer.copying && link.is_some_and(|link| link.peer().copying);
            events &= if hidden { !IN } else { u32::MAX };
        }
        if wanted & IN != 0 && rx_mode == MODE_RING {
            let mut rx = conn.lock_rx();
            let low = conn.low_water.load(Ordering::Relaxed) as usize;
            let there = link.map(|link| {
                let mut receiver = link.receiver(&mut rx);
                match receiver.ready() {
                    Ok(n) if n < low => receiver.queued().unwrap_or(n),
                    Ok(n) => n,
                    Err(_) => usize::MAX,
                }
            });
            let ring = conn.rx_mode.load(Ordering::Acquire) == MODE_RING;
            if rx.error != 0 || (ring && there.is_none_or(|n| n >= low.max(1))) {
                events |= IN;
            }
        }
        if wanted & OUT != 0 && tx_ring && free && !conn.has(flag::TX_SHUT | flag::PEER_GONE) {
            let mut tx = conn.lock_tx();
            if let Some(link) = link {
                let mut sender = link.sender(&mut tx);
                let enough = sender.enough();
                let there = sender.room().is_ok_and(|room| room >= enough)
                    || sender.block().unwrap_or(true);
                if there {
                    events |= OUT;
                }
            }
        }
        events & (wanted | ERR | HUP)
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
        for _ in 0..ARRIVING {
            // The kernel counts a FIN as something to read before it calls it an end, and a reset as
            // an error before it hangs up. The peer's word comes first and brings us here.
            let fin = revents & (libc::POLLIN | libc::POLLRDHUP) == libc::POLLIN
                && tcp::queued_in(self.fd()) == Ok(0);
            let reset = revents & (libc::POLLERR | libc::POLLHUP) == libc::POLLERR
                && self.link().is_some_and(|link| link.peer().ended());
            if !fin && !reset {
                break;
            }
            raw::yield_now();
            revents = raw::poll_now(self.fd(), asked);
        }
        let ends = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
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

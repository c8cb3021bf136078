//! Options and ioctls that the program must see as it left them.
use super::mark::{is_of_mark, MARK, NEEDS_A_BYTE, ONE_OR_NONE};
use super::Ctx;
use crate::arena::{flag, MODE_DRAIN, MODE_RING, MODE_TCP};
use crate::errno::{Errno, Ret};
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::{raw, tcp};
use crate::transport::{Link, Receiver};
use libc::{c_int, c_ulong, c_void, socklen_t};

const FIONREAD: c_ulong = 0x541b;
const SIOCATMARK: c_ulong = 0x8905;
const FIOASYNC: c_ulong = 0x5452;
const FIONBIO: c_ulong = 0x5421;

impl Ctx<'_> {
    /// Number of an option of the mark, if the socket bears it.
    fn mark_bit(&self, level: c_int, name: c_int) -> Option<usize> {
        if level != libc::IPPROTO_IP || !self.conn.has(flag::MARKED) {
            return None;
        }
        MARK.iter().position(|(option, _, _)| *option == name)
    }

    /// `getsockopt`: the mark's options read as the program left them.
    pub(crate) fn getsockopt(
        &self,
        (level, name): (c_int, c_int),
        value: *mut c_void,
        len: *mut socklen_t,
        real: impl FnOnce() -> isize,
    ) -> Ret {
        let Some(bit) = self.mark_bit(level, name) else {
            if let Some(answer) = self.ask_by_mapping((level, name), value, len) {
                return answer;
            }
            let result = real();
            if result == 0 {
                self.reads_cork((level, name), value, len)?;
            }
            return Ok(result);
        };
        let result = real();
        if result == 0 {
            let changed = self.conn.has(1 << (flag::VIEW_SHIFT + bit as u32));
            let own = MARK[bit].2 ^ c_int::from(changed);
            // The kernel answers small options in one byte where there is room for no more.
            match fetch(len)? {
                0 => {}
                1..=3 => store(value.cast::<u8>(), &(own as u8))?,
                _ => store(value.cast::<c_int>(), &own)?,
            }
        }
        Ok(result)
    }

    /// `setsockopt`: the mark's options are kept for the program; SO_RCVLOWAT is ours to obey.
    pub(crate) fn setsockopt(
        &self,
        (level, name): (c_int, c_int),
        value: *const c_void,
        len: socklen_t,
        real: impl FnOnce() -> isize,
    ) -> Ret {
        if let Some(bit) = self.mark_bit(level, name) {
            // A socket of TCP takes the value so, too (`do_ip_setsockopt`).
            let own = match len {
                0 if NEEDS_A_BYTE.contains(&name) => return Err(Errno::INVAL),
                0 => 0,
                1..=3 => c_int::from(fetch(value.cast::<u8>())?),
                _ => fetch(value.cast::<c_int>())?,
            };
            if ONE_OR_NONE.contains(&name) && !(0..=1).contains(&own) {
                return Err(Errno::INVAL);
            }
            let changed = c_int::from(own != 0) != MARK[bit].2;
            let view = 1 << (flag::VIEW_SHIFT + bit as u32);
            if changed {
                self.conn.raise(view);
            } else {
                self.conn.lower(view);
            }
            return Ok(0);
        }
        if let Some(answer) = self.sets_cork((level, name), value, len) {
            return answer;
        }
        if is_of_mark(level, name) {
            self.conn.raise(flag::OWN_OPTIONS);
        }
        self.before_option((level, name), value);
        let result = real();
        if result == 0 {
            self.after_option((level, name), value, len);
        }
        if result == 0 && level == libc::SOL_SOCKET && name == libc::SO_RCVLOWAT {
            // The kernel's word: it limits what the program asks for.
            let mut low: c_int = 1;
            let _ = raw::getsockopt(self.fd(), level, name, &mut low);
            self.conn.low_water.store(low.unsigned_abs().max(1), Ordering::Relaxed);
            if self.conn.has(flag::IN_EPOLL) && self.header().is_some() {
                self.process.epolls.look_again(self);
            }
        }
        Ok(result)
    }

    /// `ioctl`: the bytes that can be received. Those in the ring count as acknowledged for SIOCOUTQ,
    /// which is the kernel's: they are with the peer.
    pub(crate) fn ioctl(&self, request: c_ulong, arg: usize, real: impl FnOnce() -> isize) -> Ret {
        match request {
            FIONREAD => {
                if self.conn.phase() == crate::arena::phase::VIRGIN {
                    self.look_for_accept();
                }
                let mode = self.conn.rx_mode.load(Ordering::Acquire);
                if mode == MODE_TCP {
                    return Ok(real());
                }
                let mode = self.see_switch()?;
                let mut count = tcp::queued_in(self.fd()).unwrap_or(0);
                count -= self.copies_queued(count).min(count);
                if mode == MODE_RING || mode == MODE_DRAIN {
                    count += self.queued_in_ring();
                }
                Self::answer(arg, count)
            }
            SIOCATMARK if self.conn.rx_mode.load(Ordering::Acquire) == MODE_RING => {
                // The mark is in TCP, behind what the ring still holds.
                if self.has_unread() {
                    return Self::answer(arg, 0);
                }
                Ok(real())
            }
            FIOASYNC => {
                let result = real();
                if result == 0 && fetch(arg as *const c_int).is_ok_and(|on| on != 0) {
                    self.wants_signals();
                }
                Ok(result)
            }
            FIONBIO => {
                let result = real();
                self.conn.lower(flag::BLOCKS);
                Ok(result)
            }
            _ => Ok(real()),
        }
    }

    /// Bytes that the ring holds for this side.
    pub(super) fn queued_in_ring(&self) -> usize {
        if self.conn.rx_mode.load(Ordering::Acquire) < MODE_DRAIN {
            return 0;
        }
        let mut rx = self.conn.lock_rx();
        let queued = self.link().map(|link| link.receiver(&mut rx).queued());
        queued.and_then(Result::ok).unwrap_or(0)
    }

    fn answer(arg: usize, count: usize) -> Ret {
        let count = c_int::try_from(count).map_err(|_| Errno::INVAL)?;
        store(arg as *mut c_int, &count)?;
        Ok(0)
    }
}

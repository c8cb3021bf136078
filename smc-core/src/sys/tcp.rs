//! What the kernel knows of a TCP socket: the truth about how much was written and read, whoever
//! did it.
use super::inq::unread_with_fin;
use super::raw;
use crate::errno::Errno;
use libc::c_int;

const SIOCINQ: u64 = 0x541b;
const SIOCOUTQ: u64 = 0x5411;
/// 64-bit words of `struct tcp_info` up to and with `tcpi_bytes_retrans` (Linux 4.19).
const INFO: usize = 27;

/// States after the peer's FIN (`net/tcp_states.h`): TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING.
const AFTER_FIN: [u8; 4] = [6, 8, 9, 11];
/// After both ends' FIN, or after a reset.
const CLOSE: u8 = 7;
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;

struct Info {
    state: u8,
    acked: u64,
    received: u64,
    /// Bytes written, from counts that the kernel took at one moment.
    written: u64,
}

fn info(fd: c_int) -> Result<Info, Errno> {
    // struct tcp_info: 8 bytes of small fields, 24 words of 32 bits, then of 64 bits pacing_rate,
    // max_pacing_rate, bytes_acked (15), bytes_received (16); segs_out and segs_in (17),
    // notsent_bytes and min_rtt (18), …, bytes_sent (25), bytes_retrans (26).
    let mut words = [0_u64; INFO];
    let len = raw::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut words)?;
    if len < INFO * 8 {
        return Err(Errno(libc::ENOSYS));
    }
    let not_sent = words[18] & u64::from(u32::MAX);
    Ok(Info {
        state: words[0].to_ne_bytes()[0],
        acked: words[15],
        received: words[16],
        written: words[25].wrapping_sub(words[26]).wrapping_add(not_sent),
    })
}

/// Bytes of the program (and of ours) that were written to the socket since it was connected.
pub fn written(fd: c_int, connecting_side: bool) -> Result<u64, Errno> {
    let syn = u64::from(connecting_side);
    let before = info(fd)?;
    let queued = raw::ioctl_int(fd, SIOCOUTQ)?.unsigned_abs() as u64;
    let after = info(fd)?;
    // What is acknowledged and what is queued add up to the truth at one moment between the two
    // looks; the kernel's own sum must lie there, or a count was off (retransmissions).
    let low = (before.acked + queued).saturating_sub(syn);
    let high = (after.acked + queued).saturating_sub(syn);
    if (low..=high).contains(&after.written) && before.written == after.written {
        Ok(after.written)
    } else {
        Err(Errno::AGAIN)
    }
}

/// Lets what was written go out at once: its last segment would wait until the peer, which need not
/// hurry, has acknowledged the others (Nagle), or for more (TCP_CORK).
pub fn push(fd: c_int) {
    let mut before: c_int = 0;
    let known = raw::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &mut before).is_ok();
    if known
        && raw::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32).is_ok()
        && before == 0
    {
        let _ = raw::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &before);
    }
}

/// For [`read_so_far`]: FIONREAD tells.
pub const BY_FIONREAD: Option<fn() -> Result<u32, Errno>> = None;

/// Bytes that were read from the socket since it was connected. `queued`: what waits to be read, and
/// one more for a FIN, for a live socket where urgent data lies in the way of FIONREAD.
pub fn read_so_far(
    fd: c_int,
    queued: Option<impl Fn() -> Result<u32, Errno>>,
) -> Result<u64, Errno> {
    if info(fd)?.state == CLOSE {
        return read_of_closed(fd);
    }
    let counts_fin = queued.is_some();
    let (after, queued) = at_one_moment(fd, || match &queued {
        Some(queued) => queued(),
        None => raw::ioctl_int(fd, SIOCINQ).map(i32::unsigned_abs),
    })?;
    if after.state == CLOSE {
        return read_of_closed(fd);
    }
    // The kernel counts a FIN as a byte that was received.
    let (fin, queued) = (u64::from(AFTER_FIN.contains(&after.state)), u64::from(queued));
    let queued = queued - if counts_fin { fin.min(queued) } else { 0 };
    Ok(after.received.saturating_sub(fin + queued))
}

/// After both ends' FIN, or after a reset, which may have come behind a FIN: nothing changes any more.
fn read_of_closed(fd: c_int) -> Result<u64, Errno> {
    Ok(info(fd)?.received.saturating_sub(u64::from(unread_with_fin(fd)?)))
}

/// A count of what is queued, and what TCP says of the same moment.
fn at_one_moment(fd: c_int, queued: impl Fn() -> Result<u32, Errno>) -> Result<(Info, u32), Errno> {
    let mut before = info(fd)?;
    for _ in 0..64 {
        let queued = queued()?;
        let after = info(fd)?;
        if after.received == before.received {
            return Ok((after, queued));
        }
        before = after;
    }
    Err(Errno::AGAIN)
}

/// Whether the socket is a connected one.
pub fn is_connected(fd: c_int) -> bool {
    matches!(info(fd), Ok(info) if info.state == ESTABLISHED || info.state == CLOSE_WAIT)
}

/// Whether the descriptor is a TCP socket over IP.
pub fn is_tcp(fd: c_int) -> bool {
    let mut value: c_int = 0;
    let protocol = raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut value);
    protocol.is_ok() && value == libc::IPPROTO_TCP
}

/// Whether the socket listens.
pub fn is_listening(fd: c_int) -> bool {
    let mut value: c_int = 0;
    raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &mut value).is_ok() && value != 0
}

/// Bytes in the receive queue.
pub fn queued_in(fd: c_int) -> Result<usize, Errno> {
    raw::ioctl_int(fd, SIOCINQ).map(|n| n.unsigned_abs() as usize)
}

/// Bytes in the send queue.
pub fn queued_out(fd: c_int) -> Result<usize, Errno> {
    raw::ioctl_int(fd, SIOCOUTQ).map(|n| n.unsigned_abs() as usize)
}

/// The kernel's name of a socket.
pub fn cookie(fd: c_int) -> Result<u64, Errno> {
    let mut cookie = 0_u64;
    raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
    Ok(cookie)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{read_so_far, unread_with_fin, BY_FIONREAD};
    use crate::sys::raw;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// After the FIN of one end, of both ends in either order, after a reset, and after a reset behind a
    /// FIN, with and without bytes that wait, urgent ones too: the count is that of the program's bytes,
    /// and a pending error stays.
    #[test]
    fn an_end_is_no_byte() {
        for (ours_first, reset, late_reset, urgent) in
            (0..16).map(|n| (n & 1 != 0, n & 2 != 0, n & 4 != 0, n & 8 != 0))
        {
            let what = format!("{ours_first} {reset} {late_reset} {urgent}");
            let (mut near, mut far) = pair();
            let fd = near.as_raw_fd();
            far.write_all(b"abcde").unwrap();
            let mut read = [0; 2];
            near.read_exact(&mut read).unwrap();
            if urgent {
                raw::send_user(far.as_raw_fd(), b"!".as_ptr(), 1, libc::MSG_OOB).unwrap();
            }
            if ours_first {
                near.shutdown(Shutdown::Write).unwrap();
                far.read_to_end(&mut Vec::new()).unwrap();
            }
            if reset {
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                raw::setsockopt(far.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger)
                    .unwrap();
            }
            drop(far);
            // For the end to arrive.
            std::thread::sleep(Duration::from_millis(20));
            let pending = raw::poll_now(fd, 0);
            if late_reset && !ours_first && !reset {
                raw::send_user(fd, b"a".as_ptr(), 1, 0).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            let pending = pending | raw::poll_now(fd, 0);
            let count = || match raw::poll_now(fd, 0) & libc::POLLHUP {
                // As one who knows the whole queue of a live socket.
                0 if urgent => read_so_far(fd, Some(|| unread_with_fin(fd))),
                _ => read_so_far(fd, BY_FIONREAD),
            };
            assert_eq!(count(), Ok(2), "{what}");
            let mut rest = [0; 3];
            near.read_exact(&mut rest).unwrap();
            assert_eq!(count(), Ok(5), "{what}");
            assert_eq!(raw::poll_now(fd, 0), pending, "{what}");
            if !urgent && !reset && !late_reset {
                assert_eq!(near.read(&mut rest).unwrap(), 0);
                assert_eq!(count(), Ok(5), "{what}");
            }
        }
    }
}

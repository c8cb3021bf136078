//! The causes for which a connection leaves shared memory.

use super::plan::Cause;
use crate::harness::net::{self, close, Errno, Fd};
use crate::libc_call as call;

const TCP_ULP: i32 = 31;

/// Sends a descriptor to this process itself; the new number.
fn pass_to_self(fd: Fd) -> Fd {
    let mut ends = [0; 2];
    call!(libc::socketpair(
        libc::AF_UNIX,
        libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
        0,
        ends.as_mut_ptr()
    ))
    .unwrap();
    let mut byte = [7_u8];
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // Room for one descriptor: CMSG_SPACE(4), aligned.
    let mut control = [0_u64; 3];
    // SAFETY: a msghdr is plain numbers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = 24;
    // SAFETY: the control buffer has room for a header and one descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_len = 20;
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        libc::CMSG_DATA(header).cast::<Fd>().write_unaligned(fd);
    }
    assert_eq!(call!(libc::sendmsg(ends[0], &message, 0)), Ok(1));
    message.msg_controllen = 24;
    assert_eq!(call!(libc::recvmsg(ends[1], &mut message, 0)), Ok(1));
    // SAFETY: as above; the kernel has filled the buffer in.
    let new = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        assert!(!header.is_null(), "no descriptor came");
        libc::CMSG_DATA(header).cast::<Fd>().read_unaligned()
    };
    for end in ends {
        close(end).unwrap();
    }
    new
}

/// What a cause came to.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The number to go on with.
    pub fd: Fd,
    /// Bytes that were sent on the way.
    pub sent: usize,
}

/// Leaves shared memory. `shared`: other threads use the number, so that it stays open. `next` is
/// what is sent next, if the cause sends; `standard` the standard stream to use.
pub fn leave(cause: Cause, fd: Fd, shared: bool, next: &[u8], standard: Fd) -> Left {
    let done = |fd| Left { fd, sent: 0 };
    let took = |result: Result<usize, Errno>| match result {
        Ok(sent) => Left { fd, sent },
        // Of a peer that gave up the next call tells.
        Err(Errno(libc::EAGAIN | libc::EINTR | libc::ECONNRESET | libc::EPIPE)) => done(fd),
        Err(error) => panic!("{cause:?}: {error}"),
    };
    let quiet = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    match cause {
        Cause::None | Cause::Exec | Cause::ExecBare | Cause::Abandon => done(fd),
        Cause::Pass | Cause::PassKeep => {
            let new = pass_to_self(fd);
            if cause == Cause::PassKeep {
                close(new).unwrap();
                return done(fd);
            }
            if !shared {
                close(fd).unwrap();
            }
            done(new)
        }
        Cause::Standard => {
            let new = crate::harness::process::dup2(fd, standard).unwrap();
            // A helper may have it there already.
            if !shared && fd != new {
                close(fd).unwrap();
            }
            done(new)
        }
        Cause::Urgent if !next.is_empty() => took(net::send(fd, &next[..1], quiet | libc::MSG_OOB)),
        Cause::ZeroCopy => took(net::send(fd, next, quiet | libc::MSG_ZEROCOPY)),
        Cause::FastOpen => match net::send(fd, next, quiet | libc::MSG_FASTOPEN) {
            Err(Errno(libc::EISCONN | libc::EOPNOTSUPP)) => done(fd),
            other => took(other),
        },
        Cause::Urgent => done(fd),
        Cause::Ulp => {
            let name = b"tls\0";
            let _ = call!(libc::setsockopt(
                fd,
                libc::IPPROTO_TCP,
                TCP_ULP,
                name.as_ptr().cast(),
                u32::try_from(name.len()).unwrap()
            ));
            done(fd)
        }
        Cause::Timestamp => {
            net::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1_i32).unwrap();
            done(fd)
        }
        Cause::UserTimeout => {
            net::set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 60_000_i32).unwrap();
            done(fd)
        }
    }
}

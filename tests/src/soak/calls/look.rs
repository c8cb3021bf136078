//! Whether a call's bytes went through the kernel's TCP.

use crate::harness::net::Fd;
use crate::libc_call as call;
use crate::soak::state::{self, Kind};

// Offsets in `struct tcp_info`.
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;

/// The kernel's count of a direction before a call.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    count: Option<u64>,
    receives: bool,
}

/// An `ioctl` past the library, which counts the ring in.
fn ask_kernel(fd: Fd, request: u64, answer: &mut i32) {
    // SAFETY: `ioctl` with a request that writes an `int`, to one that lives.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_ioctl => _,
            in("rdi") i64::from(fd),
            in("rsi") request,
            in("rdx") std::ptr::from_mut(answer),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
}

/// Bytes that were written to TCP, or read from it.
fn count(fd: Fd, receives: bool) -> Option<u64> {
    let mut info = [0_u8; 256];
    let mut len = 256_u32;
    call!(libc::getsockopt(
        fd,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        info.as_mut_ptr().cast(),
        &mut len
    ))
    .ok()?;
    let at = if receives { BYTES_RECEIVED } else { BYTES_ACKED };
    let moved = u64::from_ne_bytes(info[at..at + 8].try_into().unwrap());
    let mut queued = 0_i32;
    let request = if receives { libc::FIONREAD } else { libc::TIOCOUTQ };
    ask_kernel(fd, request, &mut queued);
    let queued = u64::try_from(queued).ok()?;
    Some(if receives { moved.wrapping_sub(queued) } else { moved + queued })
}

impl Look {
    /// Before the call; few are looked at.
    pub fn before(way: u64, fd: Fd, receives: bool) -> Self {
        let count = (way >> 40).is_multiple_of(5).then(|| count(fd, receives)).flatten();
        Self { count, receives }
    }

    /// After a call that moved something.
    pub fn after(self, fd: Fd, kind: Kind) {
        state::own().did(kind);
        if let Some(before) = self.count {
            state::own().saw(kind, count(fd, self.receives) == Some(before));
        }
    }
}

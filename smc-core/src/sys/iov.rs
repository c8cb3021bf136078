//! The program's buffers, as it named them: nothing here is trusted, and nothing is touched but by
//! copies that survive a bad pointer.
use super::copy::{copy_in, InBuf, OutBuf};
use crate::errno::Errno;
use libc::{c_int, iovec, msghdr};

/// Most buffers in one call (`UIO_MAXIOV`).
pub const IOV_MAX: usize = 1024;
/// Most bytes in one call (`MAX_RW_COUNT`).
const COUNT_MAX: usize = 0x7fff_f000;

/// So many buffers are copied at the start of a call.
const FEW: usize = 8;

/// One or several buffers.
#[derive(Clone, Copy, Debug)]
pub enum Bufs {
    /// Address and length.
    One(*mut u8, usize),
    /// A copy of the program's array, and how much of it counts.
    Few([iovec; FEW], usize),
    /// An array of iovecs, in the program's memory.
    Many(*const iovec, usize),
}

impl Bufs {
    /// From `readv` and `writev`.
    pub fn vector(iov: *const iovec, count: c_int) -> Result<Self, Errno> {
        match usize::try_from(count) {
            Ok(count) if count <= IOV_MAX => Self::of(iov, count),
            _ => Err(Errno::INVAL),
        }
    }

    #[inline]
    fn of(iov: *const iovec, count: usize) -> Result<Self, Errno> {
        if count > FEW {
            return Ok(Self::Many(iov, count));
        }
        let mut few = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; FEW];
        let source = input(iov.cast(), count * core::mem::size_of::<iovec>());
        // SAFETY: requires room for the bytes: `few` has it for that many entries.
        match unsafe { copy_in(few.as_mut_ptr().cast(), source) } {
            Ok(()) => Ok(Self::Few(few, count)),
            Err(_) => Err(Errno::FAULT),
        }
    }

    /// From `recvmsg` and `sendmsg`: the buffers and a copy of the header.
    pub fn message(message: *const msghdr) -> Result<(Self, msghdr), Errno> {
        let header: msghdr = fetch(message)?;
        if header.msg_iovlen > IOV_MAX {
            return Err(Errno::MSGSIZE);
        }
        Ok((Self::of(header.msg_iov, header.msg_iovlen)?, header))
    }

    /// How many buffers there are.
    #[inline]
    pub fn count(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Few(_, count) | Self::Many(_, count) => *count,
        }
    }

    /// The n-th buffer.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Result<(*mut u8, usize), Errno> {
        match self {
            &Self::One(base, len) => Ok((base, len)),
            Self::Few(few, count) => match few.get(index).filter(|_| index < *count) {
                Some(one) => Ok((one.iov_base.cast(), one.iov_len)),
                None => Err(Errno::INVAL),
            },
            &Self::Many(iov, count) if index < count => {
                let one: iovec = fetch(iov.wrapping_add(index))?;
                Ok((one.iov_base.cast(), one.iov_len))
            }
            Self::Many(..) => Err(Errno::INVAL),
        }
    }

    /// Bytes of all buffers; EINVAL and EFAULT as the kernel has them (`import_iovec`): a buffer
    /// that does not lie in user space is refused before anything is moved.
    #[inline(always)]
    pub fn total(&self) -> Result<usize, Errno> {
        match *self {
            Self::One(base, len) => {
                let len = len.min(COUNT_MAX);
                in_user_space(base, len).map(|()| len)
            }
            Self::Few(_, count) | Self::Many(_, count) => self.sum(count),
        }
    }

    fn sum(&self, count: usize) -> Result<usize, Errno> {
        let mut malformed = false;
        let mut outside = false;
        let mut sum = 0_usize;
        for index in 0..count {
            let (base, len) = self.get(index)?;
            malformed |= isize::try_from(len).is_err();
            outside |= in_user_space(base, len).is_err();
            sum = sum.saturating_add(len);
        }
        // The kernel looks at all lengths first.
        match (malformed, outside) {
            (true, _) => Err(Errno::INVAL),
            (false, true) => Err(Errno::FAULT),
            _ => Ok(sum.min(COUNT_MAX)),
        }
    }

    /// The part of buffer `index` that begins `skip` bytes into it, of at most `max` bytes.
    #[inline(always)]
    pub fn part(&self, index: usize, skip: usize, max: usize) -> Result<(*mut u8, usize), Errno> {
        let (base, len) = self.get(index)?;
        Ok((base.wrapping_add(skip), len.saturating_sub(skip).min(max)))
    }
}

/// First address past user space: 47 bits on x86-64 (`TASK_SIZE_MAX`), less elsewhere.
const USER_END: usize = (1 << 47) - 4096;

#[inline(always)]
fn in_user_space(base: *const u8, len: usize) -> Result<(), Errno> {
    match (base as usize).checked_add(len) {
        Some(end) if end <= USER_END => Ok(()),
        _ => Err(Errno::FAULT),
    }
}

/// Reads one byte at each end of a range of the program's memory: EFAULT if it cannot be.
pub fn probe(base: *const u8, len: usize) -> Result<(), Errno> {
    if len == 0 {
        return Ok(());
    }
    in_user_space(base, len)?;
    fetch::<u8>(base)?;
    fetch::<u8>(base.wrapping_add(len - 1))?;
    Ok(())
}

/// The program's bytes to send. The pointer may be bad: copies notice.
#[inline(always)]
#[allow(clippy::not_unsafe_ptr_arg_deref)] // No dereference: a copy that survives a bad pointer.
pub fn input<'a>(base: *const u8, len: usize) -> InBuf<'a> {
    // SAFETY: requires memory of the program that nothing of ours aliases, or a bad pointer, which
    // the copy survives.
    unsafe { InBuf::new(base, len) }
}

/// The program's room for bytes.
#[inline(always)]
#[allow(clippy::not_unsafe_ptr_arg_deref)] // As above.
pub fn output<'a>(base: *mut u8, len: usize) -> OutBuf<'a> {
    // SAFETY: as in `input`.
    unsafe { OutBuf::new(base, len) }
}

/// Reads a C structure of the program.
pub fn fetch<T: Copy>(from: *const T) -> Result<T, Errno> {
    // SAFETY: requires a type for which zero bytes are valid: C structures of integers and
    // pointers only are asked for.
    let mut value: T = unsafe { core::mem::zeroed() };
    let source = input(from.cast(), core::mem::size_of::<T>());
    // SAFETY: requires room for the bytes: `value` is exactly that.
    match unsafe { copy_in((&raw mut value).cast(), source) } {
        Ok(()) => Ok(value),
        Err(_) => Err(Errno::FAULT),
    }
}

/// Writes a C structure of the program.
pub fn store<T: Copy>(to: *mut T, value: &T) -> Result<(), Errno> {
    let target = output(to.cast(), core::mem::size_of::<T>());
    // SAFETY: requires readable bytes: `value` is that.
    match unsafe { super::copy::copy_out(target, (value as *const T).cast_mut().cast()) } {
        Ok(()) => Ok(()),
        Err(_) => Err(Errno::FAULT),
    }
}

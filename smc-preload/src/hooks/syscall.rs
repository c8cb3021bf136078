//! `syscall`: programs, runtimes and allocators make some of their calls by number.
//!
//! What concerns a descriptor of ours goes to the hook of the call's name, everything else by a
//! tail jump to libc's `syscall`, which, other than the named functions, is no cancellation point.
//! Nothing here allocates.
use super::{epoll, file, io, life, msg, mux, opt, process, setup};
use crate::dispatch::{born, born_pair, tracked, uncancelled};
use crate::process::exiting;
use crate::symbols::real;
use libc::{c_int, c_long, sigset_t};
use smc_core::engine::any_tracked;

/// A hook, its arguments cut from words.
macro_rules! by_name {
    ($hook:path, $($word:expr),*) => { c_long::from($hook($($word as _),*)) };
}

/// A hook that may wait, and that is a cancellation point under its own name.
macro_rules! waiting {
    ($hook:path, $($word:expr),*) => { uncancelled(|| c_long::from($hook($($word as _),*))) };
}

/// The same of one that returns a size.
macro_rules! sized {
    ($hook:path, $($word:expr),*) => { uncancelled(|| $hook($($word as _),*) as c_long) };
}

/// Numbers that a map of the calls holds.
const NUMBERS: usize = 512;

/// A set of call numbers.
const fn set(numbers: &[c_long]) -> [u64; NUMBERS / 64] {
    let mut words = [0; NUMBERS / 64];
    let mut index = 0;
    while index < numbers.len() {
        let number = numbers[index] as usize;
        words[number / 64] |= 1 << (number % 64);
        index += 1;
    }
    words
}

/// Whether a set has a number.
#[inline(always)]
fn has(set: &[u64; NUMBERS / 64], number: c_long) -> bool {
    let number = number as usize;
    number < NUMBERS && set[number / 64] >> (number % 64) & 1 != 0
}

/// The calls that have a hook: a number, a condition, and the hook. Yields their set, so that all
/// other calls jump to libc without a stack frame.
macro_rules! hooked {
    ([$a:ident $b:ident $c:ident $d:ident $e:ident $f:ident]
     $($(#[$cfg:meta])* $number:ident $(if $ours:expr)? => $hook:expr,)*) => {
        const HOOKED: [u64; NUMBERS / 64] = set(&[$($(#[$cfg])* libc::$number),*]);

        #[inline(never)]
        unsafe fn by_number(
            number: c_long,
            $a: usize,
            $b: usize,
            $c: usize,
            $d: usize,
            $e: usize,
            $f: usize,
        ) -> c_long {
            // SAFETY: the program's own call; a word that the kernel takes as some type is passed
            // to the hook of the same call as that type.
            unsafe {
                match number {
                    $($(#[$cfg])* libc::$number $(if $ours)? => $hook,)*
                    _ => {
                        let got = real::syscall(number, $a, $b, $c, $d, $e, $f);
                        if got >= 0 && has(&BIRTHS, number) {
                            made(number, [$a, $b, $c, $d], got as c_int);
                        }
                        got
                    }
                }
            }
        }
    };
}

hooked! {
    [a b c d e f]
    SYS_read if ours(a) => sized!(io::read, a, b, c),
    SYS_write if ours(a) => sized!(io::write, a, b, c),
    SYS_readv if ours(a) => sized!(io::readv, a, b, c),
    SYS_writev if ours(a) => sized!(io::writev, a, b, c),
    // The offset comes in two words; the first is all of it on 64-bit systems.
    SYS_preadv2 if ours(a) => sized!(io::preadv2, a, b, c, d, f),
    SYS_pwritev2 if ours(a) => sized!(io::pwritev2, a, b, c, d, f),
    SYS_recvfrom if ours(a) => sized!(io::recvfrom, a, b, c, d, e, f),
    SYS_sendto if ours(a) => sized!(io::sendto, a, b, c, d, e, f),
    SYS_recvmsg if ours(a) => sized!(msg::recvmsg, a, b, c),
    SYS_sendmsg if ours(a) => sized!(msg::sendmsg, a, b, c),
    SYS_recvmmsg if ours(a) => waiting!(msg::recvmmsg, a, b, c, d, e),
    SYS_sendmmsg if ours(a) => waiting!(msg::sendmmsg, a, b, c, d),
    SYS_sendfile if ours(a) => sized!(file::sendfile, a, b, c, d),
    SYS_splice if ours(a) || ours(c) => sized!(file::splice, a, b, c, d, e, f),
    SYS_connect if ours(a) => waiting!(setup::connect, a, b, c),
    SYS_listen if ours(a) => by_name!(setup::listen, a, b),
    SYS_shutdown if ours(a) => by_name!(life::shutdown, a, b),
    SYS_close if ours(a) => by_name!(life::close, a),
    SYS_close_range => by_name!(life::close_range, a, b, c),
    SYS_dup => by_name!(life::dup, a),
    SYS_dup3 => by_name!(life::dup3, a, b, c),
    #[cfg(target_arch = "x86_64")]
    SYS_dup2 => by_name!(life::dup2, a, b),
    SYS_fcntl if ours(a) || opt::copies(b as c_int) => by_name!(opt::fcntl, a, b, c),
    SYS_ioctl if ours(a) => by_name!(opt::ioctl, a, b, c),
    SYS_getsockopt if ours(a) => by_name!(opt::getsockopt, a, b, c, d, e),
    SYS_setsockopt if ours(a) => by_name!(opt::setsockopt, a, b, c, d, e),
    SYS_epoll_ctl if ours(a) || ours(c) => by_name!(epoll::epoll_ctl, a, b, c, d),
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait if ours(a) => waiting!(epoll::epoll_wait, a, b, c, d),
    SYS_epoll_pwait if ours(a) => waiting!(epoll::epoll_pwait, a, b, c, d, e),
    SYS_epoll_pwait2 if ours(a) => waiting!(epoll::epoll_pwait2, a, b, c, d, e),
    #[cfg(target_arch = "x86_64")]
    SYS_poll if any_tracked(a as _, b as _) => waiting!(mux::poll, a, b, c),
    SYS_ppoll if any_tracked(a as _, b as _) => waiting!(mux::ppoll, a, b, c, d),
    #[cfg(target_arch = "x86_64")]
    SYS_select if any_in_sets(a, [b, c, d]) => waiting!(mux::select, a, b, c, d, e),
    SYS_pselect6 if any_in_sets(a, [b, c, d]) => {
        waiting!(mux::pselect, a, b, c, d, e, mask_of(f) as usize)
    },
    SYS_execve => by_name!(process::execve, a, b, c),
    SYS_execveat => by_name!(process::execveat, a, b, c, d, e),
    SYS_exit_group => {
        exiting();
        real::syscall(libc::SYS_exit_group, a, b, c, d, e, f)
    },
    SYS_prctl => by_name!(process::prctl, a, b, c, d, e),
    SYS_seccomp => process::seccomp(a, b, c),
    SYS_io_uring_setup => super::uring::setup(a, b),
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the program's own call.
    unsafe {
        if has(&HOOKED, number) || has(&BIRTHS, number) {
            by_number(number, a, b, c, d, e, f)
        } else {
            real::syscall(number, a, b, c, d, e, f)
        }
    }
}

/// Whether the word names a descriptor of ours.
#[inline(always)]
fn ours(word: usize) -> bool {
    tracked(word as c_int)
}

unsafe fn any_in_sets(count: usize, sets: [usize; 3]) -> bool {
    // SAFETY: the arguments of `select`.
    unsafe { mux::any_in_sets(count as c_int, sets.map(|set| set as _)) }
}

/// The kernel's `pselect6` takes the mask with its size.
unsafe fn mask_of(word: usize) -> *const sigset_t {
    let pair = word as *const *const sigset_t;
    if pair.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the program gives a pointer and a size.
    unsafe { *pair }
}

/// The calls that make a descriptor, or may bring one, if no hook has taken them.
const BIRTHS: [u64; NUMBERS / 64] = set(&[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_create,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_eventfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_signalfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pipe2,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_inotify_init1,
    libc::SYS_fanotify_init,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_mq_open,
]);

/// Tells of what a call has made.
unsafe fn made(number: c_long, [a, b, c, d]: [usize; 4], got: c_int) {
    // SAFETY: the call has succeeded with these arguments.
    unsafe {
        match number {
            libc::SYS_socket => setup::opened(got, a as c_int, b as c_int, c as c_int),
            libc::SYS_accept | libc::SYS_accept4 => setup::taken(a as c_int, got),
            libc::SYS_socketpair => born_pair(d as *const c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_pipe => born_pair(a as *const c_int),
            libc::SYS_pipe2 => born_pair(a as *const c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => epoll::opened(got),
            libc::SYS_epoll_create1 => epoll::opened(got),
            libc::SYS_recvmsg => msg::received(b as _),
            libc::SYS_recvmmsg => msg::received_several(b as _, got),
            libc::SYS_pidfd_getfd => msg::arrived(got),
            _ => born(got),
        }
    }
}

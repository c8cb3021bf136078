//! A copy from or to memory that is not there fails; it does not crash.
#![cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Duct;
use smc_core::ring::RingError;
use smc_core::sys::copy::{copy_in, copy_out, fixup, Fault, InBuf, OutBuf};
use std::ptr::{null, null_mut};
use std::sync::Once;

const PAGE: usize = 4096;
/// Every path of the routine, its bounds, and more than a page.
const LENS: [usize; 29] = [
    1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 500,
    1023, 1024, 2047, 2048, 4095, 4096,
];

/// What the preload library's handler does.
extern "C" fn on_fault(
    signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: requires the context of this signal: the kernel passed it.
    let rip = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    match fixup(*rip as usize) {
        Some(landing) => *rip = landing as i64,
        // SAFETY: requires nothing; the instruction faults again and ends the test.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: requires a valid action with a handler of the SA_SIGINFO form: it is.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, null_mut()), 0);
            assert_eq!(libc::sigaction(libc::SIGBUS, &action, null_mut()), 0);
        }
    });
}

/// Two pages that can be used and a third that cannot; they are never unmapped.
fn half_mapped() -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: requires nothing: a new mapping, of which the last page is then locked.
    unsafe {
        let map = libc::mmap(null_mut(), 3 * PAGE, access, flags, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        let map = map.cast::<u8>();
        assert_eq!(libc::mprotect(map.add(2 * PAGE).cast(), PAGE, libc::PROT_NONE), 0);
        map
    }
}

/// The program's buffer at `ptr`, which may be nowhere.
fn source<'a>(ptr: *const u8, len: usize) -> InBuf<'a> {
    // SAFETY: requires memory that we may read where there is any: pages of ours, or none.
    unsafe { InBuf::new(ptr, len) }
}

/// The program's buffer at `ptr`, which may be nowhere.
fn target<'a>(ptr: *mut u8, len: usize) -> OutBuf<'a> {
    // SAFETY: requires memory that we may write where there is any: pages of ours, or none.
    unsafe { OutBuf::new(ptr, len) }
}

#[test]
fn every_length_and_alignment_arrives() {
    let data: Vec<u8> = (0..10_000_u32).map(|n| ((n * 31) >> 3) as u8).collect();
    for len in (0..300).chain(1000..1100).chain([2047, 2048, 2049, 4096, 9000]) {
        for (from, to) in [(0, 0), (1, 0), (0, 1), (3, 17), (15, 64), (5, 31), (0, 33)] {
            let mut out = vec![0xee; len + 200];
            let place = out.as_mut_ptr().wrapping_add(to);
            // SAFETY: requires a target of that length: `out` is longer by 200.
            assert_eq!(unsafe { copy_in(place, data[from..from + len].into()) }, Ok(()));
            assert_eq!(out[to..to + len], data[from..from + len], "{len} from {from} to {to}");
            assert!(out[..to].iter().chain(&out[to + len..]).all(|byte| *byte == 0xee), "{len}");
        }
    }
}

#[test]
fn a_buffer_that_is_not_there_is_a_fault() {
    install();
    let nowhere = [null(), half_mapped().wrapping_add(2 * PAGE), (1_usize << 63) as *const u8];
    let mut ring = vec![0; PAGE];
    for len in LENS {
        for bad in nowhere {
            // SAFETY: requires a ring of that length: it is a page.
            let result = unsafe { copy_in(ring.as_mut_ptr(), source(bad, len)) };
            assert_eq!(result, Err(Fault), "{len}");
            let to = target(bad.cast_mut(), len);
            // SAFETY: as above.
            assert_eq!(unsafe { copy_out(to, ring.as_ptr()) }, Err(Fault), "{len}");
        }
    }
}

#[test]
fn a_buffer_that_ends_too_early_is_a_fault() {
    install();
    let end = half_mapped().wrapping_add(2 * PAGE);
    let mut ring = vec![0; PAGE];
    for len in LENS {
        for missing in [1, len.div_ceil(2), len] {
            let start = end.wrapping_sub(len - missing);
            // SAFETY: requires a ring of that length: it is a page.
            let result = unsafe { copy_in(ring.as_mut_ptr(), source(start, len)) };
            assert_eq!(result, Err(Fault), "{len} without {missing}");
            // SAFETY: as above.
            let result = unsafe { copy_out(target(start, len), ring.as_ptr()) };
            assert_eq!(result, Err(Fault), "{len} without {missing}");
        }
        let start = end.wrapping_sub(len);
        // SAFETY: as above.
        assert_eq!(unsafe { copy_in(ring.as_mut_ptr(), source(start, len)) }, Ok(()));
        // SAFETY: as above.
        assert_eq!(unsafe { copy_out(target(start, len), ring.as_ptr()) }, Ok(()));
    }
}

#[test]
fn a_faulting_write_or_read_leaves_the_ring_as_it_was() {
    install();
    let bad = half_mapped().wrapping_add(2 * PAGE);
    let mut duct = Duct::new(64, 0);
    let fault = Err(RingError::Fault(Fault));
    assert_eq!(duct.producer().write(source(bad, 10), 64, || panic!("published")), fault);
    assert_eq!(duct.consumer().available(), Ok(0));

    assert_eq!(duct.producer().write([1, 2, 3].as_slice().into(), 64, || ()), Ok(3));
    assert_eq!(duct.consumer().read(target(bad, 3)), fault);
    assert_eq!(duct.consumer().available(), Ok(3));
    let mut buf = [0; 4];
    assert_eq!(duct.consumer().read(buf.as_mut_slice().into()), Ok(3));
    assert_eq!(buf, [1, 2, 3, 0]);
}

#[test]
fn bytes_before_a_fault_count() {
    install();
    let end = half_mapped().wrapping_add(2 * PAGE);
    let mut duct = Duct::new(64, 0);
    // Two segments of 8 are there, the third is not.
    let from = source(end.wrapping_sub(16), 24);
    assert_eq!(duct.producer().write(from, 8, || ()), Ok(16));
    assert_eq!(duct.consumer().queued(), Ok(16));
}

#[test]
fn other_code_is_not_resumed() {
    assert_eq!(fixup(0), None);
    assert_eq!(fixup(usize::MAX), None);
    assert_eq!(fixup(install as *const () as usize), None);
}

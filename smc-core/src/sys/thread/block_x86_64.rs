//! Where a thread's block is, for x86-64: at a fixed distance from the thread pointer.
//!
//! The library is loaded when the program starts, so that its thread-local memory is part of each
//! thread's static block (the initial-exec model). The compiler does not know that, and would ask
//! the dynamic linker's `__tls_get_addr` at each access.
use super::Thread;

core::arch::global_asm!(
    ".pushsection .tbss.smc_thread,\"awT\",@nobits",
    ".p2align 6",
    ".globl smc_thread",
    ".hidden smc_thread",
    ".type smc_thread,@object",
    ".size smc_thread, {size}",
    "smc_thread:",
    ".zero {size}",
    ".popsection",
    size = const core::mem::size_of::<Thread>(),
);

const _: () = assert!(core::mem::align_of::<Thread>() <= 64);

/// Runs something with this thread's block.
#[inline(always)]
pub(super) fn with<T>(use_it: impl FnOnce(&Thread) -> T) -> T {
    let block: *const Thread;
    // SAFETY: requires a thread pointer that points to itself, as the ABI has it, and an offset that
    // the linker or the loader fills in; memory is read and nothing else is changed.
    unsafe {
        core::arch::asm!(
            "mov {block}, qword ptr fs:[0]",
            "add {block}, qword ptr [rip + smc_thread@GOTTPOFF]",
            block = out(reg) block,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: requires memory that lives as long as the thread and is valid: zeros at first, and
    // all fields are atomics. No reference leaves this call.
    use_it(unsafe { &*block })
}

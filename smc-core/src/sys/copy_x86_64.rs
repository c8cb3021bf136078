//! The copy for x86-64.
use super::Fault;

core::arch::global_asm!(
    ".pushsection .text.smc_copy,\"ax\",@progbits",
    ".p2align 6",
    ".globl smc_copy_bytes",
    ".hidden smc_copy_bytes",
    ".type smc_copy_bytes,@function",
    // rdi: target, rsi: source, rdx: length. No stack, no call: the landing can return at once.
    "smc_copy_bytes:",
    "xor eax, eax",
    "cmp rdx, 16",
    "jb 20f",
    "cmp rdx, 32",
    "ja 10f",
    // 16 to 32: both ends, overlapping.
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    "10:",
    "cmp rdx, 64",
    "ja 11f",
    // 33 to 64.
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "ret",
    "11:",
    "cmp rdx, 1024",
    "jae 15f",
    // 65 to 1023: blocks of 64, then the last 64, which may overlap the blocks.
    "movups xmm4, [rsi + rdx - 64]",
    "movups xmm5, [rsi + rdx - 48]",
    "movups xmm6, [rsi + rdx - 32]",
    "movups xmm7, [rsi + rdx - 16]",
    "lea rcx, [rdi + rdx - 64]",
    "12:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "add rsi, 64",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "add rdi, 64",
    "cmp rdi, rcx",
    "jb 12b",
    "movups [rcx], xmm4",
    "movups [rcx + 16], xmm5",
    "movups [rcx + 32], xmm6",
    "movups [rcx + 48], xmm7",
    "ret",
    "15:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "20:",
    "cmp edx, 8",
    "jb 21f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "21:",
    "cmp edx, 4",
    "jb 22f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    "22:",
    "cmp edx, 2",
    "jb 23f",
    "movzx ecx, word ptr [rsi]",
    "movzx r8d, word ptr [rsi + rdx - 2]",
    "mov [rdi], cx",
    "mov [rdi + rdx - 2], r8w",
    "ret",
    "23:",
    "test edx, edx",
    "jz 24f",
    "movzx ecx, byte ptr [rsi]",
    "mov [rdi], cl",
    "24:",
    "ret",
    ".globl smc_copy_landing",
    ".hidden smc_copy_landing",
    "smc_copy_landing:",
    "mov eax, 1",
    "ret",
    ".size smc_copy_bytes, . - smc_copy_bytes",
    ".popsection",
);

extern "C" {
    fn smc_copy_bytes(dst: *mut u8, src: *const u8, len: usize) -> u32;
    /// The end of the part that may fault, and where it resumes.
    fn smc_copy_landing();
}

#[inline(always)]
pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: requires two ranges that do not overlap and that are accessible or fault: the
    // caller's promise.
    match unsafe { smc_copy_bytes(dst, src, len) } {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

#[inline]
pub(super) fn fixup(rip: usize) -> Option<usize> {
    let start = smc_copy_bytes as *const () as usize;
    let landing = smc_copy_landing as *const () as usize;
    (start..landing).contains(&rip).then_some(landing)
}

//! The copy for x86-64.
//!
//! Why not `rep movsb`, or the memcpy of libc, which uses it for large copies: on AMD processors it
//! is 15 times slower where the target lies a few bytes further into its page than the source.
//! Measured on one with erms and fsrm, nanoseconds, best of 60, offsets within the page as
//! source/target:
//!
//! | bytes | offsets | AVX loop | SSE loop | rep movsb | memcpy |
//! |-------|---------|----------|----------|-----------|--------|
//! | 512   | 0/0     | 10       | 13       | 15        | 11     |
//! | 1024  | 0/0     | 14       | 22       | 20        | 20     |
//! | 4096  | 0/0     | 43       | 94       | 72        | 62     |
//! | 4096  | 0/5     | 58       | 137      | 1832      | 1753   |
//! | 65536 | 0/0     | 1335     | 1670     | 1302      | 1410   |
//! | 65536 | 0/5     | 1515     | 2194     | 21698     | 27974  |
//!
//! Up to 64 bytes all are alike, at 3 to 4.
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
    // Blocks of 64, then the last 64, which may overlap them.
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
    // The same for at least 256 bytes, with AVX.
    ".p2align 6",
    ".globl smc_copy_wide",
    ".hidden smc_copy_wide",
    ".type smc_copy_wide,@function",
    "smc_copy_wide:",
    "xor eax, eax",
    "vmovups ymm4, [rsi + rdx - 128]",
    "vmovups ymm5, [rsi + rdx - 96]",
    "vmovups ymm6, [rsi + rdx - 64]",
    "vmovups ymm7, [rsi + rdx - 32]",
    "vmovups ymm8, [rsi]",
    "lea rcx, [rdi + rdx - 128]",
    // On to the next aligned target: 1 to 32 bytes, which ymm8 covers.
    "mov r8, rdi",
    "mov r9, rdi",
    "and r9, -32",
    "add r9, 32",
    "sub r9, rdi",
    "add rsi, r9",
    "add rdi, r9",
    ".p2align 5",
    "30:",
    "vmovups ymm0, [rsi]",
    "vmovups ymm1, [rsi + 32]",
    "vmovups ymm2, [rsi + 64]",
    "vmovups ymm3, [rsi + 96]",
    "add rsi, 128",
    "vmovaps [rdi], ymm0",
    "vmovaps [rdi + 32], ymm1",
    "vmovaps [rdi + 64], ymm2",
    "vmovaps [rdi + 96], ymm3",
    "sub rdi, -128",
    "cmp rdi, rcx",
    "jb 30b",
    "vmovups [r8], ymm8",
    "vmovups [rcx], ymm4",
    "vmovups [rcx + 32], ymm5",
    "vmovups [rcx + 64], ymm6",
    "vmovups [rcx + 96], ymm7",
    "vzeroupper",
    "ret",
    ".globl smc_copy_wide_landing",
    ".hidden smc_copy_wide_landing",
    "smc_copy_wide_landing:",
    "vzeroupper",
    "mov eax, 1",
    "ret",
    ".size smc_copy_wide, . - smc_copy_wide",
    ".popsection",
);

extern "C" {
    fn smc_copy_bytes(dst: *mut u8, src: *const u8, len: usize) -> u32;
    /// The end of the part that may fault, and where it resumes.
    fn smc_copy_landing();
    fn smc_copy_wide(dst: *mut u8, src: *const u8, len: usize) -> u32;
    /// The same of the wide one.
    fn smc_copy_wide_landing();
}

/// From here on the wide routine is faster.
const WIDE: usize = 256;

#[inline(always)]
pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
    let failed = if len >= WIDE && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: requires two ranges that do not overlap and that are accessible or fault: the
        // caller's promise. And AVX and that length: just checked.
        unsafe { smc_copy_wide(dst, src, len) }
    } else {
        // SAFETY: requires the same two ranges.
        unsafe { smc_copy_bytes(dst, src, len) }
    };
    match failed {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

#[inline]
pub(super) fn fixup(rip: usize) -> Option<usize> {
    let parts = [
        (smc_copy_bytes as *const () as usize, smc_copy_landing as *const () as usize),
        (smc_copy_wide as *const () as usize, smc_copy_wide_landing as *const () as usize),
    ];
    parts.iter().find(|(start, landing)| (*start..*landing).contains(&rip)).map(|part| part.1)
}

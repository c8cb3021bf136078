//! Functions with an argument list that stable Rust cannot name.
//!
//! `fcntl`, `ioctl`, `open` and `syscall` need no trick: on x86-64 and aarch64 Linux their few
//! words travel like fixed arguments. The `execl` family and `dprintf` take any number, so these
//! are written in assembly, for x86-64 only; elsewhere they are not hooked.
use crate::cold::find;
use crate::hooks::stdio::{__vdprintf_chk, vdprintf};
use crate::process::replacing;
use crate::symbols::Slot;
use libc::c_void;
use std::arch::naked_asm;

/// An `execl…`: keeps the argument registers while the engine is told, then jumps to the real
/// function, which finds the stack as the program left it.
macro_rules! exec_list {
    ($($name:ident)*) => {
        /// Where the real functions are; null before [`resolve`].
        #[allow(non_upper_case_globals)]
        mod slot {
            use super::Slot;
            $(pub(super) static $name: Slot = Slot::new(std::ptr::null());)*
        }

        /// Tell the engine that this image ends, and give the address to jump to.
        mod real {
            use super::*;
            $(pub(super) extern "C" fn $name() -> *mut c_void {
                replacing();
                let known = slot::$name.get();
                if known.is_null() { find(concat!(stringify!($name), "\0")) } else { known }
            })*
        }

        /// Finds the real functions, which every libc has.
        pub(crate) fn resolve() {
            $(slot::$name.set(find(concat!(stringify!($name), "\0")));)*
        }

        $(
        #[unsafe(naked)]
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                ".cfi_adjust_cfa_offset 56",
                "call {real}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -56",
                "jmp r11",
                ".cfi_endproc",
                real = sym real::$name,
            )
        }
    )*};
}

exec_list! { execl execle execlp }

/// A `…printf` as its `v…` form: builds the `va_list` of the System V ABI on the stack. `$named`
/// is the number of bytes that the named arguments take in the register save area, `$list` the
/// register in which the `v…` form takes the list.
macro_rules! print_list {
    ($($name:ident = $with_list:ident, $named:literal, $list:literal;)*) => {$(
        #[unsafe(naked)]
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                // The register save area, at 32.
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                // The list, at 0: offsets of the next words, the caller's stack, the save area.
                concat!("mov dword ptr [rsp], ", $named),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $list, ", rsp"),
                "call {with_list}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                with_list = sym $with_list,
            )
        }
    )*};
}

print_list! {
    dprintf = vdprintf, "16", "rdx";
    __dprintf_chk = __vdprintf_chk, "24", "rcx";
}

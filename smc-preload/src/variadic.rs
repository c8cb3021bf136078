//! Functions with an argument list that stable Rust cannot name.
//!
//! `fcntl`, `ioctl`, `open` and `syscall` need no trick: on x86-64 and aarch64 Linux their few
//! words travel like fixed arguments. The `execl` family and `dprintf` take any number, so these
//! are written in assembly, for x86-64 only; elsewhere they are not hooked.
use crate::hooks::process::{execv, execve, execvp};
use crate::hooks::stdio::{__vdprintf_chk, vdprintf};
use crate::target::Words;
use libc::{c_char, c_int};
use std::arch::naked_asm;

/// The words of a call: those that came in registers, and those on the stack behind them.
#[derive(Clone, Copy)]
struct Arguments {
    registers: *const [Word; 6],
    stack: *const Word,
}

type Word = *const c_char;

/// A list up to this length is copied without an allocation.
const SHORT: usize = 512;

impl Arguments {
    /// # Safety
    /// The caller has passed a word there, or the null that ends its list.
    unsafe fn word(self, nth: usize) -> Word {
        // SAFETY: the caller's promise, and the order in which words are passed.
        unsafe {
            match (*self.registers).get(nth) {
                Some(word) => *word,
                None => *self.stack.add(nth - 6),
            }
        }
    }

    /// Passes the list that begins at word 1 on as an array, and the word behind its end.
    ///
    /// # Safety
    /// There is such a list, with a null at the end.
    unsafe fn with_list(self, call: impl FnOnce(Words, usize) -> c_int) -> c_int {
        let mut len = 0;
        // SAFETY: up to the null.
        while !unsafe { self.word(1 + len) }.is_null() {
            len += 1;
        }
        let mut short = [std::ptr::null(); SHORT];
        let mut long;
        let list = match short.get_mut(..=len) {
            Some(list) => list,
            None => {
                long = vec![std::ptr::null(); len + 1];
                &mut long[..]
            }
        };
        for (nth, entry) in list.iter_mut().enumerate() {
            // SAFETY: as above.
            *entry = unsafe { self.word(1 + nth) };
        }
        call(list.as_ptr(), len + 2)
    }
}

unsafe extern "C-unwind" fn list_of_execl(
    registers: *const [Word; 6],
    stack: *const Word,
) -> c_int {
    let all = Arguments { registers, stack };
    // SAFETY: the program's own call, of `execl`'s form.
    unsafe { all.with_list(|list, _| execv(all.word(0), list)) }
}

unsafe extern "C-unwind" fn list_of_execlp(
    registers: *const [Word; 6],
    stack: *const Word,
) -> c_int {
    let all = Arguments { registers, stack };
    // SAFETY: the program's own call, of `execlp`'s form.
    unsafe { all.with_list(|list, _| execvp(all.word(0), list)) }
}

unsafe extern "C-unwind" fn list_of_execle(
    registers: *const [Word; 6],
    stack: *const Word,
) -> c_int {
    let all = Arguments { registers, stack };
    // SAFETY: the program's own call, of `execle`'s form: the environment follows the list.
    unsafe { all.with_list(|list, next| execve(all.word(0), list, all.word(next).cast())) }
}

/// An `execl…`: its words as an array in memory, and where the rest of them is.
macro_rules! exec_list {
    ($($name:ident = $with_list:ident;)*) => {$(
        #[unsafe(naked)]
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                ".cfi_adjust_cfa_offset 48",
                "mov rdi, rsp",
                "lea rsi, [rsp + 56]",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {with_list}",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                with_list = sym $with_list,
            )
        }
    )*};
}

exec_list! {
    execl = list_of_execl;
    execle = list_of_execle;
    execlp = list_of_execlp;
}

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

//! The library that `smc-run` loads into a program by `LD_PRELOAD`.
//!
//! It defines the libc functions by which programs do socket I/O, wait for readiness, and make,
//! copy and close descriptors. Each hook asks the engine whether the descriptor is one of its own:
//! if not, it jumps to the real function. What the engine does is told in `smc-core`.
//!
//! Rules that hold in this crate, because the code runs inside a stranger's process:
//!
//! - Hooks are `extern "C-unwind"` and nothing catches an unwind on their way: a thread that is
//!   cancelled in a blocking call runs the cleanups and destructors of the program's own frames.
//! - Before a descriptor is known to be ours there is no allocation, no lock and no thread-local
//!   with a destructor: allocators call `read`, `close` and `syscall` while they start up.
//! - A panic does not unwind into the program: the panic hook writes one line and aborts.
//! - `errno` is written last, and only on failure.
//!
//! What is left alone, and why:
//!
//! - `vfork`: a Rust frame around it would be used by parent and child alike. Instead hooks that
//!   change what we know of a descriptor compare the process id (`process`).
//! - The child of `posix_spawn`, `system`, `popen`: it runs in libc without a symbol that could be
//!   hooked. What it inherits is settled before the call.
//! - `fork`, `daemon`'s inner fork, `forkpty`: `pthread_atfork` covers them.
//! - `bind`, `getsockname`, `getpeername`, `tee`, `copy_file_range`, `pread` and the like: the
//!   kernel's TCP socket stays the program's descriptor, so they are right as they are.
mod cold;
mod dispatch;
mod environment;
mod hooks;
mod init;
mod process;
mod stream;
mod symbols;
mod target;
#[cfg(target_arch = "x86_64")]
mod variadic;

//! Children that libc starts as another program.
use crate::dispatch::{errno, tracked};
use crate::process::{borrowed_memory, spawned, spawning};
use crate::symbols::real;
use crate::target::{of_path, of_search, own_environment, Words};
use libc::{c_char, c_int, c_void, pid_t};
use smc_core::engine::{self, Plan};

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Words,
    envp: Words,
) -> c_int {
    // SAFETY: the program's own call with its own arguments, whose contract it keeps.
    unsafe {
        let plan = spawning(|| of_path(path, envp, actions.is_null()), false);
        let error = real::posix_spawn(pid, path, actions, attributes, argv, envp);
        spawned(plan, error == 0);
        error
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Words,
    envp: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let plan = spawning(|| of_search(file, envp, actions.is_null()), false);
        let error = real::posix_spawnp(pid, file, actions, attributes, argv, envp);
        spawned(plan, error == 0);
        error
    }
}

/// What a child's descriptor is to be made from.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    old: c_int,
    new: c_int,
) -> c_int {
    if tracked(old) && !borrowed_memory() {
        engine::given_to_child(old, new);
    }
    // SAFETY: the program's own call.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, old, new) }
}

/// The shell that `system`, which `waits` for its end, and `popen` start.
pub(crate) fn shell(waits: bool) -> Plan {
    // SAFETY: a constant string, and the environment of the process.
    spawning(|| unsafe { of_path(c"/bin/sh".as_ptr(), own_environment(), true) }, waits)
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    if command.is_null() {
        // SAFETY: the program's own call: whether there is a shell.
        return unsafe { real::system(command) };
    }
    let plan = shell(true);
    // SAFETY: the program's own call.
    let status = unsafe { real::system(command) };
    // A child that cannot be waited for was there all the same.
    let started = status != -1 || !matches!(errno(), libc::EAGAIN | libc::ENOMEM);
    spawned(plan, started);
    status
}

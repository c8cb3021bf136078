//! Link flags of the preload library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Threads may be inside a hook, and atfork handlers point into the library: never unmap it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // No lazy binding: the first call of a function would otherwise run the dynamic linker's
    // resolver in the middle of a hook.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}

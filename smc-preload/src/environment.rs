//! The environment as glibc hands it to constructors.
use libc::c_char;
use std::ffi::CStr;

/// Names and values; reading allocates nothing.
#[derive(Clone)]
pub(crate) struct Environment(*const *const c_char);

impl Environment {
    /// The environment at `vector`.
    ///
    /// # Safety
    /// `vector` holds pointers to strings, with a null at its end, and nobody changes it while the
    /// value or what it yields is in use.
    pub(crate) unsafe fn new(vector: *const *const c_char) -> Self {
        Self(vector)
    }
}

impl Iterator for Environment {
    type Item = (&'static [u8], &'static [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // SAFETY: `new`'s promise; the end has not been passed.
            let entry = unsafe { *self.0 };
            if entry.is_null() {
                return None;
            }
            // SAFETY: not the end.
            self.0 = unsafe { self.0.add(1) };
            // SAFETY: `new`'s promise.
            let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
            if let Some(at) = text.iter().position(|byte| *byte == b'=') {
                return Some((&text[..at], &text[at + 1..]));
            }
        }
    }
}

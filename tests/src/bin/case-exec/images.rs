//! Images: this program again, told on its command line what to go on with.

use smc_tests::harness::net::{set_inherited, Errno, Fd};
use std::ffi::CString;
use std::ptr::null;

/// What becomes of this image: the program with these words.
pub(crate) struct Next {
    path: CString,
    words: Vec<CString>,
    vector: Vec<*const libc::c_char>,
}

fn text(word: &str) -> CString {
    CString::new(word).unwrap()
}

impl Next {
    /// Some program.
    pub(crate) fn program(path: &str, words: &[&str]) -> Self {
        let words: Vec<CString> = [path].iter().chain(words).map(|word| text(word)).collect();
        let vector = words.iter().map(|word| word.as_ptr()).chain([null()]).collect();
        Self { path: text(path), words, vector }
    }

    /// This one, that does `what` with the descriptors.
    pub(crate) fn this(what: &str, fds: &[Fd]) -> Self {
        let own = std::env::current_exe().unwrap();
        let numbers: Vec<String> = fds.iter().map(Fd::to_string).collect();
        let mut words = vec!["then", what];
        words.extend(numbers.iter().map(String::as_str));
        Self::program(own.to_str().unwrap(), &words)
    }

    /// Makes the descriptors inheritable and execs.
    pub(crate) fn exec(&self, fds: &[Fd]) -> Errno {
        for fd in fds {
            set_inherited(*fd, true);
        }
        // SAFETY: strings and a vector of them that live until the call returns, if it does.
        unsafe { libc::execv(self.path.as_ptr(), self.vector.as_ptr()) };
        Errno::last()
    }

    /// The same with an environment of these entries.
    pub(crate) fn exec_with(&self, fds: &[Fd], environment: &[&str]) -> Errno {
        let entries: Vec<CString> = environment.iter().map(|entry| text(entry)).collect();
        let vector: Vec<_> = entries.iter().map(|entry| entry.as_ptr()).chain([null()]).collect();
        for fd in fds {
            set_inherited(*fd, true);
        }
        // SAFETY: as above.
        unsafe { libc::execve(self.path.as_ptr(), self.vector.as_ptr(), vector.as_ptr()) };
        Errno::last()
    }

    /// The path and the words, for a call of another kind.
    pub(crate) fn raw(&self) -> (*const libc::c_char, *const *const libc::c_char) {
        debug_assert_eq!(self.words.len() + 1, self.vector.len());
        (self.path.as_ptr(), self.vector.as_ptr())
    }
}

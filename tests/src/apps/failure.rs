//! Why a program could not be run or did not do what it should.
use std::{fmt, io};

/// A failure in words; the harness only ever reports it.
#[derive(Clone, Debug)]
pub struct Failure(String);

/// What the harness's functions return.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

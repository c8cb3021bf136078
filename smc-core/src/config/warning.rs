//! What is said of a variable that makes no sense.
use core::fmt;

/// How much of a value is shown: a line on a terminal has room for no more.
const SHOWN: usize = 64;

/// A variable that was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// What is wrong with it.
    pub problem: Problem,
}

/// Why a variable was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The value is none of those that the variable takes.
    Malformed(&'static str),
    /// There is no such variable.
    Unknown,
}

/// One line, whatever bytes the variable holds.
impl fmt::Display for Warning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: ", Shown(self.name), Shown(self.value))?;
        match self.problem {
            Problem::Malformed(why) => write!(f, "{why}; using the default"),
            Problem::Unknown => f.write_str("no such setting"),
        }
    }
}

struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_at_checked(SHOWN) {
            Some((head, [_, ..])) => write!(f, "{}...", head.escape_ascii()),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

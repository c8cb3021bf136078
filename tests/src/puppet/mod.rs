//! Two-process cases in which one end, the *subject*, does what is tested, and the other, the
//! *puppet*, does what it is told.
//!
//! The two processes share a control channel (an abstract Unix socket, named after the port), so
//! that a case reads as one sequence: the subject asks the puppet to send, to read, to shut down or
//! to die, waits until the effect has reached its own socket, and then makes the calls that it
//! writes down. Either TCP role can be the subject (`subject=client`), because the two ends of a
//! connection come to shared memory by different ways; `cold` leaves out the warm-up after which a
//! connection is expected to have left TCP.

mod conn;
mod control;
mod pattern;
mod play;
mod serve;
pub mod show;
mod subject;
pub mod sys;
pub mod wait;

pub use conn::Conn;
pub use pattern::{check, fill, stream};
pub use play::play;
pub use subject::{main, Buffers, Entry, Subject};

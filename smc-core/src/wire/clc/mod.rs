//! CLC messages (RFC 7609 and its version 2): how two ends of a TCP connection agree on SMC.
//!
//! ```text
//! eyecatcher(4) type(1) length(2) version:4 flags:4 | body | eyecatcher(4)
//! ```
mod error;
pub mod header;
pub mod loopback;

pub use error::ClcError;
pub use header::{Header, Kind, Mode, HEADER_LEN, TRAILER_LEN};

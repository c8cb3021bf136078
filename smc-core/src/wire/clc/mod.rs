//! CLC messages (RFC 7609 and its version 2): how two ends of a TCP connection agree on SMC.
//!
//! ```text
//! eyecatcher(4) type(1) length(2) version:4 flags:4 | body | eyecatcher(4)
//!
//! client                        server
//! PROPOSAL ───────────────────>
//!          <─────────────────── ACCEPT
//! CONFIRM  ───────────────────>
//! DECLINE from either end at any time: both go on with TCP
//! ```
//!
//! Reserved bytes are written as zero and not looked at, as the kernel does. [`loopback`] is the
//! exception to both: its message stands in a stream of a program and must be recognised without
//! doubt.
mod accept;
mod choice;
mod confirm;
mod decline;
mod error;
mod first_contact;
mod header;
mod list;
mod local;
pub mod loopback;
mod offer_v2;
mod proposal;

pub use accept::Accept;
pub use choice::{Choice, Ism, Rdma, Transport, Version};
pub use confirm::{Confirm, MAX_GIDS};
pub use decline::{Decline, OS_LINUX};
pub use error::ClcError;
pub use first_contact::{FirstContact, Limits};
pub use header::{Header, Kind, Mode, HEADER_LEN, TRAILER_LEN};
pub use list::List;
pub use local::Local;
pub use offer_v2::{IsmOfferV2, OfferV2, MAX_EIDS, MAX_ISM_GIDS};
pub use proposal::{IsmOffer, Offered, Proposal, Subnets, MAX_PREFIXES};

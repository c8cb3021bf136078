//! Harness.

pub mod apps;
pub mod load;

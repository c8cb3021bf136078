//! The settings, read once from the environment.

/// What `SMC_…` variables say; immutable after the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Accelerate at all.
    pub enabled: bool,
}

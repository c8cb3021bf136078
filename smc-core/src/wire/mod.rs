//! CLC messages.

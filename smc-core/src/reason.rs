//! Why a connection is plain TCP.

/// A reason code, the kernel's (`SMC_CLC_DECL_…`) where one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

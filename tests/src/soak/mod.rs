//! Long runs of random use, checked at every byte.
//!
//! `smc-soak demote COUNT` starts pairs of processes whose connections leave shared memory at random
//! moments, by every cause there is, from either end or both; `smc-soak random SECONDS` mixes all
//! calls, forks, deaths and closes. All choices come from a seed, which is printed with each fault.

pub mod calls;
pub mod crew;
pub mod pattern;
pub mod plan;
pub mod stream;
pub mod trigger;

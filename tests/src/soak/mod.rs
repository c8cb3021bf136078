//! Long runs of random use, checked at every byte.
//!
//! `smc-soak demote COUNT` starts pairs of processes whose connections leave shared memory at random
//! moments, by every cause there is, from either end or both; `smc-soak random MINUTES` mixes that
//! with all calls, other numbers of a connection, helpers that take part in an end's work (forked
//! children, other images, threads), signals, deaths and closes. All choices come from a seed, which
//! is printed with each fault.

pub mod calls;
pub mod crew;
mod errand;
mod finish;
pub mod numbers;
pub mod pair;
pub mod pattern;
pub mod plan;
pub mod role;
pub mod state;
pub mod stream;
mod stuck;
pub mod trigger;
pub mod wait;

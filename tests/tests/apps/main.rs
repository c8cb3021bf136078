//! Real programs: with both ends under `smc-run`, with one end only, and bare.
//!
//! With both ends under it, the statistics must prove that the ring carried the bytes; with one,
//! the results must be right over TCP. A program that is not installed is a failure, unless
//! `SMC_TEST_SKIP_MISSING=1` is set.
#![allow(clippy::unwrap_used, clippy::panic)]

mod images;
mod languages;
mod memcached;
mod postgres;
mod python;
mod redis;
mod session;
mod streams;
mod tls;
mod transfers;
mod web;

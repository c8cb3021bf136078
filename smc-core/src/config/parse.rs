//! What the values of settings look like.
use ::log::LevelFilter;

use super::{BytePath, Mode, AUTOSPLIT_MIN, RING_CODE_MAX, RING_MIN, SPIN_US_MAX};

/// Why a value is not one, to stand behind "NAME=VALUE: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Malformed {}

pub(super) fn mode(value: &[u8]) -> Result<Mode, Malformed> {
    let modes = [
        ("auto", Mode::Auto),
        ("loopback", Mode::Loopback),
        ("rdma", Mode::Rdma),
        ("off", Mode::Off),
    ];
    word(value, &modes).ok_or(Malformed("not one of auto, loopback, rdma, off"))
}

pub(super) fn level(value: &[u8]) -> Result<LevelFilter, Malformed> {
    let levels = [
        ("off", LevelFilter::Off),
        ("error", LevelFilter::Error),
        ("warn", LevelFilter::Warn),
        ("info", LevelFilter::Info),
        ("debug", LevelFilter::Debug),
        ("trace", LevelFilter::Trace),
    ];
    word(value, &levels).ok_or(Malformed("not one of off, error, warn, info, debug, trace"))
}

pub(super) fn switch(value: &[u8]) -> Result<bool, Malformed> {
    let words = [
        ("1", true),
        ("0", false),
        ("on", true),
        ("off", false),
        ("yes", true),
        ("no", false),
        ("true", true),
        ("false", false),
    ];
    word(value, &words).ok_or(Malformed("not 1 or 0"))
}

pub(super) fn io_uring(value: &[u8]) -> Result<bool, Malformed> {
    word(value, &[("allow", true), ("refuse", false)]).ok_or(Malformed("not allow or refuse"))
}

/// The code of the smallest ring that holds the size; sizes beyond the largest ring get that one,
/// as SO_RCVBUF does with the system's limit.
pub(super) fn ring_code(value: &[u8]) -> Result<u8, Malformed> {
    let size = nonzero_size(value)?;
    Ok((0..RING_CODE_MAX)
        .find(|&code| size <= u64::from(RING_MIN) << code)
        .unwrap_or(RING_CODE_MAX))
}

pub(super) fn autosplit(value: &[u8]) -> Result<u32, Malformed> {
    let size = nonzero_size(value)?;
    Ok(u32::try_from(size).unwrap_or(u32::MAX).clamp(AUTOSPLIT_MIN, RING_MIN << RING_CODE_MAX))
}

pub(super) fn attach_after(value: &[u8]) -> Result<Option<u64>, Malformed> {
    if value.eq_ignore_ascii_case(b"auto") {
        return Ok(None);
    }
    size(value).map(Some)
}

pub(super) fn spin_us(value: &[u8]) -> Result<Option<u32>, Malformed> {
    if value.eq_ignore_ascii_case(b"auto") {
        return Ok(None);
    }
    let why = Malformed("not auto or a number of microseconds up to 1000000");
    let us = digits(value).and_then(|us| u32::try_from(us).ok()).ok_or(why)?;
    if us > SPIN_US_MAX {
        return Err(why);
    }
    Ok(Some(us))
}

pub(super) fn path(value: &[u8]) -> Result<BytePath, Malformed> {
    BytePath::new(value).ok_or(Malformed("empty, or too long for a path"))
}

fn nonzero_size(value: &[u8]) -> Result<u64, Malformed> {
    match size(value)? {
        0 => Err(Malformed("a size of 0")),
        size => Ok(size),
    }
}

/// Digits and perhaps a suffix. More than fits in 64 bits is as good as the largest number.
fn size(value: &[u8]) -> Result<u64, Malformed> {
    let (number, unit) = match value {
        [number @ .., b'k' | b'K'] => (number, 1 << 10),
        [number @ .., b'm' | b'M'] => (number, 1 << 20),
        number => (number, 1),
    };
    let number = digits(number).ok_or(Malformed("not a size: digits, then k or m or nothing"))?;
    Ok(number.saturating_mul(unit))
}

fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    })
}

fn word<T: Copy>(value: &[u8], words: &[(&str, T)]) -> Option<T> {
    let found = words.iter().find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(value))?;
    Some(found.1)
}

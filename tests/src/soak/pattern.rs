//! Bytes that depend on the seed and the position alone, so that any part can be made and checked.

/// The eight bytes at position `8 * index`.
fn word(seed: u64, index: u64) -> [u8; 8] {
    let mut z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Writes the bytes from position `at` on.
pub fn fill(seed: u64, at: u64, out: &mut [u8]) {
    let mut at = at;
    let mut rest = out;
    while !rest.is_empty() {
        let bytes = word(seed, at / 8);
        let from = usize::try_from(at % 8).unwrap_or(0);
        let n = (8 - from).min(rest.len());
        let (head, tail) = rest.split_at_mut(n);
        head.copy_from_slice(&bytes[from..from + n]);
        rest = tail;
        at += n as u64;
    }
}

/// The first byte of `data` that is not what belongs at position `at`, in words; and where in the
/// stream such bytes belong, if they are near: a loss, a repetition or noise.
pub fn fault(seed: u64, at: u64, data: &[u8]) -> Option<String> {
    let mut right = vec![0; data.len()];
    fill(seed, at, &mut right);
    let bad = right.iter().zip(data).position(|(a, b)| a != b)?;
    let here = at + bad as u64;
    let seen = &data[bad..data.len().min(bad + 16)];
    let mut there = vec![0; seen.len()];
    let shift = (1_u64..4 << 20).find_map(|distance| {
        [here.checked_add(distance), here.checked_sub(distance)].into_iter().flatten().find(|at| {
            fill(seed, *at, &mut there);
            seen.len() >= 8 && there == seen
        })
    });
    Some(match shift {
        Some(from) if from > here => format!("at {here}: {} bytes are lost", from - here),
        Some(from) => format!("at {here}: {} bytes come again", here - from),
        None => format!("at {here}: strange bytes {seen:02x?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::{fault, fill};

    #[test]
    fn parts_are_parts_of_the_whole() {
        let mut whole = [0; 100];
        fill(7, 0, &mut whole);
        for from in 0..50 {
            let mut part = [0; 31];
            fill(7, from, &mut part);
            assert_eq!(part, whole[from as usize..from as usize + 31]);
            assert_eq!(fault(7, from, &part), None);
        }
    }

    #[test]
    fn faults_are_named() {
        let mut data = [0; 64];
        fill(7, 40, &mut data);
        assert_eq!(fault(7, 30, &data).as_deref(), Some("at 30: 10 bytes are lost"));
        assert_eq!(fault(7, 50, &data).as_deref(), Some("at 50: 10 bytes come again"));
        assert!(fault(8, 40, &data).is_some_and(|text| text.contains("strange")));
        data[63] ^= 1;
        assert!(fault(7, 40, &data).is_some_and(|text| text.starts_with("at 103")));
    }
}

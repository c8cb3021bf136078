//! C14: message sizes around every multiple of the ring's size.

use smc_tests::puppet::{show, Subject};
use smc_tests::say;

/// One message each way, one byte below, at and above each multiple of each likely ring size.
pub(crate) fn sizes(subject: &Subject) {
    let conn = subject.connect();
    let mut sizes: Vec<usize> = vec![1, 2, 63, 64, 65, 127, 128, 129];
    for ring in [4, 16, 32, 64, 128, 256, 512].map(|kib| kib << 10) {
        for multiple in 1..=4 {
            let at = ring * multiple;
            sizes.extend([at - 1, at, at + 1, at - 128, at + 128]);
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        conn.start_read(size, 0);
        let ret = conn.send(size, 0);
        let read = conn.finish();
        conn.start_send(size, 0);
        let taken = show::yes(conn.takes(size));
        say!("{size}: sent {ret}, peer read {read}, taken {taken} of {}", conn.finish());
    }
}

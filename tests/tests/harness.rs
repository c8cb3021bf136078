//! The harness itself: it passes what is equal and fails what is not.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::Case;
use std::time::{Duration, Instant};

fn failure_of(case: Case) -> String {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check()));
    let payload = caught.expect_err("the harness saw no fault");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_stream_is_the_same_in_every_arrangement() {
    Case::pair("case-smoke", "stream").check();
}

#[test]
fn a_program_that_shows_the_injection_is_caught() {
    // A developer's choice of arrangements leaves nothing to compare.
    if ["SMC_TEST_BARE_ONLY", "SMC_TEST_ONLY"].iter().any(|v| std::env::var_os(v).is_some()) {
        return;
    }
    let text = failure_of(Case::solo("case-smoke", "tells").not_accelerated("opens no socket"));
    assert!(text.contains("expected `injected: false`, got `injected: true`"), "{text}");
}

#[test]
fn a_hang_is_killed_and_described() {
    let began = Instant::now();
    let text = failure_of(Case::solo("case-smoke", "hangs").timeout(Duration::from_millis(500)));
    assert!(began.elapsed() < Duration::from_secs(20), "waited for the sleeper");
    assert!(text.contains("does not end: [Solo]"), "{text}");
    assert!(text.contains("| before"), "{text}");
    assert!(text.contains("thread "), "{text}");
}

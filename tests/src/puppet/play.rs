//! How the tests run the cases of this kind.

use crate::harness::{Arrangement, Case};
use std::time::Duration;

/// Plays a case: with the server as the subject in every arrangement; with the client as the
/// subject, and without the talk after which a connection is expected to have left TCP, where that
/// makes a difference. Reports all that fails.
pub fn play(program: &str, name: &str, more: &[String]) {
    let case =
        Case::pair(program, name).args(more.iter().cloned()).timeout(Duration::from_secs(60));
    let ways = [
        case.clone(),
        case.clone().args(["subject=client"]).only(&[Arrangement::Both, Arrangement::ClientOnly]),
        case.clone().args(["cold"]).only(&[Arrangement::Both]).not_accelerated(COLD),
        case.args(["cold", "subject=client"]).only(&[Arrangement::Both]).not_accelerated(COLD),
    ];
    let mut faults = Vec::new();
    for way in ways {
        if let Err(payload) = std::panic::catch_unwind(|| way.check()) {
            let text = payload.downcast_ref::<String>().cloned();
            faults.push(text.unwrap_or_else(|| format!("{name}: panic")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

const COLD: &str = "it may end before it has left TCP";

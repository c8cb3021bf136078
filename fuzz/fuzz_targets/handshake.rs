//! Scripts of two ends and a way through their events from the input: the checks of the model must
//! hold in every state.
#![no_main]

#[path = "../../smc-core/tests/sim/mod.rs"]
mod sim;

use libfuzzer_sys::fuzz_target;
use sim::{one, Answering, Setup, Shared, Step, World, CLIENT, SERVER};
use smc_core::proto::{AttachPolicy, PeerMark};

fn setup(bits: u8, after: u8, patience: u8) -> Setup {
    let on = |bit: u8| bits & 1 << bit != 0;
    Setup {
        policy: AttachPolicy {
            after_bytes: on(0).then_some(u64::from(after)),
            turns: u32::from(after % 4),
            patience: u32::from(patience),
        },
        peer: if on(1) && on(2) { PeerMark::Unmarked } else { Setup::default().peer },
        waits_seen: [!(on(3) && on(4)), !(on(3) && on(5))],
        shared: match (on(1) && on(6), on(3)) {
            (false, _) => Shared::No,
            (true, false) => Shared::AtFirst,
            (true, true) => Shared::Always,
        },
        answering: match (on(7), on(5)) {
            (true, true) => Answering::Never,
            (true, false) => Answering::OnCalls,
            (false, _) => Answering::AnyTime,
        },
        ..Setup::default()
    }
}

/// What the server's stream may begin with beside an ACCEPT: bytes that another part of the program
/// wrote, and without the library bytes that look like one.
fn first_bytes(kind: u8, setup: Setup) -> [Vec<Step>; 2] {
    const LOOKALIKE: &[u8] = &[0xe2, 0xd4, 0xc3, 0xc4, 2, 0, 100, 0x21, 0x01, 0x23];
    match kind {
        1 => [vec![Step::Recv(3)], vec![Step::RawSend(3)]],
        2 if setup.peer == PeerMark::Unmarked => {
            let count = LOOKALIKE.len();
            [vec![Step::Recv(count)], vec![Step::SendBytes(LOOKALIKE)]]
        }
        _ => [Vec::new(), Vec::new()],
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[bits, after, patience, turns], rest)) = bytes.split_first_chunk() else { return };
    let Some((script, choices)) = rest.split_at_checked(usize::from(turns % 32)) else { return };
    let setup = setup(bits, after, patience);
    let mut scripts = first_bytes(turns >> 5, setup);
    for byte in script {
        let (who, size) = (usize::from(byte & 1), usize::from(byte >> 2) + 1);
        scripts[who].push(Step::Send(size));
        if byte & 2 != 0 {
            scripts[1 - who].push(Step::Poll);
        }
        scripts[1 - who].push(Step::Recv(size));
    }
    scripts[CLIENT].extend([Step::Shutdown, Step::RecvEnd]);
    scripts[SERVER].extend([Step::RecvEnd, Step::Shutdown]);
    let world = World::two(setup, &scripts[CLIENT], &scripts[SERVER]);
    let mut choices = choices.iter().cycle();
    one(world, |n| choices.next().map_or(0, |choice| usize::from(*choice)) % n);
});

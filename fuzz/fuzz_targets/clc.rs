//! Any bytes as any message: no panic, and what is accepted survives being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smc_core::wire::clc::loopback::{prefix, LoopbackAccept, Prefix, ACCEPT_LEN};
use smc_core::wire::clc::{Accept, ClcError, Confirm, Decline, Header, Proposal};
use smc_core::wire::control::Control;

fn again<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, ClcError>,
    emit: impl Fn(&T, &mut [u8]) -> Result<usize, ClcError>,
) {
    let Ok(message) = parse(bytes) else { return };
    let mut buffer = [0; 1024];
    let written = emit(&message, &mut buffer).expect("what was parsed can be written");
    assert_eq!(parse(&buffer[..written]), Ok(message));
}

fuzz_target!(|bytes: &[u8]| {
    again(bytes, Proposal::parse, Proposal::emit);
    again(bytes, Accept::parse, Accept::emit);
    again(bytes, Confirm::parse, Confirm::emit);
    again(bytes, Decline::parse, Decline::emit);
    again(bytes, Control::parse, Control::emit);
    let _ = Header::parse(bytes);
    let found = prefix(bytes);
    if let Some(head) = bytes.first_chunk::<ACCEPT_LEN>() {
        match LoopbackAccept::parse(head) {
            Ok(accept) => assert_eq!(accept.emit(), *head),
            Err(_) => assert_eq!(found, Prefix::No),
        }
        assert_ne!(found, Prefix::Partial);
    }
});

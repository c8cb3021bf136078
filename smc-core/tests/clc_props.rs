//! The contract of every message: any bytes can be parsed, and a message survives the way.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::array::{uniform32, uniform4};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use smc_core::reason::Reason;
use smc_core::wire::clc::loopback::{prefix, prefix_for, LoopbackAccept, Prefix, ACCEPT_LEN};
use smc_core::wire::clc::{
    Accept, Choice, ClcError, Confirm, Decline, FirstContact, Header, Ism, IsmOffer, IsmOfferV2,
    Kind, Limits, List, Local, Mode, OfferV2, Offered, Proposal, Rdma, Subnets, Transport, Version,
};
use smc_core::wire::control::{Control, CONTROL_MAX};

fn list<T, const N: usize>(entry: impl Strategy<Value = T>) -> impl Strategy<Value = List<T, N>>
where
    T: Copy + Default + std::fmt::Debug,
{
    vec(entry, 0..=N).prop_map(|entries| List::of(&entries).unwrap())
}

fn local() -> impl Strategy<Value = Local> {
    any::<([u8; 8], [u8; 16], [u8; 6])>().prop_map(|(peer_id, gid, mac)| Local {
        peer_id,
        gid,
        mac,
    })
}

fn subnets() -> impl Strategy<Value = Subnets> {
    (any::<u32>(), 0..=32_u8, list(any::<([u8; 16], u8)>()))
        .prop_map(|(ipv4, ipv4_bits, ipv6)| Subnets { ipv4, ipv4_bits, ipv6 })
}

fn ism_offer() -> impl Strategy<Value = IsmOffer> {
    any::<(u64, u16, [u8; 3], [u8; 5])>().prop_map(|(gid, chid, vendor_oui, vendor_options)| {
        IsmOffer { gid, chid, vendor_oui, vendor_options }
    })
}

fn ism_offer_v2() -> impl Strategy<Value = IsmOfferV2> {
    (uniform32(any::<u8>()), list(any::<(u64, u16)>()))
        .prop_map(|(system_eid, gids)| IsmOfferV2 { system_eid, gids })
}

fn offer_v2() -> impl Strategy<Value = OfferV2> {
    let fixed = (any::<bool>(), 0..16_u8, any::<bool>(), any::<[u8; 16]>());
    let limits = any::<(u8, u8, u16)>();
    (fixed, limits, option::of(ism_offer_v2()), list(uniform32(any::<u8>()))).prop_map(
        |((rdma, release, seid, roce_gid), (max_conns, max_links, features), ism, eids)| OfferV2 {
            rdma: rdma || ism.is_none(),
            ism,
            release,
            seid,
            roce_gid,
            max_conns,
            max_links,
            features,
            eids,
        },
    )
}

fn proposal() -> impl Strategy<Value = Proposal> {
    let areas = (ism_offer(), subnets(), option::of(offer_v2()));
    (any::<(bool, bool, bool)>(), local(), areas).prop_map(
        |((rdma, ism, area), local, (offer, subnets, v2))| {
            let rdma = rdma || (!ism && v2.is_none());
            let needs_area = ism || v2.is_some();
            Proposal {
                v1: Offered { rdma, ism },
                local,
                ism: (needs_area || area).then_some(offer),
                subnets: (rdma || ism).then_some(subnets),
                v2,
            }
        },
    )
}

fn first_contact() -> impl Strategy<Value = FirstContact> {
    let limits = (1..16_u8, any::<(u8, u8, u16, u32)>()).prop_map(
        |(release, (max_conns, max_links, features, vendor))| Limits {
            release,
            max_conns,
            max_links,
            features,
            vendor,
        },
    );
    (any::<bool>(), 0..16_u8, uniform32(any::<u8>()), option::of(limits))
        .prop_map(|(direct, os, host, limits)| FirstContact { direct, os, host, limits })
}

fn rdma() -> impl Strategy<Value = Rdma> {
    let numbers = any::<(u32, u8, u32, u64)>();
    (local(), 0..1_u32 << 24, numbers, 0..16_u8, 0..16_u8, 0..1_u32 << 24).prop_map(
        |(local, qpn, (rkey, index, alert_token, address), size_code, mtu, psn)| Rdma {
            local,
            qpn,
            rkey,
            index,
            alert_token,
            size_code,
            mtu,
            address,
            psn,
        },
    )
}

fn choice() -> impl Strategy<Value = Choice> {
    let ism = (any::<(u64, u64, u8, u32, u16, u64)>(), 0..16_u8).prop_map(
        |((gid, token, index, link_id, chid, gid_ext), size_code)| Ism {
            gid,
            token,
            index,
            size_code,
            link_id,
            chid,
            gid_ext,
        },
    );
    let transport = prop_oneof![rdma().prop_map(Transport::R), ism.prop_map(Transport::D)];
    let version = prop_oneof![
        any::<bool>().prop_map(|first_contact| Version::V1 { first_contact }),
        (uniform32(any::<u8>()), option::of(first_contact()))
            .prop_map(|(eid, first_contact)| Version::V2 { eid, first_contact }),
    ];
    (transport, version).prop_map(|(mut transport, version)| {
        if let (Transport::D(ism), Version::V1 { .. }) = (&mut transport, version) {
            (ism.chid, ism.gid_ext) = (0, 0);
        }
        Choice { transport, version }
    })
}

fn confirm() -> impl Strategy<Value = Confirm> {
    (choice(), list(any::<[u8; 16]>())).prop_map(|(choice, gids)| {
        let opens = matches!(
            (choice.transport, choice.version),
            (Transport::R(_), Version::V2 { first_contact: Some(_), .. })
        );
        Confirm { choice, gids: if opens { gids } else { List::new() } }
    })
}

fn decline() -> impl Strategy<Value = Decline> {
    let more = option::of(uniform4(any::<u32>().prop_map(Reason)));
    (any::<(bool, bool, [u8; 8], u32)>(), 0..16_u8, more).prop_map(
        |((d, out_of_sync, peer_id, reason), os, more)| Decline {
            mode: if d { Mode::D } else { Mode::R },
            out_of_sync,
            peer_id,
            reason: Reason(reason),
            os,
            more,
        },
    )
}

fn loopback() -> impl Strategy<Value = LoopbackAccept> {
    any::<([u8; 16], [u8; 16], u64, u64, u8, u8, u32, u32)>().prop_map(
        |(gid, token, server_cookie, client_cookie, rx_code, tx_code, layout_version, uid)| {
            LoopbackAccept {
                gid,
                token,
                server_cookie,
                client_cookie,
                rx_code,
                tx_code,
                layout_version,
                uid,
            }
        },
    )
}

fn control() -> impl Strategy<Value = Control> {
    prop_oneof![
        any::<(u32, [u8; 16], [u8; 16], u8, u8, u32)>().prop_map(
            |(layout_version, client_gid, token, c2s_code, s2c_code, pid)| Control::FirstContact {
                layout_version,
                client_gid,
                token,
                c2s_code,
                s2c_code,
                pid,
            }
        ),
        any::<u8>().prop_map(|slot| Control::Bell { slot }),
        any::<u8>().prop_map(|slot| Control::Kick { slot }),
        any::<u32>().prop_map(|code| Control::Refuse { reason: Reason(code) }),
    ]
}

/// Writes the message, checks its length and the refusal of a shorter buffer.
fn written(len: usize, emit: impl Fn(&mut [u8]) -> Result<usize, ClcError>) -> Vec<u8> {
    let mut buffer = vec![0xaa; len];
    assert_eq!(emit(&mut buffer), Ok(len));
    assert_eq!(emit(&mut vec![0; len - 1]), Err(ClcError::NoRoom));
    assert_eq!(emit(&mut []), Err(ClcError::NoRoom));
    buffer
}

/// Bytes near a message of the given type: random ones would not pass the eyecatcher.
fn near_message(kind: Kind) -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 12..600), any::<(bool, u8, bool)>()).prop_map(
        move |(mut bytes, (d, version, exact))| {
            let mode = if d { Mode::D } else { Mode::R };
            bytes[..4].copy_from_slice(&mode.eyecatcher());
            bytes[4] = kind as u8;
            if exact {
                let length = u16::try_from(bytes.len()).unwrap();
                bytes[5..7].copy_from_slice(&length.to_be_bytes());
            }
            bytes[7] = version % 0x40;
            let trailer = bytes.len() - 4;
            bytes[trailer..].copy_from_slice(&mode.eyecatcher());
            bytes
        },
    )
}

/// A good message with a few bytes overwritten and its end moved.
fn damaged(message: Vec<u8>, damage: &[(usize, u8)], end: usize) -> Vec<u8> {
    let mut bytes = message;
    for (at, byte) in damage {
        let at = at % bytes.len();
        bytes[at] = *byte;
    }
    bytes.resize(end % (bytes.len() + 32), 0x5a);
    bytes
}

/// What parses must be written again to bytes that parse to the same.
fn parse_all(bytes: &[u8]) {
    let mut buffer = [0; 1024];
    if let Ok(message) = Proposal::parse(bytes) {
        let len = message.emit(&mut buffer).unwrap();
        assert_eq!(Proposal::parse(&buffer[..len]), Ok(message));
    }
    if let Ok(message) = Accept::parse(bytes) {
        let len = message.emit(&mut buffer).unwrap();
        assert_eq!(Accept::parse(&buffer[..len]), Ok(message));
    }
    if let Ok(message) = Confirm::parse(bytes) {
        let len = message.emit(&mut buffer).unwrap();
        assert_eq!(Confirm::parse(&buffer[..len]), Ok(message));
    }
    if let Ok(message) = Decline::parse(bytes) {
        let len = message.emit(&mut buffer).unwrap();
        assert_eq!(Decline::parse(&buffer[..len]), Ok(message));
    }
    if let Ok(message) = Control::parse(bytes) {
        let len = message.emit(&mut buffer).unwrap();
        assert_eq!(Control::parse(&buffer[..len]), Ok(message));
    }
    if let Some(head) = bytes.first_chunk::<ACCEPT_LEN>() {
        match LoopbackAccept::parse(head) {
            Ok(message) => {
                assert_eq!(message.emit(), *head);
                assert_eq!(prefix(bytes), Prefix::Whole);
            }
            Err(_) => assert_eq!(prefix(bytes), Prefix::No),
        }
    }
    let _ = Header::parse(bytes);
}

proptest! {
    #[test]
    fn proposals_survive(message in proposal()) {
        let bytes = written(message.len(), |buffer| message.emit(buffer));
        prop_assert_eq!(Proposal::parse(&bytes), Ok(message));
    }

    #[test]
    fn accepts_survive(choice in choice()) {
        let message = Accept { choice };
        let bytes = written(message.len(), |buffer| message.emit(buffer));
        prop_assert_eq!(Accept::parse(&bytes), Ok(message));
    }

    #[test]
    fn confirms_survive(message in confirm()) {
        let bytes = written(message.len(), |buffer| message.emit(buffer));
        prop_assert_eq!(Confirm::parse(&bytes), Ok(message));
    }

    #[test]
    fn declines_survive(message in decline()) {
        let bytes = written(message.len(), |buffer| message.emit(buffer));
        prop_assert_eq!(Decline::parse(&bytes), Ok(message));
    }

    #[test]
    fn control_messages_survive(message in control()) {
        prop_assert!(message.len() <= CONTROL_MAX);
        let bytes = written(message.len(), |buffer| message.emit(buffer));
        prop_assert_eq!(Control::parse(&bytes), Ok(message));
    }

    #[test]
    fn our_accept_survives_and_is_found_in_any_stream(
        message in loopback(),
        tail in vec(any::<u8>(), 0..40),
        other in any::<u64>(),
    ) {
        let bytes = message.emit();
        prop_assert_eq!(LoopbackAccept::parse(&bytes), Ok(message));
        let mut stream = bytes.to_vec();
        stream.extend(tail);
        for end in 0..=stream.len() {
            let wanted = if end < ACCEPT_LEN { Prefix::Partial } else { Prefix::Whole };
            prop_assert_eq!(prefix_for(&stream[..end], message.client_cookie), wanted);
        }
        if other != message.client_cookie {
            prop_assert_eq!(prefix_for(&stream, other), Prefix::No);
        }
    }

    #[test]
    fn any_bytes_can_be_parsed(bytes in vec(any::<u8>(), 0..700)) {
        parse_all(&bytes);
        let _ = prefix(&bytes);
    }

    #[test]
    fn bytes_near_a_message_can_be_parsed(
        bytes in prop_oneof![
            near_message(Kind::Proposal),
            near_message(Kind::Accept),
            near_message(Kind::Confirm),
            near_message(Kind::Decline),
        ],
    ) {
        parse_all(&bytes);
    }

    #[test]
    fn damaged_messages_can_be_parsed(
        proposal in proposal(),
        confirm in confirm(),
        accept in loopback(),
        control in control(),
        damage in vec(any::<(usize, u8)>(), 0..4),
        end in any::<usize>(),
    ) {
        let messages = [
            written(proposal.len(), |buffer| proposal.emit(buffer)),
            written(confirm.len(), |buffer| confirm.emit(buffer)),
            written(control.len(), |buffer| control.emit(buffer)),
            accept.emit().to_vec(),
        ];
        for message in messages {
            parse_all(&damaged(message, &damage, end));
        }
    }
}

/// What no message can hold is refused when it is written, not cut off.
#[test]
fn values_that_do_not_fit_are_refused() {
    let mut buffer = [0; 512];
    let v1 = Version::V1 { first_contact: false };
    let accept = |transport, version| Accept { choice: Choice { transport, version } };
    let cases = [
        accept(Transport::R(Rdma { qpn: 1 << 24, ..Rdma::default() }), v1),
        accept(Transport::R(Rdma { psn: 1 << 24, ..Rdma::default() }), v1),
        accept(Transport::R(Rdma { size_code: 16, ..Rdma::default() }), v1),
        accept(Transport::R(Rdma { mtu: 16, ..Rdma::default() }), v1),
        accept(Transport::D(Ism { size_code: 16, ..Ism::default() }), v1),
        accept(Transport::D(Ism { chid: 1, ..Ism::default() }), v1),
        accept(Transport::D(Ism { gid_ext: 1, ..Ism::default() }), v1),
    ];
    for message in cases {
        assert_eq!(message.emit(&mut buffer), Err(ClcError::Value), "{message:?}");
    }

    let choice = Choice { transport: Transport::D(Ism::default()), version: v1 };
    let gids = List::of(&[[1; 16]]).unwrap();
    assert_eq!(Confirm { choice, gids }.emit(&mut buffer), Err(ClcError::Count(1)));

    let nothing = Proposal {
        v1: Offered::default(),
        local: Local::default(),
        ism: None,
        subnets: None,
        v2: None,
    };
    let rdma = Offered { rdma: true, ism: false };
    let ism = Offered { rdma: false, ism: true };
    let subnets = Some(Subnets::default());
    for message in [
        nothing,
        Proposal { v1: rdma, ..nothing },
        Proposal { subnets, ..nothing },
        Proposal { v1: ism, subnets, ..nothing },
    ] {
        assert_eq!(message.emit(&mut buffer), Err(ClcError::Mode), "{message:?}");
    }
    assert_eq!(Proposal { v1: rdma, subnets, ..nothing }.emit(&mut buffer), Ok(52));
}

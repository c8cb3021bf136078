//! Two ends in one test: every interleaving of short scripts, random ones of long scripts.
//!
//! In every state: bytes arrive once and in order, no ACCEPT reaches a program, nobody sleeps on
//! TCP after its peer has switched, nobody switches without consent. At every end: no thread waits
//! for ever, everything has arrived, the two ends agree (`sim::World::check`).
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "sim/all.rs"]
mod all_ways;
mod sim;

use proptest::collection::vec;
use proptest::prelude::*;

use all_ways::{all, Summary};
use sim::Step::{Poll, RawSend, Recv, RecvEnd, Send, SendBytes, Shutdown};
use sim::{one, Answering, Aside, Setup, Shared, Step, World, CLIENT, COOKIE, SERVER, UID};
use smc_core::proto::{
    AttachPolicy, ClientState, PeerMark, BESIDE_AFTER_BYTES, BESIDE_AFTER_TURNS,
};
use smc_core::reason::Reason;

const LIMIT: usize = 400_000;

const CLIENT_FIRST: [Step; 8] =
    [Send(2), Recv(2), Send(2), Recv(2), Send(2), Recv(2), Shutdown, RecvEnd];
const SERVER_SECOND: [Step; 8] =
    [Recv(2), Send(2), Recv(2), Send(2), Recv(2), Send(2), RecvEnd, Shutdown];

fn explored(setup: Setup, client: &[Step], server: &[Step]) -> Summary {
    let summary = all(World::two(setup, client, server), LIMIT);
    assert!(summary.ends > 0);
    summary
}

#[test]
fn client_speaks_first() {
    let summary = explored(Setup::default(), &CLIENT_FIRST, &SERVER_SECOND);
    // The way is there, and it is not the only one: some are too quick for it.
    assert!(summary.ring[CLIENT] > 0 && summary.ring[SERVER] > 0, "{summary:?}");
    assert!(summary.attached < summary.ends, "{summary:?}");
}

#[test]
fn server_speaks_first() {
    let summary = explored(
        Setup::default(),
        &[Recv(3), Send(2), Recv(2), Send(2), Recv(2), Send(1), RecvEnd, Shutdown],
        &[Send(3), Recv(2), Send(2), Recv(2), Send(2), Recv(1), Shutdown, RecvEnd],
    );
    assert!(summary.ring[CLIENT] > 0 && summary.ring[SERVER] > 0, "{summary:?}");
}

#[test]
fn both_speak_at_once() {
    let summary = explored(
        Setup::default(),
        &[Send(2), Send(2), Recv(4), Send(3), Recv(3), Send(1), Shutdown, RecvEnd],
        &[Send(4), Recv(4), Send(3), Recv(3), Recv(1), RecvEnd, Shutdown],
    );
    assert!(summary.ring[CLIENT] > 0, "{summary:?}");
}

#[test]
fn pipelined_bytes_are_drained_before_the_ring() {
    // The reader is behind when the sender switches: TCP holds bytes from before.
    let summary = explored(
        Setup::default(),
        &[Send(1), Recv(1), Send(1), Recv(1), Send(3), Send(3), Send(3), Shutdown],
        &[Recv(1), Send(1), Recv(1), Send(1), Recv(5), Recv(4), RecvEnd],
    );
    assert!(summary.ring[CLIENT] > 0, "{summary:?}");
}

#[test]
fn a_short_connection_does_not_attach() {
    let setup = Setup { policy: AttachPolicy::default(), ..Setup::default() };
    let summary = explored(
        setup,
        &[Send(2), Recv(2), Shutdown, RecvEnd],
        &[Recv(2), Send(2), RecvEnd, Shutdown],
    );
    assert_eq!(summary.attached, 0);
    // With more requests the same setup does.
    let summary = explored(setup, &CLIENT_FIRST, &SERVER_SECOND);
    assert!(summary.attached > 0, "{summary:?}");
}

#[test]
fn one_thread_is_both_ends() {
    let turns = [(CLIENT, SERVER); 4];
    let script = turns.iter().flat_map(|&(client, server)| {
        [(client, Send(2)), (server, Recv(2)), (server, Send(2)), (client, Recv(2))]
    });
    for answering in [Answering::OnCalls, Answering::AnyTime] {
        let setup = Setup { answering, ..Setup::default() };
        let summary = all(World::new(setup, vec![script.clone().collect()]), LIMIT);
        assert!(summary.ring[CLIENT] > 0 && summary.ring[SERVER] > 0, "{summary:?}");
        if answering == Answering::OnCalls {
            assert_eq!(summary.attached, summary.ends, "nothing can come in between");
        }
    }
}

#[test]
fn another_thread_waits_meanwhile() {
    // A poller sleeps in the kernel while its side would like to consent.
    let setup = Setup::default();
    let poller = vec![(SERVER, Poll), (SERVER, Poll), (SERVER, Poll)];
    let ends = World::two(
        setup,
        &[Send(1), Recv(1), Send(1), Recv(1), Send(1), Shutdown, RecvEnd],
        &[Recv(1), Send(1), Recv(1), Send(1), Recv(1), RecvEnd, Shutdown],
    );
    let mut scripts: Vec<_> = ends.threads.into_iter().map(|thread| thread.script).collect();
    scripts.push(poller);
    let summary = all(World::new(setup, scripts), LIMIT);
    assert!(summary.ring[CLIENT] > 0, "{summary:?}");
}

#[test]
fn without_seen_waits_the_readers_side_stays_on_tcp() {
    for (blind, sees) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let mut setup = Setup::default();
        setup.waits_seen[blind] = false;
        let summary = explored(setup, &CLIENT_FIRST, &SERVER_SECOND);
        assert!(summary.attached > 0, "{summary:?}");
        assert_eq!(summary.ring[sees], 0, "the blind reader never consents");
        assert_eq!(summary.ring[blind], 0, "and its own waits for space are blind, too");
    }
}

#[test]
fn whoever_is_bare_gets_plain_tcp() {
    let unmarked = Setup { peer: PeerMark::Unmarked, ..Setup::default() };
    let unknown = Setup { peer: PeerMark::Unknown(Reason::NO_DIAG), ..Setup::default() };
    let bare_client = Setup { bare: [true, false], ..unmarked };
    let bare_server = Setup { bare: [false, true], ..Setup::default() };
    for setup in [unmarked, unknown, bare_client, bare_server] {
        let summary = explored(setup, &CLIENT_FIRST, &SERVER_SECOND);
        assert_eq!(summary.attached, 0, "{setup:?}");
    }
}

/// The header of an ACCEPT, then something else; and an ACCEPT for another socket.
const LOOKALIKES: [&[u8]; 4] = [
    &[0xe2, 0xd4, 0xc3],
    &[0xe2, 0xd4, 0xc3, 0xc4, 2, 0, 100, 0x21],
    &[0xe2, 0xd4, 0xc3, 0xc4, 2, 0, 100, 0x21, 0x01, 0x23],
    &[0xe2, 0xd4, 0xc3, 0xc4, 2, 0, 100, 0x21, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xee, 9],
];

#[test]
fn data_that_looks_like_an_accept_is_delivered() {
    for data in LOOKALIKES {
        // The server waits for an answer before it says more.
        let client = [Recv(data.len()), Send(1), Recv(1), Shutdown, RecvEnd];
        let server = [SendBytes(data), Recv(1), Send(1), RecvEnd, Shutdown];
        let bare = Setup { bare: [false, true], ..Setup::default() };
        assert_eq!(explored(bare, &client, &server).attached, 0);
        // Behind a true ACCEPT it is data like any other.
        let summary = explored(Setup::default(), &client, &server);
        assert!(summary.ends > 0);
    }
}

#[test]
fn an_accept_for_another_socket_is_delivered() {
    // The server believes in the wrong client: cannot happen with the kernel's cookies, and harms
    // no more than a program that sends such bytes.
    let peer = PeerMark::Marked { cookie: COOKIE + 1, uid: UID };
    let world =
        World::two(Setup { peer, ..Setup::default() }, &[Send(1), Recv(1)], &[Recv(1), Send(1)]);
    let seen = std::panic::catch_unwind(|| all(world, LIMIT));
    let what = *seen.unwrap_err().downcast::<String>().unwrap();
    assert!(what.starts_with("end 0 received [e2]"), "{what}");
}

#[test]
fn bytes_sent_behind_the_back_prevent_an_accept() {
    let server = [RawSend(2), Recv(2), Send(2), Recv(2), Send(2), RecvEnd, Shutdown];
    let client = [Recv(2), Send(2), Recv(2), Send(2), Recv(2), Shutdown, RecvEnd];
    let summary = explored(Setup::default(), &client, &server);
    assert_eq!(summary.attached, 0);
}

#[test]
fn bytes_sent_behind_the_back_count_in_the_offset() {
    let client =
        [Send(1), Recv(1), RawSend(2), Send(1), Recv(1), RawSend(1), Send(2), Shutdown, RecvEnd];
    let server = [Recv(1), Send(1), Recv(3), Send(1), Recv(1), Recv(2), RecvEnd, Shutdown];
    // Before the switch only: afterwards their order among the ring's bytes is nobody's promise.
    let setup = Setup { waits_seen: [true, false], ..Setup::default() };
    let summary = explored(setup, &client, &server);
    assert!(summary.attached > 0, "{summary:?}");
    let client = [Send(1), Recv(1), RawSend(2), Send(1), Recv(1), Send(2), Shutdown, RecvEnd];
    let server = [Recv(1), Send(1), Recv(3), Send(1), Recv(2), RecvEnd, Shutdown];
    let summary = explored(Setup::default(), &client, &server);
    assert!(summary.ring[CLIENT] > 0, "{summary:?}");
}

#[test]
fn bytes_sent_behind_the_back_of_the_ring_come_after_it() {
    let client = [Send(1), Recv(1), Send(1), Recv(1), Send(2), Send(2), RawSend(2), Shutdown];
    let server = [Recv(1), Send(1), Recv(1), Send(1), Recv(5), Recv(1), RecvEnd];
    let summary = explored(Setup::default(), &client, &server);
    assert!(summary.ring[CLIENT] > 0, "{summary:?}");
}

/// Ends of some ways by chance, for what is too much data to go all ways.
fn some_ways(setup: Setup, client: &[Step], server: &[Step]) -> Vec<World> {
    let mut seed = 1_usize;
    let mut choose = |n: usize| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) % n
    };
    (0..30).map(|_| one(World::two(setup, client, server), &mut choose)).collect()
}

#[test]
fn an_upload_gets_an_accept_beside_the_stream() {
    let bulk = usize::try_from(BESIDE_AFTER_BYTES).unwrap();
    // The server answers with the end of the stream only.
    let mut client = vec![Send(bulk); 5];
    let mut server = vec![Recv(bulk); 5];
    client.extend([Send(3); 8]);
    server.extend([Recv(3); 8]);
    client.extend([Shutdown, RecvEnd]);
    server.extend([RecvEnd, Shutdown]);
    let ends = some_ways(Setup::default(), &client, &server);
    assert!(ends.iter().any(|world| world.sides[CLIENT].ring_sent > 0));
    // Unread bytes would make the kernel reset the connection when the client closes it.
    assert!(ends.iter().all(|world| world.pipes[SERVER].written == 0));
}

#[test]
fn a_reply_may_overtake_an_accept_beside_the_stream() {
    let bulk = usize::try_from(BESIDE_AFTER_BYTES).unwrap();
    let mut client = vec![Send(bulk); 4];
    let mut server = vec![Recv(bulk); 4];
    client.extend([Recv(2), Send(2), Recv(2), Send(2), Recv(2), Shutdown, RecvEnd]);
    server.extend([Send(2), Recv(2), Send(2), Recv(2), Send(2), RecvEnd, Shutdown]);
    let ends = some_ways(Setup::default(), &client, &server);
    assert!(ends.iter().any(|world| world.client.state() == ClientState::Late));
    assert!(ends.iter().any(|world| world.attached(CLIENT)));
}

#[test]
fn a_connection_that_was_expected_to_be_short_attaches_late() {
    let turns = usize::try_from(3 * BESIDE_AFTER_TURNS).unwrap();
    let client: Vec<_> = [Send(2), Recv(2)].repeat(turns);
    let server: Vec<_> = [Recv(2), Send(2)].repeat(turns);
    let setup = Setup { defers: true, ..Setup::default() };
    for world in some_ways(setup, &client, &server) {
        assert!(world.sides.iter().all(|side| side.ring_sent > 0), "{world:#?}");
    }
    let short = usize::try_from(BESIDE_AFTER_TURNS).unwrap() - 1;
    let (client, server) = (&client[..2 * short], &server[..2 * short]);
    for world in some_ways(setup, client, server) {
        assert_eq!(world.aside, Aside::Closed, "a short one costs nothing");
        assert_eq!(world.pipes[SERVER].written, 2 * short as u64);
    }
    let bare = Setup { bare: [false, true], ..setup };
    let turns = 1000 * turns;
    let client: Vec<_> = [Send(2), Recv(2)].repeat(turns);
    let server: Vec<_> = [Recv(2), Send(2)].repeat(turns);
    let world = one(World::two(bare, &client, &server), |_| 0);
    assert_eq!(world.client.reason(), Some(Reason::PEERNOSMC));
    assert!(matches!(world.client.state(), ClientState::Plain(_)), "it does not ask for ever");
}

#[test]
fn an_accept_beside_the_stream_is_not_readiness() {
    let bulk = usize::try_from(BESIDE_AFTER_BYTES).unwrap();
    let client = [Send(bulk), Send(bulk), Send(bulk), Poll];
    let server = [Recv(bulk), Recv(bulk), Recv(bulk)];
    let mut world = World::two(Setup::default(), &client, &server);
    while let Some(event) = world.enabled().pop() {
        world.apply(event).unwrap();
        world.check().unwrap();
    }
    assert!(world.server.attached(), "it was taken");
    assert_eq!(world.pipes[SERVER].written, 0, "not in the stream");
    assert_eq!(world.threads[CLIENT].at, 3, "the poll still waits");
}

#[test]
fn a_shared_socket_attaches_when_one_process_is_left() {
    for answering in [Answering::OnCalls, Answering::AnyTime] {
        let shared = |shared| {
            let setup = Setup { shared, answering, ..Setup::default() };
            explored(setup, &CLIENT_FIRST, &SERVER_SECOND)
        };
        assert_eq!(shared(Shared::Always).attached, 0);
        let summary = shared(Shared::AtFirst);
        assert!(summary.attached > 0 && summary.attached < summary.ends, "{summary:?}");
    }
}

#[test]
fn another_layout_stays_on_tcp() {
    let setup = Setup { server_layout: 2, ..Setup::default() };
    assert_eq!(explored(setup, &CLIENT_FIRST, &SERVER_SECOND).attached, 0);
}

#[test]
fn a_request_without_answer_is_cancelled() {
    let policy = AttachPolicy { patience: 1, ..Setup::default().policy };
    let never = Setup { policy, answering: Answering::Never, ..Setup::default() };
    let world = one(World::two(never, &CLIENT_FIRST, &SERVER_SECOND), |_| 0);
    assert_eq!(world.client.reason(), Some(Reason::CANCELLED));
    assert_eq!(explored(never, &CLIENT_FIRST, &SERVER_SECOND).attached, 0);
}

#[test]
fn a_cancel_races_the_attachment() {
    let policy = AttachPolicy { patience: 0, ..Setup::default().policy };
    let setup = Setup { policy, ..Setup::default() };
    let summary = explored(setup, &CLIENT_FIRST, &SERVER_SECOND);
    assert!(summary.attached > 0, "the server can win: {summary:?}");
    assert!(summary.attached < summary.ends, "the client can win: {summary:?}");
}

#[test]
fn an_end_without_data_is_seen_by_both() {
    let summary = explored(Setup::default(), &[Shutdown, RecvEnd], &[RecvEnd, Shutdown]);
    assert_eq!(summary.attached, 0);
}

/// Scripts in which the ends take turns, with requests and replies of any size.
fn turns() -> impl Strategy<Value = (Vec<Step>, Vec<Step>)> {
    vec((any::<bool>(), 1..300_usize, 1..4_usize), 1..30).prop_map(|turns| {
        let (mut client, mut server) = (Vec::new(), Vec::new());
        for (from_client, size, parts) in turns {
            let (sender, reader) =
                if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            sender.extend(std::iter::repeat_n(Send(size), parts));
            reader.extend([Poll, Recv(size * parts)]);
        }
        client.extend([Shutdown, RecvEnd]);
        server.extend([RecvEnd, Shutdown]);
        (client, server)
    })
}

fn setups() -> impl Strategy<Value = Setup> {
    let policy = (prop::option::of(0..2000_u64), 1..4_u32, 0..50_u32)
        .prop_map(|(after_bytes, turns, patience)| AttachPolicy { after_bytes, turns, patience });
    let shared =
        prop_oneof![8 => Just(Shared::No), 1 => Just(Shared::AtFirst), 1 => Just(Shared::Always)];
    let answering =
        prop_oneof![Just(Answering::AnyTime), Just(Answering::OnCalls), Just(Answering::Never)];
    (policy, answering, any::<[bool; 2]>(), shared).prop_map(
        |(policy, answering, waits_seen, shared)| Setup {
            policy,
            answering,
            waits_seen: waits_seen.map(|seen| seen || policy.turns > 1),
            shared,
            ..Setup::default()
        },
    )
}

proptest! {
    #[test]
    fn long_scripts_by_random_ways(
        setup in setups(),
        (client, server) in turns(),
        choices in vec(any::<u16>(), 1..400),
    ) {
        let mut choices = choices.into_iter().cycle();
        let choose = |n: usize| usize::from(choices.next().unwrap()) % n;
        let world = one(World::two(setup, &client, &server), choose);
        prop_assert!(world.finished());
    }
}

/// The model itself must be able to fail: the checks find what they are there for.
#[test]
fn the_checks_find_violations() {
    let mut world = World::two(Setup::default(), &[Recv(1)], &[Send(1)]);
    world.sides[CLIENT].received = vec![1];
    assert!(world.check().unwrap_err().contains("received"));

    let mut world = World::two(Setup::default(), &[Recv(1)], &[Send(1)]);
    world.header.switched[SERVER] = Some(0);
    assert!(world.check().unwrap_err().contains("without consent"));

    let mut world = World::two(Setup::default(), &[Recv(1)], &[]);
    world.apply(sim::Event::Thread(0)).unwrap();
    world.apply(sim::Event::Thread(0)).unwrap();
    world.header.switched[SERVER] = Some(0);
    assert!(world.check().unwrap_err().contains("sleeps on TCP"));
    assert!(world.check_end().unwrap_err().contains("waits for ever"));
}

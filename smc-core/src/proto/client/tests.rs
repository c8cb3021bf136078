use super::super::{BESIDE_AFTER_BYTES, BESIDE_AFTER_TURNS};
use super::{
    Answer, AttachPolicy, Cancel, ClientHandshake, ClientSocket, ClientState, Rest, Stop, Verdict,
};
use crate::reason::Reason;
use crate::wire::clc::loopback::LoopbackAccept;

const ACCEPT: LoopbackAccept = LoopbackAccept {
    gid: [1; 16],
    token: [2; 16],
    server_cookie: 3,
    client_cookie: 4,
    rx_code: 3,
    tx_code: 3,
    layout_version: 1,
    uid: 0,
};

fn accepted() -> ClientHandshake {
    let mut client = ClientHandshake::new(1);
    client.removed(ACCEPT);
    client
}

fn socket(read: u64, cookie: u64) -> impl FnOnce() -> Option<ClientSocket> {
    move || Some(ClientSocket { read, cookie })
}

fn reason_after(read: u64, seen: &[u8], cookie: u64, rest: Rest) -> Option<Reason> {
    let mut client = ClientHandshake::new(1);
    match client.first_bytes(seen, rest, socket(read, cookie)) {
        Verdict::Deliver => client.reason(),
        _ => None,
    }
}

#[test]
fn an_accept_is_removed_only_at_offset_0_and_for_this_socket() {
    let bytes = ACCEPT.emit();
    let mut client = ClientHandshake::new(1);
    let verdict = client.first_bytes(&bytes, Rest::MayCome, socket(0, 4));
    assert_eq!(verdict, Verdict::Remove(100, ACCEPT));
    assert_eq!(client.state(), ClientState::Virgin, "not before it was consumed");
    assert_eq!(reason_after(0, &bytes, 5, Rest::MayCome), Some(Reason::PEERNOSMC));
    assert_eq!(reason_after(1, &bytes, 4, Rest::MayCome), Some(Reason::OFFSET));
    let mut unmarked = ClientHandshake::plain(Reason::MARK);
    assert_eq!(unmarked.first_bytes(&bytes, Rest::MayCome, socket(0, 4)), Verdict::Deliver);
}

#[test]
fn a_part_of_an_accept_waits_for_the_rest() {
    let bytes = ACCEPT.emit();
    let judge =
        |len: usize, rest| ClientHandshake::new(1).first_bytes(&bytes[..len], rest, socket(0, 4));
    for len in 0..100 {
        assert_eq!(judge(len, Rest::MayCome), Verdict::NotYet, "{len} bytes");
    }
    // Without the cookie it may be a program's; with it, it cannot.
    assert_eq!(judge(0, Rest::GivenUp), Verdict::NotYet);
    assert_eq!(judge(15, Rest::GivenUp), Verdict::Deliver);
    assert_eq!(judge(16, Rest::GivenUp), Verdict::NotYet);
    assert_eq!(judge(15, Rest::Ended), Verdict::Deliver);
    assert_eq!(judge(16, Rest::Ended), Verdict::Discard(16));
}

#[test]
fn another_layout_is_removed_but_not_used() {
    let mut client = ClientHandshake::new(2);
    client.removed(ACCEPT);
    assert_eq!(client.reason(), Some(Reason::PEER_VERSION));
    assert_eq!(client.first_bytes(b"x", Rest::MayCome, socket(100, 4)), Verdict::Deliver);
}

#[test]
fn a_lost_request_is_made_again() {
    let mut client = accepted();
    for _ in 0..3 {
        client.requested();
        assert!(client.answered(Answer::Lost));
        assert_eq!(client.state(), ClientState::Accepted(ACCEPT));
    }
    client.requested();
    assert!(client.answered(Answer::Lost));
    assert_eq!(client.state(), ClientState::Plain(Reason::NO_CONTROL));
    let mut unwanted = accepted();
    unwanted.requested();
    unwanted.stop(Reason::EXEC);
    assert!(unwanted.answered(Answer::Lost));
    assert_eq!(unwanted.state(), ClientState::Plain(Reason::EXEC));
}

#[test]
fn a_client_that_only_sends_asks_now_and_then() {
    let mut client = ClientHandshake::new(1);
    let asks: Vec<_> = (0..9)
        .map(|_| {
            client.sent(BESIDE_AFTER_BYTES / 2);
            client.asks()
        })
        .collect();
    assert_eq!(asks, [false, true, false, true, false, false, false, true, false]);
    client.sent(100 << 20);
    assert!(client.asks(), "for as long as it only sends");
    client.sent(4 << 20);
    assert!(client.asks());
    assert_eq!(client.first_bytes(&[], Rest::MayCome, socket(0, 4)), Verdict::NotYet);
    client.removed(ACCEPT);
    client.sent(8 << 20);
    assert!(!client.asks());
}

#[test]
fn a_client_whose_server_did_not_offer_asks_when_the_connection_lives_long() {
    let mut client = ClientHandshake::new(1);
    let verdict = client.first_bytes(b"HTTP", Rest::MayCome, || panic!("asked"));
    assert_eq!((verdict, client.state()), (Verdict::Deliver, ClientState::Late));
    let mut asked = Vec::new();
    for turn in 1..10_000 {
        client.received(1);
        client.sent(1);
        if client.asks() {
            asked.push(turn);
        }
    }
    let first = BESIDE_AFTER_TURNS + 2;
    assert_eq!(asked, (0..8).map(|n| first << n).collect::<Vec<_>>());
    assert_eq!(client.state(), ClientState::Plain(Reason::PEERNOSMC));
    client.removed(ACCEPT);
    assert!(matches!(client.state(), ClientState::Plain(_)), "too late");
}

#[test]
fn an_accept_beside_the_stream_attaches_a_late_client() {
    let mut client = ClientHandshake::new(1);
    client.first_bytes(b"HTTP", Rest::MayCome, || panic!("asked"));
    client.received(BESIDE_AFTER_BYTES);
    assert!(client.asks());
    assert_eq!(client.reason(), Some(Reason::PEERNOSMC));
    client.removed(ACCEPT);
    assert_eq!(client.pays(&AttachPolicy::default()), Some(ACCEPT));
    let mut stopped = ClientHandshake::new(1);
    stopped.first_bytes(b"HTTP", Rest::MayCome, || panic!("asked"));
    assert_eq!(stopped.stop(Reason::EXEC), Stop::Done);
    assert_eq!(stopped.state(), ClientState::Plain(Reason::EXEC));
}

#[test]
fn the_kernel_is_asked_only_about_what_may_be_an_accept() {
    let mut client = ClientHandshake::new(1);
    let verdict = client.first_bytes(b"HTTP", Rest::MayCome, || panic!("asked"));
    assert_eq!((verdict, client.reason()), (Verdict::Deliver, Some(Reason::PEERNOSMC)));
    let mut client = ClientHandshake::new(1);
    let verdict = client.first_bytes(&ACCEPT.emit(), Rest::MayCome, || None);
    assert_eq!((verdict, client.reason()), (Verdict::Deliver, Some(Reason::INTERR)));
}

#[test]
fn the_second_request_after_a_reply_or_bulk_pays() {
    let policy = AttachPolicy::default();
    let mut client = accepted();
    client.sent(10);
    client.sent(10);
    for _ in 0..2 {
        assert_eq!(client.pays(&policy), None);
        client.received(100);
        client.sent(10);
        client.sent(10);
    }
    assert_eq!(client.pays(&policy), Some(ACCEPT));

    let mut client = accepted();
    client.sent(AttachPolicy::DEFAULT_BYTES - 1);
    assert_eq!(client.pays(&policy), None);
    client.received(1);
    assert_eq!(client.pays(&policy), Some(ACCEPT));
}

#[test]
fn a_threshold_decides_alone() {
    let at_once = AttachPolicy { after_bytes: Some(0), ..AttachPolicy::default() };
    assert_eq!(accepted().pays(&at_once), Some(ACCEPT));
    assert_eq!(ClientHandshake::new(1).pays(&at_once), None, "not before ACCEPT");
    let late = AttachPolicy { after_bytes: Some(1000), ..AttachPolicy::default() };
    let mut client = accepted();
    for _ in 0..9 {
        client.sent(100);
        client.received(11);
    }
    assert_eq!(client.pays(&late), None);
    client.sent(1);
    assert_eq!(client.pays(&late), Some(ACCEPT));
}

#[test]
fn an_unanswered_request_is_cancelled_after_a_while() {
    let policy = AttachPolicy { patience: 3, ..AttachPolicy::default() };
    let mut client = accepted();
    assert_eq!(client.waited(&policy), None, "nothing was asked");
    client.requested();
    let waits: Vec<_> = (0..5).map(|_| client.waited(&policy)).collect();
    assert_eq!(waits, [None, None, None, Some(Cancel), Some(Cancel)]);

    let mut cancelled = client;
    cancelled.answered(Answer::Cancelled);
    assert_eq!(cancelled.reason(), Some(Reason::CANCELLED));
    // The server was faster: its answer counts, once.
    assert!(client.answered(Answer::Attached));
    assert!(!client.answered(Answer::Cancelled));
    assert!(client.attached());
    assert_eq!(client.reason(), None);
}

#[test]
fn a_client_that_stops_still_removes_an_accept() {
    let mut client = ClientHandshake::new(1);
    assert_eq!(client.stop(Reason::EXEC), Stop::Done);
    let verdict = client.first_bytes(&ACCEPT.emit(), Rest::MayCome, socket(0, 4));
    assert_eq!(verdict, Verdict::Remove(100, ACCEPT));
    client.removed(ACCEPT);
    assert_eq!(client.state(), ClientState::Plain(Reason::EXEC));
}

#[test]
fn stopping_later_says_what_is_left_to_do() {
    let mut client = accepted();
    client.requested();
    assert_eq!(client.stop(Reason::EXEC), Stop::Cancel);
    let mut cancelled = client;
    cancelled.answered(Answer::Cancelled);
    assert_eq!(cancelled.state(), ClientState::Plain(Reason::EXEC));
    client.answered(Answer::Attached);
    assert_eq!(client.stop(Reason::EXEC), Stop::Leave);
    assert_eq!(accepted().stop(Reason::EXEC), Stop::Done);
}

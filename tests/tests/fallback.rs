//! One end accelerated, the other not, whoever speaks first: the stream is the program's own.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::Case;

/// The server greets, the client only reads.
#[test]
fn b16_server_speaks_first() {
    Case::pair("case-connect", "server_first")
        .not_accelerated("the client never has a request that pays")
        .check();
}

/// The client streams and closes without reading; the close must not turn into a reset.
#[test]
fn b16_client_alone_speaks() {
    Case::pair("case-connect", "client_only_speaks")
        .not_accelerated("the client never reads, so it sees no offer")
        .check();
}

/// Nobody says a word.
#[test]
fn b16_nobody_speaks() {
    Case::pair("case-connect", "nobody_speaks").not_accelerated("no data").check();
}

/// Both stream at once from the first moment.
#[test]
fn b16_both_speak() {
    Case::pair("case-connect", "both_speak").check();
}

/// The reply comes after the end of the request.
#[test]
fn b16_reply_after_half_close() {
    Case::pair("case-connect", "half_close")
        .not_accelerated("the request ends before the first reply")
        .check();
}

/// The reply, the server's first and last word, is read when both ends have said their FIN.
#[test]
fn b16_reply_read_after_both_ends() {
    Case::pair("case-connect", "last_words").accelerated_as_shipped(1).check();
}

/// Connections of one request and one reply.
#[test]
fn b16_short_connections() {
    Case::pair("case-connect", "short").not_accelerated("one turn does not pay").check();
}

/// Connections that live long, after so many short ones that none was expected: conversations, an
/// upload and a download.
#[test]
fn b16_long_connections_after_short_ones() {
    Case::pair("case-connect", "long_after_short").accelerated_as_shipped(3).check();
}

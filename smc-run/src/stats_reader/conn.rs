//! What the record of a connection means.
use smc_core::arena::{flag, phase, ConnImage, MODE_DRAIN, MODE_RING};
use smc_core::reason::Reason;

use super::sockets::Ends;
use crate::ss::{Mode, Role, Row};

/// Whether it is the record of a connection, not of a listener or of a socket that is neither.
pub(super) fn is_connected(conn: &ConnImage) -> bool {
    !matches!(conn.phase, phase::FRESH | phase::LISTENER)
}

/// The row of a connection.
pub(super) fn row(pid: u32, comm: &str, fd: i32, conn: &ConnImage, ends: &Ends) -> Row {
    let mode = mode(conn);
    let reason = reason(conn, mode);
    let ring = |size: u32| (mode == Mode::Smcd && size != 0).then_some(size);
    Row {
        pid,
        comm: comm.to_owned(),
        fd,
        state: ends.state.to_owned(),
        local: ends.local.to_string(),
        peer: ends.peer.to_string(),
        mode,
        reason: reason.map(|reason| reason.0),
        reason_text: reason.map(|reason| reason.text().to_owned()),
        role: role(conn),
        rcvbuf: ring(conn.rx_size),
        sndbuf: ring(conn.tx_size),
        rx_bytes: conn.rx_ring_bytes.saturating_add(conn.rx_tcp_bytes),
        tx_bytes: conn.tx_ring_bytes.saturating_add(conn.tx_tcp_bytes),
        smc_rx_bytes: conn.rx_ring_bytes,
        smc_tx_bytes: conn.tx_ring_bytes,
    }
}

/// Attached is not enough: without this side's word no direction leaves TCP.
fn mode(conn: &ConnImage) -> Mode {
    let switched = conn.tx_mode == MODE_RING || matches!(conn.rx_mode, MODE_DRAIN | MODE_RING);
    let agreed = conn.phase == phase::ATTACHED && conn.has(flag::CONSENTED);
    if switched || agreed {
        Mode::Smcd
    } else {
        Mode::Tcp
    }
}

/// Why it is TCP, or what broke the ring.
fn reason(conn: &ConnImage, mode: Mode) -> Option<Reason> {
    let waiting = match conn.phase {
        _ if mode != Mode::Tcp => None,
        phase::ATTACHED => Some(Reason::UNSEEN_WAIT),
        phase::ACCEPTED | phase::OFFERED if conn.procs > 1 => Some(Reason::SHARED_FORK),
        phase::REQUESTED => Some(Reason::CANCELLED),
        _ => None,
    };
    let recorded = (conn.reason != Reason::default()).then_some(conn.reason);
    let unsaid = (mode == Mode::Tcp).then_some(Reason::NOT_PAID);
    waiting.or(recorded).or(unsaid)
}

fn role(conn: &ConnImage) -> Role {
    if conn.has(flag::ADOPTED) {
        Role::Unknown
    } else if conn.has(flag::CLIENT) {
        Role::Client
    } else {
        Role::Server
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use smc_core::arena::{MODE_HYBRID, MODE_TCP};

    use super::*;

    fn row_of(conn: &ConnImage) -> Row {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let ends = Ends { state: "ESTAB", local: address(1), peer: address(2) };
        row(7, "x", 5, conn, &ends)
    }

    fn shown(conn: &ConnImage) -> (Mode, Option<u32>) {
        let row = row_of(conn);
        assert_eq!(row.reason.map(|code| Reason(code).text()), row.reason_text.as_deref());
        (row.mode, row.reason)
    }

    #[test]
    fn only_connections_are_shown() {
        let phases = |connected| {
            (phase::FRESH..=phase::PLAIN)
                .filter(|&phase| {
                    is_connected(&ConnImage { phase, ..ConnImage::default() }) == connected
                })
                .count()
        };
        assert_eq!((phases(false), phases(true)), (2, 7));
    }

    #[test]
    fn a_connection_on_tcp_has_a_reason() {
        let at = |phase, reason| ConnImage { phase, reason, procs: 1, ..ConnImage::default() };
        let none = Reason::default();
        let cases = [
            (at(phase::IDLE, none), Reason::NOT_PAID),
            (at(phase::OFFERED, Reason::NOT_PAID), Reason::NOT_PAID),
            (ConnImage { procs: 2, ..at(phase::OFFERED, none) }, Reason::SHARED_FORK),
            (at(phase::VIRGIN, Reason::PEERNOSMC), Reason::PEERNOSMC),
            (at(phase::REQUESTED, Reason::NOT_PAID), Reason::CANCELLED),
            (at(phase::ATTACHED, none), Reason::UNSEEN_WAIT),
            (ConnImage { procs: 2, ..at(phase::PLAIN, Reason::URGENT) }, Reason::URGENT),
        ];
        for (conn, reason) in cases {
            assert_eq!(shown(&conn), (Mode::Tcp, Some(reason.0)), "{conn:?}");
        }
    }

    #[test]
    fn a_connection_on_a_ring_has_sizes_and_needs_no_reason() {
        let attached = ConnImage {
            phase: phase::ATTACHED,
            flags: flag::CONSENTED | flag::CLIENT,
            tx_mode: MODE_TCP,
            rx_mode: MODE_HYBRID,
            tx_size: 1 << 17,
            rx_size: 1 << 16,
            tx_ring_bytes: 10,
            tx_tcp_bytes: 3,
            rx_tcp_bytes: 2,
            ..ConnImage::default()
        };
        assert_eq!(shown(&attached), (Mode::Smcd, None));
        let row = row_of(&attached);
        assert_eq!((row.rcvbuf, row.sndbuf), (Some(1 << 16), Some(1 << 17)));
        assert_eq!((row.tx_bytes, row.smc_tx_bytes), (13, 10));
        assert_eq!((row.rx_bytes, row.smc_rx_bytes), (2, 0));
        assert_eq!(row.role, Role::Client);
        // The peer broke the rules: the reader still empties its ring.
        let broken = ConnImage { reason: Reason::PROTOCOL, rx_mode: MODE_RING, ..attached };
        assert_eq!(shown(&broken), (Mode::Smcd, Some(Reason::PROTOCOL.0)));
    }

    #[test]
    fn who_connected_is_the_client() {
        let role = |flags| row_of(&ConnImage { flags, ..ConnImage::default() }).role;
        assert_eq!(role(0), Role::Server);
        assert_eq!(role(flag::CLIENT), Role::Client);
        assert_eq!(role(flag::ADOPTED), Role::Unknown);
    }
}

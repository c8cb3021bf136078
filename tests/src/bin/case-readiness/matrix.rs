//! D2 and D3: what each trigger reports at each step of a connection's life.

use super::ends::{Step, STORIES};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{show, sys, Subject};
use smc_tests::say;

pub(crate) const IN: u32 = libc::EPOLLIN.cast_unsigned();
pub(crate) const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
pub(crate) const PRI: u32 = libc::EPOLLPRI.cast_unsigned();
pub(crate) const RDHUP: u32 = libc::EPOLLRDHUP.cast_unsigned();
pub(crate) const ET: u32 = libc::EPOLLET.cast_unsigned();
pub(crate) const ONESHOT: u32 = libc::EPOLLONESHOT.cast_unsigned();

const TRIGGERS: [u32; 4] = [0, ET, ONESHOT, ET | ONESHOT];

/// Every trigger and interest through arrival, partial and full drain, and each kind of end.
pub(crate) fn arrival(subject: &Subject) {
    for story in STORIES {
        for trigger in TRIGGERS {
            for interest in [IN, OUT, IN | OUT, IN | RDHUP, IN | OUT | RDHUP | PRI] {
                let conn = subject.connect();
                let epoll = Epoll::new();
                epoll.add(conn.fd, interest | trigger, 0);
                let mut line = vec![format!("new {}", epoll.twice())];
                for step in *story {
                    step.take(&conn);
                    line.push(format!("{step:?} {}", epoll.twice()));
                }
                say!("{}: {}", show::events(interest | trigger), line.join(", "));
            }
        }
    }
}

/// ONESHOT and ET, re-armed by MOD with data pending, fire; without data they wait for it.
pub(crate) fn rearm(subject: &Subject) {
    for trigger in TRIGGERS {
        for interest in [IN, OUT, IN | OUT, IN | RDHUP] {
            let conn = subject.connect();
            sys::nonblocking(conn.fd, true);
            let epoll = Epoll::new();
            let mask = interest | trigger;
            let what = show::events(mask);
            epoll.add(conn.fd, mask, 0);
            say!("{what}: new {}", epoll.twice());
            epoll.modify(conn.fd, mask, 1);
            say!("  rearmed with nothing: {}", epoll.twice());
            conn.peer_sends(10);
            say!("  data: {}", epoll.twice());
            conn.peer_sends(10);
            say!("  more data: {}", epoll.twice());
            epoll.modify(conn.fd, mask, 2);
            say!("  rearmed with data: {}", epoll.twice());
            say!("  half taken {}: {}", show::yes(conn.takes(10)), epoll.twice());
            epoll.modify(conn.fd, mask, 3);
            say!("  rearmed with half: {}", epoll.twice());
            say!("  all taken {}: {}", show::yes(conn.takes(10)), epoll.twice());
            epoll.modify(conn.fd, mask, 4);
            say!("  rearmed with none: {}", epoll.twice());
            epoll.modify(conn.fd, 0, 5);
            conn.peer_sends(10);
            say!("  no interest: {}", epoll.twice());
            epoll.modify(conn.fd, IN | trigger, 6);
            say!("  interest again: {}", epoll.twice());
            epoll.control(libc::EPOLL_CTL_DEL, conn.fd, 0, 0);
            say!("  deleted: {}", epoll.twice());
            epoll.add(conn.fd, mask, 7);
            say!("  added again: {}", epoll.twice());
            conn.start_send(10, 20);
            epoll.modify(conn.fd, IN | trigger, 8);
            epoll.now();
            conn.finish();
            wait::queued(conn.fd, 20);
            say!("  right {}", show::yes(conn.takes(20)));
        }
    }
}

/// Without any interest only ERR and HUP come.
pub(crate) fn no_interest(subject: &Subject) {
    for story in STORIES {
        for trigger in TRIGGERS {
            let conn = subject.connect();
            let epoll = Epoll::new();
            epoll.add(conn.fd, trigger, 0);
            let mut line = vec![format!("new {}", epoll.twice())];
            for step in *story {
                step.take(&conn);
                let (ret, polled) = wait::poll(conn.fd, 0, 0);
                let polled = show::events(polled);
                line.push(format!("{step:?} {} poll {ret} {polled}", epoll.twice()));
            }
            say!("{}: {}", show::events(trigger), line.join(", "));
        }
    }
    // Both sides shut down one after the other: HUP without ERR.
    let conn = subject.connect();
    let epoll = Epoll::new();
    epoll.add(conn.fd, 0, 0);
    Step::PeerShuts.take(&conn);
    say!("peer shut: {}", epoll.twice());
    Step::Shut(libc::SHUT_WR).take(&conn);
    say!("both shut: {} {}", epoll.twice(), wait::poll_now(conn.fd));
}

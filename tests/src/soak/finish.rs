//! How an end gives its connection up: in mid-stream, or when all bytes are through.

use super::numbers;
use super::plan::{Cause, Finish};
use super::state::{self, Kind};
use super::stream::Work;
use crate::harness::net::{self, close, recv, set_nonblocking, shutdown, Errno, Fd};
use crate::harness::{process, threads};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Work<'_> {
    /// Whether an end gives up, so that either may see errors.
    pub(super) fn is_frail(&self) -> bool {
        self.plan.ends.iter().any(|end| end.cause == Cause::Abandon)
    }

    /// Whether that has happened.
    pub(super) fn is_gone(&self) -> bool {
        self.given.load(Ordering::Acquire) || self.progress.gone.load(Ordering::Acquire) != 0
    }

    /// An error, or an early end, that comes of a peer which gave up.
    pub(super) fn has_lost_peer(&self, error: Errno) -> bool {
        let errors = [0, libc::ECONNRESET, libc::EPIPE, libc::ENOTCONN, libc::EBADF];
        let lost = self.is_frail() && errors.contains(&error.0);
        if lost {
            self.progress.gone.store(1, Ordering::Release);
        }
        lost
    }

    /// Gives up in mid-stream.
    pub(super) fn abandon(&self) {
        state::own().did(Kind::Abandoned);
        self.progress.gone.store(1, Ordering::Release);
        // Others are in a call, and are to come back from it; or hold it by chance, so that its close
        // ends nothing, and wait in the end for one who waits for this.
        let _ = shutdown(self.fd(), libc::SHUT_RDWR);
        if !self.own().style.waits() {
            return;
        }
        if self.plan.seed & 1 != 0 {
            net::set_linger(self.fd(), true, 0).unwrap();
        }
        self.close_all();
    }

    /// All is through.
    pub(super) fn finish(&self) {
        self.reap();
        if self.is_gone() {
            self.close_all();
            return;
        }
        let hears = self.plan.ends[usize::from(self.client)].shuts;
        set_nonblocking(self.fd(), false);
        match self.own().finish {
            Finish::ShutUnder => self.shut_under(),
            Finish::ClosedUnder if hears => self.close_under(),
            _ if hears => self.expect_end(self.fd(), &[]),
            _ => {}
        }
        self.close_all();
    }

    /// The end of the peer's stream, and nothing else.
    fn expect_end(&self, fd: Fd, or: &[i32]) {
        loop {
            match recv(fd, &mut [0; 64], 0) {
                Ok(0) => return,
                Err(Errno(libc::EINTR)) if self.ticks => {}
                Err(Errno(libc::EAGAIN)) if self.own().timeout > 0 => {}
                Err(Errno(error)) if or.contains(&error) => return,
                Err(error) if self.has_lost_peer(error) => return,
                other => panic!("{}: the end: {other:?}", self.name()),
            }
        }
    }

    /// Time for another thread to come to wait.
    fn give_time() {
        std::thread::sleep(Duration::from_millis(1));
    }

    fn shut_under(&self) {
        state::own().did(Kind::ShutUnder);
        threads::all(&[&|| self.expect_end(self.fd(), &[]), &|| {
            Self::give_time();
            // The peer may have everything, and have closed.
            let _ = shutdown(self.fd(), libc::SHUT_RDWR);
        }]);
    }

    /// By a number of its own, so that no call finds a number that somebody else has got since.
    fn close_under(&self) {
        state::own().did(Kind::ClosedUnder);
        let last = process::dup2(self.fd(), numbers::last_spot(self.index)).unwrap();
        self.close_all();
        // The thread may come late.
        threads::all(&[&|| self.expect_end(last, &[libc::EBADF]), &|| {
            Self::give_time();
            close(last).unwrap();
        }]);
    }
}

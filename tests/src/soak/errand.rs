//! Other processes that take part in an end's work: forked children and other images.

use super::plan::{Cause, Errand, Shape, Stint};
use super::state::{self, Kind};
use super::stream::{Part, Stop, Work};
use crate::harness::net::{close, Fd};
use crate::harness::process::{self, Leave};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// Held while a child is made that goes on as it is, and while the standard library starts another
/// image by `fork`: it waits until nobody has the other end of a socket pair any more.
static FORKING: AtomicBool = AtomicBool::new(false);

/// See [`FORKING`].
struct Alone(());

impl Alone {
    fn wait() -> Self {
        while FORKING.swap(true, Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(30));
        }
        Self(())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        FORKING.store(false, Ordering::Release);
    }
}

impl Work<'_> {
    /// Lets somebody else take part if it is time; `by_got`: called before a receive.
    pub(super) fn send_on_errands(&self, by_got: bool) {
        let next = self.progress.errands.load(Ordering::Acquire);
        let Some(stint) =
            usize::try_from(next).ok().and_then(|at| self.own().stints.get(at).copied())
        else {
            return;
        };
        let count = if by_got { self.got() } else { self.sent() };
        let due = stint.errand == Errand::None || (stint.by_got == by_got && count >= stint.at);
        let taken = || {
            let (from, to) = (next, next + 1);
            let order = (Ordering::AcqRel, Ordering::Acquire);
            self.progress.errands.compare_exchange(from, to, order.0, order.1).is_ok()
        };
        if due && !self.is_gone() && taken() {
            self.begin(stint);
        }
    }

    fn begin(&self, stint: Stint) {
        let count = |kind| state::own().did(kind);
        match stint.errand {
            Errand::None => {}
            Errand::Child => {
                count(Kind::Child);
                self.expect_done(self.fork(stint, false));
            }
            Errand::Partner => {
                count(Kind::Partner);
                self.remember(self.fork(stint, false));
            }
            Errand::Heir => {
                count(Kind::Heir);
                let heir = self.fork(stint, true);
                self.given.store(true, Ordering::Release);
                self.close_all();
                self.expect_done(heir);
            }
            Errand::ForkExec | Errand::Spawn | Errand::BareImage | Errand::OnStandard => {
                count(match stint.errand {
                    Errand::ForkExec => Kind::ForkExec,
                    Errand::Spawn => Kind::Spawn,
                    Errand::BareImage => Kind::BareImage,
                    _ => Kind::OnStandard,
                });
                self.expect_done(self.start_image(stint));
            }
            Errand::Bystander => {
                count(Kind::Bystander);
                let how = self.way_out(stint);
                let _alone = Alone::wait();
                self.remember(process::child_that_leaves(how, || {
                    process::pause_ms(stint.bytes % 40);
                    0
                }));
            }
            Errand::IdleImage => {
                count(Kind::Bystander);
                let mut image = Command::new(std::env::current_exe().unwrap());
                image.arg("idle").arg((stint.bytes % 40).to_string());
                self.remember(Self::spawn(&mut image, stint));
            }
        }
    }

    /// What a helper does, and when he is done.
    fn stop(&self, stint: Stint) -> Stop {
        let part = match (self.own().style.has_threads(), stint.by_got) {
            // The thread that waits for him does no more than that.
            (true, false) => Part::Sends,
            (true, true) => Part::Receives,
            (false, _) => Part::Both,
        };
        let at = self.moved(part) + stint.bytes;
        Stop { part, at }
    }

    /// How a forked child ends. By exit(3) it would write what another thread of its parent has in a
    /// stream's buffer.
    fn way_out(&self, stint: Stint) -> Leave {
        let alone = self.name.batch().shape == Shape::Alone && !self.own().style.has_threads();
        if alone && stint.bytes & 1 == 0 {
            Leave::Exit
        } else {
            Leave::Quick
        }
    }

    fn fork(&self, stint: Stint, inherits: bool) -> i32 {
        let how = self.way_out(stint);
        let stop = (!inherits).then(|| self.stop(stint));
        let _changing = self.changing.lock().unwrap();
        let _alone = Alone::wait();
        process::child_that_leaves(how, || {
            // The child has one thread.
            FORKING.store(false, Ordering::Release);
            let at = |number: &AtomicI32| AtomicI32::new(number.load(Ordering::Acquire));
            let work = Work {
                fd: at(&self.fd),
                old: at(&self.old),
                also: at(&self.also),
                given: AtomicBool::new(false),
                changing: Mutex::default(),
                kids: Mutex::default(),
                stop: stop.or(self.stop),
                ticks: false,
                ..*self
            };
            work.run();
            0
        })
    }

    fn start_image(&self, stint: Stint) -> i32 {
        let standard =
            (stint.errand == Errand::OnStandard).then_some(Fd::from(stint.bytes & 2 != 0));
        let _changing = self.changing.lock().unwrap();
        let mut image = self.image(standard.unwrap_or(self.fd()), Some(self.stop(stint)));
        if let Some(standard) = standard {
            // SAFETY: a new descriptor, which nobody else has.
            let copy = unsafe { OwnedFd::from_raw_fd(process::dup(self.fd()).unwrap()) };
            if standard == 0 {
                image.stdin(Stdio::from(copy));
            } else {
                image.stdout(Stdio::from(copy));
            }
        }
        if stint.errand == Errand::BareImage {
            image.env_remove("LD_PRELOAD");
        }
        Self::spawn(&mut image, stint)
    }

    /// By `posix_spawn`, or by `fork` and `exec`.
    fn spawn(image: &mut Command, stint: Stint) -> i32 {
        let forks = stint.errand == Errand::ForkExec || stint.bytes & 1 == 0;
        let _alone = forks.then(Alone::wait);
        if forks {
            // SAFETY: it does nothing; that there is one decides how the standard library starts it.
            unsafe { image.pre_exec(|| Ok(())) };
        }
        i32::try_from(image.spawn().unwrap().id()).unwrap()
    }

    /// Another image that goes on with this end.
    fn image(&self, fd: Fd, stop: Option<Stop>) -> Command {
        let mut image = Command::new(std::env::current_exe().unwrap());
        image.arg("resume").args(self.name.words());
        image.arg(self.index.to_string()).arg(u8::from(self.client).to_string());
        image.arg(fd.to_string());
        if let Some(Stop { part, at }) = stop {
            image.arg(at.to_string()).arg((part as u8).to_string());
        }
        image
    }

    /// Replaces this process by another image.
    pub(super) fn replace(&self) -> ! {
        state::own().did(Kind::Exec);
        let mut image = self.image(self.fd(), self.stop);
        if self.own().cause == Cause::ExecBare {
            image.env_remove("LD_PRELOAD");
        }
        panic!("exec: {}", image.exec());
    }

    fn expect_done(&self, pid: i32) {
        let how = process::wait(pid);
        assert_eq!(how, "exit 0", "{}: a helper", self.name());
    }

    fn remember(&self, pid: i32) {
        self.kids.lock().unwrap().push(pid);
    }

    /// Waits for all helpers.
    pub(super) fn reap(&self) {
        let kids = std::mem::take(&mut *self.kids.lock().unwrap());
        kids.into_iter().for_each(|pid| self.expect_done(pid));
    }

    /// Closes all numbers of the connection that this process has.
    pub(super) fn close_all(&self) {
        for number in [&self.fd, &self.old, &self.also] {
            let fd = number.swap(-1, Ordering::AcqRel);
            if fd >= 0 {
                close(fd).unwrap();
            }
        }
    }
}

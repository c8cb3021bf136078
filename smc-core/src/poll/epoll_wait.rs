//! `epoll_wait` and its kin.
use super::instance::{Instance, State, TAG_BELL, TAG_INNER};
use crate::conn::wait::Deadline;
use crate::sys::thread::{last_errno, outside};
use crate::engine::Ret;
use crate::errno::Errno;
use crate::process::Process;
use crate::ring::doorbell;
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::{clock, raw};
use crate::transport::loopback::Group;
use libc::{c_int, epoll_event, sigset_t};

/// Events that are taken from the inner epoll at a time.
const BATCH: usize = 32;
/// Link groups whose news are looked at while spinning; with more of them nobody spins.
const SPUN: usize = 8;
/// Shortest and longest time between two looks at the kernel's events while rings are busy.
const LOOK_MIN_US: u64 = 20;
const LOOK_MAX_US: u64 = 2_000;

/// Where the program's events go.
struct Out {
    at: *mut epoll_event,
    max: usize,
    count: usize,
    bad: bool,
}

impl Out {
    fn room(&self) -> usize {
        self.max - self.count
    }
    fn emit(&mut self, events: u32, data: u64) -> bool {
        if self.room() == 0 {
            return false;
        }
        let event = epoll_event { events, u64: data };
        self.bad |= store(self.at.wrapping_add(self.count), &event).is_err();
        self.count += 1;
        true
    }
}

/// Waits on an instance; `real` is the program's own call, for one that has nothing of ours.
pub(crate) fn wait(
    process: &Process,
    instance: &Instance,
    events: *mut epoll_event,
    max: c_int,
    deadline: impl FnOnce() -> Result<Option<Deadline>, Errno>,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    if instance.inner() < 0 || max <= 0 {
        return Ok(real());
    }
    let mut out = Out { at: events, max: max as usize, count: 0, bad: false };
    let mut deadline_of = Some(deadline);
    let mut deadline = None;
    loop {
        let watched = instance.watched.load(Ordering::Acquire);
        {
            let mut state = instance.state.lock();
            let more = state.collect(process, &mut |events, data| out.emit(events, data));
            if out.count > 0 {
                look_at_kernel(process, instance, &mut state, &mut out);
                if more || watched {
                    instance.arm(process, &state);
                    instance.nudge(process);
                }
                return finish(&out);
            }
        }
        let end = match (deadline, deadline_of.take()) {
            (Some(end), _) => end,
            (None, Some(make)) => *deadline.insert(make()?),
            (None, None) => None,
        };
        // `None`: the program does not want to wait at all.
        let Some(end) = end else {
            let mut state = instance.state.lock();
            kernel_now(process, instance, &mut state, &mut out);
            if watched {
                instance.arm(process, &state);
            }
            return finish(&out);
        };
        if spin(process, instance) {
            continue;
        }
        let ready = {
            let mut state = instance.state.lock();
            instance.arm(process, &state);
            state.collect(process, &mut |events, data| out.emit(events, data));
            out.count > 0
        };
        if ready {
            return finish(&out);
        }
        clock::calibrate();
        let left = end.left();
        let millis = left.map_or(-1, |ns| {
            c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
        });
        if let Some(page) = process.page() {
            crate::arena::bump(&page.sleeps, 1);
        }
        instance.waiters.fetch_add(1, Ordering::AcqRel);
        let outer = instance.outer.load(Ordering::Acquire);
        // SAFETY: requires the program's array, as it gave it to us; a bad one is EFAULT.
        let got =
            outside(|| unsafe { (process.real.epoll_pwait)(outer, events, max, millis, mask) });
        let errno = last_errno();
        instance.waiters.fetch_sub(1, Ordering::AcqRel);
        let Ok(got) = usize::try_from(got) else { return Err(errno) };
        let mut state = instance.state.lock();
        translate(process, instance, &mut state, &mut out, got);
        state.collect(process, &mut |events, data| out.emit(events, data));
        if out.count > 0 || (got == 0 && left.is_some()) {
            if watched {
                instance.arm(process, &state);
            }
            return finish(&out);
        }
    }
}

fn finish(out: &Out) -> Ret {
    if out.bad {
        Err(Errno::FAULT)
    } else {
        Ok(out.count.cast_signed())
    }
}

fn spin(process: &Process, instance: &Instance) -> bool {
    let mut slots = [(0, 0); SPUN];
    let mut count = 0;
    {
        let state = instance.state.lock();
        if state.members.is_empty() || state.members.len() > SPUN {
            return false;
        }
        for (entry, member) in slots.iter_mut().zip(&state.members) {
            *entry = (member.group, member.slot);
            count += 1;
        }
    }
    let slots = slots.get(..count).unwrap_or(&[]);
    instance.spin.run(process, || instance.any_news(process, slots))
}

impl Instance {
    /// Asks all peers to ring.
    pub(super) fn arm(&self, process: &Process, state: &State) {
        for member in &state.members {
            let slots = process.device.groups.get(member.group).and_then(Group::own_slots);
            let Some(slot) = slots.and_then(|slots| slots.get(member.slot)) else { continue };
            if slot.armed.load(Ordering::Relaxed) == 0 {
                doorbell::arm(slot);
            }
        }
        crate::sync::full_fence();
    }
}

/// The kernel's events, at once when it is time: no descriptor starves beside busy rings.
fn look_at_kernel(process: &Process, instance: &Instance, state: &mut State, out: &mut Out) {
    let now = clock::ticks();
    let since = now.wrapping_sub(instance.looked.load(Ordering::Relaxed));
    let interval = instance.interval.load(Ordering::Relaxed);
    if since < interval || out.room() == 0 {
        return;
    }
    let before = out.count;
    kernel_now(process, instance, state, out);
    instance.looked.store(now, Ordering::Relaxed);
    // Where there was something there will be more soon.
    let next = if out.count > before {
        clock::us_to_ticks(LOOK_MIN_US)
    } else {
        (interval * 2).clamp(clock::us_to_ticks(LOOK_MIN_US), clock::us_to_ticks(LOOK_MAX_US))
    };
    instance.interval.store(next, Ordering::Relaxed);
    if let Some(page) = process.page() {
        crate::arena::bump(&page.kernel_checks, 1);
    }
}

/// Appends the kernel's events, without waiting.
fn kernel_now(process: &Process, instance: &Instance, state: &mut State, out: &mut Out) {
    let mut batch = [epoll_event { events: 0, u64: 0 }; BATCH];
    let room = out.room().min(BATCH);
    let outer = instance.outer.load(Ordering::Acquire);
    let Ok(got) = raw::epoll_now(outer, &mut batch[..room]) else { return };
    // What the rings have told already must not be told twice in one call.
    let first = out.count == 0;
    for event in batch.iter().take(got) {
        pass(process, instance, state, out, *event);
    }
    if first {
        state.collect(process, &mut |events, data| out.emit(events, data));
    }
}

/// The events that the kernel wrote to the program's array: ours are taken out.
fn translate(
    process: &Process,
    instance: &Instance,
    state: &mut State,
    out: &mut Out,
    got: usize,
) {
    let start = out.at;
    let mut inner = false;
    for index in 0..got {
        let Ok(event) = fetch(start.wrapping_add(index)) else { continue };
        let data = event.u64;
        match data {
            TAG_BELL => {}
            TAG_INNER => inner = true,
            data => {
                out.emit(event.events, data);
            }
        }
    }
    // Last, since it needs the room that the tags leave.
    if inner {
        drain_inner(process, instance, state, out);
    }
}

fn pass(
    process: &Process,
    instance: &Instance,
    state: &mut State,
    out: &mut Out,
    event: epoll_event,
) {
    let data = event.u64;
    match data {
        TAG_BELL => {}
        TAG_INNER => drain_inner(process, instance, state, out),
        data => {
            out.emit(event.events, data);
        }
    }
}

/// Events of the inner epoll: of connections on TCP, and of the ends of shared ones.
fn drain_inner(process: &Process, instance: &Instance, state: &mut State, out: &mut Out) {
    let mut batch = [epoll_event { events: 0, u64: 0 }; BATCH];
    loop {
        let room = out.room().min(BATCH);
        if room == 0 {
            return;
        }
        let Ok(got) = raw::epoll_now(instance.inner(), &mut batch[..room]) else { return };
        for event in batch.iter().take(got) {
            state.inner_event(instance, process, *event, &mut |events, data| {
                out.emit(events, data)
            });
        }
        // Level-triggered ones would come again and again: one pass is all there is to tell.
        if got < room || out.count > 0 {
            return;
        }
    }
}

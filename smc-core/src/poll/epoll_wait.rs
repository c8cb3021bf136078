//! `epoll_wait` and its kin.
use super::instance::{Instance, TAG_BELL, TAG_INNER};
use super::registry::{Member, Sink, State};
use crate::conn::owed::pay_if_called;
use crate::conn::wait::{Deadline, SHORT_MS};
use crate::sys::thread::{last_errno, outside_unless_interrupted};
use crate::errno::{Errno, Ret};
use crate::process::Process;
use crate::ring::doorbell;
use crate::shm::layout::WaitSlot;
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::{clock, raw};
use crate::transport::loopback::Group;
use libc::{c_int, epoll_event, sigset_t};

/// Events that are taken from the inner epoll at a time.
const BATCH: usize = 32;
/// Link groups whose news are looked at while spinning; with more of them nobody spins.
const SPUN: usize = 8;
/// Room for fewer events than this is few: busy rings might always take all of it.
const FEW: usize = 16;
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
}

impl Sink for Out {
    #[inline(always)]
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

/// Waits on an instance; `real` is the program's own call, for arguments that the kernel refuses.
pub(crate) fn wait(
    process: &Process,
    instance: &Instance,
    events: *mut epoll_event,
    max: c_int,
    deadline: impl FnOnce() -> Result<Option<Deadline>, Errno>,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    if max <= 0 {
        return Ok(real());
    }
    let mut out = Out { at: events, max: max as usize, count: 0, bad: false };
    if gather(process, instance, &mut out) {
        return finish(&out);
    }
    let Some(end) = deadline()? else {
        // The program does not want to wait at all.
        settle_nested(process, instance);
        let mut state = instance.state.lock();
        kernel_now(process, instance, &mut state, &mut out);
        state.collect(instance, process, &mut out);
        instance.settle(process, &mut state);
        return finish(&out);
    };
    loop {
        let ready = spin(process, instance) && gather(process, instance, &mut out);
        let mut short = false;
        if ready || arm_and_gather(process, instance, &mut out, &mut short) {
            return finish(&out);
        }
        let left = end.left();
        let most = if short { SHORT_MS * 1_000_000 } else { u64::MAX };
        let nap = if short { Some(left.unwrap_or(most).min(most)) } else { left };
        match sleep(process, instance, &mut out, nap, mask)? {
            0 if left.is_some_and(|left| left <= most) => return finish(&out),
            _ if out.count > 0 => return finish(&out),
            _ => {}
        }
    }
}

/// What is ready without asking the kernel, and the kernel's too when it is time.
fn gather(process: &Process, instance: &Instance, out: &mut Out) -> bool {
    if instance.inner() < 0 {
        return false;
    }
    let mut state = instance.state.lock();
    // Where the rings have filled a small array the kernel's events come first the next time, as the
    // kernel takes turns among its own; in a large one when it is time.
    let few = out.max < FEW;
    let due = is_due(instance);
    let turn = instance.crowded.load(Ordering::Relaxed) && (few || due);
    if state.inner > 0 && state.has_news(process) {
        // Connections on their way to a ring: what they got before a ring got news comes before it.
        kernel_now(process, instance, &mut state, out);
        instance.looked.store(clock::ticks(), Ordering::Relaxed);
    } else if turn {
        look_at_kernel(process, instance, &mut state, out);
        instance.crowded.store(false, Ordering::Relaxed);
    }
    let first = out.count == 0;
    let more = out.room() > 0
        && state.collect(instance, process, out);
    if first && out.count > 0 {
        if out.room() == 0 {
            instance.crowded.store(true, Ordering::Relaxed);
        } else if due && !turn {
            look_at_kernel(process, instance, &mut state, out);
        }
    }
    if out.count > 0 {
        if instance.watched.load(Ordering::Acquire) {
            instance.settle(process, &mut state);
        } else if more {
            instance.nudge(process);
        }
    }
    out.count > 0
}

/// The last look before a sleep; `short`: which is not to be a long one.
fn arm_and_gather(
    process: &Process,
    instance: &Instance,
    out: &mut Out,
    short: &mut bool,
) -> bool {
    settle_nested(process, instance);
    let called = instance.arm(process, &instance.state.lock());
    // What is paid may be news for this very call.
    let owing = called && instance.pay(process);
    let mut state = instance.state.lock();
    if state.inner > 0 && state.has_news(process) {
        kernel_now(process, instance, &mut state, out);
    }
    state.collect(instance, process, out);
    *short = owing || state.may_miss_bells(process);
    out.count > 0
}

fn settle_nested(process: &Process, instance: &Instance) {
    let nested = core::mem::take(&mut instance.state.lock().nested);
    if !nested.is_empty() {
        process.epolls.settle_nested(process, &nested);
        instance.state.lock().nested.extend_from_slice(&nested);
    }
}

/// Sleeps in the kernel and takes its events; how many it had.
fn sleep(
    process: &Process,
    instance: &Instance,
    out: &mut Out,
    left: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    clock::calibrate();
    let millis =
        left.map_or(-1, |ns| c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX));
    process.page().sleeps.fetch_add(1, Ordering::Relaxed);
    let max = c_int::try_from(out.max).unwrap_or(c_int::MAX);
    instance.waiters.fetch_add(1, Ordering::AcqRel);
    let outer = instance.outer.load(Ordering::Acquire);
    // SAFETY: requires the program's array, as it gave it to us; a bad one is EFAULT.
    let got = outside_unless_interrupted(|| unsafe {
        (process.real.epoll_pwait)(outer, out.at, max, millis, mask)
    });
    let errno = last_errno();
    instance.waiters.fetch_sub(1, Ordering::AcqRel);
    let Some(got) = got else { return Err(Errno::INTR) };
    let Ok(got) = usize::try_from(got) else { return Err(errno) };
    let mut state = instance.state.lock();
    translate(process, instance, &mut state, out, got);
    state.collect(instance, process, out);
    instance.settle(process, &mut state);
    Ok(got)
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
    /// Asks all peers to ring. Whether one of them has called, or could not.
    pub(super) fn arm(&self, process: &Process, state: &State) -> bool {
        let slots = |member: &Member| {
            let slots = process.device.groups.get(member.group).map(Group::own_slots);
            slots.and_then(|slots| slots.get(member.slot))
        };
        for slot in state.members.iter().filter_map(slots) {
            if slot.armed.load(Ordering::Relaxed) == 0 {
                doorbell::arm(slot);
            }
        }
        crate::sync::full_fence();
        // Relaxed: ordered by the fence; who is called looks again.
        let called = |slot: &WaitSlot| slot.called.load(Ordering::Relaxed) != 0;
        state.members.iter().any(|member| slots(member).is_none_or(called))
    }

    /// Pays what peers are owed that have left a ring; true: something is still owed.
    fn pay(&self, process: &Process) -> bool {
        let mut owing = false;
        // Without the lock: what is paid is announced to this side, too.
        for at in 0.. {
            let Some((group, slot)) = self.state.lock().members.get(at).map(|m| (m.group, m.slot))
            else {
                break;
            };
            let Some(group) = process.device.groups.get(group) else { continue };
            owing |= pay_if_called(process, group, group.own_slots().get(slot));
        }
        owing
    }
}

/// Whether it is time to look at the kernel's events although rings are busy.
fn is_due(instance: &Instance) -> bool {
    let since = clock::ticks().wrapping_sub(instance.looked.load(Ordering::Relaxed));
    since >= instance.interval.load(Ordering::Relaxed)
}

/// The kernel's events: no descriptor starves beside busy rings.
fn look_at_kernel(process: &Process, instance: &Instance, state: &mut State, out: &mut Out) {
    if out.room() == 0 {
        return;
    }
    let before = out.count;
    kernel_now(process, instance, state, out);
    instance.looked.store(clock::ticks(), Ordering::Relaxed);
    // Where there was something there will be more soon.
    let interval = instance.interval.load(Ordering::Relaxed);
    let next = if out.count > before {
        clock::us_to_ticks(LOOK_MIN_US)
    } else {
        (interval * 2).clamp(clock::us_to_ticks(LOOK_MIN_US), clock::us_to_ticks(LOOK_MAX_US))
    };
    instance.interval.store(next, Ordering::Relaxed);
    process.page().kernel_checks.fetch_add(1, Ordering::Relaxed);
}

/// Appends the kernel's events, without waiting; what it tells of shared connections is left to
/// the one `collect` of the call, since that tells of each once.
fn kernel_now(process: &Process, instance: &Instance, state: &mut State, out: &mut Out) {
    let mut batch = [epoll_event { events: 0, u64: 0 }; BATCH];
    let outer = instance.outer.load(Ordering::Acquire);
    let before = out.count;
    // Once more where our own two members took all the room.
    for _ in 0..3 {
        let room = out.room().min(BATCH);
        let Ok(got) = raw::epoll_now(outer, &mut batch[..room]) else { return };
        for event in batch.iter().take(got) {
            pass(process, instance, state, out, *event);
        }
        if got < room || out.count > before || room > 2 {
            break;
        }
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
            state.inner_event(instance, process, *event, out);
        }
        // Level-triggered ones would come again and again: one pass is all there is to tell.
        if got < room || out.count > 0 {
            return;
        }
    }
}

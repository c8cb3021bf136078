//! Ways through a world: all of them, or one by given choices.
use std::collections::HashSet;

use super::{Event, World, CLIENT, SERVER};

/// What was seen at the ends of all ways.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub states: usize,
    pub ends: usize,
    /// Ends with both sides attached.
    pub attached: usize,
    /// Ends at which this side has sent through the ring.
    pub ring: [usize; 2],
}

/// Goes all ways, each state once; panics with the way to the first violation.
pub(crate) fn all(start: World, limit: usize) -> Summary {
    let mut summary = Summary::default();
    let mut seen = HashSet::from([start.fingerprint()]);
    let events = start.enabled();
    // States on the current way, with the events that were not yet tried.
    let mut way = vec![(start, events)];
    let mut taken: Vec<Event> = Vec::new();
    while let Some((world, events)) = way.last_mut() {
        let Some(event) = events.pop() else {
            way.pop();
            taken.pop();
            continue;
        };
        let mut next = world.clone();
        taken.push(event);
        if let Err(what) = next.apply(event).and_then(|()| next.check()) {
            panic!("{what}\nafter {taken:?}\nin {next:#?}");
        }
        if !seen.insert(next.fingerprint()) {
            taken.pop();
            continue;
        }
        assert!(seen.len() <= limit, "more than {limit} states");
        let events = next.enabled();
        if events.is_empty() {
            if let Err(what) = next.check_end() {
                panic!("{what}\nafter {taken:?}\nin {next:#?}");
            }
            summary.count(&next);
        }
        way.push((next, events));
    }
    summary.states = seen.len();
    summary
}

/// Goes one way: `choose(n)` gives the next number below n. Returns the end.
pub(crate) fn one(mut world: World, mut choose: impl FnMut(usize) -> usize) -> World {
    loop {
        let events = world.enabled();
        if events.is_empty() {
            break;
        }
        let event = match events[choose(events.len())] {
            Event::Deliver(dir, all) if all > 1 => Event::Deliver(dir, 1 + choose(all)),
            event => event,
        };
        if let Err(what) = world.apply(event).and_then(|()| world.check()) {
            panic!("{what}\nafter {event:?}\nin {world:#?}");
        }
    }
    if let Err(what) = world.check_end() {
        panic!("{what}\nin {world:#?}");
    }
    world
}

impl Summary {
    fn count(&mut self, world: &World) {
        self.ends += 1;
        self.attached += usize::from(world.attached(CLIENT) && world.attached(SERVER));
        for who in [CLIENT, SERVER] {
            self.ring[who] += usize::from(world.sides[who].ring_sent != 0);
        }
    }
}

//! All ways through a world.
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::sim::{Event, World, CLIENT, SERVER};

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
    let mut seen = HashSet::from([fingerprint(&start)]);
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
        if !seen.insert(fingerprint(&next)) {
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

impl Summary {
    fn count(&mut self, world: &World) {
        self.ends += 1;
        self.attached += usize::from(world.attached(CLIENT) && world.attached(SERVER));
        for who in [CLIENT, SERVER] {
            self.ring[who] += usize::from(world.sides[who].ring_sent != 0);
        }
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

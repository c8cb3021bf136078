//! One way through a world, by given choices.
use super::{Event, World};

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

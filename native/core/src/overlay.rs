//! The pending entries of one group that changed since its view was written, as they are now.
//!
//! The overlay holds final values, not differences: what it says of an ID counts, whatever the view says, and of an ID
//! that it does not name the view is right. So it may lie over a view of any moment since it was begun.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::id::Id;
use crate::pending::{Key, Order, Pending};

#[derive(Debug, Clone, Copy)]
struct Held {
    /// None where the entry is pending no more.
    row: Option<Pending>,
    /// Whether the view may have a row of this ID, so that its end must be remembered.
    in_view: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    rows: BTreeMap<Id, Held>,
    /// The keys of pending rows by consumer and by time: kept from when somebody asks for that order, until nobody has
    /// for [`KEPT_CHANGES`] changes.
    sorted: [Sorted; 2],
    live: u64,
    /// IDs of which the view was found to have no row. It stays so: a view that changes begins the overlays anew.
    absent: BTreeSet<Id>,
    /// In the order of times, of what nobody has and of what somebody has: before these keys the entry of each pending
    /// row is gone. It stays so but for rows that are set, until an ID may be used again.
    gone_before: [Key; 2],
}

/// Acknowledgements that come twice ask the view once, and what anybody may ask for fills no memory.
const MOST_ABSENT: usize = 4096;
const KEPT_CHANGES: u32 = 4096;

#[derive(Debug, Clone, Default)]
struct Sorted {
    keys: BTreeSet<Key>,
    /// Changes that it is still kept for; 0 where it is not kept.
    left: u32,
}

impl Sorted {
    fn change(&mut self, change: impl FnOnce(&mut BTreeSet<Key>)) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            self.keys = BTreeSet::new();
        } else {
            change(&mut self.keys);
        }
    }
}

impl Overlay {
    /// IDs named here.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Of these, the pending ones.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// None where the overlay says nothing of `id`; `Some(None)` where it is not pending.
    pub fn get(&self, id: Id) -> Option<Option<Pending>> {
        self.rows.get(&id).map(|held| held.row)
    }

    /// Whether this has something to say of `id`: that it is pending, that it is no more, or that the view has no row.
    pub fn knows(&self, id: Id) -> bool {
        self.rows.contains_key(&id) || self.absent.contains(&id)
    }

    /// The view has no row of this ID.
    pub fn note_absent(&mut self, id: Id) {
        if self.absent.len() >= MOST_ABSENT {
            self.absent.clear();
        }
        self.absent.insert(id);
    }

    fn forget_keys(&mut self, row: &Pending) {
        for (sorted, order) in self.sorted.iter_mut().zip([Order::ByConsumer, Order::ByTime]) {
            sorted.change(|keys| {
                keys.remove(&row.key(order));
            });
        }
        self.live -= 1;
    }

    /// Takes over what the view says of an ID of which nothing is said here yet.
    pub fn adopt(&mut self, row: Pending) {
        if let Entry::Vacant(place) = self.rows.entry(row.id) {
            place.insert(Held { row: Some(row), in_view: true });
            self.note_keys(&row);
        }
    }

    fn note_keys(&mut self, row: &Pending) {
        for (sorted, order) in self.sorted.iter_mut().zip([Order::ByConsumer, Order::ByTime]) {
            sorted.change(|keys| {
                keys.insert(row.key(order));
            });
        }
        self.live += 1;
    }

    /// Keys in the order of times before which the entries of all rows are gone: of what nobody has, of what somebody has.
    pub fn gone_before(&self) -> [Key; 2] {
        self.gone_before
    }

    /// The last ID of the stream goes down: an entry that is gone may come back.
    pub fn forget_gone(&mut self) {
        self.gone_before = Default::default();
    }

    /// Whoever looked says that the entries of all rows of its part that come before `key` are gone.
    pub fn note_gone(&mut self, key: Key, owned: bool) {
        if let Some(mark) = self.gone_before.get_mut(usize::from(owned)) {
            *mark = key;
        }
    }

    /// `row` is what is so now. `in_view` says whether the view may have a row of this ID.
    pub fn set(&mut self, row: Pending, in_view: bool) {
        let key = row.key(Order::ByTime);
        if let Some(mark) = self.gone_before.get_mut(usize::from(row.consumer != 0)) {
            *mark = key.min(*mark);
        }
        let before = match self.rows.entry(row.id) {
            Entry::Vacant(place) => {
                place.insert(Held { row: Some(row), in_view });
                None
            }
            Entry::Occupied(mut place) => {
                let held = place.get_mut();
                held.in_view |= in_view;
                held.row.replace(row)
            }
        };
        if let Some(old) = before {
            self.forget_keys(&old);
        }
        self.note_keys(&row);
    }

    /// The entry is pending no more.
    pub fn end(&mut self, id: Id) {
        match self.rows.remove(&id) {
            Some(held) => {
                if let Some(old) = held.row {
                    self.forget_keys(&old);
                }
                if held.in_view {
                    self.rows.insert(id, Held { row: None, in_view: true });
                }
            }
            // Nothing is known of it here: it was in the view.
            None => drop(self.rows.insert(id, Held { row: None, in_view: true })),
        }
    }

    pub fn clear(&mut self) {
        *self = Overlay::default();
    }

    /// The view says all of it now: what is known beyond that stands.
    pub fn merged(&mut self) {
        *self = Overlay { gone_before: self.gone_before, ..Overlay::default() };
    }

    /// The pending row with the greatest ID.
    pub fn last(&self) -> Option<Pending> {
        self.rows.values().rev().find_map(|held| held.row)
    }

    /// IDs named here, in order, with what is so now.
    pub fn iter(&self) -> impl Iterator<Item = (Id, Option<Pending>)> + '_ {
        self.rows.iter().map(|(id, held)| (*id, held.row))
    }

    /// Pending rows from `from` on (before `until`), in the order asked for.
    pub fn range(&mut self, order: Order, from: Key, until: Option<Key>) -> Box<dyn Iterator<Item = Pending> + '_> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        // In the order of IDs nothing is behind the greatest one, where `from` begins with 1.
        if until.is_some_and(|until| until <= from) || (order == Order::ById && from.0 > 0) {
            return Box::new(std::iter::empty());
        }
        let keys = (Included(from), until.map_or(Unbounded, Excluded));
        let at = match order {
            Order::ById => {
                let low = Id::new(from.1, from.2);
                let high = until.map_or(Unbounded, |until| match until.0 {
                    0 => Excluded(Id::new(until.1, until.2)),
                    _ => Unbounded,
                });
                return Box::new(self.rows.range((Included(low), high)).filter_map(|(_, held)| held.row));
            }
            Order::ByConsumer => 0,
            Order::ByTime => 1,
        };
        let rows = &self.rows;
        let [by_consumer, by_time] = &mut self.sorted;
        let sorted = if at == 0 { by_consumer } else { by_time };
        if sorted.left == 0 {
            sorted.keys = rows.values().filter_map(|held| held.row.map(|row| row.key(order))).collect();
        }
        sorted.left = KEPT_CHANGES;
        Box::new(sorted.keys.range(keys).filter_map(|key| rows.get(&Id::new(key.1, key.2)).and_then(|held| held.row)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn row(ms: u64, consumer: u32, time_ms: u64) -> Pending {
        Pending { id: Id::new(ms, 0), consumer, time_ms, deliveries: 1 }
    }

    #[test]
    fn what_the_view_does_not_have_is_known_until_the_overlay_begins_anew() {
        let mut overlay = Overlay::default();
        overlay.note_absent(Id::new(1, 1));
        assert!(overlay.knows(Id::new(1, 1)) && !overlay.knows(Id::new(1, 2)));
        assert_eq!((overlay.get(Id::new(1, 1)), overlay.len()), (None, 0));
        overlay.set(Pending { id: Id::new(1, 1), consumer: 1, time_ms: 5, deliveries: 1 }, false);
        overlay.end(Id::new(1, 1));
        assert!(overlay.knows(Id::new(1, 1)));
        overlay.clear();
        assert!(!overlay.knows(Id::new(1, 1)));
    }

    #[test]
    fn what_is_known_to_be_absent_fills_no_memory() {
        let mut overlay = Overlay::default();
        (0..3 * MOST_ABSENT as u64).for_each(|ms| overlay.note_absent(Id::new(ms, 0)));
        assert!(overlay.absent.len() <= MOST_ABSENT);
        assert!(overlay.knows(Id::new(3 * MOST_ABSENT as u64 - 1, 0)));
    }

    #[test]
    fn what_began_and_ended_here_leaves_nothing_behind() {
        let mut overlay = Overlay::default();
        overlay.set(row(1, 1, 5), false);
        overlay.end(Id::new(1, 0));
        assert!(overlay.is_empty());
        assert_eq!(overlay.live(), 0);
    }

    #[test]
    fn the_end_of_what_the_view_may_have_is_remembered() {
        let mut overlay = Overlay::default();
        overlay.end(Id::new(1, 0));
        overlay.set(row(2, 1, 5), true);
        overlay.set(row(2, 2, 6), false);
        overlay.end(Id::new(2, 0));
        assert_eq!(overlay.iter().collect::<Vec<_>>(), [(Id::new(1, 0), None), (Id::new(2, 0), None)]);
    }

    #[test]
    fn what_is_set_before_a_mark_is_looked_at_again() {
        let owned = |time_ms| row(1, 1, time_ms).key(Order::ByTime);
        let mut overlay = Overlay::default();
        overlay.note_gone((7, 0, 0), false);
        overlay.note_gone(owned(50), true);
        overlay.set(row(2, 1, 60), false);
        overlay.set(row(3, 0, 8), false);
        overlay.merged();
        assert_eq!(overlay.gone_before(), [(7, 0, 0), owned(50)]);
        overlay.set(row(1, 1, 40), false);
        overlay.set(row(4, 0, 6), false);
        assert_eq!(overlay.gone_before(), [(6, 4, 0), owned(40)]);
        overlay.forget_gone();
        assert_eq!(overlay.gone_before(), [(0, 0, 0); 2]);
    }

    #[test]
    fn rows_come_in_each_order_as_they_are_now() {
        let mut overlay = Overlay::default();
        overlay.set(row(1, 2, 50), false);
        overlay.set(row(2, 1, 40), false);
        overlay.set(row(3, 1, 30), false);
        overlay.set(row(3, 2, 60), false);
        let mut ids = |order, from| overlay.range(order, from, None).map(|row| row.id.ms).collect::<Vec<_>>();
        assert_eq!(ids(Order::ById, (0, 2, 0)), [2, 3]);
        assert_eq!(ids(Order::ByConsumer, (2, 0, 0)), [1, 3]);
        assert_eq!(ids(Order::ByTime, (0, 0, 0)), [2, 1, 3]);
        assert_eq!(overlay.live(), 3);
    }
}

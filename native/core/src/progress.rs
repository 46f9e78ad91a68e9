//! How far a group has come: entries read, and lag, counted as Redis counts them.
//!
//! Both are exact as long as no deletion can have come in between, and otherwise unknown: see
//! `streamEstimateDistanceFromFirstEverEntry` in Redis.

use crate::groups::Group;
use crate::id::Id;
use crate::state::State;

impl State {
    /// How many entries were ever added up to `id`; `first` is the first live one (0-0 where there is none).
    pub fn estimate(&self, id: Id, first: Id) -> Option<u64> {
        let (added, length) = (self.entries_added, self.len());
        if added == 0 {
            return Some(0);
        }
        if length == 0 && id <= self.last_id {
            return Some(added);
        }
        if id != Id::MIN && id < self.max_deleted {
            return None;
        }
        match id.cmp(&self.last_id) {
            std::cmp::Ordering::Equal => return Some(added),
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
        }
        if self.max_deleted == Id::MIN || self.max_deleted < first {
            let before_first = added.saturating_sub(length);
            match id.cmp(&first) {
                std::cmp::Ordering::Less => return Some(before_first),
                std::cmp::Ordering::Equal => return Some(before_first.saturating_add(1)),
                std::cmp::Ordering::Greater => {}
            }
        }
        None
    }

    fn deleted_from(&self, id: Id) -> bool {
        !self.is_empty() && self.max_deleted != Id::MIN && id <= self.max_deleted
    }

    /// Entries that a group has not read yet. Below zero where more was said to be read than was ever added, as in Redis.
    pub fn lag(&self, group: &Group, first: Id) -> Option<i64> {
        if self.entries_added == 0 || self.is_empty() {
            return Some(0);
        }
        if group.last < first && self.max_deleted < first {
            return Some(self.len() as i64);
        }
        match group.read {
            Some(read) if !self.deleted_from(group.last) => {
                Some((self.entries_added as i64).saturating_sub(read as i64))
            }
            _ => self.estimate(group.last, first).map(|read| (self.entries_added as i64).saturating_sub(read as i64)),
        }
    }

    /// Entries read after `ids` are delivered to a group that stands at `last`.
    pub fn read_after(&self, mut last: Id, mut read: Option<u64>, ids: &[Id], first: Id) -> Option<u64> {
        for id in ids {
            read = match read {
                Some(read) if last >= first && !self.deleted_from(last) => Some(read.saturating_add(1)),
                read if self.entries_added == 0 => read,
                _ => self.estimate(*id, first),
            };
            last = *id;
        }
        read
    }
}

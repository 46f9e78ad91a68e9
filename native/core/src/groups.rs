//! The consumer groups of a stream, as one process follows them through the log.
//!
//! Groups and consumers are few and stand here whole. Their pending entries may be millions: what the view holds of
//! them stays there, and only what changed since is kept, as an [`Overlay`]. Without a view the overlay is all there is.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::freed::Freed;
use crate::group_ops::{put_name, put_optional, read_name, read_optional, Op, Owner};
use crate::id::Id;
use crate::idempotence::Windows;
use crate::overlay::Overlay;
use crate::pending::Pending;
use crate::wire::{put_id, put_varint, Reader};

/// Groups of a stream, consumers of a group, pending entries of a stream: no more of each.
pub const MAX_GROUPS: usize = 10_000;
pub const MAX_CONSUMERS: usize = 100_000;
pub const MAX_PENDING: u64 = 32_000_000;
/// The names of all groups, consumers, producers and messages of a stream together. With the greatest number of pending
/// entries, at most 45 bytes each, a snapshot stays below its own limit.
pub const MAX_NAMES_BYTES: u64 = 512 << 20;
/// What a group, a consumer or a message takes beside its name, about.
const BESIDE_NAME_BYTES: u64 = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consumer {
    pub name: Vec<u8>,
    pub seen_ms: u64,
    pub active_ms: Option<u64>,
    pub pending: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Group {
    pub name: Vec<u8>,
    pub last: Id,
    pub read: Option<u64>,
    pub consumers: BTreeMap<u32, Consumer>,
    names: BTreeMap<Vec<u8>, u32>,
    pub next_consumer: u32,
    pub pending: u64,
    /// Of these, nobody's.
    pub refused: u64,
    /// Numbers the refusals.
    pub refusals: u64,
    /// The greatest ID that was ever pending: beyond it nothing need be looked up.
    pub greatest: Id,
    pub overlay: Overlay,
    /// Bytes of the names of its consumers.
    own_names_bytes: u64,
}

/// Which log position the view stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// No view: the overlays are whole.
    #[default]
    Nothing,
    /// The view holds what was so after the frame of this number, which had this header checksum.
    View(u64, u32),
}

#[derive(Debug, Clone, Default)]
pub struct Groups {
    pub by_number: BTreeMap<u32, Group>,
    names: BTreeMap<Vec<u8>, u32>,
    pub next_group: u32,
    pub base: Base,
    pub windows: Windows,
    pub names_bytes: u64,
    pub freed: Freed,
    /// Whether this process keeps no view, and takes no notice of others' (a store open for reading only).
    pub apart: bool,
}

/// The number of what is new, where the next one is `next`: the greatest is never given, as there is none behind it, and
/// a frame that gave one a second time could be applied by nobody.
fn fresh(next: u32, what: &'static str) -> Result<u32> {
    if next == u32::MAX {
        return Err(Error::Limit { what, limit: u64::from(u32::MAX) - 1, found: u64::from(u32::MAX) });
    }
    Ok(next.max(1))
}

impl Group {
    /// The number of a new consumer. A limit where all have been given, which takes making four thousand million.
    pub fn fresh_consumer(&self) -> Result<u32> {
        fresh(self.next_consumer, "how many consumers a group has ever had")
    }

    pub fn consumer(&self, name: &[u8]) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// Pending entries of which only the view knows.
    pub fn in_view(&self) -> u64 {
        self.pending.saturating_sub(self.overlay.live())
    }

    /// Whether the view must be asked about `id`.
    pub fn is_unknown(&self, id: Id) -> bool {
        id <= self.greatest && self.in_view() > 0 && !self.overlay.knows(id)
    }

    /// The pending entry with this ID, as far as it is known without the view.
    pub fn find(&self, id: Id) -> Option<Pending> {
        self.overlay.get(id).flatten()
    }

    fn count_out(&mut self, owner: Owner) -> Result<()> {
        let Some(owner) = owner else { return Ok(()) };
        let counts =
            if owner == 0 { Some(&mut self.refused) } else { self.consumers.get_mut(&owner).map(|it| &mut it.pending) };
        for count in [counts, Some(&mut self.pending)] {
            match count {
                Some(count) if *count > 0 => *count -= 1,
                _ => return Err(Error::corrupt("group frame", 0, "an owner with pending entries", owner)),
            }
        }
        Ok(())
    }

    fn count_in(&mut self, owner: u32) -> Result<()> {
        if owner == 0 {
            self.refused = self.refused.saturating_add(1);
        } else {
            let it = self.consumer_mut(owner)?;
            it.pending = it.pending.saturating_add(1);
        }
        self.pending = self.pending.saturating_add(1);
        Ok(())
    }

    fn consumer_mut(&mut self, number: u32) -> Result<&mut Consumer> {
        self.consumers.get_mut(&number).ok_or_else(|| Error::corrupt("group frame", 0, "a consumer", number))
    }

    fn set(&mut self, row: Pending, owner: Owner) -> Result<()> {
        self.count_out(owner)?;
        self.count_in(row.consumer)?;
        self.overlay.set(row, owner.is_some());
        self.greatest = self.greatest.max(row.id);
        Ok(())
    }

    fn add_consumer(&mut self, number: u32, consumer: Consumer) -> Result<()> {
        if number == 0 || self.names.contains_key(&consumer.name) || self.consumers.contains_key(&number) {
            return Err(Error::corrupt("group frame", 0, "a new consumer", number));
        }
        self.own_names_bytes += consumer.name.len() as u64 + BESIDE_NAME_BYTES;
        self.names.insert(consumer.name.clone(), number);
        self.consumers.insert(number, consumer);
        self.next_consumer = self.next_consumer.max(number.saturating_add(1));
        Ok(())
    }

    fn apply(&mut self, op: &Op, time_ms: u64) -> Result<()> {
        match op {
            Op::Position { last, read, .. } => (self.last, self.read) = (*last, *read),
            Op::Consumer { consumer, name, .. } => {
                let fresh = Consumer { name: name.clone(), seen_ms: time_ms, ..Consumer::default() };
                self.add_consumer(*consumer, fresh)?;
            }
            Op::Dismiss { consumer, .. } => {
                if self.consumers.get(consumer).is_some_and(|it| it.pending > 0) {
                    return Err(Error::corrupt("group frame", 0, "a consumer without pending entries", consumer));
                }
                let gone = self.consumers.remove(consumer);
                let gone = gone.ok_or_else(|| Error::corrupt("group frame", 0, "a consumer", consumer))?;
                self.own_names_bytes -= gone.name.len() as u64 + BESIDE_NAME_BYTES;
                self.names.remove(&gone.name);
            }
            Op::Deliver { consumer, last, read, ids, .. } => self.deliver(*consumer, *last, *read, ids, time_ms)?,
            Op::End { ids, .. } => {
                for (id, owner) in ids {
                    self.count_out(*owner)?;
                    self.overlay.end(*id);
                }
            }
            Op::Assign { consumer, active, rows, owners, .. } => {
                for (row, owner) in rows.iter().zip(owners) {
                    self.set(*row, *owner)?;
                }
                let consumer = self.consumer_mut(*consumer)?;
                consumer.seen_ms = time_ms;
                if *active {
                    consumer.active_ms = Some(time_ms);
                }
            }
            Op::Refuse { first, rows, .. } => {
                for (row, (_, owner, _)) in refused(*first, rows).zip(rows) {
                    self.refusals = row.time_ms;
                    self.set(row, *owner)?;
                }
            }
            Op::Seen { consumer, .. } => self.consumer_mut(*consumer)?.seen_ms = time_ms,
            _ => {}
        }
        Ok(())
    }

    /// New entries for a consumer: none of them was pending.
    pub fn deliver(&mut self, consumer: u32, last: Id, read: Option<u64>, ids: &[Id], time_ms: u64) -> Result<()> {
        let it = self.consumer_mut(consumer)?;
        it.seen_ms = time_ms;
        it.active_ms = Some(time_ms);
        // Numbers of a snapshot are what somebody wrote there: they count up to the greatest, never around.
        it.pending = it.pending.saturating_add(ids.len() as u64);
        self.pending = self.pending.saturating_add(ids.len() as u64);
        for id in ids {
            self.overlay.set(Pending { id: *id, consumer, time_ms, deliveries: 1 }, false);
            self.greatest = self.greatest.max(*id);
        }
        (self.last, self.read) = (last, read);
        Ok(())
    }

    fn names_bytes(&self) -> u64 {
        self.name.len() as u64 + BESIDE_NAME_BYTES + self.own_names_bytes
    }

    /// Counts anew what the overlay, which must be whole, holds.
    pub fn recount(&mut self) {
        (self.pending, self.refused) = (0, 0);
        self.consumers.values_mut().for_each(|consumer| consumer.pending = 0);
        for (_, row) in self.overlay.iter() {
            let Some(row) = row else { continue };
            self.pending += 1;
            match self.consumers.get_mut(&row.consumer) {
                Some(consumer) => consumer.pending += 1,
                None => self.refused += 1,
            }
        }
    }

    /// Takes those rows of `ids` from the view into the overlay, which then knows of them, and of which there is none.
    /// `rows` are all that the view has where they would be; both are in order.
    pub fn adopt(&mut self, rows: &[Pending], ids: &[Id]) {
        let mut rows = rows.iter().peekable();
        for id in ids {
            while rows.next_if(|row| row.id < *id).is_some() {}
            match rows.next_if(|row| row.id == *id) {
                Some(row) => self.overlay.adopt(*row),
                None if self.overlay.get(*id).is_none() => self.overlay.note_absent(*id),
                None => {}
            }
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_name(out, &self.name);
        put_id(out, self.last);
        put_optional(out, self.read);
        put_id(out, self.greatest);
        for value in
            [u64::from(self.next_consumer), self.pending, self.refused, self.refusals, self.consumers.len() as u64]
        {
            put_varint(out, value);
        }
        for (number, consumer) in &self.consumers {
            put_varint(out, u64::from(*number));
            put_name(out, &consumer.name);
            put_varint(out, consumer.seen_ms);
            put_optional(out, consumer.active_ms);
            put_varint(out, consumer.pending);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Group> {
        let mut group = Group {
            name: read_name(reader)?,
            last: reader.id()?,
            read: read_optional(reader)?,
            greatest: reader.id()?,
            ..Group::default()
        };
        let next = reader.count(u32::MAX as usize, "a consumer's number")? as u32;
        (group.pending, group.refused, group.refusals) = (reader.varint()?, reader.varint()?, reader.varint()?);
        for _ in 0..reader.count(MAX_CONSUMERS, "a number of consumers")? {
            let number = reader.count(u32::MAX as usize, "a consumer's number")? as u32;
            let (name, seen_ms) = (read_name(reader)?, reader.varint()?);
            let (active_ms, pending) = (read_optional(reader)?, reader.varint()?);
            group.add_consumer(number, Consumer { name, seen_ms, active_ms, pending })?;
        }
        group.next_consumer = next;
        Ok(group)
    }
}

/// The rows of refused entries, numbered from `first` on.
fn refused(first: u64, rows: &[(Id, Owner, u64)]) -> impl Iterator<Item = Pending> + '_ {
    rows.iter().zip(first..).map(|((id, _, deliveries), number)| Pending {
        id: *id,
        consumer: 0,
        time_ms: number,
        deliveries: *deliveries,
    })
}

impl Groups {
    pub fn number(&self, name: &[u8]) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub fn group_mut(&mut self, number: u32) -> Result<&mut Group> {
        self.by_number.get_mut(&number).ok_or_else(|| Error::corrupt("group frame", 0, "a group", number))
    }

    /// Whether there is nothing to say of groups.
    pub fn is_empty(&self) -> bool {
        self.next_group == 0 && self.windows.is_default()
    }

    /// The number of a new group; a limit likewise.
    pub fn fresh_group(&self) -> Result<u32> {
        fresh(self.next_group, "how many groups a stream has ever had")
    }

    pub fn pending(&self) -> u64 {
        self.by_number.values().map(|group| group.pending).fold(0, u64::saturating_add)
    }

    /// IDs that overlays name.
    pub fn overlay_rows(&self) -> usize {
        self.by_number.values().map(|group| group.overlay.len()).sum()
    }

    fn add(&mut self, number: u32, group: Group) -> Result<()> {
        if self.names.contains_key(&group.name) || self.by_number.contains_key(&number) {
            return Err(Error::corrupt("group frame", 0, "a new group", number));
        }
        self.names_bytes += group.names_bytes();
        self.names.insert(group.name.clone(), number);
        self.by_number.insert(number, group);
        self.next_group = self.next_group.max(number.saturating_add(1));
        Ok(())
    }

    /// Applies a record; those of entries (delete, trim), commits and settings are the stream's to apply.
    pub fn apply(&mut self, op: &Op, time_ms: u64) -> Result<()> {
        match op {
            Op::Create { group, name, last, read } => {
                let fresh =
                    Group { name: name.clone(), last: *last, read: *read, next_consumer: 1, ..Group::default() };
                self.add(*group, fresh)
            }
            Op::Destroy { group } => {
                let gone = self.by_number.remove(group);
                let gone = gone.ok_or_else(|| Error::corrupt("group frame", 0, "a group", group))?;
                self.names.remove(&gone.name);
                self.names_bytes = self.names_bytes.saturating_sub(gone.names_bytes());
                self.freed.note_any();
                Ok(())
            }
            Op::Message { producer, message, id, time_ms } => {
                self.windows.note(producer, message.clone(), *id, *time_ms);
                Ok(())
            }
            Op::Windows { duration_s, messages } => {
                self.windows.configure(*duration_s, *messages);
                Ok(())
            }
            Op::Delete { .. } | Op::Trim { .. } | Op::Commit { .. } | Op::Setting { .. } => Ok(()),
            Op::Position { group, .. }
            | Op::Consumer { group, .. }
            | Op::Dismiss { group, .. }
            | Op::Deliver { group, .. }
            | Op::End { group, .. }
            | Op::Assign { group, .. }
            | Op::Refuse { group, .. }
            | Op::Seen { group, .. } => {
                if let Op::End { ids, .. } = op {
                    ids.iter().for_each(|(id, _)| self.freed.note(*id));
                }
                let group = self.group_mut(*group)?;
                let before = group.own_names_bytes;
                group.apply(op, time_ms)?;
                let after = group.own_names_bytes;
                self.names_bytes = (self.names_bytes + after).saturating_sub(before);
                Ok(())
            }
        }
    }

    /// The view now holds all up to frame `lsn`, the one before the frame that says so.
    pub fn viewed(&mut self, lsn: u64, link: u32) {
        if self.apart {
            return;
        }
        self.base = Base::View(lsn, link);
        self.by_number.values_mut().for_each(|group| group.overlay.merged());
    }

    /// The view turns out to stand elsewhere: overlays are begun anew, and filled by [`Groups::replay`].
    pub fn rebase(&mut self, base: Base) {
        self.base = base;
        self.by_number.values_mut().for_each(|group| group.overlay.clear());
    }

    /// What a record changed in pending entries only, for overlays that were begun anew: the rest stands already.
    pub fn replay(&mut self, op: &Op, time_ms: u64) {
        let (Op::Deliver { group, .. } | Op::End { group, .. } | Op::Assign { group, .. } | Op::Refuse { group, .. }) =
            op
        else {
            return;
        };
        // Of a group that is gone by now nothing is wanted.
        let Some(group) = self.by_number.get_mut(group) else { return };
        match op {
            Op::Deliver { consumer, ids, .. } => {
                for id in ids {
                    group.overlay.set(Pending { id: *id, consumer: *consumer, time_ms, deliveries: 1 }, true);
                }
            }
            Op::End { ids, .. } => ids.iter().for_each(|(id, _)| group.overlay.end(*id)),
            Op::Assign { rows, .. } => rows.iter().for_each(|row| group.overlay.set(*row, true)),
            Op::Refuse { first, rows, .. } => refused(*first, rows).for_each(|row| group.overlay.set(row, true)),
            _ => {}
        }
    }

    /// Section 16 of a snapshot.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.next_group));
        put_varint(out, self.by_number.len() as u64);
        for (number, group) in &self.by_number {
            put_varint(out, u64::from(*number));
            group.put(out);
        }
        self.windows.put(out);
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Groups> {
        let mut groups = Groups::default();
        let next = reader.count(u32::MAX as usize, "a group's number")? as u32;
        for _ in 0..reader.count(MAX_GROUPS, "a number of groups")? {
            let number = reader.count(u32::MAX as usize, "a group's number")? as u32;
            let group = Group::read(reader)?;
            groups.add(number, group)?;
        }
        groups.next_group = next;
        groups.windows = Windows::read(reader)?;
        Ok(groups)
    }

    /// All pending rows of a group whose overlay is whole, in order.
    pub fn whole_rows(group: &Group) -> Vec<Pending> {
        group.overlay.iter().filter_map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;

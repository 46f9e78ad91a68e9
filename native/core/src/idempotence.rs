//! Which messages of which producers were added already: the windows of Redis 8.6's IDMP.
//!
//! A producer's messages are remembered first in, first out, up to a number, and for a time after the milliseconds of
//! the ID they were given. Both limits can be set for each stream.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::Result;
use crate::group_ops::{put_name, read_name};
use crate::id::Id;
use crate::wire::{put_id, put_u64, put_varint, Reader};

/// Redis's defaults (`stream-idmp-duration`, `stream-idmp-maxsize`).
pub const DEFAULT_DURATION_S: u64 = 100;
pub const DEFAULT_MESSAGES: u64 = 100;
/// Producers remembered at a time, so that their number cannot grow without a limit: the one heard of longest ago goes.
pub const MAX_PRODUCERS: usize = 1 << 16;
/// What is too old is forgotten for good after so long, should the clock step back meanwhile.
const GRACE_MS: u64 = 60_000;
/// What a message takes beside its names, about.
const BESIDE_BYTES: usize = 32;

#[derive(Debug, Clone, Default)]
struct Producer {
    ids: BTreeMap<Vec<u8>, Id>,
    order: VecDeque<Vec<u8>>,
}

impl Producer {
    /// The ID of the oldest message.
    fn first(&self) -> Option<Id> {
        self.order.front().and_then(|message| self.ids.get(message)).copied()
    }

    /// The ID of the newest.
    fn last(&self) -> Option<Id> {
        self.order.back().and_then(|message| self.ids.get(message)).copied()
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Windows {
    pub duration_s: u64,
    pub messages: u64,
    producers: BTreeMap<Vec<u8>, Producer>,
    /// Each producer by its oldest message: who is looked at first for what is too old.
    oldest: BTreeSet<(Id, Vec<u8>)>,
    /// Each producer by its newest message: who was heard of longest ago is forgotten where there are too many.
    newest: BTreeSet<(Id, Vec<u8>)>,
    pub names_bytes: u64,
    pub added: u64,
    /// Duplicates refused by this process: not in the log, since they change nothing.
    pub duplicates: u64,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows {
            duration_s: DEFAULT_DURATION_S,
            messages: DEFAULT_MESSAGES,
            producers: BTreeMap::new(),
            oldest: BTreeSet::new(),
            newest: BTreeSet::new(),
            names_bytes: 0,
            added: 0,
            duplicates: 0,
        }
    }
}

impl Windows {
    pub fn is_default(&self) -> bool {
        self.producers.is_empty()
            && self.added == 0
            && (self.duration_s, self.messages) == (DEFAULT_DURATION_S, DEFAULT_MESSAGES)
    }

    fn is_past(&self, id: Id, now_ms: u64) -> bool {
        id.ms.saturating_add(self.duration_s.saturating_mul(1000)) < now_ms
    }

    /// The ID under which a message was added, as long as it is remembered.
    pub fn find(&self, producer: &[u8], message: &[u8], now_ms: u64) -> Option<Id> {
        let id = *self.producers.get(producer)?.ids.get(message)?;
        (!self.is_past(id, now_ms)).then_some(id)
    }

    /// Remembers a message, and forgets what is too old or one too many.
    pub fn note(&mut self, producer: &[u8], message: Vec<u8>, id: Id, now_ms: u64) {
        let long_past = now_ms.saturating_sub(GRACE_MS);
        let past =
            |windows: &Windows| windows.oldest.first().filter(|(id, _)| windows.is_past(*id, long_past)).cloned();
        while let Some((_, name)) = past(self) {
            self.forget_oldest(&name);
        }
        self.keep(producer, message, id);
        while self.producers.get(producer).is_some_and(|known| known.order.len() as u64 > self.messages) {
            self.forget_oldest(producer);
        }
        self.added = self.added.saturating_add(1);
        if self.producers.len() > MAX_PRODUCERS {
            if let Some((_, name)) = self.newest.first().cloned() {
                while self.producers.contains_key(&name) {
                    self.forget_oldest(&name);
                }
            }
        }
    }

    /// The bytes of names that the next message would have forgotten, as [`Windows::note`] does.
    pub fn past_names_bytes(&self, now_ms: u64) -> u64 {
        let long_past = now_ms.saturating_sub(GRACE_MS);
        let of = |(producer, known): (&Vec<u8>, &Producer)| -> u64 {
            let ids = known.order.iter().map(|message| (message, known.ids.get(message)));
            ids.take_while(|(_, id)| id.is_some_and(|id| self.is_past(*id, long_past)))
                .map(|(message, _)| (producer.len() + message.len() + BESIDE_BYTES) as u64)
                .sum()
        };
        self.producers.iter().map(of).sum()
    }

    fn keep(&mut self, producer: &[u8], message: Vec<u8>, id: Id) {
        let known = self.producers.entry(producer.to_vec()).or_default();
        let before = (known.first(), known.last());
        if known.ids.insert(message.clone(), id).is_some() {
            known.order.retain(|other| *other != message);
        } else {
            self.names_bytes += (producer.len() + message.len() + BESIDE_BYTES) as u64;
        }
        known.order.push_back(message);
        let after = (known.first(), known.last());
        self.reorder(producer, before, after);
    }

    fn forget_oldest(&mut self, producer: &[u8]) {
        let Some(known) = self.producers.get_mut(producer) else { return };
        let before = (known.first(), known.last());
        if let Some(message) = known.order.pop_front() {
            known.ids.remove(&message);
            let size = (producer.len() + message.len() + BESIDE_BYTES) as u64;
            self.names_bytes = self.names_bytes.saturating_sub(size);
        }
        let after = (known.first(), known.last());
        if after.0.is_none() {
            self.producers.remove(producer);
        }
        self.reorder(producer, before, after);
    }

    /// A producer's oldest and newest message are other ones.
    fn reorder(&mut self, producer: &[u8], before: (Option<Id>, Option<Id>), after: (Option<Id>, Option<Id>)) {
        let pairs = [(&mut self.oldest, before.0, after.0), (&mut self.newest, before.1, after.1)];
        for (order, before, after) in pairs.into_iter().filter(|(_, before, after)| before != after) {
            if let Some(id) = before {
                order.remove(&(id, producer.to_vec()));
            }
            if let Some(id) = after {
                order.insert((id, producer.to_vec()));
            }
        }
    }

    /// Sets the limits. A change forgets everything, as in Redis.
    pub fn configure(&mut self, duration_s: u64, messages: u64) {
        if (duration_s, messages) != (self.duration_s, self.messages) {
            (self.duration_s, self.messages) = (duration_s, messages);
            self.producers.clear();
            self.oldest.clear();
            self.newest.clear();
            self.names_bytes = 0;
        }
    }

    /// `(producers, messages)` remembered at `now_ms`.
    pub fn tracked(&self, now_ms: u64) -> (u64, u64) {
        let live = |known: &Producer| known.ids.values().filter(|id| !self.is_past(**id, now_ms)).count() as u64;
        let counts: Vec<u64> = self.producers.values().map(live).filter(|count| *count > 0).collect();
        (counts.len() as u64, counts.iter().sum())
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.duration_s);
        put_varint(out, self.messages);
        put_u64(out, self.added);
        put_varint(out, self.producers.len() as u64);
        for (name, known) in &self.producers {
            put_name(out, name);
            put_varint(out, known.order.len() as u64);
            for message in &known.order {
                put_name(out, message);
                put_id(out, known.ids.get(message).copied().unwrap_or_default());
            }
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Windows> {
        let (duration_s, messages, added) = (reader.varint()?, reader.varint()?, reader.u64()?);
        let mut windows = Windows { duration_s, messages, added, ..Windows::default() };
        for _ in 0..reader.count(MAX_PRODUCERS, "a number of producers")? {
            let name = read_name(reader)?;
            for _ in 0..reader.count(reader.remaining(), "a number of messages")? {
                let message = read_name(reader)?;
                let id = reader.id()?;
                windows.keep(&name, message, id);
            }
        }
        Ok(windows)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_remembered_by_number_and_by_time() {
        let mut windows = Windows::default();
        windows.configure(10, 2);
        for seq in 0..3u8 {
            windows.note(b"p", vec![seq], Id::new(1000, u64::from(seq)), 1000);
        }
        assert_eq!(windows.find(b"p", &[0], 1000), None, "one too many");
        assert_eq!(windows.find(b"p", &[1], 11_000), Some(Id::new(1000, 1)));
        assert_eq!(windows.find(b"p", &[1], 11_001), None, "too old");
        assert_eq!((windows.tracked(1000), windows.tracked(20_000), windows.added), ((1, 2), (0, 0), 3));
        let mut out = Vec::new();
        windows.put(&mut out);
        let back = Windows::read(&mut Reader::new(&out, "windows")).unwrap();
        assert_eq!(back.find(b"p", &[2], 1000), Some(Id::new(1000, 2)));
        windows.configure(10, 3);
        assert_eq!(windows.tracked(1000), (0, 0));
    }

    #[test]
    fn of_too_many_producers_the_one_heard_of_longest_ago_is_forgotten() {
        let mut windows = Windows::default();
        let name = |number: usize| number.to_le_bytes();
        for number in 0..MAX_PRODUCERS {
            windows.note(&name(number), b"first".to_vec(), Id::new(1000, number as u64), 1000);
        }
        windows.note(&name(0), b"second".to_vec(), Id::new(1001, 0), 1001);
        let mut out = Vec::new();
        windows.put(&mut out);
        let back = Windows::read(&mut Reader::new(&out, "windows")).unwrap();
        for mut windows in [windows, back] {
            windows.note(b"new", b"first".to_vec(), Id::new(1001, 1), 1001);
            assert_eq!(windows.find(&name(0), b"second", 1001), Some(Id::new(1001, 0)));
            assert_eq!(windows.find(&name(0), b"first", 1001), Some(Id::new(1000, 0)));
            assert_eq!(windows.find(&name(1), b"first", 1001), None);
            assert_eq!(windows.tracked(1001).0, MAX_PRODUCERS as u64);
        }
    }
}

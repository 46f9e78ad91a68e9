//! A stream's state without its entries: segments, counters, the trim watermark, deleted positions.
//!
//! Every process keeps a replica, made of a snapshot and the frames after it; [`State::apply`] is the only way in
//! which it changes.

use std::sync::Arc;

use crate::bitmap::Bitmap;
use crate::commits::{Commits, Part};
use crate::error::{Error, Result};
use crate::frame::{FrameHeader, Kind};
use crate::group_ops::{self, Op};
use crate::groups::Groups;
use crate::id::Id;
use crate::ops::{self, Place, SetId};
use crate::settings::Settings;
use crate::wire::{put_id, put_varint, Reader};

/// Segments that began unseen are remembered up to here: a recovery finds the files of others.
const MISSED: usize = 4096;

/// An approximate trim removes entries in runs of this many, as Redis removes whole nodes
/// (`stream-node-max-entries`, 100 by default).
pub const TRIM_GRANULE_ENTRIES: u64 = 100;

/// What is known of one segment without opening it.
///
/// ```text
/// meta := varint: number, generation, entries; first ID (16); last ID (16);
///         varint: least append time, greatest, size in log bytes, trimmed; bitmap of deleted positions
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentMeta {
    pub number: u64,
    pub generation: u32,
    pub entries: u64,
    pub first: Id,
    pub last: Id,
    pub min_time_ms: u64,
    pub max_time_ms: u64,
    pub size_bytes: u64,
    /// Entries before this position are gone.
    pub trimmed: u64,
    pub deleted: Arc<Bitmap>,
}

impl SegmentMeta {
    /// Entries that are neither trimmed away nor deleted.
    pub fn live(&self) -> u64 {
        self.live_range(0, self.entries)
    }

    fn live_range(&self, from: u64, to: u64) -> u64 {
        let from = from.max(self.trimmed);
        if from >= to {
            return 0;
        }
        (to - from) - self.deleted.count_range(from, to)
    }

    /// The first live entry at or beyond `position`, below which all is gone; behind the last one, as it stands.
    pub fn next_live(&self, position: u64) -> u64 {
        let from = position.max(self.trimmed);
        if from >= self.entries {
            return from;
        }
        self.deleted.first_absent(from, self.entries)
    }

    /// The position behind the last live entry below `position`; 0 where there is none.
    pub fn live_end(&self, position: u64) -> u64 {
        let from = self.trimmed;
        let found = self.deleted.last_absent_end(from, position.min(self.entries).max(from));
        if found > from {
            found
        } else {
            0
        }
    }

    pub fn is_live(&self, position: u64) -> bool {
        position >= self.trimmed && position < self.entries && !self.deleted.contains(position)
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, u64::from(self.generation));
        put_varint(out, self.entries);
        put_id(out, self.first);
        put_id(out, self.last);
        for value in [self.min_time_ms, self.max_time_ms, self.size_bytes, self.trimmed] {
            put_varint(out, value);
        }
        self.deleted.encode(out);
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<SegmentMeta> {
        let number = reader.varint()?;
        let generation = reader.count(u32::MAX as usize, "a generation")? as u32;
        let entries = reader.varint()?;
        let (first, last) = (reader.id()?, reader.id()?);
        let (min_time_ms, max_time_ms) = (reader.varint()?, reader.varint()?);
        let (size_bytes, trimmed) = (reader.varint()?, reader.varint()?);
        if trimmed > entries || first > last {
            return Err(reader.fault("a segment in order", trimmed));
        }
        let deleted = Arc::new(Bitmap::decode(reader, entries)?);
        Ok(SegmentMeta {
            number,
            generation,
            entries,
            first,
            last,
            min_time_ms,
            max_time_ms,
            size_bytes,
            trimmed,
            deleted,
        })
    }
}

/// The state of a stream.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub uuid: [u8; 16],
    pub sealed: Vec<SegmentMeta>,
    pub active: SegmentMeta,
    pub last_id: Id,
    pub max_deleted: Id,
    pub entries_added: u64,
    /// Live entries of the sealed segments.
    sealed_live: u64,
    /// Live entries of the active segment.
    active_live: u64,
    /// The greatest ID that a trim took, of the segments that are not listed any more.
    pub trimmed_to: Id,
    /// Files that the log no longer lists: `(number, generation)`, for whoever unlinks them.
    pub dropped: Vec<(u64, u32)>,
    /// Grows with each change of the sealed segments: of their list, of a watermark, of deleted positions.
    pub version: u64,
    pub groups: Groups,
    pub commits: Commits,
    pub settings: Settings,
    /// Where the snapshot's pending entries stand in its payload, for whoever has no view of them.
    pub pending: std::ops::Range<usize>,
}

impl State {
    /// The state of a stream without entries whose active segment is `number`.
    pub fn empty(number: u64) -> State {
        State { active: SegmentMeta { number, ..SegmentMeta::default() }, ..State::default() }
    }

    /// Live entries of the stream.
    #[inline]
    pub fn len(&self) -> u64 {
        self.sealed_live + self.active_live
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes over a segment of a snapshot, which must come after those before it and before segment `next`.
    pub fn push_sealed(&mut self, meta: SegmentMeta, next: u64) -> Result<()> {
        let in_order = self.sealed.last().is_none_or(|before| before.number < meta.number && before.last < meta.first);
        if !in_order || meta.number >= next {
            return Err(Error::corrupt("snapshot", 0, "segments in order", meta.number));
        }
        self.sealed_live += meta.live();
        self.sealed.push(meta);
        Ok(())
    }

    /// Notes the files that an earlier state listed, or whose segments began since, and that this one does not list: the
    /// frames that dropped them were not seen.
    pub fn note_missed(&mut self, before: &State) {
        let listed = |number: u64, generation: u32| {
            let at = self.sealed.partition_point(|meta| meta.number < number);
            self.sealed.get(at).is_some_and(|meta| (meta.number, meta.generation) == (number, generation))
        };
        let sealed = before.sealed.iter().map(|meta| (meta.number, meta.generation));
        let begun = (before.active.number..self.active.number).take(MISSED).map(|number| (number, 0));
        let missed: Vec<(u64, u32)> = sealed.chain(begun).filter(|(number, g)| !listed(*number, *g)).collect();
        self.dropped.extend(missed);
    }

    /// Remembers that a segment goes of which a trim took something; what was deleted one by one does not count.
    fn note_trimmed(&mut self, meta: &SegmentMeta) {
        if meta.trimmed > 0 {
            self.trimmed_to = self.trimmed_to.max(meta.last);
        }
    }

    pub fn segment(&self, number: u64) -> Option<&SegmentMeta> {
        if number == self.active.number {
            return Some(&self.active);
        }
        let index = self.sealed.binary_search_by_key(&number, |meta| meta.number).ok()?;
        self.sealed.get(index)
    }

    fn segment_mut(&mut self, number: u64) -> Option<&mut SegmentMeta> {
        if number == self.active.number {
            return Some(&mut self.active);
        }
        let index = self.sealed.binary_search_by_key(&number, |meta| meta.number).ok()?;
        self.sealed.get_mut(index)
    }

    /// Applies one frame. `last` is the ID of the last row of an entries frame.
    #[inline]
    pub fn apply(&mut self, header: &FrameHeader, payload: &[u8], last: Id) -> Result<()> {
        match header.kind {
            Kind::Entries => {
                self.apply_entries(header, last)?;
                if header.flags != 0 {
                    self.apply_records(header.split(payload)?.1, header.time_ms)?;
                }
            }
            Kind::Delete => self.apply_delete(payload)?,
            Kind::Trim => self.apply_trim(ops::read_trim(&mut Reader::new(payload, "trim frame"))?)?,
            Kind::SetId => {
                let set = SetId::parse(payload)?;
                if set.last < self.last_id {
                    self.groups.freed.note_any();
                    self.groups.by_number.values_mut().for_each(|group| group.overlay.forget_gone());
                }
                self.last_id = set.last;
                self.trimmed_to = self.trimmed_to.min(set.last); // what comes behind it now was never trimmed
                self.entries_added = set.entries_added;
                self.max_deleted = set.max_deleted;
            }
            Kind::Replace => self.apply_replace(payload)?,
            Kind::Mark => Reader::new(payload, "mark frame").end()?,
            Kind::Groups => self.apply_records(payload, header.time_ms)?,
            Kind::View => {
                let mut reader = Reader::new(payload, "view frame");
                let lsn = reader.varint()?;
                reader.end()?;
                self.groups.viewed(lsn, header.previous_crc);
            }
            Kind::Snapshot => {}
        }
        Ok(())
    }

    fn apply_records(&mut self, payload: &[u8], time_ms: u64) -> Result<()> {
        for op in group_ops::read_ops(payload)? {
            match &op {
                Op::Delete { payload } => self.apply_delete(payload)?,
                Op::Trim { place } => self.apply_trim(*place)?,
                Op::Commit { writer, version, part, time_ms } => {
                    self.commits.note(&Part { writer, version: *version, part: *part }, *time_ms)
                }
                Op::Setting { name, value } => self.settings.set(name, value)?,
                _ => self.groups.apply(&op, time_ms)?,
            }
        }
        Ok(())
    }

    fn apply_entries(&mut self, header: &FrameHeader, last: Id) -> Result<()> {
        if header.first <= self.last_id || last < header.first || header.entries == 0 {
            let expected = format!("IDs above {}", self.last_id);
            return Err(Error::corrupt("entries frame", 0, expected, header.first));
        }
        let count = u64::from(header.entries);
        let active = &mut self.active;
        if active.entries == 0 {
            active.first = header.first;
            active.min_time_ms = header.time_ms;
        }
        active.entries += count;
        active.last = last;
        active.min_time_ms = active.min_time_ms.min(header.time_ms);
        active.max_time_ms = active.max_time_ms.max(header.time_ms);
        active.size_bytes += header.frame_bytes() as u64;
        self.active_live += count;
        self.entries_added = self.entries_added.saturating_add(count);
        self.last_id = last;
        Ok(())
    }

    fn apply_trim(&mut self, place: Place) -> Result<()> {
        let beyond = self.segment(place.segment).is_some_and(|meta| place.position > meta.entries);
        if beyond || place.segment > self.active.number {
            return Err(Error::corrupt("trim frame", 0, "a place in this stream", format!("{place:?}")));
        }
        let mut kept = Vec::with_capacity(self.sealed.len());
        for mut meta in std::mem::take(&mut self.sealed) {
            if meta.number == place.segment {
                meta.trimmed = meta.trimmed.max(place.position.min(meta.entries));
            }
            if meta.number < place.segment || meta.live() == 0 {
                self.trimmed_to = self.trimmed_to.max(meta.last);
                self.dropped.push((meta.number, meta.generation));
            } else {
                kept.push(meta);
            }
        }
        self.sealed = kept;
        self.version += 1;
        self.sealed_live = self.sealed.iter().map(SegmentMeta::live).sum();
        if self.active.number == place.segment {
            self.active.trimmed = self.active.trimmed.max(place.position.min(self.active.entries));
            self.active_live = self.active.live();
        }
        Ok(())
    }

    fn apply_delete(&mut self, payload: &[u8]) -> Result<()> {
        // All of it is checked before any of it is applied.
        ops::read_delete(payload, |number, _, stop| match self.segment(number) {
            Some(meta) if stop > meta.entries => {
                Err(Error::corrupt("delete frame", 0, format!("positions below {}", meta.entries), stop))
            }
            _ => Ok(()),
        })?;
        let mut gone = 0u64;
        let mut gone_active = 0u64;
        let greatest = ops::read_delete(payload, |number, start, stop| {
            let active = number == self.active.number;
            // Positions of a segment that was dropped meanwhile are nobody's any more.
            let Some(meta) = self.segment_mut(number) else { return Ok(()) };
            let added = Arc::make_mut(&mut meta.deleted).insert_range(start.max(meta.trimmed), stop);
            *(if active { &mut gone_active } else { &mut gone }) += added;
            Ok(())
        })?;
        self.sealed_live -= gone;
        self.active_live -= gone_active;
        self.max_deleted = self.max_deleted.max(greatest);
        self.version += 1;
        if gone > 0 {
            let (kept, empty) = std::mem::take(&mut self.sealed).into_iter().partition(|meta| meta.live() > 0);
            self.sealed = kept;
            let empty: Vec<SegmentMeta> = empty;
            empty.iter().for_each(|meta| self.note_trimmed(meta));
            self.dropped.extend(empty.iter().map(|meta| (meta.number, meta.generation)));
        }
        Ok(())
    }

    fn apply_replace(&mut self, payload: &[u8]) -> Result<()> {
        let (inputs, output) = ops::read_replace(payload)?;
        let others = self.sealed.iter().filter(|meta| !inputs.contains(&meta.number));
        let mut in_order = output.number < self.active.number;
        for meta in others {
            in_order &= if meta.number < output.number { meta.last < output.first } else { meta.first > output.last };
            in_order &= meta.number != output.number;
        }
        if !in_order {
            return Err(Error::corrupt("replace frame", 0, "a segment between its neighbours", output.number));
        }
        let (replaced, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sealed).into_iter().partition(|meta| inputs.contains(&meta.number));
        self.dropped.extend(replaced.iter().map(|meta| (meta.number, meta.generation)));
        // Of what was trimmed from an input it is only known that it began before what is left.
        if let Some(meta) = replaced.iter().find(|meta| meta.trimmed > 0) {
            self.trimmed_to = self.trimmed_to.max(meta.first);
        }
        self.sealed = kept;
        if output.live() > 0 {
            let at = self.sealed.partition_point(|meta| meta.number < output.number);
            self.sealed.insert(at, output);
        }
        self.sealed_live = self.sealed.iter().map(SegmentMeta::live).sum();
        self.version += 1;
        Ok(())
    }

    /// The place that leaves `keep` entries, and how many go: what an exact `MAXLEN` trims to.
    ///
    /// With `approximate`, only whole runs of [`TRIM_GRANULE_ENTRIES`] go, and at most `limit` entries (0: any number).
    pub fn plan_trim(&self, keep: u64, approximate: bool, limit: u64) -> Option<(Place, u64)> {
        let mut wanted = self.len().saturating_sub(keep);
        if approximate && limit > 0 {
            wanted = wanted.min(limit);
        }
        let mut gone = 0u64;
        for meta in self.sealed.iter().chain(std::iter::once(&self.active)) {
            let live = meta.live();
            if live <= wanted - gone && meta.number != self.active.number {
                gone += live;
                continue;
            }
            let mut position = meta.deleted.skip_absent(meta.trimmed, meta.entries, wanted - gone);
            if approximate && live > 0 && live <= wanted - gone {
                // The last run of the active segment is still open, but it goes when all that is live in it may go.
                position = meta.entries;
            } else if approximate {
                // A run goes as soon as all that is live in it may go.
                let behind = meta.deleted.first_absent(position, meta.entries);
                position = (behind / TRIM_GRANULE_ENTRIES * TRIM_GRANULE_ENTRIES).max(meta.trimmed);
            }
            gone += meta.live_range(meta.trimmed, position);
            return (gone > 0).then_some((Place { segment: meta.number, position }, gone));
        }
        None
    }

    /// How many live entries stand before a place.
    pub fn live_before(&self, place: Place) -> u64 {
        let earlier = self.sealed.iter().chain(std::iter::once(&self.active));
        let mut total = 0;
        for meta in earlier.take_while(|meta| meta.number <= place.segment) {
            let end = if meta.number == place.segment { place.position.min(meta.entries) } else { meta.entries };
            total += meta.live_range(0, end);
        }
        total
    }
}

/// The meta of a compacted segment, when its inputs changed while it was written.
///
/// `then` are the inputs as they were when their live entries were copied, `now` as they are; an entry that was live
/// then and is not now is deleted in the output, at its rank among those that were copied.
pub fn remap_deleted(then: &[SegmentMeta], now: &[Option<SegmentMeta>]) -> Bitmap {
    let mut deleted = Bitmap::default();
    let mut rank = 0u64;
    for (old, new) in then.iter().zip(now) {
        for position in (old.trimmed..old.entries).filter(|position| !old.deleted.contains(*position)) {
            if !new.as_ref().is_some_and(|meta| meta.is_live(position)) {
                deleted.insert(rank);
            }
            rank += 1;
        }
    }
    deleted
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

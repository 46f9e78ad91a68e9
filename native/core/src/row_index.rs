//! A sparse index over the rows of a log file, and marks in its large frames: for reading by position and by ID.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::{Block, BlockBuilder};
use crate::error::Result;
use crate::frame::{self, FrameHeader, Kind};
use crate::id::Id;
use crate::marks::Marks;
use crate::rows::Packed;

/// A row of the index is made after this many entries or bytes, so that a seek unpacks little.
const ROW_ENTRIES: u64 = 64;
const ROW_BYTES: u64 = 4096;

/// A frame of more entries or bytes is large: it is not read in one go, so marks are kept for it.
const LARGE_ENTRIES: u32 = 2048;
const LARGE_BYTES: u32 = 256 << 10;

/// Marks by the offset of their frame and the checksum of its header: where a torn tail was cut off, another frame may
/// stand at the same offset.
type MarksByFrame = HashMap<(u64, u32), Arc<Marks>>;

/// Of a large frame there are marks only once its payload was compared with its checksum.
fn is_large(header: &FrameHeader) -> bool {
    header.entries > LARGE_ENTRIES || (header.length > LARGE_BYTES && header.entries > 1)
}

/// Where an entries frame stands, and what comes before it. `end` is that of the last entries frame before the next row:
/// of what stands between, frames of groups and the like, a reader knows without a look that it holds no entries.
#[derive(Debug, Clone, Copy)]
struct IndexRow {
    first: Id,
    offset: u64,
    end: u64,
    position: u64,
    previous_crc: u32,
}

/// An entries frame that was walked to.
struct Place {
    header: FrameHeader,
    offset: u64,
    /// Entries before it.
    position: u64,
}

/// The sparse index over the entries frames of one log file.
#[derive(Debug, Clone, Default)]
pub struct RowIndex {
    salt: u32,
    rows: Vec<IndexRow>,
    /// Entries indexed.
    pub entries: u64,
    /// Shared by all copies, so that each frame is gone through once.
    marks: Arc<Mutex<MarksByFrame>>,
}

impl RowIndex {
    pub(crate) fn new(salt: u32) -> RowIndex {
        RowIndex { salt, ..RowIndex::default() }
    }

    pub(crate) fn note(&mut self, header: &FrameHeader, offset: u64) {
        let due = self
            .rows
            .last()
            .is_none_or(|row| self.entries - row.position >= ROW_ENTRIES || offset - row.offset >= ROW_BYTES);
        if due {
            let (first, previous_crc) = (header.first, header.previous_crc);
            self.rows.push(IndexRow { first, offset, end: offset, position: self.entries, previous_crc });
        }
        if let Some(row) = self.rows.last_mut() {
            row.end = offset + header.frame_bytes() as u64;
        }
        self.entries += u64::from(header.entries);
    }

    /// Steps over the entries frames from row `at` up to offset `end`, by their headers alone.
    fn walk(&self, file: &[u8], at: usize, end: u64, mut each: impl FnMut(&Place) -> Result<bool>) -> Result<()> {
        for row in self.rows.iter().skip(at).take_while(|row| row.offset < end) {
            let (mut offset, mut position, mut link) = (row.offset, row.position, row.previous_crc);
            while offset < end.min(row.end) {
                let header = frame::parse_header(file, offset, self.salt, link)?;
                if header.kind == Kind::Entries {
                    if !each(&Place { header, offset, position })? {
                        return Ok(());
                    }
                    position += u64::from(header.entries);
                }
                link = header.header_crc;
                offset += header.frame_bytes() as u64;
            }
        }
        Ok(())
    }

    /// Has `each` look into the payload of a frame.
    ///
    /// A payload that has marks is not compared with its checksum as a whole again: it was before they were made, with
    /// this very header; and each part that is read has a checksum in them.
    fn look<R>(&self, file: &[u8], place: &Place, each: impl FnOnce(&Packed<'_>) -> Result<R>) -> Result<R> {
        let Place { header, offset, .. } = place;
        let key = (*offset, header.header_crc);
        let mut marks = if is_large(header) { self.known().get(&key).map(Arc::clone) } else { None };
        let payload = match marks {
            Some(_) => frame::payload_unchecked(file, *offset, header)?,
            None => frame::payload(file, *offset, header)?,
        };
        let (rows, _) = header.split(payload)?;
        if marks.is_none() && is_large(header) {
            let made = Marks::of(rows, header.first, header.entries).map_err(|error| error.at(*offset))?;
            marks = Some(Arc::clone(self.known().entry(key).or_insert_with(|| Arc::new(made))));
        }
        let packed = Packed { payload: rows, first: header.first, rows: header.entries, marks: marks.as_deref() };
        each(&packed).map_err(|error| error.at(*offset))
    }

    /// Held for a look at the map and no longer, so one who died with it has left the map whole.
    fn known(&self) -> MutexGuard<'_, MarksByFrame> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row_before(&self, at: usize) -> Option<(usize, &IndexRow)> {
        let at = at.checked_sub(1)?;
        self.rows.get(at).map(|row| (at, row))
    }

    /// A copy of the rows needed to read `entries` entries from `position` on, so that reading needs no lock.
    pub fn part(&self, position: u64, entries: u64) -> RowIndex {
        let from = self.rows.partition_point(|row| row.position <= position).saturating_sub(1);
        let to = self.rows.partition_point(|row| row.position < position.saturating_add(entries)).max(from + 1);
        let rows = self.rows.get(from..to.min(self.rows.len())).unwrap_or(&[]).to_vec();
        RowIndex { salt: self.salt, rows, entries: self.entries, marks: Arc::clone(&self.marks) }
    }

    /// The position of the first entry whose ID is not below `id`, looking no further than offset `end`.
    pub fn seek(&self, file: &[u8], id: Id, end: u64) -> Result<u64> {
        let at = self.rows.partition_point(|row| row.first <= id && row.offset < end);
        let Some((at, row)) = self.row_before(at) else { return Ok(0) };
        let mut found = row.position;
        self.walk(file, at, end, |place| {
            found = place.position;
            if place.header.first >= id {
                return Ok(false);
            }
            let below = self.look(file, place, |packed| packed.lower_bound(id))?;
            found += u64::from(below);
            Ok(below == place.header.entries)
        })?;
        Ok(found)
    }

    /// How many entries stand in frames before offset `end`.
    pub fn entries_before(&self, file: &[u8], end: u64) -> Result<u64> {
        let at = self.rows.partition_point(|row| row.offset < end);
        let Some((at, row)) = self.row_before(at) else { return Ok(0) };
        if end >= row.end {
            return Ok(self.rows.get(at + 1).map_or(self.entries, |next| next.position));
        }
        let mut entries = row.position;
        self.walk(file, at, end, |place| {
            entries = place.position + u64::from(place.header.entries);
            Ok(true)
        })?;
        Ok(entries)
    }

    /// Unpacks entries from position `from` on, from frames before offset `end`: at least one where there is one, and
    /// then until `max_entries` or `max_bytes` is reached.
    pub fn read(&self, file: &[u8], from: u64, end: u64, max_entries: u64, max_bytes: usize) -> Result<Block> {
        let mut builder = BlockBuilder::default();
        let at = self.rows.partition_point(|row| row.position <= from && row.offset < end);
        let Some((at, _)) = self.row_before(at) else { return Ok(builder.finish()) };
        self.walk(file, at, end, |place| {
            let Place { header, position, .. } = place;
            if position + u64::from(header.entries) > from {
                let skip = from.saturating_sub(*position) as u32;
                let room = max_entries.saturating_sub(builder.len() as u64).min(u64::from(u32::MAX)) as u32;
                let to = header.entries.min(skip.saturating_add(room));
                self.look(file, place, |packed| packed.decode(skip..to, max_bytes, &mut builder))?;
            }
            Ok((builder.len() as u64) < max_entries && builder.bytes() < max_bytes)
        })?;
        Ok(builder.finish())
    }
}

#[cfg(test)]
#[path = "row_index_tests.rs"]
mod tests;

//! The two operations of a consumer that must be quick: taking new entries, and acknowledging them. Under the append
//! lock.

use std::sync::Arc;

use diskstream_core::group_ops::{put_deliver, Op};
use diskstream_core::groups::MAX_PENDING;
use diskstream_core::id::Id;
use diskstream_core::pending::Pending;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyList};

use crate::delivery::Delivery;
use crate::entry::{Block, Entry};
use crate::errors::{self, reason, Failure};
use crate::groups::ids_of;
use crate::id::parse;
use crate::log::Log;

/// Entries unpacked at a time, though fewer are wanted: the next call finds them unpacked.
const AT_LEAST: usize = 1024;
/// Limits from here on are none, and what is counted against them is not counted.
pub(crate) const UNLIMITED: u64 = 1 << 62;
/// Entries of one delivery, which is one frame: more are left to the next call.
const MOST: usize = 1 << 22;
const BYTES_AT_ONCE: usize = 1 << 20;

/// The block that the last delivery was made from: the next one most likely goes on in it, or right behind it.
pub struct Recent {
    segment: u64,
    base: u64,
    block: Arc<diskstream_core::block::Block>,
}

impl Recent {
    /// Whether what follows `after` stands in this block, or begins right behind it.
    fn holds(&self, after: Id) -> bool {
        let first = self.block.id(0).unwrap_or(Id::MAX);
        self.block.ids.last().is_some_and(|last| first <= after && after <= last)
    }
}

/// Entries that consumers may be given, by the block they stand in.
pub(crate) struct Found {
    pub(crate) rows: Vec<(Arc<diskstream_core::block::Block>, u32, Id)>,
    text: bool,
    /// Whether there may be more, though fewer than the limit were found.
    pub(crate) cut: bool,
}

impl Found {
    pub(crate) fn none(text: bool) -> Found {
        Found { rows: Vec::new(), text, cut: false }
    }

    pub(crate) fn add(&mut self, block: &Block, after: Id, limit: usize) {
        self.text = block.text;
        for row in block.from..block.to {
            let id = block.block.id(row).unwrap_or_default();
            if self.rows.len() >= limit {
                return;
            }
            if id > after && block.is_live(row) {
                self.rows.push((Arc::clone(&block.block), row as u32, id));
            }
        }
    }

    /// Leaves out the last `promised`, and what comes after the caps are reached. Returns the bytes taken.
    pub(crate) fn cap(
        &mut self,
        promised: usize,
        limit: usize,
        max_bytes: u64,
        mut spent: u64,
        mut emitted: bool,
    ) -> u64 {
        let free = self.rows.len().saturating_sub(promised).min(limit);
        let mut kept = 0;
        for (block, row, _) in self.rows.iter().take(free) {
            if emitted && spent >= max_bytes {
                break;
            }
            spent += if max_bytes < UNLIMITED { block.entry_bytes(*row as usize) as u64 } else { 1 };
            emitted = true;
            kept += 1;
        }
        self.rows.truncate(kept);
        spent
    }
}

/// What `deliver` is asked for.
struct Wanted {
    /// At most this many.
    count: usize,
    /// So many of those there are, are left to others.
    promised: usize,
    max_bytes: u64,
    /// Bytes that the call has returned already, from other streams.
    spent: u64,
    noack: bool,
}

impl Log {
    /// Visible entries of the active segment behind the group's last one; None where sealed segments come first. With
    /// `enough` of them, no more is unpacked than some [`BYTES_AT_ONCE`].
    pub(crate) fn behind(&self, py: Python<'_>, after: Id, limit: usize, enough: usize) -> PyResult<Option<Found>> {
        self.unpacked(py, after, limit, enough, AT_LEAST)
    }

    /// The same, unpacking `at_least` so many at a time: who goes on where the last look ended finds them unpacked.
    pub(crate) fn unpacked(
        &self,
        py: Python<'_>,
        after: Id,
        limit: usize,
        enough: usize,
        at_least: usize,
    ) -> PyResult<Option<Found>> {
        let mut found = Found::none(self.text);
        let Some(start) = after.next() else { return Ok(Some(found)) };
        let active = self.lock_brief(py);
        let state = &active.tail.state;
        if state.sealed.last().is_some_and(|meta| meta.last > after) {
            return Ok(None);
        }
        if state.active.last < start {
            return Ok(Some(found));
        }
        let fail = |error| errors::core(py, &self.path(), error);
        let (stop, map) = (self.visible_end(&active), active.map.bytes());
        let meta = Arc::new(state.active.clone());
        let mut recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = recent.as_ref().filter(|recent| recent.segment == meta.number && recent.holds(after));
        let mut position = match known {
            Some(known) => {
                let block = Arc::clone(&known.block);
                let block = Block::clipped(block, known.base, (start, Id::MAX), Some(&meta), self.text);
                found.add(&block, after, limit);
                known.base + known.block.len() as u64
            }
            None => active.tail.index.seek(map, start, stop).map_err(fail)?,
        }
        .max(meta.trimmed);
        let mut unpacked = 0;
        while found.rows.len() < limit {
            if unpacked >= BYTES_AT_ONCE && found.rows.len() >= enough {
                found.cut = true;
                break;
            }
            let wanted = (limit - found.rows.len()).clamp(at_least, 1 << 16) as u64;
            position = meta.next_live(position);
            let block = active.tail.index.read(map, position, stop, wanted, BYTES_AT_ONCE).map_err(fail)?;
            if block.is_empty() {
                break;
            }
            unpacked += block.value_bytes();
            let block = Block::clipped(Arc::new(block), position, (start, Id::MAX), Some(&meta), self.text);
            found.add(&block, after, limit);
            *recent = Some(Recent { segment: meta.number, base: position, block: Arc::clone(&block.block) });
            position = block.base + block.block.len() as u64;
        }
        Ok(Some(found))
    }
}

/// What consumers of a group are given in one frame: of each its number and its IDs, in order.
pub(crate) struct Delivered<'a> {
    pub(crate) group: u32,
    /// The group's last delivered ID before.
    pub(crate) after: Id,
    pub(crate) given: &'a [(u32, &'a [Id])],
    pub(crate) noack: bool,
    /// Whether the view was asked about the IDs.
    pub(crate) asked: bool,
}

impl Log {
    /// The records of a delivery, or a reason why there are none yet. `first` is the stream's first live ID.
    pub(crate) fn delivered(
        &self,
        py: Python<'_>,
        delivered: &Delivered<'_>,
        first: Id,
        now_ms: u64,
    ) -> PyResult<Result<Vec<u8>, u8>> {
        let Delivered { group, mut after, given, noack, asked } = *delivered;
        let count: usize = given.iter().map(|(_, ids)| ids.len()).sum();
        let active = self.lock_brief(py);
        let state = &active.tail.state;
        if !noack && state.groups.pending() + count as u64 > MAX_PENDING {
            let error = diskstream_core::error::Error::Limit {
                what: "the number of pending entries",
                limit: MAX_PENDING,
                found: state.groups.pending() + count as u64,
            };
            return Err(errors::core(py, &self.path(), error));
        }
        let Some(it) = state.groups.by_number.get(&group) else { return Ok(Err(reason::MOVED)) };
        if !noack && !asked && given.iter().any(|(_, ids)| ids.iter().any(|id| it.is_unknown(*id))) {
            return Ok(Err(reason::VIEW));
        }
        let mut read = it.read;
        let mut payload = Vec::with_capacity(40 * given.len() + count * 4);
        for (consumer, ids) in given.iter().copied() {
            let Some(last) = ids.last().copied() else { continue };
            read = state.read_after(after, read, ids, first);
            after = last;
            if noack {
                Op::Position { group, last, read }.put(&mut payload);
                Op::Seen { group, consumer }.put(&mut payload);
                continue;
            }
            let (again, new): (Vec<Id>, Vec<Id>) = ids.iter().partition(|id| it.find(**id).is_some());
            if !again.is_empty() {
                // Delivered before, and the group was set back: it changes hands, and counts from one.
                let row = |id: &Id| Pending { id: *id, consumer, time_ms: now_ms, deliveries: 1 };
                let owners = again.iter().map(|id| it.find(*id).map(|row| row.consumer)).collect();
                let rows = again.iter().map(row).collect();
                Op::Assign { group, consumer, active: true, rows, owners }.put(&mut payload);
            }
            put_deliver(&mut payload, (group, consumer), last, read, &new);
        }
        Ok(Ok(payload))
    }
}

#[pymethods]
impl Log {
    /// Gives a consumer the next entries of its group: those of `blocks`, or of the active segment where None.
    ///
    /// `wanted` is (count, promised, max_bytes, spent, noack); `first` the stream's first live ID. Returns the entries
    /// and the bytes spent, or a reason: SEALED asks for blocks, VIEW for `unknown` IDs of what is next: with `asked`, the
    /// view was.
    #[pyo3(signature = (group, consumer, blocks, wanted, first, now_ms, owner, asked=false))]
    #[allow(clippy::too_many_arguments)]
    fn deliver<'py>(
        &self,
        py: Python<'py>,
        group: u32,
        consumer: u32,
        blocks: Option<Vec<PyRef<'py, Block>>>,
        wanted: (usize, usize, u64, u64, bool),
        first: &Bound<'py, PyAny>,
        now_ms: u64,
        owner: &Bound<'py, PyAny>,
        asked: bool,
    ) -> PyResult<(u8, Bound<'py, PyList>, u64)> {
        let (count, promised, max_bytes, spent, noack) = wanted;
        let wanted = Wanted { count, promised, max_bytes, spent, noack };
        let refuse = |code: u8| Ok((code, PyList::empty(py), wanted.spent));
        let after = match self.with_group(py, group, |group| Ok(group.last))? {
            Ok(last) => last,
            Err(error) => return Err(self.error(py, error)),
        };
        let wanted = Wanted { count: wanted.count.min(MOST), ..wanted };
        let limit = wanted.count.saturating_add(wanted.promised);
        let mut found = match &blocks {
            Some(blocks) => {
                let mut found = Found::none(self.text);
                blocks.iter().for_each(|block| found.add(block, after, limit));
                found
            }
            None => match self.behind(py, after, limit, limit)? {
                Some(found) => found,
                None => return refuse(reason::SEALED),
            },
        };
        let spent_now = found.cap(wanted.promised, wanted.count, wanted.max_bytes, wanted.spent, wanted.spent > 0);
        let ids: Vec<Id> = found.rows.iter().map(|(_, _, id)| *id).collect();
        if ids.is_empty() {
            return refuse(0);
        }
        let first = parse(first, 0)?;
        let given = [(consumer, ids.as_slice())];
        let delivered = Delivered { group, after, given: &given, noack: wanted.noack, asked };
        let payload = match self.delivered(py, &delivered, first, now_ms)? {
            Ok(payload) => payload,
            Err(code) => return refuse(code),
        };
        let code = self.append_records(py, &payload, now_ms)?;
        if code != 0 {
            return refuse(code);
        }
        let mut made = Vec::with_capacity(found.rows.len());
        for (block, row, _) in found.rows {
            let entry = Entry::at(block, row, found.text);
            made.push(Delivery::made(py, entry, owner, false, 0, 0)?);
        }
        Ok((0, PyList::new(py, made)?, spent_now))
    }

    /// Acknowledges. Returns `(reason, how many were pending)`; VIEW asks for the IDs that are `unknown`: with `asked`,
    /// the view was.
    #[pyo3(signature = (group, ids, now_ms, asked=false))]
    fn acknowledge(
        &self,
        py: Python<'_>,
        group: u32,
        ids: Vec<Bound<'_, PyAny>>,
        now_ms: u64,
        asked: bool,
    ) -> PyResult<(u8, usize)> {
        let (code, ended) = self.end(py, group, ids_of(&ids)?, now_ms, asked)?;
        Ok((code, ended.len()))
    }
}

impl Log {
    /// Ends what is pending of these IDs, as one record. Returns a reason, and which were.
    pub(crate) fn end(
        &self,
        py: Python<'_>,
        group: u32,
        mut ids: Vec<Id>,
        now_ms: u64,
        asked: bool,
    ) -> PyResult<(u8, Vec<Id>)> {
        if !ids.is_sorted() {
            ids.sort_unstable();
        }
        ids.dedup();
        let ended = self.with_group(py, group, |it| {
            if !asked && ids.iter().any(|id| it.is_unknown(*id)) {
                return Err(Failure::Reason(reason::VIEW));
            }
            Ok(ids.iter().filter_map(|id| it.find(*id).map(|row| (*id, Some(row.consumer)))).collect::<Vec<_>>())
        })?;
        let ended = match ended {
            Ok(ended) => ended,
            Err(Failure::Reason(code)) => return Ok((code, Vec::new())),
            Err(error) => return Err(self.error(py, error)),
        };
        if ended.is_empty() {
            return Ok((0, Vec::new()));
        }
        let found = ended.iter().map(|(id, _)| *id).collect();
        let mut payload = Vec::with_capacity(16 + ended.len() * 4);
        Op::End { group, ids: ended }.put(&mut payload);
        let code = self.append_records(py, &payload, now_ms)?;
        Ok((code, if code == 0 { found } else { Vec::new() }))
    }
}

//! The two operations of a consumer that must be quick: taking new entries, and acknowledging them. Under the append
//! lock.

use std::collections::HashSet;
use std::sync::Arc;

use diskstream_core::group_ops::{put_deliver, Op};
use diskstream_core::groups::MAX_PENDING;
use diskstream_core::id::Id;
use diskstream_core::pending::Pending;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyList};

use crate::entry::{Block, Delivery, Entry};
use crate::errors::{self, reason, Failure};
use crate::groups::ids_of;
use crate::id::parse;
use crate::log::Log;

/// Entries unpacked at a time, though fewer are wanted: the next call finds them unpacked.
const AT_LEAST: usize = 1024;
/// Limits from here on are none, and what is counted against them is not counted.
const UNLIMITED: u64 = 1 << 62;
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
        self.block.ids.last().is_some_and(|last| first <= after && after <= *last)
    }
}

/// Entries that a consumer may be given, by the block they stand in.
struct Found {
    rows: Vec<(Arc<diskstream_core::block::Block>, u32, Id)>,
    text: bool,
}

impl Found {
    fn add(&mut self, block: &Block, after: Id, limit: usize) {
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
    fn cap(&mut self, promised: usize, limit: usize, max_bytes: u64, mut spent: u64, mut emitted: bool) -> u64 {
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
    /// Visible entries of the active segment behind the group's last one; None where sealed segments come first.
    fn behind(&self, py: Python<'_>, after: Id, limit: usize) -> PyResult<Option<Found>> {
        let mut found = Found { rows: Vec::new(), text: self.text };
        let Some(start) = after.next() else { return Ok(Some(found)) };
        let active = self.lock_brief(py);
        let state = &active.tail.state;
        if state.sealed.last().is_some_and(|meta| meta.last > after) {
            return Ok(None);
        }
        if state.active.last < start {
            return Ok(Some(found));
        }
        let fail = |error| errors::core(py, &self.path, error);
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
        while found.rows.len() < limit {
            let wanted = (limit - found.rows.len()).clamp(AT_LEAST, 1 << 16) as u64;
            let block = active.tail.index.read(map, position, stop, wanted, BYTES_AT_ONCE).map_err(fail)?;
            if block.is_empty() {
                break;
            }
            let block = Block::clipped(Arc::new(block), position, (start, Id::MAX), Some(&meta), self.text);
            found.add(&block, after, limit);
            *recent = Some(Recent { segment: meta.number, base: position, block: Arc::clone(&block.block) });
            position = block.base + block.block.len() as u64;
        }
        Ok(Some(found))
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
                let mut found = Found { rows: Vec::new(), text: self.text };
                blocks.iter().for_each(|block| found.add(block, after, limit));
                found
            }
            None => match self.behind(py, after, limit)? {
                Some(found) => found,
                None => return refuse(reason::SEALED),
            },
        };
        let spent_now = found.cap(wanted.promised, wanted.count, wanted.max_bytes, wanted.spent, wanted.spent > 0);
        let ids: Vec<Id> = found.rows.iter().map(|(_, _, id)| *id).collect();
        let Some(last) = ids.last().copied() else { return refuse(0) };
        let first = parse(first, 0)?;
        let payload = {
            let active = self.lock_brief(py);
            let state = &active.tail.state;
            if !wanted.noack && state.groups.pending() + ids.len() as u64 > MAX_PENDING {
                let error = diskstream_core::error::Error::Limit {
                    what: "the number of pending entries",
                    limit: MAX_PENDING,
                    found: state.groups.pending() + ids.len() as u64,
                };
                return Err(errors::core(py, &self.path, error));
            }
            let Some(it) = state.groups.by_number.get(&group) else { return refuse(reason::MOVED) };
            if !wanted.noack && !asked && ids.iter().any(|id| it.is_unknown(*id)) {
                return refuse(reason::VIEW);
            }
            let read = state.read_after(after, it.read, &ids, first);
            let mut payload = Vec::with_capacity(40 + ids.len() * 4);
            if wanted.noack {
                Op::Position { group, last, read }.put(&mut payload);
                Op::Seen { group, consumer }.put(&mut payload);
            } else {
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
            payload
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

    /// The same for many callers, in one frame: `counts` says how many of the IDs are whose, in order. Returns
    /// `(reason, how many of each were pending)`; an ID that is named twice counts for whom it was named by first.
    #[pyo3(signature = (group, ids, counts, now_ms, asked=false))]
    fn acknowledge_each(
        &self,
        py: Python<'_>,
        group: u32,
        ids: Vec<Bound<'_, PyAny>>,
        counts: Vec<usize>,
        now_ms: u64,
        asked: bool,
    ) -> PyResult<(u8, Vec<usize>)> {
        let ids = ids_of(&ids)?;
        let (code, ended) = self.end(py, group, ids.clone(), now_ms, asked)?;
        let mut left: HashSet<Id> = ended.into_iter().collect();
        let mut rest = ids.iter();
        let each = counts.iter().map(|count| rest.by_ref().take(*count).filter(|id| left.remove(id)).count()).collect();
        Ok((code, each))
    }
}

impl Log {
    /// Ends what is pending of these IDs, as one record. Returns a reason, and which were.
    fn end(&self, py: Python<'_>, group: u32, mut ids: Vec<Id>, now_ms: u64, asked: bool) -> PyResult<(u8, Vec<Id>)> {
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

/// A delivery made of an entry (of its ID alone, where the entry is gone) and what the pending entries list says.
#[pyfunction]
#[pyo3(signature = (entry, id, owner, idle_ms, deliveries, text=false))]
pub fn delivery<'py>(
    py: Python<'py>,
    entry: Option<PyRef<'py, Entry>>,
    id: &Bound<'py, PyAny>,
    owner: &Bound<'py, PyAny>,
    idle_ms: i64,
    deliveries: u64,
    text: bool,
) -> PyResult<Py<Delivery>> {
    let gone = entry.is_none();
    let entry = match entry {
        Some(entry) => entry.again(),
        None => crate::entry::bare(py, parse(id, 0)?, text)?,
    };
    Delivery::made(py, entry, owner, gone, idle_ms, deliveries)
}

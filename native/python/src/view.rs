//! The view of pending entries, on the native side: chunks go in and out as bytes, the store for them is Python's.

use std::sync::Mutex;

use diskstream_core::error::Error;
use diskstream_core::frame::Kind;
use diskstream_core::groups::{Base, Group};
use diskstream_core::id::Id;
use diskstream_core::pending::{self, decode_chunk, encode_chunks, key_bytes, parse_key, Key, Order, Pending};
use diskstream_core::wire::put_varint;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, Failure};
use crate::groups::order_of;
use crate::id::EntryId;
use crate::log::{now_ms, Log};

/// What a group's overlay changes in its view: three sorted lists of keys that go and rows that come.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Changes {
    inner: Mutex<Inner>,
}

struct Inner {
    /// IDs that changed, in order, with the new row where there is one.
    rows: Vec<(Id, Option<Pending>)>,
    gone: [Vec<Key>; 3],
    new: [Vec<Pending>; 3],
    at: [(usize, usize); 3],
}

/// IDs that a group's overlay says nothing of, in order: what the view is to be asked for.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Unknown {
    pub group: u32,
    pub ids: Vec<Id>,
}

#[pymethods]
impl Unknown {
    fn __len__(&self) -> usize {
        self.ids.len()
    }

    /// The key, by ID, of number `at`, as 24 bytes; None behind the last.
    fn key<'py>(&self, py: Python<'py>, at: usize) -> Option<Bound<'py, PyBytes>> {
        self.ids.get(at).map(|id| PyBytes::new(py, &key_bytes((0, id.ms, id.seq))))
    }
}

type Chunk<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn chunks_of<'py>(py: Python<'py>, rows: &[Pending], order: Order) -> Vec<Chunk<'py>> {
    let chunks = encode_chunks(rows, order);
    chunks.iter().map(|(key, chunk)| (PyBytes::new(py, &key_bytes(*key)), PyBytes::new(py, chunk))).collect()
}

impl Changes {
    fn of(group: &Group) -> Changes {
        let rows: Vec<(Id, Option<Pending>)> = group.overlay.iter().collect();
        let by_id: Vec<Pending> = rows.iter().filter_map(|(_, row)| *row).collect();
        let ended = rows.iter().filter(|(_, row)| row.is_none()).map(|(id, _)| (0, id.ms, id.seq)).collect();
        let sorted = |order: Order| {
            let mut sorted = by_id.clone();
            sorted.sort_unstable_by_key(|row| row.key(order));
            sorted
        };
        let new = [by_id.clone(), sorted(Order::ByConsumer), sorted(Order::ByTime)];
        Changes { inner: Mutex::new(Inner { rows, gone: [ended, Vec::new(), Vec::new()], new, at: [(0, 0); 3] }) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Inner {
    fn next_key(&self, order: usize) -> Option<Key> {
        let kind = *pending::ORDERS.get(order)?;
        let (gone, new) = *self.at.get(order)?;
        let gone = self.gone.get(order)?.get(gone).copied();
        let new = self.new.get(order)?.get(new).map(|row| row.key(kind));
        match (gone, new) {
            (Some(gone), Some(new)) => Some(gone.min(new)),
            (gone, new) => gone.or(new),
        }
    }

    /// The old rows of IDs that changed leave the other two indexes too.
    fn note_old(&mut self, base: &[Pending]) {
        let rows = &self.rows;
        let changed = |row: &&Pending| rows.binary_search_by_key(&row.id, |(id, _)| *id).is_ok();
        let old: Vec<Pending> = base.iter().filter(changed).copied().collect();
        let [_, by_consumer, by_time] = &mut self.gone;
        by_consumer.extend(old.iter().map(|row| row.key(Order::ByConsumer)));
        by_time.extend(old.iter().map(|row| row.key(Order::ByTime)));
    }
}

#[pymethods]
impl Changes {
    /// The least key that is still to be changed in an index, as 24 bytes; None when it is done. The index by ID comes
    /// first: it tells the others what goes.
    fn next_key<'py>(&self, py: Python<'py>, order: usize) -> Option<Bound<'py, PyBytes>> {
        let mut inner = self.lock();
        if order > 0 && inner.at.get(order) == Some(&(0, 0)) {
            inner.gone.iter_mut().for_each(|gone| gone.sort_unstable());
        }
        inner.next_key(order).map(|key| PyBytes::new(py, &key_bytes(key)))
    }

    /// The chunks that take the place of `chunk`, with all changes of keys before `until`.
    #[pyo3(signature = (order, chunk, until))]
    fn merge<'py>(
        &self,
        py: Python<'py>,
        order: usize,
        chunk: Option<&[u8]>,
        until: Option<&[u8]>,
    ) -> PyResult<Vec<Chunk<'py>>> {
        let kind = order_of(py, order)?;
        let until = until.and_then(parse_key);
        let base = chunk.map(|chunk| decode_chunk(chunk, kind)).transpose();
        let base = base.map_err(|error| errors::core(py, "view", error))?.unwrap_or_default();
        let mut inner = self.lock();
        if kind == Order::ById {
            inner.note_old(&base);
        }
        let inner = &mut *inner;
        let (Some(at), Some(gone), Some(new)) = (inner.at.get_mut(order), inner.gone.get(order), inner.new.get(order))
        else {
            return Ok(Vec::new());
        };
        let before = |key: Key| until.is_none_or(|until| key < until);
        let (gone, new) = (gone.get(at.0..).unwrap_or(&[]), new.get(at.1..).unwrap_or(&[]));
        let gone = gone.get(..gone.partition_point(|key| before(*key))).unwrap_or(&[]);
        let new = new.get(..new.partition_point(|row| before(row.key(kind)))).unwrap_or(&[]);
        *at = (at.0 + gone.len(), at.1 + new.len());
        Ok(chunks_of(py, &pending::merge(base, gone, new, kind), kind))
    }
}

#[pymethods]
impl Log {
    /// What the overlay of each group changes in the view.
    fn changes(&self, py: Python<'_>) -> Vec<(u32, Changes)> {
        let active = self.lock_brief(py);
        let groups = active.tail.state.groups.by_number.iter();
        groups
            .filter(|(_, group)| !group.overlay.is_empty())
            .map(|(number, group)| (*number, Changes::of(group)))
            .collect()
    }

    /// Says in the log that the view now holds all before this frame.
    fn viewed(&self, py: Python<'_>) -> PyResult<u8> {
        let mut payload = Vec::new();
        put_varint(&mut payload, self.lock_brief(py).tail.lsn);
        self.append_frame(py, Kind::View, &payload, now_ms())
    }

    /// Sequence number and header checksum of the frame that the view stands behind; None where the overlays are whole
    /// without one.
    #[getter]
    fn base(&self, py: Python<'_>) -> Option<(u64, u32)> {
        match self.lock_brief(py).tail.state.groups.base {
            Base::Nothing => None,
            Base::View(lsn, link) => Some((lsn, link)),
        }
    }

    /// Begins the overlays anew over a view that stands behind frame `lsn`. False where it is not of this log.
    fn rebase(&self, py: Python<'_>, lsn: u64, offset: u64, link: u32) -> PyResult<bool> {
        py.detach(|| -> Result<bool, Failure> {
            let mut active = self.lock();
            let map = std::sync::Arc::clone(&active.map);
            Ok(active.tail.rebase(map.bytes(), lsn, offset, link)?)
        })
        .map_err(|error| self.error(py, error))
    }

    /// Begins the overlays anew over a view that holds what `snapshot_view` gives.
    fn rebase_to_snapshot(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| -> Result<(), Failure> {
            let mut active = self.lock();
            let map = std::sync::Arc::clone(&active.map);
            Ok(active.tail.rebase_to_snapshot(map.bytes())?)
        })
        .map_err(|error| self.error(py, error))
    }

    /// `(sequence number, end offset, header checksum)` of the last frame.
    #[getter]
    fn link(&self, py: Python<'_>) -> (u64, u64, u32) {
        let tail = &self.lock_brief(py).tail;
        (tail.lsn, tail.end, tail.link)
    }

    /// Sequence number and header checksum of the last frame before this segment.
    #[getter]
    fn link_before(&self, py: Python<'_>) -> (u64, u32) {
        let begun = self.lock_brief(py).tail.begun;
        (begun.0.saturating_sub(1), begun.2)
    }

    /// The pending entries of the snapshot: for each group and order its chunks with their keys.
    fn snapshot_view<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u32, usize, Vec<Chunk<'py>>)>> {
        let active = self.lock_brief(py);
        let fail = |error| errors::core(py, &self.path(), error);
        let mut rows: Vec<(u32, Vec<Pending>)> = Vec::new();
        for (group, chunk) in active.tail.pending(active.map.bytes()).map_err(fail)? {
            let chunk = decode_chunk(chunk, Order::ById).map_err(fail)?;
            match rows.last_mut() {
                Some((last, rows)) if *last == group => rows.extend(chunk),
                _ => rows.push((group, chunk)),
            }
        }
        let mut out = Vec::new();
        for (group, mut rows) in rows {
            for (number, order) in pending::ORDERS.iter().enumerate() {
                rows.sort_unstable_by_key(|row| row.key(*order));
                out.push((group, number, chunks_of(py, &rows, *order)));
            }
        }
        Ok(out)
    }

    /// IDs that overlays name: what must be written to the view before long.
    #[getter]
    fn overlay_rows(&self, py: Python<'_>) -> usize {
        self.lock_brief(py).tail.state.groups.overlay_rows()
    }

    /// Whether chunks by ID, with their groups' numbers, hold as many rows as are counted for each group.
    fn is_complete(&self, py: Python<'_>, chunks: Vec<(u32, Bound<'_, PyBytes>)>) -> bool {
        let mut counts: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
        for (group, chunk) in &chunks {
            let Ok(rows) = decode_chunk(chunk.as_bytes(), Order::ById) else { return false };
            *counts.entry(*group).or_default() += rows.len() as u64;
        }
        let active = self.lock_brief(py);
        let groups = &active.tail.state.groups.by_number;
        groups.iter().all(|(number, group)| counts.remove(number).unwrap_or(0) == group.pending) && counts.is_empty()
    }

    /// The greatest pending ID that the overlay of a group names.
    fn last_in_overlay(&self, py: Python<'_>, group: u32) -> Option<EntryId> {
        let active = self.lock_brief(py);
        let overlay = &active.tail.state.groups.by_number.get(&group)?.overlay;
        overlay.last().map(|row| EntryId::of(row.id))
    }

    /// Keys in the order of times before which the entries of all pending rows are gone: of those that nobody has, and of
    /// those that somebody has.
    fn gone_before(&self, py: Python<'_>, group: u32) -> [Key; 2] {
        let active = self.lock_brief(py);
        active.tail.state.groups.by_number.get(&group).map_or([(0, 0, 0); 2], |group| group.overlay.gone_before())
    }

    /// The entries of all pending rows before a key, of the one or the other, were found to be gone. Nothing is noted while
    /// something that is written is not visible: an entry may be.
    fn note_gone(&self, py: Python<'_>, group: u32, before: Key, owned: bool) {
        let mut active = self.lock_brief(py);
        if self.visible_end(&active) < active.tail.end {
            return;
        }
        if let Some(group) = active.tail.state.groups.by_number.get_mut(&group) {
            group.overlay.note_gone(before, owned);
        }
    }

    /// Takes rows out of the chunk of the view, by ID, that would hold those of `unknown` from number `at` on, up to the
    /// key of the next chunk: they are known here from then on, and so is of which there is none. Returns where to go on.
    #[pyo3(signature = (unknown, at, chunk, following))]
    fn adopt(
        &self,
        py: Python<'_>,
        unknown: &Unknown,
        at: usize,
        chunk: Option<&[u8]>,
        following: Option<&[u8]>,
    ) -> PyResult<usize> {
        let rest = unknown.ids.get(at..).unwrap_or(&[]);
        let before = following.and_then(parse_key);
        let count = before.map_or(rest.len(), |before| rest.partition_point(|id| (0, id.ms, id.seq) < before));
        if count == 0 && !rest.is_empty() {
            let fault =
                Error::corrupt("key of a chunk of pending entries", 0, "one behind what was asked for", "another");
            return Err(errors::core(py, "view", fault));
        }
        let ids = rest.get(..count).unwrap_or(rest);
        let rows = match chunk {
            Some(chunk) => decode_chunk(chunk, Order::ById).map_err(|error| errors::core(py, "view", error))?,
            None => Vec::new(),
        };
        let mut active = self.lock_brief(py);
        if let Some(group) = active.tail.state.groups.by_number.get_mut(&unknown.group) {
            group.adopt(&rows, ids);
        }
        Ok(at + ids.len())
    }
}

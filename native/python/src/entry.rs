//! `Entry` and `Block`: decoded entries as Python sees them.

use std::sync::Arc;

use diskstream_core::block;
use diskstream_core::id::Id;
use diskstream_core::state::SegmentMeta;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::args::name_bytes;
use crate::id::{parse, EntryId};

/// One entry. It holds on to its block and unpacks what is asked for.
#[pyclass(frozen, subclass, module = "diskstream")]
pub struct Entry {
    block: Arc<block::Block>,
    row: u32,
    text: bool,
}

impl Entry {
    pub fn at(block: Arc<block::Block>, row: u32, text: bool) -> Entry {
        Entry { block, row, text }
    }

    /// The same entry, once more.
    pub fn again(&self) -> Entry {
        Entry { block: Arc::clone(&self.block), row: self.row, text: self.text }
    }

    /// Where it stands.
    #[inline]
    pub fn place(&self) -> (&block::Block, usize) {
        (&self.block, self.row as usize)
    }

    fn present<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if self.text {
            return match std::str::from_utf8(bytes) {
                Ok(text) => Ok(PyString::new(py, text).into_any()),
                // Python's own error, which says where.
                Err(_) => PyBytes::new(py, bytes).call_method0("decode"),
            };
        }
        Ok(PyBytes::new(py, bytes).into_any())
    }
}

#[pymethods]
impl Entry {
    /// The ID of the entry.
    #[getter]
    fn id(&self) -> EntryId {
        EntryId { id: self.block.id(self.row as usize).unwrap_or_default() }
    }

    /// Fields as a dictionary; of a repeated name the last value.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.block.pairs(self.row as usize) {
            dict.set_item(self.present(py, name)?, self.present(py, value)?)?;
        }
        Ok(dict)
    }

    /// Fields as a list of (name, value), repeated names included.
    #[getter]
    fn pairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (name, value) in self.block.pairs(self.row as usize) {
            list.append((self.present(py, name)?, self.present(py, value)?))?;
        }
        Ok(list)
    }

    /// Bytes of all names and values.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.block.entry_bytes(self.row as usize)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found =
            name_bytes(name, |bytes| self.block.value(self.row as usize, bytes).map(|value| self.present(py, value)))?;
        found.unwrap_or_else(|| Err(PyKeyError::new_err(name.clone().unbind())))
    }

    /// The value of a field, or `default` where the entry has no such field.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found =
            name_bytes(name, |bytes| self.block.value(self.row as usize, bytes).map(|value| self.present(py, value)))?;
        found.transpose().map(|found| found.or(default))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        name_bytes(name, |bytes| self.block.value(self.row as usize, bytes).is_some())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pair = PyTuple::new(py, [self.id().into_pyobject(py)?.into_any(), self.fields(py)?.into_any()])?;
        Ok(pair.try_iter()?.into_any())
    }

    fn __len__(&self) -> usize {
        2
    }

    fn __eq__(&self, other: PyRef<'_, Entry>) -> bool {
        let (mine, its) = (self.row as usize, other.row as usize);
        self.block.id(mine) == other.block.id(its) && self.block.pairs(mine).eq(other.block.pairs(its))
    }

    fn __hash__(&self) -> u64 {
        let id = self.block.id(self.row as usize).unwrap_or_default();
        id.ms.rotate_left(32) ^ id.seq
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = self.block.id(self.row as usize).unwrap_or_default();
        Ok(format!("Entry('{id}', {})", self.fields(py)?.repr()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("diskstream._native")?.getattr("restore_entry")?;
        let pairs = PyList::empty(py);
        for (name, value) in self.block.pairs(self.row as usize) {
            pairs.append((PyBytes::new(py, name), PyBytes::new(py, value)))?;
        }
        let arguments = (self.id(), pairs, self.text);
        Ok((restore, arguments.into_pyobject(py)?))
    }
}

/// Builds an entry from its parts: what unpickling calls, and tests.
#[pyfunction]
#[pyo3(signature = (id, pairs, text=false))]
pub fn restore_entry(id: &Bound<'_, PyAny>, pairs: Vec<(Vec<u8>, Vec<u8>)>, text: bool) -> PyResult<Entry> {
    let mut builder = block::BlockBuilder::default();
    let names = pairs.iter().map(|(name, _)| name.as_slice().into()).collect();
    let number = builder.intern(block::Shape { names });
    let lengths: Vec<usize> = pairs.iter().map(|(_, value)| value.len()).collect();
    let values: Vec<u8> = pairs.into_iter().flat_map(|(_, value)| value).collect();
    builder.push(parse(id, 0)?, number, &lengths, &values).map_err(|error| crate::errors::core(id.py(), "", error))?;
    Ok(Entry { block: Arc::new(builder.finish()), row: 0, text })
}

/// An entry of which nothing is left but its ID.
pub fn bare(py: Python<'_>, id: Id, text: bool) -> PyResult<Entry> {
    let mut builder = block::BlockBuilder::default();
    let shape = builder.intern(block::Shape { names: Vec::new() });
    builder.push(id, shape, &[], &[]).map_err(|error| crate::errors::core(py, "", error))?;
    Ok(Entry { block: Arc::new(builder.finish()), row: 0, text })
}

/// An entry as a consumer of a group was given it.
#[pyclass(frozen, extends = Entry, module = "diskstream")]
pub struct Delivery {
    owner: Py<PyAny>,
    /// Whether the entry is gone from the stream: only its ID is left.
    #[pyo3(get)]
    gone: bool,
    /// How long ago it had been delivered before, in ms; 0 for a new one, -1 where nobody had it.
    #[pyo3(get)]
    idle_ms: i64,
    /// How often it had been delivered before; 0 for a new one.
    #[pyo3(get)]
    deliveries: u64,
}

impl Delivery {
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    pub fn made(
        py: Python<'_>,
        entry: Entry,
        owner: &Bound<'_, PyAny>,
        gone: bool,
        idle_ms: i64,
        deliveries: u64,
    ) -> PyResult<Py<Delivery>> {
        let delivery = Delivery { owner: owner.clone().unbind(), gone, idle_ms, deliveries };
        Py::new(py, PyClassInitializer::from(entry).add_subclass(delivery))
    }
}

#[pymethods]
impl Delivery {
    /// Acknowledges the entry. Returns whether it was pending.
    fn ack(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let count: usize = slf.get().owner.bind(slf.py()).call_method1("ack", (slf.getattr("id")?,))?.extract()?;
        Ok(count > 0)
    }

    /// Gives the entry back for others to claim: see `Group.nack`. Returns whether it was pending.
    #[pyo3(signature = (mode="FAIL"))]
    fn nack(slf: &Bound<'_, Self>, mode: &str) -> PyResult<bool> {
        let keywords = PyDict::new(slf.py());
        keywords.set_item("mode", mode)?;
        let owner = slf.get().owner.bind(slf.py());
        let count: usize = owner.call_method("nack", (slf.getattr("id")?,), Some(&keywords))?.extract()?;
        Ok(count > 0)
    }
}

/// A run of entries of one segment, without those that are gone.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Block {
    pub block: Arc<block::Block>,
    /// Position of row 0 within the segment.
    pub base: u64,
    pub from: usize,
    pub to: usize,
    /// Which positions are gone, where some of this block's are.
    pub gone: Option<Arc<SegmentMeta>>,
    pub text: bool,
}

impl Block {
    /// The part of a decoded block that lies within `start..=end` and is not wholly gone.
    pub fn clipped(
        block: Arc<block::Block>,
        base: u64,
        (start, end): (Id, Id),
        meta: Option<&Arc<SegmentMeta>>,
        text: bool,
    ) -> Block {
        let mut from = if block.id(0).is_none_or(|first| first >= start) { 0 } else { block.lower_bound(start) };
        let to = match end.next() {
            Some(beyond) if block.ids.last().is_some_and(|last| *last >= beyond) => block.lower_bound(beyond),
            _ => block.len(),
        };
        let gone =
            meta.filter(|meta| meta.trimmed > base || meta.deleted.count_range(base, base + block.len() as u64) > 0);
        if let Some(meta) = gone {
            from = from.max((meta.trimmed.saturating_sub(base) as usize).min(block.len()));
        }
        Block { base, from, to: to.max(from), gone: gone.cloned(), block, text }
    }

    #[inline]
    pub fn is_live(&self, row: usize) -> bool {
        self.gone.as_ref().is_none_or(|meta| meta.is_live(self.base + row as u64))
    }

    fn entry(&self, row: usize) -> Entry {
        Entry { block: Arc::clone(&self.block), row: row as u32, text: self.text }
    }

    /// The live entry with this ID.
    pub fn find_one(&self, id: Id) -> PyResult<Option<Entry>> {
        let row = self.block.lower_bound(id);
        let found = self.block.id(row) == Some(id) && self.is_live(row);
        Ok(found.then(|| self.entry(row)))
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (self.from..self.to).filter(|row| self.is_live(*row))
    }

    fn listed<'py>(&self, py: Python<'py>, rows: impl Iterator<Item = usize>) -> PyResult<Bound<'py, PyList>> {
        let made: PyResult<Vec<_>> = rows.map(|row| Py::new(py, self.entry(row))).collect();
        PyList::new(py, made?)
    }
}

/// Entries of one list. The garbage collector looks at what was made lately whenever that is 700 objects more than were
/// let go, so lists of a whole block would be looked at again and again.
const LIST_ENTRIES: usize = 128;

/// The live entries of a block in lists of a few.
#[pyclass(module = "diskstream._native")]
pub struct EntryLists {
    block: Py<Block>,
    from: usize,
    to: usize,
    reverse: bool,
    left: usize,
}

#[pymethods]
impl EntryLists {
    fn __iter__(slf: PyRef<'_, EntryLists>) -> PyRef<'_, EntryLists> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let block = self.block.get();
        let live = (self.from..self.to).filter(|row| block.is_live(*row));
        let some = self.left.min(LIST_ENTRIES);
        let rows: Vec<usize> = if self.reverse { live.rev().take(some).collect() } else { live.take(some).collect() };
        let Some(last) = rows.last().copied() else { return Ok(None) };
        if self.reverse {
            self.to = last;
        } else {
            self.from = last + 1;
        }
        self.left -= rows.len();
        block.listed(py, rows.into_iter()).map(Some)
    }
}

#[pymethods]
impl Block {
    /// Live entries.
    fn __len__(&self) -> usize {
        if self.gone.is_none() {
            self.to - self.from
        } else {
            self.rows().count()
        }
    }

    /// The live entries, at most `limit` of them, from the end where `reverse`.
    #[pyo3(signature = (reverse=false, limit=None))]
    fn entries<'py>(&self, py: Python<'py>, reverse: bool, limit: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let limit = limit.unwrap_or(usize::MAX);
        if reverse {
            self.listed(py, self.rows().rev().take(limit))
        } else {
            self.listed(py, self.rows().take(limit))
        }
    }

    /// The same, a few at a time.
    #[pyo3(signature = (reverse=false, limit=None))]
    fn entry_lists(slf: Bound<'_, Block>, reverse: bool, limit: Option<usize>) -> EntryLists {
        let (from, to) = (slf.get().from, slf.get().to);
        EntryLists { block: slf.unbind(), from, to, reverse, left: limit.unwrap_or(usize::MAX) }
    }

    /// Entries until their fields' bytes together reach `max_bytes`, at least one if `spent` is 0; and the sum.
    fn entries_capped<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
        max_bytes: usize,
        spent: usize,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let (mut made, mut sum) = (Vec::new(), spent);
        for row in self.rows().take(limit) {
            if sum >= max_bytes && sum > 0 {
                break;
            }
            sum += self.block.entry_bytes(row);
            made.push(Py::new(py, self.entry(row))?);
        }
        Ok((PyList::new(py, made)?, sum))
    }

    /// The live entry with this ID, or None.
    fn find(&self, id: &Bound<'_, PyAny>) -> PyResult<Option<Entry>> {
        self.find_one(parse(id, 0)?)
    }

    /// The position in the segment of each of these IDs that is a live entry here.
    fn positions(&self, ids: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<(EntryId, u64)>> {
        let mut found = Vec::new();
        for id in ids {
            let id = parse(&id, 0)?;
            let row = self.block.lower_bound(id);
            if self.block.id(row) == Some(id) && self.is_live(row) {
                found.push((EntryId { id }, self.base + row as u64));
            }
        }
        Ok(found)
    }

    /// The position in the segment of the first entry whose ID is not below `id`.
    fn lower_bound(&self, id: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(self.base + self.block.lower_bound(parse(id, 0)?) as u64)
    }

    /// The position behind the last row.
    #[getter]
    fn end_position(&self) -> u64 {
        self.base + self.block.len() as u64
    }

    /// The ID of a row counted from the block's start, gone or not; IndexError past its end.
    fn id_at(&self, row: usize) -> PyResult<EntryId> {
        let id = self.block.id(row).ok_or_else(|| PyIndexError::new_err("a row past its block"))?;
        Ok(EntryId { id })
    }

    /// Rows of the block, gone ones included.
    #[getter]
    fn row_count(&self) -> usize {
        self.block.len()
    }
}

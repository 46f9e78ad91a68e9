//! `Entry` and `Block`: decoded entries as Python sees them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use diskstream_core::block;
use diskstream_core::id::Id;
use diskstream_core::state::SegmentMeta;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::args::name_bytes;
use crate::bytes::{bytes_of, text_of};
use crate::id::{parse, EntryId};
use crate::ranging::{held_once, Shelf};

/// Where an entry stands: on a row of a block for good, or for the time being of a block on a shelf.
enum Place {
    Row { block: Arc<block::Block>, row: u32, text: bool },
    Shelf(Box<OnShelf>),
}

struct OnShelf {
    shelf: Arc<Shelf>,
    /// The number of the block on the shelf, and the row in it.
    at: AtomicU64,
    text: bool,
}

impl OnShelf {
    #[inline]
    fn place(&self) -> (&block::Block, usize) {
        let at = self.at.load(Ordering::Relaxed);
        (self.shelf.block((at >> 32) as u32), (at & u64::from(u32::MAX)) as usize)
    }
}

fn packed(number: u32, row: u32) -> u64 {
    u64::from(number) << 32 | u64::from(row)
}

/// One entry. It holds on to its block and unpacks what is asked for.
#[pyclass(frozen, subclass, module = "diskstream")]
pub struct Entry {
    place: Place,
}

impl Entry {
    pub fn at(block: Arc<block::Block>, row: u32, text: bool) -> Entry {
        Entry { place: Place::Row { block, row, text } }
    }

    /// The same entry, once more.
    pub fn again(&self) -> Entry {
        match &self.place {
            Place::Row { block, row, text } => Entry::at(Arc::clone(block), *row, *text),
            Place::Shelf(on) => {
                let (shelf, at) = (Arc::clone(&on.shelf), AtomicU64::new(on.at.load(Ordering::Relaxed)));
                Entry { place: Place::Shelf(Box::new(OnShelf { shelf, at, text: on.text })) }
            }
        }
    }

    /// Where it stands.
    #[inline]
    pub fn place(&self) -> (&block::Block, usize) {
        match &self.place {
            Place::Row { block, row, .. } => (block, *row as usize),
            Place::Shelf(on) => on.place(),
        }
    }

    pub fn is_text(&self) -> bool {
        match &self.place {
            Place::Row { text, .. } => *text,
            Place::Shelf(on) => on.text,
        }
    }

    fn key(&self) -> Id {
        let (block, row) = self.place();
        block.id(row).unwrap_or_default()
    }

    fn all_pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (block, row) = self.place();
        block.pairs(row)
    }

    #[inline]
    fn value<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (block, row) = self.place();
        name_bytes(name, |bytes| block.value(row, bytes).map(|value| self.present(py, value)))?.transpose()
    }

    fn present<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if self.is_text() {
            return text_of(py, bytes);
        }
        Ok(bytes_of(py, bytes)?.into_any())
    }

    /// ID and fields for people, so it never fails: what is no UTF-8 is shown as the bytes that it is.
    pub fn shown(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |bytes| self.present(py, bytes).unwrap_or_else(|_| PyBytes::new(py, bytes).into_any());
        let dict = PyDict::new(py);
        for (name, value) in self.all_pairs() {
            dict.set_item(shown(name), shown(value))?;
        }
        Ok(format!("'{}', {}", self.key(), dict.repr()?))
    }
}

#[pymethods]
impl Entry {
    /// The ID of the entry.
    #[getter]
    pub fn id(&self) -> EntryId {
        EntryId::of(self.key())
    }

    /// Fields as a dictionary; of a repeated name the last value.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.all_pairs() {
            dict.set_item(self.present(py, name)?, self.present(py, value)?)?;
        }
        Ok(dict)
    }

    /// Fields as a list of (name, value), repeated names included.
    #[getter]
    fn pairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (name, value) in self.all_pairs() {
            list.append((self.present(py, name)?, self.present(py, value)?))?;
        }
        Ok(list)
    }

    /// Bytes of all names and values.
    #[getter]
    fn size_bytes(&self) -> usize {
        let (block, row) = self.place();
        block.entry_bytes(row)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value(py, name)?.ok_or_else(|| PyKeyError::new_err(name.clone().unbind()))
    }

    /// The value of a field, or `default` where the entry has no such field.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, name)?.or(default))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (block, row) = self.place();
        name_bytes(name, |bytes| block.value(row, bytes).is_some())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pair = PyTuple::new(py, [self.id().into_pyobject(py)?.into_any(), self.fields(py)?.into_any()])?;
        Ok(pair.try_iter()?.into_any())
    }

    fn __len__(&self) -> usize {
        2
    }

    fn __eq__(&self, other: PyRef<'_, Entry>) -> bool {
        self.key() == other.key() && self.all_pairs().eq(other.all_pairs())
    }

    fn __hash__(&self) -> u64 {
        let id = self.key();
        id.ms.rotate_left(32) ^ id.seq
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Entry({})", self.shown(py)?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("diskstream._native")?.getattr("restore_entry")?;
        let pairs = PyList::empty(py);
        for (name, value) in self.all_pairs() {
            pairs.append((bytes_of(py, name)?, bytes_of(py, value)?))?;
        }
        let arguments = (self.id(), pairs, self.is_text());
        Ok((restore, arguments.into_pyobject(py)?))
    }
}

/// Builds an entry from its parts: what unpickling calls, and tests.
#[pyfunction]
#[pyo3(signature = (id, pairs, text=false))]
pub fn restore_entry(
    py: Python<'_>,
    id: &Bound<'_, PyAny>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    text: bool,
) -> PyResult<Entry> {
    let mut builder = block::BlockBuilder::default();
    let names = pairs.iter().map(|(name, _)| name.as_slice().into()).collect();
    let number = builder.intern(block::Shape { names });
    let lengths: Vec<usize> = pairs.iter().map(|(_, value)| value.len()).collect();
    let values: Vec<u8> = pairs.into_iter().flat_map(|(_, value)| value).collect();
    builder.push(parse(id, 0)?, number, &lengths, &values).map_err(|error| crate::errors::core(py, "", error))?;
    Ok(Entry::at(Arc::new(builder.finish()), 0, text))
}

/// An entry that is moved on to another row, and its ID with it, once nobody holds it any more: see `ranging`. For those
/// who hold one, it is an entry like any other.
#[pyclass(frozen, extends = Entry, module = "diskstream", name = "Entry")]
pub struct Passing {
    /// The ID of the entry. As a member of the object it is read without a call, by the interpreter itself.
    #[pyo3(get)]
    id: Py<EntryId>,
}

impl Passing {
    /// A row of the block with this number.
    pub fn made(py: Python<'_>, shelf: Arc<Shelf>, number: u32, row: u32, text: bool) -> PyResult<Py<Passing>> {
        let id = Py::new(py, EntryId::of(shelf.block(number).id(row as usize).unwrap_or_default()))?;
        let at = AtomicU64::new(packed(number, row));
        let entry = Entry { place: Place::Shelf(Box::new(OnShelf { shelf, at, text })) };
        Py::new(py, PyClassInitializer::from(entry).add_subclass(Passing { id }))
    }

    /// Moves on to another row of the shelf. False, and nothing is changed, where somebody holds the entry or its ID.
    #[inline]
    pub fn move_on(passing: &Py<Passing>, py: Python<'_>, number: u32, row: u32) -> bool {
        let (bound, inner) = (passing.bind(py), passing.get());
        let Place::Shelf(on) = &bound.as_super().get().place else { return false };
        if !held_once(py, passing) || !held_once(py, &inner.id) {
            return false;
        }
        inner.id.get().move_on(on.shelf.block(number).id(row as usize).unwrap_or_default());
        on.at.store(packed(number, row), Ordering::Relaxed);
        true
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
            Some(beyond) if block.ids.last().is_some_and(|last| last >= beyond) => block.lower_bound(beyond),
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
        Entry::at(Arc::clone(&self.block), row as u32, self.text)
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

    /// Puts the live entries of this block that are among `ids`, which rise, into `found`, by their IDs; begins with
    /// the ID at `at`. Returns where those begin that are behind the block.
    fn find_many(&self, ids: &Bound<'_, PyList>, at: usize, found: &Bound<'_, PyDict>) -> PyResult<usize> {
        for place in at..ids.len() {
            let wanted = ids.get_item(place)?;
            let id = parse(&wanted, 0)?;
            if self.block.ids.last().is_none_or(|last| id > last) {
                return Ok(place);
            }
            if let Some(entry) = self.find_one(id)? {
                found.set_item(wanted, entry)?;
            }
        }
        Ok(ids.len())
    }

    /// The position in the segment of each of these IDs that is a live entry here.
    fn positions(&self, ids: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<(EntryId, u64)>> {
        let mut found = Vec::new();
        for id in ids {
            let id = parse(&id, 0)?;
            let row = self.block.lower_bound(id);
            if self.block.id(row) == Some(id) && self.is_live(row) {
                found.push((EntryId::of(id), self.base + row as u64));
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
        Ok(EntryId::of(id))
    }

    /// Rows of the block, gone ones included.
    #[getter]
    fn row_count(&self) -> usize {
        self.block.len()
    }

    #[getter]
    fn last_id(&self) -> PyResult<EntryId> {
        self.id_at(self.block.len().wrapping_sub(1))
    }
}

//! Segments by what the log says of them, and row files that were rolled.

use std::sync::Arc;

use diskstream_core::error::Error;
use diskstream_core::groups::Groups;
use diskstream_core::state::{remap_deleted, SegmentMeta};
use diskstream_core::tail::Tail;
use diskstream_sys::map::Map;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::entry::Block;
use crate::errors;
use crate::file::LogFile;
use crate::id::{parse, EntryId};
use crate::sealed::SealedSegment;

/// The place, among segments in order, of the first that ends at an ID or behind it; their number where none does.
#[pyfunction]
pub fn segment_at(views: &Bound<'_, PyList>, id: &Bound<'_, PyAny>) -> PyResult<usize> {
    let id = parse(id, 0)?;
    let (mut low, mut high) = (0, views.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let view = views.get_item(middle)?;
        if view.cast::<SegmentView>()?.get().meta.last < id {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// What the log says of one segment at one moment.
#[pyclass(frozen, module = "diskstream._native")]
pub struct SegmentView {
    pub meta: Arc<SegmentMeta>,
}

#[pymethods]
impl SegmentView {
    #[getter]
    fn number(&self) -> u64 {
        self.meta.number
    }

    #[getter]
    fn generation(&self) -> u32 {
        self.meta.generation
    }

    /// Entries in the file, gone ones included.
    #[getter]
    fn entries(&self) -> u64 {
        self.meta.entries
    }

    #[getter]
    fn live(&self) -> u64 {
        self.meta.live()
    }

    #[getter]
    fn first(&self) -> EntryId {
        EntryId::of(self.meta.first)
    }

    #[getter]
    fn last(&self) -> EntryId {
        EntryId::of(self.meta.last)
    }

    /// The position of the first live entry at or beyond `position`; `entries`, or `position`, where there is none.
    fn next_live(&self, position: u64) -> u64 {
        self.meta.next_live(position)
    }

    /// The position behind the last live entry below `position`; 0 where there is none.
    fn live_end(&self, position: u64) -> u64 {
        self.meta.live_end(position)
    }

    /// Entries before this position are trimmed away.
    #[getter]
    fn trimmed(&self) -> u64 {
        self.meta.trimmed
    }

    #[getter]
    fn size_bytes(&self) -> u64 {
        self.meta.size_bytes
    }

    #[getter]
    fn times_ms(&self) -> (u64, u64) {
        (self.meta.min_time_ms, self.meta.max_time_ms)
    }

    /// The same segment with nothing left of it: in a replace frame it takes the segment off the list.
    fn emptied(&self) -> SegmentView {
        let entries = self.meta.entries;
        SegmentView { meta: Arc::new(SegmentMeta { trimmed: entries, ..(*self.meta).clone() }) }
    }

    /// The view of a compacted segment made of `then`, where `now` is what became of each input since (None: gone).
    #[staticmethod]
    fn compacted(
        then: Vec<PyRef<'_, SegmentView>>,
        now: Vec<Option<PyRef<'_, SegmentView>>>,
        footer: &SealedSegment,
    ) -> SegmentView {
        let then: Vec<SegmentMeta> = then.iter().map(|view| (*view.meta).clone()).collect();
        let now: Vec<Option<SegmentMeta>> =
            now.iter().map(|view| view.as_ref().map(|view| (*view.meta).clone())).collect();
        let sealed = &footer.footer;
        let meta = SegmentMeta {
            number: sealed.key.segment,
            generation: sealed.key.generation,
            entries: sealed.entries,
            first: sealed.first,
            last: sealed.last,
            min_time_ms: sealed.min_time_ms,
            max_time_ms: sealed.max_time_ms,
            size_bytes: then.iter().map(|meta| meta.size_bytes).sum(),
            trimmed: 0,
            deleted: Arc::new(remap_deleted(&then, &now)),
        };
        SegmentView { meta: Arc::new(meta) }
    }
}

/// A rolled log file, not yet sealed.
#[pyclass(frozen, module = "diskstream._native")]
pub struct RowSegment {
    pub tail: Tail,
    pub map: Arc<Map>,
    text: bool,
}

impl RowSegment {
    pub fn of(tail: Tail, map: Arc<Map>, text: bool) -> RowSegment {
        RowSegment { tail: without_groups(tail), map, text }
    }
}

/// A rolled segment is read for its entries: what groups were when it ended is of no use.
fn without_groups(mut tail: Tail) -> Tail {
    tail.state.groups = Groups::default();
    tail
}

#[pymethods]
impl RowSegment {
    /// Reads all frames of a rolled log file, which must hold what `view` says.
    #[new]
    fn new(py: Python<'_>, file: &LogFile, view: &SegmentView, uuid: [u8; 16], text: bool) -> PyResult<RowSegment> {
        let path = file.inner.path.clone();
        let map = file.inner.map();
        let tail = py
            .detach(|| -> Result<Tail, Error> {
                let mut tail = Tail::begin(map.bytes())?;
                let stopped = tail.follow_to_end(map.bytes());
                let wanted = &view.meta;
                if tail.header.uuid != uuid || tail.header.segment != wanted.number {
                    let expected = format!("segment {} of this stream", wanted.number);
                    return Err(Error::corrupt("log header", 0, expected, format!("segment {}", tail.header.segment)));
                }
                let meta = tail.meta();
                if (meta.entries, meta.first, meta.last) != (wanted.entries, wanted.first, wanted.last) {
                    // Other entries than the successor's snapshot lists: what stopped the scan is the fault.
                    return Err(stopped);
                }
                Ok(tail)
            })
            .map_err(|error| errors::core(py, &path, error))?;
        Ok(RowSegment { tail: without_groups(tail), map, text })
    }

    /// Unpacks entries from `position` on, within `start..=end`; None behind the last.
    #[pyo3(signature = (position, start, end, max_entries, max_bytes, view=None))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        position: u64,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        max_entries: u64,
        max_bytes: usize,
        view: Option<&SegmentView>,
    ) -> PyResult<Option<Block>> {
        let range = (parse(start, 0)?, parse(end, u64::MAX)?);
        let block = py
            .detach(|| self.tail.index.read(self.map.bytes(), position, self.tail.end, max_entries, max_bytes))
            .map_err(|error| errors::core(py, "", error))?;
        if block.is_empty() {
            return Ok(None);
        }
        Ok(Some(Block::clipped(Arc::new(block), position, range, view.map(|view| &view.meta), self.text)))
    }

    fn seek(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<u64> {
        let found = self.tail.index.seek(self.map.bytes(), parse(id, 0)?, self.tail.end);
        found.map_err(|error| errors::core(py, "", error))
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.tail.index.entries
    }

    /// Sequence number and header checksum of the last frame: what the successor's snapshot frame is linked to.
    #[getter]
    fn link(&self) -> (u64, u32) {
        (self.tail.lsn, self.tail.link)
    }
}

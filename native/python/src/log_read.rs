//! Reading what is visible of a [`Log`].

use std::sync::Arc;

use diskstream_sys::ctl::Word;
use pyo3::prelude::*;

use crate::entry::Block;
use crate::errors;
use crate::id::{parse, EntryId};
use crate::log::Log;
use crate::segments::SegmentView;
#[pymethods]
impl Log {
    /// The greatest ID that a trim took, of segments that are not listed any more; None where there is none.
    #[getter]
    fn trimmed_to(&self, py: Python<'_>) -> Option<EntryId> {
        let id = self.lock_brief(py).tail.state.trimmed_to;
        (id > diskstream_core::id::Id::MIN).then_some(EntryId::of(id))
    }

    /// Reads visible entries of the active segment from `position` on, within `start..=end`; None behind the last.
    ///
    /// The bool is false where `segment` is not the active one any more: look the segments up again.
    #[pyo3(signature = (segment, position, start, end, max_entries, max_bytes))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        segment: u64,
        position: u64,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        max_entries: u64,
        max_bytes: usize,
    ) -> PyResult<(bool, Option<Block>)> {
        let range = (parse(start, 0)?, parse(end, u64::MAX)?);
        let (index, map, stop, meta) = {
            let active = self.lock_brief(py);
            if active.tail.header.segment != segment {
                return Ok((false, None));
            }
            if position >= active.tail.index.entries {
                return Ok((true, None));
            }
            let stop = self.visible_end(&active);
            let meta = Arc::new(active.tail.meta().clone());
            (active.tail.index.part(position, max_entries), Arc::clone(&active.map), stop, meta)
        };
        let block = py
            .detach(|| index.read(map.bytes(), position, stop, max_entries, max_bytes))
            .map_err(|error| errors::core(py, &self.path(), error))?;
        if block.is_empty() {
            return Ok((true, None));
        }
        Ok((true, Some(Block::clipped(Arc::new(block), position, range, Some(&meta), self.text))))
    }

    /// The position in the active segment of the first visible entry whose ID is not below `id`; None where `segment`
    /// is not the active one any more. With `written`, of all that is written, visible or not.
    #[pyo3(signature = (segment, id, written=false))]
    fn seek(&self, py: Python<'_>, segment: u64, id: &Bound<'_, PyAny>, written: bool) -> PyResult<Option<u64>> {
        let id = parse(id, 0)?;
        let active = self.lock_brief(py);
        if active.tail.header.segment != segment {
            return Ok(None);
        }
        let stop = if written { active.tail.end } else { self.visible_end(&active) };
        let found = active.tail.index.seek(active.map.bytes(), id, stop);
        found.map(Some).map_err(|error| errors::core(py, &self.path(), error))
    }

    /// How many entries of the active segment are visible, gone ones included. With `durable`, known to be on disk.
    #[pyo3(signature = (durable=false))]
    fn visible_entries(&self, py: Python<'_>, durable: bool) -> PyResult<u64> {
        let active = self.lock_brief(py);
        let stop = self.end_by(&active, if durable { Word::Durable } else { Word::Visible });
        if stop >= active.tail.end {
            return Ok(active.tail.index.entries);
        }
        active.tail.index.entries_before(active.map.bytes(), stop).map_err(|e| errors::core(py, &self.path(), e))
    }

    /// The sealed and rolled segments, in order.
    fn segments(&self, py: Python<'_>) -> Vec<SegmentView> {
        let active = self.lock_brief(py);
        active.tail.state.sealed.iter().map(|meta| SegmentView { meta: Arc::new(meta.clone()) }).collect()
    }

    /// The active segment as a view.
    fn active_view(&self, py: Python<'_>) -> SegmentView {
        SegmentView { meta: Arc::new(self.lock_brief(py).tail.meta().clone()) }
    }

    /// `(length, last ID, entries added, greatest deleted ID)` as of all that is visible.
    pub(crate) fn counters(&self, py: Python<'_>) -> PyResult<(u64, EntryId, u64, EntryId)> {
        let active = self.lock_brief(py);
        let stop = self.visible_end(&active);
        let found = active.tail.counters_at(active.map.bytes(), stop).map_err(|e| errors::core(py, &self.path(), e))?;
        Ok((found.length, EntryId::of(found.last), found.added, EntryId::of(found.max_deleted)))
    }

    /// Live entries of all that is written, visible or not: what a trim is planned by.
    fn written_length(&self, py: Python<'_>) -> u64 {
        self.lock_brief(py).tail.state.len()
    }

    /// Live entries.
    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.counters(py)?.0)
    }
}

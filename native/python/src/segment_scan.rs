//! A run of a sealed segment's nodes as one batch of columns. Each node is unpacked, laid out and let go of before the next
//! is read: so it is in the processor's cache still when it is laid out, and there is never more than one.

use std::ops::Range;

use diskstream_core::id::Id;
use pyo3::prelude::*;

use crate::entry::Block;
use crate::errors::Failure;
use crate::id::parse;
use crate::nodes::NodeCache;
use crate::scan::{Columns, ScanBatch, ScanLayout};
use crate::sealed::SealedSegment;
use crate::segments::SegmentView;

/// What of a segment is wanted, and how much of it at once.
struct Wanted<'a> {
    nodes: Range<usize>,
    within: (Id, Id),
    view: &'a SegmentView,
    rows: usize,
    size_bytes: usize,
}

#[pymethods]
impl SealedSegment {
    /// Live entries of nodes `first..stop` within `start..=end` as one batch, and the first node that is not in it. It is
    /// of one node at least, of no more than `rows` beside, nor of more than `size_bytes` of IDs and values; and ends
    /// before a node that cannot be read, which is then the first of the next call.
    #[pyo3(signature = (layout, first, stop, start, end, view, *, rows, size_bytes, cached))]
    #[allow(clippy::too_many_arguments)]
    fn scan(
        &self,
        py: Python<'_>,
        layout: &ScanLayout,
        first: usize,
        stop: usize,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        view: &SegmentView,
        rows: usize,
        size_bytes: usize,
        cached: bool,
    ) -> PyResult<(ScanBatch, usize)> {
        let within = (parse(start, 0)?, parse(end, u64::MAX)?);
        let cache = cached.then(|| self.cache.get());
        let wanted = Wanted { nodes: first..stop, within, view, rows, size_bytes };
        layout.laid_out(py, &self.path, |columns| self.fill_batch(columns, &wanted, cache))
    }
}

impl SealedSegment {
    /// Adds nodes until it is enough; gives the number of the one behind them.
    fn fill_batch(
        &self,
        columns: &mut Columns,
        wanted: &Wanted<'_>,
        cache: Option<&NodeCache>,
    ) -> Result<usize, Failure> {
        let (mut at, mut held_bytes) = (wanted.nodes.start, 0);
        while at < wanted.nodes.end {
            let is_first = columns.last().is_none();
            match self.node_within(at, columns.rows(), wanted, cache) {
                Err(fault) if is_first => return Err(fault),
                Ok(Some(block)) if is_first || held_bytes + block.block.value_bytes() <= wanted.size_bytes => {
                    held_bytes += block.block.value_bytes();
                    columns.push(&block)?;
                }
                _ => break,
            }
            if is_first {
                columns.reserve_like(self.rows_ahead(wanted)?, wanted.size_bytes)?;
            }
            at = match self.live_from(at + 1, &wanted.view.meta) {
                Ok(next) => next,
                Err(_) => at + 1, // the next call meets it first
            };
        }
        Ok(at)
    }

    /// Node `number`; None where it would be too much for a batch that has so many `rows` already.
    fn node_within(
        &self,
        number: usize,
        rows: usize,
        wanted: &Wanted<'_>,
        cache: Option<&NodeCache>,
    ) -> Result<Option<Block>, Failure> {
        if rows > 0 && rows + self.index()?.row(number)?.entries as usize > wanted.rows {
            return Ok(None);
        }
        let (block, before) = self.node(number, cache)?;
        Ok(Some(Block::clipped(block, before, wanted.within, Some(&wanted.view.meta), false)))
    }

    /// Rows that the batch may come to have: those of all nodes that are wanted, or as many as are.
    fn rows_ahead(&self, wanted: &Wanted<'_>) -> Result<usize, Failure> {
        let index = self.index()?;
        let Some(last) = wanted.nodes.end.min(index.rows()).checked_sub(1) else { return Ok(0) };
        let (first, last) = (index.row(wanted.nodes.start)?, index.row(last)?);
        let all = (last.before + u64::from(last.entries)).saturating_sub(first.before);
        Ok(wanted.rows.min(usize::try_from(all).unwrap_or(usize::MAX)))
    }
}

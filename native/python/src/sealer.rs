//! `Sealer`: entries in, the bytes of a sealed segment out.

use std::sync::Mutex;

use diskstream_core::block::BlockBuilder;
use diskstream_core::error::Error;
use diskstream_core::id::Id;
use diskstream_core::node::{self, NodePacker};
use diskstream_core::sealed::{Footer, SegmentKey, SEGMENT_HEADER_BYTES};
use diskstream_core::sparse::{self, IndexRow};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::bytes_of;
use crate::entry::Block;
use crate::errors;

struct Building {
    key: SegmentKey,
    pending: BlockBuilder,
    packer: NodePacker,
    out: Vec<u8>,
    /// Bytes handed out so far.
    written: u64,
    index: Vec<u8>,
    nodes: u32,
    entries: u64,
    raw_bytes: u64,
    first: Option<Id>,
    last: Id,
}

/// Packs entries into the nodes of a sealed segment.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Sealer {
    building: Mutex<Building>,
    max_entries: usize,
    max_bytes: usize,
}

impl Sealer {
    fn with<R>(&self, each: impl FnOnce(&mut Building) -> R) -> R {
        each(&mut self.building.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Building {
    fn close_node(&mut self, block: &diskstream_core::block::Block) -> Result<(), Error> {
        let (Some(first), Some(last)) = (block.id(0), block.ids.last()) else { return Ok(()) };
        if self.first.is_some() && first <= self.last {
            return Err(Error::Invalid("entries of a segment must be sealed in order"));
        }
        let offset = self.written + self.out.len() as u64;
        let start = self.out.len();
        self.packer.encode(&mut self.out, block, self.key.salt, self.nodes)?;
        let length = (self.out.len() - start) as u32;
        let entries = block.len() as u32;
        IndexRow { first, offset, before: self.entries, length, entries }.put(&mut self.index);
        self.nodes += 1;
        self.entries += block.len() as u64;
        self.raw_bytes += (0..block.len()).map(|row| block.entry_bytes(row) as u64).sum::<u64>();
        self.first.get_or_insert(first);
        self.last = last;
        Ok(())
    }

    fn push(&mut self, part: &Block, limits: (usize, usize)) -> Result<(), Error> {
        let mut at = part.from;
        while at < part.to {
            // Whole columns where a node can be cut out of the block, which is most of the time.
            let stop = part.to.min(at + limits.0);
            if self.pending.is_empty() && part.gone.is_none() && (stop - at) * 2 > limits.0 {
                let whole = at == 0 && stop == part.block.len();
                let cut = if whole { None } else { part.block.part(at, stop) };
                let node = cut.as_ref().unwrap_or(&part.block);
                if node.len() == stop - at && node.value_bytes() <= limits.1 {
                    self.close_node(node)?;
                    at = stop;
                    continue;
                }
            }
            if part.is_live(at) {
                self.pending.push_row(&part.block, at)?;
                if self.pending.len() >= limits.0 || self.pending.bytes() >= limits.1 {
                    self.close_pending()?;
                }
            }
            at += 1;
        }
        Ok(())
    }

    fn close_pending(&mut self) -> Result<(), Error> {
        let block = std::mem::take(&mut self.pending).finish();
        self.close_node(&block)
    }

    fn hand_out(&mut self) -> Vec<u8> {
        self.written += self.out.len() as u64;
        std::mem::take(&mut self.out)
    }
}

#[pymethods]
impl Sealer {
    #[new]
    #[pyo3(signature = (uuid, segment, generation, salt, *, max_entries, max_bytes, level))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        uuid: [u8; 16],
        segment: u64,
        generation: u32,
        salt: u32,
        max_entries: usize,
        max_bytes: usize,
        level: i32,
    ) -> Sealer {
        let key = SegmentKey { uuid, segment, generation, salt };
        let building = Building {
            key,
            pending: BlockBuilder::default(),
            packer: NodePacker::new(level),
            out: key.encode_header(),
            written: 0,
            index: Vec::new(),
            nodes: 0,
            entries: 0,
            raw_bytes: 0,
            first: None,
            last: Id::MIN,
        };
        debug_assert_eq!(building.out.len(), SEGMENT_HEADER_BYTES);
        let max_entries = max_entries.clamp(1, node::MAX_NODE_ENTRIES);
        Sealer { building: Mutex::new(building), max_entries, max_bytes }
    }

    /// Takes the live entries of a block. Returns bytes to append to the file, often none.
    fn push<'py>(&self, py: Python<'py>, block: &Block) -> PyResult<Bound<'py, PyBytes>> {
        let limits = (self.max_entries, self.max_bytes);
        let out = py.detach(|| {
            self.with(|building| {
                building.push(block, limits)?;
                Ok(if building.out.len() >= 1 << 20 { building.hand_out() } else { Vec::new() })
            })
        });
        let out = out.map_err(|error| errors::core(py, "", error))?;
        bytes_of(py, &out)
    }

    /// Ends the segment: the last nodes, the copy of the snapshot frame, index and footer.
    fn finish<'py>(&self, py: Python<'py>, snapshot: &[u8], times_ms: (u64, u64)) -> PyResult<Bound<'py, PyBytes>> {
        let out = py.detach(|| {
            self.with(|building| {
                building.close_pending()?;
                let snapshot_offset = building.written + building.out.len() as u64;
                building.out.extend_from_slice(snapshot);
                let index = std::mem::take(&mut building.index);
                let pages = sparse::page_rows(&index, sparse::PAGE_ROWS)?;
                building.out.extend_from_slice(&pages);
                let index_offset = building.written + building.out.len() as u64;
                building.out.extend_from_slice(&index);
                let footer = Footer {
                    key: building.key,
                    nodes: building.nodes,
                    entries: building.entries,
                    first: building.first.ok_or(Error::Invalid("a sealed segment needs an entry"))?,
                    last: building.last,
                    min_time_ms: times_ms.0,
                    max_time_ms: times_ms.1,
                    index_offset,
                    index_crc: diskstream_core::checksum(&index),
                    snapshot_crc: diskstream_core::checksum(snapshot),
                    snapshot_offset,
                    snapshot_length: snapshot.len() as u64,
                    file_length: index_offset + (index.len() + diskstream_core::sealed::FOOTER_BYTES) as u64,
                    raw_bytes: building.raw_bytes,
                    page_rows: if pages.is_empty() { 0 } else { sparse::PAGE_ROWS as u32 },
                    pages_crc: diskstream_core::checksum(&pages),
                };
                building.out.extend_from_slice(&footer.encode());
                Ok(building.hand_out())
            })
        });
        let out = out.map_err(|error| errors::core(py, "", error))?;
        bytes_of(py, &out)
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.with(|building| building.entries + building.pending.len() as u64)
    }
}

//! Pieces of files by themselves, where the file around them cannot be trusted: a checksum, a node, the rows of a frame.

use std::sync::Arc;

use diskstream_core::block::{self, BlockBuilder};
use diskstream_core::id::Id;
use diskstream_core::node::NodeReader;
use diskstream_core::rows;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::entry::Block;
use crate::errors;
use crate::segments::SegmentView;

/// Number of fields' names of each shape, and its rows.
type Shapes<'py> = Vec<(Vec<Bound<'py, PyBytes>>, usize)>;

/// CRC32C of some bytes.
#[pyfunction]
pub fn checksum(py: Python<'_>, data: &[u8]) -> u32 {
    py.detach(|| diskstream_core::checksum(data))
}

fn whole(py: Python<'_>, block: block::Block, before: u64, view: Option<&SegmentView>) -> (Py<PyAny>, u64) {
    let bytes = (0..block.len()).map(|row| block.entry_bytes(row) as u64).sum();
    let all = (Id::MIN, Id::MAX);
    let made = Block::clipped(Arc::new(block), before, all, view.map(|view| &view.meta), false).into_pyobject(py);
    (made.map_or_else(|_| py.None(), |made| made.into_any().unbind()), bytes)
}

/// One node as it stands in its file, checked: its entries as a block that begins at position `before`, the bytes of
/// names and values, and its shapes. What `view` says is gone is left out.
#[pyfunction]
#[pyo3(signature = (data, salt, number, offset, before=0, view=None))]
#[allow(clippy::too_many_arguments)]
pub fn unpack_node<'py>(
    py: Python<'py>,
    data: &[u8],
    salt: u32,
    number: u32,
    offset: u64,
    before: u64,
    view: Option<&SegmentView>,
) -> PyResult<(Py<PyAny>, u64, Shapes<'py>)> {
    let block = py
        .detach(|| NodeReader::default().read(data, salt, number, offset))
        .map_err(|error| errors::core(py, "", error))?;
    let names = |table: &block::Table| table.shape.names.iter().map(|name| PyBytes::new(py, name)).collect();
    let shapes = block.tables.iter().map(|table| (names(table), table.rows)).collect();
    let (made, bytes) = whole(py, block, before, view);
    Ok((made, bytes, shapes))
}

/// The rows of an entries frame, checked, as a block that begins at position `before`; and the bytes of names and values.
#[pyfunction]
#[pyo3(signature = (data, first, entries, before=0, view=None))]
pub fn unpack_rows(
    py: Python<'_>,
    data: &[u8],
    first: (u64, u64),
    entries: u32,
    before: u64,
    view: Option<&SegmentView>,
) -> PyResult<(Py<PyAny>, u64)> {
    let block = py.detach(|| {
        let mut builder = BlockBuilder::default();
        rows::decode(data, Id::new(first.0, first.1), entries, 0..entries, usize::MAX, &mut builder)?;
        Ok(builder.finish())
    });
    Ok(whole(py, block.map_err(|error| errors::core(py, "", error))?, before, view))
}

//! Columns of bytes into packed rows, and packed rows into the log: a batch crosses from Python once, not a field.

use std::sync::Arc;

use diskstream_core::block::BlockBuilder;
use diskstream_core::id::Id;
use diskstream_core::packing::{self, pack_columns, pack_pairs, Bytes, Fault, Ids, Packed, Pairs};
use diskstream_core::rows;
use diskstream_core::staged;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::commit::{Batch, Choice};
use crate::entry::Block;
use crate::errors::{self, failure, Failure};
use crate::id::EntryId;
use crate::log::{now_ms, Log};
use crate::log_append::{part_of, Commit};

/// The rows of one frame, ready to be appended.
#[pyclass(frozen, module = "diskstream._native")]
pub struct PackedRows {
    pub packed: Packed,
}

#[pymethods]
impl PackedRows {
    /// Entries.
    #[getter]
    fn rows(&self) -> u32 {
        self.packed.rows
    }

    /// Bytes as packed.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.packed.payload.len()
    }

    /// The rows as they are read once they are appended; they must have been given IDs.
    fn block(&self, py: Python<'_>) -> PyResult<Block> {
        let Some((first, last)) = self.packed.ids else {
            return Err(errors::argument(py, "rows without IDs are no block"));
        };
        let (payload, rows) = (&self.packed.payload, self.packed.rows);
        let unpacked = py.detach(|| {
            let mut builder = BlockBuilder::default();
            rows::decode(payload, first, rows, 0..rows, usize::MAX, &mut builder)?;
            Ok(builder.finish())
        });
        let block = unpacked.map_err(|error| errors::core(py, "", error))?;
        Ok(Block::clipped(Arc::new(block), 0, (first, last), None, false))
    }

    /// The rows as bytes that can wait on a disk.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| staged::encode(&self.packed));
        PyBytes::new(py, &bytes)
    }

    /// The rows of which `to_bytes` made these bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<PackedRows> {
        let packed = py.detach(|| staged::decode(data)).map_err(|error| errors::core(py, "", error))?;
        Ok(PackedRows { packed })
    }
}

/// Offsets, whether they are of 64 bits, data, validity bits or None, what offsets count from, the first value's bit.
pub type Column<'py> = (Bound<'py, PyBytes>, bool, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, u64, usize);

fn bytes_of<'a>(column: &'a Column<'_>) -> Bytes<'a> {
    let (offsets, wide, data, validity, base, first_bit) = column;
    let validity = validity.as_ref().map(|bits| bits.as_bytes());
    let (offsets, data) = (offsets.as_bytes(), data.as_bytes());
    Bytes { offsets, wide: *wide, data, validity, base: *base, first_bit: *first_bit }
}

/// Milliseconds and sequences as little-endian words of 64 bits, or a column of text.
#[derive(FromPyObject)]
pub enum GivenIds<'py> {
    Words(Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    Text(Column<'py>),
}

fn ids_of<'a>(given: Option<&'a GivenIds<'_>>) -> Ids<'a> {
    match given {
        None => Ids::Automatic,
        Some(GivenIds::Words(ms, seq)) => Ids::Words { ms: ms.as_bytes(), seq: seq.as_bytes() },
        Some(GivenIds::Text(column)) => Ids::Text(bytes_of(column)),
    }
}

fn raised(py: Python<'_>, fault: Fault) -> PyErr {
    match fault {
        Fault::NoField(row) => errors::argument(py, &format!("row {row} has no field: an entry needs at least one")),
        Fault::NoName(row) => errors::argument(py, &format!("row {row} has a value without a name")),
        Fault::NoId(row) => errors::argument(py, &format!("row {row} has no ID")),
        Fault::BadId(row) => errors::invalid_id(py, &format!("that of row {row}")),
        Fault::Order(_) => failure(py, "", Failure::NotAbove),
        Fault::Zero => failure(py, "", Failure::Zero),
        Fault::Core(_, error) => errors::core(py, "", error),
    }
}

fn handed_over(py: Python<'_>, frames: Result<Vec<Packed>, Fault>) -> PyResult<Vec<PackedRows>> {
    let frames = frames.map_err(|fault| raised(py, fault))?;
    Ok(frames.into_iter().map(|packed| PackedRows { packed }).collect())
}

/// Packs columns, each of which is a field of that name, into as few frames of `limit` bytes as can be.
#[pyfunction]
#[pyo3(name = "pack_columns", signature = (columns, rows, ids=None, limit=packing::MAX_ROWS_BYTES))]
pub fn pack_named_columns(
    py: Python<'_>,
    columns: Vec<(Bound<'_, PyBytes>, Column<'_>)>,
    rows: usize,
    ids: Option<GivenIds<'_>>,
    limit: usize,
) -> PyResult<Vec<PackedRows>> {
    let (columns, ids): (Vec<(&[u8], Bytes<'_>)>, Ids<'_>) =
        (columns.iter().map(|(name, column)| (name.as_bytes(), bytes_of(column))).collect(), ids_of(ids.as_ref()));
    let frames = py.detach(|| pack_columns(&columns, rows, ids, limit.min(packing::MAX_ROWS_BYTES)));
    handed_over(py, frames)
}

/// The same for lists of pairs: row `r` has those from `bounds[r]` up to `bounds[r + 1]`, words of 32 bits.
#[pyfunction]
#[pyo3(name = "pack_pairs", signature = (bounds, names, values, rows, ids=None, limit=packing::MAX_ROWS_BYTES))]
pub fn pack_listed_pairs(
    py: Python<'_>,
    bounds: &[u8],
    names: Column<'_>,
    values: Column<'_>,
    rows: usize,
    ids: Option<GivenIds<'_>>,
    limit: usize,
) -> PyResult<Vec<PackedRows>> {
    let pairs = Pairs { bounds, names: bytes_of(&names), values: bytes_of(&values) };
    let ids = ids_of(ids.as_ref());
    let frames = py.detach(|| pack_pairs(&pairs, rows, ids, limit.min(packing::MAX_ROWS_BYTES)));
    handed_over(py, frames)
}

#[pymethods]
impl Log {
    /// Appends packed rows as one frame, and returns the first and the last ID; None where the part that they are was
    /// committed before.
    #[pyo3(signature = (rows, durable=false, held=false, now=None, commit=None))]
    fn add_packed(
        &self,
        py: Python<'_>,
        rows: &PackedRows,
        durable: bool,
        held: bool,
        now: Option<u64>,
        commit: Option<Commit<'_>>,
    ) -> PyResult<Option<(EntryId, EntryId)>> {
        let packed = &rows.packed;
        let choice = packed.ids.map_or(Choice::Auto, |(first, last)| Choice::Explicit { first, last });
        let batch = Batch {
            choice,
            rows: packed.rows,
            payload: &packed.payload,
            message: None,
            commit: commit.as_ref().map(part_of),
            now_ms: now.unwrap_or_else(now_ms),
        };
        let Some(first) = self.append_batch(py, &batch, durable, held)? else { return Ok(None) };
        let extra = u64::from(packed.rows.saturating_sub(1));
        let last = packed.ids.map_or(Id::new(first.ms, first.seq + extra), |(_, last)| last);
        Ok(Some((EntryId::of(first), EntryId::of(last))))
    }
}

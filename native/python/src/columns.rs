//! `ColumnBatch`: entries as columns, handed over as bytes objects that numpy and Arrow wrap without a copy.

use diskstream_core::columns::{Columns, Duplicates, MAX_FIELDS};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::bytes_of;
use crate::entry::Block;
use crate::errors;

/// Columns of a run of entries.
#[pyclass(frozen, module = "diskstream._native")]
pub struct ColumnBatch {
    columns: Columns,
}

impl ColumnBatch {
    pub fn new(columns: Columns) -> ColumnBatch {
        ColumnBatch { columns }
    }

    pub fn empty(py: Python<'_>, fields: Option<Vec<Vec<u8>>>, duplicates: &str) -> PyResult<Columns> {
        let policy = match duplicates {
            "first" => Duplicates::First,
            "last" => Duplicates::Last,
            "fail" => Duplicates::Fail,
            _ => return Err(errors::argument(py, "duplicates must be 'first', 'last' or 'fail'")),
        };
        let only = fields.map(|names| names.into_iter().map(Vec::into_boxed_slice).collect());
        Ok(Columns::new(only, policy))
    }
}

/// Words as little-endian bytes, written straight into the bytes object.
pub fn words<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    bytes_of: impl Fn(T) -> [u8; N],
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * N, |buffer| {
        for (place, value) in buffer.chunks_exact_mut(N).zip(values) {
            place.copy_from_slice(&bytes_of(*value));
        }
        Ok(())
    })
}

/// Name, offsets, data, validity bits or None, count of nulls.
type Field<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, usize);

#[pymethods]
impl ColumnBatch {
    /// At most so many fields where none are named.
    #[classattr]
    const MAX_FIELDS: usize = MAX_FIELDS;

    /// Columns of the live entries of blocks.
    #[staticmethod]
    fn of_blocks(
        py: Python<'_>,
        blocks: Vec<PyRef<'_, Block>>,
        fields: Option<Vec<Vec<u8>>>,
        duplicates: &str,
    ) -> PyResult<ColumnBatch> {
        let mut columns = ColumnBatch::empty(py, fields, duplicates)?;
        for block in &blocks {
            let live = |row: usize| block.is_live(row);
            let filter: Option<&dyn Fn(usize) -> bool> = if block.gone.is_some() { Some(&live) } else { None };
            columns.push(&block.block, block.from, block.to, filter).map_err(|error| errors::core(py, "", error))?;
        }
        Ok(ColumnBatch { columns })
    }

    #[getter]
    fn rows(&self) -> usize {
        self.columns.rows()
    }

    /// Milliseconds of the IDs, as little-endian 64-bit words.
    #[getter]
    fn ms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words(py, &self.columns.ms, u64::to_le_bytes)
    }

    /// Sequences of the IDs.
    #[getter]
    fn seq<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words(py, &self.columns.seq, u64::to_le_bytes)
    }

    /// For each field its name, `rows + 1` little-endian 32-bit offsets, bytes, validity bits (or None) and nulls.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<Field<'py>>> {
        let fields = self.columns.fields.iter();
        fields
            .map(|field| {
                Ok((
                    PyBytes::new(py, &field.name),
                    words(py, &field.offsets, i32::to_le_bytes)?,
                    bytes_of(py, &field.data)?,
                    field.validity.as_ref().map(|bits| PyBytes::new(py, bits)),
                    field.nulls,
                ))
            })
            .collect()
    }
}

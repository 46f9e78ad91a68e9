//! `AddRun`: a run of plain XADDs on one key, packed while it was read.

use diskstream_core::id::Id;
use diskstream_core::packing::MAX_ROWS_BYTES;
use diskstream_core::resp_reply::put_ids;
use diskstream_core::resp_runs::{self, Run};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::bytes::bytes_of;
use crate::errors;
use crate::id::EntryId;
use crate::packing::PackedRows;

/// Commands `XADD key * name value ...` that follow one another: the rows of one frame.
#[pyclass(frozen, module = "diskstream._native")]
pub struct AddRun {
    key: Vec<u8>,
    /// What `Log.add_packed` takes.
    #[pyo3(get)]
    rows: Py<PackedRows>,
}

impl AddRun {
    pub fn made(py: Python<'_>, run: Run) -> PyResult<Bound<'_, AddRun>> {
        Bound::new(py, AddRun { key: run.key, rows: Py::new(py, PackedRows { packed: run.packed })? })
    }
}

#[pymethods]
impl AddRun {
    /// The stream's name.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.key)
    }

    /// Commands, where both are for the same key; else None.
    fn kin_total(&self, other: &AddRun) -> Option<usize> {
        (self.key == other.key).then(|| self.__len__())
    }

    /// One run of the rows of several, in order; None where they do not fit into one frame. The key is the first's.
    #[staticmethod]
    fn joined(py: Python<'_>, runs: Vec<Bound<'_, AddRun>>) -> PyResult<Option<AddRun>> {
        let Some(first) = runs.first() else { return Ok(None) };
        let parts = runs.iter().map(|run| &run.get().rows.get().packed);
        let joined = resp_runs::join(parts, MAX_ROWS_BYTES).map_err(|error| errors::core(py, "", error))?;
        joined
            .map(|packed| Ok(AddRun { key: first.get().key.clone(), rows: Py::new(py, PackedRows { packed })? }))
            .transpose()
    }

    /// Commands.
    fn __len__(&self) -> usize {
        self.rows.get().packed.rows as usize
    }

    /// The commands as lists of words, for when they must be run one by one.
    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (name, key, id) = (PyBytes::new(py, b"XADD"), self.key(py), PyBytes::new(py, b"*"));
        let commands = PyList::empty(py);
        let mut kept = Ok(());
        let unpacked = resp_runs::unpack(&self.rows.get().packed, |fields| {
            let words = [name.clone(), key.clone(), id.clone()].into_iter().map(Ok);
            let words = words.chain(fields.map(|word| bytes_of(py, word))).collect::<PyResult<Vec<_>>>();
            if kept.is_ok() {
                kept = words.and_then(|words| PyList::new(py, words)).and_then(|words| commands.append(words));
            }
        });
        unpacked.map_err(|error| errors::core(py, "", error))?;
        kept.map(|()| commands)
    }

    /// The replies to the commands, the first of which became the entry `first`: IDs that follow one another.
    fn replies<'py>(&self, py: Python<'py>, first: &EntryId) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        put_ids(&mut out, first.id(), self.rows.get().packed.rows);
        PyBytes::new(py, &out)
    }

    /// The same apart for each of those who sent them, the first of whom sent `counts[0]`.
    fn replies_each<'py>(&self, py: Python<'py>, first: &EntryId, counts: Vec<u32>) -> Vec<Bound<'py, PyBytes>> {
        let mut next = first.id();
        let each = counts.into_iter().map(|count| {
            let mut out = Vec::new();
            put_ids(&mut out, next, count);
            next = Id::new(next.ms, next.seq.saturating_add(u64::from(count)));
            PyBytes::new(py, &out)
        });
        each.collect()
    }
}

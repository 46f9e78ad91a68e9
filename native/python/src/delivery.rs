//! `Delivery`: an entry with what the pending entries list says of it, and the group that it is to be acknowledged to.

use std::sync::Arc;

use diskstream_core::block;
use diskstream_core::id::Id;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::entry::Entry;
use crate::id::parse;

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

    /// Who gave it; not where it was sent to.
    fn group<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let owner = self.owner.bind(py);
        if owner.is_none() {
            let text =
                "a delivery that was sent to another process has no group there: acknowledge, or give back, its ID";
            return Err(crate::errors::wrong_type(py, text));
        }
        Ok(owner)
    }
}

#[pymethods]
impl Delivery {
    /// Acknowledges the entry. Returns whether it was pending.
    fn ack(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let count: usize = slf.get().group(slf.py())?.call_method1("ack", (slf.getattr("id")?,))?.extract()?;
        Ok(count > 0)
    }

    /// Gives the entry back for others to claim: see `Group.nack`. Returns whether it was pending.
    #[pyo3(signature = (mode="FAIL"))]
    fn nack(slf: &Bound<'_, Self>, mode: &str) -> PyResult<bool> {
        let keywords = PyDict::new(slf.py());
        keywords.set_item("mode", mode)?;
        let owner = slf.get().group(slf.py())?;
        let count: usize = owner.call_method("nack", (slf.getattr("id")?,), Some(&keywords))?.extract()?;
        Ok(count > 0)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (inner, shown) = (slf.get(), slf.as_super().get().shown(slf.py())?);
        let gone = if inner.gone { ", gone=True" } else { "" };
        Ok(format!("Delivery({shown}, deliveries={}, idle_ms={}{gone})", inner.deliveries, inner.idle_ms))
    }

    /// Without the group, which is of an open store: that goes to no other process.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, inner, entry) = (slf.py(), slf.get(), slf.as_super().get());
        let restore = py.import("diskstream._native")?.getattr("delivery")?;
        let left = if inner.gone { None } else { Some(Py::new(py, entry.again())?) };
        let arguments = (left, entry.id(), py.None(), inner.idle_ms, inner.deliveries, entry.is_text());
        Ok((restore, arguments.into_pyobject(py)?))
    }

    /// Nothing changes it.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

/// An entry of which nothing is left but its ID.
fn bare(py: Python<'_>, id: Id, text: bool) -> PyResult<Entry> {
    let mut builder = block::BlockBuilder::default();
    let shape = builder.intern(block::Shape { names: Vec::new() });
    builder.push(id, shape, &[], &[]).map_err(|error| crate::errors::core(py, "", error))?;
    Ok(Entry::at(Arc::new(builder.finish()), 0, text))
}

/// A delivery made of an entry (of its ID alone, where the entry is gone) and what the pending entries list says.
#[pyfunction]
#[pyo3(signature = (entry, id, owner, idle_ms, deliveries, text=false))]
pub fn delivery<'py>(
    py: Python<'py>,
    entry: Option<PyRef<'py, Entry>>,
    id: &Bound<'py, PyAny>,
    owner: &Bound<'py, PyAny>,
    idle_ms: i64,
    deliveries: u64,
    text: bool,
) -> PyResult<Py<Delivery>> {
    let gone = entry.is_none();
    let entry = match entry {
        Some(entry) => entry.again(),
        None => bare(py, parse(id, 0)?, text)?,
    };
    Delivery::made(py, entry, owner, gone, idle_ms, deliveries)
}

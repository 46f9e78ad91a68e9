//! `EntryID`, and IDs as callers give them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use diskstream_core::id::Id;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyTuple};

use crate::errors;

/// The ID of an entry: milliseconds and sequence. It never changes for those who hold one: a reader that goes through a
/// stream puts another ID into an object that nobody holds any more, instead of making one (see `ranging`).
#[pyclass(frozen, module = "diskstream", name = "EntryID")]
pub struct EntryId {
    ms: AtomicU64,
    seq: AtomicU64,
}

impl EntryId {
    pub fn of(id: Id) -> EntryId {
        EntryId { ms: AtomicU64::new(id.ms), seq: AtomicU64::new(id.seq) }
    }

    #[inline]
    pub fn id(&self) -> Id {
        Id::new(self.ms.load(Ordering::Relaxed), self.seq.load(Ordering::Relaxed))
    }

    /// Becomes another ID. For the one who holds the only reference.
    #[inline]
    pub fn move_on(&self, id: Id) {
        self.ms.store(id.ms, Ordering::Relaxed);
        self.seq.store(id.seq, Ordering::Relaxed);
    }
}

/// A number of 64 bits. True and False are none: who gives one has taken an ID for an option.
fn whole(value: &Bound<'_, PyAny>) -> Option<u64> {
    value.extract().ok().filter(|_| value.cast::<PyBool>().is_err())
}

/// A complete ID from an `EntryID`, text, bytes, an int of milliseconds or a pair; a missing sequence is `missing`.
pub fn parse(value: &Bound<'_, PyAny>, missing: u64) -> PyResult<Id> {
    let (ms, seq) = parse_open(value)?;
    Ok(Id::new(ms, seq.unwrap_or(missing)))
}

/// The same, leaving a missing sequence open.
pub fn parse_open(value: &Bound<'_, PyAny>) -> PyResult<(u64, Option<u64>)> {
    let py = value.py();
    if let Ok(entry_id) = value.cast_exact::<EntryId>() {
        let id = entry_id.get().id();
        return Ok((id.ms, Some(id.seq)));
    }
    let parsed = if let Ok(text) = value.cast::<PyString>() {
        Id::parse(text.to_str().unwrap_or("").as_bytes())
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Id::parse(bytes.as_bytes())
    } else if value.cast::<PyInt>().is_ok() {
        whole(value).map(|ms| (ms, None))
    } else if value.cast::<PyTuple>().is_ok() {
        let both = value.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().ok();
        both.and_then(|(ms, seq)| Some((whole(&ms)?, Some(whole(&seq)?))))
    } else {
        None
    };
    parsed.ok_or_else(|| {
        let given = value.repr().map_or_else(|_| "an object".to_owned(), |repr| repr.to_string());
        errors::invalid_id(py, &given)
    })
}

#[pymethods]
impl EntryId {
    #[new]
    #[pyo3(signature = (value, seq=None))]
    fn new(value: &Bound<'_, PyAny>, seq: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(seq) = seq else { return Ok(EntryId::of(parse(value, 0)?)) };
        match (whole(value), whole(seq)) {
            (Some(ms), Some(seq)) => Ok(EntryId::of(Id::new(ms, seq))),
            _ => Err(errors::invalid_id(value.py(), &format!("({}, {})", value.repr()?, seq.repr()?))),
        }
    }

    /// Milliseconds.
    #[getter]
    fn ms(&self) -> u64 {
        self.id().ms
    }

    /// Sequence within the millisecond.
    #[getter]
    fn seq(&self) -> u64 {
        self.id().seq
    }

    /// The ID right after this one, or None after the last possible one.
    fn next(&self) -> Option<EntryId> {
        self.id().next().map(EntryId::of)
    }

    /// The ID right before this one, or None before 0-0.
    fn prev(&self) -> Option<EntryId> {
        self.id().prev().map(EntryId::of)
    }

    fn __str__(&self) -> String {
        self.id().to_string()
    }

    fn __repr__(&self) -> String {
        format!("EntryID('{}')", self.id())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.id().to_string().as_bytes())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id().hash(&mut hasher);
        hasher.finish()
    }

    /// Of anything else it says so without an error on the way, which nobody can make while the interpreter ends.
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operation: pyo3::basic::CompareOp) -> Py<PyAny> {
        let py = other.py();
        match other.cast::<EntryId>() {
            Ok(other) => {
                PyBool::new(py, operation.matches(self.id().cmp(&other.get().id()))).to_owned().into_any().unbind()
            }
            Err(_) => py.NotImplemented(),
        }
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (u64, u64))> {
        let id = slf.get().id();
        Ok((slf.get_type().into_any().unbind(), (id.ms, id.seq)))
    }
}

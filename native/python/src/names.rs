//! Names of fields as arrays, kept from one batch to the next: the entries of most streams have the same fields.

use std::sync::{Mutex, PoisonError};

use diskstream_core::listed::{Named, Same};
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::scan::{array, Array};

/// Ends of rows, counted in fields; offsets of names; names.
pub type NameParts = (Array<i32>, Array<i32>, Array<u8>);

/// The arrays of the rows of one shape that came last. Nobody writes to what was handed out, so it may be handed out
/// again; fewer rows are the beginning of it.
#[derive(Default)]
pub struct NamesKept {
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    same: Same,
    parts: NameParts,
}

impl NamesKept {
    /// The arrays of so many rows of a shape.
    pub fn of(&self, py: Python<'_>, same: Same) -> PyResult<NameParts> {
        // Nothing of Python's runs under the lock: it could come back here.
        let found = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let found = kept.as_ref().filter(|kept| kept.same.shape == same.shape && same.rows <= kept.same.rows);
            found.map(|kept| clone(py, &kept.parts))
        };
        if let Some(parts) = found {
            return first_rows(py, &parts, &same);
        }
        let parts = arrays(py, py.detach(|| same.named()));
        let earlier = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.replace(Kept { same, parts: clone(py, &parts) })
        };
        drop(earlier);
        Ok(parts)
    }
}

/// What was laid out, as arrays.
pub fn arrays(py: Python<'_>, named: Named) -> NameParts {
    (array(py, named.ends), array(py, named.names.offsets), array(py, named.names.data))
}

fn clone(py: Python<'_>, parts: &NameParts) -> NameParts {
    (parts.0.clone_ref(py), parts.1.clone_ref(py), parts.2.clone_ref(py))
}

fn first_rows(py: Python<'_>, (ends, name_ends, names): &NameParts, same: &Same) -> PyResult<NameParts> {
    let ends = first(py, ends, same.rows + 1)?;
    Ok((ends, first(py, name_ends, same.fields() + 1)?, first(py, names, same.size_bytes())?))
}

/// The beginning of an array, which shares its bytes.
fn first<T: Element>(py: Python<'_>, values: &Array<T>, count: usize) -> PyResult<Array<T>> {
    let end = isize::try_from(count).unwrap_or(isize::MAX);
    let part = values.bind(py).get_item(PySlice::new(py, 0, end, 1))?;
    Ok(part.cast_into::<PyArray1<T>>()?.unbind())
}

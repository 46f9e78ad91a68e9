//! Bytes and text for Python, of which there may be more than there is memory for.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Of so many bytes an object may not be had while there is memory for others.
pub const LARGE_BYTES: usize = 64 << 10;

/// The same bytes as an object. Where there is no memory for many that is an error, and no panic, which would end all.
#[inline]
pub fn bytes_of<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if data.len() < LARGE_BYTES {
        return Ok(PyBytes::new(py, data));
    }
    PyBytes::new_with(py, data.len(), |room| {
        room.copy_from_slice(data);
        Ok(())
    })
}

/// The same bytes as text. Where they are none that is Python's own error, which says where.
#[inline]
pub fn text_of<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(data) {
        Ok(text) if text.len() < LARGE_BYTES => Ok(PyString::new(py, text).into_any()),
        _ => bytes_of(py, data)?.call_method0("decode"),
    }
}

//! Fields of an entry as callers give them: a mapping or pairs, of bytes, text and numbers.

use diskstream_core::rows::RowsEncoder;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::errors;

/// Calls `each` with the bytes of a name or value.
#[inline]
fn with_bytes<R>(value: &Bound<'_, PyAny>, each: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Ok(each(bytes.as_bytes()));
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        if let Ok(text) = text.to_str() {
            return Ok(each(text.as_bytes()));
        }
    }
    slow_bytes(value, each)
}

#[cold]
fn slow_bytes<R>(value: &Bound<'_, PyAny>, each: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(each(bytes.as_bytes()));
    }
    let py = value.py();
    if let Ok(text) = value.cast::<PyString>() {
        let bytes = text.to_str().map_err(|_| errors::argument(py, "text with lone surrogates: pass bytes instead"))?;
        return Ok(each(bytes.as_bytes()));
    }
    if value.cast::<PyBool>().is_err() {
        // The number itself: what a subclass prints is another matter.
        let plain = if value.cast::<PyInt>().is_ok() {
            Some(py.get_type::<PyInt>())
        } else if value.cast::<PyFloat>().is_ok() {
            Some(py.get_type::<PyFloat>())
        } else {
            None
        };
        if let Some(kind) = plain {
            // One with more digits than Python writes is wrong to give; whatever else came in between is not our word.
            let text = kind.call_method1("__repr__", (value,)).map_err(|error| {
                if error.is_instance_of::<PyValueError>(py) {
                    errors::argument(py, &format!("a number that cannot be written: {error}"))
                } else {
                    error
                }
            })?;
            return Ok(each(text.cast::<PyString>()?.to_str()?.as_bytes()));
        }
        if let Ok(bytes) = value.cast::<PyByteArray>() {
            return Ok(each(&bytes.to_vec()));
        }
        if value.get_type().name()?.to_str()? == "memoryview" {
            let bytes = value.call_method0("tobytes")?;
            return Ok(each(bytes.cast::<PyBytes>()?.as_bytes()));
        }
    }
    let kind = value.get_type().name()?;
    let text = format!("a field must be bytes, str, int or float, not {kind}: convert it first");
    Err(errors::wrong_type(py, &text))
}

/// Collects the fields of one entry into the encoder's present row.
pub fn fields(encoder: &mut RowsEncoder, fields: &Bound<'_, PyAny>) -> PyResult<()> {
    encoder.begin();
    if let Ok(dict) = fields.cast_exact::<PyDict>() {
        for (name, value) in dict.iter() {
            pair(encoder, &name, &value)?;
        }
        return Ok(());
    }
    let py = fields.py();
    let pairs = if fields.hasattr("items")? { fields.call_method0("items")? } else { fields.clone() };
    let pairs = pairs.try_iter().map_err(|_| {
        errors::wrong_type(py, "the fields of an entry are a mapping or a sequence of (name, value) pairs")
    })?;
    for item in pairs {
        let item = item?;
        let both = match item.cast::<PyList>() {
            Ok(list) if list.len() == 2 => Ok((list.get_item(0)?, list.get_item(1)?)),
            _ => item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>(),
        };
        let (name, value) = both
            .map_err(|_| errors::argument(py, "wrong number of arguments: fields come in pairs of name and value"))?;
        pair(encoder, &name, &value)?;
    }
    Ok(())
}

#[inline]
fn pair(encoder: &mut RowsEncoder, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    with_bytes(name, |name| with_bytes(value, |value| encoder.field(name, value)))?
}

/// The bytes of a field name, for a look-up.
pub fn name_bytes<R>(name: &Bound<'_, PyAny>, each: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    with_bytes(name, each)
}

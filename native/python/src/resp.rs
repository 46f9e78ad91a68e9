//! `RequestParser`: the bytes of a client into commands, each piece of them in one call.

use diskstream_core::resp::{Limits, Parser};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors;

/// Redis's `proto-max-bulk-len` and `client-query-buffer-limit`, where nothing else is said.
const BULK_BYTES: usize = 512 << 20;
const QUERY_BYTES: usize = 1 << 30;

/// Takes the bytes of one client and gives its commands.
#[pyclass(module = "diskstream._native")]
pub struct RequestParser {
    parser: Parser,
}

/// Calls `each` with the bytes of an object that lends some. Those that may change meanwhile are copied before.
fn with_data<R>(data: &Bound<'_, PyAny>, each: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(each(bytes.as_bytes()));
    }
    let py = data.py();
    let lent = PyBuffer::<u8>::get(data).and_then(|buffer| buffer.to_vec(py));
    let copy = lent.map_err(|_| errors::wrong_type(py, "data is bytes, a bytearray or a memoryview of bytes"))?;
    Ok(each(&copy))
}

fn listed<'py>(py: Python<'py>, words: &[&[u8]]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, words.iter().map(|word| PyBytes::new(py, word)))
}

#[pymethods]
impl RequestParser {
    #[new]
    #[pyo3(signature = (max_bulk_bytes=BULK_BYTES, max_query_bytes=QUERY_BYTES))]
    fn new(max_bulk_bytes: usize, max_query_bytes: usize) -> RequestParser {
        let limits = Limits { bulk_bytes: max_bulk_bytes, query_bytes: max_query_bytes };
        RequestParser { parser: Parser::new(limits) }
    }

    /// Takes bytes. Returns the commands that are whole now, each as the list of its words.
    #[pyo3(signature = (data, authenticated=true))]
    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        authenticated: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let commands = PyList::empty(py);
        let mut kept = Ok(());
        with_data(data, |data| {
            self.parser.feed(data, authenticated, |words| {
                if kept.is_ok() {
                    kept = listed(py, words).and_then(|words| commands.append(words));
                }
            });
        })?;
        kept.map(|()| commands)
    }

    /// What a protocol error is answered with, without the sign in front; None where there was none.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.parser.error().map(|text| PyBytes::new(py, text))
    }

    /// Bytes kept of what has not come whole.
    #[getter]
    fn buffered_bytes(&self) -> usize {
        self.parser.buffered_bytes()
    }

    /// Whether a request had more bytes than may be kept: nothing comes any more, and nobody is answered.
    #[getter]
    fn limit_passed(&self) -> bool {
        self.parser.limit_passed()
    }

    /// Whether more may come without more data, once the commands before it were run.
    #[getter]
    fn held_back(&self) -> bool {
        self.parser.held_back()
    }
}

//! `RequestParser`: the bytes of a client into commands, each piece of them in one call.

use diskstream_core::packing::MAX_ROWS_BYTES;
use diskstream_core::resp::{Limits, Parser};
use diskstream_core::resp_commands::CommandRuns;
use diskstream_core::resp_runs::Runs;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::add_run::AddRun;
use crate::bytes::{bytes_of, LARGE_BYTES};
use crate::command_run::CommandRun;
use crate::errors;

/// Redis's `proto-max-bulk-len` and `client-query-buffer-limit`, where nothing else is said.
const BULK_BYTES: usize = 512 << 20;
const QUERY_BYTES: usize = 1 << 30;

/// Takes the bytes of one client and gives its commands.
#[pyclass(module = "diskstream._native")]
pub struct RequestParser {
    parser: Parser,
    /// Whether plain commands become runs.
    runs: bool,
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

/// Gathers the commands of one call. Made anew for each: what it took for a large command is not kept for every client.
struct Commands<'py> {
    found: Bound<'py, PyList>,
    /// Those of XADD and those of other commands, one of which is under way at most.
    runs: Option<(Runs, CommandRuns)>,
}

impl<'py> Commands<'py> {
    #[inline]
    fn add(&mut self, words: &[&[u8]]) -> PyResult<()> {
        let py = self.found.py();
        if let Some((adds, others)) = &mut self.runs {
            // Most follow one of their kind.
            if others.goes_on(words) {
                return Ok(());
            }
            let (mut add, mut other) = (None, None);
            let mut taken = adds.take(words, |run| add = Some(run));
            if taken {
                other = others.finish();
            } else {
                add = adds.finish();
                taken = others.take(words, |run| other = Some(run));
                if !taken {
                    other = others.finish();
                }
            }
            if let Some(run) = add {
                self.found.append(AddRun::made(py, run)?)?;
            }
            if let Some(run) = other {
                self.found.append(CommandRun::made(py, run)?)?;
            }
            if taken {
                return Ok(());
            }
        }
        if words.iter().all(|word| word.len() < LARGE_BYTES) {
            return self.found.append(PyList::new(py, words.iter().map(|word| PyBytes::new(py, word)))?);
        }
        let words = words.iter().map(|word| bytes_of(py, word)).collect::<PyResult<Vec<_>>>()?;
        self.found.append(PyList::new(py, words)?)
    }

    fn finish(mut self) -> PyResult<Bound<'py, PyList>> {
        let py = self.found.py();
        if let Some((adds, others)) = &mut self.runs {
            if let Some(run) = adds.finish() {
                self.found.append(AddRun::made(py, run)?)?;
            }
            if let Some(run) = others.finish() {
                self.found.append(CommandRun::made(py, run)?)?;
            }
        }
        Ok(self.found)
    }
}

impl RequestParser {
    /// As `feed`.
    pub(crate) fn commands<'py>(
        &mut self,
        py: Python<'py>,
        data: &[u8],
        authenticated: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let runs = self.runs.then(|| (Runs::new(MAX_ROWS_BYTES), CommandRuns::default()));
        let mut commands = Commands { found: PyList::empty(py), runs };
        let mut kept = Ok(());
        let fed = self.parser.feed(data, authenticated, |words| {
            if kept.is_ok() {
                kept = commands.add(words);
            }
        });
        fed.map_err(|error| errors::core(py, "", error))?;
        kept.and_then(|()| commands.finish())
    }

    /// Whether something is to be done once the commands so far were run: it ends, or goes on without more data.
    pub(crate) fn has_more_to_say(&self) -> bool {
        self.parser.error().is_some() || self.parser.limit_passed() || self.parser.held_back()
    }
}

#[pymethods]
impl RequestParser {
    #[new]
    #[pyo3(signature = (max_bulk_bytes=BULK_BYTES, max_query_bytes=QUERY_BYTES, runs=false))]
    fn new(max_bulk_bytes: usize, max_query_bytes: usize, runs: bool) -> RequestParser {
        let limits = Limits { bulk_bytes: max_bulk_bytes, query_bytes: max_query_bytes };
        RequestParser { parser: Parser::new(limits), runs }
    }

    /// Takes bytes. Returns the commands that are whole now, each as the list of its words, or several as an
    /// `AddRun` or a `CommandRun`.
    #[pyo3(signature = (data, authenticated=true))]
    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        authenticated: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        with_data(data, |data| self.commands(py, data, authenticated))?
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

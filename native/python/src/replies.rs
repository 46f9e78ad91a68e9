//! `ReplyEncoder`: what commands answer with, into bytes for a client; many replies in one call.

use std::cell::RefCell;

use diskstream_core::block::Block;
use diskstream_core::error;
use diskstream_core::resp_reply as wire;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::bytes::bytes_of;
use crate::delivery::Delivery;
use crate::entry::Entry;
use crate::errors;
use crate::id::EntryId;

/// Lists within lists, at most. The deepest reply of Redis (XINFO STREAM FULL) has six.
const MAX_DEPTH: usize = 32;
/// Scratch that has grown beyond this is given back.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// One for each thread, so that encoding needs no lock.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Knows the classes that stand for what plain values cannot say.
#[pyclass(frozen, module = "diskstream._native")]
pub struct ReplyEncoder {
    status: Py<PyType>,
    error: Py<PyType>,
    map: Py<PyType>,
    raw: Py<PyType>,
    nil_array: Py<PyType>,
}

/// Where replies of one call go.
struct Writer<'a, 'py> {
    py: Python<'py>,
    types: &'a ReplyEncoder,
    out: Vec<u8>,
    resp3: bool,
}

impl<'py> Writer<'_, 'py> {
    fn value(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> PyResult<()> {
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.bulk(bytes.as_bytes())?;
        } else if let Ok(entry) = value.cast_exact::<Entry>() {
            let (block, row) = entry.get().place();
            self.entry(block, row)?;
        } else if let Ok(id) = value.cast_exact::<EntryId>() {
            wire::put_id(&mut self.out, id.get().id());
        } else if value.cast_exact::<PyInt>().is_ok() {
            self.int(value)?;
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.deeper(depth)?;
            wire::put_array(&mut self.out, list.len());
            list.iter().try_for_each(|item| self.value(&item, depth + 1))?;
        } else if value.is_none() {
            wire::put_null(&mut self.out, self.resp3);
        } else if let Ok(delivery) = value.cast_exact::<Delivery>() {
            self.delivery(value, delivery.get().is_gone())?;
        } else {
            return self.rare(value, depth);
        }
        Ok(())
    }

    /// What is met less often, subclasses of plain types last.
    fn rare(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> PyResult<()> {
        let (py, kind) = (self.py, value.get_type());
        if let Ok(entry) = value.cast::<Entry>() {
            let (block, row) = entry.get().place();
            return self.entry(block, row);
        }
        let is = |class: &Py<PyType>| kind.is(class.bind(py));
        if is(&self.types.status) {
            let text = value.getattr(intern!(py, "text"))?;
            wire::put_simple(&mut self.out, b'+', text.cast::<PyBytes>()?.as_bytes());
        } else if is(&self.types.error) {
            let text = value.getattr(intern!(py, "text"))?;
            wire::put_simple(&mut self.out, b'-', text.cast::<PyBytes>()?.as_bytes());
        } else if is(&self.types.raw) {
            let data = value.getattr(intern!(py, "data"))?;
            let data = data.cast::<PyBytes>()?.as_bytes();
            self.make_room(data.len())?;
            self.out.extend_from_slice(data);
        } else if is(&self.types.map) {
            self.map(&value.getattr(intern!(py, "pairs"))?, depth)?;
        } else if is(&self.types.nil_array) {
            wire::put_null_array(&mut self.out, self.resp3);
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            wire::put_bool(&mut self.out, truth.is_true(), self.resp3);
        } else if let Ok(number) = value.cast::<PyFloat>() {
            wire::put_double(&mut self.out, number.value(), self.resp3);
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.deeper(depth)?;
            wire::put_array(&mut self.out, tuple.len());
            tuple.iter().try_for_each(|item| self.value(&item, depth + 1))?;
        } else if let Ok(list) = value.cast::<PyList>() {
            self.value(&list.get_slice(0, list.len()).into_any(), depth)?;
        } else if let Ok(text) = value.cast::<PyString>() {
            self.text(text)?;
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            self.bulk(bytes.as_bytes())?;
        } else if value.cast::<PyInt>().is_ok() {
            self.int(value)?;
        } else {
            let text = format!("a reply is made of the values of diskstream.commands.replies, not of {}", kind.name()?);
            return Err(errors::wrong_type(py, &text));
        }
        Ok(())
    }

    fn make_room(&mut self, more_bytes: usize) -> PyResult<()> {
        error::make_room(&mut self.out, more_bytes, "a reply").map_err(|error| errors::core(self.py, "", error))
    }

    fn bulk(&mut self, bytes: &[u8]) -> PyResult<()> {
        self.make_room(bytes.len() + wire::BESIDE_BULK_BYTES)?;
        wire::put_bulk(&mut self.out, bytes);
        Ok(())
    }

    fn entry(&mut self, block: &Block, row: usize) -> PyResult<()> {
        wire::put_entry(&mut self.out, block, row).map_err(|error| errors::core(self.py, "", error))
    }

    fn deeper(&self, depth: usize) -> PyResult<()> {
        if depth < MAX_DEPTH {
            return Ok(());
        }
        Err(errors::argument(self.py, &format!("a reply nests lists deeper than {MAX_DEPTH}")))
    }

    fn int(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(number) = value.extract::<i64>() {
            wire::put_int(&mut self.out, number);
        } else if let Ok(number) = value.extract::<u64>() {
            wire::put_unsigned(&mut self.out, number);
        } else {
            return Err(errors::argument(self.py, "a reply has a number of more than 64 bits"));
        }
        Ok(())
    }

    fn text(&mut self, text: &Bound<'py, PyString>) -> PyResult<()> {
        if let Ok(text) = text.to_str() {
            return self.bulk(text.as_bytes());
        }
        // Bytes that were no text when they became it (a name of a file, say): as they were.
        let bytes = text.call_method1(intern!(self.py, "encode"), ("utf-8", "surrogateescape"))?;
        self.bulk(bytes.cast::<PyBytes>()?.as_bytes())
    }

    fn map(&mut self, pairs: &Bound<'py, PyAny>, depth: usize) -> PyResult<()> {
        self.deeper(depth)?;
        wire::put_map(&mut self.out, pairs.len()?, self.resp3);
        for pair in pairs.try_iter()? {
            let (name, value) = pair?.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
            self.value(&name, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    fn delivery(&mut self, value: &Bound<'py, PyAny>, gone: bool) -> PyResult<()> {
        let entry = value.cast::<Entry>()?;
        let (block, row) = entry.get().place();
        if gone {
            wire::put_gone(&mut self.out, block.id(row).unwrap_or_default(), self.resp3);
        } else {
            self.entry(block, row)?;
        }
        Ok(())
    }
}

#[pymethods]
impl ReplyEncoder {
    #[new]
    fn new(
        status_type: Py<PyType>,
        error_type: Py<PyType>,
        map_type: Py<PyType>,
        raw_type: Py<PyType>,
        nil_array_type: Py<PyType>,
    ) -> ReplyEncoder {
        ReplyEncoder { status: status_type, error: error_type, map: map_type, raw: raw_type, nil_array: nil_array_type }
    }

    /// The replies, one behind the other.
    fn encode<'py>(&self, py: Python<'py>, replies: &Bound<'py, PyList>, resp3: bool) -> PyResult<Bound<'py, PyBytes>> {
        let mut writer = Writer { py, types: self, out: SCRATCH.take(), resp3 };
        writer.out.clear();
        let written = replies.iter().try_for_each(|reply| writer.value(&reply, 0));
        let encoded = written.and_then(|()| bytes_of(py, &writer.out));
        if writer.out.capacity() <= KEPT_BYTES {
            SCRATCH.set(writer.out);
        }
        encoded
    }
}

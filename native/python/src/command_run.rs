//! `CommandRun`: plain commands of one kind on one key that follow one another, and what answers them.

use diskstream_core::id::Id;
use diskstream_core::resp_commands::{Asked, CommandRun as Core, Read};
use diskstream_core::resp_reply as wire;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::entry::Block;
use crate::errors;
use crate::id::EntryId;

/// Commands that follow one another: XLEN, XRANGE, XACK for one group, XREADGROUP of one consumer.
#[pyclass(frozen, module = "diskstream._native")]
pub struct CommandRun {
    run: Core,
}

impl CommandRun {
    pub fn made(py: Python<'_>, run: Core) -> PyResult<Bound<'_, CommandRun>> {
        Bound::new(py, CommandRun { run })
    }

    pub fn key_bytes(&self) -> &[u8] {
        &self.run.key
    }

    /// What XACKs name: all IDs, and how many are of each. Nothing of other commands.
    pub fn acks(&self) -> (&[Id], &[usize]) {
        match &self.run.asked {
            Asked::Acks { ids, counts, .. } => (ids, counts),
            _ => (&[], &[]),
        }
    }

    /// What XREADGROUPs ask for; nothing of other commands.
    pub fn reads(&self) -> &[Read] {
        match &self.run.asked {
            Asked::Reads { reads, .. } => reads,
            _ => &[],
        }
    }
}

#[pymethods]
impl CommandRun {
    /// The name of the commands, in lower case.
    #[getter]
    fn name(&self) -> &'static str {
        self.run.name()
    }

    /// The stream's name.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.run.key)
    }

    /// The group's name; empty where the commands are for none.
    #[getter]
    fn group<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.run.group().unwrap_or_default())
    }

    /// The consumer's name; empty where the commands are of none.
    #[getter]
    fn consumer<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match &self.run.asked {
            Asked::Reads { consumer, .. } => PyBytes::new(py, consumer),
            _ => PyBytes::new(py, b""),
        }
    }

    /// Commands.
    fn __len__(&self) -> usize {
        self.run.len()
    }

    /// Entries that XREADGROUPs ask for, IDs that XACKs name.
    #[getter]
    fn total(&self) -> usize {
        match &self.run.asked {
            Asked::Acks { ids, .. } => ids.len(),
            Asked::Reads { reads, .. } => reads.iter().map(|read| read.count as usize).sum(),
            Asked::Lengths(_) | Asked::Ranges(_) => 0,
        }
    }

    /// Entries that the first XREADGROUP asks for.
    #[getter]
    fn first_count(&self) -> usize {
        self.reads().first().map_or(0, |read| read.count as usize)
    }

    /// The total, where both are the same commands for the same key and group; else None.
    fn kin_total(&self, other: &CommandRun) -> Option<usize> {
        self.run.is_kin(&other.run).then(|| self.total())
    }

    /// How many XLENs there are; 0 where the commands are others.
    #[getter]
    fn lengths(&self) -> usize {
        match &self.run.asked {
            Asked::Lengths(count) => *count,
            _ => 0,
        }
    }

    /// The run of the commands behind the first `done`.
    fn rest(&self, done: usize) -> CommandRun {
        CommandRun { run: self.run.rest(done) }
    }

    /// The IDs that XACKs name.
    fn ids(&self) -> Vec<EntryId> {
        self.acks().0.iter().map(|id| EntryId::of(*id)).collect()
    }

    /// Of each XRANGE `(start, end, count)`.
    fn ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let Asked::Ranges(ranges) = &self.run.asked else { return Ok(PyList::empty(py)) };
        let rows = PyList::empty(py);
        for range in ranges {
            rows.append((EntryId::of(range.start), EntryId::of(range.end), range.count))?;
        }
        Ok(rows)
    }

    /// The commands as lists of words, for when they must be run one by one.
    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let commands = PyList::empty(py);
        let mut kept = Ok(());
        self.run.commands(|words| {
            if kept.is_ok() {
                kept = PyList::new(py, words.iter().map(|word| PyBytes::new(py, word)))
                    .and_then(|words| commands.append(words));
            }
        });
        kept.map(|()| commands)
    }
}

#[pymethods]
impl Block {
    /// Bytes of values and IDs, about.
    #[getter]
    fn value_bytes(&self) -> usize {
        self.block.value_bytes()
    }

    /// What XRANGE answers that found these blocks: their live entries, at most `count`, in order.
    #[staticmethod]
    fn reply<'py>(py: Python<'py>, blocks: &Bound<'py, PyList>, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut entries = Vec::new();
        let mut left = count;
        for block in blocks.iter() {
            let block = block.cast_exact::<Block>()?.get();
            for row in (block.from..block.to).filter(|row| block.is_live(*row)).take(left) {
                wire::put_entry(&mut entries, &block.block, row).map_err(|error| errors::core(py, "", error))?;
                left -= 1;
            }
        }
        let mut head = Vec::with_capacity(16);
        wire::put_array(&mut head, count - left);
        PyBytes::new_with(py, head.len() + entries.len(), |bytes| {
            let (first, rest) = bytes.split_at_mut(head.len());
            first.copy_from_slice(&head);
            rest.copy_from_slice(&entries);
            Ok(())
        })
    }
}

//! `ScanBatch`: live entries as the columns of an Arrow record batch, in the layout that was asked for.

use diskstream_core::columns::Duplicates;
use diskstream_core::error::Error;
use diskstream_core::id::Id;
use diskstream_core::listed::{push_raw, Listed, Strings};
use diskstream_core::typed::{Type, Typed};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::words;
use crate::entry::Block;
use crate::errors;
use crate::id::EntryId;

/// What is made of the fields.
enum Layout {
    /// Nothing.
    Ids,
    /// Names and values in order; of a repeated name one, where that is chosen.
    Listed(Option<Duplicates>, Listed),
    Raw(Strings),
    Typed(Typed),
}

/// Columns of a run of entries.
#[pyclass(frozen, module = "diskstream._native")]
pub struct ScanBatch {
    ids: Vec<Id>,
    /// Position within the segment, and bytes of names and values.
    places: Vec<(u64, u64)>,
    layout: Layout,
    /// For each row the fields whose values did not parse.
    bad: Option<Listed>,
    first_bad: Option<(Id, Vec<u8>, Vec<u8>)>,
}

fn parse_type(text: &str) -> Option<Type> {
    Some(match text {
        "bool" => Type::Bool,
        "int8" => Type::Int(8),
        "int16" => Type::Int(16),
        "int32" => Type::Int(32),
        "int64" => Type::Int(64),
        "float" => Type::Float32,
        "double" => Type::Float64,
        "timestamp" => Type::Timestamp,
        "date" => Type::Date,
        "string" => Type::Utf8,
        "binary" => Type::Binary,
        other => {
            let (precision, scale) = other.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
            if !(1..=38).contains(&precision) || !(0..=38).contains(&scale) {
                return None;
            }
            Type::Decimal { precision, scale }
        }
    })
}

fn policy(duplicates: &str) -> Option<Duplicates> {
    match duplicates {
        "first" => Some(Duplicates::First),
        "last" => Some(Duplicates::Last),
        "fail" => Some(Duplicates::Fail),
        _ => None,
    }
}

fn parse_layout(py: Python<'_>, layout: &str, fields: Vec<(Vec<u8>, String)>, duplicates: &str) -> PyResult<Layout> {
    let policy = policy(duplicates);
    let chosen = || policy.ok_or_else(|| errors::argument(py, "duplicates must be 'first', 'last' or 'fail'"));
    Ok(match layout {
        "ids" => Layout::Ids,
        "fields" => Layout::Listed(None, Listed::default()),
        "map" => Layout::Listed(Some(chosen()?), Listed::default()),
        "raw" => Layout::Raw(Strings::default()),
        "typed" => {
            let columns = fields
                .into_iter()
                .map(|(name, kind)| {
                    let kind = parse_type(&kind)
                        .ok_or_else(|| errors::argument(py, &format!("no such type of a column: {kind}")))?;
                    Ok((name.into_boxed_slice(), kind))
                })
                .collect::<PyResult<Vec<_>>>()?;
            Layout::Typed(Typed::new(columns, chosen()?))
        }
        _ => return Err(errors::argument(py, "layout must be 'ids', 'fields', 'map', 'raw' or 'typed'")),
    })
}

impl ScanBatch {
    fn push(&mut self, block: &Block, metadata: bool, scratch: &mut Vec<u8>) -> Result<(), Error> {
        let rows: Vec<usize> = (block.from..block.to).filter(|row| block.is_live(*row)).collect();
        let before = self.ids.len();
        self.ids.extend(rows.iter().filter_map(|row| block.block.id(*row)));
        if metadata {
            let place = |row: &usize| (block.base + *row as u64, block.block.entry_bytes(*row) as u64);
            self.places.extend(rows.iter().map(place));
        }
        match &mut self.layout {
            Layout::Ids => {}
            Layout::Listed(duplicates, listed) => {
                listed.push_rows(&block.block, &rows, *duplicates)?;
            }
            Layout::Raw(raw) => rows.iter().try_for_each(|row| push_raw(raw, &block.block, *row, scratch))?,
            Layout::Typed(typed) => {
                let known = typed.bad.len();
                typed.push(&block.block, &rows, before)?;
                if typed.bad.len() > known || self.bad.is_some() {
                    self.note_bad(block, &rows, before, known)?;
                }
            }
        }
        Ok(())
    }

    /// Lists, for each of `rows`, the fields that did not parse; rows before the first such one have empty lists.
    fn note_bad(&mut self, block: &Block, rows: &[usize], before: usize, known: usize) -> Result<(), Error> {
        let Layout::Typed(typed) = &mut self.layout else { return Ok(()) };
        let listed = self.bad.get_or_insert_with(Listed::default);
        while listed.ends.len() <= before {
            listed.end_row()?;
        }
        let found = typed.bad.get_mut(known..).unwrap_or_default();
        found.sort_unstable();
        let mut found = found.iter().peekable();
        for (count, row) in rows.iter().enumerate() {
            while let Some(bad) = found.next_if(|bad| bad.row == before + count) {
                let name = typed.columns.get(bad.column).map_or(&[][..], |column| &column.name);
                let value = block.block.value(*row, name).unwrap_or(&[]);
                listed.field(name, value)?;
                if self.first_bad.is_none() {
                    self.first_bad = block.block.id(*row).map(|id| (id, name.to_vec(), value.to_vec()));
                }
            }
            listed.end_row()?;
        }
        Ok(())
    }
}

type Bytes<'py> = Bound<'py, PyBytes>;
/// Values, offsets of strings, validity bits, nulls.
type ColumnParts<'py> = (Bytes<'py>, Option<Bytes<'py>>, Bytes<'py>, usize);
/// Ends, offsets and bytes of names, offsets and bytes of values.
type ListParts<'py> = (Bytes<'py>, Bytes<'py>, Bytes<'py>, Bytes<'py>, Bytes<'py>);

fn list_parts<'py>(py: Python<'py>, listed: &Listed) -> PyResult<ListParts<'py>> {
    Ok((
        words(py, &listed.ends, i32::to_le_bytes)?,
        words(py, &listed.names.offsets, i32::to_le_bytes)?,
        PyBytes::new(py, &listed.names.data),
        words(py, &listed.values.offsets, i32::to_le_bytes)?,
        PyBytes::new(py, &listed.values.data),
    ))
}

#[pymethods]
impl ScanBatch {
    /// The live entries of blocks in a layout: 'ids', 'fields', 'map', 'raw' or 'typed' (with names and types).
    #[staticmethod]
    #[pyo3(signature = (blocks, layout, fields, duplicates, metadata=false))]
    fn of_blocks(
        py: Python<'_>,
        blocks: Vec<PyRef<'_, Block>>,
        layout: &str,
        fields: Vec<(Vec<u8>, String)>,
        duplicates: &str,
        metadata: bool,
    ) -> PyResult<ScanBatch> {
        let layout = parse_layout(py, layout, fields, duplicates)?;
        let mut batch = ScanBatch { ids: Vec::new(), places: Vec::new(), layout, bad: None, first_bad: None };
        let blocks: Vec<&Block> = blocks.iter().map(|block| &**block).collect();
        let made = py.detach(|| {
            let mut scratch = Vec::new();
            blocks.iter().try_for_each(|block| batch.push(block, metadata, &mut scratch))
        });
        made.map_err(|error| errors::core(py, "", error))?;
        Ok(batch)
    }

    #[getter]
    fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Milliseconds of the IDs, as little-endian 64-bit words.
    #[getter]
    fn ms<'py>(&self, py: Python<'py>) -> PyResult<Bytes<'py>> {
        words(py, &self.ids, |id| id.ms.to_le_bytes())
    }

    /// Sequences of the IDs.
    #[getter]
    fn seq<'py>(&self, py: Python<'py>) -> PyResult<Bytes<'py>> {
        words(py, &self.ids, |id| id.seq.to_le_bytes())
    }

    /// The first ID whose milliseconds or sequence a signed 64-bit number cannot hold.
    #[getter]
    fn beyond_signed(&self) -> Option<EntryId> {
        let limit = i64::MAX as u64;
        self.ids.iter().find(|id| id.ms > limit || id.seq > limit).map(|id| EntryId { id: *id })
    }

    /// The IDs' times in microseconds, validity bits (None: all valid) and nulls: times past 2^63 µs are null.
    #[getter]
    fn ts<'py>(&self, py: Python<'py>) -> PyResult<(Bytes<'py>, Option<Bytes<'py>>, usize)> {
        let micros = |id: &Id| i64::try_from(id.ms).ok().and_then(|ms| ms.checked_mul(1000));
        let times = words(py, &self.ids, |id| micros(&id).unwrap_or(0).to_le_bytes())?;
        let nulls = self.ids.iter().filter(|id| micros(id).is_none()).count();
        if nulls == 0 {
            return Ok((times, None, 0));
        }
        let mut bits = vec![0u8; self.ids.len().div_ceil(8)];
        for (row, id) in self.ids.iter().enumerate() {
            if let (Some(byte), true) = (bits.get_mut(row / 8), micros(id).is_some()) {
                *byte |= 1 << (row % 8);
            }
        }
        Ok((times, Some(PyBytes::new(py, &bits)), nulls))
    }

    /// Position within the segment and bytes of names and values, as little-endian 64-bit words; with `metadata`.
    #[getter]
    fn places<'py>(&self, py: Python<'py>) -> PyResult<(Bytes<'py>, Bytes<'py>)> {
        Ok((
            words(py, &self.places, |place| place.0.to_le_bytes())?,
            words(py, &self.places, |place| place.1.to_le_bytes())?,
        ))
    }

    /// For 'fields' and 'map': ends, name offsets, names, value offsets, values; offsets are 32-bit words.
    #[getter]
    fn listed<'py>(&self, py: Python<'py>) -> PyResult<Option<ListParts<'py>>> {
        match &self.layout {
            Layout::Listed(_, listed) => list_parts(py, listed).map(Some),
            _ => Ok(None),
        }
    }

    /// For 'raw': offsets and bytes.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bytes<'py>, Bytes<'py>)>> {
        match &self.layout {
            Layout::Raw(raw) => Ok(Some((words(py, &raw.offsets, i32::to_le_bytes)?, PyBytes::new(py, &raw.data)))),
            _ => Ok(None),
        }
    }

    /// For 'typed': values (or bytes of strings), offsets of strings, validity bits and nulls of each column.
    #[getter]
    fn typed<'py>(&self, py: Python<'py>) -> PyResult<Vec<ColumnParts<'py>>> {
        let Layout::Typed(typed) = &self.layout else { return Ok(Vec::new()) };
        let columns = typed.columns.iter();
        columns
            .map(|column| {
                let validity = PyBytes::new(py, &column.validity);
                Ok(match column.kind {
                    Type::Utf8 | Type::Binary => {
                        let offsets = words(py, &column.strings.offsets, i32::to_le_bytes)?;
                        (PyBytes::new(py, &column.strings.data), Some(offsets), validity, column.nulls)
                    }
                    _ => (PyBytes::new(py, &column.data), None, validity, column.nulls),
                })
            })
            .collect()
    }

    /// For 'typed', where something did not parse: for each row a list of those fields, as `listed`.
    #[getter]
    fn bad<'py>(&self, py: Python<'py>) -> PyResult<Option<ListParts<'py>>> {
        self.bad.as_ref().map(|listed| list_parts(py, listed)).transpose()
    }

    /// The first of them: ID, name, value.
    #[getter]
    fn first_bad<'py>(&self, py: Python<'py>) -> Option<(EntryId, Bytes<'py>, Bytes<'py>)> {
        let (id, name, value) = self.first_bad.as_ref()?;
        Some((EntryId { id: *id }, PyBytes::new(py, name), PyBytes::new(py, value)))
    }
}

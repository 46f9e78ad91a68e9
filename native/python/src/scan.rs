//! `ScanLayout` and `ScanBatch`: live entries as the columns of an Arrow record batch, in the layout that was asked for.

use diskstream_core::columns::Duplicates;
use diskstream_core::error::Error;
use diskstream_core::id::Id;
use diskstream_core::listed::{push_raw, Listed, Strings};
use diskstream_core::typed::{Type, Typed, TypedColumn};
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::entry::Block;
use crate::errors::{self, Failure};
use crate::id::EntryId;
use crate::names::{self, NamesKept};

/// What is made of the fields.
enum Layout {
    /// Nothing.
    Ids,
    /// Names and values in order; of a repeated name one, where that is chosen.
    Listed(Option<Duplicates>, Listed),
    Raw(Strings),
    Typed(Typed),
}

/// An array of numpy that took over what was laid out: nothing is copied.
pub type Array<T> = Py<PyArray1<T>>;
/// Values, offsets of strings, validity bits, nulls.
type ColumnParts = (Array<u8>, Option<Array<i32>>, Array<u8>, usize);
/// Ends, offsets and bytes of names, offsets and bytes of values.
type ListParts = (Array<i32>, Array<i32>, Array<u8>, Array<i32>, Array<u8>);
/// Microseconds, validity bits (None: all valid), nulls.
type Times = (Array<i64>, Option<Array<u8>>, usize);

/// Columns of a run of entries.
#[pyclass(frozen, get_all, module = "diskstream._native")]
pub struct ScanBatch {
    rows: usize,
    /// The last ID of the nodes or blocks that were looked at, gone or out of range as it may be; None without any.
    last_id: Option<Py<EntryId>>,
    /// Milliseconds of the IDs.
    ms: Array<u64>,
    /// Sequences of the IDs.
    seq: Array<u64>,
    /// The IDs' times, where asked for: those past 2^63 µs are null.
    ts: Option<Times>,
    /// Position within the segment, and bytes of names and values; with `metadata`.
    places: (Array<u64>, Array<u64>),
    /// For 'fields' and 'map'.
    listed: Option<ListParts>,
    /// For 'raw': offsets and bytes.
    raw: Option<(Array<i32>, Array<u8>)>,
    /// For 'typed'.
    typed: Vec<ColumnParts>,
    /// For 'typed', where something did not parse: for each row a list of those fields.
    bad: Option<ListParts>,
    /// The first of them: ID, name, value.
    first_bad: Option<(Py<EntryId>, Py<PyBytes>, Py<PyBytes>)>,
}

/// What becomes a [`ScanBatch`].
pub struct Columns {
    ms: Vec<u64>,
    seq: Vec<u64>,
    places: (Vec<u64>, Vec<u64>),
    layout: Layout,
    metadata: bool,
    bad: Option<Listed>,
    first_bad: Option<(Id, Vec<u8>, Vec<u8>)>,
    last: Option<Id>,
    scratch: Vec<u8>,
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

/// How entries become columns: said once, for all batches.
#[pyclass(frozen, module = "diskstream._native")]
pub struct ScanLayout {
    kind: Kind,
    metadata: bool,
    times: bool,
    names: NamesKept,
}

/// A layout, and what it needs to know.
enum Kind {
    Ids,
    Listed(Option<Duplicates>),
    Raw,
    /// Columns, which of a repeated name counts, and whether what would be rounded counts as one that does not parse.
    Typed(Vec<(Box<[u8]>, Type)>, Duplicates, bool),
}

fn parse_layout(
    py: Python<'_>,
    layout: &str,
    fields: Vec<(Vec<u8>, String)>,
    duplicates: &str,
    exact: bool,
) -> PyResult<Kind> {
    let policy = policy(duplicates);
    let chosen = || policy.ok_or_else(|| errors::argument(py, "duplicates must be 'first', 'last' or 'fail'"));
    Ok(match layout {
        "ids" => Kind::Ids,
        "fields" => Kind::Listed(None),
        "map" => Kind::Listed(Some(chosen()?)),
        "raw" => Kind::Raw,
        "typed" => {
            let columns = fields
                .into_iter()
                .map(|(name, kind)| {
                    let kind = parse_type(&kind)
                        .ok_or_else(|| errors::argument(py, &format!("no such type of a column: {kind}")))?;
                    Ok((name.into_boxed_slice(), kind))
                })
                .collect::<PyResult<Vec<_>>>()?;
            Kind::Typed(columns, chosen()?, exact)
        }
        _ => return Err(errors::argument(py, "layout must be 'ids', 'fields', 'map', 'raw' or 'typed'")),
    })
}

impl Kind {
    fn begin(&self) -> Layout {
        match self {
            Kind::Ids => Layout::Ids,
            Kind::Listed(duplicates) => Layout::Listed(*duplicates, Listed::default()),
            Kind::Raw => Layout::Raw(Strings::default()),
            Kind::Typed(columns, duplicates, exact) => Layout::Typed(Typed::new(columns.clone(), *duplicates, *exact)),
        }
    }
}

impl Columns {
    fn new(layout: Layout, metadata: bool) -> Columns {
        Columns {
            ms: Vec::new(),
            seq: Vec::new(),
            places: Default::default(),
            layout,
            metadata,
            bad: None,
            first_bad: None,
            last: None,
            scratch: Vec::new(),
        }
    }

    pub fn rows(&self) -> usize {
        self.ms.len()
    }

    /// The last ID of the blocks that were added.
    pub fn last(&self) -> Option<Id> {
        self.last
    }

    /// Makes room for so many `rows` in all, if they are like those that are there, and of no more than `most` bytes:
    /// what grows is copied again and again.
    pub fn reserve_like(&mut self, rows: usize, most: usize) -> Result<(), Error> {
        let so_far = self.rows();
        let more = rows.saturating_sub(so_far).min(most / size_of::<Id>());
        self.ms.reserve_exact(more);
        self.seq.reserve_exact(more);
        match &mut self.layout {
            Layout::Ids => Ok(()),
            Layout::Listed(_, listed) => listed.values.reserve_like(so_far, more, most),
            Layout::Raw(raw) => raw.reserve_like(so_far, more, most),
            Layout::Typed(typed) => typed.reserve_like(so_far, more, most),
        }
    }

    /// Makes room for blocks at once.
    fn reserve(&mut self, blocks: &[&Block]) -> Result<(), Error> {
        let rows = blocks.iter().map(|block| block.to - block.from).sum();
        self.ms.reserve_exact(rows);
        self.seq.reserve_exact(rows);
        let whole = blocks.iter().filter(|block| block.gone.is_none());
        let whole = whole.map(|block| (&*block.block, block.from, block.to));
        match &mut self.layout {
            Layout::Listed(_, listed) => listed.reserve(whole),
            Layout::Typed(typed) => typed.reserve(whole)?,
            Layout::Ids | Layout::Raw(_) => {}
        }
        Ok(())
    }

    /// Adds the live rows of a block.
    pub fn push(&mut self, block: &Block) -> Result<(), Error> {
        let all = block.from..block.to;
        let rows: Vec<usize> = match block.gone {
            Some(_) => all.filter(|row| block.is_live(*row)).collect(),
            None => all.collect(),
        };
        let before = self.ms.len();
        let ids = &block.block.ids;
        if rows.len() != block.to - block.from || !ids.extend(block.from, block.to, &mut self.ms, &mut self.seq) {
            let ids = rows.iter().filter_map(|row| ids.get(*row));
            self.ms.extend(ids.clone().map(|id| id.ms));
            self.seq.extend(ids.map(|id| id.seq));
        }
        if self.metadata {
            self.places.0.extend(rows.iter().map(|row| block.base + *row as u64));
            self.places.1.extend(rows.iter().map(|row| block.block.entry_bytes(*row) as u64));
        }
        match &mut self.layout {
            Layout::Ids => {}
            Layout::Listed(duplicates, listed) => {
                listed.push_rows(&block.block, &rows, *duplicates)?;
            }
            Layout::Raw(raw) => rows.iter().try_for_each(|row| push_raw(raw, &block.block, *row, &mut self.scratch))?,
            Layout::Typed(typed) => {
                let known = typed.bad.len();
                typed.push(&block.block, &rows, before)?;
                if typed.bad.len() > known || self.bad.is_some() {
                    self.note_bad(block, &rows, before, known)?;
                }
            }
        }
        self.last = ids.last();
        Ok(())
    }

    /// Lists, for each of `rows`, the fields that did not parse; rows before the first such one have empty lists.
    fn note_bad(&mut self, block: &Block, rows: &[usize], before: usize, known: usize) -> Result<(), Error> {
        let Layout::Typed(typed) = &mut self.layout else { return Ok(()) };
        let listed = self.bad.get_or_insert_with(Listed::default);
        while listed.rows() < before {
            listed.end_row()?;
        }
        typed.bad.get_mut(known..).unwrap_or_default().sort_unstable();
        let mut found = typed.bad.get(known..).unwrap_or_default().iter().peekable();
        for (count, row) in rows.iter().enumerate() {
            while let Some(bad) = found.next_if(|bad| bad.row == before + count) {
                let name = typed.columns.get(bad.column).map_or(&[][..], |column| &column.name);
                let value = typed.value(&block.block, *row, name).unwrap_or(&[]);
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

/// What becomes [`Times`].
type Micros = (Vec<i64>, Option<Vec<u8>>, usize);

fn times(ms: &[u64]) -> Micros {
    let micros = |ms: &u64| i64::try_from(*ms).ok().and_then(|ms| ms.checked_mul(1000));
    let times: Vec<i64> = ms.iter().map(|ms| micros(ms).unwrap_or(0)).collect();
    let nulls = ms.iter().filter(|ms| micros(ms).is_none()).count();
    if nulls == 0 {
        return (times, None, 0);
    }
    let mut bits = vec![0u8; ms.len().div_ceil(8)];
    for (row, ms) in ms.iter().enumerate() {
        if let (Some(byte), true) = (bits.get_mut(row / 8), micros(ms).is_some()) {
            *byte |= 1 << (row % 8);
        }
    }
    (times, Some(bits), nulls)
}

pub fn array<T: Element>(py: Python<'_>, values: Vec<T>) -> Array<T> {
    values.into_pyarray(py).unbind()
}

fn list_parts(py: Python<'_>, listed: Listed, kept: &NamesKept) -> PyResult<ListParts> {
    let ((ends, name_ends, names), values) = match listed.same().cloned() {
        Some(same) => (kept.of(py, same)?, listed.values),
        None => {
            let (named, values) = listed.into_parts();
            (names::arrays(py, named), values)
        }
    };
    Ok((ends, name_ends, names, array(py, values.offsets), array(py, values.data)))
}

fn column_parts(py: Python<'_>, column: TypedColumn) -> ColumnParts {
    let validity = array(py, column.validity);
    match column.kind {
        Type::Utf8 | Type::Binary => {
            let offsets = array(py, column.strings.offsets);
            (array(py, column.strings.data), Some(offsets), validity, column.nulls)
        }
        _ => (array(py, column.data), None, validity, column.nulls),
    }
}

#[pymethods]
impl ScanLayout {
    /// Layout 'ids', 'fields', 'map', 'raw' or 'typed', which takes names and types of fields.
    #[new]
    #[pyo3(signature = (layout, fields, duplicates, *, exact, metadata, times))]
    fn new(
        py: Python<'_>,
        layout: &str,
        fields: Vec<(Vec<u8>, String)>,
        duplicates: &str,
        exact: bool,
        metadata: bool,
        times: bool,
    ) -> PyResult<ScanLayout> {
        let kind = parse_layout(py, layout, fields, duplicates, exact)?;
        Ok(ScanLayout { kind, metadata, times, names: NamesKept::default() })
    }

    /// The live entries of blocks.
    fn batch(&self, py: Python<'_>, blocks: Vec<PyRef<'_, Block>>) -> PyResult<ScanBatch> {
        let blocks: Vec<&Block> = blocks.iter().map(|block| &**block).collect();
        self.laid_out(py, "", |columns| {
            columns.reserve(&blocks)?;
            Ok(blocks.iter().try_for_each(|block| columns.push(block))?)
        })
        .map(|(batch, ())| batch)
    }
}

impl ScanLayout {
    /// The batch of what `fill` adds, without the interpreter's lock; and what it gives.
    pub fn laid_out<R: Send>(
        &self,
        py: Python<'_>,
        path: &str,
        fill: impl FnOnce(&mut Columns) -> Result<R, Failure> + Send,
    ) -> PyResult<(ScanBatch, R)> {
        let mut columns = Columns::new(self.kind.begin(), self.metadata);
        let made = py.detach(|| {
            let given = fill(&mut columns)?;
            Ok((given, self.times.then(|| times(&columns.ms))))
        });
        let (given, times) = made.map_err(|error| errors::failure(py, path, error))?;
        Ok((self.hand_over(py, columns, times)?, given))
    }

    fn hand_over(&self, py: Python<'_>, columns: Columns, times: Option<Micros>) -> PyResult<ScanBatch> {
        let mut batch = ScanBatch {
            rows: columns.ms.len(),
            last_id: columns.last.map(|id| Py::new(py, EntryId::of(id))).transpose()?,
            ms: array(py, columns.ms),
            seq: array(py, columns.seq),
            ts: times.map(|(times, bits, nulls)| (array(py, times), bits.map(|bits| array(py, bits)), nulls)),
            places: (array(py, columns.places.0), array(py, columns.places.1)),
            listed: None,
            raw: None,
            typed: Vec::new(),
            bad: columns.bad.map(|listed| list_parts(py, listed, &self.names)).transpose()?,
            first_bad: None,
        };
        match columns.layout {
            Layout::Ids => {}
            Layout::Listed(_, listed) => batch.listed = Some(list_parts(py, listed, &self.names)?),
            Layout::Raw(raw) => batch.raw = Some((array(py, raw.offsets), array(py, raw.data))),
            Layout::Typed(typed) => {
                batch.typed = typed.columns.into_iter().map(|column| column_parts(py, column)).collect();
            }
        }
        if let Some((id, name, value)) = columns.first_bad {
            let id = Py::new(py, EntryId::of(id))?;
            batch.first_bad = Some((id, PyBytes::new(py, &name).unbind(), PyBytes::new(py, &value).unbind()));
        }
        Ok(batch)
    }
}

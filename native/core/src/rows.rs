//! Entries as packed rows: the payload of an entries frame.
//!
//! ```text
//! rows  := row*
//! row   := id-step? shape-code shape? length{fields} value-bytes*
//! id-step := varint(ms - ms before) varint(seq')     (absent in the first row: the frame header has its ID)
//!            seq' = seq - seq before - 1  where ms is the same,  seq  where it is not
//! shape-code := varint: the number of a shape met before in this payload, or the next unused one,
//! shape := varint(fields) (varint(length) name-bytes){fields}          which is then defined here
//! ```

use std::collections::HashMap;
use std::ops::Range;

use crate::block::{BlockBuilder, Shape};
use crate::error::{Error, Result};
use crate::frame::{MAX_ENTRY_BYTES, MAX_PAYLOAD_BYTES};
use crate::id::Id;
use crate::marks::{Mark, Marks};
use crate::plurals::number_of;
use crate::wire::{put_varint, varint_bytes, Reader};

/// Fields of one entry, at most.
pub const MAX_FIELDS: usize = 65_536;

/// A batch that needs more leaves its buffers to nobody: each thread that adds has some of its own.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// For fields below it memory is taken as it comes: where that fails nothing else goes on either.
const SMALL_BYTES: usize = 4096;

/// So few shapes are found sooner by looking at each.
const FEW_SHAPES: usize = 16;

/// Packs rows one after another. IDs are given as steps, so an automatic batch is packed before its first ID is known.
#[derive(Default)]
pub struct RowsEncoder {
    out: Vec<u8>,
    shapes: Vec<Box<[u8]>>,
    /// The shapes by their names, once there are many.
    codes: HashMap<Box<[u8]>, usize>,
    names: Vec<u8>,
    lengths: Vec<u8>,
    values: Vec<u8>,
    fields: usize,
    /// Of the fields of the row that were counted and not copied: it is too large, or there is no memory for it.
    left_out_bytes: usize,
    is_out_of_memory: bool,
    rows: u32,
    last_shape: usize,
}

/// How a row's ID follows from the one before.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// The sequence right after.
    Next,
    /// From one explicit ID to another.
    Between(Id, Id),
}

impl RowsEncoder {
    /// Begins a row anew: what [`RowsEncoder::field`] collects belongs to it.
    pub fn begin(&mut self) {
        self.names.clear();
        self.lengths.clear();
        self.values.clear();
        self.fields = 0;
        self.left_out_bytes = 0;
        self.is_out_of_memory = false;
    }

    pub fn clear(&mut self) {
        self.begin();
        self.out.clear();
        for buffer in [&mut self.names, &mut self.lengths, &mut self.values, &mut self.out] {
            if buffer.capacity() > MAX_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        self.restart();
    }

    /// The payload so far; the row begun last, which has not ended, becomes the first of the next one.
    pub fn take(&mut self) -> Vec<u8> {
        self.restart();
        std::mem::take(&mut self.out)
    }

    fn restart(&mut self) {
        self.shapes.clear();
        self.codes.clear();
        self.rows = 0;
        self.last_shape = 0;
    }

    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if !self.has_room(name.len(), value.len()) {
            self.left_out_bytes += varint_bytes(name.len()) + name.len() + varint_bytes(value.len()) + value.len();
            self.fields += 1;
            return;
        }
        put_varint(&mut self.names, name.len() as u64);
        self.names.extend_from_slice(name);
        put_varint(&mut self.lengths, value.len() as u64);
        self.values.extend_from_slice(value);
        self.fields += 1;
    }

    /// Whether the row may go on with a field of this size, and there is memory for it.
    #[inline]
    fn has_room(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
        // Where something was left out the row has as many fields as may be, or this many bytes.
        let row_bytes = self.row_bytes().saturating_add(name_bytes).saturating_add(value_bytes);
        (row_bytes < SMALL_BYTES && self.fields < MAX_FIELDS) || self.has_large_room(row_bytes, name_bytes, value_bytes)
    }

    #[inline(never)]
    fn has_large_room(&mut self, row_bytes: usize, name_bytes: usize, value_bytes: usize) -> bool {
        if self.left_out_bytes > 0 || self.fields >= MAX_FIELDS || row_bytes > MAX_ENTRY_BYTES {
            return false;
        }
        if name_bytes + value_bytes < SMALL_BYTES {
            return true;
        }
        self.is_out_of_memory = self.names.try_reserve(name_bytes + 10).is_err()
            || self.lengths.try_reserve(10).is_err()
            || self.values.try_reserve(value_bytes).is_err();
        !self.is_out_of_memory
    }

    /// Ends the row begun last.
    ///
    /// # Errors
    /// [`Error::Limit`] for an entry, a batch or a number of fields past its limit, [`Error::NoMemory`] where there is
    /// none for it; nothing of the row is kept then.
    pub fn end(&mut self, step: Step) -> Result<()> {
        if self.fields == 0 {
            return Err(Error::Invalid("an entry needs at least one field"));
        }
        let size = self.row_bytes();
        if size > MAX_ENTRY_BYTES {
            return Err(Error::Limit { what: "entry", limit: MAX_ENTRY_BYTES as u64, found: size as u64 });
        }
        if self.fields > MAX_FIELDS {
            return Err(Error::Limit {
                what: "fields of an entry",
                limit: MAX_FIELDS as u64,
                found: self.fields as u64,
            });
        }
        if self.out.len() + size + 64 > MAX_PAYLOAD_BYTES - 1024 {
            return Err(Error::Limit {
                what: "batch",
                limit: (MAX_PAYLOAD_BYTES - 1024) as u64,
                found: (self.out.len() + size) as u64,
            });
        }
        // With a new shape a row has all of these; numbers and codes take less than the rest.
        if self.is_out_of_memory || self.out.try_reserve(size + 64).is_err() {
            return Err(Error::NoMemory { what: "an entry", bytes: size as u64 });
        }
        if self.rows > 0 {
            let (ms, seq) = match step {
                Step::Next => (0, 0),
                Step::Between(before, id) if id.ms == before.ms => (0, id.seq - before.seq - 1),
                Step::Between(before, id) => (id.ms - before.ms, id.seq),
            };
            put_varint(&mut self.out, ms);
            put_varint(&mut self.out, seq);
        }
        self.put_shape();
        self.out.extend_from_slice(&self.lengths);
        self.out.extend_from_slice(&self.values);
        self.rows += 1;
        Ok(())
    }

    fn put_shape(&mut self) {
        let names: &[u8] = &self.names;
        if self.shapes.get(self.last_shape).is_some_and(|shape| **shape == *names) {
            put_varint(&mut self.out, self.last_shape as u64);
            return;
        }
        let found = if self.codes.is_empty() {
            self.shapes.iter().position(|shape| **shape == *names)
        } else {
            self.codes.get(names).copied()
        };
        if let Some(code) = found {
            self.last_shape = code;
            put_varint(&mut self.out, code as u64);
            return;
        }
        self.last_shape = self.shapes.len();
        put_varint(&mut self.out, self.last_shape as u64);
        put_varint(&mut self.out, self.fields as u64);
        self.out.extend_from_slice(names);
        self.shapes.push(names.into());
        if !self.codes.is_empty() {
            self.codes.insert(names.into(), self.last_shape);
        } else if self.shapes.len() > FEW_SHAPES {
            self.codes = self.shapes.iter().cloned().zip(0..).collect();
        }
    }

    /// Fields of the row begun last.
    pub fn fields(&self) -> usize {
        self.fields
    }

    /// What the row begun last takes at most: its names, lengths and values.
    pub fn row_bytes(&self) -> usize {
        self.names.len() + self.lengths.len() + self.values.len() + self.left_out_bytes
    }

    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn payload(&self) -> &[u8] {
        &self.out
    }
}

fn read_shape(reader: &mut Reader<'_>) -> Result<Shape> {
    let fields = reader.count(MAX_FIELDS, "a number of fields")?;
    let mut names: Vec<Box<[u8]>> = Vec::with_capacity(fields.min(64));
    for _ in 0..fields {
        let length = reader.count(MAX_ENTRY_BYTES, "the length of a name")?;
        names.push(reader.take(length)?.into());
    }
    if names.is_empty() {
        return Err(reader.fault("at least one field", 0));
    }
    Ok(Shape { names })
}

/// Steps over the definition of a shape. Returns how many fields it has, and where it stands.
fn skip_shape<'a>(reader: &mut Reader<'a>) -> Result<(usize, &'a [u8])> {
    let from = reader.rest();
    let fields = reader.count(MAX_FIELDS, "a number of fields")?;
    for _ in 0..fields {
        let length = reader.count(MAX_ENTRY_BYTES, "the length of a name")?;
        reader.take(length)?;
    }
    if fields == 0 {
        return Err(reader.fault("at least one field", 0));
    }
    Ok((fields, from.get(..from.len().saturating_sub(reader.remaining())).unwrap_or(from)))
}

/// The ID of the row after `before`.
#[inline]
fn read_step(reader: &mut Reader<'_>, before: Id) -> Result<Id> {
    let ms = reader.varint()?;
    let seq = reader.varint()?;
    following(before, ms, seq).ok_or_else(|| reader.fault("an ID in range", "an overflow"))
}

/// The ID that is a step behind `before`, if there is one.
#[inline]
fn following(before: Id, ms: u64, seq: u64) -> Option<Id> {
    if ms == 0 {
        before.seq.checked_add(seq).and_then(|seq| seq.checked_add(1)).map(|seq| Id::new(before.ms, seq))
    } else {
        before.ms.checked_add(ms).map(|ms| Id::new(ms, seq))
    }
}

/// A shape that was met in a payload: its number in the builder, once a row of it was taken; its definition before.
#[derive(Clone, Copy)]
enum Met<'a> {
    Taken(usize),
    Passed(&'a [u8]),
}

/// Steps over a row of a shape met before whose every number takes one byte, as nearly all are: they are looked at
/// together. None, and nothing is read, where it is another kind of row or no row at all.
#[inline]
fn short_row(reader: &mut Reader<'_>, shapes: &[ShapeAt], before: Id) -> Option<Id> {
    let (&[ms, seq, code], lengths) = reader.rest().split_first_chunk::<3>()?;
    let lengths = lengths.get(..shapes.get(usize::from(code))?.fields)?;
    let all = lengths.iter().fold(ms | seq | code, |all, length| all | length);
    if all >= 0x80 {
        return None;
    }
    let total = lengths.iter().map(|length| usize::from(*length)).sum::<usize>();
    let id = following(before, u64::from(ms), u64::from(seq))?;
    reader.take(3 + lengths.len() + total).ok()?;
    Some(id)
}

/// Where the definition of a shape stands in its payload, and how many fields the shape has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShapeAt {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) fields: usize,
}

/// Rows that are stepped over one after another, and what is known before the next of them.
pub(crate) struct Steps<'a> {
    pub(crate) reader: Reader<'a>,
    /// The shapes that were met.
    pub(crate) shapes: Vec<ShapeAt>,
    /// The ID of the row before; before the first row, its own.
    pub(crate) id: Id,
    /// The number of the next row.
    pub(crate) row: u32,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(payload: &'a [u8], first: Id) -> Steps<'a> {
        Steps { reader: Reader::new(payload, "entries frame"), shapes: Vec::new(), id: first, row: 0 }
    }

    /// Steps over the next row.
    #[inline(always)]
    pub(crate) fn over(&mut self) -> Result<()> {
        let reader = &mut self.reader;
        if self.row > 0 {
            if let Some(next) = short_row(reader, &self.shapes, self.id) {
                self.id = next;
                self.row += 1;
                return Ok(());
            }
            self.id = read_step(reader, self.id)?;
        }
        let code = reader.count(self.shapes.len(), "a shape met before or the next one")?;
        if code == self.shapes.len() {
            let start = reader.position();
            let (fields, definition) = skip_shape(reader)?;
            self.shapes.push(ShapeAt { start, end: start + definition.len(), fields });
        }
        let mut total = 0usize;
        for _ in 0..self.shapes.get(code).map_or(0, |shape| shape.fields) {
            total += reader.count(MAX_ENTRY_BYTES, "the length of a value")?;
        }
        reader.take(total)?;
        self.row += 1;
        Ok(())
    }
}

/// A payload of `rows` rows, and marks in it where it has some: what comes before a mark is not looked at then.
#[derive(Clone, Copy)]
pub struct Packed<'a> {
    pub payload: &'a [u8],
    pub first: Id,
    pub rows: u32,
    pub marks: Option<&'a Marks>,
}

impl Packed<'_> {
    /// The number of the first row whose ID is not below `id`; that of all rows where there is none.
    pub fn lower_bound(&self, id: Id) -> Result<u32> {
        let mark = self.marks.and_then(|marks| marks.below(id));
        let mut steps = self.begin(mark)?;
        while steps.row < self.rows {
            let row = steps.row;
            steps.over()?;
            if steps.id >= id {
                return Ok(row);
            }
        }
        self.end(&steps.reader)?;
        Ok(self.rows)
    }

    fn begin(&self, mark: Option<&Mark>) -> Result<Steps<'_>> {
        let mut steps = Steps::new(self.payload, self.first);
        if let (Some(mark), Some(marks)) = (mark, self.marks) {
            steps.reader.take(mark.at)?;
            steps.shapes.extend_from_slice(marks.shapes.get(..mark.shapes as usize).unwrap_or(&[]));
            (steps.id, steps.row) = (mark.before, mark.row);
            marks.compare(self.payload, mark.row)?;
        }
        Ok(steps)
    }

    /// The mark behind a row, from where on nothing was compared; behind all rows where there is none.
    fn uncompared(&self, row: u32) -> u32 {
        self.marks.and_then(|marks| marks.behind(row)).map_or(u32::MAX, |mark| mark.row)
    }

    #[cold]
    fn compare(&self, row: u32) -> Result<u32> {
        if let Some(marks) = self.marks {
            marks.compare(self.payload, row)?;
        }
        Ok(self.uncompared(row))
    }

    /// The number in the builder of a shape that no row was taken of before.
    fn shape(&self, code: usize, definition: &[u8], builder: &mut BlockBuilder) -> Result<usize> {
        if let Some(marks) = self.marks {
            marks.compare_shape(self.payload, code)?;
        }
        Ok(builder.intern(read_shape(&mut Reader::new(definition, "entries frame"))?))
    }

    /// Behind the last row there is nothing.
    fn end(&self, reader: &Reader<'_>) -> Result<()> {
        match reader.remaining() as u64 {
            0 => Ok(()),
            left => Err(reader.fault("the end of the rows", number_of(left, "more byte"))),
        }
    }

    /// Unpacks the rows `part` into `builder`; earlier rows are stepped over, from the last mark on.
    ///
    /// Of rows that are stepped over nothing comes into the builder, not even their shapes: a megabyte of names would
    /// otherwise leave room for one row, and a payload be read once for each.
    ///
    /// Stops once the builder holds `max_bytes`. Returns the ID of the last row looked at.
    pub fn decode(&self, part: Range<u32>, max_bytes: usize, builder: &mut BlockBuilder) -> Result<Id> {
        let stop = self.rows.min(part.end);
        let start = part.start.min(stop);
        let mut steps = self.begin(self.marks.and_then(|marks| marks.at_or_before(start)))?;
        while steps.row < start {
            steps.over()?;
        }
        let Steps { mut reader, shapes, mut id, .. } = steps;
        let passed = |shape: &ShapeAt| Met::Passed(self.payload.get(shape.start..shape.end).unwrap_or(&[]));
        let mut codes: Vec<(Met<'_>, usize)> = shapes.iter().map(|shape| (passed(shape), shape.fields)).collect();
        let mut lengths: Vec<usize> = Vec::new();
        let mut uncompared = self.uncompared(start);
        for row in start..stop {
            if row == uncompared {
                uncompared = self.compare(row)?;
            }
            if row > 0 {
                id = read_step(&mut reader, id)?;
            }
            let code = reader.count(codes.len(), "a shape met before or the next one")?;
            if code == codes.len() {
                let (fields, definition) = skip_shape(&mut reader)?;
                codes.push((Met::Passed(definition), fields));
            }
            let (met, fields) = codes.get(code).copied().unwrap_or((Met::Taken(0), 0));
            lengths.clear();
            let mut total = 0usize;
            for _ in 0..fields {
                let length = reader.count(MAX_ENTRY_BYTES, "the length of a value")?;
                lengths.push(length);
                total += length;
            }
            let values = reader.rest();
            reader.take(total)?;
            let number = match met {
                Met::Taken(number) => number,
                Met::Passed(definition) => {
                    let number = self.shape(code, definition, builder)?;
                    if let Some(known) = codes.get_mut(code) {
                        known.0 = Met::Taken(number);
                    }
                    number
                }
            };
            builder.push(id, number, &lengths, values)?;
            if builder.bytes() >= max_bytes {
                return Ok(id);
            }
        }
        if part.end >= self.rows {
            self.end(&reader)?;
        }
        Ok(id)
    }
}

/// Unpacks the rows `part` of a payload without marks: see [`Packed::decode`].
pub fn decode(
    payload: &[u8],
    first: Id,
    rows: u32,
    part: Range<u32>,
    max_bytes: usize,
    builder: &mut BlockBuilder,
) -> Result<Id> {
    Packed { payload, first, rows, marks: None }.decode(part, max_bytes, builder)
}

/// The ID of the last row of a payload.
pub fn last_id(payload: &[u8], first: Id, rows: u32) -> Result<Id> {
    if rows <= 1 {
        return Ok(first);
    }
    let mut steps = Steps::new(payload, first);
    while steps.row < rows {
        steps.over()?;
    }
    Ok(steps.id)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;

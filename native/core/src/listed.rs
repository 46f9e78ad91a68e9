//! Entries whose fields stay together: a list of (name, value) for each, as Arrow lays out `list<struct<name, value>>`;
//! or one run of bytes for each.
//!
//! ```text
//! raw entry := (name-length u32, name, value-length u32, value)*         in order, repeated names included
//! ```

use crate::block::{Block, Column, Shape};
use crate::columns::Duplicates;
use crate::error::{Error, Result};
use crate::wire::put_u32;

const MAX_BYTES: usize = i32::MAX as usize;
/// Names that are copied at once.
const NAMES_BYTES: usize = 4096;
/// Bytes behind the last value, so that a short one may be moved as sixteen.
const ROOM: usize = 16;
const PAST: Error = Error::Invalid("a row past its block");
const TOO_LARGE: Error = Error::Invalid("a column of more than 2 GiB: read fewer rows at a time");

/// Byte strings one after another: string `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone)]
pub struct Strings {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { offsets: vec![0], data: Vec::new() }
    }
}

impl Strings {
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<()> {
        if self.data.len() + value.len() > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len() as i32);
        Ok(())
    }

    /// Adds a run of a block's column: its bytes in one piece, its offsets moved. False where there is no such run.
    pub fn push_run(&mut self, column: &Column, from: usize, to: usize) -> Result<bool> {
        let Some((bytes, ends)) = column.run(from, to) else { return Ok(false) };
        if self.data.len() + bytes.len() > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        let Some(start) = ends.first().copied() else { return Ok(false) };
        let base = self.data.len() as i32;
        self.data.extend_from_slice(bytes);
        self.offsets.extend(ends.iter().skip(1).map(|end| base + end.saturating_sub(start) as i32));
        Ok(true)
    }

    /// Adds the values of runs of columns row by row, of each row those of all columns; `size` bytes in all.
    fn push_transposed(&mut self, columns: &[Run<'_>], rows: usize, size: usize) -> Result<()> {
        let (start, first) = (self.data.len(), self.offsets.len());
        self.data.resize(start + size + ROOM, 0);
        self.offsets.resize(first + rows * columns.len(), 0);
        let out = self.data.get_mut(start..).unwrap_or_default();
        let slots = self.offsets.get_mut(first..).unwrap_or_default();
        let mut at = 0;
        for (row, slots) in slots.chunks_exact_mut(columns.len()).enumerate() {
            for (slot, (bytes, ends)) in slots.iter_mut().zip(columns) {
                let (Some(first), Some(from), Some(to)) = (ends.first(), ends.get(row), ends.get(row + 1)) else {
                    return Err(PAST);
                };
                let length = (to - from) as usize;
                if !place(out, at, bytes.get((from - first) as usize..).unwrap_or(&[]), length) {
                    return Err(PAST);
                }
                at += length;
                *slot = (start + at) as i32;
            }
        }
        self.data.truncate(start + at);
        Ok(())
    }
}

/// The bytes of consecutive rows of a column, and their offsets: see [`Column::run`].
type Run<'a> = (&'a [u8], &'a [u32]);

/// Puts the first `length` of `bytes` at a place of `out`; false where one of them is too short. Most are short: sixteen
/// bytes are moved at once.
#[inline]
fn place(out: &mut [u8], at: usize, bytes: &[u8], length: usize) -> bool {
    let Some(out) = out.get_mut(at..) else { return false };
    match (bytes.first_chunk::<16>(), out.first_chunk_mut::<16>()) {
        (Some(from), Some(to)) if length <= 16 => {
            *to = *from;
            true
        }
        _ => place_long(out, bytes, length),
    }
}

#[cold]
#[inline(never)]
fn place_long(out: &mut [u8], bytes: &[u8], length: usize) -> bool {
    let (Some(from), Some(to)) = (bytes.get(..length), out.get_mut(..length)) else { return false };
    to.copy_from_slice(from);
    true
}

/// Lists of fields under construction.
#[derive(Debug, Clone)]
pub struct Listed {
    /// `rows + 1` ends, counted in fields.
    pub ends: Vec<i32>,
    pub names: Strings,
    pub values: Strings,
}

impl Default for Listed {
    fn default() -> Listed {
        Listed { ends: vec![0], names: Strings::default(), values: Strings::default() }
    }
}

impl Listed {
    /// Makes room for rows `from..to` of blocks, with all their fields, if each block is of one shape.
    pub fn reserve<'a>(&mut self, blocks: impl Iterator<Item = (&'a Block, usize, usize)>) {
        let (mut rows, mut fields, mut names, mut values) = (0, 0, 0, ROOM);
        for (block, from, to) in blocks {
            let [table] = block.tables.as_slice() else { continue };
            rows += to - from;
            fields += (to - from) * table.columns.len();
            names += (to - from) * table.shape.names.iter().map(|name| name.len()).sum::<usize>();
            let ends = |column: &Column| Some(column.offsets.get(to)?.saturating_sub(*column.offsets.get(from)?));
            values += table.columns.iter().filter_map(ends).map(|size| size as usize).sum::<usize>();
        }
        if fields.max(names).max(values) > MAX_BYTES {
            return; // refused when it is added
        }
        self.ends.reserve_exact(rows);
        self.names.offsets.reserve_exact(fields);
        self.values.offsets.reserve_exact(fields);
        self.names.data.reserve_exact(names);
        self.values.data.reserve_exact(values);
    }

    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        self.names.push(name)?;
        self.values.push(value)
    }

    pub fn end_row(&mut self) -> Result<()> {
        let fields = self.names.offsets.len() - 1;
        self.ends.push(i32::try_from(fields).map_err(|_| Error::Invalid("more than 2^31 fields in a batch"))?);
        Ok(())
    }

    /// Adds rows with all their fields; of a repeated name one, where `duplicates` says which.
    pub fn push_rows(&mut self, block: &Block, rows: &[usize], duplicates: Option<Duplicates>) -> Result<()> {
        if duplicates.is_none() && self.push_run(block, rows)? {
            return Ok(());
        }
        rows.iter().try_for_each(|row| self.push(block, *row, duplicates))
    }

    /// Adds rows of one shape that follow one another: the same names each time, and values of the same columns. False
    /// where they are to be looked at one by one: then nothing was added.
    fn push_run(&mut self, block: &Block, rows: &[usize]) -> Result<bool> {
        let (Some(from), Some(last), [table], true) =
            (rows.first().copied(), rows.last().copied(), block.tables.as_slice(), block.places.is_empty())
        else {
            return Ok(false);
        };
        let columns: Option<Vec<Run<'_>>> = table.columns.iter().map(|column| column.run(from, last + 1)).collect();
        let Some(columns) = columns.filter(|columns| {
            last - from + 1 == rows.len() && !columns.is_empty() && columns.len() == table.shape.names.len()
        }) else {
            return Ok(false);
        };
        let names: Vec<u8> = table.shape.names.iter().flat_map(|name| name.iter().copied()).collect();
        let values: usize = columns.iter().map(|(bytes, _)| bytes.len()).sum();
        let fields = (self.names.offsets.len() - 1).saturating_add(rows.len().saturating_mul(columns.len()));
        let all_names = rows.len().saturating_mul(names.len()).saturating_add(self.names.data.len());
        if fields.max(all_names).max(self.values.data.len() + values) > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        let before = self.names.offsets.len() - 1;
        self.repeat_names(&names, &table.shape, rows.len());
        self.values.push_transposed(&columns, rows.len(), values)?;
        self.ends.extend((1..=rows.len()).map(|row| (before + row * columns.len()) as i32));
        Ok(true)
    }

    /// Adds the names of a shape, which stand one after another in `names`, for so many rows.
    fn repeat_names(&mut self, names: &[u8], shape: &Shape, rows: usize) {
        // Some rows in one piece that stays in the processor's cache, again and again.
        let some = rows.min(NAMES_BYTES / names.len().max(1)).max(1);
        let piece = names.repeat(some);
        let mut end = 0;
        let ends: Vec<i32> = (0..some)
            .flat_map(|_| &shape.names)
            .map(|name| {
                end += name.len() as i32;
                end
            })
            .collect();
        self.names.data.reserve(rows * names.len());
        self.names.offsets.reserve(rows * shape.names.len());
        let mut left = rows;
        while left > 0 {
            let now = left.min(some);
            let base = self.names.data.len() as i32;
            self.names.data.extend_from_slice(piece.get(..now * names.len()).unwrap_or(&piece));
            let ends = ends.get(..now * shape.names.len()).unwrap_or(&ends);
            self.names.offsets.extend(ends.iter().map(|end| base + end));
            left -= now;
        }
    }

    /// Adds a row with all its fields; of a repeated name one, where `duplicates` says which.
    pub fn push(&mut self, block: &Block, row: usize, duplicates: Option<Duplicates>) -> Result<()> {
        let Some((table, at)) = block.place(row) else { return Err(PAST) };
        let names = &table.shape.names;
        for (number, (name, column)) in names.iter().zip(&table.columns).enumerate() {
            if let Some(policy) = duplicates {
                let earlier = names.iter().take(number).any(|other| other == name);
                let later = names.iter().skip(number + 1).any(|other| other == name);
                match policy {
                    Duplicates::First if earlier => continue,
                    Duplicates::Last if later => continue,
                    Duplicates::Fail if earlier => {
                        return Err(Error::Invalid("an entry holds one field name twice: choose 'first' or 'last'"))
                    }
                    _ => {}
                }
            }
            self.field(name, column.get(at).unwrap_or(&[]))?;
        }
        self.end_row()
    }
}

/// Adds an entry as one run of bytes.
pub fn push_raw(out: &mut Strings, block: &Block, row: usize, scratch: &mut Vec<u8>) -> Result<()> {
    scratch.clear();
    for (name, value) in block.pairs(row) {
        for part in [name, value] {
            let length = u32::try_from(part.len()).map_err(|_| Error::Invalid("a field of more than 4 GiB"))?;
            put_u32(scratch, length);
            scratch.extend_from_slice(part);
        }
    }
    out.push(scratch)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use crate::id::Id;

    fn twice() -> Block {
        let mut builder = BlockBuilder::default();
        let shape = Shape { names: ["a", "b", "a"].iter().map(|name| name.as_bytes().into()).collect() };
        let number = builder.intern(shape);
        builder.push(Id::new(1, 0), number, &[1, 0, 2], b"xyz").unwrap();
        builder.finish()
    }

    fn values(duplicates: Option<Duplicates>) -> Vec<Vec<u8>> {
        let mut listed = Listed::default();
        listed.push(&twice(), 0, duplicates).unwrap();
        assert_eq!(listed.ends, vec![0, listed.values.offsets.len() as i32 - 1]);
        listed.values.offsets.windows(2).map(|at| listed.values.data[at[0] as usize..at[1] as usize].to_vec()).collect()
    }

    #[test]
    fn rows_of_one_shape_are_listed_at_once_as_one_by_one() {
        let mut builder = BlockBuilder::default();
        let names = ["a", "bb", ""].iter().map(|name| name.as_bytes().into()).collect();
        let number = builder.intern(Shape { names });
        for row in 0..9u64 {
            let long = row as usize * 5; // also what is more than is moved at once
            let values: Vec<u8> = (0..long as u8 + 3).collect();
            builder.push(Id::new(row, 0), number, &[long, 0, 3], &values).unwrap();
        }
        let block = builder.finish();
        for rows in [vec![], vec![0], (0..9).collect::<Vec<_>>(), (2..7).collect(), vec![1, 3, 4], vec![8]] {
            let (mut at_once, mut one_by_one) = (Listed::default(), Listed::default());
            for listed in [&mut at_once, &mut one_by_one] {
                listed.push(&block, 4, None).unwrap(); // so that there is something in front
            }
            at_once.reserve([(&block, 0, 9)].into_iter());
            at_once.push_rows(&block, &rows, None).unwrap();
            rows.iter().for_each(|row| one_by_one.push(&block, *row, None).unwrap());
            assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"));
        }
        assert!(Listed::default().push_run(&block, &[0, 1, 2]).unwrap());
        assert!(!Listed::default().push_run(&block, &[0, 2]).unwrap());
    }

    #[test]
    fn a_list_keeps_repeated_names_and_a_map_chooses() {
        assert_eq!(values(None), vec![b"x".to_vec(), vec![], b"yz".to_vec()]);
        assert_eq!(values(Some(Duplicates::First)), vec![b"x".to_vec(), vec![]]);
        assert_eq!(values(Some(Duplicates::Last)), vec![vec![], b"yz".to_vec()]);
        assert!(Listed::default().push(&twice(), 0, Some(Duplicates::Fail)).is_err());
    }

    #[test]
    fn a_raw_entry_is_lengths_and_bytes() {
        let mut out = Strings::default();
        push_raw(&mut out, &twice(), 0, &mut Vec::new()).unwrap();
        assert_eq!(out.data, b"\x01\0\0\0a\x01\0\0\0x\x01\0\0\0b\0\0\0\0\x01\0\0\0a\x02\0\0\0yz");
    }
}

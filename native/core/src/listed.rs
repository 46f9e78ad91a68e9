//! Entries whose fields stay together: a list of (name, value) for each, as Arrow lays out `list<struct<name, value>>`;
//! or one run of bytes for each.
//!
//! ```text
//! raw entry := (name-length u32, name, value-length u32, value)*         in order, repeated names included
//! ```

use crate::block::{Block, Column, Run, Shape};
use crate::columns::Duplicates;
use crate::error::{make_room, Error, Result};
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
    /// Makes room for so many values, of so many bytes together.
    pub fn reserve(&mut self, values: usize, bytes: usize) -> Result<()> {
        if bytes > MAX_BYTES {
            return Ok(()); // refused when it is added
        }
        self.offsets.reserve(values);
        make_room(&mut self.data, bytes, "a column")
    }

    /// The same for `more` rows like the `rows` so far, and an eighth, but for no more than `most` bytes.
    pub fn reserve_like(&mut self, rows: usize, more: usize, most: usize) -> Result<()> {
        let scaled = |size: usize| (size / rows.max(1) + 1).saturating_mul(more).saturating_mul(9) / 8;
        let bytes = scaled(self.data.len()).min(most);
        self.reserve(scaled(self.offsets.len() - 1).min(most / size_of::<i32>()), bytes)
    }

    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<()> {
        if self.data.len() + value.len() > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        make_room(&mut self.data, value.len(), "a column")?;
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len() as i32);
        Ok(())
    }

    /// Adds a run of a block's column (see [`Column::run`]): its bytes in one piece, its offsets moved.
    pub fn push_run(&mut self, (bytes, ends): Run<'_>) -> Result<()> {
        if self.data.len() + bytes.len() > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        let Some(start) = ends.first().copied() else { return Ok(()) };
        let base = self.data.len() as i32;
        make_room(&mut self.data, bytes.len(), "a column")?;
        self.data.extend_from_slice(bytes);
        self.offsets.extend(ends.iter().skip(1).map(|end| base + end.saturating_sub(start) as i32));
        Ok(())
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
#[derive(Debug, Clone, Default)]
pub struct Listed {
    named: Named,
    same: Option<Same>,
    pub values: Strings,
}

/// Which fields the rows have.
#[derive(Debug, Clone)]
pub struct Named {
    /// `rows + 1` ends, counted in fields.
    pub ends: Vec<i32>,
    pub names: Strings,
}

impl Default for Named {
    fn default() -> Named {
        Named { ends: vec![0], names: Strings::default() }
    }
}

/// As long as all rows have the fields of one shape, that is all that is kept of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Same {
    pub shape: Shape,
    pub rows: usize,
}

impl Same {
    /// Lays the names out, over and over.
    pub fn named(&self) -> Named {
        let mut named = Named::default();
        named.repeat(&self.shape, self.rows);
        named
    }

    pub fn fields(&self) -> usize {
        self.rows.saturating_mul(self.shape.names.len())
    }

    /// Bytes of all names.
    pub fn size_bytes(&self) -> usize {
        self.rows.saturating_mul(size_of_names(&self.shape))
    }
}

fn size_of_names(shape: &Shape) -> usize {
    shape.names.iter().map(|name| name.len()).sum()
}

impl Named {
    fn fields(&self) -> usize {
        self.names.offsets.len() - 1
    }

    /// Adds rows that have the fields of a shape each.
    fn repeat(&mut self, shape: &Shape, rows: usize) {
        let (before, fields) = (self.fields(), shape.names.len());
        let names: Vec<u8> = shape.names.iter().flat_map(|name| name.iter().copied()).collect();
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
        self.names.offsets.reserve(rows * fields);
        let mut left = rows;
        while left > 0 {
            let now = left.min(some);
            let base = self.names.data.len() as i32;
            self.names.data.extend_from_slice(piece.get(..now * names.len()).unwrap_or(&piece));
            let ends = ends.get(..now * fields).unwrap_or(&ends);
            self.names.offsets.extend(ends.iter().map(|end| base + end));
            left -= now;
        }
        self.ends.extend((1..=rows).map(|row| (before + row * fields) as i32));
    }

    fn end_row(&mut self) -> Result<()> {
        self.ends.push(i32::try_from(self.fields()).map_err(|_| Error::Invalid("more than 2^31 fields in a batch"))?);
        Ok(())
    }
}

impl Listed {
    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.same.as_ref().map_or(self.named.ends.len() - 1, |same| same.rows)
    }

    /// The shape that all rows have; None where there is no such, or it is not known that there is.
    pub fn same(&self) -> Option<&Same> {
        self.same.as_ref()
    }

    /// Ends and names, laid out, and the values.
    pub fn into_parts(mut self) -> (Named, Strings) {
        self.lay_out();
        (self.named, self.values)
    }

    fn lay_out(&mut self) {
        if let Some(same) = self.same.take() {
            self.named.repeat(&same.shape, same.rows);
        }
    }

    /// Makes room for rows `from..to` of blocks, with all their fields, if each block is of one shape.
    pub fn reserve<'a>(&mut self, blocks: impl Iterator<Item = (&'a Block, usize, usize)>) {
        let (mut rows, mut fields, mut names, mut values) = (0, 0, 0, ROOM);
        let (mut first, mut one) = (None, true);
        for (block, from, to) in blocks {
            let [table] = block.tables.as_slice() else {
                one = false;
                continue;
            };
            one &= *first.get_or_insert(&table.shape) == &table.shape;
            rows += to - from;
            fields += (to - from) * table.columns.len();
            names += (to - from) * size_of_names(&table.shape);
            let ends = |column: &Column| Some(column.offsets.get(to)?.saturating_sub(*column.offsets.get(from)?));
            values += table.columns.iter().filter_map(ends).map(|size| size as usize).sum::<usize>();
        }
        if fields.max(names).max(values) > MAX_BYTES {
            return; // refused when it is added
        }
        self.values.offsets.reserve_exact(fields);
        self.values.data.reserve_exact(values);
        if !one {
            self.named.ends.reserve_exact(rows);
            self.named.names.offsets.reserve_exact(fields);
            self.named.names.data.reserve_exact(names);
        }
    }

    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        self.lay_out();
        self.named.names.push(name)?;
        self.values.push(value)
    }

    pub fn end_row(&mut self) -> Result<()> {
        self.lay_out();
        self.named.end_row()
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
        let values: usize = columns.iter().map(|(bytes, _)| bytes.len()).sum();
        let more = Same { shape: table.shape.clone(), rows: rows.len() };
        let (fields, names) = match &self.same {
            Some(same) => (same.fields(), same.size_bytes()),
            None => (self.named.fields(), self.named.names.data.len()),
        };
        let (fields, names) = (fields.saturating_add(more.fields()), names.saturating_add(more.size_bytes()));
        if fields.max(names).max(self.values.data.len() + values) > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        self.values.push_transposed(&columns, rows.len(), values)?;
        self.push_named(more);
        Ok(true)
    }

    fn push_named(&mut self, more: Same) {
        let first = self.rows() == 0 && self.named.fields() == 0;
        match &mut self.same {
            Some(same) if same.shape == more.shape => same.rows += more.rows,
            None if first => self.same = Some(more),
            _ => {
                self.lay_out();
                self.named.repeat(&more.shape, more.rows);
            }
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
                    Duplicates::Fail if earlier => return Err(Error::twice(block.id(row), name)),
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
        let (named, values) = listed.into_parts();
        assert_eq!(named.ends, vec![0, values.offsets.len() as i32 - 1]);
        values.offsets.windows(2).map(|at| values.data[at[0] as usize..at[1] as usize].to_vec()).collect()
    }

    fn nine(names: &[&str]) -> Block {
        let mut builder = BlockBuilder::default();
        let number = builder.intern(Shape { names: names.iter().map(|name| name.as_bytes().into()).collect() });
        for row in 0..9u64 {
            let long = row as usize * 5; // also what is more than is moved at once
            let values: Vec<u8> = (0..long as u8 + 3).collect();
            builder.push(Id::new(row, 0), number, &[long, 0, 3], &values).unwrap();
        }
        builder.finish()
    }

    fn laid_out(listed: Listed) -> String {
        format!("{:?}", listed.into_parts())
    }

    #[test]
    fn rows_of_one_shape_are_listed_at_once_as_one_by_one() {
        let (block, other) = (nine(&["a", "bb", ""]), nine(&["a", "bbb", "c"]));
        for rows in [vec![], vec![0], (0..9).collect::<Vec<_>>(), (2..7).collect(), vec![1, 3, 4], vec![8]] {
            for (in_front, behind) in [(false, None), (true, None), (false, Some(&block)), (false, Some(&other))] {
                let (mut at_once, mut one_by_one) = (Listed::default(), Listed::default());
                if in_front {
                    [&mut at_once, &mut one_by_one].into_iter().for_each(|it| it.push(&block, 4, None).unwrap());
                }
                for block in [Some(&block), behind].into_iter().flatten() {
                    at_once.reserve([(block, 0, 9)].into_iter());
                    at_once.push_rows(block, &rows, None).unwrap();
                    rows.iter().for_each(|row| one_by_one.push(block, *row, None).unwrap());
                }
                assert_eq!(at_once.rows(), one_by_one.rows());
                assert_eq!(laid_out(at_once), laid_out(one_by_one));
            }
        }
        assert!(Listed::default().push_run(&block, &[0, 1, 2]).unwrap());
        assert!(!Listed::default().push_run(&block, &[0, 2]).unwrap());
    }

    #[test]
    fn names_are_laid_out_only_where_they_differ() {
        let (block, other) = (nine(&["a", "bb", ""]), nine(&["a", "bbb", "c"]));
        let mut listed = Listed::default();
        listed.push_rows(&block, &[0, 1, 2], None).unwrap();
        listed.push_rows(&block, &[4, 5], None).unwrap();
        let same = listed.same().unwrap().clone();
        assert_eq!((same.rows, listed.rows()), (5, 5));
        assert_eq!(format!("{:?}", same.named()), format!("{:?}", listed.clone().into_parts().0));
        let mut ended = listed.clone();
        ended.field(b"d", b"").unwrap();
        ended.end_row().unwrap();
        assert_eq!((ended.rows(), ended.same()), (6, None));
        listed.push_rows(&other, &[0], None).unwrap();
        assert_eq!((listed.rows(), listed.same()), (6, None));
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

//! Entries as columns: ID arrays, and offsets and bytes for each field name, as Arrow lays them out.

use std::collections::HashMap;
use std::ops::Range;

use crate::block::{Block, Column, Table};
use crate::error::{make_room, Error, Result};

/// What becomes of a name that stands twice in one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    First,
    Last,
    Fail,
}

/// One field over all rows.
#[derive(Debug, Clone)]
pub struct FieldColumn {
    pub name: Box<[u8]>,
    /// `rows + 1` ends of values; a missing value is empty.
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
    /// One bit a row, least significant first, where some value is missing.
    pub validity: Option<Vec<u8>>,
    pub nulls: usize,
}

/// Columns under construction.
#[derive(Debug, Clone)]
pub struct Columns {
    pub ms: Vec<u64>,
    pub seq: Vec<u64>,
    pub fields: Vec<FieldColumn>,
    /// Where each name stands among the fields.
    places: HashMap<Box<[u8]>, usize>,
    /// Whether there are no others than were wanted.
    is_closed: bool,
    duplicates: Duplicates,
}

/// At most so many columns that nobody asked for by name: each has a place for each row, also where names are of one
/// entry alone, as of a dictionary whose keys are numbers of customers.
pub const MAX_FIELDS: usize = 10_000;

/// The column of a table that each field takes, by the field's place, rising; fields that it lacks are left out.
type Sources<'a> = Vec<(usize, &'a Column)>;

/// A column's bytes stay below this, since Arrow's plain binary arrays have 32-bit offsets.
const MAX_COLUMN_BYTES: usize = i32::MAX as usize;

impl Columns {
    /// `only`: the names wanted, in this order, or all in the order met.
    pub fn new(only: Option<Vec<Box<[u8]>>>, duplicates: Duplicates) -> Columns {
        let is_closed = only.is_some();
        let fields: Vec<FieldColumn> = only.into_iter().flatten().map(FieldColumn::empty).collect();
        let places = fields.iter().enumerate().map(|(place, field)| (field.name.clone(), place)).collect();
        Columns { ms: Vec::new(), seq: Vec::new(), fields, places, is_closed, duplicates }
    }

    pub fn rows(&self) -> usize {
        self.ms.len()
    }

    /// Adds the rows `from..to` of a block for which `live` holds.
    pub fn push(&mut self, block: &Block, from: usize, to: usize, live: Option<&dyn Fn(usize) -> bool>) -> Result<()> {
        let to = to.min(block.len());
        let wanted: Option<Vec<usize>> = live.map(|live| (from..to).filter(|row| live(*row)).collect());
        let before = self.rows();
        match &wanted {
            Some(rows) => {
                let ids = rows.iter().filter_map(|row| block.id(*row));
                ids.for_each(|id| self.push_id(id.ms, id.seq));
            }
            None => {
                block.ids.extend(from, to, &mut self.ms, &mut self.seq);
            }
        }
        self.meet(block, before, wanted.as_deref(), from..to)?;
        let more = self.rows() - before;
        self.fields.iter_mut().try_for_each(|field| field.make_room(more))?;
        match (&wanted, block.tables.first()) {
            (None, Some(table)) if block.tables.len() == 1 => self.push_run(table, from, to),
            (None, _) => self.push_rows(block, from..to),
            (Some(rows), _) => self.push_rows(block, rows.iter().copied()),
        }
    }

    fn push_id(&mut self, ms: u64, seq: u64) {
        self.ms.push(ms);
        self.seq.push(seq);
    }

    /// Makes columns for names not met before in the rows wanted, missing in the `before` rows so far.
    fn meet(&mut self, block: &Block, before: usize, wanted: Option<&[usize]>, all: Range<usize>) -> Result<()> {
        let mut used = vec![None; block.tables.len()]; // the first row wanted of each
        let mut note = |row: usize| {
            let table = block.places.get(row).map_or(0, |(table, _)| *table as usize);
            used.get_mut(table).into_iter().for_each(|used| *used = used.or(Some(row)));
        };
        match wanted {
            Some(rows) => rows.iter().for_each(|row| note(*row)),
            // One table: the first row says it all.
            None if block.places.is_empty() => all.take(1).for_each(&mut note),
            None => all.for_each(&mut note),
        }
        for (table, used) in block.tables.iter().zip(used) {
            let Some(row) = used else { continue };
            let names = &table.shape.names;
            for (at, name) in names.iter().enumerate() {
                let again = names.iter().take(at).any(|earlier| earlier == name);
                if again && self.duplicates == Duplicates::Fail {
                    return Err(Error::twice(block.id(row), name));
                }
                if !self.is_closed && !self.places.contains_key(name) {
                    self.add(name, before)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &[u8], before: usize) -> Result<()> {
        if self.fields.len() >= MAX_FIELDS {
            return Err(Error::Invalid("more than 10,000 different fields: name those that are wanted (fields=[...])"));
        }
        let mut field = FieldColumn::empty(name.into());
        field.make_room(before)?;
        field.miss(before);
        self.places.insert(name.into(), self.fields.len());
        self.fields.push(field);
        Ok(())
    }

    fn sources<'a>(&self, table: &'a Table) -> Sources<'a> {
        let names = table.shape.names.iter().zip(&table.columns);
        let mut found: Sources<'a> =
            names.filter_map(|(name, column)| self.places.get(name).map(|place| (*place, column))).collect();
        if self.duplicates == Duplicates::Last {
            found.reverse();
        }
        found.sort_by_key(|(place, _)| *place); // stable, so that the one that counts stays before its duplicates
        found.dedup_by_key(|(place, _)| *place);
        found
    }

    /// A run of rows of one shape: whole columns at a time.
    fn push_run(&mut self, table: &Table, from: usize, to: usize) -> Result<()> {
        let mut sources = self.sources(table).into_iter().peekable();
        for (place, field) in self.fields.iter_mut().enumerate() {
            match sources.next_if(|(at, _)| *at == place) {
                Some((_, column)) => field.extend(column, from, to)?,
                None => field.miss(to.saturating_sub(from)),
            }
        }
        Ok(())
    }

    fn push_rows(&mut self, block: &Block, rows: impl Iterator<Item = usize>) -> Result<()> {
        let mut sources: Vec<Option<Sources<'_>>> = vec![None; block.tables.len()];
        for row in rows {
            let (number, at) = block.places.get(row).map_or((0, row), |(table, at)| (*table as usize, *at as usize));
            let (Some(table), Some(known)) = (block.tables.get(number), sources.get_mut(number)) else { continue };
            let mut columns = known.get_or_insert_with(|| self.sources(table)).iter().peekable();
            for (place, field) in self.fields.iter_mut().enumerate() {
                match columns.next_if(|(of, _)| *of == place).and_then(|(_, column)| column.get(at)) {
                    Some(value) => field.push(value)?,
                    None => field.push_missing(),
                }
            }
        }
        Ok(())
    }
}

impl FieldColumn {
    fn empty(name: Box<[u8]>) -> FieldColumn {
        FieldColumn { name, offsets: vec![0], data: Vec::new(), validity: None, nulls: 0 }
    }

    /// Room for so many more rows, before there are any: many columns of many rows may be more than there is memory.
    fn make_room(&mut self, rows: usize) -> Result<()> {
        let bytes = (size_of::<i32>() * (self.offsets.len() + rows)) as u64;
        self.offsets.try_reserve(rows).map_err(|_| Error::NoMemory { what: "a column", bytes })
    }

    fn miss(&mut self, rows: usize) {
        (0..rows).for_each(|_| self.push_missing());
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn mark(&mut self, present: bool) {
        let row = self.rows();
        let Some(bits) = &mut self.validity else { return };
        if bits.len() <= row / 8 {
            bits.resize(row / 8 + 1, 0);
        }
        if let (Some(byte), true) = (bits.get_mut(row / 8), present) {
            *byte |= 1 << (row % 8);
        }
    }

    fn push(&mut self, value: &[u8]) -> Result<()> {
        if self.data.len() + value.len() > MAX_COLUMN_BYTES {
            return Err(Error::Invalid("a column of more than 2 GiB: read a smaller range"));
        }
        make_room(&mut self.data, value.len(), "a column")?;
        self.mark(true);
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len() as i32);
        Ok(())
    }

    fn push_missing(&mut self) {
        if self.validity.is_none() {
            let rows = self.rows();
            let mut bits = vec![0xff; rows / 8];
            if rows % 8 != 0 {
                bits.push((1 << (rows % 8)) - 1);
            }
            self.validity = Some(bits);
        }
        self.mark(false);
        self.offsets.push(self.data.len() as i32);
        self.nulls += 1;
    }

    /// Takes over a run of a block's column: its bytes in one piece, its offsets moved.
    fn extend(&mut self, column: &Column, from: usize, to: usize) -> Result<()> {
        let ends = column.offsets.get(from..=to).unwrap_or(&[]);
        let (Some(start), Some(stop)) = (ends.first().copied(), ends.last().copied()) else { return Ok(()) };
        let bytes = column.data.get(start as usize..stop as usize).unwrap_or(&[]);
        if self.data.len() + bytes.len() > MAX_COLUMN_BYTES {
            return Err(Error::Invalid("a column of more than 2 GiB: read a smaller range"));
        }
        make_room(&mut self.data, bytes.len(), "a column")?;
        if self.validity.is_some() {
            for end in ends.iter().skip(1) {
                self.mark(true);
                self.offsets.push(self.data.len() as i32 + (end - start) as i32);
            }
        } else {
            let base = self.data.len() as i32;
            self.offsets.extend(ends.iter().skip(1).map(|end| base + (end - start) as i32));
        }
        self.data.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, Shape};
    use crate::id::Id;

    fn block(shapes: &[&[&str]]) -> Block {
        let mut builder = BlockBuilder::default();
        for (row, names) in shapes.iter().enumerate() {
            let shape = Shape { names: names.iter().map(|name| name.as_bytes().into()).collect() };
            let number = builder.intern(shape);
            let values: Vec<String> = names.iter().map(|name| format!("{name}{row}")).collect();
            let lengths: Vec<usize> = values.iter().map(String::len).collect();
            builder.push(Id::new(row as u64 + 1, 0), number, &lengths, values.concat().as_bytes()).unwrap();
        }
        builder.finish()
    }

    fn values(field: &FieldColumn) -> Vec<Option<String>> {
        (0..field.rows())
            .map(|row| {
                let bit = field.validity.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1);
                let bytes = &field.data[field.offsets[row] as usize..field.offsets[row + 1] as usize];
                bit.then(|| String::from_utf8(bytes.to_vec()).unwrap())
            })
            .collect()
    }

    #[test]
    fn missing_values_are_null_wherever_they_are() {
        let mut columns = Columns::new(None, Duplicates::Fail);
        columns.push(&block(&[&["a"], &["a"]]), 0, 2, None).unwrap();
        columns.push(&block(&[&["b"], &["a", "b"], &["a"]]), 0, 3, Some(&|row| row != 0)).unwrap();
        columns.push(&block(&[&["a"]]), 0, 1, None).unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(values(&columns.fields[0]), vec![some("a0"), some("a1"), some("a1"), some("a2"), some("a0")]);
        assert_eq!(values(&columns.fields[1]), vec![None, None, some("b1"), None, None]);
        assert_eq!((columns.fields[1].nulls, columns.rows()), (4, 5));
    }

    #[test]
    fn a_repeated_name_fails_unless_one_is_chosen() {
        let twice = block(&[&["a", "b", "a"]]);
        assert!(Columns::new(None, Duplicates::Fail).push(&twice, 0, 1, None).is_err());
        for (policy, columns) in [(Duplicates::First, 0), (Duplicates::Last, 2)] {
            let mut built = Columns::new(Some(vec![b"a"[..].into()]), policy);
            built.push(&twice, 0, 1, None).unwrap();
            assert_eq!(built.fields[0].data, twice.tables[0].columns[columns].data);
        }
    }

    #[test]
    fn names_that_are_as_many_as_entries_end_it_unless_some_are_chosen() {
        let names: Vec<String> = (0..=MAX_FIELDS).map(|number| format!("n{number}")).collect();
        let shapes: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str()]).collect();
        let shapes: Vec<&[&str]> = shapes.iter().map(Vec::as_slice).collect();
        let wide = block(&shapes);
        let mut columns = Columns::new(None, Duplicates::Fail);
        columns.push(&wide, 0, 3, None).unwrap();
        assert_eq!(columns.fields.len(), 3);
        assert!(matches!(columns.push(&wide, 3, MAX_FIELDS + 1, None), Err(Error::Invalid(_))));
        let mut chosen = Columns::new(Some(vec![b"n7"[..].into(), b"no"[..].into()]), Duplicates::Fail);
        chosen.push(&wide, 5, MAX_FIELDS + 1, None).unwrap();
        assert_eq!((chosen.fields[0].nulls, chosen.fields[1].nulls), (MAX_FIELDS - 5, MAX_FIELDS - 4));
        assert_eq!(chosen.fields[0].data, b"n77");
    }
}

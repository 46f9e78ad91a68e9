//! Entries in memory, column by column: what a node or a run of row frames becomes when it is read.

use std::collections::HashMap;

use crate::error::{make_room, Error, Result};
use crate::id::Id;
use crate::id_run::IdRun;
use crate::wire::{put_start, MOST_AT_ONCE};

/// The field names of an entry, in order; a name may stand twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    pub names: Vec<Box<[u8]>>,
}

/// The values of one field of one shape: value `i` is `data[offsets[i]..offsets[i + 1]]`, as in Arrow.
#[derive(Debug, Clone)]
pub struct Column {
    pub offsets: Vec<u32>,
    pub data: Vec<u8>,
}

/// The bytes of consecutive rows of a column, and the offsets that bound them, of which there is one more.
pub type Run<'a> = (&'a [u8], &'a [u32]);

impl Default for Column {
    fn default() -> Self {
        Column { offsets: vec![0], data: Vec::new() }
    }
}

impl Column {
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let start = *self.offsets.get(row)? as usize;
        let end = *self.offsets.get(row + 1)? as usize;
        self.data.get(start..end)
    }

    /// Rows `from..to`; None where they are not all there, or do not follow one another.
    pub fn run(&self, from: usize, to: usize) -> Option<Run<'_>> {
        let ends = self.offsets.get(from..=to)?;
        let bytes = self.data.get(*ends.first()? as usize..*ends.last()? as usize)?;
        // To the end, whatever is found: so it is done for many at once.
        let sorted = ends.iter().zip(ends.get(1..)?).fold(true, |sorted, (start, end)| sorted & (start <= end));
        sorted.then_some((bytes, ends))
    }

    /// The values of rows `from..to`; None where they are not all there, or do not follow one another.
    pub fn texts(&self, from: usize, to: usize) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        let (bytes, ends) = self.run(from, to)?;
        let first = *ends.first()?;
        Some(ends.windows(2).map(move |pair| match pair {
            [start, end] => bytes.get((start - first) as usize..(end - first) as usize).unwrap_or(&[]),
            _ => &[],
        }))
    }

    /// Adds the first `length` of `bytes` as a value.
    #[inline]
    fn push(&mut self, bytes: &[u8], length: usize) -> Result<()> {
        if self.data.capacity() - self.data.len() < length + MOST_AT_ONCE {
            make_room(&mut self.data, length + MOST_AT_ONCE, "entries")?;
        }
        if !put_start(&mut self.data, bytes, length) {
            return Err(Error::Invalid("a value past its row"));
        }
        match u32::try_from(self.data.len()) {
            Ok(end) => self.offsets.push(end),
            Err(_) => return Err(Error::Invalid("a block's column is larger than 4 GiB")),
        }
        Ok(())
    }
}

/// All rows of one shape.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub shape: Shape,
    pub columns: Vec<Column>,
    pub rows: usize,
}

impl Table {
    fn part(&self, from: usize, to: usize) -> Option<Table> {
        let columns = self.columns.iter().map(|column| {
            let ends = column.offsets.get(from..=to)?;
            let (start, stop) = (*ends.first()?, *ends.last()?);
            let data = column.data.get(start as usize..stop as usize)?.to_vec();
            Some(Column { offsets: ends.iter().map(|end| end.saturating_sub(start)).collect(), data })
        });
        Some(Table { shape: self.shape.clone(), columns: columns.collect::<Option<_>>()?, rows: to - from })
    }
}

/// A run of entries in ID order.
#[derive(Debug, Clone, Default)]
pub struct Block {
    pub ids: IdRun,
    pub tables: Vec<Table>,
    /// `(table, row in it)` of each entry; empty where there is one table only.
    pub places: Vec<(u32, u32)>,
}

impl Block {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn id(&self, row: usize) -> Option<Id> {
        self.ids.get(row)
    }

    /// The table an entry is in, and its row there.
    #[inline]
    pub fn place(&self, row: usize) -> Option<(&Table, usize)> {
        if self.places.is_empty() {
            return self.tables.first().map(|table| (table, row));
        }
        let (table, at) = self.places.get(row)?;
        self.tables.get(*table as usize).map(|table| (table, *at as usize))
    }

    /// The fields of an entry in order.
    pub fn pairs(&self, row: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.place(row).into_iter().flat_map(|(table, at)| {
            table.shape.names.iter().zip(&table.columns).map(move |(name, column)| {
                let value: &[u8] = column.get(at).unwrap_or(&[]);
                (&**name, value)
            })
        })
    }

    /// The value of a field; of a repeated name the last, as a dictionary made of the pairs would have it.
    #[inline]
    pub fn value(&self, row: usize, name: &[u8]) -> Option<&[u8]> {
        let (table, at) = self.place(row)?;
        let field = table.shape.names.iter().rposition(|candidate| **candidate == *name)?;
        table.columns.get(field)?.get(at)
    }

    /// The first row whose ID is not below `id`.
    pub fn lower_bound(&self, id: Id) -> usize {
        self.ids.partition_point(|candidate| candidate < id)
    }

    /// Bytes of names and values of an entry: what caps on bytes count.
    pub fn entry_bytes(&self, row: usize) -> usize {
        self.pairs(row).map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Rows `from..to` as a block of their own, whole columns at a time; None where there are no such rows.
    pub fn part(&self, from: usize, to: usize) -> Option<Block> {
        let ids = self.ids.part(from, to)?;
        if self.places.is_empty() {
            let tables = self.tables.iter().take(1).map(|table| table.part(from, to)).collect::<Option<_>>()?;
            return Some(Block { ids, tables, places: Vec::new() });
        }
        let places = self.places.get(from..to)?;
        let mut part = Block { ids, ..Block::default() };
        // A table's rows stand in the block's order, so those of a run of the block are a run of the table.
        let mut known: Vec<Option<(u32, u32)>> = vec![None; self.tables.len()];
        let mut rows: Vec<usize> = Vec::new();
        for (table, at) in places {
            let next = rows.len() as u32;
            let (number, first) = *known.get_mut(*table as usize)?.get_or_insert((next, *at));
            if number == next {
                rows.push(0);
            }
            *rows.get_mut(number as usize)? += 1;
            part.places.push((number, at.checked_sub(first)?));
        }
        let mut tables: Vec<(u32, Table)> = Vec::new();
        for (table, found) in self.tables.iter().zip(&known) {
            let Some((number, first)) = *found else { continue };
            let rows = rows.get(number as usize)?;
            tables.push((number, table.part(first as usize, first as usize + rows)?));
        }
        tables.sort_by_key(|(number, _)| *number);
        part.tables = tables.into_iter().map(|(_, table)| table).collect();
        if part.tables.len() == 1 {
            part.places.clear();
        }
        Some(part)
    }

    /// Bytes of values and IDs, as [`BlockBuilder::bytes`] counts them, but for names.
    pub fn value_bytes(&self) -> usize {
        let columns = self.tables.iter().flat_map(|table| &table.columns);
        self.ids.len() * 16 + columns.map(|column| column.data.len()).sum::<usize>()
    }

    /// Roughly what the block holds in memory.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self
            .tables
            .iter()
            .flat_map(|table| &table.columns)
            .map(|column| column.offsets.len() * 4 + column.data.len())
            .sum();
        self.ids.memory_bytes() + self.places.len() * 8 + columns + 256
    }
}

/// Builds a block row by row.
#[derive(Default)]
pub struct BlockBuilder {
    block: Block,
    /// The numbers of the shapes, once there are many: each row asks for its own.
    numbers: HashMap<Shape, usize>,
    bytes: usize,
}

/// So few shapes are found sooner by looking at each.
const FEW_SHAPES: usize = 16;

impl BlockBuilder {
    /// The number of a shape in this block, which is taken over if it is new.
    pub fn intern(&mut self, shape: Shape) -> usize {
        let found = if self.numbers.is_empty() {
            self.block.tables.iter().position(|table| table.shape == shape)
        } else {
            self.numbers.get(&shape).copied()
        };
        if let Some(number) = found {
            return number;
        }
        let number = self.block.tables.len();
        if !self.numbers.is_empty() {
            self.numbers.insert(shape.clone(), number);
        } else if number == FEW_SHAPES {
            self.numbers = self.block.tables.iter().map(|table| table.shape.clone()).zip(0..).collect();
            self.numbers.insert(shape.clone(), number);
        }
        let columns = vec![Column::default(); shape.names.len()];
        self.bytes += shape.names.iter().map(|name| name.len()).sum::<usize>();
        self.block.tables.push(Table { shape, columns, rows: 0 });
        if self.block.tables.len() == 2 {
            self.block.places = (0..self.block.ids.len() as u32).map(|row| (0, row)).collect();
        }
        number
    }

    /// Adds a row of shape `number` whose values stand one after another from the beginning of `values` on.
    #[inline]
    pub fn push(&mut self, id: Id, number: usize, lengths: &[usize], values: &[u8]) -> Result<()> {
        let many = self.block.tables.len() > 1;
        let table = self.block.tables.get_mut(number).ok_or(Error::Invalid("a row of an unknown shape"))?;
        let mut size = 0usize;
        for (column, length) in table.columns.iter_mut().zip(lengths) {
            column.push(values.get(size..).unwrap_or(&[]), *length)?;
            size = size.saturating_add(*length);
        }
        if many {
            self.block.places.push((number as u32, table.rows as u32));
        }
        table.rows += 1;
        self.block.ids.push(id);
        self.bytes += size + 16;
        Ok(())
    }

    /// Copies a row of another block.
    pub fn push_row(&mut self, source: &Block, row: usize) -> Result<()> {
        let (Some(id), Some((table, at))) = (source.id(row), source.place(row)) else {
            return Err(Error::Invalid("a row past its block"));
        };
        let number = self.intern(table.shape.clone());
        let values: Vec<&[u8]> = table.columns.iter().map(|column| column.get(at).unwrap_or(&[])).collect();
        let lengths: Vec<usize> = values.iter().map(|value| value.len()).collect();
        let mut together = Vec::new();
        make_room(&mut together, lengths.iter().sum(), "an entry")?;
        values.iter().for_each(|value| together.extend_from_slice(value));
        self.push(id, number, &lengths, &together)
    }

    pub fn len(&self) -> usize {
        self.block.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.block.ids.is_empty()
    }

    /// Bytes of names, values and IDs so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn finish(self) -> Block {
        self.block
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_shapes_is_in_a_block_once() {
        let shape = |number: usize| Shape { names: vec![format!("name {number}").into_bytes().into()] };
        let mut builder = BlockBuilder::default();
        let numbers: Vec<usize> = (0..100).map(|row| builder.intern(shape(row * 7 % 40))).collect();
        assert_eq!(numbers.iter().max(), Some(&39));
        for (row, number) in numbers.iter().enumerate() {
            assert_eq!(*number, builder.intern(shape(row * 7 % 40)));
            builder.push(Id::new(row as u64 + 1, 0), *number, &[1], b"v").unwrap();
        }
        let block = builder.finish();
        assert_eq!(block.tables.len(), 40);
        for row in 0..100 {
            let name = format!("name {}", row * 7 % 40);
            assert!(block.pairs(row).eq([(name.as_bytes(), &b"v"[..])]));
            let part = block.part(row, 100).unwrap();
            assert!(part.pairs(0).eq(block.pairs(row)) && part.pairs(99 - row).eq(block.pairs(99)));
        }
    }

    #[test]
    fn a_part_has_the_rows_of_the_whole_whatever_their_shapes() {
        let mut builder = BlockBuilder::default();
        for row in 0..40u64 {
            let names: &[&str] = match row % 7 {
                0..=3 => &["a"],
                4 | 5 => &["b", "a"],
                _ => &[],
            };
            let shape = Shape { names: names.iter().map(|name| name.as_bytes().into()).collect() };
            let number = builder.intern(shape);
            let values: Vec<String> = names.iter().map(|name| format!("{name}{row}")).collect();
            let lengths: Vec<usize> = values.iter().map(String::len).collect();
            builder.push(Id::new(row + 1, 0), number, &lengths, values.concat().as_bytes()).unwrap();
        }
        let whole = builder.finish();
        for from in 0..=40 {
            for to in from..=40 {
                let part = whole.part(from, to).unwrap();
                assert_eq!(part.len(), to - from);
                assert!(part.places.is_empty() || part.tables.len() > 1);
                for row in from..to {
                    assert_eq!(part.id(row - from), whole.id(row));
                    assert!(part.pairs(row - from).eq(whole.pairs(row)), "row {row} of {from}..{to}");
                }
            }
        }
        assert!(whole.part(3, 41).is_none() && whole.part(4, 3).is_none());
    }
}

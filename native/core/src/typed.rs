//! Entries as typed columns: the text of chosen fields, parsed into what Arrow lays out for a type.

use crate::block::{Block, Column, Run};
use crate::columns::Duplicates;
use crate::error::{make_room, Error, Result};
use crate::listed::Strings;
use crate::parse::{boolean, date, decimal, float, float32, integer, timestamp, Parsed};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Bool,
    /// Signed, of 8, 16, 32 or 64 bits.
    Int(u8),
    Float32,
    Float64,
    Decimal {
        precision: u8,
        scale: i8,
    },
    /// Microseconds.
    Timestamp,
    /// Days.
    Date,
    Utf8,
    Binary,
}

impl Type {
    /// Bits of a value; none of what is as long as it is.
    fn width(self) -> Option<usize> {
        Some(match self {
            Type::Bool => 1,
            Type::Int(bits) => usize::from(bits),
            Type::Float32 | Type::Date => 32,
            Type::Float64 | Type::Timestamp => 64,
            Type::Decimal { .. } => 128,
            Type::Utf8 | Type::Binary => return None,
        })
    }
}

/// One column: fixed-width values in `data`, or strings.
#[derive(Debug, Clone)]
pub struct TypedColumn {
    pub name: Box<[u8]>,
    pub kind: Type,
    /// Little-endian values, or bits least significant first.
    pub data: Vec<u8>,
    pub strings: Strings,
    pub validity: Vec<u8>,
    pub nulls: usize,
    rows: usize,
}

/// A value that is not of its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bad {
    /// Row of the batch, and number of the column.
    pub row: usize,
    pub column: usize,
}

fn clear_bit(bits: &mut [u8], row: usize) {
    if let Some(byte) = bits.get_mut(row / 8) {
        *byte &= !(1 << (row % 8));
    }
}

fn set_bit(bits: &mut [u8], row: usize) {
    if let Some(byte) = bits.get_mut(row / 8) {
        *byte |= 1 << (row % 8);
    }
}

/// A value that is all that the text says, or that need not be.
fn kept<T>(parsed: Option<Parsed<T>>, exact: bool) -> Option<T> {
    parsed.filter(|parsed| parsed.whole || !exact).map(|parsed| parsed.value)
}

/// Sets `count` bits from `row` on, which is where `bits` end.
fn set_run(bits: &mut Vec<u8>, row: usize, count: usize) {
    let end = row + count;
    let (first, partial) = (row / 8, row % 8);
    bits.resize(end.div_ceil(8), 0xff);
    if let (Some(byte), true) = (bits.get_mut(first), partial != 0) {
        *byte |= 0xff << partial;
    }
    if let (Some(byte), true) = (bits.get_mut(end / 8), end % 8 != 0) {
        *byte &= (1 << (end % 8)) - 1;
    }
}

/// Whether each value of a run is UTF-8: the whole is, and no value begins within a character.
fn is_text((bytes, ends): Run<'_>) -> bool {
    let start = ends.first().copied().unwrap_or(0);
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    text.is_ascii() || ends.iter().all(|end| text.is_char_boundary(end.saturating_sub(start) as usize))
}

impl TypedColumn {
    pub fn new(name: Box<[u8]>, kind: Type) -> TypedColumn {
        TypedColumn {
            name,
            kind,
            data: Vec::new(),
            strings: Strings::default(),
            validity: Vec::new(),
            nulls: 0,
            rows: 0,
        }
    }

    /// Adds rows `from..to` of a block's column in one piece. False where they are to be looked at one by one: then
    /// nothing was added.
    fn push_run(&mut self, source: &Column, from: usize, to: usize) -> Result<bool> {
        if !matches!(self.kind, Type::Utf8 | Type::Binary) {
            return Ok(false);
        }
        let Some(run) = source.run(from, to) else { return Ok(false) };
        if self.kind == Type::Utf8 && !is_text(run) {
            return Ok(false);
        }
        self.strings.push_run(run)?;
        set_run(&mut self.validity, self.rows, to - from);
        self.rows += to - from;
        Ok(true)
    }

    /// Adds a value of each row, one by one. What there is none of, and what does not parse, or is not `exact` where it
    /// must be, is null; of the latter `bad` gets the place among these rows.
    fn push_each<'a, I>(&mut self, texts: I, exact: bool, bad: impl FnMut(usize)) -> Result<()>
    where
        I: ExactSizeIterator<Item = Option<&'a [u8]>>,
    {
        match self.kind {
            Type::Int(8) => self.fixed(texts, |text| Some(i8::try_from(integer(text)?).ok()?.to_le_bytes()), bad),
            Type::Int(16) => self.fixed(texts, |text| Some(i16::try_from(integer(text)?).ok()?.to_le_bytes()), bad),
            Type::Int(32) => self.fixed(texts, |text| Some(i32::try_from(integer(text)?).ok()?.to_le_bytes()), bad),
            Type::Int(_) => self.fixed(texts, |text| integer(text).map(i64::to_le_bytes), bad),
            Type::Float32 => self.fixed(texts, |text| kept(float32(text), exact).map(f32::to_le_bytes), bad),
            Type::Float64 => self.fixed(texts, |text| kept(float(text), exact).map(f64::to_le_bytes), bad),
            Type::Decimal { precision, scale } => {
                self.fixed(texts, |text| kept(decimal(text, precision, scale), exact).map(i128::to_le_bytes), bad)
            }
            Type::Timestamp => self.fixed(texts, |text| kept(timestamp(text), exact).map(i64::to_le_bytes), bad),
            Type::Date => self.fixed(texts, |text| date(text).map(i32::to_le_bytes), bad),
            Type::Bool => {
                let first = self.rows;
                self.data.resize((first + texts.len()).div_ceil(8), 0);
                let put = |column: &mut Self, row, text: &[u8]| {
                    let parsed = boolean(text);
                    if parsed == Some(true) {
                        set_bit(&mut column.data, row);
                    }
                    Ok(parsed.is_some())
                };
                self.each(texts, put, |_| Ok(()), bad)
            }
            Type::Utf8 | Type::Binary => {
                let any = self.kind == Type::Binary;
                let put = |column: &mut Self, _, text: &[u8]| {
                    Ok((any || std::str::from_utf8(text).is_ok()) && column.strings.push(text).map(|()| true)?)
                };
                self.each(texts, put, |column| column.strings.push(&[]), bad)
            }
        }
    }

    /// The same for values of `N` bytes. A loop of its own beside `each`: to look up the slot of each value costs eighteen
    /// instructions a value, of some hundred.
    fn fixed<'a, I, const N: usize>(
        &mut self,
        texts: I,
        parse: impl Fn(&[u8]) -> Option<[u8; N]>,
        mut bad: impl FnMut(usize),
    ) -> Result<()>
    where
        I: ExactSizeIterator<Item = Option<&'a [u8]>>,
    {
        let (first, count, begin) = (self.rows, texts.len(), self.data.len());
        make_room(&mut self.data, N * count, "a column")?;
        self.data.resize(begin + N * count, 0);
        set_run(&mut self.validity, first, count);
        let slots = self.data.get_mut(begin..).unwrap_or_default().chunks_exact_mut(N);
        for (at, (text, slot)) in texts.zip(slots).enumerate() {
            match text.map(&parse) {
                Some(Some(bytes)) => slot.copy_from_slice(&bytes),
                found => {
                    if found.is_some() {
                        bad(at);
                    }
                    clear_bit(&mut self.validity, first + at);
                    self.nulls += 1;
                }
            }
        }
        self.rows += count;
        Ok(())
    }

    /// The same, by what puts a value where it parses, and what puts a null.
    #[inline(always)]
    fn each<'a, I>(
        &mut self,
        texts: I,
        put: impl Fn(&mut Self, usize, &[u8]) -> Result<bool>,
        put_null: impl Fn(&mut Self) -> Result<()>,
        mut bad: impl FnMut(usize),
    ) -> Result<()>
    where
        I: ExactSizeIterator<Item = Option<&'a [u8]>>,
    {
        let (first, count) = (self.rows, texts.len());
        set_run(&mut self.validity, first, count);
        for (at, text) in texts.enumerate() {
            match text {
                Some(text) if put(self, first + at, text)? => continue,
                Some(_) => bad(at),
                None => {}
            }
            put_null(self)?;
            clear_bit(&mut self.validity, first + at);
            self.nulls += 1;
        }
        self.rows += count;
        Ok(())
    }
}

/// Columns under construction.
#[derive(Debug, Clone)]
pub struct Typed {
    pub columns: Vec<TypedColumn>,
    pub bad: Vec<Bad>,
    duplicates: Duplicates,
    exact: bool,
}

impl Typed {
    /// With `exact` a value that would be rounded, cut or out of range counts as one that does not parse.
    pub fn new(columns: Vec<(Box<[u8]>, Type)>, duplicates: Duplicates, exact: bool) -> Typed {
        let columns = columns.into_iter().map(|(name, kind)| TypedColumn::new(name, kind)).collect();
        Typed { columns, bad: Vec::new(), duplicates, exact }
    }

    /// The value of a row that counts for the columns of a field: of a repeated name the one that they hold.
    pub fn value<'a>(&self, block: &'a Block, row: usize, name: &[u8]) -> Option<&'a [u8]> {
        let mut values = block.pairs(row).filter(|(candidate, _)| *candidate == name).map(|(_, value)| value);
        match self.duplicates {
            Duplicates::Last => values.last(),
            Duplicates::First | Duplicates::Fail => values.next(),
        }
    }

    /// Makes room for rows `from..to` of blocks: what grows is copied again and again.
    pub fn reserve<'a>(&mut self, blocks: impl Iterator<Item = (&'a Block, usize, usize)> + Clone) -> Result<()> {
        let rows = blocks.clone().map(|(_, from, to)| to - from).sum::<usize>();
        for column in &mut self.columns {
            let Some(width) = column.kind.width() else {
                // Of blocks of several shapes it is seen when they come.
                let runs =
                    blocks.clone().filter(|(block, ..)| block.places.is_empty()).filter_map(|(block, from, to)| {
                        let table = block.tables.first()?;
                        match source(&table.shape.names, &table.columns, &column.name, self.duplicates) {
                            Source::Column(source) => source.run(from, to).map(|(bytes, _)| bytes.len()),
                            _ => None,
                        }
                    });
                column.strings.reserve(rows, runs.sum())?;
                continue;
            };
            make_room(&mut column.data, (rows * width).div_ceil(8), "a column")?;
        }
        Ok(())
    }

    /// Makes room for `more` rows like the `rows` so far, of no more than `most` bytes in a column.
    pub fn reserve_like(&mut self, rows: usize, more: usize, most: usize) -> Result<()> {
        self.columns.iter_mut().try_for_each(|column| match column.kind.width() {
            Some(width) => make_room(&mut column.data, (more * width).div_ceil(8), "a column"),
            None => column.strings.reserve_like(rows, more, most),
        })
    }

    /// Adds rows of a block; `before` rows came earlier in this batch.
    pub fn push(&mut self, block: &Block, rows: &[usize], before: usize) -> Result<()> {
        let run = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) if block.places.is_empty() && last - first + 1 == rows.len() => {
                Some((*first, *last))
            }
            _ => None,
        };
        for (number, column) in self.columns.iter_mut().enumerate() {
            let sources: Vec<Source<'_>> = block
                .tables
                .iter()
                .map(|table| source(&table.shape.names, &table.columns, &column.name, self.duplicates))
                .collect();
            let bad = &mut self.bad;
            let mut note = |at| bad.push(Bad { row: before + at, column: number });
            if let (Some((first, last)), Some(Source::Column(source))) = (run, sources.first().copied()) {
                if column.push_run(source, first, last + 1)? {
                    continue;
                }
                if let Some(texts) = source.texts(first, last + 1) {
                    column.push_each(texts.map(Some), self.exact, note)?;
                    continue;
                }
            }
            let at = |row: usize| match block.places.get(row) {
                Some((table, at)) => (sources.get(*table as usize), *at as usize),
                None => (sources.first(), row),
            };
            // Only where a row of the table is wanted: others may be gone, or out of range.
            let is_twice = |row: &&usize| matches!(at(**row).0, Some(Source::Twice));
            if self.duplicates == Duplicates::Fail {
                if let Some(row) = rows.iter().find(is_twice) {
                    return Err(Error::twice(block.id(*row), &column.name));
                }
            }
            let texts = rows.iter().map(|row| match at(*row) {
                (Some(Source::Column(source)), at) => source.get(at),
                _ => None,
            });
            column.push_each(texts, self.exact, &mut note)?;
        }
        Ok(())
    }
}

/// Where the entries of a shape have a field.
#[derive(Clone, Copy)]
enum Source<'a> {
    None,
    Column(&'a Column),
    /// In two places, and that is an error.
    Twice,
}

fn source<'a>(names: &[Box<[u8]>], columns: &'a [Column], wanted: &[u8], duplicates: Duplicates) -> Source<'a> {
    let mut places = names.iter().enumerate().filter(|(_, name)| ***name == *wanted).map(|(at, _)| at);
    let (first, last) = (places.next(), places.next_back());
    let at = match (duplicates, first, last) {
        (Duplicates::Fail, _, Some(_)) => return Source::Twice,
        (Duplicates::Last, _, Some(last)) => Some(last),
        (_, first, _) => first,
    };
    at.and_then(|at| columns.get(at)).map_or(Source::None, Source::Column)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, Shape};
    use crate::id::Id;

    fn block(rows: &[&[(&str, &str)]]) -> Block {
        let mut builder = BlockBuilder::default();
        for (number, row) in rows.iter().enumerate() {
            let shape = Shape { names: row.iter().map(|(name, _)| name.as_bytes().into()).collect() };
            let shape = builder.intern(shape);
            let lengths: Vec<usize> = row.iter().map(|(_, value)| value.len()).collect();
            let values: String = row.iter().map(|(_, value)| *value).collect();
            builder.push(Id::new(1 + number as u64, 0), shape, &lengths, values.as_bytes()).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn what_does_not_parse_is_null_and_told() {
        let mut typed =
            Typed::new(vec![(b"n"[..].into(), Type::Int(8)), (b"b"[..].into(), Type::Bool)], Duplicates::Last, false);
        let rows = block(&[&[("n", "-128"), ("b", "true")], &[("n", "128")], &[("b", "maybe"), ("n", "1")]]);
        typed.push(&rows, &[0, 1, 2], 10).unwrap();
        let [n, b] = &typed.columns[..] else { panic!("two columns") };
        assert_eq!((n.data.as_slice(), n.validity.as_slice(), n.nulls), (&[0x80, 0, 1][..], &[0b101][..], 1));
        assert_eq!((b.data.as_slice(), b.validity.as_slice(), b.nulls), (&[1][..], &[1][..], 2));
        assert_eq!(typed.bad, vec![Bad { row: 11, column: 0 }, Bad { row: 12, column: 1 }]);
    }

    #[test]
    fn where_it_must_be_exact_what_is_rounded_does_not_parse() {
        let rows = block(&[&[("n", "1.5")], &[("n", "1.55")], &[("n", "x")]]);
        for (exact, bad) in [(false, vec![2]), (true, vec![1, 2])] {
            let kind = Type::Decimal { precision: 5, scale: 1 };
            let mut typed = Typed::new(vec![(b"n"[..].into(), kind)], Duplicates::Last, exact);
            typed.push(&rows, &[0, 1, 2], 0).unwrap();
            assert_eq!(typed.bad.iter().map(|bad| bad.row).collect::<Vec<_>>(), bad);
        }
    }

    fn every_kind(name: &str) -> Vec<(Box<[u8]>, Type)> {
        let ints = [8, 16, 32, 64].map(Type::Int);
        let others = [
            Type::Bool,
            Type::Float32,
            Type::Float64,
            Type::Decimal { precision: 5, scale: 1 },
            Type::Timestamp,
            Type::Date,
            Type::Utf8,
            Type::Binary,
        ];
        ints.into_iter().chain(others).map(|kind| (name.as_bytes().into(), kind)).collect()
    }

    #[test]
    fn what_room_was_made_for_is_not_moved_as_it_comes() {
        let rows = vec![&[("k", "12.5"), ("other", "x")][..]; 100];
        let block = block(&rows);
        let mut typed = Typed::new(every_kind("k"), Duplicates::Last, false);
        typed.reserve([(&block, 0, 100), (&block, 20, 100)].into_iter()).unwrap();
        let places = |typed: &Typed| -> Vec<_> {
            let columns = typed.columns.iter();
            columns.map(|of| (of.data.as_ptr(), of.strings.offsets.as_ptr(), of.strings.data.as_ptr())).collect()
        };
        let before = places(&typed);
        typed.push(&block, &(0..100).collect::<Vec<_>>(), 0).unwrap();
        typed.push(&block, &(20..100).collect::<Vec<_>>(), 100).unwrap();
        assert_eq!(places(&typed), before);
    }

    #[test]
    fn a_run_of_rows_gives_what_its_rows_one_by_one_give() {
        let texts =
            ["", "a", "\u{e9}", "\u{1f600}", "plain", "x\u{e9}y", "1", "-7", "300", "2.5", "1e3", "true", "2026-11-21"];
        let mut random = 7u32;
        let mut next = |bound: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) as usize % bound
        };
        for _ in 0..300 {
            let made: Vec<(&str, &str)> = (0..next(40)).map(|_| ("k", texts[next(texts.len())])).collect();
            let rows: Vec<&[(&str, &str)]> = made.iter().map(std::slice::from_ref).collect();
            let whole = block(&rows);
            // Of a row of another shape behind them, all have places, and so are looked at one by one.
            let apart = block(&[&rows[..], &[&[("other", "")]]].concat());
            assert!(whole.places.is_empty() && (rows.is_empty() || !apart.places.is_empty()));
            let (mut by_run, mut one_by_one) = (
                Typed::new(every_kind("k"), Duplicates::Last, false),
                Typed::new(every_kind("k"), Duplicates::Last, false),
            );
            let mut before = 0;
            for _ in 0..3 {
                let (from, to) = (next(rows.len() + 1), next(rows.len() + 1));
                let some: Vec<usize> = (from..to).collect();
                by_run.push(&whole, &some, before).unwrap();
                one_by_one.push(&apart, &some, before).unwrap();
                before += some.len();
            }
            assert_eq!(by_run.bad, one_by_one.bad);
            for (left, right) in by_run.columns.iter().zip(&one_by_one.columns) {
                assert_eq!((&left.strings.offsets, &left.strings.data), (&right.strings.offsets, &right.strings.data));
                assert_eq!(left.data, right.data, "{:?}", left.kind);
                assert_eq!((&left.validity, left.nulls, left.rows), (&right.validity, right.nulls, right.rows));
            }
        }
    }

    #[test]
    fn values_that_are_text_together_only_are_none() {
        let table = |values: &[&[u8]]| {
            let mut builder = BlockBuilder::default();
            for (number, value) in values.iter().enumerate() {
                let shape = builder.intern(Shape { names: vec![b"k"[..].into()] });
                builder.push(Id::new(1 + number as u64, 0), shape, &[value.len()], value).unwrap();
            }
            builder.finish()
        };
        let halves = table(&[b"ok", b"\xc3", b"\xa9", b"ok"]);
        let mut typed = Typed::new(vec![(b"k"[..].into(), Type::Utf8)], Duplicates::Last, false);
        typed.push(&halves, &[0, 1, 2, 3], 0).unwrap();
        assert_eq!((typed.columns[0].nulls, typed.columns[0].validity.as_slice()), (2, &[0b1001][..]));
        assert_eq!(typed.bad, vec![Bad { row: 1, column: 0 }, Bad { row: 2, column: 0 }]);
    }

    #[test]
    fn of_a_repeated_name_the_chosen_value_counts() {
        let rows = block(&[&[("a", "1"), ("a", "2")]]);
        for (policy, value) in [(Duplicates::First, 1), (Duplicates::Last, 2)] {
            let mut typed = Typed::new(vec![(b"a"[..].into(), Type::Int(64))], policy, false);
            typed.push(&rows, &[0], 0).unwrap();
            assert_eq!(typed.columns[0].data[0], value);
            assert_eq!(typed.value(&rows, 0, b"a"), Some(value.to_string().as_bytes()));
            assert_eq!(typed.value(&rows, 0, b"b"), None);
        }
        assert!(Typed::new(vec![(b"a"[..].into(), Type::Utf8)], Duplicates::Fail, false).push(&rows, &[0], 0).is_err());
    }
}

//! Entries as typed columns: the text of chosen fields, parsed into what Arrow lays out for a type.

use crate::block::{Block, Column};
use crate::columns::Duplicates;
use crate::error::{Error, Result};
use crate::listed::Strings;
use crate::parse::{self, Parsed};

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

fn set_bit(bits: &mut Vec<u8>, row: usize, on: bool) {
    if bits.len() <= row / 8 {
        bits.push(0);
    }
    if let (Some(byte), true) = (bits.get_mut(row / 8), on) {
        *byte |= 1 << (row % 8);
    }
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
fn is_text(bytes: &[u8], ends: &[u32]) -> bool {
    let start = ends.first().copied().unwrap_or(0);
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    ends.iter().all(|end| text.is_char_boundary(end.saturating_sub(start) as usize))
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

    fn width(&self) -> usize {
        match self.kind {
            Type::Int(bits) => usize::from(bits / 8),
            Type::Float32 | Type::Date => 4,
            Type::Float64 | Type::Timestamp => 8,
            Type::Decimal { .. } => 16,
            Type::Bool | Type::Utf8 | Type::Binary => 0,
        }
    }

    fn null(&mut self) -> Result<()> {
        match self.kind {
            Type::Utf8 | Type::Binary => self.strings.push(&[])?,
            Type::Bool => set_bit(&mut self.data, self.rows, false),
            _ => self.data.resize(self.data.len() + self.width(), 0),
        }
        set_bit(&mut self.validity, self.rows, false);
        self.nulls += 1;
        self.rows += 1;
        Ok(())
    }

    fn int(&mut self, value: i64, bits: u8) -> bool {
        let spare = 64 - u32::from(bits);
        if (value << spare) >> spare != value {
            return false;
        }
        let bytes = value.to_le_bytes();
        self.data.extend_from_slice(bytes.get(..usize::from(bits / 8)).unwrap_or(&bytes));
        true
    }

    fn number<T, const N: usize>(&mut self, parsed: Option<Parsed<T>>, exact: bool, bytes: fn(T) -> [u8; N]) -> bool {
        let taken = parsed.filter(|parsed| parsed.whole || !exact);
        taken.map(|parsed| self.data.extend_from_slice(&bytes(parsed.value))).is_some()
    }

    /// Adds rows `from..to` of a block's column in one piece. False where they are to be looked at one by one: then
    /// nothing was added.
    fn push_run(&mut self, source: &Column, from: usize, to: usize) -> Result<bool> {
        let fits = match self.kind {
            Type::Binary => true,
            Type::Utf8 => source.run(from, to).is_some_and(|(bytes, ends)| is_text(bytes, ends)),
            _ => false,
        };
        if !fits || !self.strings.push_run(source, from, to)? {
            return Ok(false);
        }
        set_run(&mut self.validity, self.rows, to - from);
        self.rows += to - from;
        Ok(true)
    }

    /// Adds a value. False where it does not parse, or is not `exact` where it must be: nothing is added then.
    fn parse(&mut self, text: &[u8], exact: bool) -> Result<bool> {
        let parsed = match self.kind {
            Type::Int(bits) => parse::integer(text).is_some_and(|value| self.int(value, bits)),
            Type::Float64 => self.number(parse::float(text), exact, f64::to_le_bytes),
            Type::Float32 => self.number(parse::float32(text), exact, f32::to_le_bytes),
            Type::Decimal { precision, scale } => {
                self.number(parse::decimal(text, precision, scale), exact, i128::to_le_bytes)
            }
            Type::Timestamp => self.number(parse::timestamp(text), exact, i64::to_le_bytes),
            Type::Date => parse::date(text).map(|value| self.data.extend(value.to_le_bytes())).is_some(),
            Type::Bool => parse::boolean(text).map(|value| set_bit(&mut self.data, self.rows, value)).is_some(),
            Type::Utf8 => std::str::from_utf8(text).is_ok() && self.strings.push(text).map(|()| true)?,
            Type::Binary => self.strings.push(text).map(|()| true)?,
        };
        if parsed {
            set_bit(&mut self.validity, self.rows, true);
            self.rows += 1;
        }
        Ok(parsed)
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
            if let (Some((first, last)), Some(Source::Column(source))) = (run, sources.first().copied()) {
                if column.push_run(source, first, last + 1)? {
                    continue;
                }
            }
            for (count, row) in rows.iter().enumerate() {
                let (table, at) = match block.places.get(*row) {
                    Some((table, at)) => (*table as usize, *at as usize),
                    None => (0, *row),
                };
                let text = match sources.get(table) {
                    Some(Source::Column(source)) => source.get(at),
                    // Only now that a row of the table is wanted: others may be gone, or out of range.
                    Some(Source::Twice) => return Err(Error::twice(block.id(*row), &column.name)),
                    Some(Source::None) | None => None,
                };
                match text {
                    None => column.null()?,
                    Some(text) => {
                        if !column.parse(text, self.exact)? {
                            column.null()?;
                            self.bad.push(Bad { row: before + count, column: number });
                        }
                    }
                }
            }
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

    #[test]
    fn a_run_of_rows_gives_what_its_rows_one_by_one_give() {
        let texts = ["", "a", "\u{e9}", "\u{1f600}", "plain", "x\u{e9}y"];
        let mut random = 7u32;
        let mut next = |bound: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) as usize % bound
        };
        for _ in 0..300 {
            let made: Vec<(&str, &str)> = (0..next(40)).map(|_| ("k", texts[next(texts.len())])).collect();
            let rows: Vec<&[(&str, &str)]> = made.iter().map(std::slice::from_ref).collect();
            let whole = block(&rows);
            let kinds = || vec![(b"k"[..].into(), Type::Utf8), (b"k"[..].into(), Type::Binary)];
            let (mut by_run, mut one_by_one) =
                (Typed::new(kinds(), Duplicates::Last, false), Typed::new(kinds(), Duplicates::Last, false));
            let mut before = 0;
            for _ in 0..3 {
                let (from, to) = (next(rows.len() + 1), next(rows.len() + 1));
                let some: Vec<usize> = (from..to).collect();
                by_run.push(&whole, &some, before).unwrap();
                some.iter().enumerate().for_each(|(at, row)| one_by_one.push(&whole, &[*row], before + at).unwrap());
                before += some.len();
            }
            for (left, right) in by_run.columns.iter().zip(&one_by_one.columns) {
                assert_eq!((&left.strings.offsets, &left.strings.data), (&right.strings.offsets, &right.strings.data));
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
        }
        assert!(Typed::new(vec![(b"a"[..].into(), Type::Utf8)], Duplicates::Fail, false).push(&rows, &[0], 0).is_err());
    }
}

//! Rows, nodes, and what becomes of the block that they are unpacked into.

use diskstream_core::block::{Block, BlockBuilder};
use diskstream_core::columns::{Columns, Duplicates};
use diskstream_core::id::Id;
use diskstream_core::listed::{push_raw, Listed, Strings};
use diskstream_core::marks::Marks;
use diskstream_core::node::{NodePacker, NodeReader, NODE_HEAD_BYTES};
use diskstream_core::rows::{self, Packed, RowsEncoder, Step};
use diskstream_core::typed::{Type, Typed};

use crate::input::{put, sign, Input};

/// Entries as plain values.
pub type Plain = Vec<(Id, Vec<(Vec<u8>, Vec<u8>)>)>;

pub fn plain(block: &Block) -> Plain {
    let pairs = |row| block.pairs(row).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    (0..block.len()).map(|row| (block.id(row).unwrap(), pairs(row))).collect()
}

pub fn encoded(entries: &Plain) -> Option<Vec<u8>> {
    let mut encoder = RowsEncoder::default();
    let mut before = Id::MIN;
    for (id, pairs) in entries {
        encoder.begin();
        pairs.iter().for_each(|(name, value)| encoder.field(name, value));
        encoder.end(Step::Between(before, *id)).ok()?;
        before = *id;
    }
    Some(encoder.take())
}

fn decoded(payload: &[u8], first: Id, rows: u32, part: std::ops::Range<u32>, most: usize) -> Option<(Id, Block)> {
    let mut builder = BlockBuilder::default();
    let last = rows::decode(payload, first, rows, part, most, &mut builder).ok()?;
    Some((last, builder.finish()))
}

/// The rows of an input, where they are any.
fn read_rows(input: &mut Input<'_>) -> Option<(Id, u32, Block)> {
    let (first, rows) = (input.id(), u32::from(input.u16()));
    let (last, block) = decoded(input.0, first, rows, 0..rows, usize::MAX)?;
    assert_eq!(block.len(), rows as usize);
    (rows > 0).then_some((last, rows, block))
}

pub fn rows(data: &[u8]) {
    let mut input = Input(data);
    let (from, most) = (u32::from(input.u8()), usize::from(input.u16()));
    let start = Input(input.0).id();
    let payload = input.0.get(18..).unwrap_or_default();
    let _ = rows::last_id(payload, start, u32::MAX);
    let _ = decoded(payload, start, u32::MAX, 0..u32::MAX, usize::MAX);
    let Some((last, rows, block)) = read_rows(&mut input) else { return };
    assert_eq!(rows::last_id(payload, start, rows), Ok(last));
    let whole = plain(&block);
    let from = from.min(rows);
    let (_, rest) = decoded(payload, start, rows, from..rows, usize::MAX).unwrap();
    assert_eq!(plain(&rest), whole[from as usize..]);
    let marks = Marks::of(payload, start, rows).unwrap();
    let marked = Packed { payload, first: start, rows, marks: Some(&marks) };
    let mut builder = BlockBuilder::default();
    assert_eq!(marked.decode(from..rows, usize::MAX, &mut builder), Ok(last));
    assert_eq!(plain(&builder.finish()), whole[from as usize..]);
    if let Some((id, _)) = whole.get(from as usize) {
        assert_eq!(marked.lower_bound(*id), Ok(from));
    }
    let (_, some) = decoded(payload, start, rows, 0..rows, most).unwrap();
    assert_eq!(plain(&some), whole[..some.len()]);
    if let Some(again) = encoded(&whole) {
        let (end, back) = decoded(&again, start, rows, 0..rows, usize::MAX).unwrap();
        assert_eq!((end, plain(&back)), (last, whole));
    }
}

/// A node around contents: entries u16, codec u8, raw bytes u32 (0: those of the body), body.
pub fn node_of(data: &[u8]) -> Vec<u8> {
    let mut input = Input(data);
    let (entries, codec, raw) = (input.u16(), input.u8() & 1, input.u32());
    let raw = if raw == 0 { input.0.len() as u32 } else { raw % (1 << 20) };
    let mut node = vec![0; NODE_HEAD_BYTES];
    put(&mut node, 0, &7u32.to_le_bytes());
    put(&mut node, 4, &3u32.to_le_bytes());
    put(&mut node, 8, &u32::from(entries).to_le_bytes());
    put(&mut node, 12, &raw.to_le_bytes());
    put(&mut node, 16, &(input.0.len() as u32).to_le_bytes());
    node[20] = codec;
    put(&mut node, 24, &diskstream_core::checksum(input.0).to_le_bytes());
    sign(&mut node, 28);
    node.extend_from_slice(input.0);
    node
}

pub fn node(data: &[u8]) {
    let mut reader = NodeReader::default();
    let _ = NodeReader::raw_bytes(data);
    let _ = reader.read(data, Input(data).u32(), 0, u64::MAX);
    let bytes = node_of(data);
    let Ok(block) = reader.read(&bytes, 7, 3, 9) else { return };
    let entries = plain(&block);
    for level in [0, 1] {
        let mut out = Vec::new();
        if NodePacker::new(level).encode(&mut out, &block, 7, 3).is_ok() {
            assert_eq!(plain(&reader.read(&out, 7, 3, 0).unwrap()), entries);
        }
    }
}

const POLICIES: [Duplicates; 3] = [Duplicates::First, Duplicates::Last, Duplicates::Fail];
const TYPES: [Type; 11] = [
    Type::Bool,
    Type::Int(8),
    Type::Int(16),
    Type::Int(32),
    Type::Int(64),
    Type::Float32,
    Type::Float64,
    Type::Decimal { precision: 38, scale: 2 },
    Type::Timestamp,
    Type::Date,
    Type::Utf8,
];

fn check_columns(columns: &Columns) {
    for field in &columns.fields {
        assert_eq!(field.offsets.len(), columns.rows() + 1);
        assert!(field.offsets.is_sorted() && field.offsets[0] == 0);
        assert_eq!(field.offsets[columns.rows()] as usize, field.data.len());
        let Some(bits) = &field.validity else {
            assert_eq!(field.nulls, 0);
            continue;
        };
        assert_eq!(bits.len(), columns.rows().div_ceil(8));
        let set: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(columns.rows() - set as usize, field.nulls);
    }
}

fn check_typed(block: &Block, typed: &mut Typed) {
    let rows: Vec<usize> = (0..block.len()).collect();
    if typed.push(block, &rows, 0).is_err() {
        return;
    }
    for column in &typed.columns {
        let width = match column.kind {
            Type::Int(bits) => usize::from(bits / 8),
            Type::Float32 | Type::Date => 4,
            Type::Float64 | Type::Timestamp => 8,
            Type::Decimal { .. } => 16,
            Type::Bool | Type::Utf8 | Type::Binary => 0,
        };
        assert_eq!(column.validity.len(), rows.len().div_ceil(8));
        match column.kind {
            Type::Utf8 | Type::Binary => assert_eq!(column.strings.offsets.len(), rows.len() + 1),
            Type::Bool => assert_eq!(column.data.len(), rows.len().div_ceil(8)),
            _ => assert_eq!(column.data.len(), rows.len() * width),
        }
        let set: u32 = column.validity.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(rows.len() - set as usize, column.nulls);
    }
}

pub fn columns(data: &[u8]) {
    let mut input = Input(data);
    let (choice, from, to) = (input.u8(), usize::from(input.u8()), usize::from(input.u8()));
    let Some((_, _, block)) = read_rows(&mut input) else { return };
    if block.tables.iter().map(|table| table.columns.len()).sum::<usize>() > 256 {
        return; // a column for each name, and a value for each row: what large inputs cost is known
    }
    let names: Vec<Box<[u8]>> = block.tables.iter().flat_map(|table| table.shape.names.clone()).take(4).collect();
    for policy in POLICIES {
        for only in [None, Some(names.clone())] {
            let mut columns = Columns::new(only, policy);
            let live = |row: usize| (row ^ usize::from(choice)) % 3 > 0;
            let pushed = columns
                .push(&block, from.min(to), to, None)
                .and_then(|()| columns.push(&block, 0, block.len(), Some(&live)));
            if pushed.is_ok() {
                check_columns(&columns);
            }
        }
        let types = names.iter().cloned().zip(TYPES.iter().copied().cycle().skip(usize::from(choice)));
        check_typed(&block, &mut Typed::new(types.collect(), policy, false));
        let (mut listed, mut strings) = (Listed::default(), Strings::default());
        for row in 0..block.len() {
            let _ = listed.push(&block, row, Some(policy));
            push_raw(&mut strings, &block, row, &mut Vec::new()).unwrap();
        }
        assert_eq!(strings.offsets.len(), block.len() + 1);
    }
    check_lists(&block, from.min(to)..to.min(block.len()));
    let whole = plain(&block);
    let (from, to) = (from.min(to).min(block.len()), to.min(block.len()));
    assert_eq!(plain(&block.part(from, to).unwrap()), whole[from..to]);
    assert!(block.part(from, block.len() + 1).is_none());
    let mut copy = BlockBuilder::default();
    (0..block.len()).for_each(|row| copy.push_row(&block, row).unwrap());
    assert_eq!(plain(&copy.finish()), whole);
}

/// Rows that are listed at once are listed as they are one by one.
fn check_lists(block: &Block, rows: std::ops::Range<usize>) {
    let rows: Vec<usize> = rows.collect();
    let (mut at_once, mut one_by_one) = (Listed::default(), Listed::default());
    let listed = at_once.push_rows(block, &rows, None);
    let expected = rows.iter().try_for_each(|row| one_by_one.push(block, *row, None));
    assert_eq!(listed.is_ok(), expected.is_ok());
    if listed.is_ok() {
        assert_eq!(format!("{:?}", at_once.into_parts()), format!("{:?}", one_by_one.into_parts()));
    }
}

//! Reading from marks on is reading from the beginning.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::block::{Block, BlockBuilder};
use crate::rows::{last_id, Packed, RowsEncoder, Step};

const FIRST: Id = Id::new(5, 1);

/// Rows of shapes that are defined at the beginning, at marks, right beside them and late; with steps of all kinds, and
/// some long values.
fn packed(rows: u32, value_bytes: usize) -> (Vec<u8>, Vec<Id>) {
    let mut encoder = RowsEncoder::default();
    let (mut before, mut ids) = (FIRST, Vec::new());
    for row in 0..rows {
        let id = match row % 7 {
            _ if row == 0 => FIRST,
            0 => Id::new(before.ms + 1 + u64::from(row % 3) * 500, 0),
            3 => Id::new(before.ms, before.seq + 300),
            5 => Id::new(before.ms + 2, 7),
            _ => Id::new(before.ms, before.seq + 1),
        };
        encoder.begin();
        encoder.field(b"n", row.to_string().as_bytes());
        match row {
            255..=257 | 511 | 700 => encoder.field(format!("late {row}").as_bytes(), b""),
            _ if row % 5 == 0 => encoder.field(b"long", &vec![row as u8; value_bytes * (row as usize % 11)]),
            _ if row > 800 && row % 3 == 0 => encoder.field(b"late 700", b"again"),
            _ => {}
        }
        encoder.end(Step::Between(before, id)).unwrap();
        before = id;
        ids.push(id);
    }
    (encoder.take(), ids)
}

fn decoded(packed: Packed<'_>, part: std::ops::Range<u32>, max_bytes: usize) -> Result<(Id, Block)> {
    let mut builder = BlockBuilder::default();
    let last = packed.decode(part, max_bytes, &mut builder)?;
    Ok((last, builder.finish()))
}

fn assert_same(one: &Block, other: &Block) {
    assert_eq!(one.len(), other.len());
    for row in 0..one.len() {
        assert_eq!(one.id(row), other.id(row));
        assert!(one.pairs(row).eq(other.pairs(row)), "row {row}");
    }
    assert!(one.tables.iter().map(|table| &table.shape).eq(other.tables.iter().map(|table| &table.shape)));
}

#[test]
fn any_part_is_decoded_from_marks_as_from_the_beginning() {
    for rows in [1, 256, 257, 1000, 1024] {
        let (payload, _) = packed(rows, 40);
        let marks = Marks::of(&payload, FIRST, rows).unwrap();
        assert_eq!(marks.marks.len() as u32, (rows - 1) / MARK_ROWS + 1);
        let plain = Packed { payload: &payload, first: FIRST, rows, marks: None };
        let marked = Packed { marks: Some(&marks), ..plain };
        for from in [0, 1, 254, 255, 256, 257, 258, 400, 511, 512, 513, 699, 701, 768, 999, 1000, 1023, 1024, 2000] {
            for to in [from, from + 1, from + 2, from + 255, from + 256, from + 257, rows, from / 2, u32::MAX] {
                for max_bytes in [1, 3000, usize::MAX] {
                    let (last, block) = decoded(plain, from..to, max_bytes).unwrap();
                    let (marked_last, marked_block) = decoded(marked, from..to, max_bytes).unwrap();
                    assert_eq!(last, marked_last, "{from}..{to} of {rows}");
                    assert_same(&block, &marked_block);
                }
            }
        }
    }
}

#[test]
fn any_id_is_found_from_marks_as_from_the_beginning() {
    let (payload, ids) = packed(1000, 3);
    let marks = Marks::of(&payload, FIRST, 1000).unwrap();
    let plain = Packed { payload: &payload, first: FIRST, rows: 1000, marks: None };
    let marked = Packed { marks: Some(&marks), ..plain };
    assert_eq!(last_id(&payload, FIRST, 1000), Ok(ids[999]));
    for id in &ids {
        for wanted in [id.prev().unwrap(), *id, id.next().unwrap()] {
            let row = ids.partition_point(|candidate| *candidate < wanted) as u32;
            assert_eq!((plain.lower_bound(wanted), marked.lower_bound(wanted)), (Ok(row), Ok(row)));
        }
    }
    assert_eq!((marked.lower_bound(Id::MIN), marked.lower_bound(Id::MAX)), (Ok(0), Ok(1000)));
}

#[test]
fn what_is_behind_the_rows_is_an_error_from_marks_as_from_the_beginning() {
    let (mut payload, _) = packed(1000, 3);
    let marks = Marks::of(&payload, FIRST, 1000).unwrap();
    payload.push(0);
    let plain = Packed { payload: &payload, first: FIRST, rows: 1000, marks: None };
    let marked = Packed { marks: Some(&marks), ..plain };
    for packed in [plain, marked] {
        assert!(decoded(packed, 900..999, usize::MAX).is_ok());
    }
    let error = decoded(plain, 900..1000, usize::MAX).unwrap_err();
    assert_eq!(decoded(marked, 900..1000, usize::MAX).unwrap_err(), error);
    assert_eq!((plain.lower_bound(Id::MAX), marked.lower_bound(Id::MAX)), (Err(error.clone()), Err(error)));
}

#[test]
fn other_bytes_behind_marks_are_an_error_wherever_they_are_read() {
    let (payload, ids) = packed(600, 1);
    let marks = Marks::of(&payload, FIRST, 600).unwrap();
    let plain = Packed { payload: &payload, first: FIRST, rows: 600, marks: None };
    let whole = [300..310, 500..520, 590..600].map(|part| (part.clone(), decoded(plain, part, usize::MAX).unwrap().1));
    for at in 0..payload.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bad = payload.clone();
            bad[at] ^= change;
            let marked = Packed { payload: &bad, first: FIRST, rows: 600, marks: Some(&marks) };
            for (part, whole) in &whole {
                if let Ok((_, block)) = decoded(marked, part.clone(), usize::MAX) {
                    assert_same(&block, whole);
                }
            }
            assert!(marked.lower_bound(ids[400]).is_err() || marked.lower_bound(ids[400]) == Ok(400));
            let is_read = (marks.marks[1].at..marks.marks[2].at).contains(&at);
            assert!(!is_read || decoded(marked, 500..501, usize::MAX).is_err());
        }
    }
    for cut in [0, marks.marks[1].at - 1, marks.marks[2].at - 1] {
        let marked = Packed { payload: &payload[..cut], first: FIRST, rows: 600, marks: Some(&marks) };
        assert!(decoded(marked, 599..600, usize::MAX).is_err());
        assert!(Marks::of(&payload[..cut], FIRST, 600).is_err());
    }
}

#[test]
fn marks_end_where_there_are_too_many_shapes_and_rows_behind_them_are_still_read() {
    let mut encoder = RowsEncoder::default();
    for row in 0..3000u32 {
        encoder.begin();
        encoder.field(format!("name {}", row % 2000).as_bytes(), row.to_string().as_bytes());
        encoder.end(Step::Next).unwrap();
    }
    let payload = encoder.take();
    let marks = Marks::of(&payload, FIRST, 3000).unwrap();
    assert_eq!((marks.marks.last().unwrap().row, marks.shapes.len()), (1024, MOST_SHAPES));
    let plain = Packed { payload: &payload, first: FIRST, rows: 3000, marks: None };
    let marked = Packed { marks: Some(&marks), ..plain };
    for part in [1000..1030, 1990..2010, 2900..3000] {
        let (last, block) = decoded(plain, part.clone(), usize::MAX).unwrap();
        let (marked_last, marked_block) = decoded(marked, part, usize::MAX).unwrap();
        assert_eq!(last, marked_last);
        assert_same(&block, &marked_block);
    }
}

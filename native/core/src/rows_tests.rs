//! Rows packed and unpacked: what comes back, and what is refused.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

#[test]
fn what_is_too_large_is_counted_and_not_copied() {
    let mut encoder = RowsEncoder::default();
    let value = vec![7; MAX_ENTRY_BYTES / 2];
    for times in 1..=4 {
        encoder.field(b"n", &value);
        assert_eq!(encoder.row_bytes(), times * (2 + 4 + value.len()));
    }
    assert!(encoder.values.len() < MAX_ENTRY_BYTES);
    let found = encoder.row_bytes() as u64;
    assert_eq!(encoder.end(Step::Next), Err(Error::Limit { what: "entry", limit: MAX_ENTRY_BYTES as u64, found }));
    encoder.begin();
    (0..2 * MAX_FIELDS).for_each(|_| encoder.field(b"n", b""));
    assert_eq!((encoder.fields(), encoder.lengths.len()), (2 * MAX_FIELDS, MAX_FIELDS));
    assert!(matches!(encoder.end(Step::Next), Err(Error::Limit { what: "fields of an entry", .. })));
    encoder.begin();
    encoder.field(b"n", b"v");
    encoder.end(Step::Next).unwrap();
    assert_eq!(encoder.payload(), [0, 1, 1, b'n', 1, b'v']);
}

#[test]
fn a_large_batch_leaves_no_large_buffers() {
    let mut encoder = RowsEncoder::default();
    encoder.field(b"n", &vec![7; MAX_KEPT_BYTES + 1]);
    encoder.end(Step::Next).unwrap();
    encoder.clear();
    assert_eq!((encoder.values.capacity(), encoder.out.capacity()), (0, 0));
}

#[test]
fn rows_come_back_with_their_ids_shapes_and_bytes() {
    let mut encoder = RowsEncoder::default();
    let rows: [(Id, &[(&str, &str)]); 4] = [
        (Id::new(5, 1), &[("a", "1"), ("b", "two")]),
        (Id::new(5, 9), &[("a", ""), ("b", "x")]),
        (Id::new(7, 3), &[("a", "1"), ("a", "2")]),
        (Id::new(7, 4), &[("a", "9"), ("b", "y")]),
    ];
    let mut before = Id::MIN;
    for (id, fields) in rows {
        encoder.begin();
        fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes()));
        encoder.end(Step::Between(before, id)).unwrap();
        before = id;
    }
    let mut builder = BlockBuilder::default();
    let last = decode(encoder.payload(), Id::new(5, 1), 4, 1..4, usize::MAX, &mut builder).unwrap();
    let block = builder.finish();
    assert_eq!(last, Id::new(7, 4));
    assert_eq!(last_id(encoder.payload(), Id::new(5, 1), 4).unwrap(), last);
    assert_eq!(block.len(), 3);
    for (row, (id, fields)) in rows.iter().skip(1).enumerate() {
        assert_eq!(block.id(row), Some(*id));
        let found: Vec<_> = block.pairs(row).collect();
        let wanted: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(found, wanted);
    }
}

#[test]
fn the_last_id_is_found_as_decoding_finds_it_whatever_the_rows_are_like() {
    // Numbers of one byte and of more in each place that a row has one.
    let steps = [(0, 0), (0, 127), (0, 128), (1, 0), (127, 127), (128, 5), (0, 1 << 40), (1 << 40, 0), (3, 1)];
    let sizes = [0, 1, 127, 128, 300];
    let mut encoder = RowsEncoder::default();
    let (mut before, mut ends) = (Id::new(5, 1), Vec::new());
    for (row, (ms, seq)) in (0..).zip(steps.iter().cycle().take(90)) {
        let id = if *ms == 0 { Id::new(before.ms, before.seq + 1 + seq) } else { Id::new(before.ms + ms, *seq) };
        encoder.begin();
        encoder.field(if row < 40 { b"a" } else { b"b" }, &vec![7; sizes[row % 5]]);
        (0..row % 3).for_each(|_| encoder.field(b"c", &vec![8; sizes[row / 5 % 5]]));
        encoder.end(Step::Between(before, id)).unwrap();
        before = if row == 0 { before } else { id };
        ends.push((encoder.payload().len(), before));
    }
    for (rows, (end, last)) in (1..).zip(&ends) {
        let payload = &encoder.payload()[..*end];
        let decoded = decode(payload, Id::new(5, 1), rows, 0..rows, usize::MAX, &mut BlockBuilder::default());
        assert_eq!((last_id(payload, Id::new(5, 1), rows), decoded), (Ok(*last), Ok(*last)));
        assert!(rows == 1 || last_id(&payload[..end - 1], Id::new(5, 1), rows + 1).is_err());
    }
    let top = Id::new(u64::MAX, u64::MAX - 1);
    let (next, over) = ([0, 1, 1, b'a', 0, 0, 0, 0, 0], [0, 1, 1, b'a', 0, 0, 1, 0, 0]);
    assert_eq!(last_id(&next, top, 2), Ok(Id::new(u64::MAX, u64::MAX)));
    assert!(last_id(&over, top, 2).is_err());
}

#[test]
fn many_shapes_are_told_apart_and_each_is_defined_once() {
    let mut encoder = RowsEncoder::default();
    for round in 0..2 {
        let mut size = encoder.payload().len();
        for number in 0..100 {
            encoder.begin();
            encoder.field(format!("name {number}").as_bytes(), b"");
            encoder.end(Step::Next).unwrap();
            let grown = encoder.payload().len() - std::mem::replace(&mut size, encoder.payload().len());
            assert_eq!(grown < 6, round == 1);
        }
    }
    let mut builder = BlockBuilder::default();
    decode(encoder.payload(), Id::MIN, 200, 0..200, usize::MAX, &mut builder).unwrap();
    let block = builder.finish();
    for row in 0..200 {
        let name = format!("name {}", row % 100);
        assert!(block.pairs(row).eq([(name.as_bytes(), &b""[..])]));
    }
}

#[test]
fn of_rows_that_are_stepped_over_no_shape_takes_room() {
    let mut encoder = RowsEncoder::default();
    let names: Vec<String> = (0..100).map(|number| format!("{number:0>200}")).collect();
    for (row, name) in names.iter().chain(names.iter().take(1)).enumerate() {
        encoder.begin();
        encoder.field(name.as_bytes(), b"v");
        encoder.end(Step::Between(Id::new(row as u64, 0), Id::new(row as u64 + 1, 0))).unwrap();
    }
    let mut builder = BlockBuilder::default();
    decode(encoder.payload(), Id::new(1, 0), 101, 50..101, 1000, &mut builder).unwrap();
    let block = builder.finish();
    assert_eq!(block.ids.first(), Some(Id::new(51, 0)));
    assert!((4..=6).contains(&block.ids.len()), "{}", block.ids.len());
    // A shape that was passed, and is met again.
    let mut builder = BlockBuilder::default();
    decode(encoder.payload(), Id::new(1, 0), 101, 100..101, usize::MAX, &mut builder).unwrap();
    let block = builder.finish();
    assert_eq!(block.pairs(0).collect::<Vec<_>>(), vec![(names[0].as_bytes(), &b"v"[..])]);
}

#[test]
fn every_cut_of_a_payload_is_an_error_and_never_a_panic() {
    let mut encoder = RowsEncoder::default();
    for _ in 0..3 {
        encoder.begin();
        encoder.field(b"name", b"value");
        encoder.end(Step::Next).unwrap();
    }
    for cut in 0..encoder.payload().len() {
        let mut builder = BlockBuilder::default();
        let payload = encoder.payload().get(..cut).unwrap();
        assert!(decode(payload, Id::MIN, 3, 0..3, usize::MAX, &mut builder).is_err());
        assert!(last_id(payload, Id::MIN, 3).is_err());
    }
}

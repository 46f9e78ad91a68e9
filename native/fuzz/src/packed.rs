//! Columns that a caller lends, and rows that were packed before.

use diskstream_core::block::BlockBuilder;
use diskstream_core::digest::Digest;
use diskstream_core::digest_rows::{Known, Misfit, Names, RowDigests, Texts};
use diskstream_core::id::Id;
use diskstream_core::packing::{pack_columns, pack_pairs, Bytes, Ids, Packed, Pairs};
use diskstream_core::resp_runs::{join, unpack};
use diskstream_core::rows;
use diskstream_core::staged;

use crate::input::Input;

fn column<'a>(input: &mut Input<'a>) -> Bytes<'a> {
    let flags = input.u8();
    let (base, first_bit) = (u64::from(input.u8() & 3), usize::from(input.u8()));
    let (offsets, data) = (input.counted(), input.counted());
    let validity = if flags & 2 > 0 { Some(input.counted()) } else { None };
    Bytes { offsets, wide: flags & 1 > 0, data, validity, base, first_bit }
}

fn check(frames: &[Packed], rows: usize) {
    assert_eq!(frames.iter().map(|packed| packed.rows as usize).sum::<usize>(), rows);
    for packed in frames {
        let first = packed.ids.map_or(Id::new(1, 0), |(first, _)| first);
        let mut builder = BlockBuilder::default();
        let last = rows::decode(&packed.payload, first, packed.rows, 0..packed.rows, usize::MAX, &mut builder).unwrap();
        assert!(packed.ids.is_none_or(|ids| ids == (first, last)));
        assert!(staged::decode(&staged::encode(packed)).unwrap() == *packed);
    }
}

pub fn packing(data: &[u8]) {
    let mut input = Input(data);
    let (kind, rows, limit) = (input.u8(), usize::from(input.u8()), usize::from(input.u16()));
    let (one, two, three) = (column(&mut input), column(&mut input), column(&mut input));
    let ids = match kind % 3 {
        0 => Ids::Automatic,
        1 => Ids::Words { ms: three.offsets, seq: three.data },
        _ => Ids::Text(three),
    };
    if let Ok(frames) = pack_columns(&[(b"a", one), (b"b", two)], rows, ids, limit) {
        check(&frames, rows);
    }
    let pairs = Pairs { bounds: input.0, names: one, values: two };
    if let Ok(frames) = pack_pairs(&pairs, rows, ids, limit) {
        check(&frames, rows);
    }
}

/// Bytes from a disk, and rows of any make on their way there: those that come back are the same.
pub fn stagings(data: &[u8]) {
    if let Ok(packed) = staged::decode(data) {
        assert!(packed.rows > 0 && packed.payload.len() < data.len());
    }
    let mut input = Input(data);
    let (has_ids, rows) = (input.u8() & 1 > 0, u32::from(input.u8()));
    let (first, last) =
        (Id::new(input.u16().into(), input.u8().into()), Id::new(input.u16().into(), input.u8().into()));
    let packed = Packed { payload: input.0.to_vec(), rows, ids: has_ids.then_some((first, last)) };
    match staged::decode(&staged::encode(&packed)) {
        Ok(again) => assert!(again == packed),
        Err(_) => assert!(rows == 0 || (has_ids && first > last)),
    }
}

pub fn runs(data: &[u8]) {
    let mut input = Input(data);
    let (limit, count) = (usize::from(input.u16()), u32::from(input.u8()));
    let one = Packed { payload: input.counted().to_vec(), rows: count, ids: None };
    let two = Packed { payload: input.0.to_vec(), rows: u32::from(input.u8()), ids: None };
    let words = |packed: &Packed| {
        let mut found: Vec<Vec<Vec<u8>>> = Vec::new();
        unpack(packed, |words| found.push(words.map(<[u8]>::to_vec).collect())).ok().map(|()| found)
    };
    let (first, second) = (words(&one), words(&two));
    let Ok(Some(joined)) = join([&one, &two].into_iter(), limit) else { return };
    let mut expected = first.unwrap();
    expected.extend(second.unwrap());
    assert_eq!(words(&joined), Some(expected));
}

fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().unwrap())).collect()
}

/// What a list of columns comes to, entry by entry.
fn entry_by_entry(ids: &[u64], bounds: &[i32], names: Names<'_>, values: Texts<'_>) -> [u64; 2] {
    let text =
        |texts: Texts<'_>, at: usize| texts.data[texts.offsets[at] as usize..texts.offsets[at + 1] as usize].to_vec();
    let name = |at: usize| match names {
        Names::Each(texts) => text(texts, at),
        Names::Among(places, texts) => text(texts, places[at] as usize),
    };
    let mut digest = Digest::default();
    for (row, id) in ids.iter().enumerate() {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            (bounds[row] as usize..bounds[row + 1] as usize).map(|at| (name(at), text(values, at))).collect();
        digest.add(Id::new(*id, *id), pairs.iter().map(|(name, value)| (&name[..], &value[..])));
    }
    digest.lanes
}

pub fn digests(data: &[u8]) {
    let mut input = Input(data);
    let (kind, first) = (input.u8(), usize::from(input.u8()));
    let ids = words(input.counted());
    let (bounds, name_ends, value_ends) = (ints(input.counted()), ints(input.counted()), ints(input.counted()));
    let (names, values, bits) = (input.counted(), input.counted(), input.counted());
    let (names, values) = (Texts { offsets: &name_ends, data: names }, Texts { offsets: &value_ends, data: values });
    let known = (kind & 1 > 0).then_some(Known { bits, first });
    let (numbers, places) = (words(input.0), ints(input.0));
    let names = if kind & 2 > 0 { Names::Among(&places, names) } else { Names::Each(names) };
    let mut listed = RowDigests::new(&ids, &ids).unwrap();
    if listed.lists(b"fields", None, &bounds, (names, values)) == Ok(()) {
        assert_eq!(listed.total(), entry_by_entry(&ids, &bounds, names, values));
    }
    let all = |rows: &mut RowDigests| -> Result<(), Misfit> {
        rows.texts(b"text", known, values)?;
        rows.numbers(b"number", known, &numbers)?;
        rows.decimals(b"decimal", known, &numbers)?;
        rows.lists(b"list", known, &bounds, (names, values))
    };
    let mut rows = RowDigests::new(&ids, &ids).unwrap();
    if all(&mut rows) == Ok(()) {
        let sums = rows.rows().map(|lane| lane.iter().fold(0u64, |sum, row| sum.wrapping_add(*row)));
        assert_eq!(sums, rows.total());
    }
}

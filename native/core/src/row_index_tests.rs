//! Large frames are gone through once, whoever reads them and however often.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::frame::{FrameSpec, FLAG_RECORDS, FRAME_HEADER_BYTES};
use crate::rows::{RowsEncoder, Step};

const SALT: u32 = 9;
const ENTRIES: u32 = 5000;

/// A file of entries frames with so many entries each, every one with its number in the file and `tag`.
fn file_of(frames: &[u32], tag: &str) -> (Vec<u8>, RowIndex) {
    let (mut file, mut index) = (Vec::new(), RowIndex::new(SALT));
    let (mut link, mut number, mut encoder) = (0, 0u64, RowsEncoder::default());
    for (entries, lsn) in frames.iter().zip(1..) {
        let first = id_of(number);
        for _ in 0..*entries {
            encoder.begin();
            encoder.field(b"n", number.to_string().as_bytes());
            encoder.field(b"tag", tag.as_bytes());
            encoder.end(Step::Between(id_of(number.saturating_sub(1)), id_of(number))).unwrap();
            number += 1;
        }
        let flags = if lsn % 2 == 0 { FLAG_RECORDS } else { 0 };
        let mut payload = encoder.take();
        if flags > 0 {
            payload.extend_from_slice(&[1, 2, 3, 3, 0, 0, 0]); // records are not looked into
        }
        let (kind, entries, previous_crc) = (Kind::Entries, *entries, link);
        let spec = FrameSpec { salt: SALT, kind, flags, entries, lsn, synced_lsn: 0, time_ms: 1, first, previous_crc };
        let offset = file.len() as u64;
        link = frame::encode(&mut file, &spec, &payload);
        index.note(&frame::parse_header(&file, offset, SALT, previous_crc).unwrap(), offset);
    }
    (file, index)
}

/// Every other ID is none.
fn id_of(number: u64) -> Id {
    Id::new(1 + number / 100, number % 100 * 2)
}

fn assert_read(index: &RowIndex, file: &[u8], from: u64, most: u64, tag: &str) {
    let block = index.read(file, from, file.len() as u64, most, usize::MAX).unwrap();
    assert_eq!(block.len() as u64, most.min(index.entries - from));
    for (row, number) in (0..block.len()).zip(from..) {
        assert_eq!(block.id(row), Some(id_of(number)));
        assert_eq!(block.value(row, b"n"), Some(number.to_string().as_bytes()));
        assert_eq!(block.value(row, b"tag"), Some(tag.as_bytes()));
    }
}

#[test]
fn large_frames_among_small_ones_are_read_and_searched_as_if_each_were_small() {
    let (file, index) = file_of(&[3, ENTRIES, 1, 200, ENTRIES, 2], "x");
    let end = file.len() as u64;
    for from in [0, 2, 3, 4, 258, 259, 260, 5001, 5002, 5003, 5004, 5100, 5203, 5204, 7000, 10_203, 10_205] {
        for most in [1, 100, 256, 6000] {
            assert_read(&index, &file, from, most, "x");
            assert_read(&index.part(from, most), &file, from, most, "x");
        }
    }
    for number in 0..index.entries {
        let between = id_of(number).next().unwrap();
        assert_eq!(index.seek(&file, id_of(number), end), Ok(number));
        assert_eq!(index.seek(&file, between, end), Ok(number + 1));
    }
    assert_eq!(index.known().len(), 2);
}

#[test]
fn a_payload_of_few_long_entries_is_large_too() {
    let (file, index) = file_of(&[3], &"x".repeat(100 << 10));
    for from in 0..3 {
        assert_read(&index, &file, from, 1, &"x".repeat(100 << 10));
    }
    assert_eq!(index.known().len(), 1);
}

#[test]
fn what_comes_before_a_mark_is_not_looked_at_again_by_any_copy() {
    let (mut file, index) = file_of(&[ENTRIES], "x");
    let copies = [index.clone(), index.part(4000, 100)];
    assert_read(&index, &file, 4000, 1, "x");
    // Behind the definition of the only shape, and before the last mark.
    let back = file.len() - 3000;
    file[FRAME_HEADER_BYTES + 100..back].fill(0xff);
    for index in [&index, &copies[0], &copies[1], &index.part(4990, 1)] {
        assert_read(index, &file, 4990, 1, "x");
        assert_eq!(index.seek(&file, id_of(4995), file.len() as u64), Ok(4995));
    }
    assert!(index.read(&file, 1000, file.len() as u64, 1, usize::MAX).is_err());
    // One who has no marks yet compares the checksum.
    let (_, fresh) = file_of(&[ENTRIES], "x");
    assert!(fresh.read(&file, 4990, file.len() as u64, 1, usize::MAX).is_err());
}

#[test]
fn a_damaged_payload_is_an_error_wherever_it_is_looked_into_first() {
    let (mut file, _) = file_of(&[ENTRIES], "x");
    file[FRAME_HEADER_BYTES + 20_000] ^= 1;
    for from in [0, 2000, 4999] {
        let (_, index) = file_of(&[ENTRIES], "x");
        assert!(index.read(&file, from, file.len() as u64, 1, usize::MAX).is_err());
        assert!(index.seek(&file, id_of(from.max(1)), file.len() as u64).is_err());
        assert!(index.known().is_empty());
    }
}

#[test]
fn a_frame_written_anew_at_the_same_offset_is_not_read_by_old_marks() {
    let (old, index) = file_of(&[ENTRIES], "x");
    assert_read(&index, &old, 4000, 10, "x");
    let (new, _) = file_of(&[ENTRIES], "longer");
    assert_read(&index, &new, 4000, 10, "longer");
    assert_eq!(index.seek(&new, id_of(4321), new.len() as u64), Ok(4321));
    assert_eq!(index.known().len(), 2);
}

#[test]
fn marks_are_used_on_though_one_died_with_their_lock() {
    let (file, index) = file_of(&[ENTRIES], "x");
    let copy = index.clone();
    let died = std::thread::spawn(move || {
        let _held = copy.marks.lock();
        panic!("with the lock");
    });
    assert!(died.join().is_err() && index.marks.is_poisoned());
    assert_read(&index, &file, 4000, 10, "x");
    assert_eq!(index.known().len(), 1);
}

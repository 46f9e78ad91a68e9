//! Headers, footers, frames: what stands at fixed places of files.

use diskstream_core::frame::{self, FrameHeader, FrameSpec};
use diskstream_core::header::{Frontier, LogHeader, MAGIC, SLOT_OFFSETS};
use diskstream_core::id::Id;
use diskstream_core::scan::examine;
use diskstream_core::sealed::{Footer, SegmentKey, FOOTER_BYTES};
use diskstream_core::sparse::{page_rows, Index, Pages, INDEX_ROW_BYTES, PAGE_ROW_BYTES};
use diskstream_core::wire::{put_narrow, put_varint, read_ends, read_narrow, Reader};

use crate::input::{put, sign, Input};

pub fn wire(data: &[u8]) {
    let mut input = Input(data);
    let count = usize::from(input.u16());
    let mut reader = Reader::new(input.0, "wire");
    let mut values = Vec::new();
    let mut ends = Vec::new();
    let end = read_ends(&mut Reader::new(input.0, "wire"), count, &mut ends);
    let is_read = read_narrow(&mut reader, count, |value| values.push(value)).is_ok();
    assert_eq!(end.is_ok(), is_read);
    if is_read {
        assert_eq!(values.len(), count);
        let mut sum = 0u64;
        let up_to = |value: &u64| {
            sum = sum.saturating_add(*value);
            sum as u32
        };
        assert!(values.iter().map(up_to).eq(ends));
        assert_eq!(end, Ok(sum));
        let mut out = Vec::new();
        put_narrow(&mut out, &values);
        let mut back = Vec::new();
        read_narrow(&mut Reader::new(&out, "wire"), count, |value| back.push(value)).unwrap();
        assert_eq!(back, values);
    }
    let mut reader = Reader::new(input.0, "wire");
    while let Ok(value) = reader.varint() {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        assert_eq!(Reader::new(&out, "wire").varint(), Ok(value));
    }
    let _ = Reader::new(input.0, "wire").count(count, "a count");
}

pub fn log_header(data: &[u8]) {
    let check = |bytes: &[u8]| {
        let Ok(header) = LogHeader::parse(bytes) else { return };
        if let Ok(frontier) = Frontier::read(bytes, header.salt) {
            let encoded = header.encode(frontier);
            assert_eq!(LogHeader::parse(&encoded).as_ref(), Ok(&header));
            assert_eq!(Frontier::read(&encoded, header.salt), Ok(frontier));
        }
    };
    check(data);
    let mut bytes = data.to_vec();
    put(&mut bytes, 0, MAGIC);
    sign(&mut bytes, 60);
    let salt = bytes.get(12..16).map_or([0; 4], |salt| salt.try_into().unwrap());
    for start in SLOT_OFFSETS.map(|offset| offset as usize) {
        put(&mut bytes, start + 32, &salt);
        if let Some(slot) = bytes.get_mut(start..start + 40) {
            sign(slot, 36);
        }
    }
    check(&bytes);
}

/// What a header says is what its encoder was told.
fn same_frame(header: &FrameHeader, payload: &[u8]) {
    let spec = FrameSpec {
        salt: header.salt,
        kind: header.kind,
        flags: header.flags,
        entries: header.entries,
        lsn: header.lsn,
        synced_lsn: header.synced_lsn,
        time_ms: header.time_ms,
        first: header.first,
        previous_crc: header.previous_crc,
    };
    let mut out = Vec::new();
    let link = frame::encode(&mut out, &spec, payload);
    let back = frame::parse_header(&out, 0, header.salt, header.previous_crc).unwrap();
    assert_eq!(FrameHeader { header_crc: header.header_crc, ..back }, *header);
    assert_eq!((back.header_crc, back.frame_bytes()), (link, out.len()));
    assert_eq!(frame::payload(&out, 0, &back), Ok(payload));
    if let Ok((rows, records)) = header.split(payload) {
        assert!(rows.len() + records.len() <= payload.len());
    }
}

pub fn frame(data: &[u8]) {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap()));
    let check = |bytes: &[u8]| {
        let (salt, link) = (word(bytes, 0), word(bytes, 28));
        if let Ok(header) = frame::parse_header(bytes, 0, salt, link) {
            if let Ok(payload) = frame::payload(bytes, 0, &header) {
                assert_eq!(frame::probe(bytes, 0, salt), Ok(header));
                same_frame(&header, payload);
            }
        }
        for (offset, lsn) in [(0, 0), (8, 2), (u64::MAX, 1), (data.len() as u64, u64::MAX)] {
            let _ = examine(bytes, offset, lsn, salt);
            let _ = frame::probe(bytes, offset, salt);
        }
    };
    check(data);
    let mut bytes = data.to_vec();
    let length = word(&bytes, 4) as usize;
    if let Some(payload) = bytes.get(64..).and_then(|rest| rest.get(..length)) {
        let crc = diskstream_core::checksum(payload);
        put(&mut bytes, 56, &crc.to_le_bytes());
    }
    sign(&mut bytes, 60);
    check(&bytes);
}

fn look_up(index: &Index<'_>, ids: &[Id]) {
    for number in 0..index.rows().min(64) {
        if let Ok(row) = index.row(number) {
            let mut out = Vec::new();
            row.put(&mut out);
            assert_eq!(out.len(), INDEX_ROW_BYTES);
        }
    }
    for id in ids {
        let found = [index.node_of_id(*id), index.node_of_position(id.ms)];
        assert!(found.into_iter().flatten().all(|node| node < index.rows().max(1)));
    }
    assert!(index.row(index.rows()).is_err());
    assert!(index.row(usize::MAX).is_err());
}

pub fn sealed(data: &[u8]) {
    let check = |bytes: &[u8]| {
        if let Ok(key) = SegmentKey::parse_header(bytes) {
            assert_eq!(SegmentKey::parse_header(&key.encode_header()), Ok(key));
        }
        let size = bytes.len() as u64;
        let end = &bytes[bytes.len().saturating_sub(FOOTER_BYTES)..];
        let Ok(footer) = Footer::parse(end, size) else { return };
        assert_eq!(Footer::parse(&footer.encode(), size), Ok(footer));
        let [pages_at, start] = [footer.pages_offset(), footer.index_offset].map(|at| usize::try_from(at).unwrap());
        let Ok(pages) = Pages::new(&bytes[pages_at..], &footer) else { return };
        let index = Index::new(&bytes[start..], &footer, &pages, None).unwrap();
        let _ = index.check();
        look_up(&index, &[Id::MIN, footer.first, footer.last, Id::MAX]);
        let rows = &bytes[start..][..footer.index_bytes()];
        let in_page = footer.page_rows as usize;
        if let Ok(made) = page_rows(rows, in_page) {
            let expected = if rows.len() > in_page.max(1) * INDEX_ROW_BYTES { footer.pages() } else { 0 };
            assert!(in_page == 0 || made.len() == expected * PAGE_ROW_BYTES);
        }
        assert!(
            Index::new(&bytes[start..start + footer.index_bytes().saturating_sub(1)], &footer, &pages, None).is_err()
                || footer.nodes == 0
        );
    };
    check(data);
    let mut bytes = data.to_vec();
    put(&mut bytes, 0, b"DSKSEG01");
    sign(&mut bytes, 60);
    check(&bytes);
    // The places of a footer that must agree with the file's size do, and its index is what stands before it.
    let size = bytes.len();
    if let Some(start) = size.checked_sub(FOOTER_BYTES) {
        let nodes = u32::from(bytes[start + 44]).min((start / INDEX_ROW_BYTES) as u32);
        let index = start - nodes as usize * INDEX_ROW_BYTES;
        let footer = &mut bytes[start..];
        put(footer, 0, b"DSKFOOT1");
        put(footer, 44, &nodes.to_le_bytes());
        put(footer, 104, &(index as u64).to_le_bytes());
        put(footer, 136, &(size as u64).to_le_bytes());
        sign(footer, FOOTER_BYTES - 4);
        check(&bytes);
    }
}

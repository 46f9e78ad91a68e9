//! The audit file of a sealed segment.

use diskstream_core::audit::{
    read_frames, read_names, AuditBuilder, AuditFooter, AuditKey, BlockHead, BLOCK_HEAD_BYTES, FOOTER_BYTES,
    HEADER_BYTES,
};
use diskstream_core::audit_rows::Names;
use diskstream_core::group_ops::Op;

use crate::input::{put, sign, Input};
use crate::states::comes_back;

const KEY: AuditKey = AuditKey { uuid: [4; 16], segment: 3, salt: 77 };

pub fn names(data: &[u8]) {
    comes_back(data, Names::read, Names::put);
    let _ = read_names(data);
}

fn frames(raw: &[u8], items: u32) -> Option<Vec<(u64, u64, Vec<Op>)>> {
    let mut found = Vec::new();
    let read = read_frames(raw, items, |lsn, time_ms, ops| {
        found.push((lsn, time_ms, ops));
        Ok(())
    });
    read.ok().map(|()| found)
}

/// Frames of a block, written to a file of their own and read back from it.
fn written(found: &[(u64, u64, Vec<Op>)]) {
    let mut file = Vec::new();
    let mut builder = AuditBuilder::new(KEY, 0, &mut file);
    for (lsn, time_ms, ops) in found {
        let mut records = Vec::new();
        ops.iter().for_each(|op| op.put(&mut records));
        if builder.push((*lsn, *time_ms), (ops, &records), &Names::default(), &mut file).is_err() {
            return;
        }
    }
    builder.finish(&mut file).unwrap();
    assert_eq!(AuditKey::parse_header(&file), Ok(KEY));
    let footer = AuditFooter::parse(&file[file.len() - FOOTER_BYTES..], file.len() as u64).unwrap();
    assert_eq!((footer.key, footer.frames), (KEY, found.len() as u64));
    let mut at = HEADER_BYTES;
    let mut back = Vec::new();
    for number in 0..footer.blocks {
        let head = BlockHead::parse(&file[at..], KEY.salt, number).unwrap();
        at += BLOCK_HEAD_BYTES;
        back.extend(frames(&head.unpack(&file[at..at + head.body_length]).unwrap(), head.items).unwrap());
        at += head.body_length;
    }
    assert_eq!(at as u64, footer.names_offset);
    assert_eq!(back, found);
}

fn block(bytes: &[u8], salt: u32, number: u32) {
    let Ok(head) = BlockHead::parse(bytes, salt, number) else { return };
    let body = &bytes[BLOCK_HEAD_BYTES..];
    let body = body.get(..head.body_length).unwrap_or(body);
    if let Ok(raw) = head.unpack(body) {
        assert_eq!(raw.len(), head.raw_length);
        if let Some(found) = frames(&raw, head.items) {
            written(&found);
        }
    }
}

pub fn audit(data: &[u8]) {
    let mut input = Input(data);
    let (salt, number) = (input.u32(), input.u32());
    for magic in [&data[..data.len().min(8)], b"DSKAUD01"] {
        let mut bytes = data.to_vec();
        put(&mut bytes, 0, magic);
        let _ = AuditKey::parse_header(&bytes);
        sign(&mut bytes, HEADER_BYTES - 4);
        let _ = AuditKey::parse_header(&bytes);
    }
    let mut bytes = data.to_vec();
    put(&mut bytes, 0, b"DSKAEND1");
    put(&mut bytes, 104, &(data.len() as u64).to_le_bytes());
    sign(&mut bytes, FOOTER_BYTES - 4);
    let _ = AuditFooter::parse(&bytes, data.len() as u64);
    let _ = AuditFooter::parse(data, u64::MAX);
    block(data, salt, number);
    let mut bytes = data.to_vec();
    if let Some(body) = bytes.get(BLOCK_HEAD_BYTES..) {
        let (length, crc) = (body.len() as u32, diskstream_core::checksum(body));
        put(&mut bytes, 16, &length.to_le_bytes());
        put(&mut bytes, 40, &crc.to_le_bytes());
        sign(&mut bytes, BLOCK_HEAD_BYTES - 4);
        block(&bytes, salt, number);
        // The same bytes as they are, without a codec.
        put(&mut bytes, 12, &length.to_le_bytes());
        put(&mut bytes, 20, &[0]);
        sign(&mut bytes, BLOCK_HEAD_BYTES - 4);
        block(&bytes, salt, number);
    }
}

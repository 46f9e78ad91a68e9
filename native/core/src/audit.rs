//! The audit file of a sealed segment: the frames of groups that stood in its log, kept for who asks later.
//!
//! ```text
//! file := header block{blocks} names footer            names is a block too, numbered `blocks`
//!
//! header (64)                        block head (48)                     footer (128)
//!    0  magic "DSKAUD01"    8          0  salt                  u32         0  magic "DSKAEND1"     8
//!    8  format version      u32        4  number of the block   u32         8  format version       u32
//!   12  salt                u32        8  items                 u32        12  salt                 u32
//!   16  stream uuid         16        12  length of raw         u32        16  stream uuid          16
//!   32  segment number      u64       16  length of body        u32        32  segment number       u64
//!   40  zero                20        20  codec: 0 plain, 1 zstd u8        40  blocks               u32
//!   60  CRC32C of 0..60     u32       21  zero                  3          44  zero                 4
//!                                     24  least time, ms        u64        48  frames               u64
//! raw  := frame{items}                32  greatest time, ms     u64        56  records              u64
//! frame := varint(LSN - LSN before)   40  CRC32C of the body    u32        64  first LSN            u64
//!          zigzag(time - time before) 44  CRC32C of 0..44       u32        72  last LSN             u64
//!          varint(length) records     48  body                             80  least time, ms       u64
//! raw of names := see audit_rows.rs                                        88  greatest time, ms    u64
//!                                                                          96  offset of names      u64
//! Both differences are taken from 0 in the first frame of a block.        104  file length          u64
//! Records are those of group_ops.rs, as they stood in the log.            112  zero                 12
//!                                                                         124  CRC32C of 0..124     u32
//! ```
//! It is no part of a stream's state: a stream whose audit files are gone or damaged is as readable as before.

use crate::audit_rows::{rows_of, Names};
use crate::error::{Error, Result};
use crate::group_ops::{read_ops, Op};
use crate::pending::{unzigzag, zigzag};
use crate::plurals::number_of;
use crate::whose::{check, put_whose, read_whose};
use crate::wire::{put_u32, put_u64, put_varint, Reader};
use crate::{checksum, zstd_could_unpack, CODEC_PLAIN, CODEC_ZSTD};

pub const HEADER_BYTES: usize = 64;
pub const BLOCK_HEAD_BYTES: usize = 48;
pub const FOOTER_BYTES: usize = 128;
const HEADER_MAGIC: &[u8; 8] = b"DSKAUD01";
const FOOTER_MAGIC: &[u8; 8] = b"DSKAEND1";
/// A block is closed when its raw bytes reach this: what a look into a span of time unpacks at least.
const BLOCK_RAW_BYTES: usize = 256 << 10;
/// All names of a stream fit well below it.
pub const MAX_BLOCK_RAW_BYTES: usize = 1 << 30;
/// Of a block of frames: one frame of 64 MiB behind a block that is nearly full. Records take many times that in memory.
pub const MAX_FRAMES_RAW_BYTES: usize = 65 << 20;

/// Which segment of which stream an audit file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditKey {
    pub uuid: [u8; 16],
    pub segment: u64,
    pub salt: u32,
}

impl AuditKey {
    fn put(&self, out: &mut Vec<u8>, magic: &[u8; 8]) {
        put_whose(out, magic, self.salt, &self.uuid);
        put_u64(out, self.segment);
    }

    fn parse(reader: &mut Reader<'_>, magic: &[u8; 8], what: &'static str) -> Result<AuditKey> {
        let (salt, uuid) = read_whose(reader, magic, what)?;
        Ok(AuditKey { uuid, segment: reader.u64()?, salt })
    }

    /// Parses and checks the header of an audit file.
    pub fn parse_header(bytes: &[u8]) -> Result<AuditKey> {
        check(bytes, HEADER_BYTES, "audit header")?;
        AuditKey::parse(&mut Reader::new(bytes, "audit header"), HEADER_MAGIC, "audit header")
    }
}

fn put_crc(out: &mut Vec<u8>, start: usize) {
    let crc = checksum(out.get(start..).unwrap_or(&[]));
    put_u32(out, crc);
}

/// What the end of an audit file says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditFooter {
    pub key: AuditKey,
    pub blocks: u32,
    pub frames: u64,
    pub records: u64,
    pub lsns: (u64, u64),
    pub times_ms: (u64, u64),
    pub names_offset: u64,
    pub file_length: u64,
}

impl AuditFooter {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.key.put(out, FOOTER_MAGIC);
        put_u32(out, self.blocks);
        put_u32(out, 0);
        for value in [
            self.frames,
            self.records,
            self.lsns.0,
            self.lsns.1,
            self.times_ms.0,
            self.times_ms.1,
            self.names_offset,
            self.file_length,
        ] {
            put_u64(out, value);
        }
        out.resize(start + FOOTER_BYTES - 4, 0);
        put_crc(out, start);
    }

    /// Parses and checks the footer of a file of `size` bytes.
    pub fn parse(bytes: &[u8], size: u64) -> Result<AuditFooter> {
        check(bytes, FOOTER_BYTES, "audit footer")?;
        let mut reader = Reader::new(bytes, "audit footer");
        let key = AuditKey::parse(&mut reader, FOOTER_MAGIC, "audit footer")?;
        let blocks = reader.u32()?;
        reader.u32()?;
        let footer = AuditFooter {
            key,
            blocks,
            frames: reader.u64()?,
            records: reader.u64()?,
            lsns: (reader.u64()?, reader.u64()?),
            times_ms: (reader.u64()?, reader.u64()?),
            names_offset: reader.u64()?,
            file_length: reader.u64()?,
        };
        let room = size.checked_sub((BLOCK_HEAD_BYTES + FOOTER_BYTES) as u64);
        let fits = room.is_some_and(|room| (HEADER_BYTES as u64..=room).contains(&footer.names_offset));
        if footer.file_length != size || !fits {
            return Err(Error::corrupt(
                "audit footer",
                104,
                format!("a file of {}", number_of(footer.file_length, "byte")),
                size,
            ));
        }
        Ok(footer)
    }
}

/// What stands before the body of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    pub items: u32,
    pub raw_length: usize,
    pub body_length: usize,
    pub times_ms: (u64, u64),
    codec: u8,
    body_crc: u32,
}

impl BlockHead {
    /// Parses and checks the head of block `number` of a file with this salt.
    pub fn parse(bytes: &[u8], salt: u32, number: u32) -> Result<BlockHead> {
        check(bytes, BLOCK_HEAD_BYTES, "audit block head")?;
        let mut reader = Reader::new(bytes, "audit block head");
        let found = (reader.u32()?, reader.u32()?);
        if found != (salt, number) {
            let expected = format!("block {number} of the file with salt {salt:08x}");
            return Err(Error::corrupt("audit block", 0, expected, format!("block {} of {:08x}", found.1, found.0)));
        }
        let (items, raw_length, body_length) = (reader.u32()?, reader.u32()? as usize, reader.u32()? as usize);
        let codec = reader.u8()?;
        reader.take(3)?;
        let times_ms = (reader.u64()?, reader.u64()?);
        if codec > CODEC_ZSTD {
            return Err(Error::Newer {
                what: "audit block codec",
                supported: u32::from(CODEC_ZSTD),
                found: codec.into(),
            });
        }
        let most = if items == 0 { MAX_BLOCK_RAW_BYTES } else { MAX_FRAMES_RAW_BYTES };
        if raw_length > most || body_length > raw_length || items as usize > raw_length {
            let found = format!(
                "{}, {raw_length} and {}",
                number_of(items.into(), "item"),
                number_of(body_length as u64, "byte")
            );
            return Err(Error::corrupt("audit block", 8, "sizes within the limits", found));
        }
        Ok(BlockHead { items, raw_length, body_length, times_ms, codec, body_crc: reader.u32()? })
    }

    /// The checked contents of the block.
    pub fn unpack(&self, body: &[u8]) -> Result<Vec<u8>> {
        let crc = checksum(body);
        if crc != self.body_crc {
            let expected = format!("checksum {:08x}", self.body_crc);
            return Err(Error::corrupt("audit block body", BLOCK_HEAD_BYTES as u64, expected, format!("{crc:08x}")));
        }
        let raw = match self.codec {
            CODEC_PLAIN => body.to_vec(),
            _ if !zstd_could_unpack(body.len(), self.raw_length) => {
                let found = format!("{} out of {}", number_of(self.raw_length as u64, "byte"), body.len());
                return Err(Error::corrupt("audit block", 12, "sizes that fit together", found));
            }
            _ => zstd::bulk::decompress(body, self.raw_length)
                .map_err(|error| Error::corrupt("audit block body", BLOCK_HEAD_BYTES as u64, "zstd data", error))?,
        };
        if raw.len() != self.raw_length {
            let expected = number_of(self.raw_length as u64, "byte");
            return Err(Error::corrupt("audit block body", BLOCK_HEAD_BYTES as u64, expected, raw.len()));
        }
        Ok(raw)
    }
}

/// The frames of a block's contents: `(LSN, time, records)` is given to `each`.
pub fn read_frames(raw: &[u8], items: u32, mut each: impl FnMut(u64, u64, Vec<Op>) -> Result<()>) -> Result<()> {
    let mut reader = Reader::new(raw, "audit block contents");
    let (mut lsn, mut time_ms) = (0u64, 0u64);
    for _ in 0..items {
        let step = reader.varint()?;
        if step == 0 {
            return Err(reader.fault("a frame behind the one before", lsn));
        }
        lsn = lsn.checked_add(step).ok_or_else(|| reader.fault("a sequence number of 64 bits", step))?;
        time_ms = unzigzag(reader.varint()?, time_ms);
        let length = reader.count(reader.remaining(), "the length of records")?;
        let records = read_ops(reader.take(length)?)?;
        each(lsn, time_ms, records)?;
    }
    reader.end()
}

/// The names at the end of a file.
pub fn read_names(raw: &[u8]) -> Result<Names> {
    let mut reader = Reader::new(raw, "names of an audit file");
    let names = Names::read(&mut reader)?;
    reader.end()?;
    Ok(names)
}

/// Makes an audit file of frames, which must come in order.
pub struct AuditBuilder {
    level: i32,
    footer: AuditFooter,
    names: Names,
    raw: Vec<u8>,
    items: u32,
    before: (u64, u64),
    span: (u64, u64),
    /// Bytes made so far.
    length: u64,
}

const NO_TIME: (u64, u64) = (u64::MAX, 0);

fn widen(span: &mut (u64, u64), time_ms: u64) {
    *span = (span.0.min(time_ms), span.1.max(time_ms));
}

impl AuditBuilder {
    /// `level` is zstd's; 0 stores plain bytes. The header is appended to `out`.
    pub fn new(key: AuditKey, level: i32, out: &mut Vec<u8>) -> AuditBuilder {
        let start = out.len();
        key.put(out, HEADER_MAGIC);
        out.resize(start + HEADER_BYTES - 4, 0);
        put_crc(out, start);
        let footer = AuditFooter {
            key,
            blocks: 0,
            frames: 0,
            records: 0,
            lsns: (0, 0),
            times_ms: NO_TIME,
            names_offset: 0,
            file_length: 0,
        };
        let (names, raw, length) = (Names::default(), Vec::new(), HEADER_BYTES as u64);
        AuditBuilder { level, footer, names, raw, items: 0, before: (0, 0), span: NO_TIME, length }
    }

    /// Takes a frame; `all` are the names as they are known behind it. Appends a block to `out` when one is full.
    pub fn push(
        &mut self,
        (lsn, time_ms): (u64, u64),
        (ops, records): (&[Op], &[u8]),
        all: &Names,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if lsn <= self.footer.lsns.1 {
            return Err(Error::Invalid("frames of an audit file must come in order"));
        }
        rows_of(ops, |row| self.names.take(all, &row))?;
        put_varint(&mut self.raw, lsn - self.before.0);
        put_varint(&mut self.raw, zigzag(time_ms, self.before.1));
        put_varint(&mut self.raw, records.len() as u64);
        self.raw.extend_from_slice(records);
        self.before = (lsn, time_ms);
        self.items += 1;
        widen(&mut self.span, time_ms);
        let footer = &mut self.footer;
        widen(&mut footer.times_ms, time_ms);
        footer.lsns = (if footer.frames == 0 { lsn } else { footer.lsns.0 }, lsn);
        footer.frames += 1;
        footer.records += ops.len() as u64;
        if self.raw.len() >= BLOCK_RAW_BYTES {
            self.close_block(out)?;
        }
        Ok(())
    }

    fn close_block(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let raw = std::mem::take(&mut self.raw);
        self.put_block(out, &raw, self.items, self.span)?;
        self.footer.blocks += 1;
        (self.items, self.before, self.span) = (0, (0, 0), NO_TIME);
        Ok(())
    }

    fn put_block(&mut self, out: &mut Vec<u8>, raw: &[u8], items: u32, span: (u64, u64)) -> Result<()> {
        if raw.len() > MAX_BLOCK_RAW_BYTES {
            return Err(Error::Limit {
                what: "audit block",
                limit: MAX_BLOCK_RAW_BYTES as u64,
                found: raw.len() as u64,
            });
        }
        let packed = if self.level == 0 { None } else { zstd::bulk::compress(raw, self.level).ok() };
        let (codec, body) = match &packed {
            Some(packed) if packed.len() < raw.len() => (CODEC_ZSTD, packed.as_slice()),
            _ => (CODEC_PLAIN, raw),
        };
        let start = out.len();
        for value in [self.footer.key.salt, self.footer.blocks, items, raw.len() as u32, body.len() as u32] {
            put_u32(out, value);
        }
        out.extend_from_slice(&[codec, 0, 0, 0]);
        put_u64(out, span.0);
        put_u64(out, span.1);
        put_u32(out, checksum(body));
        put_crc(out, start);
        out.extend_from_slice(body);
        self.length += (BLOCK_HEAD_BYTES + body.len()) as u64;
        Ok(())
    }

    /// Appends what is left: the last block, the names, the footer.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.items > 0 {
            self.close_block(out)?;
        }
        let mut raw = Vec::new();
        self.names.put(&mut raw);
        self.footer.names_offset = self.length;
        self.put_block(out, &raw, 0, (0, 0))?;
        self.footer.file_length = self.length + FOOTER_BYTES as u64;
        self.footer.put(out);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::id::Id;

    fn file() -> (Vec<u8>, Vec<Vec<Op>>) {
        let create = vec![Op::Create { group: 1, name: b"g".to_vec(), last: Id::MIN, read: None }];
        let ack = vec![Op::End { group: 1, ids: vec![(Id::new(5, 0), Some(1))] }];
        let mut names = Names::default();
        let mut out = Vec::new();
        let mut builder = AuditBuilder::new(AuditKey { uuid: [7; 16], segment: 3, salt: 9 }, 3, &mut out);
        for (lsn, ops) in [(4, &create), (9, &ack)] {
            let mut records = Vec::new();
            ops.iter().for_each(|op| op.put(&mut records));
            ops.iter().for_each(|op| names.learn(op));
            builder.push((lsn, 1000 - lsn), (ops, &records), &names, &mut out).unwrap();
        }
        builder.finish(&mut out).unwrap();
        (out, vec![create, ack])
    }

    fn read(bytes: &[u8]) -> Result<(Names, Vec<Vec<Op>>)> {
        let key = AuditKey::parse_header(bytes)?;
        let footer_at = bytes.len().saturating_sub(FOOTER_BYTES);
        let footer = AuditFooter::parse(bytes.get(footer_at..).unwrap_or(&[]), bytes.len() as u64)?;
        assert_eq!((footer.key, footer.blocks, footer.frames, footer.lsns), (key, 1, 2, (4, 9)));
        assert_eq!(footer.times_ms, (991, 996));
        let block = |at: usize, number| {
            let head = BlockHead::parse(bytes.get(at..).unwrap_or(&[]), key.salt, number)?;
            let start = at + BLOCK_HEAD_BYTES;
            Ok::<_, Error>((head, head.unpack(bytes.get(start..start + head.body_length).unwrap_or(&[]))?))
        };
        let (head, raw) = block(HEADER_BYTES, 0)?;
        let mut found = Vec::new();
        read_frames(&raw, head.items, |_, _, ops| {
            found.push(ops);
            Ok(())
        })?;
        Ok((read_names(&block(footer.names_offset as usize, 1)?.1)?, found))
    }

    #[test]
    fn frames_and_names_come_back() {
        let (bytes, ops) = file();
        let (names, found) = read(&bytes).unwrap();
        assert_eq!(found, ops);
        assert_eq!(names.group(1), b"g");
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let (bytes, _) = file();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_block_of_frames_is_no_larger_than_one_large_frame_makes_it() {
        let parsed = |items: u32, raw_bytes: usize| {
            let mut out = Vec::new();
            [9, 0, items, raw_bytes as u32, 5].into_iter().for_each(|word| put_u32(&mut out, word));
            out.extend_from_slice(&[CODEC_ZSTD, 0, 0, 0]);
            out.resize(BLOCK_HEAD_BYTES - 4, 0);
            put_crc(&mut out, 0);
            BlockHead::parse(&out, 9, 0).is_ok()
        };
        assert!(parsed(1, MAX_FRAMES_RAW_BYTES) && !parsed(1, MAX_FRAMES_RAW_BYTES + 1));
        assert!(parsed(0, MAX_BLOCK_RAW_BYTES) && !parsed(0, MAX_BLOCK_RAW_BYTES + 1));
    }
}

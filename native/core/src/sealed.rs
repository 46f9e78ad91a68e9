//! Sealed segments: header, nodes, a copy of the successor's snapshot frame, the sparse index (see `sparse`), the footer.
//!
//! ```text
//! segment := header node* snapshot-frame? page-row* index-row* footer
//!
//! header (64)                             footer (192)
//!    0  magic "DSKSEG01"     8               0  magic "DSKFOOT1"   8       104  index offset       u64
//!    8  format version       u32             8  format version     u32     112  CRC32C of index    u32
//!   12  salt                 u32            12  salt               u32     116  CRC32C of snapshot u32
//!   16  stream uuid          16             16  stream uuid        16      120  snapshot offset    u64
//!   32  segment number       u64            32  segment number     u64     128  snapshot length    u64
//!   40  generation           u32            40  generation         u32     136  file length        u64
//!   44  zero                 16             44  nodes              u32     144  raw bytes          u64
//!   60  CRC32C of 0..60      u32            48  entries            u64     152  index rows a page  u32
//!                                           56  first ID           16      156  CRC32C of pages    u32
//!                                           72  last ID            16      160  zero               28
//!                                           88  least append time  u64     188  CRC32C of 0..188   u32
//!                                           96  greatest           u64
//! ```
//!
//! The index offset is that of the first index row. A file from before there were page rows has zeros from 152 on.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::plurals::number_of;
use crate::sparse::{INDEX_ROW_BYTES, PAGE_ROW_BYTES};
use crate::whose::{check, put_whose, read_whose};
use crate::wire::{put_id, put_u32, put_u64, Reader};

pub const SEGMENT_HEADER_BYTES: usize = 64;
pub const FOOTER_BYTES: usize = 192;
const HEADER_MAGIC: &[u8; 8] = b"DSKSEG01";
const FOOTER_MAGIC: &[u8; 8] = b"DSKFOOT1";

/// Which segment of which stream a sealed file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentKey {
    pub uuid: [u8; 16],
    pub segment: u64,
    pub generation: u32,
    pub salt: u32,
}

impl SegmentKey {
    pub fn encode_header(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        self.put(&mut out, HEADER_MAGIC);
        out.resize(60, 0);
        let crc = crc32c::crc32c(&out);
        put_u32(&mut out, crc);
        out
    }

    fn put(&self, out: &mut Vec<u8>, magic: &[u8; 8]) {
        put_whose(out, magic, self.salt, &self.uuid);
        put_u64(out, self.segment);
        put_u32(out, self.generation);
    }

    fn parse(reader: &mut Reader<'_>, magic: &[u8; 8], what: &'static str) -> Result<SegmentKey> {
        let (salt, uuid) = read_whose(reader, magic, what)?;
        Ok(SegmentKey { uuid, segment: reader.u64()?, generation: reader.u32()?, salt })
    }

    /// Parses and checks the header of a sealed file.
    pub fn parse_header(bytes: &[u8]) -> Result<SegmentKey> {
        check(bytes, SEGMENT_HEADER_BYTES, "segment header")?;
        SegmentKey::parse(&mut Reader::new(bytes, "segment header"), HEADER_MAGIC, "segment header")
    }
}

/// The footer: totals of the segment, and where everything stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    pub key: SegmentKey,
    pub nodes: u32,
    pub entries: u64,
    pub first: Id,
    pub last: Id,
    pub min_time_ms: u64,
    pub max_time_ms: u64,
    pub index_offset: u64,
    pub index_crc: u32,
    pub snapshot_crc: u32,
    pub snapshot_offset: u64,
    pub snapshot_length: u64,
    pub file_length: u64,
    pub raw_bytes: u64,
    /// Index rows in a page; 0 where the index has no pages.
    pub page_rows: u32,
    pub pages_crc: u32,
}

impl Footer {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        self.key.put(&mut out, FOOTER_MAGIC);
        put_u32(&mut out, self.nodes);
        put_u64(&mut out, self.entries);
        put_id(&mut out, self.first);
        put_id(&mut out, self.last);
        put_u64(&mut out, self.min_time_ms);
        put_u64(&mut out, self.max_time_ms);
        put_u64(&mut out, self.index_offset);
        put_u32(&mut out, self.index_crc);
        put_u32(&mut out, self.snapshot_crc);
        put_u64(&mut out, self.snapshot_offset);
        put_u64(&mut out, self.snapshot_length);
        put_u64(&mut out, self.file_length);
        put_u64(&mut out, self.raw_bytes);
        put_u32(&mut out, self.page_rows);
        put_u32(&mut out, self.pages_crc);
        out.resize(FOOTER_BYTES - 4, 0);
        let crc = crc32c::crc32c(&out);
        put_u32(&mut out, crc);
        out
    }

    /// Parses the last 192 bytes of a file of `file_length` bytes.
    pub fn parse(bytes: &[u8], file_length: u64) -> Result<Footer> {
        let base = file_length.saturating_sub(FOOTER_BYTES as u64);
        Self::parse_checked(bytes, file_length).map_err(|error| error.at(base))
    }

    fn parse_checked(bytes: &[u8], file_length: u64) -> Result<Footer> {
        check(bytes, FOOTER_BYTES, "segment footer")?;
        let mut reader = Reader::new(bytes, "segment footer");
        let key = SegmentKey::parse(&mut reader, FOOTER_MAGIC, "segment footer")?;
        let footer = Footer {
            key,
            nodes: reader.u32()?,
            entries: reader.u64()?,
            first: reader.id()?,
            last: reader.id()?,
            min_time_ms: reader.u64()?,
            max_time_ms: reader.u64()?,
            index_offset: reader.u64()?,
            index_crc: reader.u32()?,
            snapshot_crc: reader.u32()?,
            snapshot_offset: reader.u64()?,
            snapshot_length: reader.u64()?,
            file_length: reader.u64()?,
            raw_bytes: reader.u64()?,
            page_rows: reader.u32()?,
            pages_crc: reader.u32()?,
        };
        let index_end = footer.index_offset.checked_add(u64::from(footer.nodes) * INDEX_ROW_BYTES as u64);
        if footer.file_length != file_length || index_end != file_length.checked_sub(FOOTER_BYTES as u64) {
            let expected = format!("a file of {} that ends with its index", number_of(footer.file_length, "byte"));
            return Err(Error::corrupt("segment footer", 104, expected, number_of(file_length, "byte")));
        }
        if footer.pages_bytes() as u64 > footer.index_offset {
            return Err(Error::corrupt("segment footer", 152, "pages that fit before the index", footer.page_rows));
        }
        Ok(footer)
    }

    /// Page rows before the index.
    pub fn pages(&self) -> usize {
        if self.page_rows == 0 {
            return 0;
        }
        self.nodes.div_ceil(self.page_rows) as usize
    }

    /// Where the page rows begin; the index itself where it has none.
    pub fn pages_offset(&self) -> u64 {
        self.index_offset.saturating_sub(self.pages_bytes() as u64)
    }

    pub fn pages_bytes(&self) -> usize {
        self.pages() * PAGE_ROW_BYTES
    }

    pub fn index_bytes(&self) -> usize {
        self.nodes as usize * INDEX_ROW_BYTES
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn key() -> SegmentKey {
        SegmentKey { uuid: [1; 16], segment: 4, generation: 2, salt: 77 }
    }

    #[test]
    fn headers_and_footers_come_back_and_flipped_bits_are_seen() {
        let header = key().encode_header();
        assert_eq!(SegmentKey::parse_header(&header).unwrap(), key());
        let footer = Footer {
            key: key(),
            nodes: 2,
            entries: 30,
            first: Id::new(1, 1),
            last: Id::new(9, 9),
            min_time_ms: 3,
            max_time_ms: 4,
            index_offset: 1000,
            index_crc: 5,
            snapshot_crc: 6,
            snapshot_offset: 900,
            snapshot_length: 100,
            file_length: 1000 + 80 + 192,
            raw_bytes: 12,
            page_rows: 1,
            pages_crc: 7,
        };
        let bytes = footer.encode();
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::parse(&bytes, footer.file_length).unwrap(), footer);
        assert!(Footer::parse(&bytes, footer.file_length - 1).is_err());
        for bit in 0..FOOTER_BYTES * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::parse(&bad, footer.file_length).is_err());
        }
    }
}

//! Sealed segments: header, nodes, a copy of the successor's snapshot frame, the sparse index, the footer.
//!
//! ```text
//! segment := header node* snapshot-frame? index-row* footer
//!
//! header (64)                             footer (192)
//!    0  magic "DSKSEG01"     8               0  magic "DSKFOOT1"   8       104  index offset       u64
//!    8  format version       u32             8  format version     u32     112  CRC32C of index    u32
//!   12  salt                 u32            12  salt               u32     116  CRC32C of snapshot u32
//!   16  stream uuid          16             16  stream uuid        16      120  snapshot offset    u64
//!   32  segment number       u64            32  segment number     u64     128  snapshot length    u64
//!   40  generation           u32            40  generation         u32     136  file length        u64
//!   44  zero                 16             44  nodes              u32     144  raw bytes          u64
//!   60  CRC32C of 0..60      u32            48  entries            u64     152  zero               36
//!                                           56  first ID           16      188  CRC32C of 0..188   u32
//! index-row (40)                            72  last ID            16
//!    0  first ID             16             88  least append time  u64
//!   16  offset of the node   u64            96  greatest           u64
//!   24  entries before it    u64
//!   32  length of the node   u32
//!   36  entries in it        u32
//! ```

use crate::error::{Error, Result};
use crate::id::Id;
use crate::node::{MAX_NODE_ENTRIES, MAX_NODE_RAW_BYTES, NODE_HEAD_BYTES};
use crate::wire::{put_id, put_u32, put_u64, Reader};
use crate::FORMAT_VERSION;

pub const SEGMENT_HEADER_BYTES: usize = 64;
pub const FOOTER_BYTES: usize = 192;
pub const INDEX_ROW_BYTES: usize = 40;
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
        out.extend_from_slice(magic);
        put_u32(out, FORMAT_VERSION);
        put_u32(out, self.salt);
        out.extend_from_slice(&self.uuid);
        put_u64(out, self.segment);
        put_u32(out, self.generation);
    }

    fn parse(reader: &mut Reader<'_>, magic: &[u8; 8], what: &'static str) -> Result<SegmentKey> {
        let found = reader.take(8)?;
        if found != magic {
            return Err(Error::corrupt(what, 0, format!("the magic {magic:02x?}"), format!("{found:02x?}")));
        }
        let version = reader.u32()?;
        if version > FORMAT_VERSION {
            return Err(Error::Newer { what, supported: FORMAT_VERSION, found: version });
        }
        let salt = reader.u32()?;
        let mut uuid = [0u8; 16];
        uuid.copy_from_slice(reader.take(16)?);
        Ok(SegmentKey { uuid, segment: reader.u64()?, generation: reader.u32()?, salt })
    }

    /// Parses and checks the header of a sealed file.
    pub fn parse_header(bytes: &[u8]) -> Result<SegmentKey> {
        check(bytes, SEGMENT_HEADER_BYTES, "segment header")?;
        SegmentKey::parse(&mut Reader::new(bytes, "segment header"), HEADER_MAGIC, "segment header")
    }
}

/// The last four of `size` bytes must be the checksum of the rest.
fn check(bytes: &[u8], size: usize, what: &'static str) -> Result<()> {
    let (body, stored) = bytes
        .get(..size)
        .and_then(|bytes| bytes.split_at_checked(size - 4))
        .ok_or_else(|| Error::corrupt(what, 0, format!("{size} bytes"), bytes.len()))?;
    let stored = Reader::new(stored, what).u32()?;
    let crc = crc32c::crc32c(body);
    if crc != stored {
        return Err(Error::corrupt(what, (size - 4) as u64, format!("checksum {crc:08x}"), format!("{stored:08x}")));
    }
    Ok(())
}

/// One row of the sparse index: where a node stands and what it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRow {
    pub first: Id,
    pub offset: u64,
    pub before: u64,
    pub length: u32,
    pub entries: u32,
}

impl IndexRow {
    pub fn put(&self, out: &mut Vec<u8>) {
        put_id(out, self.first);
        put_u64(out, self.offset);
        put_u64(out, self.before);
        put_u32(out, self.length);
        put_u32(out, self.entries);
    }

    fn parse(bytes: &[u8]) -> Result<IndexRow> {
        let mut reader = Reader::new(bytes, "index row");
        Ok(IndexRow {
            first: reader.id()?,
            offset: reader.u64()?,
            before: reader.u64()?,
            length: reader.u32()?,
            entries: reader.u32()?,
        })
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
        };
        let index_end = footer.index_offset.checked_add(u64::from(footer.nodes) * INDEX_ROW_BYTES as u64);
        if footer.file_length != file_length || index_end != file_length.checked_sub(FOOTER_BYTES as u64) {
            let expected = format!("a file of {} bytes that ends with its index", footer.file_length);
            return Err(Error::corrupt("segment footer", 104, expected, format!("{file_length} bytes")));
        }
        Ok(footer)
    }

    pub fn index_bytes(&self) -> usize {
        self.nodes as usize * INDEX_ROW_BYTES
    }
}

/// A sparse index over its mapped (or read) bytes.
#[derive(Debug, Clone, Copy)]
pub struct Index<'a> {
    bytes: &'a [u8],
    rows: usize,
}

impl<'a> Index<'a> {
    /// The index of a segment; its checksum is compared once, when the segment is opened.
    pub fn new(bytes: &'a [u8], footer: &Footer) -> Result<Index<'a>> {
        let bytes = bytes.get(..footer.index_bytes()).ok_or_else(|| {
            Error::corrupt("sparse index", footer.index_offset, format!("{} rows", footer.nodes), bytes.len())
        })?;
        Ok(Index { bytes, rows: footer.nodes as usize })
    }

    pub fn check(&self, footer: &Footer) -> Result<()> {
        let crc = crc32c::crc32c(self.bytes);
        if crc != footer.index_crc {
            return Err(Error::corrupt(
                "sparse index",
                footer.index_offset,
                format!("checksum {:08x}", footer.index_crc),
                format!("{crc:08x}"),
            ));
        }
        Ok(())
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Row `number`, with the sizes it claims held against the limits.
    pub fn row(&self, number: usize) -> Result<IndexRow> {
        let start = number.saturating_mul(INDEX_ROW_BYTES);
        let bytes = self.bytes.get(start..start.saturating_add(INDEX_ROW_BYTES));
        let row = IndexRow::parse(bytes.ok_or(Error::Invalid("a node past the end of the segment"))?)?;
        let largest = MAX_NODE_RAW_BYTES + NODE_HEAD_BYTES;
        if row.length as usize > largest || row.entries as usize > MAX_NODE_ENTRIES {
            return Err(Error::corrupt("index row", start as u64, "sizes within the limits", row.length));
        }
        Ok(row)
    }

    /// The number of rows of which `before` holds: a bisection, as the rows are in order.
    fn partition(&self, before: impl Fn(&IndexRow) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(&self.row(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The node that holds `id`, or would: the last one that does not begin beyond it (the first where all do).
    pub fn node_of_id(&self, id: Id) -> Result<usize> {
        Ok(self.partition(|row| row.first <= id)?.saturating_sub(1))
    }

    /// The node that holds position `position` of the segment.
    pub fn node_of_position(&self, position: u64) -> Result<usize> {
        Ok(self.partition(|row| row.before <= position)?.saturating_sub(1))
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

    #[test]
    fn bisection_finds_nodes_by_id_and_by_position() {
        let mut bytes = Vec::new();
        for node in 0..10u64 {
            let first = Id::new(node * 10, 0);
            IndexRow { first, offset: node * 100, before: node * 50, length: 100, entries: 50 }.put(&mut bytes);
        }
        let index = Index { bytes: &bytes, rows: 10 };
        assert_eq!(index.node_of_id(Id::new(35, 0)).unwrap(), 3);
        assert_eq!(index.node_of_id(Id::new(40, 0)).unwrap(), 4);
        assert_eq!(index.node_of_id(Id::MAX).unwrap(), 9);
        assert_eq!(index.node_of_id(Id::MIN).unwrap(), 0);
        assert_eq!(index.node_of_position(149).unwrap(), 2);
        assert_eq!(index.node_of_position(150).unwrap(), 3);
    }
}

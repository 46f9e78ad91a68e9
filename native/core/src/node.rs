//! Macro nodes: some hundred entries of a sealed segment, column by column, compressed together.
//!
//! ```text
//! node := head body                                        raw (what body holds, or decompresses to) :=
//!    0  salt of the segment     u32                          first ms u64, first seq u64
//!    4  number of the node      u32                          narrow(ms - ms before){entries - 1}
//!    8  entries                 u32                          narrow(seq'){entries - 1}        as in rows
//!   12  length of raw           u32                          varint(shapes)
//!   16  length of body          u32                          shape{shapes} := varint(fields) (varint(len) name)*
//!   20  codec: 0 plain, 1 zstd  u8                           narrow(shape of each entry){entries}   if shapes > 1
//!   21  zero                    3                            for each shape, for each of its fields:
//!   24  CRC32C of the body      u32                            narrow(length of each value)  varint(n) bytes{n}
//!   28  CRC32C of bytes 0..28   u32
//! ```
//! `narrow` is the narrow column of [`crate::wire`]. Lengths stand where Arrow has offsets, since they compress to
//! nearly nothing; a reader sums them up.

use crate::block::{Block, Column, Shape, Table};
use crate::error::{make_room, Error, Result};
use crate::id::Id;
use crate::id_run::IdRun;
use crate::plurals::number_of;
use crate::rows::MAX_FIELDS;
use crate::wire::{put_id, put_narrow, put_u32, put_varint, read_ends, read_narrow, Reader};
use crate::{zstd_could_unpack, CODEC_PLAIN, CODEC_ZSTD};

pub const NODE_HEAD_BYTES: usize = 32;
/// Entries of one node, at most; also the bound on what a damaged count can make a reader allocate.
pub const MAX_NODE_ENTRIES: usize = 65_536;
/// Raw bytes of one node, at most.
pub const MAX_NODE_RAW_BYTES: usize = 128 << 20;
/// Values of one node, at most: columns in which all are empty take three bytes, however many entries there are. A log
/// has a byte for each value, so what is sealed stays far below.
pub const MAX_NODE_VALUES: usize = MAX_NODE_RAW_BYTES;

/// What packs nodes, one after another: making what zstd works in costs as much as packing a node.
pub struct NodePacker {
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl NodePacker {
    /// `level` is zstd's; 0 stores plain bytes.
    pub fn new(level: i32) -> NodePacker {
        let zstd = if level == 0 { None } else { zstd::bulk::Compressor::new(level).ok() };
        NodePacker { zstd }
    }

    /// Appends one node to `out`.
    pub fn encode(&mut self, out: &mut Vec<u8>, block: &Block, salt: u32, number: u32) -> Result<()> {
        let raw = encode_raw(block)?;
        let mut packed = Vec::new();
        if let Some(zstd) = self.zstd.as_mut() {
            make_room(&mut packed, zstd::zstd_safe::compress_bound(raw.len()), "a node that is packed")?;
            if zstd.compress_to_buffer(&raw, &mut packed).is_err() {
                packed.clear();
            }
        }
        let (codec, body) =
            if packed.is_empty() || packed.len() >= raw.len() { (CODEC_PLAIN, &raw) } else { (CODEC_ZSTD, &packed) };
        make_room(out, NODE_HEAD_BYTES + body.len(), "packed nodes")?;
        let start = out.len();
        put_u32(out, salt);
        put_u32(out, number);
        put_u32(out, block.len() as u32);
        put_u32(out, raw.len() as u32);
        put_u32(out, body.len() as u32);
        out.push(codec);
        out.extend_from_slice(&[0; 3]);
        put_u32(out, crc32c::crc32c(body));
        let crc = crc32c::crc32c(out.get(start..).unwrap_or(&[]));
        put_u32(out, crc);
        out.extend_from_slice(body);
        Ok(())
    }
}

fn encode_raw(block: &Block) -> Result<Vec<u8>> {
    let first = block.id(0).ok_or(Error::Invalid("a node needs an entry"))?;
    let steps = block.ids.iter().zip(block.ids.iter().skip(1));
    if steps.clone().any(|(before, id)| id <= before) {
        return Err(Error::Invalid("the IDs of a node must rise"));
    }
    let mut raw = Vec::new();
    make_room(&mut raw, block.memory_bytes(), "a node")?;
    put_id(&mut raw, first);
    put_narrow(&mut raw, &steps.clone().map(|(before, id)| id.ms - before.ms).collect::<Vec<_>>());
    let seqs = steps.map(|(before, id)| if id.ms == before.ms { id.seq - before.seq - 1 } else { id.seq });
    put_narrow(&mut raw, &seqs.collect::<Vec<_>>());
    put_varint(&mut raw, block.tables.len() as u64);
    for table in &block.tables {
        put_varint(&mut raw, table.shape.names.len() as u64);
        for name in &table.shape.names {
            put_varint(&mut raw, name.len() as u64);
            raw.extend_from_slice(name);
        }
    }
    if block.tables.len() > 1 {
        put_narrow(&mut raw, &block.places.iter().map(|(table, _)| u64::from(*table)).collect::<Vec<_>>());
    }
    for column in block.tables.iter().flat_map(|table| &table.columns) {
        let ends = column.offsets.iter().skip(1);
        let lengths = column.offsets.iter().zip(ends).map(|(start, end)| u64::from(end - start));
        put_narrow(&mut raw, &lengths.collect::<Vec<_>>());
        put_varint(&mut raw, column.data.len() as u64);
        raw.extend_from_slice(&column.data);
    }
    if raw.len() > MAX_NODE_RAW_BYTES {
        return Err(Error::Limit { what: "node", limit: MAX_NODE_RAW_BYTES as u64, found: raw.len() as u64 });
    }
    Ok(raw)
}

/// A reusable decompressor: one for each thread that reads.
pub struct NodeReader {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    raw: Vec<u8>,
}

impl Default for NodeReader {
    fn default() -> Self {
        NodeReader { zstd: zstd::bulk::Decompressor::new().ok(), raw: Vec::new() }
    }
}

impl NodeReader {
    /// Checks and unpacks the node `number` of a segment; `offset` is where it stood, for the error.
    pub fn read(&mut self, bytes: &[u8], salt: u32, number: u32, offset: u64) -> Result<Block> {
        self.view(bytes, salt, number).and_then(|(raw, entries)| parse(raw, entries)).map_err(|error| error.at(offset))
    }

    /// Bytes of a node before compression; `node` are its bytes as they stand in the file.
    pub fn raw_bytes(node: &[u8]) -> usize {
        node.get(12..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
    }

    /// The checked raw bytes of a node and its count of entries.
    fn view<'a>(&'a mut self, bytes: &'a [u8], salt: u32, number: u32) -> Result<(&'a [u8], usize)> {
        let mut head = Reader::new(bytes, "node");
        let (found_salt, found_number) = (head.u32()?, head.u32()?);
        let (entries, raw_len, body_len) = (head.u32()? as usize, head.u32()? as usize, head.u32()? as usize);
        let codec = head.u8()?;
        head.take(3)?;
        let (body_crc, head_crc) = (head.u32()?, head.u32()?);
        let crc = crc32c::crc32c(bytes.get(..28).unwrap_or(&[]));
        if crc != head_crc {
            return Err(checksum("node head", 28, crc, head_crc));
        }
        if (found_salt, found_number) != (salt, number) {
            let expected = format!("node {number} of the segment with salt {salt:08x}");
            return Err(Error::corrupt("node", 0, expected, format!("node {found_number} of {found_salt:08x}")));
        }
        if codec > CODEC_ZSTD {
            // The head is sound: whoever wrote it knew more than is known here, and may have had other limits.
            return Err(Error::Newer { what: "node codec", supported: u32::from(CODEC_ZSTD), found: codec.into() });
        }
        if entries == 0 || entries > MAX_NODE_ENTRIES || raw_len > MAX_NODE_RAW_BYTES {
            return Err(Error::corrupt("node", 8, "sizes within the limits", format!("{entries} and {raw_len}")));
        }
        let body = head.take(body_len)?;
        let crc = crc32c::crc32c(body);
        if crc != body_crc {
            return Err(checksum("node body", NODE_HEAD_BYTES as u64, body_crc, crc));
        }
        match codec {
            CODEC_PLAIN if body_len == raw_len => Ok((body, entries)),
            CODEC_ZSTD if zstd_could_unpack(body_len, raw_len) => {
                self.decompress(body, raw_len)?;
                Ok((&self.raw, entries))
            }
            _ => Err(Error::corrupt("node", 12, "sizes that fit together", format!("{raw_len} and {body_len}"))),
        }
    }

    fn decompress(&mut self, body: &[u8], raw_len: usize) -> Result<()> {
        self.raw.clear();
        make_room(&mut self.raw, raw_len, "a node")?;
        let zstd = self.zstd.as_mut().ok_or(Error::Invalid("no memory for a decompressor"))?;
        match zstd.decompress_to_buffer(body, &mut self.raw) {
            Ok(size) if size == raw_len => Ok(()),
            Ok(size) => {
                Err(Error::corrupt("node body", NODE_HEAD_BYTES as u64, number_of(raw_len as u64, "byte"), size))
            }
            Err(error) => Err(Error::corrupt("node body", NODE_HEAD_BYTES as u64, "zstd data", error)),
        }
    }
}

fn checksum(what: &'static str, offset: u64, expected: u32, found: u32) -> Error {
    Error::corrupt(what, offset, format!("checksum {expected:08x}"), format!("{found:08x}"))
}

fn parse(raw: &[u8], entries: usize) -> Result<Block> {
    let mut reader = Reader::new(raw, "node contents");
    let ids = parse_ids(&mut reader, entries)?;
    let mut tables = parse_shapes(&mut reader)?;
    let mut places = Vec::new();
    if tables.len() > 1 {
        places.reserve(entries);
        let mut counts = vec![0u32; tables.len()];
        let mut bad = false;
        read_narrow(&mut reader, entries, |code| match counts.get_mut(code as usize) {
            Some(count) => {
                places.push((code as u32, *count));
                *count += 1;
            }
            None => bad = true,
        })?;
        if bad {
            return Err(reader.fault("a shape of this node", "another"));
        }
        tables.iter_mut().zip(counts).for_each(|(table, count)| table.rows = count as usize);
    } else if let Some(table) = tables.first_mut() {
        table.rows = entries;
    }
    let values = tables.iter().map(|table| table.rows.saturating_mul(table.columns.len()));
    let values = values.fold(0, usize::saturating_add);
    if values > MAX_NODE_VALUES {
        return Err(reader.fault("values within the limit", values));
    }
    for table in &mut tables {
        for column in &mut table.columns {
            *column = parse_column(&mut reader, table.rows)?;
        }
    }
    if reader.remaining() > 0 {
        return Err(reader.fault("the end of the node", number_of(reader.remaining() as u64, "more byte")));
    }
    Ok(Block { ids, tables, places })
}

fn parse_ids(reader: &mut Reader<'_>, entries: usize) -> Result<IdRun> {
    let mut near = reader.clone();
    if let Some(rows) = parse_near(&mut near, entries)? {
        *reader = near;
        return Ok(rows);
    }
    parse_far(reader, entries).map(IdRun::Far)
}

/// None where the IDs lie too far apart.
fn parse_near(reader: &mut Reader<'_>, entries: usize) -> Result<Option<IdRun>> {
    let first = reader.id()?;
    let (mut rows, mut step, mut seq) = (Vec::with_capacity(entries), 0u64, first.seq);
    rows.push((0u32, seq as u32));
    read_narrow(reader, entries - 1, |by| {
        step = step.saturating_add(by);
        rows.push((step as u32, 0));
    })?;
    let (mut before, mut highest) = (0u32, seq);
    let mut rest = rows.iter_mut().skip(1);
    read_narrow(reader, entries - 1, |given| {
        let Some(slot) = rest.next() else { return };
        seq = if slot.0 == before { seq.saturating_add(given).saturating_add(1) } else { given };
        (before, highest) = (slot.0, highest.max(seq));
        slot.1 = seq as u32;
    })?;
    let is_near = step.max(highest) <= u64::from(u32::MAX) && first.ms.checked_add(step).is_some();
    Ok(is_near.then_some(IdRun::Near { ms: first.ms, rows }))
}

fn parse_far(reader: &mut Reader<'_>, entries: usize) -> Result<Vec<Id>> {
    let mut id = reader.id()?;
    let mut ids = Vec::with_capacity(entries);
    ids.push(id);
    read_narrow(reader, entries - 1, |step| ids.push(Id::new(step, 0)))?;
    let mut rest = ids.iter_mut().skip(1);
    let mut overflow = false;
    read_narrow(reader, entries - 1, |seq| {
        let Some(slot) = rest.next() else { return };
        let next = if slot.ms == 0 {
            id.seq.checked_add(seq).and_then(|sum| sum.checked_add(1)).map(|seq| Id::new(id.ms, seq))
        } else {
            id.ms.checked_add(slot.ms).map(|ms| Id::new(ms, seq))
        };
        overflow |= next.is_none();
        id = next.unwrap_or(id);
        *slot = id;
    })?;
    if overflow {
        return Err(reader.fault("IDs in range", "an overflow"));
    }
    Ok(ids)
}

fn parse_shapes(reader: &mut Reader<'_>) -> Result<Vec<Table>> {
    let shapes = reader.count(MAX_NODE_ENTRIES, "a number of shapes")?;
    let mut tables = Vec::with_capacity(shapes.min(16));
    for _ in 0..shapes {
        let fields = reader.count(MAX_FIELDS, "a number of fields")?;
        let mut names: Vec<Box<[u8]>> = Vec::with_capacity(fields.min(64));
        for _ in 0..fields {
            let length = reader.count(reader.remaining(), "the length of a name")?;
            names.push(reader.take(length)?.into());
        }
        let columns = vec![Column::default(); names.len()];
        tables.push(Table { shape: Shape { names }, columns, rows: 0 });
    }
    if tables.is_empty() {
        return Err(reader.fault("at least one shape", 0));
    }
    Ok(tables)
}

fn parse_column(reader: &mut Reader<'_>, rows: usize) -> Result<Column> {
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0u32);
    let end = read_ends(reader, rows, &mut offsets)?;
    let size = reader.count(reader.remaining(), "the length of a column")?;
    if size as u64 != end {
        return Err(reader.fault("lengths that add up to the column", end));
    }
    let mut data = Vec::new();
    make_room(&mut data, size, "a column of a node")?;
    data.extend_from_slice(reader.take(size)?);
    Ok(Column { offsets, data })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;

    fn block() -> Block {
        let mut builder = BlockBuilder::default();
        let one = builder.intern(Shape { names: vec![b"a"[..].into()] });
        let two = builder.intern(Shape { names: vec![b"a"[..].into(), b"b"[..].into()] });
        for row in 0..100u64 {
            let id = Id::new(5 + row / 3, row);
            if row % 4 == 0 {
                builder.push(id, two, &[2, 1], b"xyz").unwrap();
            } else {
                builder.push(id, one, &[(row % 3) as usize], &b"abc"[..(row % 3) as usize]).unwrap();
            }
        }
        builder.finish()
    }

    #[test]
    fn a_node_comes_back_plain_and_compressed() {
        for level in [0, 3] {
            let mut out = Vec::new();
            NodePacker::new(level).encode(&mut out, &block(), 7, 3).unwrap();
            let back = NodeReader::default().read(&out, 7, 3, 0).unwrap();
            assert_eq!(back.ids, block().ids);
            for row in 0..100 {
                assert!(back.pairs(row).eq(block().pairs(row)));
            }
        }
    }

    #[test]
    fn sizes_that_nothing_was_packed_to_are_refused_before_they_are_allocated() {
        // A head of its own: the checksums of a hostile writer are right.
        let signed = |entries: u32, raw_len: u32, codec: u8, body: &[u8]| {
            let mut out = Vec::new();
            [7, 3, entries, raw_len, body.len() as u32].iter().for_each(|word| put_u32(&mut out, *word));
            out.extend_from_slice(&[codec, 0, 0, 0]);
            put_u32(&mut out, crc32c::crc32c(body));
            let crc = crc32c::crc32c(&out);
            put_u32(&mut out, crc);
            out.extend_from_slice(body);
            out
        };
        let mut reader = NodeReader::default();
        assert!(reader.read(&signed(1, MAX_NODE_RAW_BYTES as u32, 1, &[0; 20]), 7, 3, 0).is_err());
        assert_eq!(reader.raw.capacity(), 0);
        // Columns of empty values: 3000 of them with 65 536 rows each, in 15 kB.
        let mut raw = Vec::new();
        put_id(&mut raw, Id::new(1, 0));
        raw.extend_from_slice(&[0, 0, 0, 0, 1]);
        put_varint(&mut raw, 3000);
        raw.extend_from_slice(&[0; 3000 * 4]);
        let found = reader.read(&signed(MAX_NODE_ENTRIES as u32, raw.len() as u32, 0, &raw), 7, 3, 0);
        assert!(matches!(found, Err(Error::Corrupt { expected, .. }) if expected == "values within the limit"));
        assert_eq!(reader.read(&signed(9, raw.len() as u32, 0, &raw), 7, 3, 0).unwrap().len(), 9);
        // A sound head with another codec is a later version's, whatever its limits are.
        let later = reader.read(&signed(u32::MAX, u32::MAX, 2, &raw), 7, 3, 0);
        assert!(matches!(later, Err(Error::Newer { what: "node codec", found: 2, .. })));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_an_error() {
        let mut out = Vec::new();
        NodePacker::new(3).encode(&mut out, &block(), 7, 3).unwrap();
        let mut reader = NodeReader::default();
        for bit in 0..out.len() * 8 {
            let mut bad = out.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(reader.read(&bad, 7, 3, 0).is_err(), "bit {bit}");
        }
        for cut in 0..out.len() {
            assert!(reader.read(&out[..cut], 7, 3, 0).is_err());
        }
        assert!(reader.read(&out, 7, 4, 0).is_err());
        assert!(reader.read(&out, 8, 3, 0).is_err());
    }
}

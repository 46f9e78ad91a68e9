//! Frames: the unit of commit in a log file. Each is a header of 64 bytes and a payload padded to eight.
//!
//! ```text
//!    0  salt of the segment          u32    32  append time, ms              u64
//!    4  payload length, unpadded     u32    40  first ID: ms                 u64
//!    8  kind                         u8     48  first ID: seq                u64
//!    9  flags                        u8     56  CRC32C of the payload        u32
//!   10  reserved, zero               u16    60  CRC32C of bytes 0..60        u32
//!   12  entries                      u32    64  payload, zero-padded to 8
//!   16  sequence number (LSN)        u64
//!   24  LSN minus synced LSN         u32       (u32::MAX: that far back or further, so it claims nothing)
//!   28  header CRC of the frame before, u32
//! ```
//! Flag 1, on entries: behind the rows stand group records (see `group_ops.rs`) and their length as u32, so that a
//! message and the entry that it became are one commit.
//!
//! The chain runs on across segments, so a frame is valid only behind the very frame it was written after.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::plurals::number_of;
use crate::wire::{padded, put_id, put_u32, put_u64, Reader};
use crate::FORMAT_VERSION;

pub const FRAME_HEADER_BYTES: usize = 64;
/// No payload is larger; a length beyond it is a fault before it is a size.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;
/// A snapshot is as large as the lists of pending entries that it holds.
pub const MAX_SNAPSHOT_BYTES: usize = 3 << 30;
/// The flag of an entries frame with group records behind its rows.
pub const FLAG_RECORDS: u8 = 1;
/// An entry's row (names of a new shape, lengths and values) is at most this.
pub const MAX_ENTRY_BYTES: usize = 32 << 20;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Snapshot = 1,
    Entries = 2,
    Delete = 3,
    Trim = 4,
    SetId = 5,
    Replace = 6,
    Mark = 7,
    /// Records of consumer groups.
    Groups = 16,
    /// The view holds all up to a sequence number.
    View = 17,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::{Delete, Entries, Groups, Mark, Replace, SetId, Snapshot, Trim, View};
        [Snapshot, Entries, Delete, Trim, SetId, Replace, Mark, Groups, View]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// A parsed frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    pub salt: u32,
    pub length: u32,
    pub kind: Kind,
    pub flags: u8,
    pub entries: u32,
    pub lsn: u64,
    /// The highest sequence number known durable when this frame was written; 0 where it claims nothing.
    pub synced_lsn: u64,
    pub previous_crc: u32,
    pub time_ms: u64,
    pub first: Id,
    pub payload_crc: u32,
    pub header_crc: u32,
}

impl FrameHeader {
    /// Bytes from the start of this frame to the start of the next.
    pub fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + padded(self.length as usize)
    }

    /// The payload of an entries frame as its rows and the group records behind them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the length of the records is not one.
    #[inline]
    pub fn split<'a>(&self, payload: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
        if self.flags & FLAG_RECORDS == 0 {
            return Ok((payload, &[]));
        }
        let parts = payload.split_last_chunk::<4>().and_then(|(rest, length)| {
            rest.split_at_checked(rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?)
        });
        parts.ok_or_else(|| Error::corrupt("entries frame", 0, "group records within the frame", "a length beyond it"))
    }
}

/// What the caller of [`encode`] decides about a frame.
#[derive(Debug, Clone, Copy)]
pub struct FrameSpec {
    pub salt: u32,
    pub kind: Kind,
    pub flags: u8,
    pub entries: u32,
    pub lsn: u64,
    pub synced_lsn: u64,
    pub time_ms: u64,
    pub first: Id,
    pub previous_crc: u32,
}

/// Appends a whole frame to `out` and returns its header CRC, the next frame's link.
pub fn encode(out: &mut Vec<u8>, spec: &FrameSpec, payload: &[u8]) -> u32 {
    let start = out.len();
    put_u32(out, spec.salt);
    put_u32(out, payload.len() as u32);
    out.push(spec.kind as u8);
    out.push(spec.flags);
    out.extend_from_slice(&[0, 0]);
    put_u32(out, spec.entries);
    put_u64(out, spec.lsn);
    put_u32(out, u32::try_from(spec.lsn.saturating_sub(spec.synced_lsn)).unwrap_or(u32::MAX));
    put_u32(out, spec.previous_crc);
    put_u64(out, spec.time_ms);
    put_id(out, spec.first);
    put_u32(out, crc32c::crc32c(payload));
    let crc = crc32c::crc32c(out.get(start..).unwrap_or(&[]));
    put_u32(out, crc);
    out.extend_from_slice(payload);
    out.resize(start + FRAME_HEADER_BYTES + padded(payload.len()), 0);
    crc
}

/// Parses the header that stands at `offset` of its file by itself: the chain is not looked at.
fn alone(bytes: &[u8], offset: u64, salt: u32) -> Result<FrameHeader> {
    // The checksum first: fields of a frame that is not one must not be reported as if they were.
    let stored = stored_crc(bytes);
    let expected = crc32c::crc32c(bytes.get(..60).unwrap_or(&[]));
    if stored != expected {
        let (expected, stored) = (format!("checksum {expected:08x}"), format!("{stored:08x}"));
        return Err(Error::corrupt("frame header", offset, expected, stored));
    }
    let mut reader = Reader::new(bytes, "frame header");
    let found_salt = reader.u32()?;
    let length = reader.u32()?;
    let kind_byte = reader.u8()?;
    let flags = reader.u8()?;
    let reserved = reader.take(2)?;
    let entries = reader.u32()?;
    let lsn = reader.u64()?;
    let behind = reader.u32()?;
    let previous_crc = reader.u32()?;
    let time_ms = reader.u64()?;
    let first = reader.id()?;
    let payload_crc = reader.u32()?;
    let header_crc = reader.u32()?;
    if found_salt != salt {
        return Err(Error::corrupt("frame salt", offset, format!("{salt:08x}"), format!("{found_salt:08x}")));
    }
    // The checksum holds, so what is not known here was written by a later version: refused, never cut.
    let newer = |what, found: u8| Error::Newer { what, supported: FORMAT_VERSION, found: u32::from(found) };
    let kind = Kind::from_byte(kind_byte).ok_or_else(|| newer("a frame of unknown kind", kind_byte))?;
    let limit = if kind == Kind::Snapshot { MAX_SNAPSHOT_BYTES } else { MAX_PAYLOAD_BYTES };
    if length as usize > limit {
        return Err(Error::corrupt("frame length", offset, format!("at most {limit}"), length));
    }
    let known = if kind == Kind::Entries { FLAG_RECORDS } else { 0 };
    if flags & !known != 0 || reserved != [0, 0] {
        return Err(newer("a frame with unknown flags", flags));
    }
    Ok(FrameHeader {
        salt: found_salt,
        length,
        kind,
        flags,
        entries,
        lsn,
        synced_lsn: if behind == u32::MAX { 0 } else { lsn.saturating_sub(u64::from(behind)) },
        previous_crc,
        time_ms,
        first,
        payload_crc,
        header_crc,
    })
}

/// Parses and checks the header at `offset` of `file` as the frame after the one with `previous_crc`.
pub fn parse_header(file: &[u8], offset: u64, salt: u32, previous_crc: u32) -> Result<FrameHeader> {
    let header = alone(head_bytes(file, offset)?, offset, salt)?;
    if header.previous_crc != previous_crc {
        return Err(Error::corrupt(
            "frame chain",
            offset,
            format!("a frame written after the one with checksum {previous_crc:08x}"),
            format!("one written after {:08x}", header.previous_crc),
        ));
    }
    Ok(header)
}

/// A whole frame of this segment at `offset`, though the frame before it is not known: for looking past a bad one.
///
/// # Errors
/// [`Error::Newer`] for a sound header of a later version; [`Error::Corrupt`] for anything else that is no frame.
pub fn probe(file: &[u8], offset: u64, salt: u32) -> Result<FrameHeader> {
    let header = alone(head_bytes(file, offset)?, offset, salt)?;
    payload(file, offset, &header)?;
    Ok(header)
}

/// The checked payload of the frame at `offset`.
pub fn payload<'a>(file: &'a [u8], offset: u64, header: &FrameHeader) -> Result<&'a [u8]> {
    let bytes = payload_unchecked(file, offset, header)?;
    let crc = crc32c::crc32c(bytes);
    if crc != header.payload_crc {
        return Err(Error::corrupt(
            "frame payload",
            offset,
            format!("checksum {:08x}", header.payload_crc),
            format!("{crc:08x}"),
        ));
    }
    Ok(bytes)
}

/// The payload of the frame at `offset`, for one who knows that its checksum was compared.
pub(crate) fn payload_unchecked<'a>(file: &'a [u8], offset: u64, header: &FrameHeader) -> Result<&'a [u8]> {
    let start = usize::try_from(offset).ok().and_then(|start| start.checked_add(FRAME_HEADER_BYTES));
    let bytes = start.and_then(|start| file.get(start..start.checked_add(header.length as usize)?));
    bytes.ok_or_else(|| {
        Error::corrupt("frame payload", offset, number_of(header.length.into(), "byte"), "the end of the file")
    })
}

fn head_bytes(file: &[u8], offset: u64) -> Result<&[u8]> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    file.get(start..start.saturating_add(FRAME_HEADER_BYTES))
        .ok_or_else(|| Error::corrupt("frame header", offset, "64 bytes", "the end of the file"))
}

fn stored_crc(head: &[u8]) -> u32 {
    let mut bytes = [0u8; 4];
    if let Some(slice) = head.get(60..64) {
        bytes.copy_from_slice(slice);
    }
    u32::from_le_bytes(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn spec(lsn: u64, previous_crc: u32) -> FrameSpec {
        FrameSpec {
            salt: 9,
            kind: Kind::Entries,
            flags: 0,
            entries: 1,
            lsn,
            synced_lsn: 0,
            time_ms: 5,
            first: Id::new(1, 2),
            previous_crc,
        }
    }

    #[test]
    fn a_frame_is_valid_only_behind_the_frame_it_was_written_after() {
        let mut file = Vec::new();
        let link = encode(&mut file, &spec(1, 0), b"hello");
        let second = file.len() as u64;
        encode(&mut file, &spec(2, link), b"world");
        let header = parse_header(&file, second, 9, link).unwrap();
        assert_eq!(payload(&file, second, &header).unwrap(), b"world");
        assert!(parse_header(&file, second, 9, link ^ 1).is_err());
        assert!(parse_header(&file, second, 8, link).is_err());
    }

    #[test]
    fn a_frame_of_a_later_version_is_told_from_a_damaged_one() {
        let mut file = Vec::new();
        encode(&mut file, &spec(1, 0), b"hello");
        for (at, value) in [(8usize, 31u8), (9, 2)] {
            let mut later = file.clone();
            later[at] = value;
            let crc = crc32c::crc32c(&later[..60]).to_le_bytes();
            later[60..64].copy_from_slice(&crc);
            assert!(matches!(parse_header(&later, 0, 9, 0), Err(Error::Newer { .. })));
        }
    }

    #[test]
    fn every_flipped_bit_but_padding_is_seen() {
        let mut file = Vec::new();
        encode(&mut file, &spec(1, 0), b"hello");
        for bit in 0..(64 + 5) * 8 {
            let mut bad = file.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let seen = parse_header(&bad, 0, 9, 0).and_then(|header| payload(&bad, 0, &header).map(drop));
            assert!(seen.is_err(), "bit {bit}");
        }
    }
}

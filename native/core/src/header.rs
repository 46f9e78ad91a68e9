//! The first 4 KiB of a log file: who it belongs to, and the frontier of automatic IDs.
//!
//! ```text
//!    0  magic "DSKLOG01"     8      32  segment number   u64
//!    8  format version       u32    40  created, ms      u64
//!   12  salt                 u32    48  reserved, zero   12
//!   16  stream uuid          16     60  CRC32C of 0..60  u32
//!  512  frontier slot A      40     1024  frontier slot B  40
//! ```
//! A slot is `sequence u64, frontier ms u64, floor ms u64, synced LSN u64, salt u32, CRC32C of the 36 bytes before u32`.
//! The slots are written in turn, each in a sector of its own, so a torn write leaves the other one whole. No automatic
//! ID above the frontier has been issued; none at or below the floor is issued any more; the log had been flushed up to
//! the synced LSN, so one that ends before it has lost something.

use crate::error::{Error, Result};
use crate::wire::{put_u32, put_u64, Reader};
use crate::FORMAT_VERSION;

pub const HEADER_BYTES: u64 = 4096;
pub const MAGIC: &[u8; 8] = b"DSKLOG01";
pub const SLOT_OFFSETS: [u64; 2] = [512, 1024];
const SLOT_BYTES: usize = 40;

/// The reservation of automatic IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Frontier {
    pub sequence: u64,
    pub frontier_ms: u64,
    pub floor_ms: u64,
    pub synced_lsn: u64,
}

impl Frontier {
    /// The slot this belongs into: they take turns.
    pub fn slot_offset(&self) -> u64 {
        if self.sequence % 2 == 0 {
            SLOT_OFFSETS[0]
        } else {
            SLOT_OFFSETS[1]
        }
    }

    /// The slot, as stored.
    pub fn encode(&self, salt: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(SLOT_BYTES);
        put_u64(&mut out, self.sequence);
        put_u64(&mut out, self.frontier_ms);
        put_u64(&mut out, self.floor_ms);
        put_u64(&mut out, self.synced_lsn);
        put_u32(&mut out, salt);
        let crc = crc32c::crc32c(&out);
        put_u32(&mut out, crc);
        out
    }

    fn parse(bytes: &[u8], salt: u32) -> Option<Frontier> {
        let mut reader = Reader::new(bytes, "frontier slot");
        let frontier = Frontier {
            sequence: reader.u64().ok()?,
            frontier_ms: reader.u64().ok()?,
            floor_ms: reader.u64().ok()?,
            synced_lsn: reader.u64().ok()?,
        };
        let found_salt = reader.u32().ok()?;
        let crc = reader.u32().ok()?;
        let expected = crc32c::crc32c(bytes.get(..SLOT_BYTES - 4)?);
        (crc == expected && found_salt == salt).then_some(frontier)
    }

    /// The newest whole slot of a header block; an error where neither is whole.
    pub fn read(header: &[u8], salt: u32) -> Result<Frontier> {
        let slots = SLOT_OFFSETS.iter().filter_map(|offset| {
            let start = usize::try_from(*offset).ok()?;
            Frontier::parse(header.get(start..start.checked_add(SLOT_BYTES)?)?, salt)
        });
        slots.max().ok_or_else(|| Error::corrupt("frontier slots", SLOT_OFFSETS[0], "one whole slot", "none"))
    }
}

/// The identity of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    pub salt: u32,
    pub uuid: [u8; 16],
    pub segment: u64,
    pub created_ms: u64,
}

impl LogHeader {
    /// The whole 4 KiB block, with the frontier in its slot.
    pub fn encode(&self, frontier: Frontier) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES as usize);
        out.extend_from_slice(MAGIC);
        put_u32(&mut out, FORMAT_VERSION);
        put_u32(&mut out, self.salt);
        out.extend_from_slice(&self.uuid);
        put_u64(&mut out, self.segment);
        put_u64(&mut out, self.created_ms);
        out.resize(60, 0);
        let crc = crc32c::crc32c(&out);
        put_u32(&mut out, crc);
        out.resize(frontier.slot_offset() as usize, 0);
        out.extend_from_slice(&frontier.encode(self.salt));
        out.resize(HEADER_BYTES as usize, 0);
        out
    }

    pub fn parse(bytes: &[u8]) -> Result<LogHeader> {
        let mut reader = Reader::new(bytes, "log header");
        let magic = reader.take(8)?;
        if magic != MAGIC {
            return Err(Error::corrupt("log header", 0, "the magic DSKLOG01", format!("{magic:02x?}")));
        }
        let version = reader.u32()?;
        let salt = reader.u32()?;
        let mut uuid = [0u8; 16];
        uuid.copy_from_slice(reader.take(16)?);
        let segment = reader.u64()?;
        let created_ms = reader.u64()?;
        reader.take(12)?;
        let stored = reader.u32()?;
        let crc = crc32c::crc32c(bytes.get(..60).unwrap_or(&[]));
        if stored != crc {
            return Err(Error::corrupt("log header", 60, format!("checksum {crc:08x}"), format!("{stored:08x}")));
        }
        if version > FORMAT_VERSION {
            return Err(Error::Newer { what: "log file", supported: FORMAT_VERSION, found: version });
        }
        Ok(LogHeader { salt, uuid, segment, created_ms })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const FIRST: Frontier = Frontier { sequence: 2, frontier_ms: 500, floor_ms: 3, synced_lsn: 9 };

    #[test]
    fn a_header_comes_back_and_every_flipped_bit_of_it_is_seen() {
        let header = LogHeader { salt: 7, uuid: [3; 16], segment: 12, created_ms: 99 };
        let bytes = header.encode(FIRST);
        assert_eq!(LogHeader::parse(&bytes).unwrap(), header);
        assert_eq!(Frontier::read(&bytes, 7).unwrap(), FIRST);
        for bit in 0..64 * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(LogHeader::parse(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_torn_slot_leaves_the_one_before() {
        let mut bytes = LogHeader { salt: 7, uuid: [3; 16], segment: 1, created_ms: 0 }.encode(FIRST);
        let second = Frontier { sequence: 3, frontier_ms: 900, ..FIRST };
        let at = second.slot_offset() as usize;
        bytes[at..at + SLOT_BYTES].copy_from_slice(&second.encode(7));
        assert_eq!(Frontier::read(&bytes, 7).unwrap(), second);
        bytes[at + 9] ^= 1;
        assert_eq!(Frontier::read(&bytes, 7).unwrap(), FIRST);
        bytes[FIRST.slot_offset() as usize] ^= 1;
        assert!(Frontier::read(&bytes, 7).is_err());
    }
}

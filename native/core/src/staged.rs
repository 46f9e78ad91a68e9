//! Packed rows as bytes that wait on a disk to be appended, by whoever comes then.
//!
//! ```text
//! staged := u32 flags (1: the rows have IDs of their own) | u32 rows | id first | id last
//!           u32 CRC32C of all that stands before it and of the payload | payload
//! ```
//!
//! The IDs are zeros where the rows have none of their own. A payload is as [`crate::rows`] draws it.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::packing::{Packed, MAX_ROWS_BYTES};
use crate::plurals::number_of;
use crate::wire::{put_id, put_u32, Reader};

const HEADER_BYTES: usize = 44;
const CHECKED_BYTES: usize = HEADER_BYTES - 4;
const HAS_IDS: u32 = 1;
const WHAT: &str = "staged rows";

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), payload)
}

/// The bytes of a frame's rows.
pub fn encode(packed: &Packed) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + packed.payload.len());
    let (first, last) = packed.ids.unwrap_or((Id::MIN, Id::MIN));
    put_u32(&mut out, if packed.ids.is_some() { HAS_IDS } else { 0 });
    put_u32(&mut out, packed.rows);
    put_id(&mut out, first);
    put_id(&mut out, last);
    let check = checksum(&out, &packed.payload);
    put_u32(&mut out, check);
    out.extend_from_slice(&packed.payload);
    out
}

/// The rows of which [`encode`] made these bytes.
///
/// # Errors
/// [`Error::Corrupt`] where they are other bytes, or a payload is larger than a frame may be.
pub fn decode(bytes: &[u8]) -> Result<Packed> {
    let mut reader = Reader::new(bytes, WHAT);
    let (flags, rows) = (reader.u32()?, reader.u32()?);
    let (first, last) = (reader.id()?, reader.id()?);
    let stored = reader.u32()?;
    let payload = reader.rest();
    let found = checksum(bytes.get(..CHECKED_BYTES).unwrap_or(&[]), payload);
    if stored != found {
        return Err(Error::corrupt(WHAT, 0, format!("checksum {stored:08x}"), format!("{found:08x}")));
    }
    if flags > HAS_IDS || rows == 0 || payload.len() > MAX_ROWS_BYTES || first > last {
        return Err(reader.fault(
            "rows as this version stages them",
            format!("flags {flags:x} and {}", number_of(rows.into(), "row")),
        ));
    }
    Ok(Packed { payload: payload.to_vec(), rows, ids: (flags == HAS_IDS).then_some((first, last)) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn packed(ids: Option<(Id, Id)>) -> Packed {
        Packed { payload: b"some rows".to_vec(), rows: 3, ids }
    }

    #[test]
    fn rows_come_back_with_their_ids_or_without() {
        for ids in [None, Some((Id::new(1, 2), Id::new(u64::MAX, u64::MAX)))] {
            assert_eq!(decode(&encode(&packed(ids))).unwrap(), packed(ids));
        }
    }

    #[test]
    fn every_bit_counts_and_so_does_the_end() {
        let bytes = encode(&packed(Some((Id::new(1, 2), Id::new(3, 4)))));
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            *other.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert!(decode(&other).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(decode(bytes.get(..end).unwrap()).is_err(), "cut at {end}");
        }
        assert!(decode(&[bytes.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn what_no_version_stages_is_refused_though_its_checksum_is_right() {
        let wrong = [
            Packed { rows: 0, ..packed(None) },
            Packed { payload: vec![0; MAX_ROWS_BYTES + 1], ..packed(None) },
            packed(Some((Id::new(3, 4), Id::new(1, 2)))),
        ];
        for each in wrong {
            assert!(decode(&encode(&each)).is_err());
        }
    }
}

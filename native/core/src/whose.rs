//! Whose a file is that never changes, as its header and its footer say, and that these are whole.

use crate::error::{Error, Result};
use crate::plurals::number_of;
use crate::wire::{put_u32, Reader};
use crate::{checksum, FORMAT_VERSION};

/// What such a header or footer begins with: its magic, the format version, the salt, and the stream's UUID.
pub fn put_whose(out: &mut Vec<u8>, magic: &[u8; 8], salt: u32, uuid: &[u8; 16]) {
    out.extend_from_slice(magic);
    put_u32(out, FORMAT_VERSION);
    put_u32(out, salt);
    out.extend_from_slice(uuid);
}

/// The salt and the UUID, where the magic is this one and the format is known.
pub fn read_whose(reader: &mut Reader<'_>, magic: &[u8; 8], what: &'static str) -> Result<(u32, [u8; 16])> {
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
    Ok((salt, uuid))
}

/// The last four of `size` bytes must be the checksum of the rest.
pub fn check(bytes: &[u8], size: usize, what: &'static str) -> Result<()> {
    let (body, stored) = bytes
        .get(..size)
        .and_then(|bytes| bytes.split_at_checked(size - 4))
        .ok_or_else(|| Error::corrupt(what, 0, number_of(size as u64, "byte"), bytes.len()))?;
    let (crc, stored) = (checksum(body), Reader::new(stored, what).u32()?);
    if crc != stored {
        return Err(Error::corrupt(what, (size - 4) as u64, format!("checksum {crc:08x}"), format!("{stored:08x}")));
    }
    Ok(())
}

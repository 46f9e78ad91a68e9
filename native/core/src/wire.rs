//! Checked reads and the few primitive encodings: little-endian words, LEB128 varints, narrow integer columns.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::plurals::number_of;

/// A cursor over bytes from a disk; every read is checked and names what it was reading.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { bytes, at: 0, what }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// What was not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// A fault at the present place.
    #[cold]
    #[inline(never)]
    pub fn fault(&self, expected: &'static str, found: impl std::fmt::Display) -> Error {
        Error::corrupt(self.what, self.at as u64, expected, found)
    }

    #[inline]
    pub fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(size);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(slice) => {
                self.at += size;
                Ok(slice)
            }
            None => Err(self.short(size)),
        }
    }

    #[cold]
    #[inline(never)]
    fn short(&self, size: usize) -> Error {
        let (expected, found) = (number_of(size as u64, "more byte"), number_of(self.remaining() as u64, "byte"));
        Error::corrupt(self.what, self.at as u64, expected, found)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let slice = self.take(N)?;
        let mut array = [0u8; N];
        array.copy_from_slice(slice);
        Ok(array)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn id(&mut self) -> Result<Id> {
        Ok(Id { ms: self.u64()?, seq: self.u64()? })
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<()> {
        if self.remaining() > 0 {
            return Err(self.fault("the end", number_of(self.remaining() as u64, "more byte")));
        }
        Ok(())
    }

    /// An unsigned LEB128 number of at most 64 bits. Most are of one byte: those cost no call.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                return Err(self.fault("a varint of 64 bits", "a longer one"));
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return Err(self.fault("a varint of 64 bits", "a longer one"));
            }
        }
    }

    /// A varint that must not exceed `limit`: a count or a length, never trusted before this check.
    #[inline]
    pub fn count(&mut self, limit: usize, expected: &'static str) -> Result<usize> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(count) if count <= limit => Ok(count),
            _ => Err(self.fault(expected, value)),
        }
    }
}

/// Bytes of a varint.
#[inline]
pub fn varint_bytes(value: usize) -> usize {
    (usize::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// So many bytes [`put_start`] may move for a value that is shorter.
pub(crate) const MOST_AT_ONCE: usize = 16;

/// Appends the first `length` of `bytes`; false where there are not so many. Most values are short: sixteen bytes are
/// moved at once, of which too many are taken back, where a copy of just so many would be a call.
#[inline]
pub(crate) fn put_start(out: &mut Vec<u8>, bytes: &[u8], length: usize) -> bool {
    if let (true, Some(chunk)) = (length <= MOST_AT_ONCE, bytes.first_chunk::<MOST_AT_ONCE>()) {
        let end = out.len() + length;
        out.extend_from_slice(chunk);
        out.truncate(end);
        return true;
    }
    bytes.get(..length).map(|bytes| out.extend_from_slice(bytes)).is_some()
}

pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_id(out: &mut Vec<u8>, id: Id) {
    put_u64(out, id.ms);
    put_u64(out, id.seq);
}

/// Writes `values` as a narrow column: a width byte (0, 1, 2, 4 or 8), then either one varint that all share
/// (width 0) or each value in that many little-endian bytes.
pub fn put_narrow(out: &mut Vec<u8>, values: &[u64]) {
    let first = values.first().copied().unwrap_or(0);
    if values.iter().all(|value| *value == first) {
        out.push(0);
        put_varint(out, first);
        return;
    }
    let width: usize = match values.iter().copied().max().unwrap_or(0) {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    out.push(width as u8);
    for value in values {
        let bytes = value.to_le_bytes();
        out.extend(bytes.iter().take(width));
    }
}

/// Reads a narrow column of `count` values, calling `each` with every one.
#[inline]
pub fn read_narrow(reader: &mut Reader<'_>, count: usize, mut each: impl FnMut(u64)) -> Result<()> {
    match reader.u8()? {
        0 => {
            let value = reader.varint()?;
            (0..count).for_each(|_| each(value));
        }
        1 => reader.take(count)?.iter().for_each(|byte| each(u64::from(*byte))),
        2 => words::<2>(reader, count, |bytes| each(u64::from(u16::from_le_bytes(bytes))))?,
        4 => words::<4>(reader, count, |bytes| each(u64::from(u32::from_le_bytes(bytes))))?,
        8 => words::<8>(reader, count, |bytes| each(u64::from_le_bytes(bytes)))?,
        width => return Err(reader.fault("a width of 0, 1, 2, 4 or 8", width)),
    }
    Ok(())
}

/// Reads a narrow column of `count` lengths, and appends the sum up to each (of which the lowest 32 bits); returns the
/// sum of all.
pub fn read_ends(reader: &mut Reader<'_>, count: usize, ends: &mut Vec<u32>) -> Result<u64> {
    let mut end = 0u64;
    if reader.rest().first() == Some(&1) {
        reader.take(1)?;
        ends.extend(reader.take(count)?.iter().map(|byte| {
            end += u64::from(*byte); // far below 2^64
            end as u32
        }));
        return Ok(end);
    }
    ends.reserve(count);
    read_narrow(reader, count, |length| {
        end = end.saturating_add(length);
        ends.push(end as u32);
    })?;
    Ok(end)
}

#[inline]
fn words<const N: usize>(reader: &mut Reader<'_>, count: usize, mut each: impl FnMut([u8; N])) -> Result<()> {
    let size = count.checked_mul(N).ok_or_else(|| reader.fault("a column that fits in memory", count))?;
    for chunk in reader.take(size)?.chunks_exact(N) {
        let mut bytes = [0u8; N];
        bytes.copy_from_slice(chunk);
        each(bytes);
    }
    Ok(())
}

/// Rounds up to a multiple of eight.
pub fn padded(size: usize) -> usize {
    size.saturating_add(7) & !7
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn varints_and_narrow_columns_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out, "test").varint().unwrap(), value);
            assert_eq!(varint_bytes(value as usize), out.len());
        }
        for values in [vec![], vec![7; 5], vec![1, 2, 300], vec![0, u64::MAX], vec![70_000, 1]] {
            let mut out = Vec::new();
            put_narrow(&mut out, &values);
            let mut back = Vec::new();
            read_narrow(&mut Reader::new(&out, "test"), values.len(), |value| back.push(value)).unwrap();
            assert_eq!(back, values);
        }
    }

    #[test]
    fn lengths_are_summed_up_alike_at_every_width() {
        for values in [vec![], vec![7; 5], vec![1, 2, 255], vec![300, 1, 0], vec![70_000, 1], vec![1 << 33, 5]] {
            let (mut out, mut ends) = (Vec::new(), vec![0u32]);
            put_narrow(&mut out, &values);
            let mut reader = Reader::new(&out, "test");
            assert_eq!(read_ends(&mut reader, values.len(), &mut ends).unwrap(), values.iter().sum());
            assert_eq!(reader.remaining(), 0);
            let sums = (0..=values.len()).map(|count| values[..count].iter().sum::<u64>() as u32);
            assert!(sums.eq(ends.iter().copied()));
            if let Some(cut) = out.get(..out.len() - 1) {
                assert!(read_ends(&mut Reader::new(cut, "test"), values.len(), &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn a_number_longer_than_64_bits_is_an_error() {
        assert!(Reader::new(&[0xff; 11], "test").varint().is_err());
        assert!(Reader::new(&[0x80], "test").varint().is_err());
    }
}

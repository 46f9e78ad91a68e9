//! Numbers and bytes out of what a fuzzer made up; zeros behind its end.

use diskstream_core::id::Id;

pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn bytes(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub fn id(&mut self) -> Id {
        Id::new(self.u64(), self.u64())
    }

    /// Bytes behind their length of 16 bits.
    pub fn counted(&mut self) -> &'a [u8] {
        let size = usize::from(self.u16());
        self.bytes(size)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes the checksum of `bytes[..at]` at `at`, where there is room.
pub fn sign(bytes: &mut [u8], at: usize) {
    if let Some(covered) = bytes.get(..at) {
        let crc = diskstream_core::checksum(covered).to_le_bytes();
        put(bytes, at, &crc);
    }
}

/// Writes `what` at `at`, where there is room.
pub fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

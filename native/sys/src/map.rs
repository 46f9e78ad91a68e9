//! Shared file mappings.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// A shared mapping of the first `len` bytes of a file.
///
/// The file must be at least that long for as long as the mapping lives: log files are never truncated, and sealed
/// ones never change. Other processes store into log files only beyond the published position, and readers look only
/// before it, so no byte changes while it is being read.
pub struct Map {
    base: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: the mapping is plain memory; all writes go through `store` and are ordered by the caller's lock.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes of `fd` from `offset`, which must be a multiple of the page size.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn new(fd: RawFd, offset: u64, len: usize, writable: bool) -> io::Result<Map> {
        if len == 0 {
            return Ok(Map { base: std::ptr::null_mut(), len: 0, writable: false });
        }
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { base: base.cast(), len, writable })
    }

    /// Maps the first `len` bytes of a file that others may write to, for reading alone.
    ///
    /// A flush has to look through every shared mapping that could have been written to, whether it was or not: of as
    /// many processes as have the file open. A mapping of a descriptor that cannot write is none of these, so the file
    /// is opened once more for it. Where that cannot be had, any mapping will do.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn to_read(fd: RawFd, len: usize) -> io::Result<Map> {
        match std::fs::File::open(format!("/proc/self/fd/{fd}")) {
            Ok(file) => Map::new(file.as_raw_fd(), 0, len, false),
            Err(_) => Map::new(fd, 0, len, false),
        }
    }

    /// Says that single places of it will be read: without, the first touch of a page that is not in memory brings in
    /// what the device reads ahead, which may be megabytes.
    pub fn read_at_random(&self) {
        if self.len > 0 {
            // SAFETY: the range is mapped, and advice changes nothing that is read.
            unsafe { libc::madvise(self.base.cast(), self.len, libc::MADV_RANDOM) };
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The mapped bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `base` maps `len` readable bytes until drop; see the type for who may change them.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }

    /// Copies `data` to `offset`; false where that is not within a writable mapping.
    #[inline]
    pub fn store(&self, offset: usize, data: &[u8]) -> bool {
        let fits = offset.checked_add(data.len()).is_some_and(|end| end <= self.len);
        if !fits || !self.writable {
            return false;
        }
        // SAFETY: the range lies within the mapping (checked above) and `data` cannot overlap it, being borrowed from
        // memory that safe code owns.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.base.add(offset), data.len()) };
        true
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the range was mapped by `new`, and no slice of it outlives `self`.
            unsafe { libc::munmap(self.base.cast(), self.len) };
        }
    }
}

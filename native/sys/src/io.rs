//! System calls that the standard library does not offer.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

fn done(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn write_all(fd: RawFd, data: &[u8], offset: u64, flags: libc::c_int) -> io::Result<()> {
    let mut written = 0usize;
    while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
        let at = libc::off_t::try_from(offset + written as u64).map_err(|_| io::ErrorKind::InvalidInput)?;
        let part = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        // SAFETY: `part` describes memory that outlives the call and is only read.
        match done(unsafe { libc::pwritev2(fd, &raw const part, 1, at, flags) }) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => written += size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a file for reading that is one: no pipe to wait at, no device.
///
/// # Errors
/// What open(2) says, or that it is something else.
pub fn open_regular(path: &str) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// Writes all of `data` at `offset`.
///
/// # Errors
/// What pwrite(2) says; a short write goes on.
pub fn pwrite(fd: RawFd, data: &[u8], offset: u64) -> io::Result<()> {
    write_all(fd, data, offset, 0)
}

/// The same, and these bytes are durable on return (`RWF_DSYNC`).
///
/// # Errors
/// What pwritev2(2) says.
pub fn pwrite_sync(fd: RawFd, data: &[u8], offset: u64) -> io::Result<()> {
    write_all(fd, data, offset, libc::RWF_DSYNC)
}

/// Makes the data of a file (and a size that grew) durable.
///
/// # Errors
/// What fdatasync(2) says.
pub fn fdatasync(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { libc::fdatasync(fd) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads exactly `size` bytes at `offset` into `buffer`, which is cleared first.
///
/// # Errors
/// What pread(2) says; `UnexpectedEof` where the file is shorter, ENOMEM where there is no memory for so much.
pub fn pread(fd: RawFd, buffer: &mut Vec<u8>, offset: u64, size: usize) -> io::Result<()> {
    buffer.clear();
    buffer.try_reserve(size).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    while buffer.len() < size {
        let at = libc::off_t::try_from(offset + buffer.len() as u64).map_err(|_| io::ErrorKind::InvalidInput)?;
        let left = size - buffer.len();
        let room = buffer.spare_capacity_mut();
        let want = room.len().min(left);
        // SAFETY: `room` has at least `want` bytes of ours to write to.
        match done(unsafe { libc::pread(fd, room.as_mut_ptr().cast(), want, at) }) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // SAFETY: the kernel has filled in `got` bytes behind the present length.
            Ok(got) => unsafe { buffer.set_len(buffer.len() + got) },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A file of its own for the same open file, closed on exec.
///
/// # Errors
/// What fcntl(2) says.
pub fn duplicate(fd: RawFd) -> io::Result<File> {
    // SAFETY: no memory is involved.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor was made just now, for us alone.
        copy => Ok(unsafe { File::from_raw_fd(copy) }),
    }
}

//! Sockets that others have opened, by their numbers: what came, and what can go, without waiting.

use std::io;
use std::os::fd::RawFd;

fn done(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes what has come, as much of it as there is room for. Returns how much; 0 at the end.
///
/// # Errors
/// What recv(2) says; `WouldBlock` where nothing has come yet.
pub fn receive(fd: RawFd, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: at most `room.len()` bytes are written, to memory that is lent for the call.
    done(unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) })
}

/// Sends what can go now. Returns how much.
///
/// # Errors
/// What send(2) says; `WouldBlock` where nothing can go now. A client that is gone is an error and no signal.
pub fn send(fd: RawFd, data: &[u8]) -> io::Result<usize> {
    // SAFETY: `data` outlives the call and is only read.
    done(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_was_sent_comes_in_pieces_and_then_the_end() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut room = [0u8; 4];
        assert_eq!(receive(far.as_raw_fd(), &mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
        near.write_all(b"abcdef").unwrap();
        assert_eq!((receive(far.as_raw_fd(), &mut room).unwrap(), &room), (4, b"abcd"));
        assert_eq!(receive(far.as_raw_fd(), &mut room).unwrap(), 2);
        drop(near);
        assert_eq!(receive(far.as_raw_fd(), &mut room).unwrap(), 0);
    }

    #[test]
    fn what_cannot_go_is_told_and_so_is_a_client_that_is_gone() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let much = vec![7u8; 1 << 20];
        let sent = send(near.as_raw_fd(), &much).unwrap();
        assert!(sent > 0 && sent < much.len());
        assert_eq!(send(near.as_raw_fd(), &much).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut heard = vec![0u8; sent];
        far.read_exact(&mut heard).unwrap();
        assert_eq!(heard, much[..sent]);
        drop(far);
        assert_eq!(send(near.as_raw_fd(), b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

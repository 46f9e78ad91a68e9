//! What came from clients and what goes to them, by the numbers of their sockets: a call for all that is ready.

use std::io::ErrorKind;

use diskstream_sys::socket;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors;
use crate::resp::RequestParser;

const MOST_ROOM_BYTES: usize = 16 << 20;

/// Room for what comes from one client after the other.
#[pyclass(module = "diskstream._native")]
pub struct Receiver {
    room: Vec<u8>,
}

#[pymethods]
impl Receiver {
    #[new]
    fn new(py: Python<'_>, room_bytes: usize) -> PyResult<Receiver> {
        if room_bytes == 0 || room_bytes > MOST_ROOM_BYTES {
            return Err(errors::wrong_type(py, "room_bytes is 1 to 16 MiB"));
        }
        Ok(Receiver { room: vec![0; room_bytes] })
    }

    /// Takes what has come over a socket, and gives it to a parser. Returns how many bytes it was, 0 at the end or
    /// where the client is gone, -1 where nothing has come yet; the commands that are whole now; and whether the
    /// parser has more to say, which is looked at once they were run.
    fn receive<'py>(
        &mut self,
        py: Python<'py>,
        fd: i32,
        parser: &mut RequestParser,
        authenticated: bool,
    ) -> PyResult<(isize, Bound<'py, PyList>, bool)> {
        let size = match socket::receive(fd, &mut self.room) {
            Ok(size) => size,
            Err(error) if is_later(error.kind()) => return Ok((-1, PyList::empty(py), false)),
            Err(_) => 0,
        };
        match self.room.get(..size) {
            Some(data) if size > 0 => {
                let commands = parser.commands(py, data, authenticated)?;
                Ok((size as isize, commands, parser.has_more_to_say()))
            }
            _ => Ok((0, PyList::empty(py), false)),
        }
    }
}

fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Sends something to each of several clients. Returns how many bytes went to each; -1 where it is gone.
#[pyfunction]
pub fn send_each<'py>(py: Python<'py>, fds: Vec<i32>, replies: Vec<Bound<'py, PyBytes>>) -> PyResult<Vec<isize>> {
    if fds.len() != replies.len() {
        return Err(errors::wrong_type(py, "there is a reply for each socket"));
    }
    let pairs: Vec<(i32, &[u8])> = fds.into_iter().zip(replies.iter().map(|reply| reply.as_bytes())).collect();
    Ok(py.detach(|| {
        let sent = pairs.into_iter().map(|(fd, data)| match socket::send(fd, data) {
            Ok(size) => size as isize,
            Err(error) if is_later(error.kind()) => 0,
            Err(_) => -1,
        });
        sent.collect()
    }))
}

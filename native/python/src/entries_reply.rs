//! `EntriesReply`: what a Redis answers to XRANGE, into packed rows and their digest, each piece of it in one call.

use diskstream_core::digest::Digest;
use diskstream_core::resp_entries::{Fault, Replies, Summary};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::entry::Block;
use crate::errors;
use crate::id::EntryId;
use crate::packing::PackedRows;

/// Entries, bytes of names and values, and the two lanes of the digest.
type DigestParts = (u64, u64, u64, u64);
/// The digest, the first ID and the last, the server's refusal.
type Whole<'py> = (DigestParts, Option<EntryId>, Option<EntryId>, Option<Bound<'py, PyBytes>>);

fn parts(digest: Digest) -> DigestParts {
    let [first, second] = digest.lanes;
    (digest.entries, digest.size_bytes, first, second)
}

/// Takes the bytes of replies to XRANGE.
#[pyclass(module = "diskstream._native")]
pub struct EntriesReply {
    replies: Replies,
}

#[pymethods]
impl EntriesReply {
    #[new]
    fn new(frame_bytes: usize) -> EntriesReply {
        EntriesReply { replies: Replies::new(frame_bytes) }
    }

    /// Takes bytes. Returns the frames that are full now, and what the reply held once it is whole.
    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
    ) -> PyResult<(Vec<PackedRows>, Option<Whole<'py>>)> {
        let data = data.as_bytes();
        let replies = &mut self.replies;
        let (frames, found) = py.detach(|| {
            let mut frames = Vec::new();
            let found = replies.feed(data, &mut frames);
            (frames, found)
        });
        let whole = found.map_err(|fault| raised(py, fault))?.map(|Summary { digest, first, last, error }| {
            let id = EntryId::of;
            (parts(digest), first.map(id), last.map(id), error.map(|text| PyBytes::new(py, &text)))
        });
        Ok((frames.into_iter().map(|packed| PackedRows { packed }).collect(), whole))
    }

    /// Bytes kept that are part of no whole entry.
    #[getter]
    fn buffered_bytes(&self) -> usize {
        self.replies.buffered_bytes()
    }
}

fn raised(py: Python<'_>, fault: Fault) -> PyErr {
    match fault {
        Fault::Protocol(at, wanted) => {
            errors::argument(py, &format!("the reply to XRANGE should have {wanted} at byte {at}"))
        }
        Fault::Order(id) => errors::argument(py, &format!("the reply to XRANGE has {id} out of order")),
        Fault::Entry(id, error) => errors::argument(py, &format!("no stream can hold the entry {id}: {error}")),
    }
}

#[pymethods]
impl Block {
    /// The digest of the live entries: their number, bytes of names and values, and two words.
    fn digest(&self, py: Python<'_>) -> DigestParts {
        parts(py.detach(|| {
            let mut digest = Digest::default();
            for row in (self.from..self.to).filter(|row| self.is_live(*row)) {
                if let Some(id) = self.block.id(row) {
                    digest.add(id, self.block.pairs(row));
                }
            }
            digest
        }))
    }
}

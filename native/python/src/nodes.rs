//! The cache of decoded nodes, which all segments of a process share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskstream_core::block;
use diskstream_core::node::NodeReader;
use lru::LruCache;
use pyo3::prelude::*;

/// Nodes by serial of the segment and number, and the bytes that they hold.
type Held = (LruCache<(u64, usize), Arc<block::Block>>, usize);

/// Unpackers that are kept for the next: each holds what zstd works in.
const MOST_UNPACKERS: usize = 4;

/// What unpacks a node, and the bytes that it was packed in.
type Unpacker = (NodeReader, Vec<u8>);

/// Decoded nodes, the most recently used ones, up to a number of bytes; and what unpacks them.
#[pyclass(frozen, module = "diskstream._native")]
pub struct NodeCache {
    limit_bytes: usize,
    inner: Mutex<Held>,
    /// Of those who unpack at this moment none is here: threads unpack beside each other. They are shared by segments,
    /// since making one costs more than unpacking a node.
    unpackers: Mutex<Vec<Unpacker>>,
}

impl NodeCache {
    fn unpackers(&self) -> MutexGuard<'_, Vec<Unpacker>> {
        self.unpackers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `each` unpack something.
    pub(crate) fn unpacking<R>(&self, each: impl FnOnce(&mut Unpacker) -> R) -> R {
        let mut unpacker = self.unpackers().pop().unwrap_or_default();
        let done = each(&mut unpacker);
        let mut unpackers = self.unpackers();
        if unpackers.len() < MOST_UNPACKERS {
            unpackers.push(unpacker);
        }
        done
    }

    fn with<R>(&self, each: impl FnOnce(&mut Held) -> R) -> R {
        each(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn get(&self, key: (u64, usize)) -> Option<Arc<block::Block>> {
        self.with(|(cache, _)| cache.get(&key).cloned())
    }

    pub(crate) fn put(&self, key: (u64, usize), block: &Arc<block::Block>) {
        let size = block.memory_bytes();
        if size > self.limit_bytes {
            return;
        }
        self.with(|(cache, held)| {
            if let Some(old) = cache.put(key, Arc::clone(block)) {
                *held -= old.memory_bytes();
            }
            *held += size;
            while *held > self.limit_bytes {
                let Some((_, old)) = cache.pop_lru() else { break };
                *held -= old.memory_bytes();
            }
        });
    }
}

#[pymethods]
impl NodeCache {
    #[new]
    fn new(limit_bytes: usize) -> NodeCache {
        NodeCache { limit_bytes, inner: Mutex::new((LruCache::unbounded(), 0)), unpackers: Mutex::default() }
    }

    /// Bytes held.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.with(|(_, held)| *held)
    }
}

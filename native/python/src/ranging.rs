//! `entry_lists`: the entries of a run of blocks for one who goes through them, in objects that are used again.
//!
//! Making an object and taking it apart costs more than unpacking an entry. So the entries of the last list are held here,
//! too, and where nobody else holds one any more, it is moved on to a row of the next list, and its ID with it. The lock of
//! the interpreter is what makes "nobody else" hold while it is looked at: builds of Python without that lock cannot load
//! this module (abi3).
//!
//! ```text
//! given:  Entry --- its ID      held once: both move on          Entry: number of a block, row --> Shelf: [block, block, ..]
//!         Entry --- its ID <--- somebody: left as they are, and another entry is made in their place
//! ```
//!
//! An entry that somebody keeps holds its whole shelf in memory. For one who keeps some, a shelf is one block; for one who
//! keeps all, entries are made that have nothing but their block.

use std::sync::{Arc, OnceLock};

use diskstream_core::block;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

use crate::entry::{Block, Entry, Passing};

/// Entries of one list. The garbage collector looks at what was made lately whenever that is 700 objects more than were
/// let go, so lists of a whole block would be looked at again and again.
const LIST_ENTRIES: usize = 128;
const SHELF_BLOCKS: usize = 32;
const SHELF_BYTES: usize = 256 << 10;
/// The variables of a loop hold the last entry, and perhaps those before it: that is not keeping.
const HELD_BY_LOOPS: usize = 3;

/// Whether this reference is the only one there is.
#[inline]
#[expect(deprecated, reason = "what stands in its place is unsafe code, and does the same")]
pub fn held_once<T>(py: Python<'_>, object: &Py<T>) -> bool {
    object.get_refcnt(py) == 1
}

/// Blocks that an entry can move between: it names one by its number.
pub struct Shelf {
    first: Arc<block::Block>,
    more: [OnceLock<Arc<block::Block>>; SHELF_BLOCKS - 1],
}

impl Shelf {
    fn new(first: Arc<block::Block>) -> Shelf {
        Shelf { first, more: [const { OnceLock::new() }; SHELF_BLOCKS - 1] }
    }

    /// A block that was put here; the first for any other number.
    #[inline]
    pub fn block(&self, number: u32) -> &block::Block {
        let more = (number as usize).checked_sub(1).and_then(|number| self.more.get(number)?.get());
        more.unwrap_or(&self.first)
    }
}

/// The shelf that is being filled.
struct Filling {
    shelf: Arc<Shelf>,
    /// The number of the last block.
    number: u32,
    size_bytes: usize,
    text: bool,
}

impl Filling {
    fn new(block: &Block) -> Filling {
        let shelf = Arc::new(Shelf::new(Arc::clone(&block.block)));
        Filling { shelf, number: 0, size_bytes: block.block.memory_bytes(), text: block.text }
    }

    /// Adds a block; false where there is no room for it.
    fn put(&mut self, block: &Block) -> bool {
        let size_bytes = self.size_bytes.saturating_add(block.block.memory_bytes());
        let free = self.shelf.more.get(self.number as usize);
        let Some(free) = free.filter(|_| size_bytes <= SHELF_BYTES && block.text == self.text) else { return false };
        self.number += 1;
        self.size_bytes = size_bytes;
        free.set(Arc::clone(&block.block)).is_ok()
    }
}

/// What the one who is given entries does with them, as far as was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    LetsGo,
    KeepsSome,
    KeepsAll,
}

/// What is left of a block.
struct Rest {
    block: Py<Block>,
    from: usize,
    to: usize,
}

#[pyclass(module = "diskstream._native")]
pub struct EntryLists {
    blocks: Py<PyIterator>,
    reverse: bool,
    left: usize,
    rest: Option<Rest>,
    filling: Option<Filling>,
    /// Entries of the last lists, all on the shelf that is being filled; the first `last` of them are the last list.
    given: Vec<Py<Passing>>,
    last: usize,
    /// Entries at the end of the list before: what is held of them is kept, most likely, if it still is a list later.
    doubtful: Vec<Py<Passing>>,
    caller: Caller,
    /// The rows of a list; kept for its memory.
    rows: Vec<u32>,
}

/// The live entries of blocks in lists of a few, from the end of each block where `reverse`, at most `limit` of them.
#[pyfunction]
#[pyo3(signature = (blocks, reverse=false, limit=None))]
pub fn entry_lists(blocks: &Bound<'_, PyAny>, reverse: bool, limit: Option<usize>) -> PyResult<EntryLists> {
    Ok(EntryLists {
        blocks: blocks.try_iter()?.unbind(),
        reverse,
        left: limit.unwrap_or(usize::MAX),
        rest: None,
        filling: None,
        given: Vec::new(),
        last: 0,
        doubtful: Vec::new(),
        caller: Caller::LetsGo,
        rows: Vec::new(),
    })
}

#[pymethods]
impl EntryLists {
    fn __iter__(slf: PyRef<'_, EntryLists>) -> PyRef<'_, EntryLists> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        while self.left > 0 {
            if self.take_rows() {
                return self.list(py).map(Some);
            }
            let Some(block) = self.blocks.bind(py).clone().next() else { break };
            self.begin(block?.cast_into::<Block>()?);
        }
        (self.rest, self.filling) = (None, None);
        self.given.clear();
        self.doubtful.clear();
        Ok(None)
    }
}

impl EntryLists {
    fn begin(&mut self, block: Bound<'_, Block>) {
        let inner = block.get();
        let may_share = self.caller == Caller::LetsGo;
        if !self.filling.as_mut().is_some_and(|filling| may_share && filling.put(inner)) {
            self.filling = Some(Filling::new(inner));
            self.given.clear();
        }
        self.rest = Some(Rest { from: inner.from, to: inner.to, block: block.unbind() });
    }

    /// The next rows of the block into `rows`; false where it has none left.
    fn take_rows(&mut self) -> bool {
        self.rows.clear();
        let Some(rest) = &mut self.rest else { return false };
        let some = self.left.min(LIST_ENTRIES);
        let block = rest.block.get();
        let live = (rest.from..rest.to).filter(|row| block.is_live(*row));
        if self.reverse {
            self.rows.extend(live.rev().take(some).map(|row| row as u32));
        } else {
            self.rows.extend(live.take(some).map(|row| row as u32));
        }
        match self.rows.last().copied() {
            Some(last) if self.reverse => rest.to = last as usize,
            Some(last) => rest.from = last as usize + 1,
            None => self.rest = None,
        }
        self.left -= self.rows.len();
        !self.rows.is_empty()
    }

    fn list<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (Some(filling), false) = (&self.filling, self.caller == Caller::KeepsAll) else {
            return self.list_kept(py);
        };
        let made = |row: u32| Passing::made(py, Arc::clone(&filling.shelf), filling.number, row, filling.text);
        let (mut held, looked_at) = (0, self.given.len().min(self.rows.len()));
        let mut kept = self.doubtful.drain(..).any(|entry| !held_once(py, &entry));
        for (at, (entry, row)) in self.given.iter_mut().zip(&self.rows).enumerate() {
            if Passing::move_on(entry, py, filling.number, *row) {
                continue;
            }
            held += 1;
            let old = std::mem::replace(entry, made(*row)?);
            if at + HELD_BY_LOOPS < self.last {
                kept = true;
            } else {
                self.doubtful.push(old);
            }
        }
        if held == looked_at && held > HELD_BY_LOOPS {
            self.caller = Caller::KeepsAll;
        } else if kept {
            self.caller = Caller::KeepsSome;
        }
        for row in self.rows.iter().skip(self.given.len()) {
            self.given.push(made(*row)?);
        }
        self.last = self.rows.len();
        PyList::new(py, self.given.iter().take(self.rows.len()))
    }

    /// The same for one who keeps them.
    fn list_kept<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.given.clear();
        self.doubtful.clear();
        let Some(rest) = &self.rest else { return Ok(PyList::empty(py)) };
        let Block { block, text, .. } = rest.block.get();
        let made = self.rows.iter().map(|row| Py::new(py, Entry::at(Arc::clone(block), *row, *text)));
        PyList::new(py, made.collect::<PyResult<Vec<_>>>()?)
    }
}

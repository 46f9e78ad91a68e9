//! Sealed segments.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use diskstream_core::block;
use diskstream_core::columns::Columns;
use diskstream_core::error::Error;
use diskstream_core::id::Id;
use diskstream_core::node::NodeReader;
use diskstream_core::plurals::number_of;
use diskstream_core::sealed::{Footer, SegmentKey, FOOTER_BYTES, SEGMENT_HEADER_BYTES};
use diskstream_core::sparse::{Index, Pages, Source};
use diskstream_core::state::SegmentMeta;
use diskstream_sys::{io as sys_io, map::Map};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::bytes_of;
use crate::columns::ColumnBatch;
use crate::entry::{Block, Entry};
use crate::errors::{self, failure, Failure};
use crate::id::{parse, EntryId};
use crate::nodes::NodeCache;
use crate::segments::SegmentView;

/// A sealed segment: its footer, its mapped index, its nodes by `pread`.
#[pyclass(frozen, module = "diskstream._native")]
pub struct SealedSegment {
    pub path: String,
    file: SegmentFile,
    pub footer: Footer,
    index: MappedIndex,
    pub cache: Py<NodeCache>,
    /// Tells this opening's nodes from those of another file in the cache.
    serial: u64,
    text: bool,
}

/// Entries, raw bytes, and each bad node with its fault.
type Verified = (u64, u64, Vec<(usize, Py<PyAny>)>);

const PAGE: u64 = 4096;
/// Of packed nodes in one call, and of what they unpack to.
const ENOUGH_BYTES: usize = 128 << 10;
const ENOUGH_UNPACKED_BYTES: usize = 4 << 20;

fn io_fault(action: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::Io(action, error)
}

/// The file of a segment.
struct SegmentFile(File);

impl Source for SegmentFile {
    fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>, Error> {
        let mut buffer = Vec::new();
        sys_io::pread(self.0.as_raw_fd(), &mut buffer, offset, size)
            .map_err(|error| Error::Unread { code: error.raw_os_error() })?;
        Ok(buffer)
    }
}

/// The sparse index: its page rows, and the mapped end of the file where its rows are.
struct MappedIndex {
    pages: Pages,
    map: Map,
    start: usize,
}

impl MappedIndex {
    /// Maps the page where it begins, up to the end of the file.
    fn new(file: &SegmentFile, footer: &Footer) -> Result<MappedIndex, Failure> {
        let pages = Pages::new(&file.read(footer.pages_offset(), footer.pages_bytes())?, footer)?;
        let from = footer.index_offset / PAGE * PAGE;
        let size = footer.file_length - from;
        let len = usize::try_from(size).map_err(|_| Error::corrupt("segment footer", 136, "less to map", size))?;
        let map = Map::new(file.0.as_raw_fd(), from, len, false).map_err(io_fault("map"))?;
        Ok(MappedIndex { pages, map, start: (footer.index_offset - from) as usize })
    }

    fn of<'a>(&'a self, footer: &'a Footer, file: &'a SegmentFile) -> Result<Index<'a>, Error> {
        Index::new(self.map.bytes().get(self.start..).unwrap_or(&[]), footer, &self.pages, Some(file))
    }
}

impl SealedSegment {
    /// Opens a file and checks its ends. With `by_page` a page of the index is compared when it is first touched.
    fn open(fd: RawFd, by_page: bool) -> Result<(SegmentFile, Footer, MappedIndex), Failure> {
        let file = SegmentFile(sys_io::duplicate(fd).map_err(io_fault("open"))?);
        let size = file.0.metadata().map_err(io_fault("stat"))?.len();
        let short =
            |size| Error::corrupt("sealed segment", 0, "a header, an index and a footer", number_of(size, "byte"));
        let footer_at = size.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| short(size))?;
        let mut buffer = Vec::new();
        sys_io::pread(fd, &mut buffer, 0, SEGMENT_HEADER_BYTES.min(size as usize)).map_err(io_fault("read"))?;
        let key = SegmentKey::parse_header(&buffer)?;
        sys_io::pread(fd, &mut buffer, footer_at, FOOTER_BYTES).map_err(io_fault("read"))?;
        let footer = Footer::parse(&buffer, size)?;
        if footer.key != key {
            return Err(Error::corrupt("segment footer", footer_at, "the footer of this file", "another's").into());
        }
        let mapped = MappedIndex::new(&file, &footer)?;
        if by_page && footer.pages() > 0 {
            mapped.map.read_at_random();
        } else {
            mapped.of(&footer, &file)?.check()?;
        }
        Ok((file, footer, mapped))
    }

    pub fn index(&self) -> Result<Index<'_>, Error> {
        self.index.of(&self.footer, &self.file)
    }

    /// Reads and checks one node, from the cache where it is there.
    pub fn node(&self, number: usize, cache: Option<&NodeCache>) -> Result<(Arc<block::Block>, u64), Failure> {
        let row = self.index()?.row(number)?;
        if let Some(block) = cache.and_then(|cache| cache.get((self.serial, number))) {
            return Ok((block, row.before));
        }
        let read = self.cache.get().unpacking(|(reader, buffer)| self.read_node(number, reader, buffer));
        let block = Arc::new(read?);
        if let Some(cache) = cache {
            cache.put((self.serial, number), &block);
        }
        Ok((block, row.before))
    }

    /// Some nodes from the first one on: see `read_blocks`.
    fn some_nodes(
        &self,
        numbers: std::ops::Range<usize>,
        cache: Option<&NodeCache>,
    ) -> Result<Vec<(Arc<block::Block>, u64)>, Failure> {
        let (mut found, mut packed, mut unpacked) = (Vec::new(), 0, 0);
        for number in numbers {
            match self.node(number, cache) {
                Ok(node) => {
                    unpacked += node.0.memory_bytes();
                    found.push(node);
                }
                Err(error) if found.is_empty() => return Err(error),
                Err(_) => break,
            }
            packed += self.index()?.row(number)?.length as usize;
            if packed >= ENOUGH_BYTES || unpacked >= ENOUGH_UNPACKED_BYTES {
                break;
            }
        }
        Ok(found)
    }

    /// Reads and checks node `number` without a cache.
    pub fn read_node(
        &self,
        number: usize,
        reader: &mut NodeReader,
        buffer: &mut Vec<u8>,
    ) -> Result<block::Block, Failure> {
        let index = self.index()?;
        let row = index.row(number)?;
        let end = row.offset.checked_add(u64::from(row.length));
        if end.is_none_or(|end| end > self.footer.index_offset) {
            let found = format!("{} from {} on", number_of(row.length.into(), "byte"), row.offset);
            return Err(Error::corrupt("index row", index.offset_of(number), "a node before the index", found).into());
        }
        sys_io::pread(self.file.0.as_raw_fd(), buffer, row.offset, row.length as usize).map_err(io_fault("read"))?;
        let block = reader.read(buffer, self.footer.key.salt, number as u32, row.offset)?;
        if block.len() != row.entries as usize || block.id(0) != Some(row.first) {
            return Err(Error::corrupt("node", row.offset, "what its index row says", "other entries").into());
        }
        Ok(block)
    }

    /// See `live_node`.
    pub fn live_from(&self, number: usize, meta: &SegmentMeta) -> Result<usize, Error> {
        let index = self.index()?;
        if number >= index.rows() {
            return Ok(number);
        }
        let position = meta.next_live(index.row(number)?.before);
        if position >= meta.entries {
            return Ok(index.rows());
        }
        Ok(index.node_of_position(position)?.max(number))
    }

    fn fail(&self, py: Python<'_>, error: Failure) -> PyErr {
        failure(py, &self.path, error)
    }

    /// Nodes `from..to` as columns: all rows that are live and within `start..=end`.
    fn fill(
        &self,
        columns: &mut Columns,
        nodes: std::ops::Range<usize>,
        range: (Id, Id),
        meta: &Arc<SegmentMeta>,
    ) -> Result<(), Failure> {
        // One of its own, whose memory goes with it: nodes may be large.
        let (mut reader, mut buffer) = (NodeReader::default(), Vec::new());
        for number in nodes {
            let before = self.index()?.row(number)?.before;
            let block = Arc::new(self.read_node(number, &mut reader, &mut buffer)?);
            let part = Block::clipped(block, before, range, Some(meta), false);
            let live = |row: usize| part.is_live(row);
            let filter: Option<&dyn Fn(usize) -> bool> = if part.gone.is_some() { Some(&live) } else { None };
            columns.push(&part.block, part.from, part.to, filter)?;
        }
        Ok(())
    }
}

#[pymethods]
impl SealedSegment {
    /// Opens a sealed file: checks header, footer and index, and that it is segment `number` of stream `uuid`.
    #[new]
    #[pyo3(signature = (fd, path, uuid, number, cache, text=false, by_page=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        fd: RawFd,
        path: String,
        uuid: [u8; 16],
        number: u64,
        cache: Py<NodeCache>,
        text: bool,
        by_page: bool,
    ) -> PyResult<SealedSegment> {
        let (file, footer, index) =
            py.detach(|| SealedSegment::open(fd, by_page)).map_err(|error| failure(py, &path, error))?;
        if (footer.key.uuid, footer.key.segment) != (uuid, number) {
            let expected = format!("segment {number} of this stream");
            let found = format!("segment {} of stream {}", footer.key.segment, errors::hex(&footer.key.uuid));
            return Err(errors::core(py, &path, Error::corrupt("sealed segment", 0, expected, found)));
        }
        let serial = next_serial();
        Ok(SealedSegment { path, file, footer, index, cache, serial, text })
    }

    /// Opens the sealed file of segment `view` by its path, a page of its index at a time, where nothing else is to be
    /// said or done. None otherwise, for whatever reason: the log file it was made from is still there, or it is missing,
    /// damaged, another stream's. Who opens it the long way hears which.
    #[staticmethod]
    fn at_hand(
        py: Python<'_>,
        log_path: &str,
        path: String,
        uuid: [u8; 16],
        view: &SegmentView,
        cache: Py<NodeCache>,
        text: bool,
    ) -> Option<SealedSegment> {
        let meta = &view.meta;
        let (file, footer, index) = py.detach(|| {
            let is_gone = || std::fs::metadata(log_path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
            if meta.generation == 0 && !is_gone() {
                return None;
            }
            // Two descriptors for a moment, as the long way: the last one is left to the application.
            SealedSegment::open(sys_io::open_regular(&path).ok()?.as_raw_fd(), true).ok()
        })?;
        let is_its = (footer.key.uuid, footer.key.segment, footer.entries) == (uuid, meta.number, meta.entries);
        is_its.then(|| SealedSegment { path, file, footer, index, cache, serial: next_serial(), text })
    }

    /// The node that holds `id`, or would.
    fn node_of_id(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<usize> {
        let id = parse(id, 0)?;
        self.index().and_then(|index| index.node_of_id(id)).map_err(|error| errors::core(py, &self.path, error))
    }

    fn node_of_position(&self, py: Python<'_>, position: u64) -> PyResult<usize> {
        let found = self.index().and_then(|index| index.node_of_position(position));
        found.map_err(|error| errors::core(py, &self.path, error))
    }

    /// `(offset, length, entries before, entries, first ID)` of a node.
    fn node_row(&self, py: Python<'_>, number: usize) -> PyResult<(u64, u32, u64, u32, EntryId)> {
        let row = self.index().and_then(|index| index.row(number)).map_err(|e| errors::core(py, &self.path, e))?;
        Ok((row.offset, row.length, row.before, row.entries, EntryId::of(row.first)))
    }

    /// Reads one node, within `start..=end` and without what `view` says is gone.
    #[pyo3(signature = (number, start, end, view, cached=true))]
    fn read_block(
        &self,
        py: Python<'_>,
        number: usize,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        view: Option<&SegmentView>,
        cached: bool,
    ) -> PyResult<Block> {
        let range = (parse(start, 0)?, parse(end, u64::MAX)?);
        let cache = cached.then(|| self.cache.get());
        let (block, before) = py.detach(|| self.node(number, cache)).map_err(|error| self.fail(py, error))?;
        Ok(Block::clipped(block, before, range, view.map(|view| &view.meta), self.text))
    }

    /// Reads nodes `first..stop` as `read_block`, without the interpreter's lock for all of them: at least one, and no more
    /// than are some hundred kilobytes, or a few megabytes unpacked. Ends before one that cannot be read, which is then the first of the next call.
    #[pyo3(signature = (first, stop, start, end, view, cached=true))]
    #[allow(clippy::too_many_arguments)]
    fn read_blocks(
        &self,
        py: Python<'_>,
        first: usize,
        stop: usize,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        view: &SegmentView,
        cached: bool,
    ) -> PyResult<Vec<Block>> {
        let range = (parse(start, 0)?, parse(end, u64::MAX)?);
        let cache = cached.then(|| self.cache.get());
        let found = py.detach(|| self.some_nodes(first..stop, cache)).map_err(|error| self.fail(py, error))?;
        let blocks = found.into_iter();
        Ok(blocks.map(|(block, before)| Block::clipped(block, before, range, Some(&view.meta), self.text)).collect())
    }

    /// The first node from `number` on that has a live entry; behind the last one where none has.
    fn live_node(&self, py: Python<'_>, number: usize, view: &SegmentView) -> PyResult<usize> {
        self.live_from(number, &view.meta).map_err(|error| errors::core(py, &self.path, error))
    }

    /// The last node up to `number` that has a live entry; None where none has.
    fn live_node_back(&self, py: Python<'_>, number: usize, view: &SegmentView) -> PyResult<Option<usize>> {
        let found = self.index().and_then(|index| {
            let end = if number + 1 < index.rows() { index.row(number + 1)?.before } else { view.meta.entries };
            let Some(last) = view.meta.live_end(end).checked_sub(1) else { return Ok(None) };
            Ok(Some(index.node_of_position(last)?.min(number)))
        });
        found.map_err(|error| errors::core(py, &self.path, error))
    }

    /// The live entry with this ID, or None.
    fn find(&self, py: Python<'_>, id: &Bound<'_, PyAny>, view: &SegmentView) -> PyResult<Option<Entry>> {
        let number = self.node_of_id(py, id)?;
        let wanted = parse(id, 0)?;
        let (block, before) = self.node(number, Some(self.cache.get())).map_err(|error| self.fail(py, error))?;
        Block::clipped(block, before, (wanted, wanted), Some(&view.meta), self.text).find_one(wanted)
    }

    /// Columns of the live entries within `start..=end`, one batch for each thread, in order.
    #[pyo3(signature = (start, end, view, fields, duplicates, threads))]
    #[allow(clippy::too_many_arguments)]
    fn columns(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        view: &SegmentView,
        fields: Option<Vec<Vec<u8>>>,
        duplicates: &str,
        threads: usize,
    ) -> PyResult<Vec<ColumnBatch>> {
        let range = (parse(start, 0)?, parse(end, u64::MAX)?);
        let index = self.index().map_err(|error| errors::core(py, &self.path, error))?;
        let bounds = index.node_of_id(range.0).and_then(|first| Ok((first, index.node_of_id(range.1)? + 1)));
        let (first, last) = bounds.map_err(|error| errors::core(py, &self.path, error))?;
        let last = last.min(index.rows()).max(first);
        let empty = ColumnBatch::empty(py, fields, duplicates)?;
        let share = (last - first).div_ceil(threads.max(1)).max(1);
        let starts: Vec<usize> = (first..last).step_by(share).collect();
        let work = |from: usize| {
            let mut columns = empty.clone();
            self.fill(&mut columns, from..(from + share).min(last), range, &view.meta).map(|()| columns)
        };
        let work = &work;
        let built: Vec<Result<Columns, Failure>> = py.detach(|| {
            std::thread::scope(|scope| {
                // Where the system starts no more threads, this one does their share.
                let begin = |from: usize| std::thread::Builder::new().spawn_scoped(scope, move || work(from)).ok();
                let handles: Vec<_> = starts.iter().skip(1).map(|from| (*from, begin(*from))).collect();
                let mut built: Vec<_> = starts.first().map(|from| work(*from)).into_iter().collect();
                for (from, handle) in handles {
                    built.push(match handle {
                        Some(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                        None => work(from),
                    });
                }
                built
            })
        });
        let batches = built.into_iter().map(|columns| columns.map(ColumnBatch::new)).collect::<Result<Vec<_>, _>>();
        batches.map_err(|error| self.fail(py, error))
    }

    /// Reads every node and the copy of the snapshot; the first fault is raised.
    fn verify(&self, py: Python<'_>, number: usize) -> PyResult<u64> {
        let (block, _) = py.detach(|| self.node(number, None)).map_err(|error| self.fail(py, error))?;
        Ok(block.len() as u64)
    }

    /// Reads and checks the nodes `from..to` in one go: entries, bytes of names and values, and the fault of each bad one.
    fn verify_run(&self, py: Python<'_>, from: usize, to: usize) -> PyResult<Verified> {
        let (entries, bytes, faults) = py.detach(|| {
            let (mut reader, mut buffer, mut faults) = (NodeReader::default(), Vec::new(), Vec::new());
            let (mut entries, mut bytes) = (0u64, 0u64);
            for number in from..to.min(self.footer.nodes as usize) {
                match self.read_node(number, &mut reader, &mut buffer) {
                    Ok(block) => {
                        entries += block.len() as u64;
                        bytes += NodeReader::raw_bytes(&buffer) as u64;
                    }
                    Err(fault) => faults.push((number, fault)),
                }
            }
            (entries, bytes, faults)
        });
        let faults = faults.into_iter().map(|(number, fault)| (number, self.fail(py, fault).into_value(py).into_any()));
        Ok((entries, bytes, faults.collect()))
    }

    /// The copy of the successor's snapshot frame, checked; empty where there is none.
    fn snapshot_copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let copy = read_copy(&self.file, &self.footer).map_err(|error| self.fail(py, error))?;
        bytes_of(py, &copy)
    }

    /// The same of a file whose stream's uuid is not known, because the log that has it is damaged.
    #[staticmethod]
    fn copy_of<'py>(py: Python<'py>, fd: RawFd, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let copy = SealedSegment::open(fd, false).and_then(|(file, footer, _)| read_copy(&file, &footer));
        bytes_of(py, &copy.map_err(|error| failure(py, path, error))?)
    }

    #[getter]
    fn nodes(&self) -> u32 {
        self.footer.nodes
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.footer.entries
    }

    #[getter]
    fn generation(&self) -> u32 {
        self.footer.key.generation
    }

    #[getter]
    fn first(&self) -> EntryId {
        EntryId::of(self.footer.first)
    }

    #[getter]
    fn last(&self) -> EntryId {
        EntryId::of(self.footer.last)
    }

    #[getter]
    fn file_bytes(&self) -> u64 {
        self.footer.file_length
    }

    /// Bytes of names and values before packing.
    #[getter]
    fn raw_bytes(&self) -> u64 {
        self.footer.raw_bytes
    }

    #[getter]
    fn times_ms(&self) -> (u64, u64) {
        (self.footer.min_time_ms, self.footer.max_time_ms)
    }
}

fn read_copy(file: &SegmentFile, footer: &Footer) -> Result<Vec<u8>, Failure> {
    let (at, length) = (footer.snapshot_offset, footer.snapshot_length);
    if at.checked_add(length).is_none_or(|end| end > footer.index_offset) {
        return Err(Error::corrupt("snapshot copy", at, "a place before the index", length).into());
    }
    let mut buffer = Vec::new();
    sys_io::pread(file.0.as_raw_fd(), &mut buffer, at, length as usize).map_err(io_fault("read"))?;
    let crc = diskstream_core::checksum(&buffer);
    if crc != footer.snapshot_crc {
        let expected = format!("checksum {:08x}", footer.snapshot_crc);
        return Err(Error::corrupt("snapshot copy", at, expected, format!("{crc:08x}")).into());
    }
    Ok(buffer)
}

/// A number never given before in this process.
fn next_serial() -> u64 {
    static SERIAL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

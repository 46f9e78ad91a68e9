//! The audit: frames of groups, out of logs and out of the files that keep them.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};

use diskstream_core::audit::{self, AuditBuilder, AuditFooter, AuditKey, BlockHead};
use diskstream_core::audit_rows::{rows_of, AuditRow, Names, Walk};
use diskstream_core::error::{push, Error};
use diskstream_core::group_ops::Op;
use diskstream_core::plurals::number_of;
use diskstream_core::tail::Tail;
use diskstream_sys::{io as sys_io, map::Map};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{failure, hex, Failure};
use crate::file::LogFile;
use crate::id::EntryId;
use crate::log::Log;
use crate::segments::RowSegment;

/// `(time ms, LSN, action, group, consumer, ID, deliveries, owner before)`.
type Row<'py> = (
    u64,
    u64,
    &'static str,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    Option<EntryId>,
    Option<u64>,
    Option<Bound<'py, PyBytes>>,
);

/// Rows are handed out when there are so many, or at the next frame's end.
const ROWS_AT_ONCE: usize = 4096;
/// Bytes of an audit file are handed out when there are so many.
const BYTES_AT_ONCE: usize = 1 << 20;

type Found = Vec<(u64, u64, AuditRow)>;

fn note(found: &mut Found, span: (u64, u64), lsn: u64, time_ms: u64, ops: &[Op]) -> Result<(), Error> {
    if (span.0..=span.1).contains(&time_ms) {
        let mut kept = Ok(());
        rows_of(ops, |row| {
            if kept.is_ok() {
                kept = push(found, (time_ms, lsn, row), "rows of an audit");
            }
        })?;
        return kept;
    }
    Ok(())
}

fn shown<'py>(py: Python<'py>, names: &Names, found: &Found) -> Vec<Row<'py>> {
    let show = |(time_ms, lsn, row): &(u64, u64, AuditRow)| {
        let consumer = |number: Option<u32>| Some(PyBytes::new(py, &names.consumer(row.group?, number?)));
        let group = row.group.map(|group| PyBytes::new(py, &names.group(group)));
        let id = row.id.map(EntryId::of);
        (*time_ms, *lsn, row.action, group, consumer(row.consumer), id, row.deliveries, consumer(row.owner))
    };
    found.iter().map(show).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Where the frames behind the snapshot of a log begin.
struct Begin {
    salt: u32,
    uuid: [u8; 16],
    number: u64,
    at: u64,
    link: u32,
    end: Option<u64>,
}

impl Begin {
    fn of(tail: &Tail, end: Option<u64>) -> Begin {
        let (header, (_, link, _)) = (tail.header, tail.begun);
        let at = tail.snapshot.0 + tail.snapshot.1;
        Begin { salt: header.salt, uuid: header.uuid, number: header.segment, at, link, end }
    }
}

struct Reading {
    walk: Walk,
    names: Names,
    builder: Option<AuditBuilder>,
    done: bool,
}

/// The frames of groups of one log file, from the first to the last; read once, either as rows or as an audit file.
#[pyclass(frozen, module = "diskstream._native")]
pub struct AuditLog {
    map: Arc<Map>,
    path: String,
    uuid: [u8; 16],
    number: u64,
    reading: Mutex<Reading>,
}

impl AuditLog {
    /// `known` are the names that stand in for those of a damaged snapshot.
    fn of(map: Arc<Map>, path: String, begin: Begin, known: impl FnOnce() -> Names) -> AuditLog {
        let names = Tail::begin(map.bytes()).map_or_else(|_| known(), |tail| Names::of(&tail.state.groups));
        let walk = Walk::new(begin.salt, begin.at, begin.link, begin.end);
        let reading = Mutex::new(Reading { walk, names, builder: None, done: false });
        AuditLog { map, path, uuid: begin.uuid, number: begin.number, reading }
    }

    fn find(&self, span: (u64, u64)) -> Result<Option<Found>, Error> {
        let mut reading = locked(&self.reading);
        let mut found = Vec::new();
        while !reading.done && found.len() < ROWS_AT_ONCE {
            match reading.walk.next(self.map.bytes())? {
                Some((header, ops, _)) => {
                    ops.iter().for_each(|op| reading.names.learn(op));
                    note(&mut found, span, header.lsn, header.time_ms, &ops)?;
                }
                None => reading.done = true,
            }
        }
        let over = reading.done && found.is_empty();
        Ok((!over).then_some(found))
    }

    fn pack_some(&self, salt: u32, level: i32) -> Result<Vec<u8>, Error> {
        let mut guard = locked(&self.reading);
        let reading = &mut *guard;
        let mut out = Vec::new();
        while !reading.done && out.len() < BYTES_AT_ONCE {
            match reading.walk.next(self.map.bytes())? {
                Some((header, ops, records)) => {
                    ops.iter().for_each(|op| reading.names.learn(op));
                    let key = AuditKey { uuid: self.uuid, segment: self.number, salt };
                    let builder = reading.builder.get_or_insert_with(|| AuditBuilder::new(key, level, &mut out));
                    builder.push((header.lsn, header.time_ms), (&ops, records), &reading.names, &mut out)?;
                }
                None => {
                    reading.done = true;
                    if let Some(builder) = reading.builder.take() {
                        builder.finish(&mut out)?;
                    }
                }
            }
        }
        Ok(out)
    }
}

#[pymethods]
impl AuditLog {
    /// A rolled log file, of which nothing is known but whose it must be.
    #[new]
    fn new(py: Python<'_>, file: &LogFile, uuid: [u8; 16], number: u64) -> PyResult<AuditLog> {
        let (map, path) = (file.inner.map(), file.inner.path.clone());
        let tail = py.detach(|| -> Result<Tail, Error> {
            let tail = Tail::begin(map.bytes())?;
            if (tail.header.uuid, tail.header.segment) != (uuid, number) {
                let expected = format!("segment {number} of this stream");
                return Err(Error::corrupt("log header", 0, expected, format!("segment {}", tail.header.segment)));
            }
            Ok(tail)
        });
        let tail = tail.map_err(|error| failure(py, &path, error.into()))?;
        Ok(AuditLog::of(map, path, Begin::of(&tail, None), Names::default))
    }

    /// The number of the segment.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The next rows whose time is within `start_ms..=end_ms`; None behind the last.
    fn next<'py>(&self, py: Python<'py>, start_ms: u64, end_ms: u64) -> PyResult<Option<Vec<Row<'py>>>> {
        let found = py.detach(|| self.find((start_ms, end_ms)));
        let found = found.map_err(|error| failure(py, &self.path, error.into()))?;
        Ok(found.map(|rows| shown(py, &locked(&self.reading).names, &rows)))
    }

    /// The next bytes of an audit file of this log; none behind the last, or where it has no frame of groups.
    fn pack<'py>(&self, py: Python<'py>, salt: u32, level: i32) -> PyResult<Bound<'py, PyBytes>> {
        let out = py.detach(|| self.pack_some(salt, level));
        out.map(|bytes| PyBytes::new(py, &bytes)).map_err(|error| failure(py, &self.path, error.into()))
    }
}

#[pymethods]
impl Log {
    /// The frames of groups of the active segment, as of what is visible now.
    fn audit(&self, py: Python<'_>) -> AuditLog {
        let (map, begin) = {
            let active = self.lock_brief(py);
            (Arc::clone(&active.map), Begin::of(&active.tail, Some(self.visible_end(&active))))
        };
        let known = || Names::of(&self.lock().tail.state.groups);
        py.detach(|| AuditLog::of(map, self.path(), begin, known))
    }
}

#[pymethods]
impl RowSegment {
    /// The frames of groups of this log, up to its last whole frame. `path` is for what is reported.
    fn audit(&self, py: Python<'_>, path: String) -> AuditLog {
        py.detach(|| {
            AuditLog::of(Arc::clone(&self.map), path, Begin::of(&self.tail, Some(self.tail.end)), Names::default)
        })
    }
}

struct Place {
    number: u32,
    offset: u64,
    frames: u64,
}

/// An audit file: header, footer and names are checked when it is opened, each block when it is read.
#[pyclass(frozen, module = "diskstream._native")]
pub struct AuditFile {
    path: String,
    file: File,
    footer: AuditFooter,
    names: Names,
    place: Mutex<Place>,
}

fn io_fault(action: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::Io(action, error)
}

impl AuditFile {
    fn open(fd: RawFd) -> Result<(File, AuditFooter, Names), Failure> {
        let file = sys_io::duplicate(fd).map_err(io_fault("open"))?;
        let size = file.metadata().map_err(io_fault("stat"))?.len();
        let least = (audit::HEADER_BYTES + audit::BLOCK_HEAD_BYTES + audit::FOOTER_BYTES) as u64;
        if size < least {
            let found = number_of(size, "byte");
            return Err(Error::corrupt("audit file", 0, "a header, names and a footer", found).into());
        }
        let mut buffer = Vec::new();
        sys_io::pread(fd, &mut buffer, 0, audit::HEADER_BYTES).map_err(io_fault("read"))?;
        let key = AuditKey::parse_header(&buffer)?;
        let footer_at = size - audit::FOOTER_BYTES as u64;
        sys_io::pread(fd, &mut buffer, footer_at, audit::FOOTER_BYTES).map_err(io_fault("read"))?;
        let footer = AuditFooter::parse(&buffer, size).map_err(|error| error.at(footer_at))?;
        if footer.key != key {
            return Err(Error::corrupt("audit footer", footer_at, "the footer of this file", "another's").into());
        }
        let raw = read_block(fd, &footer, footer.blocks, footer.names_offset, footer_at)?;
        let names = audit::read_names(&raw).map_err(|error| error.at(footer.names_offset))?;
        Ok((file, footer, names))
    }

    /// The next block with frames within `span`, by its contents; None behind the last.
    fn find(&self, span: (u64, u64)) -> Result<Option<Found>, Failure> {
        let mut place = locked(&self.place);
        if place.number >= self.footer.blocks {
            if place.offset != self.footer.names_offset || place.frames != self.footer.frames {
                let expected =
                    format!("{} up to offset {}", number_of(self.footer.frames, "frame"), self.footer.names_offset);
                return Err(Error::corrupt("audit file", place.offset, expected, place.frames).into());
            }
            return Ok(None);
        }
        let mut found = Vec::new();
        let limit = self.footer.names_offset;
        let head = read_head(self.file.as_raw_fd(), &self.footer, place.number, place.offset, limit)?;
        let next = place.offset + (audit::BLOCK_HEAD_BYTES + head.body_length) as u64;
        if span.0 <= head.times_ms.1 && head.times_ms.0 <= span.1 {
            let raw = read_block(self.file.as_raw_fd(), &self.footer, place.number, place.offset, limit)?;
            let rows = audit::read_frames(&raw, head.items, |lsn, time, ops| note(&mut found, span, lsn, time, &ops));
            rows.map_err(|error| error.at(place.offset))?;
        }
        *place = Place { number: place.number + 1, offset: next, frames: place.frames + u64::from(head.items) };
        Ok(Some(found))
    }
}

fn read_head(fd: RawFd, footer: &AuditFooter, number: u32, offset: u64, limit: u64) -> Result<BlockHead, Failure> {
    let beyond = |size: usize| offset.saturating_add(size as u64) > limit;
    if beyond(audit::BLOCK_HEAD_BYTES) {
        return Err(Error::corrupt("audit block", offset, format!("block {number}"), "the end of the blocks").into());
    }
    let mut buffer = Vec::new();
    sys_io::pread(fd, &mut buffer, offset, audit::BLOCK_HEAD_BYTES).map_err(io_fault("read"))?;
    let head = BlockHead::parse(&buffer, footer.key.salt, number).map_err(|error| error.at(offset))?;
    if beyond(audit::BLOCK_HEAD_BYTES + head.body_length) {
        let found = number_of(head.body_length as u64, "byte");
        return Err(Error::corrupt("audit block", offset, "a body within the file", found).into());
    }
    Ok(head)
}

fn read_block(fd: RawFd, footer: &AuditFooter, number: u32, offset: u64, limit: u64) -> Result<Vec<u8>, Failure> {
    let head = read_head(fd, footer, number, offset, limit)?;
    let mut body = Vec::new();
    let start = offset + audit::BLOCK_HEAD_BYTES as u64;
    sys_io::pread(fd, &mut body, start, head.body_length).map_err(io_fault("read"))?;
    Ok(head.unpack(&body).map_err(|error| error.at(offset))?)
}

#[pymethods]
impl AuditFile {
    #[new]
    fn new(py: Python<'_>, fd: RawFd, path: String, uuid: [u8; 16], number: u64) -> PyResult<AuditFile> {
        let (file, footer, names) = py.detach(|| AuditFile::open(fd)).map_err(|error| failure(py, &path, error))?;
        if (footer.key.uuid, footer.key.segment) != (uuid, number) {
            let expected = format!("the audit of segment {number} of this stream");
            let found = format!("segment {} of stream {}", footer.key.segment, hex(&footer.key.uuid));
            return Err(failure(py, &path, Error::corrupt("audit header", 16, expected, found).into()));
        }
        let place = Mutex::new(Place { number: 0, offset: audit::HEADER_BYTES as u64, frames: 0 });
        Ok(AuditFile { path, file, footer, names, place })
    }

    /// The next rows whose time is within `start_ms..=end_ms`, perhaps none; None behind the last.
    fn next<'py>(&self, py: Python<'py>, start_ms: u64, end_ms: u64) -> PyResult<Option<Vec<Row<'py>>>> {
        let found = py.detach(|| self.find((start_ms, end_ms))).map_err(|error| failure(py, &self.path, error))?;
        Ok(found.map(|rows| shown(py, &self.names, &rows)))
    }

    #[getter]
    fn frames(&self) -> u64 {
        self.footer.frames
    }

    #[getter]
    fn times_ms(&self) -> (u64, u64) {
        self.footer.times_ms
    }

    #[getter]
    fn file_bytes(&self) -> u64 {
        self.footer.file_length
    }
}

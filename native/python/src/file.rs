//! `LogFile`: an open log file, mapped; and `pread` for sealed ones.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use diskstream_sys::{forks, io as sys_io, map::Map};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, failure, Failure};

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The open file and its present mapping.
pub struct Inner {
    pub path: String,
    file: RwLock<Option<Arc<File>>>,
    map: RwLock<Arc<Map>>,
    /// Whether bytes are stored into the mapping.
    stored: AtomicBool,
    /// In forks: a child leaves its parent's files alone.
    made_at: u64,
}

type Outcome<T> = Result<T, Failure>;

impl Inner {
    fn is_left(&self) -> bool {
        self.made_at != forks::count()
    }

    fn open_file(&self) -> Outcome<Arc<File>> {
        if self.is_left() {
            return Err(Failure::Closed);
        }
        self.file.read().ok().and_then(|file| file.clone()).ok_or(Failure::Closed)
    }

    pub fn map(&self) -> Arc<Map> {
        match self.map.read() {
            Ok(map) => Arc::clone(&map),
            Err(poisoned) => Arc::clone(&poisoned.into_inner()),
        }
    }

    /// Maps whatever the file has now. Its size grows only by zeros that are already written.
    pub fn refresh(&self) -> Outcome<Arc<Map>> {
        let file = self.open_file()?;
        let size = file.metadata().map_err(|error| Failure::Io("stat", error))?.len();
        let len = usize::try_from(size).map_err(|_| Failure::Closed)?;
        let fd = file.as_raw_fd();
        let map = if self.stored.load(Ordering::Relaxed) { Map::new(fd, 0, len, true) } else { Map::to_read(fd, len) };
        let map = Arc::new(map.map_err(|error| Failure::Io("map", error))?);
        if let Ok(mut place) = self.map.write() {
            *place = Arc::clone(&map);
        }
        Ok(map)
    }

    /// The present mapping; maps anew where the file has another size by now.
    pub fn resized(&self) -> Outcome<Arc<Map>> {
        let map = self.map();
        let size = self.open_file()?.metadata().map_err(|error| Failure::Io("stat", error))?.len();
        if size == map.len() as u64 {
            return Ok(map);
        }
        self.refresh()
    }

    /// From the next mapping on, nothing is stored into it: all is written by system call.
    pub fn only_pwrite(&self) {
        self.stored.store(false, Ordering::Relaxed);
    }

    pub fn store(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        if self.is_left() {
            return Err(Failure::Closed);
        }
        let stored = usize::try_from(offset).is_ok_and(|offset| self.map().store(offset, data));
        if stored {
            return Ok(());
        }
        let text = "a store outside the mapped part of the file";
        Err(Failure::Io("store into", std::io::Error::new(std::io::ErrorKind::InvalidInput, text)))
    }

    pub fn pwrite(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        sys_io::pwrite(self.open_file()?.as_raw_fd(), data, offset).map_err(|error| Failure::Io("write", error))
    }

    pub fn flush(&self) -> Outcome<()> {
        sys_io::fdatasync(self.open_file()?.as_raw_fd()).map_err(|error| Failure::Io("flush", error))
    }

    fn failed(&self, py: Python<'_>, error: Failure) -> PyErr {
        match error {
            Failure::Closed if self.is_left() => errors::forked(py),
            error => failure(py, &self.path, error),
        }
    }

    fn extend(&self, size: u64) -> Outcome<()> {
        let file = self.open_file()?;
        let mut at = file.metadata().map_err(|error| Failure::Io("stat", error))?.len();
        while at < size {
            let step = usize::try_from(size - at).unwrap_or(ZEROS.len()).min(ZEROS.len());
            let zeros = ZEROS.get(..step).unwrap_or(&ZEROS);
            if let Err(error) = sys_io::pwrite(file.as_raw_fd(), zeros, at) {
                // What there was room for may be enough.
                self.refresh()?;
                return Err(Failure::Io("extend", error));
            }
            at += step as u64;
        }
        self.refresh().map(drop)
    }
}

/// An open log file. Takes over the descriptor.
#[pyclass(frozen, module = "diskstream._native")]
pub struct LogFile {
    pub inner: Arc<Inner>,
}

#[pymethods]
impl LogFile {
    #[new]
    fn new(py: Python<'_>, fd: RawFd, path: String, writable: bool) -> PyResult<LogFile> {
        // The descriptor is duplicated, since only the caller can say that it owns the one it passes.
        let file = sys_io::duplicate(fd).map_err(|error| failure(py, &path, Failure::Io("open", error)))?;
        let empty = Map::new(fd, 0, 0, false).map_err(|error| failure(py, &path, Failure::Io("map", error)))?;
        let (file, map, stored) = (Some(Arc::new(file)), Arc::new(empty), AtomicBool::new(writable));
        let made_at = forks::count();
        let inner = Inner { path, file: RwLock::new(file), map: RwLock::new(map), stored, made_at };
        inner.refresh().map_err(|error| failure(py, &inner.path, error))?;
        Ok(LogFile { inner: Arc::new(inner) })
    }

    /// Copies `data` into the mapping.
    fn store(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<()> {
        self.inner.store(offset, data).map_err(|error| self.inner.failed(py, error))
    }

    /// Writes `data` by system call.
    fn pwrite(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<()> {
        py.detach(|| self.inner.pwrite(offset, data)).map_err(|error| self.inner.failed(py, error))
    }

    /// Writes `data`; it is durable on return, and nothing else is promised.
    fn pwrite_sync(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<()> {
        py.detach(|| {
            let file = self.inner.open_file()?;
            sys_io::pwrite_sync(file.as_raw_fd(), data, offset).map_err(|error| Failure::Io("write", error))
        })
        .map_err(|error| self.inner.failed(py, error))
    }

    /// Writes zeros from the present end up to `size_bytes` and maps them.
    fn extend(&self, py: Python<'_>, size_bytes: u64) -> PyResult<()> {
        py.detach(|| self.inner.extend(size_bytes)).map_err(|error| self.inner.failed(py, error))
    }

    /// fdatasync: what was written and stored, and a size that grew.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.flush()).map_err(|error| self.inner.failed(py, error))
    }

    /// Copies bytes out of the mapping, as far as it goes.
    fn read<'py>(&self, py: Python<'py>, offset: usize, size_bytes: usize) -> Bound<'py, PyBytes> {
        let map = self.inner.map();
        let end = offset.saturating_add(size_bytes).min(map.len());
        PyBytes::new(py, map.bytes().get(offset..end).unwrap_or(&[]))
    }

    /// Bytes mapped: what is zero-filled.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.inner.map().len()
    }

    /// Itself: what is read from, where another object stands in for writing.
    #[getter]
    fn native(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Closes the descriptor; mappings that readers still hold live on.
    fn close(&self) {
        if let Ok(mut file) = self.inner.file.write() {
            *file = None;
        }
    }
}

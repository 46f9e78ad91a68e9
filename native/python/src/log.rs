//! `Log`: the active segment of a stream, as one process sees it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use diskstream_core::error::Error;
use diskstream_core::frame::{self, FrameSpec, Kind};
use diskstream_core::header::{Frontier, LogHeader, HEADER_BYTES};
use diskstream_core::id::Id;
use diskstream_core::scan::{judge, Verdict};
use diskstream_core::snapshot;
use diskstream_core::tail::Tail;
use diskstream_sys::ctl::{Ctl as Page, Word};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::commit::{Active, Flushable, Target, Writer};
use crate::ctl::{place, split, Ctl};
use crate::deliver::Recent;
use crate::errors::{self, failure, reason, Failure};
use crate::file::LogFile;
use crate::segments::RowSegment;

/// The active segment: appending, following, reading what is visible of it.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Log {
    pub(crate) page: Arc<Page>,
    /// Of the segment that it is in, for errors.
    path: RwLock<String>,
    pub(crate) active: Mutex<Active>,
    pub(crate) always: bool,
    pub(crate) segment_bytes: u64,
    /// Pending entries up to this many are held in memory; more, in the view.
    pub(crate) pending_rows: u64,
    /// Whether this opening keeps to itself, and has no view.
    pub(crate) apart: bool,
    pub(crate) text: bool,
    pub(crate) version: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// Nobody may begin to wait any more.
    pub(crate) leaving: AtomicBool,
    pub(crate) recent: Mutex<Option<Recent>>,
    /// Appends under way, their flushes included.
    pub(crate) under_way: AtomicUsize,
    /// Called with a reason and whether the append lock is held; does what an append found missing, or raises.
    pub(crate) resolver: Mutex<Option<Py<PyAny>>>,
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Log {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Active> {
        // A panic elsewhere cannot leave the tail half applied: `applied` is the last thing an append does.
        self.active.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { page: &self.page, always: self.always, segment_bytes: self.segment_bytes }
    }

    pub(crate) fn path(&self) -> String {
        self.path.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn error(&self, py: Python<'_>, error: Failure) -> PyErr {
        self.error_at(py, &self.path(), error)
    }

    fn error_at(&self, py: Python<'_>, path: &str, error: Failure) -> PyErr {
        match error {
            Failure::Closed if self.page.is_left() => errors::forked(py),
            error => failure(py, path, error),
        }
    }

    /// The offset up to which frames of this segment may be shown.
    pub(crate) fn visible_end(&self, active: &Active) -> u64 {
        self.end_by(active, Word::Visible)
    }

    /// The offset in this segment that a position of the page says.
    pub(crate) fn end_by(&self, active: &Active, word: Word) -> u64 {
        let (segment, offset) = split(self.page.get(word));
        match segment.cmp(&active.tail.header.segment) {
            std::cmp::Ordering::Equal => offset.min(active.tail.end),
            std::cmp::Ordering::Greater => active.tail.end,
            std::cmp::Ordering::Less => 0,
        }
    }

    pub(crate) fn latest(&self) -> Result<Flushable, Failure> {
        let mut active = self.lock();
        active.catch_up(&self.page)?;
        let target = match &active.target {
            Target::Native => None,
            Target::Python(object) => Some(Python::attach(|py| object.clone_ref(py))),
        };
        let at = place(active.tail.header.segment, active.tail.end);
        Ok(Flushable { file: Arc::clone(&active.file), target, at, lsn: active.tail.lsn })
    }

    /// The state's lock with the GIL held: whoever else holds it does so for microseconds and never wants the GIL,
    /// except behind a stand-in for files, for which the lock is waited for without the GIL.
    pub(crate) fn lock_brief(&self, py: Python<'_>) -> MutexGuard<'_, Active> {
        loop {
            match self.active.try_lock() {
                Ok(guard) => return guard,
                Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(std::sync::TryLockError::WouldBlock) => py.detach(|| drop(self.lock())),
            }
        }
    }

    pub(crate) fn reason_or(&self, py: Python<'_>, done: Result<(), Failure>) -> PyResult<u8> {
        match done {
            Ok(()) => Ok(0),
            Err(Failure::Reason(code)) => Ok(code),
            Err(error) => Err(self.error(py, error)),
        }
    }

    pub(crate) fn note_version(&self, active: &Active) {
        self.version.store(active.tail.state.version, Ordering::Release);
    }
}

fn target_of(file: &Bound<'_, PyAny>) -> PyResult<(Py<LogFile>, Target)> {
    if let Ok(native) = file.cast_exact::<LogFile>() {
        return Ok((native.clone().unbind(), Target::Native));
    }
    let native = file.getattr("native")?.cast_into::<LogFile>()?;
    Ok((native.unbind(), Target::Python(file.clone().unbind())))
}

fn check_moved(page: &Page) -> Result<(), Failure> {
    if page.flags() & diskstream_sys::ctl::FLAG_MOVED != 0 {
        return Err(Failure::Reason(reason::MOVED));
    }
    Ok(())
}

#[pymethods]
impl Log {
    /// Reads header and snapshot of `file`, then the frames: up to the published position, or to the end (`scan`).
    #[new]
    ///
    /// With `copy`, the copy of a damaged snapshot frame from the sealed segment before `number`, that is read instead.
    #[pyo3(signature = (ctl, file, path, *, number, always, segment_bytes, text=false, copy=None, pending_rows=4096, apart=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        ctl: &Ctl,
        file: &Bound<'_, PyAny>,
        path: String,
        number: u64,
        always: bool,
        segment_bytes: u64,
        text: bool,
        copy: Option<&[u8]>,
        pending_rows: u64,
        apart: bool,
    ) -> PyResult<Log> {
        let (native, target) = target_of(file)?;
        let inner = Arc::clone(&native.get().inner);
        if always {
            inner.only_pwrite();
        }
        let map = inner.refresh().map_err(|error| failure(py, &path, error))?;
        let tail = py
            .detach(|| match copy {
                None => Tail::begin(map.bytes()),
                Some(copy) => Tail::from_copy(copy, number),
            })
            .and_then(|mut tail| match tail.header.segment {
                found if found == number => tail.begin_groups(map.bytes(), pending_rows, apart).map(|()| tail),
                found => Err(Error::corrupt("log header", 32, format!("segment {number}"), found)),
            })
            .map_err(|error| errors::core(py, &path, error))?;
        let active = Active { tail, file: inner, target, map, scratch: Vec::new(), needed: 0, wanted_ms: 0 };
        let version = AtomicU64::new(active.tail.state.version);
        let page = Arc::clone(&ctl.page);
        Ok(Log {
            page,
            path: RwLock::new(path),
            active: Mutex::new(active),
            always,
            segment_bytes,
            pending_rows,
            apart,
            text,
            version,
            recent: Mutex::new(None),
            closed: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            resolver: Mutex::new(None),
        })
    }

    /// Applies every whole frame up to the end of the file: what the one who opens alone does, and recovery.
    ///
    /// Returns None where only zeros follow, else a dict: kind (torn or rotten), offset, end, lsn, what, expected,
    /// found, evidence.
    fn scan<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let (error, verdict, offset, lsn) = py
            .detach(|| -> Result<_, Failure> {
                let mut active = self.lock();
                active.map = active.file.refresh()?;
                let map = Arc::clone(&active.map);
                let error = active.tail.follow_to_end(map.bytes());
                let (offset, lsn) = (active.tail.end, active.tail.lsn + 1);
                let verdict = judge(map.bytes(), &active.tail, &error)?;
                Ok((error, verdict, offset, lsn))
            })
            .map_err(|error| self.error(py, error))?;
        let report = PyDict::new(py);
        match verdict {
            Verdict::Clean => return Ok(None),
            Verdict::Torn { end } => {
                report.set_item("kind", "torn")?;
                report.set_item("end", end)?;
                report.set_item("evidence", None::<u64>)?;
            }
            Verdict::Rotten { at, synced_lsn } => {
                report.set_item("kind", "rotten")?;
                report.set_item("end", at)?;
                report.set_item("evidence", (at, synced_lsn))?;
            }
        }
        report.set_item("offset", offset)?;
        report.set_item("lsn", lsn)?;
        if let Error::Corrupt { what, expected, found, .. } = error {
            report.set_item("what", what)?;
            report.set_item("expected", expected)?;
            report.set_item("found", found)?;
        }
        Ok(Some(report))
    }

    /// Applies every whole frame up to the end of the file, as who has no shared page does at each look. What follows
    /// them is not judged: a frame may be half written there, and to search the rest of the file takes milliseconds.
    fn follow(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut active = self.lock();
            active.map = active.file.resized()?;
            let map = Arc::clone(&active.map);
            match active.tail.follow_to_end(map.bytes()) {
                error @ Error::Newer { .. } => Err(error.into()),
                _ => Ok(()),
            }
        })
        .map_err(|error: Failure| self.error(py, error))
    }

    /// Refuses every later append, and with `wait` returns when those under way are done: the descriptor is about to go.
    #[pyo3(signature = (wait=true))]
    fn close(&self, py: Python<'_>, wait: bool) {
        self.closed.store(true, Ordering::SeqCst);
        if wait {
            py.detach(|| {
                while self.under_way.load(Ordering::SeqCst) > 0 {
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            });
        }
    }

    /// Ends the waits of `take`: this opening is about to be closed, and who waits would keep it from that.
    fn end_waits(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// Takes the callable that does what an append found missing: `resolver(reason, held)`.
    fn set_resolver(&self, resolver: Py<PyAny>) {
        if let Ok(mut place) = self.resolver.lock() {
            *place = Some(resolver);
        }
    }

    /// Applies what others have written. 0, or a reason: the segment changed.
    fn catch_up(&self, py: Python<'_>) -> PyResult<u8> {
        let mut active = self.lock_brief(py);
        if let Err(error) = check_moved(&self.page) {
            return self.reason_or(py, Err(error));
        }
        let (segment, end) = split(self.page.get(Word::Written));
        if segment == active.tail.header.segment && end == active.tail.end {
            self.note_version(&active);
            return Ok(0);
        }
        drop(active);
        let done = py.detach(|| {
            let mut active = self.lock();
            active.catch_up(&self.page)
        });
        active = self.lock_brief(py);
        self.note_version(&active);
        self.reason_or(py, done)
    }

    /// Header and snapshot of the segment after this one, as bytes: `(header block, snapshot frame)`.
    ///
    /// `pending` are the view's chunks by ID with their groups' numbers, None where the overlays are whole.
    #[pyo3(signature = (number, salt, pending=None))]
    fn next_segment<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        salt: u32,
        pending: Option<Vec<(u32, Bound<'py, PyBytes>)>>,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let chunks: Option<Vec<(u32, &[u8])>> =
            pending.as_ref().map(|pending| pending.iter().map(|(group, chunk)| (*group, chunk.as_bytes())).collect());
        let active = self.lock_brief(py);
        let tail = &active.tail;
        let header = LogHeader { salt, uuid: tail.header.uuid, segment: number, created_ms: now_ms() };
        let spec = FrameSpec {
            salt,
            kind: Kind::Snapshot,
            flags: 0,
            entries: 0,
            lsn: tail.lsn + 1,
            synced_lsn: tail.lsn,
            time_ms: header.created_ms,
            first: Id::MIN,
            previous_crc: tail.link,
        };
        let mut out = Vec::new();
        frame::encode(&mut out, &spec, &snapshot::encode(&tail.state, chunks.as_deref()));
        (PyBytes::new(py, &header.encode(tail.frontier)), PyBytes::new(py, &out))
    }

    /// Goes on in the next segment. Returns the one left behind, for reading; None where frames between were missed
    /// because this one is no longer next to it (the snapshot has them).
    fn advance(&self, py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<Option<RowSegment>> {
        let (native, target) = target_of(file)?;
        let inner = Arc::clone(&native.get().inner);
        let (path, old_path) = (inner.path.clone(), self.path());
        if self.always {
            inner.only_pwrite();
        }
        let map = inner.refresh().map_err(|error| self.error_at(py, &path, error))?;
        let mut in_old = false;
        let left = py
            .detach(|| -> Result<Option<RowSegment>, Failure> {
                let mut next = Tail::begin(map.bytes())?;
                next.begin_groups(map.bytes(), self.pending_rows, self.apart)?;
                let mut active = self.lock();
                let old = &mut active.tail;
                let adjacent = next.header.segment == old.header.segment + 1;
                if !old.continues(&next) {
                    return Err(
                        Error::corrupt("next segment", 0, "a segment that continues this log", "another").into()
                    );
                }
                if adjacent {
                    in_old = true;
                    active.map = active.file.refresh()?;
                    let old_map = Arc::clone(&active.map);
                    while active.tail.lsn + 1 < next.lsn {
                        let end = active.tail.end + 1;
                        active.tail.follow(old_map.bytes(), end)?;
                    }
                    in_old = false;
                }
                next.state.version = active.tail.state.version + 1;
                next.state.groups.windows.duplicates = active.tail.state.groups.windows.duplicates;
                next.state.dropped = active.tail.state.dropped.clone();
                if adjacent {
                    next.state.groups.freed = std::mem::take(&mut active.tail.state.groups.freed);
                }
                if !adjacent {
                    next.state.note_missed(&active.tail.state);
                } else if active.tail.state.active.live() == 0 {
                    next.state.dropped.push((active.tail.header.segment, 0));
                }
                let old = std::mem::replace(&mut active.tail, next);
                let old_map = std::mem::replace(&mut active.map, map);
                active.file = inner;
                active.target = target;
                self.note_version(&active);
                Ok(adjacent.then(|| RowSegment::of(old, old_map, self.text)))
            })
            .map_err(|error| self.error_at(py, if in_old { &old_path } else { &path }, error))?;
        *self.path.write().unwrap_or_else(PoisonError::into_inner) = path;
        Ok(left)
    }

    /// The next frontier slot for IDs up to `frontier_ms`: `(offset, bytes)`; nothing is issued above it before
    /// `read_frontier` has found it in the file, durable.
    fn frontier_slot<'py>(&self, py: Python<'py>, frontier_ms: u64, floor_ms: u64) -> (u64, Bound<'py, PyBytes>) {
        let active = self.lock_brief(py);
        let sequence = active.tail.frontier.sequence + 1;
        let slot = Frontier { sequence, frontier_ms, floor_ms, synced_lsn: self.page.get(Word::DurableLsn) };
        (slot.slot_offset(), PyBytes::new(py, &slot.encode(active.tail.header.salt)))
    }

    /// Reads the frontier as it stands in the file now, whoever wrote it: `(frontier ms, floor ms)`.
    fn read_frontier(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let mut active = self.lock_brief(py);
        let map = Arc::clone(&active.map);
        let header = map.bytes().get(..HEADER_BYTES as usize).unwrap_or(&[]);
        let frontier =
            Frontier::read(header, active.tail.header.salt).map_err(|error| errors::core(py, &self.path(), error))?;
        active.tail.frontier = frontier;
        Ok((frontier.frontier_ms, frontier.floor_ms))
    }

    /// What the next automatic ID will not be below: the milliseconds behind the last one, those of the clock, and those
    /// that an append was refused for, whichever is latest.
    fn next_auto_ms(&self, py: Python<'_>, now: Option<u64>) -> u64 {
        let active = self.lock_brief(py);
        let past = active.tail.state.last_id.ms.max(active.tail.frontier.floor_ms);
        now.unwrap_or_else(now_ms).max(past.saturating_add(1)).max(active.wanted_ms)
    }

    /// Files that the log no longer lists, as (number, generation); they are forgotten here.
    fn take_dropped(&self, py: Python<'_>) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.lock_brief(py).tail.state.dropped)
    }

    /// Grows whenever a sealed segment changes: views made before are stale then.
    #[getter]
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// `(segment number, end offset, sequence number, snapshot bytes)` of the tail.
    #[getter]
    fn tail(&self, py: Python<'_>) -> (u64, u64, u64, u64) {
        let tail = &self.lock_brief(py).tail;
        (tail.header.segment, tail.end, tail.lsn, tail.snapshot.1)
    }

    #[getter]
    fn salt(&self, py: Python<'_>) -> u32 {
        self.lock_brief(py).tail.header.salt
    }

    #[getter]
    fn uuid(&self, py: Python<'_>) -> [u8; 16] {
        self.lock_brief(py).tail.header.uuid
    }

    /// Bytes that the last append found missing.
    #[getter]
    fn needed_bytes(&self, py: Python<'_>) -> u64 {
        self.lock_brief(py).needed
    }

    /// Whether the published position is durable already.
    #[getter]
    fn is_durable(&self) -> bool {
        self.page.get(Word::Durable) >= self.page.get(Word::Written)
    }

    /// Entries in the active segment, gone ones included.
    #[getter]
    fn active_entries(&self, py: Python<'_>) -> u64 {
        self.lock_brief(py).tail.index.entries
    }
}

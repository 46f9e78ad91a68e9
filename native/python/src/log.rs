//! `Log`: the active segment of a stream, as one process sees it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use diskstream_core::error::Error;
use diskstream_core::frame::{self, FrameSpec, Kind};
use diskstream_core::header::{Frontier, LogHeader, HEADER_BYTES};
use diskstream_core::id::Id;
use diskstream_core::ops::{self, Place, SetId};
use diskstream_core::rows::{RowsEncoder, Step};
use diskstream_core::scan::{examine, Verdict};
use diskstream_core::snapshot;
use diskstream_core::tail::Tail;
use diskstream_sys::ctl::{Ctl as Page, Lock, Word};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::commit::{check_flags, wait_durable, Active, Batch, Choice, Flushable, Target, Writer};
use crate::ctl::{acquire, place, split, Ctl};
use crate::entry::Block;
use crate::errors::{self, failure, reason, Failure};
use crate::file::LogFile;
use crate::id::{parse, parse_open, EntryId};
use crate::segments::{RowSegment, SegmentView};

thread_local! {
    /// Scratch for packing rows: one for each thread, so that packing needs no lock.
    static ENCODER: RefCell<RowsEncoder> = RefCell::new(RowsEncoder::default());
}

/// The active segment: appending, following, reading what is visible of it.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Log {
    page: Arc<Page>,
    path: String,
    active: Mutex<Active>,
    always: bool,
    segment_bytes: u64,
    text: bool,
    version: AtomicU64,
    closed: AtomicBool,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What an append gives Python: the IDs, or the reason why something must be done first.
enum Appended {
    Done(Id, u32),
    Reason(u8),
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Active> {
        // A panic elsewhere cannot leave the tail half applied: `applied` is the last thing an append does.
        self.active.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn writer(&self) -> Writer<'_> {
        Writer { page: &self.page, always: self.always, segment_bytes: self.segment_bytes }
    }

    fn error(&self, py: Python<'_>, error: Failure) -> PyErr {
        failure(py, &self.path, error)
    }

    /// The offset up to which frames of this segment may be shown.
    fn visible_end(&self, active: &Active) -> u64 {
        let (segment, offset) = split(self.page.get(Word::Visible));
        match segment.cmp(&active.tail.header.segment) {
            std::cmp::Ordering::Equal => offset.min(active.tail.end),
            std::cmp::Ordering::Greater => active.tail.end,
            std::cmp::Ordering::Less => 0,
        }
    }

    fn latest(&self) -> Result<Flushable, Failure> {
        let mut active = self.lock();
        active.catch_up(&self.page)?;
        let target = match &active.target {
            Target::Native => None,
            Target::Python(object) => Some(Python::attach(|py| object.clone_ref(py))),
        };
        let at = place(active.tail.header.segment, active.tail.end);
        Ok(Flushable { file: Arc::clone(&active.file), target, at, lsn: active.tail.lsn })
    }

    /// Appends a batch: takes the lock unless `held`, appends, flushes where that is asked for.
    fn append_batch(&self, py: Python<'_>, batch: &Batch<'_>, durable: bool, held: bool) -> PyResult<Appended> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(Appended::Reason(reason::CLOSED));
        }
        let flush = durable || self.always;
        let stand_in = matches!(self.lock_brief(py).target, Target::Python(_));
        if !held && (flush || stand_in) {
            // Everything that may wait happens off the GIL, the lock included.
            return self.finish(py, py.detach(|| self.append_and_flush(batch, flush)));
        }
        if !held {
            acquire(py, &self.page, Lock::Append)?;
        }
        let done = if stand_in {
            py.detach(|| self.writer().append_rows(&mut self.lock(), batch))
        } else {
            self.writer().append_rows(&mut self.lock_brief(py), batch)
        };
        if !held {
            self.page.lock(Lock::Append).unlock();
        }
        let count = batch.rows;
        self.finish(py, done.map(|(first, _)| (first, count)))
    }

    /// The state's lock with the GIL held: whoever else holds it does so for microseconds and never wants the GIL,
    /// except behind a stand-in for files, for which the lock is waited for without the GIL.
    fn lock_brief(&self, py: Python<'_>) -> MutexGuard<'_, Active> {
        loop {
            match self.active.try_lock() {
                Ok(guard) => return guard,
                Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(std::sync::TryLockError::WouldBlock) => py.detach(|| drop(self.lock())),
            }
        }
    }

    fn append_and_flush(&self, batch: &Batch<'_>, flush: bool) -> Result<(Id, u32), Failure> {
        let mutex = self.page.lock(Lock::Append);
        let mut locked = mutex.try_lock();
        while locked == diskstream_sys::mutex::Locked::No {
            locked = mutex.lock(std::time::Duration::from_secs(1));
        }
        if locked == diskstream_sys::mutex::Locked::AfterDeath {
            self.page.raise_flags(diskstream_sys::ctl::FLAG_CHECK);
        }
        let done = {
            let mut active = self.lock();
            self.writer()
                .append_rows(&mut active, batch)
                .map(|(first, _)| (first, place(active.tail.header.segment, active.tail.end)))
        };
        mutex.unlock();
        let (first, until) = done?;
        if flush {
            wait_durable(&self.page, until, || self.latest())?;
        }
        Ok((first, batch.rows))
    }

    fn finish(&self, py: Python<'_>, done: Result<(Id, u32), Failure>) -> PyResult<Appended> {
        match done {
            Ok((first, rows)) => Ok(Appended::Done(first, rows)),
            Err(Failure::Reason(code)) => Ok(Appended::Reason(code)),
            Err(error) => Err(self.error(py, error)),
        }
    }

    /// Appends a frame that is not entries; the caller holds the append lock.
    fn append_other(&self, py: Python<'_>, kind: Kind, payload: &[u8]) -> PyResult<u8> {
        let done = py.detach(|| {
            let mut active = self.lock();
            check_flags(&self.page)?;
            active.catch_up(&self.page)?;
            self.writer().append(&mut active, kind, 0, (Id::MIN, Id::MIN), payload, now_ms())?;
            self.note_version(&active);
            Ok(())
        });
        self.reason_or(py, done)
    }

    fn reason_or(&self, py: Python<'_>, done: Result<(), Failure>) -> PyResult<u8> {
        match done {
            Ok(()) => Ok(0),
            Err(Failure::Reason(code)) => Ok(code),
            Err(error) => Err(self.error(py, error)),
        }
    }

    fn note_version(&self, active: &Active) {
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

fn choice(id: Option<&Bound<'_, PyAny>>) -> PyResult<Choice> {
    let Some(value) = id else { return Ok(Choice::Auto) };
    Ok(match parse_open(value)? {
        (ms, Some(seq)) => Choice::Explicit { first: Id::new(ms, seq), last: Id::new(ms, seq) },
        (ms, None) => Choice::Explicit { first: Id::new(ms, 0), last: Id::new(ms, 0) },
    })
}

#[pymethods]
impl Log {
    /// Reads header and snapshot of `file`, then the frames: up to the published position, or to the end (`scan`).
    #[new]
    #[pyo3(signature = (ctl, file, path, *, always, segment_bytes, text=false))]
    fn new(
        py: Python<'_>,
        ctl: &Ctl,
        file: &Bound<'_, PyAny>,
        path: String,
        always: bool,
        segment_bytes: u64,
        text: bool,
    ) -> PyResult<Log> {
        let (native, target) = target_of(file)?;
        let inner = Arc::clone(&native.get().inner);
        let map = inner.refresh().map_err(|error| failure(py, &path, error))?;
        let tail = py.detach(|| Tail::begin(map.bytes())).map_err(|error| errors::core(py, &path, error))?;
        let active = Active { tail, file: inner, target, map, scratch: Vec::new(), needed: 0 };
        let version = AtomicU64::new(active.tail.state.version);
        let page = Arc::clone(&ctl.page);
        Ok(Log { page, path, active: Mutex::new(active), always, segment_bytes, text, version, closed: AtomicBool::new(false) })
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
                let verdict = examine(map.bytes(), offset, lsn, active.tail.header.salt);
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

    /// Refuses every later append: the descriptor and its lock are about to go.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
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

    /// Appends one entry: its ID, or the reason why something must be done first.
    ///
    /// `id` is None for an automatic one; `within_ms` chooses the milliseconds only.
    #[pyo3(signature = (fields, id=None, within_ms=None, durable=false, held=false, now=None))]
    #[allow(clippy::too_many_arguments)]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fields: &Bound<'py, PyAny>,
        id: Option<&Bound<'py, PyAny>>,
        within_ms: Option<u64>,
        durable: bool,
        held: bool,
        now: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let choice = match within_ms {
            Some(ms) => Choice::Within(ms),
            None => choice(id)?,
        };
        let mut encoder = ENCODER.take();
        encoder.clear();
        let packed = crate::args::fields(&mut encoder, fields)
            .and_then(|()| encoder.end(Step::Next).map_err(|error| errors::core(py, &self.path, error)));
        let appended = packed.and_then(|()| {
            let now_ms = now.unwrap_or_else(now_ms);
            let batch = Batch { choice, rows: 1, payload: encoder.payload(), now_ms };
            self.append_batch(py, &batch, durable, held)
        });
        ENCODER.set(encoder);
        match appended? {
            Appended::Done(id, _) => Ok(EntryId { id }.into_pyobject(py)?.into_any()),
            Appended::Reason(code) => Ok(code.into_pyobject(py)?.into_any()),
        }
    }

    /// Packs many entries at once and appends them as one frame: their IDs, or a reason.
    #[pyo3(signature = (rows, ids=None, durable=false, held=false, now=None))]
    fn add_many<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        ids: Option<&Bound<'py, PyAny>>,
        durable: bool,
        held: bool,
        now: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut encoder = ENCODER.take();
        encoder.clear();
        let packed = self.pack(py, &mut encoder, rows, ids);
        let appended = packed.and_then(|given| {
            if encoder.rows() == 0 {
                return Ok((Appended::Done(Id::MIN, 0), given));
            }
            let choice = match (given.first(), given.last()) {
                (Some(first), Some(last)) => Choice::Explicit { first: *first, last: *last },
                _ => Choice::Auto,
            };
            let now_ms = now.unwrap_or_else(now_ms);
            let batch = Batch { choice, rows: encoder.rows(), payload: encoder.payload(), now_ms };
            self.append_batch(py, &batch, durable, held).map(|done| (done, given))
        });
        encoder.clear();
        ENCODER.set(encoder);
        match appended? {
            (Appended::Reason(code), _) => Ok(code.into_pyobject(py)?.into_any()),
            (Appended::Done(first, rows), given) => {
                let ids: Vec<EntryId> = if given.is_empty() {
                    (0..u64::from(rows)).map(|step| EntryId { id: Id::new(first.ms, first.seq + step) }).collect()
                } else {
                    given.into_iter().map(|id| EntryId { id }).collect()
                };
                Ok(PyList::new(py, ids)?.into_any())
            }
        }
    }

    /// Trims to a place (see `plan_trim`), under the append lock.
    fn trim(&self, py: Python<'_>, segment: u64, position: u64) -> PyResult<u8> {
        let mut payload = Vec::new();
        ops::put_trim(&mut payload, Place { segment, position });
        self.append_other(py, Kind::Trim, &payload)
    }

    /// Marks entries as deleted, under the append lock. `places` are (segment, position), in order.
    fn delete(&self, py: Python<'_>, greatest: &Bound<'_, PyAny>, places: Vec<(u64, u64)>) -> PyResult<u8> {
        let places: Vec<Place> = places.into_iter().map(|(segment, position)| Place { segment, position }).collect();
        self.append_other(py, Kind::Delete, &ops::encode_delete(parse(greatest, 0)?, &places))
    }

    /// Sets last ID, entries added and greatest deleted ID, under the append lock.
    fn set_id(
        &self,
        py: Python<'_>,
        last: &Bound<'_, PyAny>,
        entries_added: u64,
        max_deleted: &Bound<'_, PyAny>,
    ) -> PyResult<u8> {
        let set = SetId { last: parse(last, 0)?, entries_added, max_deleted: parse(max_deleted, 0)? };
        self.append_other(py, Kind::SetId, &set.encode())
    }

    /// Lets a compacted segment take the place of its inputs, under the append lock.
    fn replace(&self, py: Python<'_>, inputs: Vec<u64>, output: &SegmentView) -> PyResult<u8> {
        self.append_other(py, Kind::Replace, &ops::encode_replace(&inputs, &output.meta))
    }

    /// Appends a mark, which carries the durable sequence number.
    fn mark(&self, py: Python<'_>) -> PyResult<u8> {
        self.append_other(py, Kind::Mark, &[])
    }

    /// `(segment, position, entries that go)` for `MAXLEN keep`, or None where nothing goes.
    fn plan_trim(&self, py: Python<'_>, keep: u64, approximate: bool, limit: u64) -> Option<(u64, u64, u64)> {
        let active = self.lock_brief(py);
        let (place, gone) = active.tail.state.plan_trim(keep, approximate, limit)?;
        Some((place.segment, place.position, gone))
    }

    /// How many live entries stand before a place.
    fn live_before(&self, py: Python<'_>, segment: u64, position: u64) -> u64 {
        self.lock_brief(py).tail.state.live_before(Place { segment, position })
    }

    /// Makes everything written so far durable: at most one flush, shared with whoever else waits for one.
    fn flush(&self, py: Python<'_>) -> PyResult<u8> {
        let done = py.detach(|| {
            let until = self.page.get(Word::Written);
            wait_durable(&self.page, until, || self.latest())
        });
        self.reason_or(py, done)
    }

    /// Header and snapshot of the segment after this one, as bytes: `(header block, snapshot frame)`.
    fn next_segment<'py>(&self, py: Python<'py>, number: u64, salt: u32) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
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
        frame::encode(&mut out, &spec, &snapshot::encode(&tail.state));
        (PyBytes::new(py, &header.encode(tail.frontier)), PyBytes::new(py, &out))
    }

    /// Goes on in the next segment. Returns the one left behind, for reading; None where frames between were missed
    /// because this one is no longer next to it (the snapshot has them).
    fn advance(&self, py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<Option<RowSegment>> {
        let (native, target) = target_of(file)?;
        let inner = Arc::clone(&native.get().inner);
        let map = inner.refresh().map_err(|error| self.error(py, error))?;
        let left = py
            .detach(|| -> Result<Option<RowSegment>, Failure> {
                let next = Tail::begin(map.bytes())?;
                let mut active = self.lock();
                let old = &mut active.tail;
                let adjacent = next.header.segment == old.header.segment + 1;
                if !old.continues(&next) {
                    return Err(
                        Error::corrupt("next segment", 0, "a segment that continues this log", "another").into()
                    );
                }
                if adjacent {
                    active.map = active.file.refresh()?;
                    let old_map = Arc::clone(&active.map);
                    while active.tail.lsn + 1 < next.lsn {
                        let end = active.tail.end + 1;
                        active.tail.follow(old_map.bytes(), end)?;
                    }
                }
                let mut next = next;
                next.state.version = active.tail.state.version + 1;
                next.state.dropped = active.tail.state.dropped.clone();
                if adjacent && active.tail.state.active.live() == 0 {
                    next.state.dropped.push((active.tail.header.segment, 0));
                }
                let old = std::mem::replace(&mut active.tail, next);
                let old_map = std::mem::replace(&mut active.map, map);
                active.file = inner;
                active.target = target;
                self.note_version(&active);
                Ok(adjacent.then(|| RowSegment::of(old, old_map, self.text)))
            })
            .map_err(|error| self.error(py, error))?;
        Ok(left)
    }

    /// The next frontier slot for IDs up to `frontier_ms`: `(offset, bytes)`; nothing is issued above it before
    /// `frontier_reserved` is told that it is durable.
    fn frontier_slot<'py>(&self, py: Python<'py>, frontier_ms: u64, floor_ms: u64) -> (u64, Bound<'py, PyBytes>) {
        let active = self.lock_brief(py);
        let slot = Frontier { sequence: active.tail.frontier.sequence + 1, frontier_ms, floor_ms };
        (slot.slot_offset(), PyBytes::new(py, &slot.encode(active.tail.header.salt)))
    }

    /// Reads the frontier as it stands in the file now, whoever wrote it: `(frontier ms, floor ms)`.
    fn read_frontier(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let mut active = self.lock_brief(py);
        let map = Arc::clone(&active.map);
        let header = map.bytes().get(..HEADER_BYTES as usize).unwrap_or(&[]);
        let frontier =
            Frontier::read(header, active.tail.header.salt).map_err(|error| errors::core(py, &self.path, error))?;
        active.tail.frontier = frontier;
        Ok((frontier.frontier_ms, frontier.floor_ms))
    }

    /// The last ID and the clock's milliseconds, whichever is later: what the next automatic ID will not be below.
    fn next_auto_ms(&self, py: Python<'_>, now: Option<u64>) -> u64 {
        let active = self.lock_brief(py);
        let past = active.tail.state.last_id.ms.max(active.tail.frontier.floor_ms);
        now.unwrap_or_else(now_ms).max(past.saturating_add(1))
    }

    /// Reads visible entries of the active segment from `position` on, within `start..=end`; None behind the last.
    ///
    /// The bool is false where `segment` is not the active one any more: look the segments up again.
    #[pyo3(signature = (segment, position, start, end, max_entries, max_bytes))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        segment: u64,
        position: u64,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        max_entries: u64,
        max_bytes: usize,
    ) -> PyResult<(bool, Option<Block>)> {
        let range = (parse(start, 0)?, parse(end, u64::MAX)?);
        let (index, map, stop, meta) = {
            let active = self.lock_brief(py);
            if active.tail.header.segment != segment {
                return Ok((false, None));
            }
            if position >= active.tail.index.entries {
                return Ok((true, None));
            }
            let stop = self.visible_end(&active);
            let meta = Arc::new(active.tail.meta().clone());
            (active.tail.index.part(position, max_entries), Arc::clone(&active.map), stop, meta)
        };
        let block = py
            .detach(|| index.read(map.bytes(), position, stop, max_entries, max_bytes))
            .map_err(|error| errors::core(py, &self.path, error))?;
        if block.is_empty() {
            return Ok((true, None));
        }
        Ok((true, Some(Block::clipped(Arc::new(block), position, range, Some(&meta), self.text))))
    }

    /// The position in the active segment of the first visible entry whose ID is not below `id`; None where `segment`
    /// is not the active one any more.
    fn seek(&self, py: Python<'_>, segment: u64, id: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let id = parse(id, 0)?;
        let active = self.lock_brief(py);
        if active.tail.header.segment != segment {
            return Ok(None);
        }
        let stop = self.visible_end(&active);
        let found = active.tail.index.seek(active.map.bytes(), id, stop);
        found.map(Some).map_err(|error| errors::core(py, &self.path, error))
    }

    /// How many entries of the active segment are visible, gone ones included.
    fn visible_entries(&self, py: Python<'_>) -> PyResult<u64> {
        let active = self.lock_brief(py);
        let stop = self.visible_end(&active);
        if stop >= active.tail.end {
            return Ok(active.tail.index.entries);
        }
        active.tail.index.entries_before(active.map.bytes(), stop).map_err(|e| errors::core(py, &self.path, e))
    }

    /// The sealed and rolled segments, in order.
    fn segments(&self, py: Python<'_>) -> Vec<SegmentView> {
        let active = self.lock_brief(py);
        active.tail.state.sealed.iter().map(|meta| SegmentView { meta: Arc::new(meta.clone()) }).collect()
    }

    /// The active segment as a view.
    fn active_view(&self, py: Python<'_>) -> SegmentView {
        SegmentView { meta: Arc::new(self.lock_brief(py).tail.meta().clone()) }
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

    /// `(length, last ID, entries added, greatest deleted ID)` as of all that is visible.
    fn counters(&self, py: Python<'_>) -> PyResult<(u64, EntryId, u64, EntryId)> {
        let active = self.lock_brief(py);
        let state = &active.tail.state;
        let (mut length, mut last, mut added) = (state.len(), state.last_id, state.entries_added);
        let stop = self.visible_end(&active);
        if stop < active.tail.end {
            let map = active.map.bytes();
            let seen = active.tail.index.entries_before(map, stop).map_err(|e| errors::core(py, &self.path, e))?;
            let hidden = active.tail.index.entries - seen;
            length = length.saturating_sub(hidden);
            added = added.saturating_sub(hidden);
            if let Some(row) = seen.checked_sub(1).filter(|_| hidden > 0) {
                let block = active.tail.index.read(map, row, stop, 1, 1);
                last = block.ok().and_then(|block| block.id(0)).unwrap_or(last);
            }
        }
        Ok((length, EntryId { id: last }, added, EntryId { id: state.max_deleted }))
    }

    /// Live entries.
    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.counters(py)?.0)
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

fn check_moved(page: &Page) -> Result<(), Failure> {
    if page.flags() & diskstream_sys::ctl::FLAG_MOVED != 0 {
        return Err(Failure::Reason(reason::MOVED));
    }
    Ok(())
}

impl Log {
    /// Packs rows, with the steps of their IDs where these are given.
    fn pack(
        &self,
        py: Python<'_>,
        encoder: &mut RowsEncoder,
        rows: &Bound<'_, PyAny>,
        ids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Id>> {
        let mut given: Vec<Id> = Vec::new();
        let mut next = ids.map(|ids| ids.try_iter()).transpose()?;
        for row in rows.try_iter()? {
            crate::args::fields(encoder, &row?)?;
            let step = match &mut next {
                None => Step::Next,
                Some(ids) => {
                    let id = ids.next().ok_or_else(|| errors::argument(py, "fewer ids than rows"))??;
                    let id = parse(&id, 0)?;
                    let before = given.last().copied();
                    if before.is_some_and(|before| id <= before) {
                        return Err(failure(py, &self.path, Failure::NotAbove));
                    }
                    given.push(id);
                    before.map_or(Step::Next, |before| Step::Between(before, id))
                }
            };
            encoder.end(step).map_err(|error| errors::core(py, &self.path, error))?;
        }
        if next.is_some_and(|mut ids| ids.next().is_some()) {
            return Err(errors::argument(py, "more ids than rows"));
        }
        Ok(given)
    }
}

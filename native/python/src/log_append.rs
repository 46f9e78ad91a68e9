//! Appending to a [`Log`]: rows, deletes, trims, and the flush.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskstream_core::commits::Part;
use diskstream_core::error::Error;
use diskstream_core::frame::{Kind, MAX_PAYLOAD_BYTES};
use diskstream_core::id::Id;
use diskstream_core::ops::{self, Place, SetId};
use diskstream_core::rows::{RowsEncoder, Step};
use diskstream_sys::ctl::{Lock, Word};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::commit::{check_flags, wait_durable, Batch, Choice, Target};
use crate::ctl::{acquire, place};
use crate::errors::{self, failure, reason, signals, Failure};
use crate::id::{parse, parse_open, EntryId};
use crate::log::{now_ms, Log};
use crate::segments::SegmentView;

/// A batch from this size on is copied without the GIL: giving it up costs about as much as copying this.
const LARGE_BYTES: usize = 64 << 10;

thread_local! {
    /// Scratch for packing rows: one for each thread, so that packing needs no lock.
    static ENCODER: RefCell<RowsEncoder> = RefCell::new(RowsEncoder::default());
}

impl Log {
    /// Appends a batch, as often as it takes until nothing is missing any more. Returns its first ID, None where it is
    /// a part that was committed before.
    pub(crate) fn append_batch(
        &self,
        py: Python<'_>,
        batch: &Batch<'_>,
        durable: bool,
        held: bool,
    ) -> PyResult<Option<Id>> {
        loop {
            match self.try_append(py, batch, durable, held)? {
                Ok(first) => return Ok(Some(first)),
                Err(Failure::Committed) => return Ok(None),
                Err(Failure::Reason(code)) => self.resolve(py, code, held)?,
                Err(error) => return Err(self.error(py, error)),
            }
        }
    }

    fn resolve(&self, py: Python<'_>, code: u8, held: bool) -> PyResult<()> {
        let resolver = self.resolver.lock().ok().and_then(|place| place.as_ref().map(|it| it.clone_ref(py)));
        match resolver {
            Some(resolver) => resolver.call1(py, (code, held)).map(drop),
            None => Err(self.error(py, Failure::Closed)),
        }
    }

    /// One attempt: takes the lock unless `held`, appends, flushes where that is asked for.
    fn try_append(
        &self,
        py: Python<'_>,
        batch: &Batch<'_>,
        durable: bool,
        held: bool,
    ) -> PyResult<Result<Id, Failure>> {
        let _under_way = UnderWay::begin(&self.under_way);
        // After the count has gone up: whoever closes either sees it or is seen.
        if self.closed.load(Ordering::SeqCst) {
            return Ok(Err(Failure::Reason(reason::CLOSED)));
        }
        let flush = durable || self.always;
        let stand_in = matches!(self.lock_brief(py).target, Target::Python(_));
        let large = batch.payload.len() > LARGE_BYTES;
        if !held && (flush || stand_in || large) {
            // Everything that may wait happens off the GIL, the lock included.
            return Ok(py.detach(|| self.append_and_flush(batch, flush)));
        }
        if !held {
            acquire(py, &self.page, Lock::Append)?;
        }
        let done = if stand_in || large {
            py.detach(|| self.writer().append_rows(&mut self.lock(), batch))
        } else {
            self.writer().append_rows(&mut self.lock_brief(py), batch)
        };
        if !held {
            self.page.lock(Lock::Append).unlock();
        }
        Ok(done.map(|(first, _)| first))
    }

    fn append_and_flush(&self, batch: &Batch<'_>, flush: bool) -> Result<Id, Failure> {
        let mutex = self.page.lock(Lock::Append);
        let mut locked = mutex.spin_lock();
        while locked == diskstream_sys::mutex::Locked::No {
            locked = mutex.lock(std::time::Duration::from_millis(50));
            if locked == diskstream_sys::mutex::Locked::No {
                signals()?;
                if self.page.is_left() {
                    return Err(Failure::Reason(reason::CLOSED)); // in a child that the handler forked
                }
            }
        }
        match locked {
            diskstream_sys::mutex::Locked::Mine => return Err(Failure::Reentered),
            diskstream_sys::mutex::Locked::GivenUp => return Err(Failure::Reason(reason::CLOSED)),
            _ => {}
        }
        if locked == diskstream_sys::mutex::Locked::AfterDeath {
            self.page.raise_flags(diskstream_sys::ctl::FLAG_CHECK);
        }
        let (done, until) = {
            let mut active = self.lock();
            let done = self.writer().append_rows(&mut active, batch);
            (done, place(active.tail.header.segment, active.tail.end))
        };
        mutex.unlock();
        // Whoever committed a part before need not have waited for it to be durable; this caller does.
        if flush && matches!(done, Ok(_) | Err(Failure::Committed)) {
            wait_durable(&self.page, until, || self.latest())?;
        }
        done.map(|(first, _)| first)
    }

    /// Appends a frame that is not entries; the caller holds the append lock.
    fn append_other(&self, py: Python<'_>, kind: Kind, payload: &[u8]) -> PyResult<u8> {
        self.append_frame(py, kind, payload, now_ms())
    }

    /// The same with a time.
    pub(crate) fn append_frame(&self, py: Python<'_>, kind: Kind, payload: &[u8], now_ms: u64) -> PyResult<u8> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            let (limit, found) = (MAX_PAYLOAD_BYTES as u64, payload.len() as u64);
            return Err(errors::core(py, &self.path(), Error::Limit { what: "a change", limit, found }));
        }
        let _under_way = UnderWay::begin(&self.under_way);
        if self.closed.load(Ordering::SeqCst) {
            return Ok(reason::CLOSED);
        }
        let done = py.detach(|| {
            let mut active = self.lock();
            check_flags(&self.page)?;
            active.catch_up(&self.page)?;
            self.writer().append(&mut active, kind, 0, (Id::MIN, Id::MIN), (payload, 0), now_ms)?;
            self.note_version(&active);
            Ok(())
        });
        self.reason_or(py, done)
    }
}

/// Counts an append for as long as it is under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn begin(count: &'a AtomicUsize) -> UnderWay<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A writer, a version and a part, as Python gives them.
pub(crate) type Commit<'py> = (Bound<'py, PyBytes>, u64, u32);

pub(crate) fn part_of<'a>(commit: &'a Commit<'_>) -> Part<'a> {
    Part { writer: commit.0.as_bytes(), version: commit.1, part: commit.2 }
}

fn choice(id: Option<&Bound<'_, PyAny>>) -> PyResult<Choice> {
    let Some(value) = id else { return Ok(Choice::Auto) };
    Ok(match parse_open(value)? {
        (ms, Some(seq)) => Choice::Explicit { first: Id::new(ms, seq), last: Id::new(ms, seq) },
        (ms, None) => Choice::Explicit { first: Id::new(ms, 0), last: Id::new(ms, 0) },
    })
}

/// Packs rows, with the steps of their IDs where these are given.
fn pack(
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
                    return Err(failure(py, "", Failure::NotAbove));
                }
                given.push(id);
                before.map_or(Step::Next, |before| Step::Between(before, id))
            }
        };
        encoder.end(step).map_err(|error| errors::core(py, "", error))?;
    }
    if next.is_some_and(|mut ids| ids.next().is_some()) {
        return Err(errors::argument(py, "more ids than rows"));
    }
    Ok(given)
}

/// Checks the fields of entries, and their IDs where given, as an append would: before a stream is made for them.
#[pyfunction]
#[pyo3(signature = (rows, ids=None))]
pub fn check_rows(py: Python<'_>, rows: &Bound<'_, PyAny>, ids: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let given = pack(py, &mut RowsEncoder::default(), rows, ids)?;
    if given.first() == Some(&Id::MIN) {
        return Err(failure(py, "", Failure::Zero));
    }
    Ok(())
}

/// Whether each row is a dict, list or tuple itself: the same when it is read again, and no code of the caller's to run.
#[pyfunction]
pub fn are_plain(rows: &Bound<'_, PyAny>) -> bool {
    fn is_plain(row: &Bound<'_, PyAny>) -> bool {
        row.is_exact_instance_of::<PyDict>()
            || row.is_exact_instance_of::<PyList>()
            || row.is_exact_instance_of::<PyTuple>()
    }
    if let Ok(list) = rows.cast_exact::<PyList>() {
        return list.iter().all(|row| is_plain(&row));
    }
    rows.cast_exact::<PyTuple>().is_ok_and(|tuple| tuple.iter_borrowed().all(|row| is_plain(&row)))
}

#[pymethods]
impl Log {
    /// Appends one entry and returns its ID.
    ///
    /// `id` is None for an automatic one; `within_ms` chooses the milliseconds only.
    /// With `message`, a producer and its message's ID, these are remembered in the same commit.
    #[pyo3(signature = (fields, id=None, within_ms=None, durable=false, held=false, now=None, message=None))]
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
        message: Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    ) -> PyResult<EntryId> {
        let message = message.as_ref().map(|(producer, message)| (producer.as_bytes(), message.as_bytes()));
        let choice = match within_ms {
            Some(ms) => Choice::Within(ms),
            None => choice(id)?,
        };
        let mut encoder = ENCODER.take();
        encoder.clear();
        let packed = crate::args::fields(&mut encoder, fields)
            .and_then(|()| encoder.end(Step::Next).map_err(|error| errors::core(py, &self.path(), error)));
        let appended = packed.and_then(|()| {
            let now_ms = now.unwrap_or_else(now_ms);
            let batch = Batch { choice, rows: 1, payload: encoder.payload(), message, commit: None, now_ms };
            self.append_batch(py, &batch, durable, held)
        });
        encoder.clear();
        ENCODER.set(encoder);
        appended.map(|id| EntryId::of(id.unwrap_or_default()))
    }

    /// Packs many entries at once, appends them as one frame, and returns their IDs.
    ///
    /// With `commit`, a writer, a version and a part, these are remembered in the same frame; None where that part was
    /// committed before, and nothing is appended.
    #[pyo3(signature = (rows, ids=None, durable=false, held=false, now=None, commit=None))]
    #[allow(clippy::too_many_arguments)]
    fn add_many<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        ids: Option<&Bound<'py, PyAny>>,
        durable: bool,
        held: bool,
        now: Option<u64>,
        commit: Option<Commit<'py>>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut encoder = ENCODER.take();
        encoder.clear();
        let appended = pack(py, &mut encoder, rows, ids).and_then(|given| {
            if encoder.rows() == 0 {
                return Ok((Some(Id::MIN), given));
            }
            let choice = match (given.first(), given.last()) {
                (Some(first), Some(last)) => Choice::Explicit { first: *first, last: *last },
                _ => Choice::Auto,
            };
            let now_ms = now.unwrap_or_else(now_ms);
            let (rows, payload, commit) = (encoder.rows(), encoder.payload(), commit.as_ref().map(part_of));
            let batch = Batch { choice, rows, payload, message: None, commit, now_ms };
            self.append_batch(py, &batch, durable, held).map(|first| (first, given))
        });
        let rows = u64::from(encoder.rows());
        encoder.clear();
        ENCODER.set(encoder);
        let (Some(first), given) = appended? else { return Ok(None) };
        let ids: Vec<EntryId> = if given.is_empty() {
            (0..rows).map(|step| EntryId::of(Id::new(first.ms, first.seq + step))).collect()
        } else {
            given.into_iter().map(EntryId::of).collect()
        };
        PyList::new(py, ids).map(Some)
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
}

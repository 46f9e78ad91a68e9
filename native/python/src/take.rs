//! What who was woken does, in one call each: a look for new entries; a consumer's read of them, its wait for them, and
//! its acknowledgement: the append lock, the frames of others, the entries, the queue of who waits. Where anything else is
//! to be done (a view to be asked, a sealed segment to be read, a segment to be rolled) nothing is, and the caller goes the
//! long way, which has the same steps: `diskstream/reading.py` and `diskstream/delivering.py`.
//!
//! Woken, a process finds little of its code in the processor's cache: what it runs then must be short.

use std::sync::atomic::Ordering;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use diskstream_core::group_ops::Op;
use diskstream_core::id::Id;
use diskstream_sys::ctl::{Ctl as Page, Lock, Word};
use diskstream_sys::futex;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyList};

use crate::commit::{Active, Target};
use crate::ctl::{acquire, split};
use crate::deliver::{Delivered, UNLIMITED};
use crate::delivery::Delivery;
use crate::entry::Entry;
use crate::groups::ids_of;
use crate::id::parse;
use crate::log::{now_ms, Log};
use crate::waiting::PyTurn;

/// Who is so far behind others follows them the long way, which lets other threads run meanwhile.
const FAR_BYTES: u64 = 256 << 10;
/// A waiter looks this often whether it was forgotten: when another died between being woken and taking its entry.
pub const LOOK_MS: u64 = 200;
/// Attempts to read that found nothing are noted this often at most: each note is a frame in the log.
pub const SEEN_EVERY_MS: u64 = 100;

/// The append lock, for as long as it lives.
struct Held<'a>(&'a Page);

impl<'a> Held<'a> {
    fn take(py: Python<'_>, page: &'a Page) -> PyResult<Held<'a>> {
        acquire(py, page, Lock::Append)?;
        Ok(Held(page))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock(Lock::Append).unlock();
    }
}

/// What one look came to.
enum Look {
    Given(Vec<Py<Delivery>>),
    /// As of a state of the log, where the group has all of it. Of what was left to others any of them may die.
    Nothing(Option<u64>),
    /// Nothing was changed: go the long way.
    Long,
}

/// What is asked for.
struct Asked<'a, 'py> {
    group: &'a [u8],
    consumer: &'a [u8],
    count: usize,
    waits: bool,
    owner: &'a Bound<'py, PyAny>,
    /// The stream's first live ID as of a version, where it is known.
    first_seen: Option<(u64, Id)>,
    /// None: the system's clock.
    now_ms: Option<u64>,
}

/// What was given (None: go the long way), the place in the queue for it, whether the overlays are to be merged.
type Taken<'py> = (Option<Bound<'py, PyList>>, Option<PyTurn>, bool);

impl Log {
    /// Follows all that is written; None where the long way is to be gone.
    fn followed(&self, py: Python<'_>) -> Option<MutexGuard<'_, Active>> {
        if self.closed.load(Ordering::SeqCst) || self.page.flags() != 0 {
            return None;
        }
        let mut active = self.lock_brief(py);
        let (segment, end) = split(self.page.get(Word::Written));
        let is_near = segment == active.tail.header.segment && end.saturating_sub(active.tail.end) <= FAR_BYTES;
        if !is_near || matches!(active.target, Target::Python(_)) {
            return None;
        }
        active.catch_up(&self.page).ok()?;
        self.note_version(&active);
        Some(active)
    }

    /// The number of a group, as of all that is written; None where the long way is to be gone. Under the append lock.
    fn ready(&self, py: Python<'_>, group: &[u8]) -> Option<u32> {
        let active = self.followed(py).filter(|_| !self.always)?;
        active.tail.state.groups.number(group)
    }

    /// One look, under the append lock; where there is nothing and it waits, it stands in the queue then.
    fn look(&self, py: Python<'_>, asked: &Asked<'_, '_>, turn: &mut Option<PyTurn>, is_first: bool) -> PyResult<Look> {
        let Some(group) = self.ready(py, asked.group) else { return Ok(Look::Long) };
        let Some(consumer) = self.consumer_number(py, group, asked.consumer) else { return Ok(Look::Long) };
        let promised = self.page.promised(group, turn.as_ref().map(PyTurn::turn)) as usize;
        let now = asked.now_ms.unwrap_or_else(now_ms);
        // Who waits for more than one entry leaves all of them to whoever has waited longer.
        if promised == 0 || !asked.waits || asked.count == 1 {
            let Some(given) = self.give(py, asked, (group, consumer), promised, now)? else { return Ok(Look::Long) };
            if !given.is_empty() {
                if let Some(turn) = turn.take() {
                    self.page.leave_queue(turn.turn(), true);
                }
                if self.has_more(py, group)? {
                    self.page.wake_queue(1, Some(group));
                }
                return Ok(Look::Given(given));
            }
        }
        if let (Some(turn), true) = (turn.as_ref(), promised > 0 && self.has_more(py, group)?) {
            self.page.wake_before(turn.turn()); // what was left to who has waited longer
        }
        if is_first && !self.note_seen(py, group, consumer, now)? {
            return Ok(Look::Long);
        }
        if asked.waits && !turn.as_ref().is_some_and(|turn| self.page.wait_again(turn.turn())) {
            *turn = PyTurn::join(&self.page, group);
            if turn.is_none() {
                return Ok(Look::Long); // all places are taken: the long way waits for the bell
            }
        }
        let leaves_none = !self.has_more(py, group)?;
        Ok(Look::Nothing(leaves_none.then(|| self.page.get(Word::Written))))
    }

    /// The next entries of a group for a consumer, but for those promised to others; None: go the long way.
    fn give(
        &self,
        py: Python<'_>,
        asked: &Asked<'_, '_>,
        (group, consumer): (u32, u32),
        promised: usize,
        now_ms: u64,
    ) -> PyResult<Option<Vec<Py<Delivery>>>> {
        let last = |group: &diskstream_core::groups::Group| Ok(group.last);
        let Ok(after) = self.with_group(py, group, last)? else { return Ok(None) };
        let limit = asked.count.saturating_add(promised);
        let Some(mut found) = self.behind(py, after, limit, limit)? else { return Ok(None) };
        found.cap(promised, asked.count, UNLIMITED, 0, false);
        let ids: Vec<Id> = found.rows.iter().map(|(_, _, id)| *id).collect();
        if ids.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let known = asked.first_seen.filter(|(version, _)| *version == self.version.load(Ordering::Acquire));
        let Some(first) = self.first_id(py).map(|first| first.id()).or(known.map(|(_, first)| first)) else {
            return Ok(None);
        };
        let given = [(consumer, ids.as_slice())];
        let delivered = Delivered { group, after, given: &given, noack: false, asked: false };
        let Ok(payload) = self.delivered(py, &delivered, first, now_ms)? else { return Ok(None) };
        if self.append_records(py, &payload, now_ms)? != 0 {
            return Ok(None);
        }
        let made = found.rows.into_iter().map(|(block, row, _)| {
            let entry = Entry::at(block, row, self.text);
            Delivery::made(py, entry, asked.owner, false, 0, 0)
        });
        made.collect::<PyResult<_>>().map(Some)
    }

    /// Whether there are entries that no consumer of the group was given.
    fn has_more(&self, py: Python<'_>, group: u32) -> PyResult<bool> {
        let last = self.counters(py)?.1.id();
        Ok(self.with_group(py, group, |group| Ok(group.last < last))?.unwrap_or(false))
    }

    /// Notes that a consumer tried to read, if that was not noted just before. False: go the long way.
    fn note_seen(&self, py: Python<'_>, group: u32, consumer: u32, now_ms: u64) -> PyResult<bool> {
        let before = self.consumer_seen(py, group, consumer);
        if before.is_some_and(|before| before <= now_ms && now_ms - before < SEEN_EVERY_MS) {
            return Ok(true);
        }
        let mut payload = Vec::new();
        Op::Seen { group, consumer }.put(&mut payload);
        Ok(self.append_records(py, &payload, now_ms)? == 0)
    }

    /// Whether another look would find no more than the one that left the group without any entry at a state of the log.
    fn is_as_at(&self, dry_at: Option<u64>) -> bool {
        let is_open = self.page.flags() == 0 && !self.leaving.load(Ordering::SeqCst);
        is_open && dry_at == Some(self.page.get(Word::Written))
    }

    /// Whether the overlays hold more than is to be held in memory.
    fn is_over(&self, py: Python<'_>, most_rows: usize) -> bool {
        self.lock_brief(py).tail.state.groups.overlay_rows() > most_rows
    }
}

#[pymethods]
impl Log {
    /// Visible entries of the active segment behind `after`, `limit` at most; None where the long way is to be gone.
    fn newer<'py>(
        &self,
        py: Python<'py>,
        after: &Bound<'py, PyAny>,
        limit: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let after = parse(after, 0)?;
        if self.followed(py).is_none() {
            return Ok(None);
        }
        // Readers stand at many places: what one of them will ask for next is soon another's.
        let found = self.unpacked(py, after, limit, 1, 1)?.filter(|found| !found.cut);
        let Some(found) = found else { return Ok(None) };
        let entries = found.rows.into_iter().map(|(block, row, _)| Py::new(py, Entry::at(block, row, self.text)));
        PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?).map(Some)
    }

    /// Gives a consumer the next entries of its group, `count` at most; waits for one for `block_s` seconds (0: for ever).
    ///
    /// Returns what was given, None where the long way is to be gone: with the place in the queue that was reached; and
    /// whether the overlays hold more than `most_rows`. Signals are handled while it waits, and `stop`, a
    /// `threading.Event`, ends the wait.
    #[pyo3(signature = (group, consumer, count, block_s, owner, first_seen, most_rows, now_ms, stop=None))]
    #[allow(clippy::too_many_arguments)]
    fn take<'py>(
        &self,
        py: Python<'py>,
        group: &[u8],
        consumer: &[u8],
        count: usize,
        block_s: Option<f64>,
        owner: &Bound<'py, PyAny>,
        first_seen: Option<(u64, Bound<'py, PyAny>)>,
        most_rows: usize,
        now_ms: Option<u64>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Taken<'py>> {
        let first_seen = first_seen.map(|(version, id)| parse(&id, 0).map(|id| (version, id))).transpose()?;
        let waits = block_s.is_some();
        let asked = Asked { group, consumer, count, waits, owner, first_seen, now_ms };
        // Only 0 is for ever, and what no clock can hold; not what is so short that it is rounded to nothing.
        let until = block_s.filter(|block_s| *block_s != 0.0).and_then(|block_s| {
            Duration::try_from_secs_f64(block_s).ok().and_then(|block| Instant::now().checked_add(block))
        });
        let look = Duration::from_millis(LOOK_MS);
        let (mut turn, mut is_first) = (None, true);
        loop {
            if self.leaving.load(Ordering::SeqCst) {
                return Ok((None, None, false)); // its place is left: whoever opens the page next may begin it anew
            }
            let found = {
                let _held = Held::take(py, &self.page)?;
                self.look(py, &asked, &mut turn, is_first)?
            };
            is_first = false;
            let dry_at = match found {
                Look::Given(given) => return Ok((Some(PyList::new(py, given)?), None, self.is_over(py, most_rows))),
                Look::Long => return Ok((None, turn, false)),
                Look::Nothing(dry_at) => dry_at,
            };
            loop {
                let left = until.map_or(look, |until| until.saturating_duration_since(Instant::now()).min(look));
                let Some(place) = turn.as_ref().filter(|_| !left.is_zero()) else {
                    return Ok((Some(PyList::empty(py)), None, false));
                };
                let (word, waiting) = self.page.turn_word(place.turn());
                py.detach(|| futex::wait(word, waiting, left));
                py.check_signals()?;
                let stops = |stop: &Bound<'py, PyAny>| stop.call_method0("is_set")?.is_truthy();
                if stop.as_ref().map(stops).transpose()?.unwrap_or(false) {
                    return Ok((Some(PyList::empty(py)), None, false));
                }
                if word.load(Ordering::SeqCst) != waiting || !self.is_as_at(dry_at) {
                    break;
                }
            }
        }
    }

    /// Acknowledges as `acknowledge` does, by the group's name; with `consumer`, what it still has. Returns how many were
    /// pending, and whether the overlays hold more than `most_rows`; None where the long way is to be gone.
    #[pyo3(signature = (group, ids, most_rows, now_ms, consumer=None))]
    fn finish(
        &self,
        py: Python<'_>,
        group: &[u8],
        ids: Vec<Bound<'_, PyAny>>,
        most_rows: usize,
        now_ms: Option<u64>,
        consumer: Option<&[u8]>,
    ) -> PyResult<Option<(usize, bool)>> {
        let mut ids = ids_of(&ids)?;
        let _held = Held::take(py, &self.page)?;
        let Some(group) = self.ready(py, group) else { return Ok(None) };
        if let Some(name) = consumer {
            let Some(number) = self.consumer_number(py, group, name) else { return Ok(None) };
            let is_known = self.with_group(py, group, |it| {
                let is_known = !ids.iter().any(|id| it.is_unknown(*id));
                ids.retain(|id| it.find(*id).is_some_and(|row| row.consumer == number));
                Ok(is_known)
            })?;
            if !is_known.unwrap_or(false) {
                return Ok(None);
            }
        }
        let (code, ended) = self.end(py, group, ids, now_ms.unwrap_or_else(crate::log::now_ms), false)?;
        Ok((code == 0).then(|| (ended.len(), self.is_over(py, most_rows))))
    }
}

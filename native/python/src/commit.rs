//! Appending and flushing, without Python: what happens under the append lock, and the group commit.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskstream_core::commits::Part;
use diskstream_core::error::{make_room, Error};
use diskstream_core::frame::{self, FrameHeader, FrameSpec, Kind, FLAG_RECORDS, FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES};
use diskstream_core::group_ops::{put_commit, Op};
use diskstream_core::id::Id;
use diskstream_core::tail::Tail;
use diskstream_core::wire::padded;
use diskstream_sys::ctl::{Bell, Ctl as Page, Lock, Word, FLAG_CHECK, FLAG_MOVED, FLAG_POISONED, FLAG_ROTTEN};
use diskstream_sys::futex;
use diskstream_sys::map::Map;
use diskstream_sys::mutex::Locked;
use pyo3::prelude::*;

use crate::ctl::{place, split};
use crate::errors::{describe, reason, signals, Failure};
use crate::file;

/// Where writes go: straight to the file, or through a Python object that stands in for it (the crash simulator).
pub enum Target {
    Native,
    Python(Py<PyAny>),
}

/// One process's view of a stream's active segment.
pub struct Active {
    pub tail: Tail,
    pub file: Arc<file::Inner>,
    pub target: Target,
    pub map: Arc<Map>,
    pub scratch: Vec<u8>,
    /// Bytes that the last append found missing.
    pub needed: u64,
    /// The milliseconds that the last append found not reserved: the clock may say less by the time that they are.
    pub wanted_ms: u64,
}

/// How the ID of a row is chosen.
#[derive(Debug, Clone, Copy)]
pub enum Choice {
    /// The clock's, or the one after the last.
    Auto,
    /// These milliseconds, the next free sequence.
    Within(u64),
    /// This ID; the rows after it follow by the steps they were packed with, up to `last`.
    Explicit { first: Id, last: Id },
}

/// A batch of rows to append.
pub struct Batch<'a> {
    pub choice: Choice,
    pub rows: u32,
    pub payload: &'a [u8],
    /// A message to remember with the entry: its producer, and its ID.
    pub message: Option<(&'a [u8], &'a [u8])>,
    /// The part of a writer's work that the rows are: nothing is appended where it was committed before.
    pub commit: Option<Part<'a>>,
    pub now_ms: u64,
}

type Outcome<T> = Result<T, Failure>;

/// What stands against an append, as the page's flags say it.
pub fn check_flags(page: &Page) -> Outcome<()> {
    let flags = page.flags();
    if flags == 0 {
        return Ok(());
    }
    Err(if flags & FLAG_MOVED != 0 {
        Failure::Reason(reason::MOVED)
    } else if flags & FLAG_POISONED != 0 {
        Failure::Poisoned(page.poison_text())
    } else if flags & FLAG_ROTTEN != 0 {
        Failure::Reason(reason::ROTTEN)
    } else if flags & FLAG_CHECK != 0 {
        Failure::Reason(reason::CHECK)
    } else {
        return Ok(());
    })
}

impl Active {
    /// Applies what other processes have written to this segment.
    #[inline]
    pub fn catch_up(&mut self, page: &Page) -> Outcome<()> {
        let (segment, end) = split(page.get(Word::Written));
        if segment == self.tail.header.segment && end == self.tail.end {
            return Ok(());
        }
        if segment != self.tail.header.segment {
            return Err(Failure::Reason(reason::FOLLOW));
        }
        if (self.map.len() as u64) < end {
            self.map = self.file.refresh()?;
        }
        let map = Arc::clone(&self.map);
        self.tail.follow(map.bytes(), end)?;
        Ok(())
    }

    fn choose(&mut self, batch: &Batch<'_>, reserve: bool) -> Outcome<(Id, Id)> {
        let last = self.tail.state.last_id;
        let extra = u64::from(batch.rows.saturating_sub(1));
        match batch.choice {
            Choice::Explicit { first, last: end } => {
                if end == Id::MIN || first == Id::MIN {
                    return Err(Failure::Zero);
                }
                self.above(first, end)
            }
            Choice::Within(ms) => {
                let first = match ms.cmp(&last.ms) {
                    std::cmp::Ordering::Less => return self.above(Id::new(ms, 0), Id::new(ms, 0)),
                    std::cmp::Ordering::Equal => match last.seq.checked_add(1) {
                        Some(seq) => Id::new(ms, seq),
                        None => return self.above(last, last),
                    },
                    std::cmp::Ordering::Greater => Id::new(ms, 0),
                };
                let end = first.seq.checked_add(extra).ok_or(Failure::NotAbove)?;
                self.above(first, Id::new(first.ms, end))
            }
            Choice::Auto => {
                let floor = last.max(Id::new(
                    self.tail.frontier.floor_ms,
                    if self.tail.frontier.floor_ms > 0 { u64::MAX } else { 0 },
                ));
                let mut first = if batch.now_ms > floor.ms {
                    Id::new(batch.now_ms, 0)
                } else {
                    floor.next().ok_or(Failure::Exhausted)?
                };
                if first.seq.checked_add(extra).is_none() {
                    // A batch shares its milliseconds: where the sequence would run over, it moves on as a whole.
                    first = Id::new(first.ms.checked_add(1).ok_or(Failure::Exhausted)?, 0);
                }
                let frontier_ms = self.tail.frontier.frontier_ms;
                // A frontier of 0 reserves nothing, not even the first millisecond of 1970.
                if reserve && (first.ms > frontier_ms || frontier_ms == 0) {
                    self.wanted_ms = first.ms;
                    return Err(Failure::Reason(reason::FRONTIER));
                }
                Ok((first, Id::new(first.ms, first.seq + extra)))
            }
        }
    }

    fn above(&self, first: Id, end: Id) -> Outcome<(Id, Id)> {
        if self.tail.state.last_id == Id::MAX {
            return Err(Failure::Exhausted);
        }
        if first <= self.tail.state.last_id {
            return Err(Failure::NotAbove);
        }
        Ok((first, end))
    }
}

/// What an append needs to know of its log.
pub struct Writer<'a> {
    pub page: &'a Page,
    pub always: bool,
    pub segment_bytes: u64,
}

impl Writer<'_> {
    /// Appends rows under the append lock, which the caller holds. Returns the first and the last ID.
    #[inline]
    pub fn append_rows(&self, active: &mut Active, batch: &Batch<'_>) -> Outcome<(Id, Id)> {
        check_flags(self.page)?;
        active.catch_up(self.page)?;
        if batch.commit.is_some_and(|part| active.tail.state.commits.has(&part)) {
            // Before the IDs are looked at: those of a part that is there already are not above the last one.
            return Err(Failure::Committed);
        }
        let (first, last) = active.choose(batch, !self.always)?;
        if batch.message.is_none() && batch.commit.is_none() {
            self.append(active, Kind::Entries, batch.rows, (first, last), (batch.payload, 0), batch.now_ms)?;
            return Ok((first, last));
        }
        let mut records = Vec::new();
        if let Some((producer, message)) = batch.message {
            let (producer, message) = (producer.to_vec(), message.to_vec());
            Op::Message { producer, message, id: first, time_ms: batch.now_ms }.put(&mut records);
        }
        if let Some(part) = batch.commit {
            put_commit(&mut records, &part, batch.now_ms);
        }
        let length = (records.len() as u32).to_le_bytes();
        let mut payload = Vec::new();
        make_room(&mut payload, batch.payload.len() + records.len() + length.len(), "a frame")?;
        [batch.payload, &records, &length].iter().for_each(|part| payload.extend_from_slice(part));
        if payload.len() > MAX_PAYLOAD_BYTES {
            let (limit, found) = (MAX_PAYLOAD_BYTES as u64, payload.len() as u64);
            return Err(Error::Limit { what: "batch", limit, found }.into());
        }
        self.append(active, Kind::Entries, batch.rows, (first, last), (&payload, FLAG_RECORDS), batch.now_ms)?;
        Ok((first, last))
    }

    /// Appends one frame under the append lock; the tail is up to date.
    #[inline]
    pub fn append(
        &self,
        active: &mut Active,
        kind: Kind,
        entries: u32,
        (first, last): (Id, Id),
        (payload, flags): (&[u8], u8),
        now_ms: u64,
    ) -> Outcome<()> {
        if self.page.is_left() {
            return Err(Failure::Reason(reason::CLOSED));
        }
        let need = (FRAME_HEADER_BYTES + padded(payload.len())) as u64;
        let at = active.tail.end;
        let full = self.segment_bytes.max(2 * active.tail.snapshot.1);
        let begun = at > active.tail.snapshot.0 + active.tail.snapshot.1;
        if matches!(kind, Kind::Entries | Kind::Groups) && at + need > full && begun {
            return Err(Failure::Reason(reason::ROLL));
        }
        if at + need > active.map.len() as u64 {
            active.map = active.file.refresh()?;
            if at + need > active.map.len() as u64 {
                active.needed = need;
                return Err(Failure::Reason(reason::EXTEND));
            }
        }
        let spec = FrameSpec {
            salt: active.tail.header.salt,
            kind,
            flags,
            entries,
            lsn: active.tail.lsn + 1,
            synced_lsn: self.page.get(Word::DurableLsn),
            time_ms: now_ms,
            first,
            previous_crc: active.tail.link,
        };
        let mut scratch = std::mem::take(&mut active.scratch);
        scratch.clear();
        make_room(&mut scratch, need as usize, "a frame")?;
        let link = frame::encode(&mut scratch, &spec, payload);
        let written = self.write(active, at, &scratch);
        active.scratch = if scratch.capacity() > 1 << 20 { Vec::new() } else { scratch };
        if let Err(error) = written {
            if matches!(error, Failure::Closed) {
                return Err(Failure::Reason(reason::CLOSED)); // says nothing of the disk
            }
            self.page.poison(&format!("a write failed: {}", describe(&error)));
            return Err(error);
        }
        let header = FrameHeader {
            salt: spec.salt,
            length: payload.len() as u32,
            kind,
            flags,
            entries,
            lsn: spec.lsn,
            synced_lsn: spec.synced_lsn,
            previous_crc: spec.previous_crc,
            time_ms: now_ms,
            first,
            payload_crc: 0,
            header_crc: link,
        };
        active.tail.applied(&header, payload, last)?;
        self.publish(active, kind);
        Ok(())
    }

    fn write(&self, active: &Active, at: u64, bytes: &[u8]) -> Outcome<()> {
        let method = if self.always { "pwrite" } else { "store" };
        match &active.target {
            Target::Native if self.always => active.file.pwrite(at, bytes),
            Target::Native => {
                if active.map.store(at as usize, bytes) {
                    Ok(())
                } else {
                    active.file.store(at, bytes)
                }
            }
            Target::Python(object) => Python::attach(|py| {
                let data = pyo3::types::PyBytes::new(py, bytes);
                object.call_method1(py, method, (at, data)).map(drop).map_err(Failure::Python)
            }),
        }
    }

    /// Tells the other processes. Under `always` readers are told when the frame is durable.
    #[inline]
    fn publish(&self, active: &Active, kind: Kind) {
        let at = place(active.tail.header.segment, active.tail.end);
        self.page.set(Word::Written, at);
        if self.always && kind == Kind::Entries {
            self.page.set(Word::Entries, at);
        }
        if !self.always {
            self.page.set(Word::Visible, at);
            if kind == Kind::Entries {
                // One, however many entries there are: who is served wakes the next where more is left.
                self.page.wake_queue(1, None);
            }
            if !matches!(kind, Kind::Groups | Kind::View | Kind::Mark) {
                self.page.ring(Bell::Readers);
            }
        }
    }
}

fn flush(target: &Flushable) -> Outcome<()> {
    match &target.target {
        None => target.file.flush(),
        Some(object) => Python::attach(|py| object.call_method0(py, "flush").map(drop).map_err(Failure::Python)),
    }
}

/// A file to flush, and what will be durable then.
pub struct Flushable {
    pub file: Arc<file::Inner>,
    pub target: Option<Py<PyAny>>,
    pub at: u64,
    pub lsn: u64,
}

/// How long a follower sleeps before it looks whether the leader is still alive.
const FOLLOWER_SLICE: Duration = Duration::from_millis(50);

/// Returns once everything up to `until` is durable: one caller at a time flushes for all (group commit).
///
/// `latest` gives the file to flush and the position that a flush started now would cover.
pub fn wait_durable(page: &Page, until: u64, latest: impl Fn() -> Outcome<Flushable>) -> Outcome<()> {
    loop {
        if page.get(Word::Durable) >= until {
            return Ok(());
        }
        if page.flags() & FLAG_POISONED != 0 {
            return Err(Failure::Poisoned(page.poison_text()));
        }
        let seen = page.bell(Bell::Flushed).load(Ordering::SeqCst);
        let mutex = page.lock(Lock::Flush);
        let locked = mutex.try_lock();
        match locked {
            Locked::Mine => return Err(Failure::Reentered),
            Locked::GivenUp => return Err(Failure::Reason(reason::CLOSED)),
            _ => {}
        }
        if locked == Locked::No {
            if page.get(Word::Durable) >= until {
                return Ok(());
            }
            let slice = Instant::now();
            page.sleepers(Bell::Flushed).fetch_add(1, Ordering::SeqCst);
            futex::wait(page.bell(Bell::Flushed), seen, FOLLOWER_SLICE);
            page.sleepers(Bell::Flushed).fetch_sub(1, Ordering::SeqCst);
            if slice.elapsed() >= FOLLOWER_SLICE {
                signals()?;
            }
            continue;
        }
        let done = if page.get(Word::Durable) >= until { Ok(()) } else { lead(page, until, &latest) };
        mutex.unlock();
        page.ring(Bell::Flushed);
        done?;
    }
}

/// The longest that a leader waits for its group: about one flush, which each straggler would cost otherwise.
const GATHER: Duration = Duration::from_micros(100);

/// Waits until as many have written as the last flush served: those whom it woke are about to be here again.
///
/// Who was woken and has not run yet is counted as well. So a flush may begin before its group is whole, and serves six
/// of eight; the others write while it goes on. Counted exactly, a flush serves all eight and a second sees as many
/// entries, and with 16 processes a quarter fewer, since nobody writes while the disk is busy.
fn gather(page: &Page) {
    let expected = page.get(Word::Group);
    if expected <= 1 {
        return;
    }
    let began = Instant::now();
    while u64::from(page.sleepers(Bell::Flushed).load(Ordering::SeqCst)) + 1 < expected && began.elapsed() < GATHER {
        std::thread::yield_now();
    }
}

/// Flushes for everyone who has written so far.
fn lead(page: &Page, until: u64, latest: &impl Fn() -> Outcome<Flushable>) -> Outcome<()> {
    gather(page);
    let target = match latest() {
        Ok(target) => target,
        // Whoever rolled has flushed all of this segment before it published the next one.
        Err(Failure::Reason(reason::FOLLOW)) if page.get(Word::Durable) >= until => return Ok(()),
        Err(error) => return Err(error),
    };
    if let Err(error) = flush(&target) {
        if matches!(error, Failure::Closed) {
            return Err(Failure::Reason(reason::CLOSED)); // says nothing of the disk
        }
        // A second flush may succeed without having written anything: the stream is closed to writers for good.
        page.poison(&format!("a flush failed: {}", describe(&error)));
        return Err(error);
    }
    page.set(Word::Group, u64::from(page.sleepers(Bell::Flushed).load(Ordering::SeqCst)) + 1);
    page.raise(Word::DurableLsn, target.lsn);
    page.raise(Word::Durable, target.at);
    let before = page.get(Word::Visible);
    if before < target.at {
        page.raise(Word::Visible, target.at);
        // Group frames alone give a waiter nothing: one that was woken for them would be promised what comes next.
        if page.get(Word::Entries) > before {
            // How many entries that shows is not known here: each who is served wakes the next.
            page.wake_queue(1, None);
        }
        page.ring(Bell::Readers);
    }
    Ok(())
}

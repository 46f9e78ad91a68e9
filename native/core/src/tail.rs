//! A log file as it is followed: its state so far, and what its frames say.

use std::sync::Arc;

use crate::counters::LastSet;
use crate::error::{Error, Result};
use crate::frame::{self, FrameHeader, Kind, FRAME_HEADER_BYTES};
use crate::group_ops::{self, Op};
use crate::groups::{Base, Group};
use crate::header::{Frontier, LogHeader, HEADER_BYTES};
use crate::id::Id;
use crate::pending::{decode_chunk, Order};
use crate::row_index::RowIndex;
use crate::rows;
use crate::snapshot;
use crate::state::{SegmentMeta, State};
use crate::wire::Reader;

/// A log file from its header on, followed frame by frame.
#[derive(Debug, Clone)]
pub struct Tail {
    pub header: LogHeader,
    pub state: State,
    pub index: RowIndex,
    /// The offset behind the last frame.
    pub end: u64,
    pub lsn: u64,
    pub link: u32,
    /// Offset and length of the snapshot frame.
    pub snapshot: (u64, u64),
    pub frontier: Frontier,
    /// Sequence number and header checksum of the snapshot frame, and the checksum of the frame before it.
    pub begun: (u64, u32, u32),
    pub(crate) last_set: LastSet,
    /// The copy of a damaged snapshot frame that was read instead.
    copy: Option<Arc<[u8]>>,
    /// Pending entries of the snapshot that were to be taken into memory at most.
    limit: u64,
}

/// What groups did in the frames behind a position: their times, in milliseconds, and records.
type Since = Vec<(u64, Vec<Op>)>;

impl Tail {
    /// Reads header and snapshot of a log file.
    pub fn begin(file: &[u8]) -> Result<Tail> {
        let header = LogHeader::parse(file)?;
        let frontier = Frontier::read(file, header.salt)?;
        // What the first frame is linked to stands in the segment before, which may be gone.
        let first = frame::probe(file, HEADER_BYTES, header.salt)?;
        if first.kind != Kind::Snapshot {
            return Err(Error::corrupt("snapshot frame", HEADER_BYTES, "a snapshot", format!("{:?}", first.kind)));
        }
        let payload = frame::payload(file, HEADER_BYTES, &first)?;
        Tail::resume(header, &first, payload, frontier)
    }

    /// Begins behind the copy of a damaged snapshot, which says all of the header that is needed.
    pub fn from_copy(copy: &[u8], segment: u64) -> Result<Tail> {
        let salt = Reader::new(copy, "snapshot copy").u32()?;
        let first = frame::probe(copy, 0, salt)?;
        let payload = frame::payload(copy, 0, &first)?;
        let uuid = snapshot::decode(payload, segment)?.uuid;
        let header = LogHeader { salt, uuid, segment, created_ms: first.time_ms };
        let tail = Tail::resume(header, &first, payload, Frontier::default())?;
        Ok(Tail { copy: Some(Arc::from(copy)), ..tail })
    }

    /// Begins behind a snapshot frame that may come from the copy in a sealed segment.
    pub fn resume(header: LogHeader, first: &FrameHeader, payload: &[u8], frontier: Frontier) -> Result<Tail> {
        let state = snapshot::decode(payload, header.segment).map_err(|error| error.at(HEADER_BYTES))?;
        if state.uuid != header.uuid {
            return Err(Error::corrupt("snapshot frame", HEADER_BYTES, "this stream's", "another stream's"));
        }
        let length = first.frame_bytes() as u64;
        let end = HEADER_BYTES + length;
        Ok(Tail {
            header,
            last_set: LastSet::by_snapshot(&state, end),
            state,
            index: RowIndex::new(header.salt),
            end,
            lsn: first.lsn,
            link: first.header_crc,
            snapshot: (HEADER_BYTES, length),
            frontier,
            begun: (first.lsn, first.header_crc, first.previous_crc),
            copy: None,
            limit: 0,
        })
    }

    /// The snapshot's pending entries: section 17, chunk after chunk.
    pub fn pending<'a>(&'a self, file: &'a [u8]) -> Result<Vec<(u32, &'a [u8])>> {
        let (bytes, start) = match &self.copy {
            Some(copy) => (copy.as_ref(), FRAME_HEADER_BYTES),
            None => (file, HEADER_BYTES as usize + FRAME_HEADER_BYTES),
        };
        let section = &self.state.pending;
        let found = bytes.get(start + section.start..start + section.end);
        let beyond = || Error::corrupt("snapshot", self.snapshot.0, "pending entries", "the end of the file");
        snapshot::pending_chunks(found.ok_or_else(beyond)?)
    }

    /// Right behind a snapshot: takes its pending entries into memory where they are at most `limit`, or where this
    /// process goes `apart` from any view; else they are left to the view.
    pub fn begin_groups(&mut self, file: &[u8], limit: u64, apart: bool) -> Result<()> {
        self.limit = limit;
        self.state.groups.apart = apart;
        if !apart && self.state.groups.pending() > limit {
            self.state.groups.base = Base::View(self.begun.0.saturating_sub(1), self.begun.2);
            return Ok(());
        }
        let mut rows = Vec::new();
        for (group, chunk) in self.pending(file)? {
            rows.extend(decode_chunk(chunk, Order::ById)?.into_iter().map(|row| (group, row)));
        }
        for (group, row) in rows {
            self.state.groups.group_mut(group)?.overlay.set(row, false);
        }
        // The lists count, whatever the numbers say: a wrong number must not keep a stream from being opened.
        self.state.groups.by_number.values_mut().for_each(Group::recount);
        Ok(())
    }

    /// Begins the overlays anew over a view that holds the snapshot's pending entries. An error leaves them as they were:
    /// what a frame behind the snapshot said is nowhere else.
    pub fn rebase_to_snapshot(&mut self, file: &[u8]) -> Result<()> {
        let (lsn, link, before) = self.begun;
        let found = self.group_ops(file, lsn, self.snapshot.0 + self.snapshot.1, link)??;
        self.begin_overlays(Base::View(lsn.saturating_sub(1), before), &found);
        Ok(())
    }

    /// Begins the overlays anew over a view that stands behind frame `lsn`, which ends at `offset` and has this header
    /// checksum. False where this log has no such frame: the view belongs to another past.
    pub fn rebase(&mut self, file: &[u8], lsn: u64, offset: u64, link: u32) -> Result<bool> {
        if offset < self.snapshot.0 + self.snapshot.1 || offset > self.end {
            return Ok(false);
        }
        let Ok(found) = self.group_ops(file, lsn, offset, link)? else { return Ok(false) };
        self.begin_overlays(Base::View(lsn, link), &found);
        Ok(true)
    }

    fn begin_overlays(&mut self, base: Base, since: &Since) {
        self.state.groups.rebase(base);
        for (time_ms, ops) in since {
            ops.iter().for_each(|op| self.state.groups.replay(op, *time_ms));
        }
    }

    /// The times and records of frames of groups behind frame `lsn`. The inner error says that no frame that ends at
    /// `offset` with this header checksum leads to the end; the outer one, that one which does cannot be read.
    fn group_ops(&self, file: &[u8], lsn: u64, mut offset: u64, mut link: u32) -> Result<Result<Since>> {
        let mut found = Vec::new();
        let mut at = lsn;
        while offset < self.end {
            let header = match frame::parse_header(file, offset, self.header.salt, link) {
                Ok(header) => header,
                Err(error) => return Ok(Err(error)),
            };
            if at.checked_add(1) != Some(header.lsn) {
                let expected = format!("the one after {at}");
                return Ok(Err(Error::corrupt("frame sequence number", offset, expected, header.lsn)));
            }
            if header.kind == Kind::Groups {
                found.push((header.time_ms, group_ops::read_ops(frame::payload(file, offset, &header)?)?));
            }
            (at, link) = (header.lsn, header.header_crc);
            offset += header.frame_bytes() as u64;
        }
        if at != self.lsn || link != self.link {
            let expected = format!("number {} at the end", self.lsn);
            return Ok(Err(Error::corrupt("frame sequence number", offset, expected, at)));
        }
        Ok(Ok(found))
    }

    /// The next frame, its payload, and the last ID in it: whole, and behind the last one.
    fn next<'a>(&self, file: &'a [u8]) -> Result<(FrameHeader, &'a [u8], Id)> {
        let header = frame::parse_header(file, self.end, self.header.salt, self.link)?;
        if self.lsn.checked_add(1) != Some(header.lsn) {
            let expected = format!("the one after {}", self.lsn);
            return Err(Error::corrupt("frame sequence number", self.end, expected, header.lsn));
        }
        let payload = frame::payload(file, self.end, &header)?;
        let last = match header.kind {
            Kind::Entries => {
                let (rows, _) = header.split(payload)?;
                rows::last_id(rows, header.first, header.entries).map_err(|error| error.at(self.end))?
            }
            Kind::Snapshot => {
                return Err(Error::corrupt("frame kind", self.end, "no second snapshot", "a snapshot"));
            }
            _ => Id::MIN,
        };
        Ok((header, payload, last))
    }

    /// Applies the next frame. An error leaves everything as it was.
    fn step(&mut self, file: &[u8]) -> Result<()> {
        let (header, payload, last) = self.next(file)?;
        let dropped = self.state.dropped.len();
        let done = self.applied(&header, payload, last);
        if done.is_err() {
            self.undo(file, dropped);
        }
        done
    }

    /// A whole frame that makes no sense at its end has changed something by then: all before it is applied anew. Only the
    /// first so many segments that were dropped are to be removed.
    fn undo(&mut self, file: &[u8], dropped: usize) {
        self.state.dropped.truncate(dropped);
        let begun = match &self.copy {
            Some(copy) => Tail::from_copy(copy, self.header.segment),
            None => Tail::begin(file),
        };
        let made = begun.and_then(|mut tail| {
            tail.begin_groups(file, self.limit, self.state.groups.apart)?;
            while tail.end < self.end {
                let (header, payload, last) = tail.next(file)?;
                tail.applied(&header, payload, last)?;
            }
            Ok(tail)
        });
        if let Ok(mut tail) = made {
            tail.state.dropped = std::mem::take(&mut self.state.dropped);
            (tail.header, tail.frontier) = (self.header, self.frontier);
            *self = tail;
        }
    }

    /// Takes over a frame at the end that is known to be whole: one that was just written, or checked by [`Tail::step`].
    #[inline]
    pub fn applied(&mut self, header: &FrameHeader, payload: &[u8], last: Id) -> Result<()> {
        let before = (header.kind == Kind::SetId).then(|| self.counters());
        self.state.apply(header, payload, last).map_err(|error| error.at(self.end))?;
        if header.kind == Kind::Entries {
            self.index.note(header, self.end);
        }
        self.end += header.frame_bytes() as u64;
        if let Some(before) = before {
            self.last_set = LastSet::by_frame(&self.state, self.end, before);
        }
        self.lsn = header.lsn;
        self.link = header.header_crc;
        Ok(())
    }

    /// Applies all frames up to offset `end`, which must be a frame's end.
    pub fn follow(&mut self, file: &[u8], end: u64) -> Result<()> {
        while self.end < end {
            self.step(file)?;
        }
        Ok(())
    }

    /// Applies frames for as long as they are whole. Returns what stopped it.
    pub fn follow_to_end(&mut self, file: &[u8]) -> Error {
        loop {
            if let Err(error) = self.step(file) {
                return error;
            }
        }
    }

    /// Goes on in the segment after this one, whose snapshot must continue this chain.
    pub fn continues(&self, next: &Tail) -> bool {
        next.header.uuid == self.header.uuid && next.lsn > self.lsn
    }

    /// The active segment's meta as the list of segments will hold it.
    pub fn meta(&self) -> &SegmentMeta {
        &self.state.active
    }
}

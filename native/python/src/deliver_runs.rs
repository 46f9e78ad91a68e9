//! Reads and acknowledgements of many clients together: one frame, and the replies as the clients read them. Under the
//! append lock.

use std::collections::HashSet;

use diskstream_core::error::Result;
use diskstream_core::id::Id;
use diskstream_core::resp_reply as wire;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes};

use crate::bytes::bytes_of;
use crate::command_run::CommandRun;
use crate::deliver::{Delivered, Found};
use crate::entry::Block;
use crate::errors::{self, reason};
use crate::id::parse;
use crate::log::Log;

/// Once so many bytes of names and values were given out, the next reads are left for the next call.
const BYTES_AT_ONCE: usize = 256 << 10;

/// The number of a consumer, its reads, and whether its client reads RESP3.
type Reader<'py> = (u32, PyRef<'py, CommandRun>, bool);
/// How many of a run's reads were answered, and their replies.
type Answers<'py> = Vec<(usize, Bound<'py, PyBytes>)>;

/// What each run is given of the rows that were found: of each read that is answered the first row behind its last.
struct Shares {
    ends: Vec<Vec<usize>>,
    /// Whether the first read that is not answered has something to be given.
    cut: bool,
}

impl Shares {
    fn of(readers: &[Reader<'_>], found: &Found, whole: bool) -> Shares {
        let mut shares = Shares { ends: Vec::with_capacity(readers.len()), cut: false };
        let (mut at, mut spent, mut ended) = (0, 0, false);
        for (_, run, _) in readers {
            let mut ends = Vec::new();
            for read in run.reads() {
                let left = found.rows.len() - at;
                let short = left < read.count as usize && !whole;
                if ended || left == 0 || (at > 0 && (short || spent >= BYTES_AT_ONCE)) {
                    shares.cut |= !ended && (left > 0 || !whole);
                    ended = true;
                    break;
                }
                let next = at + left.min(read.count as usize);
                spent += found.rows.get(at..next).map_or(0, |rows| {
                    rows.iter().map(|(block, row, _)| block.entry_bytes(*row as usize)).sum::<usize>()
                });
                at = next;
                ends.push(at);
            }
            shares.ends.push(ends);
        }
        shares
    }
}

/// Replies to reads of `key` that end behind these rows; the first begins at `from`.
fn replies(key: &[u8], found: &Found, mut from: usize, ends: &[usize], resp3: bool) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for end in ends {
        let rows = found.rows.get(from..*end).unwrap_or_default();
        if resp3 {
            wire::put_map(&mut out, 1, true);
        } else {
            wire::put_array(&mut out, 1);
            wire::put_array(&mut out, 2);
        }
        wire::put_bulk(&mut out, key);
        wire::put_array(&mut out, rows.len());
        for (block, row, _) in rows {
            wire::put_entry(&mut out, block, *row as usize)?;
        }
        from = *end;
    }
    Ok(out)
}

#[pymethods]
impl Log {
    /// Gives the consumers of a group what their runs of XREADGROUP ask for, as far as there is something: the entries of
    /// `blocks`, or of the active segment where None. `limit` is how many are looked for; with `cut` the blocks are not
    /// all there is.
    ///
    /// Returns a reason, as `deliver` does, of each run how many of its reads were answered and their replies, and
    /// whether there is more for the others.
    #[pyo3(signature = (group, readers, blocks, limit, cut, first, now_ms, asked=false))]
    #[allow(clippy::too_many_arguments)]
    fn deliver_runs<'py>(
        &self,
        py: Python<'py>,
        group: u32,
        readers: Vec<Reader<'py>>,
        blocks: Option<Vec<PyRef<'py, Block>>>,
        limit: usize,
        cut: bool,
        first: &Bound<'py, PyAny>,
        now_ms: u64,
        asked: bool,
    ) -> PyResult<(u8, Answers<'py>, bool)> {
        let refuse = |code: u8| Ok((code, Vec::new(), false));
        let after = match self.with_group(py, group, |group| Ok(group.last))? {
            Ok(last) => last,
            Err(error) => return Err(self.error(py, error)),
        };
        let enough = readers.iter().flat_map(|(_, run, _)| run.reads()).next().map_or(0, |read| read.count as usize);
        let found = match &blocks {
            Some(blocks) => {
                let mut found = Found::none(self.text);
                found.cut = cut;
                blocks.iter().for_each(|block| found.add(block, after, limit));
                found
            }
            None => match self.behind(py, after, limit, enough)? {
                Some(found) => found,
                None => return refuse(reason::SEALED),
            },
        };
        let shares = Shares::of(&readers, &found, !found.cut && found.rows.len() < limit);
        // Before anything is given out: for what they hold there may be no memory.
        let mut from = 0;
        let mut answers = Vec::with_capacity(readers.len());
        for ((_, run, resp3), ends) in readers.iter().zip(&shares.ends) {
            let reply = replies(run.key_bytes(), &found, from, ends, *resp3);
            let reply = reply.map_err(|error| errors::core(py, "", error))?;
            answers.push((ends.len(), bytes_of(py, &reply)?));
            from = ends.last().copied().unwrap_or(from);
        }
        let given = shares.ends.iter().flatten().last().copied().unwrap_or(0);
        if given > 0 {
            let ids: Vec<Id> = found.rows.iter().take(given).map(|(_, _, id)| *id).collect();
            let mut parts: Vec<(u32, usize, usize)> = Vec::new();
            let mut from = 0;
            for ((consumer, _, _), ends) in readers.iter().zip(&shares.ends) {
                let end = ends.last().copied().unwrap_or(from);
                match parts.last_mut() {
                    Some((before, _, to)) if before == consumer => *to = end,
                    _ => parts.push((*consumer, from, end)),
                }
                from = end;
            }
            let each =
                |(consumer, from, to): &(u32, usize, usize)| (*consumer, ids.get(*from..*to).unwrap_or_default());
            let parts: Vec<(u32, &[Id])> = parts.iter().map(each).collect();
            let delivered = Delivered { group, after, given: &parts, noack: false, asked };
            let payload = match self.delivered(py, &delivered, parse(first, 0)?, now_ms)? {
                Ok(payload) => payload,
                Err(code) => return refuse(code),
            };
            let code = self.append_records(py, &payload, now_ms)?;
            if code != 0 {
                return refuse(code);
            }
        }
        Ok((0, answers, shares.cut))
    }

    /// Acknowledges what runs of XACK for one group name, in one frame. Returns a reason, as `acknowledge` does, and the
    /// replies to each run; an ID that is named twice counts for whom it was named by first.
    #[pyo3(signature = (group, runs, now_ms, asked=false))]
    fn acknowledge_runs<'py>(
        &self,
        py: Python<'py>,
        group: u32,
        runs: Vec<PyRef<'py, CommandRun>>,
        now_ms: u64,
        asked: bool,
    ) -> PyResult<(u8, Vec<Bound<'py, PyBytes>>)> {
        let ids = runs.iter().flat_map(|run| run.acks().0).copied().collect();
        let (code, ended) = self.end(py, group, ids, now_ms, asked)?;
        if code != 0 {
            return Ok((code, Vec::new()));
        }
        let mut left: HashSet<Id> = ended.into_iter().collect();
        let mut out = Vec::new();
        let answers = runs.iter().map(|run| {
            out.clear();
            let (ids, counts) = run.acks();
            let mut ids = ids.iter();
            for count in counts {
                let of_this = ids.by_ref().take(*count);
                // None is left behind here, either: no hash of each where none was pending.
                let ended = if left.is_empty() { 0 } else { of_this.filter(|id| left.remove(id)).count() };
                wire::put_int(&mut out, ended as i64);
            }
            PyBytes::new(py, &out)
        });
        Ok((0, answers.collect()))
    }
}

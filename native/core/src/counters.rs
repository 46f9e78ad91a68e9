//! How many entries a stream has, and its last ID, as of a place in its active segment: what stands behind that is not
//! shown yet.

use crate::error::Result;
use crate::id::Id;
use crate::state::State;
use crate::tail::Tail;

/// What a stream says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Live entries.
    pub length: u64,
    /// The last ID ever added, or set.
    pub last: Id,
    /// Entries ever added, or what that was set to.
    pub added: u64,
    pub max_deleted: Id,
}

impl Counters {
    fn of(state: &State) -> Counters {
        Counters {
            length: state.len(),
            last: state.last_id,
            added: state.entries_added,
            max_deleted: state.max_deleted,
        }
    }
}

/// The newest frame of a segment that set the last ID, or the snapshot that it begins with.
///
/// One is enough: under `always` all that was written is flushed before the last ID is set, so of such frames no other is
/// ever hidden, nor anything before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastSet {
    /// The offset behind that frame.
    end: u64,
    /// What it set.
    id: Id,
    /// Without it.
    before: Counters,
}

impl LastSet {
    /// A snapshot sets nothing: what it says was known before.
    pub fn by_snapshot(state: &State, end: u64) -> LastSet {
        LastSet { end, id: state.last_id, before: Counters::of(state) }
    }

    /// To be called when the frame that ends at `end` was applied; `before` is what held before that.
    pub fn by_frame(state: &State, end: u64, before: Counters) -> LastSet {
        LastSet { end, id: state.last_id, before }
    }
}

impl Tail {
    /// The counters of all that is followed.
    pub(crate) fn counters(&self) -> Counters {
        Counters::of(&self.state)
    }

    /// The counters as of offset `stop`.
    #[inline]
    pub fn counters_at(&self, file: &[u8], stop: u64) -> Result<Counters> {
        if stop >= self.end {
            return Ok(self.counters());
        }
        let seen = self.index.entries_before(file, stop)?;
        let hidden = self.index.entries - seen;
        let all = self.counters();
        let length = all.length.saturating_sub(hidden);
        let set = &self.last_set;
        if stop < set.end {
            return Ok(Counters { length, ..set.before });
        }
        if hidden == 0 {
            return Ok(all);
        }
        // What is added comes behind what is set, and nothing is set below what was added.
        let newest = match seen.checked_sub(1) {
            Some(row) => self.index.read(file, row, stop, 1, 1)?.id(0),
            None => None,
        };
        let last = newest.map_or(set.id, |newest| newest.max(set.id));
        Ok(Counters { length, last, added: all.added.saturating_sub(hidden), ..all })
    }
}

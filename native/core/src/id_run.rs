//! The IDs of a run of entries in memory: half as many bytes where they lie close together, as those of a node do.

use crate::id::Id;

/// IDs, in the order in which they were added.
#[derive(Debug, Clone)]
pub enum IdRun {
    /// Milliseconds behind `ms`, and the sequence number.
    Near { ms: u64, rows: Vec<(u32, u32)> },
    /// As soon as one of them is too far from the first, or has too high a sequence number.
    Far(Vec<Id>),
}

impl Default for IdRun {
    fn default() -> Self {
        IdRun::Near { ms: 0, rows: Vec::new() }
    }
}

impl IdRun {
    pub fn len(&self) -> usize {
        match self {
            IdRun::Near { rows, .. } => rows.len(),
            IdRun::Far(ids) => ids.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn get(&self, row: usize) -> Option<Id> {
        match self {
            IdRun::Near { ms, rows } => rows.get(row).map(|near| far(*ms, near)),
            IdRun::Far(ids) => ids.get(row).copied(),
        }
    }

    pub fn first(&self) -> Option<Id> {
        self.get(0)
    }

    pub fn last(&self) -> Option<Id> {
        self.get(self.len().checked_sub(1)?)
    }

    #[inline]
    pub fn push(&mut self, id: Id) {
        if let IdRun::Near { ms, rows } = self {
            if rows.is_empty() {
                *ms = id.ms;
            }
            if let Some(near) = near(*ms, id) {
                return rows.push(near);
            }
            *self = IdRun::Far(self.iter().collect());
        }
        if let IdRun::Far(ids) = self {
            ids.push(id);
        }
    }

    /// How many there are before the first for which `is_before` does not hold; those for which it does come first.
    pub fn partition_point(&self, is_before: impl Fn(Id) -> bool) -> usize {
        match self {
            IdRun::Near { ms, rows } => rows.partition_point(|near| is_before(far(*ms, near))),
            IdRun::Far(ids) => ids.partition_point(|id| is_before(*id)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Id> + Clone + '_ {
        (0..self.len()).filter_map(|row| self.get(row))
    }

    /// Appends the milliseconds and the sequence numbers of rows `from..to`; false, and nothing, where there are none such.
    pub fn extend(&self, from: usize, to: usize, ms_of: &mut Vec<u64>, seq_of: &mut Vec<u64>) -> bool {
        match self {
            IdRun::Near { ms, rows } => {
                let Some(rows) = rows.get(from..to) else { return false };
                ms_of.extend(rows.iter().map(|(step, _)| ms + u64::from(*step)));
                seq_of.extend(rows.iter().map(|(_, seq)| u64::from(*seq)));
            }
            IdRun::Far(ids) => {
                let Some(ids) = ids.get(from..to) else { return false };
                ms_of.extend(ids.iter().map(|id| id.ms));
                seq_of.extend(ids.iter().map(|id| id.seq));
            }
        }
        true
    }

    /// Those of rows `from..to`; None where there are none such.
    pub fn part(&self, from: usize, to: usize) -> Option<IdRun> {
        Some(match self {
            IdRun::Near { ms, rows } => IdRun::Near { ms: *ms, rows: rows.get(from..to)?.to_vec() },
            IdRun::Far(ids) => IdRun::Far(ids.get(from..to)?.to_vec()),
        })
    }

    /// What they hold in memory.
    pub fn memory_bytes(&self) -> usize {
        match self {
            IdRun::Near { rows, .. } => size_of_val(rows.as_slice()),
            IdRun::Far(ids) => size_of_val(ids.as_slice()),
        }
    }
}

/// `ms` and the step are of one ID, so their sum is its milliseconds again.
#[inline]
fn far(ms: u64, (step, seq): &(u32, u32)) -> Id {
    Id::new(ms.wrapping_add(u64::from(*step)), u64::from(*seq))
}

#[inline]
fn near(ms: u64, id: Id) -> Option<(u32, u32)> {
    Some((u32::try_from(id.ms.checked_sub(ms)?).ok()?, u32::try_from(id.seq).ok()?))
}

impl FromIterator<Id> for IdRun {
    fn from_iter<T: IntoIterator<Item = Id>>(ids: T) -> Self {
        let mut run = IdRun::default();
        ids.into_iter().for_each(|id| run.push(id));
        run
    }
}

impl PartialEq for IdRun {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: u64 = u32::MAX as u64;

    #[test]
    fn ids_come_back_whether_they_are_near_or_far() {
        let far_apart = [
            vec![],
            vec![Id::new(7, 0), Id::new(7, 1), Id::new(9, 0)],
            vec![Id::new(7, 0), Id::new(7 + NEAR, NEAR)],
            vec![Id::new(7, 0), Id::new(8 + NEAR, 0), Id::new(9 + NEAR, 5)],
            vec![Id::new(7, NEAR + 1), Id::new(8, 0)],
            vec![Id::new(7, 3), Id::new(7, NEAR + 1), Id::MAX],
            vec![Id::new(u64::MAX, 0), Id::MAX],
            vec![Id::new(9, 0), Id::new(7, 0)],
        ];
        for ids in far_apart {
            let run: IdRun = ids.iter().copied().collect();
            assert!(run.iter().eq(ids.iter().copied()));
            assert_eq!((run.len(), run.first(), run.last()), (ids.len(), ids.first().copied(), ids.last().copied()));
            for from in 0..=ids.len() {
                let (mut ms, mut seq) = (vec![1], vec![2]);
                assert!(run.extend(from, ids.len(), &mut ms, &mut seq));
                assert!(ms.iter().skip(1).eq(ids.iter().skip(from).map(|id| &id.ms)));
                assert!(seq.iter().skip(1).eq(ids.iter().skip(from).map(|id| &id.seq)));
                assert_eq!(run.part(from, ids.len()), Some(ids.iter().skip(from).copied().collect()));
                assert_eq!(run.get(from), ids.get(from).copied());
            }
            assert!(run.part(0, ids.len() + 1).is_none() && !run.extend(1, 0, &mut Vec::new(), &mut Vec::new()));
        }
    }

    #[test]
    fn ids_of_a_node_take_eight_bytes_and_far_ones_sixteen() {
        let run: IdRun = (0..512u64).map(|row| Id::new(1_700_000_000_000 + row / 5, row % 5)).collect();
        assert_eq!(run.memory_bytes(), 512 * 8);
        assert_eq!(run.partition_point(|id| id < Id::new(1_700_000_000_001, 2)), 7);
        let mut wide = run.clone();
        wide.push(Id::MAX);
        assert_eq!(wide.memory_bytes(), 513 * 16);
        assert_eq!(wide.partition_point(|id| id < Id::MAX), 512);
        assert!(wide.iter().take(512).eq(run.iter()));
    }
}

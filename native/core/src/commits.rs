//! The last commit record of each writer: what lets an append that is tried again be known for what it is.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::group_ops::{put_name, read_name};
use crate::wire::{put_u64, put_varint, Reader};

/// Writers of a stream that are remembered at a time: the one heard of longest ago goes for a new one.
pub const MAX_WRITERS: usize = 1024;

/// A part of a version of what a writer writes. Parts of a version are numbered, and so are versions.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub writer: &'a [u8],
    pub version: u64,
    pub part: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    version: u64,
    part: u32,
    time_ms: u64,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commits {
    by_writer: BTreeMap<Vec<u8>, Last>,
}

impl Commits {
    pub fn is_empty(&self) -> bool {
        self.by_writer.is_empty()
    }

    /// Version and part that a writer committed last.
    pub fn last(&self, writer: &[u8]) -> Option<(u64, u32)> {
        self.by_writer.get(writer).map(|last| (last.version, last.part))
    }

    /// Whether a part was committed, or a later one of its writer.
    pub fn has(&self, part: &Part<'_>) -> bool {
        self.last(part.writer).is_some_and(|last| (part.version, part.part) <= last)
    }

    pub fn note(&mut self, part: &Part<'_>, time_ms: u64) {
        if self.by_writer.len() >= MAX_WRITERS && !self.by_writer.contains_key(part.writer) {
            // By name where several were heard of at once: all replicas must drop the same one.
            let oldest = self.by_writer.iter().min_by_key(|(name, last)| (last.time_ms, *name));
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.by_writer.remove(&name);
            }
        }
        let last = Last { version: part.version, part: part.part, time_ms };
        self.by_writer.insert(part.writer.to_vec(), last);
    }

    /// Section 18 of a snapshot.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.by_writer.len() as u64);
        for (writer, last) in &self.by_writer {
            put_name(out, writer);
            put_varint(out, last.version);
            put_varint(out, u64::from(last.part));
            put_u64(out, last.time_ms);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Commits> {
        let mut commits = Commits::default();
        let count = reader.count(MAX_WRITERS, "a number of writers")?;
        if count == 0 {
            return Err(reader.fault("at least one writer", 0));
        }
        for _ in 0..count {
            let (writer, version) = (read_name(reader)?, reader.varint()?);
            let part = reader.count(u32::MAX as usize, "a part's number")? as u32;
            let last = Last { version, part, time_ms: reader.u64()? };
            if commits.by_writer.last_key_value().is_some_and(|(before, _)| *before >= writer) {
                return Err(reader.fault("writers in order", "another order"));
            }
            commits.by_writer.insert(writer, last);
        }
        Ok(commits)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn part(writer: &[u8], version: u64, part: u32) -> Part<'_> {
        Part { writer, version, part }
    }

    #[test]
    fn a_part_was_committed_where_it_or_a_later_one_was() {
        let mut commits = Commits::default();
        assert!(!commits.has(&part(b"w", 0, 0)));
        commits.note(&part(b"w", 7, 3), 5);
        for (version, number, known) in [(7, 3, true), (7, 2, true), (6, u32::MAX, true), (7, 4, false), (8, 0, false)]
        {
            assert_eq!(commits.has(&part(b"w", version, number)), known, "{version} {number}");
        }
        assert!(!commits.has(&part(b"other", 0, 0)));
    }

    #[test]
    fn the_writer_heard_of_longest_ago_goes_for_a_new_one() {
        let mut commits = Commits::default();
        let name = |number: usize| format!("{number:04}").into_bytes();
        (0..MAX_WRITERS).for_each(|number| commits.note(&part(&name(number), 1, 0), 100));
        commits.note(&part(&name(0), 2, 0), 101);
        assert_eq!(commits.last(&name(1)), Some((1, 0)), "one that is known drops nobody");
        // The clock may have been set back: who is new stays all the same.
        commits.note(&part(b"new", 1, 0), 1);
        assert_eq!((commits.last(b"new"), commits.last(&name(1))), (Some((1, 0)), None));
        commits.note(&part(b"newer", 1, 0), 1);
        assert_eq!((commits.last(b"new"), commits.last(&name(2))), (None, Some((1, 0))));
    }

    #[test]
    fn they_come_back_from_a_snapshot_and_no_cut_is_a_panic() {
        let mut commits = Commits::default();
        commits.note(&part(b"a", u64::MAX, u32::MAX), u64::MAX);
        commits.note(&part(b"", 0, 0), 0);
        let mut out = Vec::new();
        commits.put(&mut out);
        assert_eq!(Commits::read(&mut Reader::new(&out, "commits")).unwrap(), commits);
        for cut in 0..out.len() {
            assert!(Commits::read(&mut Reader::new(out.get(..cut).unwrap(), "commits")).is_err());
        }
    }
}

//! Deleted positions within a segment.
//!
//! ```text
//! bitmap := varint(count) 0x00 (varint(gap) varint(run - 1))*      runs: gap since the end of the run before
//!         | varint(count) 0x01 varint(words) word*                 plain 64-bit words, where that is shorter
//! ```

use crate::error::Result;
use crate::wire::{put_u64, put_varint, Reader};

/// Positions of a segment are below this. An entry takes four bytes of its log and more, and a log of 16 GiB is none of
/// ours: what claims to have more entries is damaged, and no bits are allocated for it.
pub const MAX_POSITIONS: u64 = 1 << 32;

/// A set of positions, densely held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    count: u64,
}

impl Bitmap {
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub fn contains(&self, position: u64) -> bool {
        let word = self.words.get((position / 64) as usize).copied().unwrap_or(0);
        word >> (position % 64) & 1 == 1
    }

    /// Adds a position; false where it was there.
    pub fn insert(&mut self, position: u64) -> bool {
        let index = (position / 64) as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let bit = 1u64 << (position % 64);
        match self.words.get_mut(index) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.count += 1;
                true
            }
            _ => false,
        }
    }

    /// Adds the positions `from..to`, a word at a time. Returns how many of them were not there.
    pub fn insert_range(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
        if last >= self.words.len() {
            self.words.resize(last + 1, 0);
        }
        let mut added = 0;
        for (index, word) in self.words.iter_mut().enumerate().take(last + 1).skip(first) {
            let mut bits = u64::MAX;
            if index == first {
                bits &= u64::MAX << (from % 64);
            }
            if index == last && to % 64 != 0 {
                bits &= u64::MAX >> (64 - to % 64);
            }
            added += u64::from((bits & !*word).count_ones());
            *word |= bits;
        }
        self.count += added;
        added
    }

    /// How many of `from..to` are in the set.
    pub fn count_range(&self, from: u64, to: u64) -> u64 {
        if self.count == 0 || from >= to {
            return 0;
        }
        let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
        let slice = self.words.get(first..self.words.len().min(last + 1)).unwrap_or(&[]);
        let mut total = 0u64;
        for (index, word) in (first..).zip(slice) {
            let mut word = *word;
            if index == first {
                word &= u64::MAX << (from % 64);
            }
            if index == last && to % 64 != 0 {
                word &= u64::MAX >> (64 - to % 64);
            }
            total += u64::from(word.count_ones());
        }
        total
    }

    /// The position right after the `wanted` next ones at or beyond `from` that are *not* in the set, below `end`.
    pub fn skip_absent(&self, from: u64, end: u64, wanted: u64) -> u64 {
        if self.count == 0 {
            return end.min(from.saturating_add(wanted));
        }
        let mut left = wanted;
        let mut position = from;
        while left > 0 && position < end {
            let word = self.words.get((position / 64) as usize).copied().unwrap_or(0);
            if position % 64 == 0 && position + 64 <= end {
                let absent = u64::from(word.count_zeros());
                if absent < left {
                    left -= absent;
                    position += 64;
                    continue;
                }
            }
            left -= u64::from(word >> (position % 64) & 1 == 0);
            position += 1;
        }
        position
    }

    /// The first of `from..end` that is *not* in the set; `end` where there is none.
    pub fn first_absent(&self, from: u64, end: u64) -> u64 {
        let mut position = from;
        while position < end {
            let word = self.words.get((position / 64) as usize).copied().unwrap_or(0);
            // What is in front of it counts as there.
            let absent = !word & (u64::MAX << (position % 64));
            if absent != 0 {
                return end.min(position - position % 64 + u64::from(absent.trailing_zeros()));
            }
            position = (position / 64 + 1) * 64;
        }
        end
    }

    /// The position right behind the last one of `from..end` that is *not* in the set; `from` where there is none.
    pub fn last_absent_end(&self, from: u64, end: u64) -> u64 {
        let mut position = end;
        while position > from {
            let word = self.words.get(((position - 1) / 64) as usize).copied().unwrap_or(0);
            if position % 64 == 0 && position >= from + 64 && word == u64::MAX {
                position -= 64;
                continue;
            }
            if word >> ((position - 1) % 64) & 1 == 0 {
                return position;
            }
            position -= 1;
        }
        from
    }

    /// The positions in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                if word == 0 {
                    return None;
                }
                let bit = word.trailing_zeros();
                word &= word - 1;
                Some(index as u64 * 64 + u64::from(bit))
            })
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut runs = Vec::new();
        let mut end = 0u64;
        let mut run: Option<(u64, u64)> = None;
        for position in self.iter() {
            run = match run {
                Some((start, stop)) if stop == position => Some((start, position + 1)),
                other => {
                    end = put_run(&mut runs, other, end);
                    Some((position, position + 1))
                }
            };
        }
        put_run(&mut runs, run, end);
        put_varint(out, self.count);
        if runs.len() <= self.words.len() * 8 {
            out.push(0);
            out.extend_from_slice(&runs);
        } else {
            out.push(1);
            put_varint(out, self.words.len() as u64);
            self.words.iter().for_each(|word| put_u64(out, *word));
        }
    }

    /// Reads a bitmap over a segment of `entries` entries.
    pub fn decode(reader: &mut Reader<'_>, entries: u64) -> Result<Bitmap> {
        let mut bitmap = Bitmap::default();
        if entries > MAX_POSITIONS {
            return Err(reader.fault("entries of one segment", entries));
        }
        let count = reader.varint()?;
        if count > entries {
            return Err(reader.fault("no more deleted entries than entries", count));
        }
        match reader.u8()? {
            0 => {
                let mut position = 0u64;
                while bitmap.count < count {
                    let start = position.saturating_add(reader.varint()?);
                    let stop = start.saturating_add(reader.varint()?).saturating_add(1);
                    if stop > entries {
                        return Err(reader.fault("a position within the segment", stop));
                    }
                    bitmap.insert_range(start, stop);
                    position = stop;
                }
            }
            1 => {
                let words = reader.count((entries / 64 + 1) as usize, "words for the segment")?;
                for _ in 0..words {
                    bitmap.words.push(reader.u64()?);
                }
                bitmap.count = bitmap.words.iter().map(|word| u64::from(word.count_ones())).sum();
                let beyond = bitmap.words.len() as u64 * 64;
                if bitmap.count != count || bitmap.count_range(entries, beyond) > 0 {
                    return Err(reader.fault("as many bits as counted, within the segment", bitmap.count));
                }
            }
            form => return Err(reader.fault("form 0 or 1", form)),
        }
        if bitmap.count != count {
            return Err(reader.fault("as many positions as counted", bitmap.count));
        }
        Ok(bitmap)
    }
}

fn put_run(out: &mut Vec<u8>, run: Option<(u64, u64)>, end: u64) -> u64 {
    let Some((start, stop)) = run else { return end };
    put_varint(out, start - end);
    put_varint(out, stop - start - 1);
    stop
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_in_either_form() {
        let sets: [Vec<u64>; 5] =
            [vec![], vec![0], (10..500).collect(), (0..640).filter(|n| n % 2 == 0).collect(), vec![3, 64, 65, 999]];
        for set in sets {
            let mut bitmap = Bitmap::default();
            set.iter().for_each(|position| assert!(bitmap.insert(*position)));
            let mut out = Vec::new();
            bitmap.encode(&mut out);
            let back = Bitmap::decode(&mut Reader::new(&out, "test"), 1000).unwrap();
            assert_eq!(back.iter().collect::<Vec<_>>(), set);
            for (from, to) in [(0, 1000), (5, 70), (64, 128), (63, 65), (10, 10)] {
                let expected = set.iter().filter(|position| (from..to).contains(*position)).count() as u64;
                assert_eq!(bitmap.count_range(from, to), expected);
            }
        }
    }

    #[test]
    fn a_range_is_added_as_its_positions_one_by_one() {
        for (from, to) in [(0, 1), (3, 64), (64, 128), (5, 700), (9, 9), (130, 131)] {
            let (mut whole, mut each) = (Bitmap::default(), Bitmap::default());
            for at in [64, 70, 500] {
                assert!(whole.insert(at) && each.insert(at));
            }
            let added = (from..to).filter(|at| each.insert(*at)).count() as u64;
            assert_eq!((whole.insert_range(from, to), &whole.words, whole.count), (added, &each.words, each.count));
        }
    }

    #[test]
    fn a_run_beyond_what_a_segment_holds_is_refused_before_it_is_allocated() {
        // A fuzzer's: 2^60 deleted entries in nine bytes, set bit by bit until the memory was gone.
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 1 << 60);
        bytes.push(0);
        put_varint(&mut bytes, 0);
        put_varint(&mut bytes, (1 << 60) - 1);
        assert!(Bitmap::decode(&mut Reader::new(&bytes, "test"), 1 << 60).is_err());
    }

    #[test]
    fn the_first_and_the_last_that_is_absent_are_found_whatever_lies_around_them() {
        let holes: [&[u64]; 6] = [&[], &[0], &[63, 64], &[5, 127, 128], &[191], &[100, 101, 102]];
        for holes in holes {
            let mut bitmap = Bitmap::default();
            for at in (0..192).filter(|at| !holes.contains(at)) {
                bitmap.insert(at);
            }
            for from in 0..200 {
                for end in from..200 {
                    let absent = |at: &u64| !bitmap.contains(*at);
                    assert_eq!(bitmap.first_absent(from, end), (from..end).find(absent).unwrap_or(end));
                    let last = (from..end).rev().find(absent).map_or(from, |at| at + 1);
                    assert_eq!(bitmap.last_absent_end(from, end), last);
                }
            }
        }
    }

    #[test]
    fn skipping_counts_only_what_is_absent() {
        let mut bitmap = Bitmap::default();
        for position in 0..100 {
            bitmap.insert(position);
        }
        assert_eq!(bitmap.skip_absent(0, 1000, 5), 105);
        assert_eq!(bitmap.skip_absent(0, 102, 5), 102);
        assert_eq!(bitmap.skip_absent(200, 1000, 300), 500);
    }

    #[test]
    fn skipping_is_by_words_what_it_is_by_positions() {
        let mut bitmap = Bitmap::default();
        for position in (0..320).filter(|position| position % 7 == 0 || (130..200).contains(position)) {
            bitmap.insert(position);
        }
        for from in 0..200 {
            for (end, wanted) in [(320, 1), (320, 60), (320, 150), (255, 150), (256, 64), (from + 3, 9), (400, 500)] {
                let (mut at, mut left) = (from, wanted);
                while left > 0 && at < end {
                    left -= u64::from(!bitmap.contains(at));
                    at += 1;
                }
                assert_eq!(bitmap.skip_absent(from, end, wanted), at, "{wanted} of {from}..{end}");
            }
        }
    }
}

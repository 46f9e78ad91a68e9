//! The digests of rows that stand as columns: `diskstream/spark/jobs/digest.py` has the definition.
//!
//! A column is taken in at a time, and mixed into one sum for each row. What is null in a row is no part of it.

use crate::digest::{mix, words, words_at, LANES, PLACE};

/// Columns that make no sense: offsets that fall or lie outside of the bytes, or fewer rows than there are IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit;

/// Strings of bytes: value `n` is from `offsets[n]` up to `offsets[n + 1]`.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    pub offsets: &'a [i32],
    pub data: &'a [u8],
}

impl Texts<'_> {
    #[inline(always)]
    fn hash(&self, row: usize) -> Result<[u64; 2], Misfit> {
        let from = usize::try_from(*self.offsets.get(row).ok_or(Misfit)?).map_err(|_| Misfit)?;
        let to = usize::try_from(*self.offsets.get(row + 1).ok_or(Misfit)?).map_err(|_| Misfit)?;
        words_at(self.data, from, to).ok_or(Misfit)
    }
}

/// The names of pairs: each as it is, or by its place among those that occur.
#[derive(Clone, Copy)]
pub enum Names<'a> {
    Each(Texts<'a>),
    Among(&'a [i32], Texts<'a>),
}

/// Which rows of a column are not null: bits from `first` on, the lowest of a byte first.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub bits: &'a [u8],
    pub first: usize,
}

impl Known<'_> {
    #[inline]
    fn has(&self, row: usize) -> Result<bool, Misfit> {
        let at = self.first + row;
        Ok(self.bits.get(at / 8).ok_or(Misfit)? >> (at % 8) & 1 == 1)
    }
}

/// Of some rows, the sum of what was taken in, in both lanes.
pub struct RowDigests {
    sums: Vec<[u64; 2]>,
}

impl RowDigests {
    /// Begins with the IDs.
    ///
    /// # Errors
    /// There are more of one part than of the other.
    pub fn new(ms: &[u64], seq: &[u64]) -> Result<RowDigests, Misfit> {
        if ms.len() != seq.len() {
            return Err(Misfit);
        }
        let one = |ms: u64, seq: u64| {
            LANES.map(|lane| mix(ms.wrapping_mul(lane).wrapping_add(mix(seq.wrapping_add(lane), lane)), lane))
        };
        Ok(RowDigests { sums: ms.iter().zip(seq).map(|(ms, seq)| one(*ms, *seq)).collect() })
    }

    /// Numbers by their bits.
    ///
    /// # Errors
    /// There are fewer than rows; so for all that follow.
    pub fn numbers(&mut self, name: &[u8], known: Option<Known<'_>>, bits: &[u64]) -> Result<(), Misfit> {
        self.column(name, known, |row| {
            let bits = *bits.get(row).ok_or(Misfit)?;
            Ok(LANES.map(|lane| bits.wrapping_mul(lane)))
        })
    }

    /// Numbers of two words each.
    pub fn decimals(&mut self, name: &[u8], known: Option<Known<'_>>, words: &[u64]) -> Result<(), Misfit> {
        self.column(name, known, |row| {
            let two = words.get(2 * row..2 * row + 2).ok_or(Misfit)?;
            Ok(LANES.map(|lane| {
                two.iter().fold(lane, |hash, word| {
                    let hash = (hash ^ word).wrapping_mul(lane);
                    hash ^ hash >> 32
                })
            }))
        })
    }

    /// Bytes or text.
    pub fn texts(&mut self, name: &[u8], known: Option<Known<'_>>, texts: Texts<'_>) -> Result<(), Misfit> {
        self.column(name, known, |row| texts.hash(row))
    }

    /// Lists of pairs: those of a row are from `bounds[row]` up to `bounds[row + 1]`.
    pub fn lists(
        &mut self,
        name: &[u8],
        known: Option<Known<'_>>,
        bounds: &[i32],
        (names, values): (Names<'_>, Texts<'_>),
    ) -> Result<(), Misfit> {
        match names {
            Names::Each(names) => self.pairs(name, known, bounds, |at| names.hash(at), values),
            Names::Among(places, texts) => {
                let count = texts.offsets.len().saturating_sub(1);
                let hashes = (0..count).map(|at| texts.hash(at)).collect::<Result<Vec<_>, Misfit>>()?;
                let hash = |at: usize| {
                    let place = usize::try_from(*places.get(at).ok_or(Misfit)?).map_err(|_| Misfit)?;
                    hashes.get(place).copied().ok_or(Misfit)
                };
                self.pairs(name, known, bounds, hash, values)
            }
        }
    }

    #[inline(always)]
    fn pairs(
        &mut self,
        name: &[u8],
        known: Option<Known<'_>>,
        bounds: &[i32],
        name_hash: impl Fn(usize) -> Result<[u64; 2], Misfit>,
        values: Texts<'_>,
    ) -> Result<(), Misfit> {
        self.column(name, known, |row| {
            let from = usize::try_from(*bounds.get(row).ok_or(Misfit)?).map_err(|_| Misfit)?;
            let to = usize::try_from(*bounds.get(row + 1).ok_or(Misfit)?).map_err(|_| Misfit)?;
            let count = to.checked_sub(from).ok_or(Misfit)? as u64;
            let mut sums = [count; 2];
            let mut place = 0u64;
            for at in from..to {
                place = place.wrapping_add(PLACE);
                let (names, values) = (name_hash(at)?, values.hash(at)?);
                for ((sum, lane), (name, value)) in sums.iter_mut().zip(LANES).zip(names.iter().zip(values)) {
                    let pair = value.wrapping_mul(3).wrapping_add(*name).wrapping_add(place);
                    *sum = sum.wrapping_add(mix(pair, lane));
                }
            }
            Ok(sums)
        })
    }

    #[inline(always)]
    fn column(
        &mut self,
        name: &[u8],
        known: Option<Known<'_>>,
        hash: impl Fn(usize) -> Result<[u64; 2], Misfit>,
    ) -> Result<(), Misfit> {
        let label = words(name);
        for (row, sums) in self.sums.iter_mut().enumerate() {
            if let Some(known) = known {
                if !known.has(row)? {
                    continue;
                }
            }
            let hashes = hash(row)?;
            for ((sum, lane), (hash, label)) in sums.iter_mut().zip(LANES).zip(hashes.iter().zip(label)) {
                *sum = sum.wrapping_add(mix(hash.wrapping_add(label), lane));
            }
        }
        Ok(())
    }

    /// `mix(row)` of each row, lane by lane.
    pub fn rows(&self) -> [Vec<u64>; 2] {
        let [first, second] = LANES;
        [
            self.sums.iter().map(|[sum, _]| mix(*sum, first)).collect(),
            self.sums.iter().map(|[_, sum]| mix(*sum, second)).collect(),
        ]
    }

    /// The digest of all rows: the sum of theirs.
    pub fn total(&self) -> [u64; 2] {
        self.sums.iter().fold([0u64; 2], |mut total, sums| {
            for ((total, lane), sum) in total.iter_mut().zip(LANES).zip(sums) {
                *total = total.wrapping_add(mix(*sum, lane));
            }
            total
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::id::Id;

    #[test]
    fn rows_of_lists_have_the_digest_of_the_entries_that_they_are() {
        let long = vec![b'x'; 100];
        type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;
        let entries: [(Id, Pairs<'_>); 3] = [
            (Id::new(1, 0), vec![(b"a", b"1"), (b"temperature", b"19.8")]),
            (Id::new(1, 1), vec![(b"b", &long), (b"", b"")]),
            (Id::new(u64::MAX, u64::MAX), vec![(b"seventeen letters", b"eight   ")]),
        ];
        let mut entries_digest = Digest::default();
        let (mut ms, mut seq, mut bounds) = (Vec::new(), Vec::new(), vec![0i32]);
        let mut columns = [(vec![0i32], Vec::<u8>::new()), (vec![0i32], Vec::<u8>::new())];
        for (id, pairs) in &entries {
            entries_digest.add(*id, pairs.iter().copied());
            ms.push(id.ms);
            seq.push(id.seq);
            bounds.push(bounds.last().unwrap() + pairs.len() as i32);
            for (name, value) in pairs {
                for ((offsets, data), text) in columns.iter_mut().zip([name, value]) {
                    data.extend_from_slice(text);
                    offsets.push(data.len() as i32);
                }
            }
        }
        let [names, values] = columns.each_ref().map(|(offsets, data)| Texts { offsets, data });
        let mut rows = RowDigests::new(&ms, &seq).unwrap();
        rows.lists(b"fields", None, &bounds, (Names::Each(names), values)).unwrap();
        assert_eq!(rows.total(), entries_digest.lanes);
        // The last two names are there twice, and one that does not occur.
        let places = [0, 1, 5, 6, 4];
        let mut known = (vec![0i32], Vec::<u8>::new());
        for name in [&b"a"[..], b"temperature", b"b", b"", b"seventeen letters", b"b", b""] {
            known.1.extend_from_slice(name);
            known.0.push(known.1.len() as i32);
        }
        let known = Texts { offsets: &known.0, data: &known.1 };
        let mut among = RowDigests::new(&ms, &seq).unwrap();
        among.lists(b"fields", None, &bounds, (Names::Among(&places, known), values)).unwrap();
        assert_eq!(among.total(), rows.total());
        for places in [&[0, 1, 5, 6][..], &[0, 1, 5, 6, 7], &[0, 1, 5, 6, -1]] {
            let mut rows = RowDigests::new(&ms, &seq).unwrap();
            assert_eq!(rows.lists(b"fields", None, &bounds, (Names::Among(places, known), values)), Err(Misfit));
        }
        let [first, second] = rows.rows();
        let sums = [first, second].map(|lane| lane.iter().fold(0u64, |sum, row| sum.wrapping_add(*row)));
        assert_eq!(sums, rows.total());
    }

    #[test]
    fn what_is_null_counts_as_not_there() {
        let texts = Texts { offsets: &[0, 1, 2], data: b"ab" };
        let mut one = RowDigests::new(&[1, 2], &[0, 0]).unwrap();
        one.texts(b"t", Some(Known { bits: &[0b1010_0000], first: 4 }), texts).unwrap();
        let mut other = RowDigests::new(&[1], &[0]).unwrap();
        assert_eq!(one.rows()[0][0], other.rows()[0][0]);
        other.texts(b"t", None, texts).unwrap();
        assert_ne!(one.rows()[0][0], other.rows()[0][0]);
    }

    #[test]
    fn columns_that_make_no_sense_are_refused() {
        let refused = |offsets: &[i32], data: &[u8]| {
            RowDigests::new(&[1], &[0]).unwrap().texts(b"t", None, Texts { offsets, data })
        };
        assert_eq!(refused(&[0, 1], b"a"), Ok(()));
        for offsets in [&[0, 2][..], &[1, 0], &[-1, 1], &[0], &[]] {
            assert_eq!(refused(offsets, b"a"), Err(Misfit));
        }
        let mut rows = RowDigests::new(&[1, 2], &[0, 0]).unwrap();
        assert_eq!(rows.numbers(b"n", None, &[1]), Err(Misfit));
        assert_eq!(rows.decimals(b"n", None, &[1, 2, 3]), Err(Misfit));
        assert_eq!(rows.numbers(b"n", Some(Known { bits: &[], first: 0 }), &[1, 2]), Err(Misfit));
        let none = Texts { offsets: &[0], data: b"" };
        for names in [Names::Each(none), Names::Among(&[], none), Names::Among(&[0], none)] {
            assert_eq!(rows.lists(b"l", None, &[0, 1, 1], (names, none)), Err(Misfit));
            assert_eq!(rows.lists(b"l", None, &[1, 0, 0], (names, none)), Err(Misfit));
        }
        assert!(RowDigests::new(&[1], &[]).is_err());
    }
}

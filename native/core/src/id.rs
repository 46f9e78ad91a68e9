//! 128-bit entry IDs: milliseconds and sequence, ordered as a pair.

use std::fmt;

/// The ID of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id {
    pub ms: u64,
    pub seq: u64,
}

impl Id {
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    pub const fn new(ms: u64, seq: u64) -> Self {
        Id { ms, seq }
    }

    /// The ID right after this one, carrying the sequence into the milliseconds; none after the last.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => self.ms.checked_add(1).map(|ms| Id { ms, seq: 0 }),
        }
    }

    /// The ID right before this one; none before `0-0`.
    pub fn prev(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => self.ms.checked_sub(1).map(|ms| Id { ms, seq: u64::MAX }),
        }
    }

    /// `steps` IDs further on, carrying as [`Id::next`] does.
    pub fn advance(self, steps: u64) -> Option<Id> {
        match self.seq.checked_add(steps) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => {
                let ms = self.ms.checked_add(1)?;
                let left = u64::MAX - self.seq;
                Some(Id { ms, seq: steps.checked_sub(left)?.checked_sub(1)? })
            }
        }
    }

    /// Parses `ms` or `ms-seq`: decimal digits only. The sequence is `None` where it is not given.
    pub fn parse(text: &[u8]) -> Option<(u64, Option<u64>)> {
        match text.iter().position(|byte| *byte == b'-') {
            None => Some((number(text)?, None)),
            Some(at) => Some((number(text.get(..at)?)?, Some(number(text.get(at + 1..)?)?))),
        }
    }
}

/// A decimal number that fits in 64 bits, digits only.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    if text.len() < 20 {
        // So many digits are less than 2^64, and need not be asked.
        return text.iter().try_fold(0u64, |value, byte| {
            let digit = u64::from(byte.wrapping_sub(b'0'));
            (digit < 10).then(|| value * 10 + digit)
        });
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_carries_into_the_milliseconds_both_ways() {
        assert_eq!(Id::new(5, u64::MAX).next(), Some(Id::new(6, 0)));
        assert_eq!(Id::new(6, 0).prev(), Some(Id::new(5, u64::MAX)));
        assert_eq!(Id::MAX.next(), None);
        assert_eq!(Id::MIN.prev(), None);
        assert_eq!(Id::new(5, u64::MAX - 1).advance(3), Some(Id::new(6, 1)));
        assert_eq!(Id::new(u64::MAX, u64::MAX - 1).advance(2), None);
    }

    #[test]
    fn only_digits_make_an_id() {
        assert_eq!(Id::parse(b"12-3"), Some((12, Some(3))));
        assert_eq!(Id::parse(b"18446744073709551615"), Some((u64::MAX, None)));
        for bad in [&b""[..], b"-", b"1-", b"-1", b"1-2-3", b"+1", b" 1", b"18446744073709551616", b"1.0"] {
            assert_eq!(Id::parse(bad), None, "{bad:?}");
        }
    }
}

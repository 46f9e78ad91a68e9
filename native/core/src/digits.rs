//! Decimal digits, up to eight of them at once: the text is one word, whose lowest byte is its first.
//!
//! ```text
//!   "1234567"   37 36 35 34 33 32 31 30    moved to the top, and '0' before it
//!               7  56    34    12          two and two: ten times the first, and the second
//!               4567        123            four and four
//!               1234567
//! ```

/// So many digits are one number.
pub const DIGITS_AT_ONCE: usize = 16;

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// A text of up to eight bytes as a word, from the lowest byte on; two loads that overlap, where it is not eight.
#[inline(always)]
fn word(text: &[u8]) -> Option<u64> {
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let apart = 8 * text.len().checked_sub(4).filter(|apart| *apart <= 4)?;
        return Some(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << apart);
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<2>(), text.last_chunk::<2>()) {
        let apart = 8 * text.len().checked_sub(2)?;
        return Some(u64::from(u16::from_le_bytes(*first)) | u64::from(u16::from_le_bytes(*last)) << apart);
    }
    text.first().map(|byte| u64::from(*byte))
}

/// The number that one to eight digits are; None of any other text.
#[inline(always)]
fn eight(text: &[u8]) -> Option<u64> {
    let before = 64 - 8 * text.len() as u32; // `word` has none of more than eight
    let word = word(text)?.checked_shl(before)? | (ZEROS & !u64::MAX.checked_shl(before)?);
    let top = 0xf0f0_f0f0_f0f0_f0f0;
    if word & top != ZEROS || word.wrapping_add(0x0606_0606_0606_0606) & top != ZEROS {
        return None;
    }
    let twos = ((word - ZEROS).wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// The number that one to sixteen digits are; None of any other text.
#[inline(always)]
pub fn number(text: &[u8]) -> Option<u64> {
    if text.len() <= 8 {
        return eight(text);
    }
    let (first, last) = text.split_at_checked(text.len() - 8)?;
    Some(if first.len() <= 8 { eight(first)? * 100_000_000 + eight(last)? } else { return None })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The plain way.
    fn one_by_one(text: &[u8]) -> Option<u64> {
        let wanted = (1..=16).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
        wanted.then(|| text.iter().fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0')))
    }

    #[test]
    fn digits_at_once_are_what_they_are_one_by_one() {
        let all = b"98765432109876543210";
        for length in 0..=all.len() {
            let text = &all[..length];
            assert_eq!(number(text), one_by_one(text), "{length}");
            assert_eq!(number(&vec![b'9'; length]), one_by_one(&vec![b'9'; length]), "{length}");
            assert_eq!(number(&vec![b'0'; length]), one_by_one(&vec![b'0'; length]), "{length}");
        }
    }

    #[test]
    fn a_byte_that_is_no_digit_is_seen_wherever_it_stands() {
        for length in 1..=17 {
            for place in 0..length {
                for byte in 0..=255 {
                    let mut text = vec![b'5'; length];
                    text[place] = byte;
                    assert_eq!(number(&text), one_by_one(&text), "{text:?}");
                }
            }
        }
    }
}

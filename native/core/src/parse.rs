//! Text as typed values: what a column of a given type takes, and what it refuses.
//!
//! Nothing is trimmed and nothing is guessed: a value is wholly of its form, or it does not parse.

/// Days from 1970-01-01 of a proleptic Gregorian date (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Takes exactly `count` digits.
fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (part, rest) = text.split_at_checked(count)?;
    let mut value = 0i64;
    for byte in part {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some((value, rest))
}

fn expect(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.split_first().filter(|(first, _)| **first == byte).map(|(_, rest)| rest)
}

fn signed(text: &[u8]) -> Option<(bool, &[u8])> {
    Some(match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    })
}

/// So many digits are below 2^63 in any case.
const SAFE_DIGITS: usize = 18;

/// A whole number with an optional sign.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, rest) = signed(text)?;
    if rest.is_empty() {
        return None;
    }
    let mut value = 0i64;
    if rest.len() <= SAFE_DIGITS {
        for byte in rest {
            if !byte.is_ascii_digit() {
                return None;
            }
            value = value * 10 + i64::from(byte - b'0');
        }
        return Some(if negative { -value } else { value });
    }
    for byte in rest {
        if !byte.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(byte - b'0');
        value = value.checked_mul(10)?;
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// A value, and whether it is all that the text says: digits may have been rounded off or dropped, and a number may be
/// past what its type can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed<T> {
    pub value: T,
    pub whole: bool,
}

/// The powers of ten that a double holds exactly, as far as they are wanted.
const POWERS: [f64; SAFE_DIGITS + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];

/// The nearest double of a short number without an exponent; none where it is of another form.
///
/// Its digits without the point, and the power of ten that they are to be divided by, are doubles themselves: the
/// quotient is rounded once, and so is the nearest that there is (W. D. Clinger, "How to read floating point numbers
/// accurately", 1990).
#[inline]
fn short_float(text: &[u8]) -> Option<f64> {
    let (negative, rest) = signed(text)?;
    if rest.len() > SAFE_DIGITS + 1 {
        return None; // 19 digits fit
    }
    let (whole, behind) = leading(rest, 0);
    let (value, places) = match behind.split_first() {
        None => (whole, 0),
        Some((b'.', part)) => match leading(part, whole) {
            (value, []) => (value, part.len()),
            _ => return None,
        },
        _ => return None,
    };
    let is_none = rest.len() == behind.len() && places == 0;
    if is_none || value > 1 << f64::MANTISSA_DIGITS {
        return None;
    }
    let value = value as f64 / POWERS.get(places)?;
    Some(if negative { -value } else { value })
}

/// The digits that `text` begins with, behind those of `value`; and what follows them.
#[inline(always)]
fn leading(text: &[u8], mut value: u64) -> (u64, &[u8]) {
    let mut rest = text.iter();
    loop {
        let behind = rest.as_slice();
        match rest.next().map(|byte| byte.wrapping_sub(b'0')) {
            Some(digit @ 0..=9) => value = value.wrapping_mul(10).wrapping_add(u64::from(digit)),
            _ => return (value, behind),
        }
    }
}

/// A floating-point number in decimal or scientific form; `inf`, `infinity` and `nan` too. The nearest that there is
/// counts as all of it, but for infinity and zero.
#[inline]
pub fn float(text: &[u8]) -> Option<Parsed<f64>> {
    match short_float(text) {
        Some(value) => Some(Parsed { value, whole: true }),
        None => any_float(text),
    }
}

fn any_float(text: &[u8]) -> Option<Parsed<f64>> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mut mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let whole = match (value.is_infinite(), value == 0.0) {
        (true, _) => !mantissa.any(u8::is_ascii_digit),
        (_, true) => !mantissa.any(|byte| matches!(byte, b'1'..=b'9')),
        _ => true,
    };
    Some(Parsed { value, whole })
}

/// The same with 32 bits: the nearest of these to the text, not to the double that is nearest to it, as Java's `Float`
/// and so Spark's cast have it.
#[inline]
pub fn float32(text: &[u8]) -> Option<Parsed<f32>> {
    let Parsed { value, whole } = float(text)?;
    let short = if may_hide_a_side(value) { std::str::from_utf8(text).ok()?.parse().ok()? } else { value as f32 };
    let kept = short.is_infinite() == value.is_infinite() && (short == 0.0) == (value == 0.0);
    Some(Parsed { value: short, whole: whole && kept })
}

/// Whether a double may be halfway between two numbers of 32 bits, so that the text that it was made of may be on either
/// side. Any other double is on the side of its text, as all halfway numbers are doubles themselves.
#[inline]
fn may_hide_a_side(value: f64) -> bool {
    const MORE_BITS: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    let beyond = value.to_bits() & ((1 << MORE_BITS) - 1);
    beyond == 1 << (MORE_BITS - 1) || (value != 0.0 && value.abs() < f64::from(f32::MIN_POSITIVE))
}

/// `true` or `false`, `t`, `f`, `yes`, `no`, `y`, `n`, `1`, `0`, in any case: the words of Spark's own cast.
pub fn boolean(text: &[u8]) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["true", "t", "yes", "y", "1"]) {
        Some(true)
    } else if is(&["false", "f", "no", "n", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// A decimal number as `value * 10^-scale`, rounded half up where it has more digits; none past `precision` digits.
pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<Parsed<i128>> {
    let (negative, rest) = signed(text)?;
    let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (rest.get(..at)?, integer(rest.get(at + 1..)?)?),
        None => (rest, 0),
    };
    let mut value = 0i128;
    let mut places: Option<i64> = None;
    let (mut seen, mut whole) = (false, true);
    // Of digits that are too many to be held, the first may be rounded by, and those before the point count tenfold.
    let (mut dropped, mut before_point): (Option<i128>, i64) = (None, 0);
    for byte in mantissa {
        match byte {
            b'.' if places.is_none() => places = Some(0),
            b'0'..=b'9' => {
                seen = true;
                let digit = i128::from(byte - b'0');
                match value.checked_mul(10).and_then(|more| more.checked_add(digit)).filter(|_| dropped.is_none()) {
                    Some(more) => {
                        value = more;
                        places = places.map(|places| places + 1);
                    }
                    None => {
                        dropped.get_or_insert(digit);
                        whole &= digit == 0;
                        before_point += i64::from(places.is_none());
                    }
                }
            }
            _ => return None,
        }
    }
    if !seen {
        return None;
    }
    let shift = i64::from(scale).checked_sub(places.unwrap_or(0) - before_point)?.saturating_add(exponent);
    if value != 0 {
        let factor = u32::try_from(shift.unsigned_abs()).ok().and_then(|shift| 10i128.checked_pow(shift));
        value = match (shift >= 0, factor) {
            // So many digits that some were dropped leave no room for one more.
            (true, _) if shift == 0 => value.checked_add(i128::from(dropped >= Some(5)))?,
            (true, factor) => value.checked_mul(factor?)?,
            (false, Some(factor)) => {
                whole &= value % factor == 0;
                value / factor + i128::from(value % factor >= factor - value % factor)
            }
            (false, None) => {
                whole = false;
                0 // smaller than any digit that is kept
            }
        };
    }
    if value >= 10i128.checked_pow(u32::from(precision))? {
        return None;
    }
    Some(Parsed { value: if negative { -value } else { value }, whole })
}

/// Days since 1970-01-01 of `YYYY-MM-DD`.
pub fn date(text: &[u8]) -> Option<i32> {
    match date_part(text)? {
        (days, []) => i32::try_from(days).ok(),
        _ => None,
    }
}

fn date_part(text: &[u8]) -> Option<(i64, &[u8])> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(expect(rest, b'-')?, 2)?;
    let (day, rest) = digits(expect(rest, b'-')?, 2)?;
    let sound = (1..=12).contains(&month) && day >= 1 && day <= days_of_month(year, month);
    sound.then(|| (days_from_civil(year, month, day), rest))
}

/// Microseconds since 1970 (UTC) of an ISO 8601 date and time, or of a whole number of milliseconds as in IDs.
///
/// `2026-11-21`, `2026-11-21T10:11:12.345678Z`, a blank for the `T`, an offset as `+02:00` or `+0200`. Without an offset
/// the time is UTC. Digits past the microsecond are dropped.
pub fn timestamp(text: &[u8]) -> Option<Parsed<i64>> {
    let of = |value: i64| Parsed { value, whole: true };
    let Some((days, rest)) = date_part(text) else { return integer(text)?.checked_mul(1000).map(of) };
    let day_us = days.checked_mul(86_400_000_000)?;
    let Some((separator, rest)) = rest.split_first() else { return Some(of(day_us)) };
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(expect(rest, b':')?, 2)?;
    let (second, rest) = match expect(rest, b':') {
        Some(rest) => digits(rest, 2)?,
        None => (0, rest),
    };
    let (micros, rest) = match expect(rest, b'.').or_else(|| expect(rest, b',')) {
        Some(rest) => fraction(rest)?,
        None => (of(0), rest),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset_s = offset(rest)?;
    let seconds = hour * 3600 + minute * 60 + second - offset_s;
    let value = day_us.checked_add(seconds * 1_000_000 + micros.value)?;
    Some(Parsed { value, whole: micros.whole })
}

fn fraction(text: &[u8]) -> Option<(Parsed<i64>, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || count > 18 {
        return None;
    }
    let (kept, rest) = digits(text, count.min(6))?;
    let scale = 10i64.pow(6 - count.min(6) as u32);
    let (dropped, rest) = rest.split_at_checked(count - count.min(6))?;
    Some((Parsed { value: kept * scale, whole: dropped.iter().all(|digit| *digit == b'0') }, rest))
}

fn offset(text: &[u8]) -> Option<i64> {
    let (sign, rest) = match text.split_first() {
        None => return Some(0),
        Some((b'Z' | b'z', [])) => return Some(0),
        Some((b'+', rest)) => (1, rest),
        Some((b'-', rest)) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = digits(rest, 2)?;
    let (minutes, rest) = match rest {
        [] => (0, rest),
        _ => digits(expect(rest, b':').unwrap_or(rest), 2)?,
    };
    (rest.is_empty() && hours <= 18 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_64_bits_and_nothing_around_them() {
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"+7"), Some(7));
        for text in ["", "-", " 1", "1 ", "1.0", "0x1", "9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn decimals_are_rounded_half_up_and_bounded() {
        for (text, value) in [
            ("1.005", 101),
            ("-1.005", -101),
            ("1.004999", 100),
            ("12", 1200),
            ("1e2", 10_000),
            ("5e-3", 1),
            (".5", 50),
            ("0e90", 0),
            ("0e9999", 0),
            ("1e-101", 0),
            ("1e-9223372036854775808", 0),
            ("1.0000000000000000000000000000000000000000000000", 100),
            ("1.0049999999999999999999999999999999999999999999", 100),
            ("1.0050000000000000000000000000000000000000000001", 101),
            ("-0.00000000000000000000000000000000000000000000000001", 0),
        ] {
            assert_eq!(decimal(text.as_bytes(), 5, 2).map(|parsed| parsed.value), Some(value), "{text}");
        }
        for text in ["1000", "", ".", "1.2.3", "e5", "1e", "999.995", "1e101", "1e9223372036854775807"] {
            assert_eq!(decimal(text.as_bytes(), 5, 2), None, "{text}");
        }
    }

    #[test]
    fn a_decimal_of_as_many_digits_as_there_can_be_is_rounded_too() {
        let most = "99999999999999999999999999999999999998";
        for (behind, value, whole) in [(".4", 98, false), (".5", 99, false), (".0", 98, true), (".9e1", 0, false)] {
            let found = decimal(format!("{most}{behind}").as_bytes(), 38, 0);
            let expected = (value > 0).then(|| 10i128.pow(38) - 100 + value);
            assert_eq!(found.map(|parsed| parsed.value), expected, "{behind}");
            assert!(found.is_none_or(|parsed| parsed.whole == whole), "{behind}");
        }
        assert_eq!(decimal(format!("{most}9.5").as_bytes(), 38, 0), None);
    }

    #[test]
    fn a_decimal_may_be_written_with_more_digits_than_it_has_behind_its_exponent() {
        let (most, zeros) = ("99999999999999999999999999999999999998", "0".repeat(50));
        for (text, value, whole) in [
            (format!("{most}4e-1"), 98, false),
            (format!("{most}5e-1"), 99, false),
            (format!("{most}{zeros}e-50"), 98, true),
            (format!("{most}49.9e-2"), 98, false),
        ] {
            let wanted = Parsed { value: 10i128.pow(38) - 100 + value, whole };
            assert_eq!(decimal(text.as_bytes(), 38, 0), Some(wanted), "{text}");
        }
        assert_eq!(decimal(format!("{most}{zeros}e-49").as_bytes(), 38, 0), None);
        assert_eq!(decimal(format!("1{zeros}e-90").as_bytes(), 5, 2), Some(Parsed { value: 0, whole: false }));
    }

    #[test]
    fn times_are_iso_8601_or_milliseconds() {
        for (text, micros) in [
            ("1970-01-01", 0),
            ("1970-01-02T00:00:00Z", 86_400_000_000),
            ("1970-01-01 00:00:01.5", 1_500_000),
            ("1970-01-01T02:00:00.0000019+02:00", 1),
            ("1969-12-31T23:59:59Z", -1_000_000),
            ("1970-01-01T00:01-0100", 3_660_000_000),
            ("1692632086370", 1_692_632_086_370_000),
            ("2024-02-29", 1_709_164_800_000_000),
        ] {
            assert_eq!(timestamp(text.as_bytes()).map(|parsed| parsed.value), Some(micros), "{text}");
        }
        for text in [
            "",
            "2023-02-29",
            "2023-1-1",
            "2023-01-01T24:00",
            "2023-01-01T10",
            "2023-01-01T10:00:00.",
            "2023-01-01T10:00X",
        ] {
            assert_eq!(timestamp(text.as_bytes()), None, "{text}");
        }
        assert_eq!((date(b"2000-03-01"), date(b"1970-01-01T00:00")), (Some(11_017), None));
    }

    #[test]
    fn what_is_rounded_dropped_or_past_the_type_is_told() {
        for (text, whole) in [("1.23", true), ("1.230", true), ("123e-2", true), ("1.239", false), ("1e-90", false)] {
            assert_eq!(decimal(text.as_bytes(), 5, 2).map(|parsed| parsed.whole), Some(whole), "{text}");
        }
        for (text, whole, short) in [
            ("0.1", true, true),
            ("-0.0e7", true, true),
            ("inf", true, true),
            ("nan", true, true),
            ("1e39", true, false),
            ("1e-60", true, false),
            ("1e400", false, false),
            ("1e-400", false, false),
        ] {
            assert_eq!(float(text.as_bytes()).map(|parsed| parsed.whole), Some(whole), "{text}");
            assert_eq!(float32(text.as_bytes()).map(|parsed| parsed.whole), Some(short), "{text}");
        }
        for (text, whole) in [("1970-01-01 00:00:01.500000000", true), ("1970-01-01 00:00:01.0000001", false)] {
            assert_eq!(timestamp(text.as_bytes()).map(|parsed| parsed.whole), Some(whole), "{text}");
        }
    }

    #[test]
    fn a_short_number_is_what_the_longest_way_gives() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let mut short = 0;
        for _ in 0..20_000 {
            let digits = next(21) as usize;
            let mut text: String = (0..digits).map(|_| char::from(b'0' + next(10) as u8)).collect();
            if next(4) > 0 {
                text.insert(next(digits as u64 + 1) as usize, '.');
            }
            text.insert_str(0, ["", "-", "+"][next(3) as usize]);
            let wanted = text.parse::<f64>().ok();
            short += usize::from(short_float(text.as_bytes()).is_some());
            assert_eq!(float(text.as_bytes()).map(|found| found.value.to_bits()), wanted.map(f64::to_bits), "{text}");
            assert_eq!(integer(text.as_bytes()), text.parse().ok(), "{text}");
        }
        assert!(short > 10_000, "{short}");
        for (text, wanted) in [
            ("9007199254740992", Some(9_007_199_254_740_992.0)),
            ("9007199254740993", None),
            ("18446744073709551617", None), // 2^64 + 1, which 64 bits would take for 1
            ("-0", Some(-0.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            (".", None),
            ("-", None),
            ("1e5", None),
            ("0.0000000000000000001", None),
        ] {
            assert_eq!(short_float(text.as_bytes()).map(f64::to_bits), wanted.map(f64::to_bits), "{text}");
        }
    }

    #[test]
    fn a_number_of_32_bits_is_rounded_once() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        for round in 0..20_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let below = f32::from_bits((random >> 32) as u32);
            let above = f32::from_bits(below.to_bits() ^ 1);
            let middle = f64::midpoint(f64::from(below), f64::from(above));
            let mut text = format!("{middle:.200}");
            match round % 4 {
                0 => text = format!("{below:?}"),
                1 => text.push('1'),
                2 => text = format!("{middle:?}"),
                _ => {}
            }
            let wanted = text.parse::<f32>().ok().filter(|wanted| !wanted.is_nan());
            let found = float32(text.as_bytes()).map(|found| found.value).filter(|found| !found.is_nan());
            assert_eq!(found.map(f32::to_bits), wanted.map(f32::to_bits), "{text}");
        }
        for zero in ["0", "-0.0", "0e9", "1e-400"] {
            assert_eq!(float32(zero.as_bytes()).map(|found| found.value.to_bits() << 1), Some(0), "{zero}");
        }
    }

    #[test]
    fn booleans_are_words() {
        assert_eq!((boolean(b"TRUE"), boolean(b"0"), boolean(b"")), (Some(true), Some(false), None));
    }
}

//! Values as RESP writes them: what a client reads.

use crate::block::Block;
use crate::error::{make_room, Result};
use crate::id::Id;

/// What a bulk string takes beside its bytes, at most; what an entry takes beside its fields.
pub const BESIDE_BULK_BYTES: usize = 25;
const BESIDE_FIELDS_BYTES: usize = 128;

/// Digits of a number of 64 bits, from the back of a buffer.
struct Digits {
    text: [u8; 20],
    from: usize,
}

impl Digits {
    #[inline]
    fn of(mut value: u64) -> Digits {
        let mut digits = Digits { text: [b'0'; 20], from: 20 };
        for (place, byte) in digits.text.iter_mut().enumerate().rev() {
            *byte = b'0' + (value % 10) as u8;
            digits.from = place;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        digits
    }

    #[inline]
    fn text(&self) -> &[u8] {
        self.text.get(self.from..).unwrap_or_default()
    }
}

#[inline]
fn put_line(out: &mut Vec<u8>, sign: u8, text: &[u8]) {
    out.push(sign);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn put_size(out: &mut Vec<u8>, sign: u8, size: usize) {
    if size < 10 {
        out.extend_from_slice(&[sign, b'0' + size as u8, b'\r', b'\n']);
    } else {
        put_line(out, sign, Digits::of(size as u64).text());
    }
}

/// A bulk string.
#[inline]
pub fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    put_size(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// The head of an array of `size` elements.
#[inline]
pub fn put_array(out: &mut Vec<u8>, size: usize) {
    put_size(out, b'*', size);
}

/// The head of a map: an array of twice as many elements where there are no maps.
pub fn put_map(out: &mut Vec<u8>, pairs: usize, resp3: bool) {
    if resp3 {
        put_size(out, b'%', pairs);
    } else {
        put_array(out, pairs.saturating_mul(2));
    }
}

/// A number.
#[inline]
pub fn put_int(out: &mut Vec<u8>, value: i64) {
    if (0..10).contains(&value) {
        return put_size(out, b':', value as usize);
    }
    out.extend_from_slice(if value < 0 { b":-" } else { b":" });
    out.extend_from_slice(Digits::of(value.unsigned_abs()).text());
    out.extend_from_slice(b"\r\n");
}

/// A number above those of 64 bits with a sign: the counters of a stream may be such.
pub fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    put_line(out, b':', Digits::of(value).text());
}

/// Truth, which is a number where there is no truth.
pub fn put_bool(out: &mut Vec<u8>, value: bool, resp3: bool) {
    out.extend_from_slice(match (resp3, value) {
        (true, true) => b"#t\r\n",
        (true, false) => b"#f\r\n",
        (false, true) => b":1\r\n",
        (false, false) => b":0\r\n",
    });
}

/// Nothing, where a string was asked for.
pub fn put_null(out: &mut Vec<u8>, resp3: bool) {
    out.extend_from_slice(if resp3 { b"_\r\n" } else { b"$-1\r\n" });
}

/// Nothing, where an array was asked for.
pub fn put_null_array(out: &mut Vec<u8>, resp3: bool) {
    out.extend_from_slice(if resp3 { b"_\r\n" } else { b"*-1\r\n" });
}

/// A line behind a sign: `+` for a status, `-` for an error. A line end within would end it: it becomes a blank.
pub fn put_simple(out: &mut Vec<u8>, sign: u8, text: &[u8]) {
    out.push(sign);
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// A number with a fraction.
pub fn put_double(out: &mut Vec<u8>, value: f64, resp3: bool) {
    let text = double_text(value);
    if resp3 {
        put_line(out, b',', text.as_bytes());
    } else {
        put_bulk(out, text.as_bytes());
    }
}

/// The fewest digits that give the number back, laid out as Redis's `d2string` does: in full where that is not much
/// longer, else with an exponent.
fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    if value == 0.0 {
        return format!("{sign}0");
    }
    // Whole numbers are printed as such, up to half of what 64 bits with a sign hold.
    if value.fract() == 0.0 && value.abs() <= 4_611_686_018_427_387_904.0 {
        return format!("{value}");
    }
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let shift = exponent - (count - 1); // the value is digits * 10^shift
    if shift >= 0 && exponent.abs() < count + 7 {
        return format!("{sign}{digits}{}", "0".repeat(usize::try_from(shift).unwrap_or(0)));
    }
    if shift < 0 && (shift > -7 || exponent.abs() < 4) {
        let whole = count + shift;
        let Ok(whole) = usize::try_from(whole) else {
            return format!("{sign}0.{}{digits}", "0".repeat(whole.unsigned_abs() as usize));
        };
        let (before, behind) = digits.split_at_checked(whole).unwrap_or((&digits, ""));
        return format!("{sign}{}.{behind}", if before.is_empty() { "0" } else { before });
    }
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{mark}{}", exponent.abs())
}

/// An ID as a bulk string.
#[inline]
pub fn put_id(out: &mut Vec<u8>, id: Id) {
    let (ms, seq) = (Digits::of(id.ms), Digits::of(id.seq));
    put_size(out, b'$', ms.text().len() + 1 + seq.text().len());
    out.extend_from_slice(ms.text());
    out.push(b'-');
    out.extend_from_slice(seq.text());
    out.extend_from_slice(b"\r\n");
}

/// The IDs of `count` rows that follow one another, each a reply.
pub fn put_ids(out: &mut Vec<u8>, first: Id, count: u32) {
    let mut id = Some(first);
    for _ in 0..count {
        let Some(present) = id else { return };
        put_id(out, present);
        id = present.next();
    }
}

/// An entry: its ID and its fields, names and values in turn.
///
/// # Errors
/// There is no memory for it.
#[inline]
pub fn put_entry(out: &mut Vec<u8>, block: &Block, row: usize) -> Result<()> {
    make_room(out, BESIDE_FIELDS_BYTES, "a reply")?;
    put_array(out, 2);
    put_id(out, block.id(row).unwrap_or_default());
    let Some((table, at)) = block.place(row) else {
        put_array(out, 0);
        return Ok(());
    };
    put_array(out, table.columns.len().min(table.shape.names.len()) * 2);
    for (name, column) in table.shape.names.iter().zip(&table.columns) {
        let value = column.get(at).unwrap_or_default();
        make_room(out, name.len() + value.len() + 2 * BESIDE_BULK_BYTES, "a reply")?;
        put_bulk(out, name);
        put_bulk(out, value);
    }
    Ok(())
}

/// An entry that is gone: its ID, and no array.
pub fn put_gone(out: &mut Vec<u8>, id: Id, resp3: bool) {
    put_array(out, 2);
    put_id(out, id);
    put_null_array(out, resp3);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, Shape};

    fn written(put: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_their_digits() {
        for value in [0, 9, 10, 1234567890, i64::MAX, -1, i64::MIN] {
            assert_eq!(written(|out| put_int(out, value)), format!(":{value}\r\n"));
        }
        assert_eq!(written(|out| put_unsigned(out, u64::MAX)), ":18446744073709551615\r\n");
        assert_eq!(written(|out| put_bulk(out, &[b'x'; 12])), "$12\r\nxxxxxxxxxxxx\r\n");
    }

    #[test]
    fn doubles_are_laid_out_as_redis_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (1.5, "1.5"),
            (-1234.5678, "-1234.5678"),
            (12345678.5, "12345678.5"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (3.0000000000000004, "3.0000000000000004"),
            (12345.1234567, "1.23451234567e+4"),
            (1e17, "100000000000000000"),
            (1e19, "1e+19"),
            (1234567890123e7, "12345678901230000000"),
            (1e100, "1e+100"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in cases {
            assert_eq!(double_text(value), text);
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(written(|out| put_simple(out, b'-', b"ERR a\r\nb")), "-ERR a  b\r\n");
    }

    #[test]
    fn entries_come_from_their_block() {
        let mut builder = BlockBuilder::default();
        let shape = builder.intern(Shape { names: vec![b"a".as_slice().into(), b"bc".as_slice().into()] });
        builder.push(Id::new(5, 3), shape, &[1, 0], b"x").unwrap();
        let block = builder.finish();
        let expected = "*2\r\n$3\r\n5-3\r\n*4\r\n$1\r\na\r\n$1\r\nx\r\n$2\r\nbc\r\n$0\r\n\r\n";
        assert_eq!(written(|out| put_entry(out, &block, 0).unwrap()), expected);
        assert_eq!(written(|out| put_gone(out, Id::new(5, 3), false)), "*2\r\n$3\r\n5-3\r\n*-1\r\n");
        assert_eq!(written(|out| put_ids(out, Id::new(7, 9), 2)), "$3\r\n7-9\r\n$4\r\n7-10\r\n");
    }
}

//! Text as values: IDs, numbers, times.

use diskstream_core::id::Id;
use diskstream_core::parse::{self, Parsed};

fn decimal_text(value: i128, scale: i8) -> String {
    format!("{value}e{}", -i32::from(scale))
}

pub fn texts(data: &[u8]) {
    if let Some((ms, seq)) = Id::parse(data) {
        let id = Id::new(ms, seq.unwrap_or(0));
        assert_eq!(Id::parse(id.to_string().as_bytes()), Some((ms, Some(id.seq))));
        assert!(id.next().is_none_or(|next| next.prev() == Some(id)));
        let _ = (id.prev(), id.advance(ms), id.advance(u64::MAX));
    }
    let text = std::str::from_utf8(data);
    if let (Some(value), Ok(text)) = (parse::integer(data), text) {
        assert_eq!(text.parse(), Ok(value));
    }
    if let Some(Parsed { value, .. }) = parse::float(data) {
        let again = parse::float(value.to_string().as_bytes());
        assert!(value.is_nan() || again == Some(Parsed { value, whole: true }));
    }
    let _ = parse::float32(data);
    let _ = parse::boolean(data);
    for (precision, scale) in [(38, 0), (38, 38), (38, -38), (1, 0), (18, 6), (255, 127), (38, -128)] {
        if let Some(Parsed { value, .. }) = parse::decimal(data, precision, scale) {
            if value.unsigned_abs() < 10u128.pow(38) && scale.unsigned_abs() <= 100 {
                let again = parse::decimal(decimal_text(value, scale).as_bytes(), precision, scale);
                assert_eq!(again, Some(Parsed { value, whole: true }));
            }
        }
    }
    if let Some(days) = parse::date(data) {
        assert!((-719_528..2_932_897).contains(&days));
        let value = i64::from(days) * 86_400_000_000;
        assert_eq!(parse::timestamp(data), Some(Parsed { value, whole: true }));
    }
    let _ = parse::timestamp(data);
}

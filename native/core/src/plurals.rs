//! How many of something, in words, as `diskstream/plurals.py` has it.

/// So many of something: `1 byte`, `2,000 bytes`.
pub fn number_of(count: u64, one: &str) -> String {
    if count == 1 {
        return format!("1 {one}");
    }
    let plural = one.strip_suffix('y').map_or_else(|| format!("{one}s"), |stem| format!("{stem}ies"));
    let digits = count.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let said = [0, 1, 2, 999, 1000, 1_234_567].map(|count| number_of(count, "byte"));
        assert_eq!(said, ["0 bytes", "1 byte", "2 bytes", "999 bytes", "1,000 bytes", "1,234,567 bytes"]);
        assert_eq!((number_of(1, "entry").as_str(), number_of(2, "entry").as_str()), ("1 entry", "2 entries"));
    }
}

//! The words of an inline request, split as Redis's `sdssplitargs` does.
//!
//! Blanks part words. Within double quotes stand the escapes \n \r \t \b \a and \xHH, within single quotes only \'.
//! Quotes may begin in the midst of a word, but a word ends with its closing quote.

/// A zero ends the text, as in C.
fn byte_at(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// What C's `isspace` takes for one.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The words; None where quotes are not closed, or something stands right behind the closing one.
pub fn split(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while is_space(byte_at(text, at)) {
            at += 1;
        }
        if byte_at(text, at) == 0 {
            return Some(words);
        }
        let (word, end) = word(text, at)?;
        words.push(word);
        at = end;
    }
}

/// The word that begins at `at`, and where it ends.
fn word(text: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    loop {
        match byte_at(text, at) {
            0 | b' ' | b'\n' | b'\r' | b'\t' => return Some((word, at)),
            quote @ (b'"' | b'\'') => {
                let end = quoted(text, at + 1, quote, &mut word)?;
                let behind = byte_at(text, end);
                return (behind == 0 || is_space(behind)).then_some((word, end));
            }
            byte => word.push(byte),
        }
        at += 1;
    }
}

/// What stands in quotes, from behind the opening one. Returns the place behind the closing one.
fn quoted(text: &[u8], mut at: usize, quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        let (byte, next) = (byte_at(text, at), byte_at(text, at + 1));
        match byte {
            0 => return None,
            byte if byte == quote => return Some(at + 1),
            b'\\' if quote == b'"' && next != 0 => {
                let digits = hex(byte_at(text, at + 2)).zip(hex(byte_at(text, at + 3)));
                match (next, digits) {
                    (b'x', Some((high, low))) => {
                        word.push(high << 4 | low);
                        at += 2;
                    }
                    (b'n', _) => word.push(b'\n'),
                    (b'r', _) => word.push(b'\r'),
                    (b't', _) => word.push(b'\t'),
                    (b'b', _) => word.push(8),
                    (b'a', _) => word.push(7),
                    (other, _) => word.push(other),
                }
                at += 1;
            }
            b'\\' if quote == b'\'' && next == b'\'' => {
                word.push(b'\'');
                at += 1;
            }
            byte => word.push(byte),
        }
        at += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::split;

    fn words(text: &str) -> Vec<Vec<u8>> {
        split(text.as_bytes()).unwrap()
    }

    #[test]
    fn blanks_part_words_and_quotes_keep_them() {
        assert_eq!(words("  SET  a\tb  "), [&b"SET"[..], b"a", b"b"]);
        assert_eq!(words(r#"a "b c" 'd e' "" ''"#), [&b"a"[..], b"b c", b"d e", b"", b""]);
        assert_eq!(words(r#"in"the midst""#), [b"inthe midst"]);
        assert_eq!(words(r#""\x41\xzz\n\r\t\b\a\"\\\q""#), [b"Axzz\n\r\t\x08\x07\"\\q"]);
        assert_eq!(words(r"'it\'s \n'"), [br"it's \n"]);
        assert_eq!(words("a\x0bb\x0c c"), [&b"a\x0bb\x0c"[..], b"c"]);
        assert_eq!(words("a b\0c"), [b"a", b"b"]);
        assert!(words(" \t ").is_empty());
    }

    #[test]
    fn quotes_are_closed_and_end_their_word() {
        for text in ["\"a", "'a", "\"a\"b", "'a'b", "\"a\\", "\"a\\\"", "'a\\'", "a'"] {
            assert_eq!(split(text.as_bytes()), None, "{text}");
        }
    }
}

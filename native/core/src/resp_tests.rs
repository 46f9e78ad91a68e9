#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use super::*;

type Command = Vec<Vec<u8>>;

const LIMITS: Limits = Limits { bulk_bytes: 512 << 20, query_bytes: 1 << 30 };

fn fed(parser: &mut Parser, data: &[u8], authenticated: bool) -> Vec<Command> {
    let mut found = Vec::new();
    parser.feed(data, authenticated, |words| found.push(words.iter().map(|word| word.to_vec()).collect())).unwrap();
    found
}

/// Commands and error of bytes that come in these pieces.
fn parsed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Command>, Option<String>) {
    let mut parser = Parser::new(LIMITS);
    let found = pieces.into_iter().flat_map(|piece| fed(&mut parser, piece, true)).collect();
    (found, parser.error().map(|text| String::from_utf8_lossy(text).into_owned()))
}

fn command(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn wire(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn refusal(data: &[u8]) -> String {
    let (found, error) = parsed([data]);
    assert!(found.is_empty());
    error.unwrap_or_default().replace("ERR Protocol error: ", "")
}

/// A generator of numbers that is always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn requests_of_both_kinds_follow_one_another() {
    let data = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING \"a b\"\r\n\r\n\n*0\r\n*-1\r\nECHO x\n*1\r\n$0\r\n\r\n";
    let expected = [command(&["GET", "a"]), command(&["PING", "a b"]), command(&["ECHO", "x"]), command(&[""])];
    assert_eq!(parsed([&data[..]]), (expected.to_vec(), None));
}

#[test]
fn any_split_gives_the_same_commands() {
    let mut dice = Dice(7);
    for round in 0..400 {
        let mut data = Vec::new();
        for _ in 0..dice.below(6) {
            match dice.below(5) {
                0 => data.extend_from_slice(b"SET 'a b' \"\\x41\"\r\n"),
                1 => data.extend_from_slice(b"\r\n*-1\r\n*0\r\n"),
                _ => {
                    let (most, longest) = if dice.below(8) == 0 { (15, 1200) } else { (5, 9) };
                    let words: Vec<Vec<u8>> = (0..dice.below(most))
                        .map(|_| (0..dice.below(longest)).map(|_| dice.below(256) as u8).collect())
                        .collect();
                    data.extend(wire(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
                }
            }
        }
        if round % 2 == 0 && !data.is_empty() {
            let at = dice.below(data.len());
            data[at] = b"\r\n$*0-9x\"\0"[dice.below(10)];
        }
        let whole = parsed([&data[..]]);
        assert_eq!(parsed(data.chunks(1)), whole);
        let mut pieces = Vec::new();
        let mut rest = &data[..];
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(1 + dice.below(rest.len()));
            pieces.push(piece);
            rest = left;
        }
        assert_eq!(parsed(pieces), whole);
    }
}

#[test]
fn refusals_are_those_of_redis_and_the_commands_before_them_are_kept() {
    assert_eq!(refusal(b"*x\r\n"), "invalid multibulk length");
    assert_eq!(refusal(b"*1048577\r\n"), "invalid multibulk length");
    assert_eq!(refusal(b"*99999999999999999999\r\n"), "invalid multibulk length");
    assert_eq!(refusal(b"*\r\n"), "invalid multibulk length");
    assert_eq!(refusal(b"*01\r\n"), "invalid multibulk length");
    assert_eq!(refusal(b"*01\r\n$1\r\nx\r\n"), "invalid multibulk length");
    for size in ["-1", "01", "001", "010", "+1", "1 ", "x", ""] {
        assert_eq!(refusal(format!("*1\r\n${size}\r\nx123456789\r\n").as_bytes()), "invalid bulk length", "{size}");
    }
    assert_eq!(refusal(b"*1\r\n$536870913\r\n"), "invalid bulk length");
    assert_eq!(refusal(b"*1\r\n:1\r\n"), "expected '$', got ':'");
    assert_eq!(refusal(b"*1\r\n\r\n"), "expected '$', got ' '");
    assert_eq!(refusal(b"*1\r\n*1\r\nx\r\n"), "expected '$', got '*'");
    assert_eq!(refusal(b"GET 'a\r\n"), "unbalanced quotes in request");
    assert_eq!(refusal(b"XADD s * line abc\0def k v\r\n"), "a zero byte in an inline request");
    let (found, error) = parsed([&b"PING\r\n*1\r\n$x\r\nPING\r\n"[..], b"PING\r\n"]);
    assert_eq!(found, [command(&["PING"])]);
    assert_eq!(error.unwrap(), "ERR Protocol error: invalid bulk length");
}

#[test]
fn lines_end_within_64_kib() {
    let long = |start: &str, size: usize| [start.as_bytes(), &vec![b'1'; size - start.len()]].concat();
    assert_eq!(refusal(&long("PING ", MAX_LINE_BYTES + 1)), "too big inline request");
    assert_eq!(refusal(&long("*", MAX_LINE_BYTES + 1)), "too big mbulk count string");
    let bulk = [&b"*1\r\n"[..], &long("$", MAX_LINE_BYTES + 1)].concat();
    assert_eq!(refusal(&bulk), "too big bulk count string");
    assert_eq!(parsed([&long("PING ", MAX_LINE_BYTES)[..]]), (vec![], None));
    assert_eq!(parsed([&long("PING ", MAX_LINE_BYTES)[..], b"\n"]).0.len(), 1);
}

#[test]
fn who_is_unknown_may_send_little() {
    let many = wire(&[&b"x"[..]; 11]);
    let large = wire(&[&[b'x'; 16_385]]);
    for (data, text) in [(&many, "unauthenticated multibulk length"), (&large, "unauthenticated bulk length")] {
        let mut parser = Parser::new(LIMITS);
        assert!(fed(&mut parser, data, false).is_empty());
        assert_eq!(parser.error().unwrap(), format!("ERR Protocol error: {text}").as_bytes());
        // Behind another command, which may be AUTH, it waits to be looked at again.
        for authenticated in [false, true] {
            let mut parser = Parser::new(LIMITS);
            let both = [&b"AUTH x\r\n"[..], data].concat();
            assert_eq!(fed(&mut parser, &both, false), [command(&["AUTH", "x"])]);
            assert!(parser.held_back() && parser.error().is_none());
            assert_eq!(fed(&mut parser, b"", authenticated).len(), usize::from(authenticated));
            assert_eq!(parser.error().is_some(), !authenticated);
            assert!(!parser.held_back());
        }
    }
    assert_eq!(fed(&mut Parser::new(LIMITS), &wire(&[&b"x"[..]; 10]), false).len(), 1);
}

#[test]
fn a_request_that_does_not_end_is_kept_up_to_its_limit() {
    let mut parser = Parser::new(Limits { query_bytes: 100, ..LIMITS });
    assert!(fed(&mut parser, b"*1\r\n$500\r\n", true).is_empty());
    assert!(fed(&mut parser, &[b'x'; 90], true).is_empty());
    assert_eq!((parser.buffered_bytes(), parser.limit_passed()), (100, false));
    assert!(fed(&mut parser, b"x", true).is_empty());
    assert_eq!((parser.buffered_bytes(), parser.limit_passed()), (0, true));
    assert!(fed(&mut parser, b"PING\r\n", true).is_empty());
}

#[test]
fn memory_is_not_taken_before_the_bytes_come() {
    let mut parser = Parser::new(LIMITS);
    fed(&mut parser, b"*1048576\r\n$536870912\r\n", true);
    assert!(parser.buffer.capacity() < 1024 && parser.request.words.capacity() < 16);
    // Nothing of a large word is looked at twice: a million pieces of it are no quadratic work.
    for _ in 0..1_000_000 {
        fed(&mut parser, b"x", true);
    }
    assert_eq!(parser.buffered_bytes(), 1_000_022);
}

#[test]
fn memory_of_a_large_request_is_given_back_though_the_next_has_begun() {
    let mut parser = Parser::new(LIMITS);
    let mut data = wire(&[b"ECHO", &[b'x'; 8 << 20]]);
    data.extend_from_slice(b"*1\r\n$4\r\nPI");
    for piece in data.chunks(64 << 10) {
        fed(&mut parser, piece, true);
    }
    assert_eq!(parser.buffered_bytes(), 10);
    assert!(parser.buffer.capacity() <= LARGE_BYTES, "size: {}", parser.buffer.capacity());
    assert_eq!(fed(&mut parser, b"NG\r\n", true).len(), 1);
}

#[test]
fn places_of_many_words_are_given_back() {
    let mut parser = Parser::new(LIMITS);
    assert_eq!(fed(&mut parser, &wire(&[&b"x"[..]; 40_000]), true).len(), 1);
    let kept = parser.request.words.capacity() * mem::size_of::<(usize, usize)>();
    assert!(kept <= KEPT_BYTES, "size: {kept}");
}

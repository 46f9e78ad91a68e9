//! Requests of RESP, as bytes come in: whole commands out, whatever the pieces they came in.
//!
//! ```text
//! request   := multibulk | inline
//! multibulk := '*' number '\r\n' ('$' number '\r\n' bytes '\r\n'){number}     zero and less: no command, skipped
//! inline    := anything but '*' first, up to '\n' or '\r\n'; its words are those of `resp_inline.rs`
//! ```
//! What is refused, and in which words, is what Redis refuses. As there, the byte behind the '\r' of a line and the two
//! behind a word are stepped over unseen. Every byte is looked at once, however the request was cut, and memory is
//! taken for what has come, never for what was announced.

use std::mem;

use crate::error;
use crate::resp_inline;

/// A line (an inline request, or a number) has at most so many bytes before its end.
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// Words of one request.
pub const MAX_WORDS: i64 = 1024 * 1024;
/// The same, and the bytes of a word, as long as a client has not said who it is.
pub const MAX_WORDS_UNAUTHENTICATED: i64 = 10;
pub const MAX_WORD_BYTES_UNAUTHENTICATED: i64 = 16 << 10;
/// A buffer that has grown beyond this is given back once it is empty.
const KEPT_BYTES: usize = 64 << 10;
/// The same of places of words, of which each takes two numbers.
const KEPT_WORDS: usize = KEPT_BYTES / mem::size_of::<(usize, usize)>();
/// And of a buffer in which the next request has begun: larger than any that fills up by the pieces that come.
const LARGE_BYTES: usize = 4 * KEPT_BYTES;

/// What one client may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one word.
    pub bulk_bytes: usize,
    /// Bytes of one request that has not come whole.
    pub query_bytes: usize,
}

/// The request under way. Places count from its first byte.
#[derive(Debug, Default)]
struct Request {
    /// Words still to come; 0 before the first line was read.
    missing: usize,
    /// The announced size of the word that comes next.
    announced: Option<usize>,
    words: Vec<(usize, usize)>,
    /// What comes next stands here.
    at: usize,
    /// So many bytes from `at` on are known to hold no line end.
    looked: usize,
}

/// How far a look at the request under way came.
enum Step {
    /// The request is whole: its words are those of `Request::words`.
    Whole,
    /// An inline request is whole.
    Inline(Vec<Vec<u8>>),
    More,
    Refused(Vec<u8>),
    /// Too large for someone unknown.
    Unknown(&'static str),
}

/// A refusal, or that more must come.
type Early = Step;

impl Request {
    /// The line at `at`, up to and without `end`.
    #[inline]
    fn line<'a>(&mut self, bytes: &'a [u8], end: u8, too_long: &str) -> Result<&'a [u8], Early> {
        let rest = bytes.get(self.at..).unwrap_or_default();
        let window = rest.get(..=MAX_LINE_BYTES).unwrap_or(rest);
        let unseen = window.get(self.looked..).unwrap_or_default();
        match unseen.iter().position(|byte| *byte == end) {
            Some(found) => {
                self.looked += found;
                window.get(..self.looked).ok_or(Step::More)
            }
            None if window.len() > MAX_LINE_BYTES => Err(refused(too_long)),
            None => {
                self.looked = window.len();
                Err(Step::More)
            }
        }
    }

    /// A number behind its sign; steps over the line.
    #[inline]
    fn number(&mut self, bytes: &[u8], too_long: &str) -> Result<(u8, Option<i64>), Early> {
        let line = self.line(bytes, b'\r', too_long)?;
        let behind = self.at + line.len() + 2;
        if bytes.len() < behind {
            return Err(Step::More);
        }
        let (sign, digits) = line.split_first().map_or((b'\r', line), |(sign, digits)| (*sign, digits));
        (self.at, self.looked) = (behind, 0);
        Ok((sign, number(digits)))
    }

    fn step(&mut self, bytes: &[u8], limits: &Limits, authenticated: bool) -> Result<Step, Early> {
        if self.missing == 0 {
            match bytes.first() {
                None => return Ok(Step::More),
                Some(b'*') => {}
                Some(_) => return self.inline(bytes),
            }
            let (_, count) = self.number(bytes, "too big mbulk count string")?;
            let Some(count) = count.filter(|count| *count <= MAX_WORDS) else {
                return Err(refused("invalid multibulk length"));
            };
            if count > MAX_WORDS_UNAUTHENTICATED && !authenticated {
                return Err(Step::Unknown("unauthenticated multibulk length"));
            }
            self.missing = usize::try_from(count).unwrap_or(0);
        }
        while self.missing > 0 {
            let size = match self.announced {
                Some(size) => size,
                None => {
                    let (sign, size) = self.number(bytes, "too big bulk count string")?;
                    if sign != b'$' {
                        return Err(Step::Refused(not_a_bulk(sign)));
                    }
                    let most = i64::try_from(limits.bulk_bytes).unwrap_or(i64::MAX);
                    let Some(size) = size.filter(|size| (0..=most).contains(size)) else {
                        return Err(refused("invalid bulk length"));
                    };
                    if size > MAX_WORD_BYTES_UNAUTHENTICATED && !authenticated {
                        return Err(Step::Unknown("unauthenticated bulk length"));
                    }
                    *self.announced.insert(usize::try_from(size).unwrap_or(usize::MAX))
                }
            };
            let end = self.at.saturating_add(size);
            if bytes.len() < end.saturating_add(2) {
                return Ok(Step::More);
            }
            self.words.push((self.at, end));
            (self.at, self.announced, self.missing) = (end + 2, None, self.missing - 1);
        }
        Ok(Step::Whole)
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<Step, Early> {
        let line = self.line(bytes, b'\n', "too big inline request")?;
        let behind = self.at + line.len() + 1;
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        if text.contains(&0) {
            // Redis, in C, goes by what stands before it: the rest of an entry would be left out without a word.
            return Err(refused("a zero byte in an inline request"));
        }
        let words = resp_inline::split(text).ok_or_else(|| refused("unbalanced quotes in request"))?;
        (self.at, self.looked) = (behind, 0);
        Ok(Step::Inline(words))
    }

    /// Whether nothing of a request was seen yet.
    fn is_new(&self) -> bool {
        self.missing == 0 && self.looked == 0
    }

    /// Makes ready for the next request.
    fn clear(&mut self) {
        self.words.clear();
        if self.words.capacity() > KEPT_WORDS {
            self.words = Vec::new();
        }
        (self.missing, self.announced, self.at, self.looked) = (0, None, 0, 0);
    }
}

fn error(text: &str) -> Vec<u8> {
    format!("ERR Protocol error: {text}").into_bytes()
}

fn refused(text: &str) -> Step {
    Step::Refused(error(text))
}

/// Redis prints the byte as it is, but no line end into a line, and nothing behind a zero.
fn not_a_bulk(sign: u8) -> Vec<u8> {
    let mut text = error("expected '$', got '");
    match sign {
        0 => {}
        b'\r' | b'\n' => text.extend_from_slice(b" '"),
        sign => text.extend_from_slice(&[sign, b'\'']),
    }
    text
}

/// A whole number as Redis's `string2ll` takes it: no plus, no leading zeros, no blanks.
#[inline]
fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    digits.iter().try_fold(0i64, |value, byte| {
        let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
        let value = value.checked_mul(10)?;
        if negative {
            value.checked_sub(digit)
        } else {
            value.checked_add(digit)
        }
    })
}

/// A number of one digit to three behind its sign, and the bytes of its line with the end. None leaves it to `number`.
#[inline]
fn short_number(bytes: &[u8], sign: u8) -> Option<(usize, usize)> {
    let (first, rest) = bytes.split_first()?;
    let digit = |byte: &u8| usize::from(byte.wrapping_sub(b'0'));
    let found = match rest {
        [one @ b'0'..=b'9', b'\r', _, ..] => (digit(one), 4),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', _, ..] => (digit(ten) * 10 + digit(one), 5),
        [hundred @ b'1'..=b'9', ten @ b'0'..=b'9', one @ b'0'..=b'9', b'\r', _, ..] => {
            (digit(hundred) * 100 + digit(ten) * 10 + digit(one), 6)
        }
        _ => return None,
    };
    (*first == sign).then_some(found)
}

/// A request that is here as a whole, of words that are not long, as nearly all are: puts its words behind `words`, and
/// returns its bytes. None leaves it to `Request::step`, which would find the same, for three times as much.
#[inline]
fn short_request<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    authenticated: bool,
    words: &mut Vec<&'a [u8]>,
) -> Option<usize> {
    let (count, mut at) = short_number(bytes, b'*')?;
    if count == 0 || (count > MAX_WORDS_UNAUTHENTICATED as usize && !authenticated) {
        return None;
    }
    for _ in 0..count {
        let rest = bytes.get(at..)?;
        let (size, from) = short_number(rest, b'$').filter(|(size, _)| *size <= limits.bulk_bytes)?;
        let end = from + size;
        if rest.len() < end + 2 {
            return None;
        }
        words.push(rest.get(from..end)?);
        at += end + 2;
    }
    Some(at)
}

/// Takes the bytes of one client.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// The request under way, from its first byte on.
    buffer: Vec<u8>,
    request: Request,
    error: Option<Vec<u8>>,
    limit_passed: bool,
    held_back: bool,
}

impl Parser {
    pub fn new(limits: Limits) -> Parser {
        let (buffer, request) = (Vec::new(), Request::default());
        Parser { limits, buffer, request, error: None, limit_passed: false, held_back: false }
    }

    /// Calls `each` with the words of every command that is whole now. After an error, or once the limit was passed,
    /// nothing comes any more.
    ///
    /// A request that only someone authenticated may send is held back where others come before it, as one of them may
    /// be the AUTH: once they were run, the next call, with no data if there is none, looks at it again.
    ///
    /// # Errors
    /// There is no memory for a request; then nothing comes any more, as where the limit was passed.
    pub fn feed<F: FnMut(&[&[u8]])>(&mut self, data: &[u8], authenticated: bool, mut each: F) -> error::Result<()> {
        self.held_back = false;
        if self.error.is_some() || self.limit_passed {
            return Ok(());
        }
        if self.buffer.is_empty() {
            let used = self.take(data, authenticated, &mut each);
            let rest = data.get(used..).unwrap_or_default();
            self.make_room(rest.len())?;
            self.buffer.extend_from_slice(rest);
        } else {
            self.make_room(data.len())?;
            let mut buffer = mem::take(&mut self.buffer);
            buffer.extend_from_slice(data);
            let used = self.take(&buffer, authenticated, &mut each);
            if used == buffer.len() {
                buffer.clear();
            } else if used > 0 {
                buffer.drain(..used);
                if buffer.capacity() > LARGE_BYTES && buffer.len() <= KEPT_BYTES {
                    buffer.shrink_to(KEPT_BYTES);
                }
            }
            self.buffer = buffer;
        }
        self.limit_passed = self.buffer.len() > self.limits.query_bytes;
        let ended = self.error.is_some() || self.limit_passed;
        if ended || (self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES) {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Makes room for so many more bytes of the request under way; where there is none, that ends the client alone.
    fn make_room(&mut self, more_bytes: usize) -> error::Result<()> {
        let made = error::make_room(&mut self.buffer, more_bytes, "a request");
        if made.is_err() {
            (self.buffer, self.limit_passed) = (Vec::new(), true);
        }
        made
    }

    /// Takes whole requests. Returns the bytes that they had.
    fn take<F: FnMut(&[&[u8]])>(&mut self, bytes: &[u8], authenticated: bool, each: &mut F) -> usize {
        let mut words: Vec<&[u8]> = Vec::new();
        let mut start = 0;
        let mut found = false;
        while let Some(rest) = bytes.get(start..).filter(|rest| !rest.is_empty()) {
            words.clear();
            if self.request.is_new() {
                if let Some(used) = short_request(rest, &self.limits, authenticated, &mut words) {
                    each(&words);
                    (start, found) = (start + used, true);
                    continue;
                }
            }
            match self.request.step(rest, &self.limits, authenticated).unwrap_or_else(|early| early) {
                Step::Whole => {
                    words.clear();
                    words.extend(self.request.words.iter().filter_map(|(from, to)| rest.get(*from..*to)));
                    if !words.is_empty() {
                        each(&words);
                        found = true;
                    }
                }
                Step::Inline(owned) if owned.is_empty() => {}
                Step::Inline(owned) => {
                    each(&owned.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    found = true;
                }
                Step::More => return start,
                Step::Refused(text) => {
                    self.error = Some(text);
                    return start;
                }
                Step::Unknown(_) if found => {
                    self.request.clear();
                    self.held_back = true;
                    return start;
                }
                Step::Unknown(text) => {
                    self.error = Some(error(text));
                    return start;
                }
            }
            start += self.request.at;
            self.request.clear();
        }
        start
    }

    /// The protocol error that ended it, as the client is told it, without the sign in front.
    pub fn error(&self) -> Option<&[u8]> {
        self.error.as_deref()
    }

    /// Bytes kept of requests that have not come whole.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether a request had more bytes than may be kept.
    pub fn limit_passed(&self) -> bool {
        self.limit_passed
    }

    /// Whether whole requests may wait for those before them to be run.
    pub fn held_back(&self) -> bool {
        self.held_back
    }
}

#[cfg(test)]
#[path = "resp_tests.rs"]
mod tests;

//! Entries as a Redis server sends them, in replies to XRANGE, into packed rows: without anything for each of them but
//! this, and handed over frame by frame, so that no reply need be in memory as a whole.
//!
//! ```text
//! reply := "*" N CRLF entry{N} | "*-1" CRLF | "_" CRLF | "-" text CRLF
//! entry := "*2" CRLF bulk (the ID) "*" 2F CRLF bulk{2F}
//! bulk  := "$" length CRLF bytes CRLF
//! ```

use crate::digest::Digest;
use crate::error::Error;
use crate::frame::MAX_ENTRY_BYTES;
use crate::id::Id;
use crate::packing::{Packed, BESIDE_ROW_BYTES, MAX_ROWS_BYTES};
use crate::rows::{RowsEncoder, Step, MAX_FIELDS};

/// A line holds a number of at most 20 digits, or the text of an error.
const MAX_LINE_BYTES: usize = 1 << 16;

/// Why nothing more can be made of what the server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is no reply of XRANGE: at this byte of this reply.
    Protocol(u64, &'static str),
    /// An entry that no stream of ours can hold.
    Entry(Id, Error),
    /// An ID that is not above the one before it.
    Order(Id),
}

type Outcome<T> = Result<T, Fault>;

/// What one reply held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    pub digest: Digest,
    pub first: Option<Id>,
    pub last: Option<Id>,
    /// The server's refusal.
    pub error: Option<Vec<u8>>,
}

/// Takes the bytes of replies, in whatever pieces.
pub struct Replies {
    buffer: Vec<u8>,
    at: usize,
    /// Bytes of this reply before the buffer.
    before_buffer: u64,
    /// Entries of this reply that have not come; None before its first line.
    left: Option<u64>,
    encoder: RowsEncoder,
    frame_bytes: usize,
    frame_first: Option<Id>,
    words: Vec<(usize, usize)>,
    summary: Summary,
}

/// The bytes that have come are not enough.
struct Short;

impl Replies {
    /// Frames are cut at about so many bytes.
    pub fn new(frame_bytes: usize) -> Replies {
        Replies {
            buffer: Vec::new(),
            at: 0,
            before_buffer: 0,
            left: None,
            encoder: RowsEncoder::default(),
            frame_bytes: frame_bytes.min(MAX_ROWS_BYTES),
            frame_first: None,
            words: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// Takes bytes; the frames that are full now, and, once the reply is whole, the last one and what it held.
    pub fn feed(&mut self, data: &[u8], frames: &mut Vec<Packed>) -> Outcome<Option<Summary>> {
        self.buffer.extend_from_slice(data);
        let whole = self.parse(frames);
        self.buffer.drain(..self.at);
        self.before_buffer += self.at as u64;
        self.at = 0;
        if !whole? {
            return Ok(None);
        }
        self.cut(frames);
        self.left = None;
        self.before_buffer = 0;
        Ok(Some(std::mem::take(&mut self.summary)))
    }

    /// Bytes kept that are part of nothing whole yet.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn parse(&mut self, frames: &mut Vec<Packed>) -> Outcome<bool> {
        let mut left = match self.left {
            Some(left) => left,
            None => match self.head()? {
                Some(count) => count,
                None => return Ok(false),
            },
        };
        while left > 0 {
            self.left = Some(left);
            match self.entry(frames) {
                Ok(()) => left -= 1,
                Err(Ok(Short)) => return Ok(false),
                Err(Err(fault)) => return Err(fault),
            }
        }
        Ok(true)
    }

    /// The first line of a reply: how many entries follow.
    fn head(&mut self) -> Outcome<Option<u64>> {
        let (kind, text, next) = match line(&self.buffer, self.at) {
            Ok(found) => found,
            Err(Ok(Short)) => return Ok(None),
            Err(Err(what)) => return Err(self.fault(what)),
        };
        let count = match kind {
            b'-' | b'!' => {
                self.summary.error = Some(text.to_vec());
                0
            }
            b'_' => 0,
            b'*' if text == b"-1" => 0,
            b'*' => number(text).ok_or_else(|| self.fault("a number of entries"))?,
            _ => return Err(self.fault("a list of entries")),
        };
        self.at = next;
        Ok(Some(count))
    }

    fn fault(&self, wanted: &'static str) -> Fault {
        Fault::Protocol(self.before_buffer + self.at as u64, wanted)
    }

    /// One entry, if it is there as a whole.
    fn entry(&mut self, frames: &mut Vec<Packed>) -> Result<(), Result<Short, Fault>> {
        let mut words = std::mem::take(&mut self.words);
        let found = self.find_words(&mut words);
        let taken = found.and_then(|(id, next)| {
            self.pack(id, &words, frames).map_err(Err)?;
            self.at = next;
            Ok(())
        });
        self.words = words;
        taken
    }

    /// Where the names and values of the next entry stand; its ID, and where it ends.
    fn find_words(&self, words: &mut Vec<(usize, usize)>) -> Result<(Id, usize), Result<Short, Fault>> {
        words.clear();
        let fault = |what: Result<Short, &'static str>| match what {
            Ok(short) => Ok(short),
            Err(what) => Err(self.fault(what)),
        };
        let wrong = |what| Err(self.fault(what));
        let (kind, text, at) = line(&self.buffer, self.at).map_err(fault)?;
        if kind != b'*' || text != b"2" {
            return Err(wrong("an entry, which has an ID and fields"));
        }
        let (start, end, at) = bulk(&self.buffer, at).map_err(fault)?;
        let text = self.buffer.get(start..end).unwrap_or_default();
        let id = match Id::parse(text) {
            Some((ms, Some(seq))) => Id::new(ms, seq),
            _ => return Err(wrong("the ID of an entry")),
        };
        let (kind, text, mut at) = line(&self.buffer, at).map_err(fault)?;
        let count = number(text).filter(|count| kind == b'*' && *count > 0 && count % 2 == 0);
        let count = count.ok_or_else(|| wrong("the fields of an entry"))?;
        if count > 2 * MAX_FIELDS as u64 {
            let (limit, found) = (MAX_FIELDS as u64, count / 2);
            return Err(Err(Fault::Entry(id, Error::Limit { what: "fields of an entry", limit, found })));
        }
        for _ in 0..count {
            let (start, end, next) = bulk(&self.buffer, at).map_err(|what| match what {
                Err(TOO_LONG) => Err(too_large(id, MAX_ENTRY_BYTES as u64 + 1)),
                other => fault(other),
            })?;
            words.push((start, end));
            at = next;
            if at - self.at > 2 * MAX_ENTRY_BYTES {
                return Err(Err(too_large(id, (at - self.at) as u64)));
            }
        }
        Ok((id, at))
    }

    fn pack(&mut self, id: Id, words: &[(usize, usize)], frames: &mut Vec<Packed>) -> Outcome<()> {
        if self.summary.last.is_some_and(|last| id <= last) || id == Id::MIN {
            return Err(Fault::Order(id));
        }
        let buffer = &self.buffer;
        let word = |place: &(usize, usize)| buffer.get(place.0..place.1).unwrap_or_default();
        let pairs = words.chunks_exact(2).filter_map(|pair| pair.first().zip(pair.last()));
        let pairs = pairs.map(|(name, value)| (word(name), word(value)));
        self.encoder.begin();
        for (name, value) in pairs.clone() {
            self.encoder.field(name, value);
        }
        if self.encoder.payload().len() + self.encoder.row_bytes() + BESIDE_ROW_BYTES > self.frame_bytes {
            cut(&mut self.encoder, &mut self.frame_first, self.summary.last, frames);
        }
        let step = match (self.frame_first, self.summary.last) {
            (Some(_), Some(before)) => Step::Between(before, id),
            _ => Step::Next,
        };
        self.encoder.end(step).map_err(|error| Fault::Entry(id, error))?;
        self.frame_first = self.frame_first.or(Some(id));
        self.summary.first = self.summary.first.or(Some(id));
        self.summary.last = Some(id);
        self.summary.digest.add(id, pairs);
        Ok(())
    }

    fn cut(&mut self, frames: &mut Vec<Packed>) {
        cut(&mut self.encoder, &mut self.frame_first, self.summary.last, frames);
    }
}

fn too_large(id: Id, found: u64) -> Fault {
    Fault::Entry(id, Error::Limit { what: "entry", limit: MAX_ENTRY_BYTES as u64, found })
}

/// Ends the frame of the rows that have ended.
fn cut(encoder: &mut RowsEncoder, first: &mut Option<Id>, last: Option<Id>, frames: &mut Vec<Packed>) {
    let rows = encoder.rows();
    if rows > 0 {
        let ids = first.take().zip(last);
        frames.push(Packed { payload: encoder.take(), rows, ids });
    }
}

const TOO_LONG: &str = "a bulk string of the size of an entry";

type Line<'a> = (u8, &'a [u8], usize);

/// The line at `at`: its first byte, the rest, and where the next one begins.
#[inline]
fn line(buffer: &[u8], at: usize) -> Result<Line<'_>, Result<Short, &'static str>> {
    let rest = buffer.get(at..).unwrap_or_default();
    let near = rest.get(..rest.len().min(MAX_LINE_BYTES)).unwrap_or_default();
    let Some(end) = near.iter().position(|byte| *byte == b'\r') else {
        return Err(if near.len() < MAX_LINE_BYTES { Ok(Short) } else { Err("a line of at most 64 KiB") });
    };
    match (rest.first(), rest.get(end + 1)) {
        (_, None) => Err(Ok(Short)),
        (Some(kind), Some(b'\n')) if end > 0 => Ok((*kind, rest.get(1..end).unwrap_or_default(), at + end + 2)),
        _ => Err(Err("a line that ends in CRLF")),
    }
}

/// The bulk string at `at`: where it begins and ends, and where the next thing begins.
#[inline]
fn bulk(buffer: &[u8], at: usize) -> Result<(usize, usize, usize), Result<Short, &'static str>> {
    let (kind, text, start) = line(buffer, at)?;
    let size = number(text).filter(|_| kind == b'$').ok_or(Err("a bulk string"))?;
    let size = usize::try_from(size).ok().filter(|size| *size <= MAX_ENTRY_BYTES).ok_or(Err(TOO_LONG))?;
    let end = start + size;
    match buffer.get(end..end + 2) {
        None => Err(Ok(Short)),
        Some(b"\r\n") => Ok((start, end, end + 2)),
        Some(_) => Err(Err("the end of a bulk string")),
    }
}

/// A decimal number.
#[inline]
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use crate::rows;

    fn reply(entries: &[(&str, &[&str])]) -> Vec<u8> {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let mut out = format!("*{}\r\n", entries.len());
        for (id, words) in entries {
            out += &format!("*2\r\n{}*{}\r\n", bulk(id), words.len());
            words.iter().for_each(|word| out += &bulk(word));
        }
        out.into_bytes()
    }

    type Row = (Id, Vec<(Vec<u8>, Vec<u8>)>);

    fn unpacked(frames: &[Packed]) -> Vec<Row> {
        let mut found = Vec::new();
        for frame in frames {
            let mut builder = BlockBuilder::default();
            rows::decode(&frame.payload, frame.ids.unwrap().0, frame.rows, 0..frame.rows, usize::MAX, &mut builder)
                .unwrap();
            let block = builder.finish();
            for row in 0..block.len() {
                let pairs = block.pairs(row).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                found.push((block.id(row).unwrap(), pairs));
            }
        }
        found
    }

    #[test]
    fn replies_in_any_pieces_give_the_same_entries() {
        let one = reply(&[("5-1", &["a", "1", "b", "\r\n$3"]), ("5-2", &["a", "2"]), ("7-0", &["a", ""])]);
        let two = reply(&[]);
        let three = [b"-LOADING it loads\r\n".to_vec(), reply(&[("8-0", &["a", "2"])])].concat();
        let all = [one, two, three].concat();
        let mut expected = None;
        for size in [1, 2, 7, all.len()] {
            let mut replies = Replies::new(1 << 20);
            let (mut frames, mut summaries) = (Vec::new(), Vec::new());
            for part in all.chunks(size) {
                let mut part = part;
                while let Some(summary) = replies.feed(part, &mut frames).unwrap() {
                    summaries.push(summary);
                    part = &[];
                }
            }
            assert_eq!(replies.buffered_bytes(), 0);
            assert_eq!(summaries.len(), 4);
            let found = unpacked(&frames);
            assert_eq!(found.len(), 4);
            assert_eq!(found.first().unwrap().1.last().unwrap().1, b"\r\n$3");
            let expected = expected.get_or_insert_with(|| (found.clone(), summaries.clone()));
            assert_eq!((&found, &summaries), (&expected.0, &expected.1));
            assert_eq!(summaries.get(2).unwrap().error.as_deref(), Some(&b"LOADING it loads"[..]));
            let mut digest = Digest::default();
            for (id, pairs) in found.iter().take(3) {
                digest.add(*id, pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
            }
            assert_eq!(summaries.first().unwrap().digest, digest);
        }
    }

    #[test]
    fn frames_are_cut_by_their_bytes() {
        let ids: Vec<String> = (1..500).map(|number| format!("{}-{number}", number / 3)).collect();
        let entries: Vec<(&str, &[&str])> = ids.iter().map(|id| (id.as_str(), &["field", "value"][..])).collect();
        let mut replies = Replies::new(500);
        let mut frames = Vec::new();
        let summary = replies.feed(&reply(&entries), &mut frames).unwrap().unwrap();
        assert!(frames.len() > 5);
        assert!(frames.iter().all(|frame| frame.payload.len() <= 500));
        assert_eq!(unpacked(&frames).len(), 499);
        assert_eq!(summary.digest.entries, 499);
        assert_eq!(frames.last().unwrap().ids.unwrap().1, summary.last.unwrap());
    }

    #[test]
    fn what_is_no_reply_is_a_fault_and_no_panic() {
        let faulty = |data: &[u8]| Replies::new(1000).feed(data, &mut Vec::new());
        for bad in [
            &b"+OK\r\n"[..],
            b"*1\r\n*3\r\n",
            b"*1\r\n*2\r\n$1\r\n5\r\n",
            b"*1\r\n*2\r\n$3\r\n5-1\r\n*1\r\n",
            b"*1\r\n*2\r\n$3\r\n5-1\r\n*0\r\n",
            b"*99999999999999999999999\r\n",
            b"*1\rx",
            b"*1\r\n*2\r\n$3\r\n5-1xx",
        ] {
            assert!(matches!(faulty(bad), Err(Fault::Protocol(..))), "{bad:?}");
        }
        assert!(matches!(faulty(b"*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$33554433\r\n"), Err(Fault::Entry(..))));
        assert!(matches!(faulty(b"*1\r\n*2\r\n$3\r\n5-1\r\n*131074\r\n"), Err(Fault::Entry(..))));
        let falling = reply(&[("5-1", &["a", "1"]), ("5-1", &["a", "2"])]);
        assert_eq!(faulty(&falling), Err(Fault::Order(Id::new(5, 1))));
        let whole = reply(&[("5-1", &["a", "1"]), ("6-1", &["b", "2"])]);
        for end in 0..whole.len() {
            assert_eq!(faulty(whole.get(..end).unwrap()), Ok(None));
        }
    }
}

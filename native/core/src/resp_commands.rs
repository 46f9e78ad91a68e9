//! Runs of plain commands on one key, of one kind, that follow one another: their words are read once, into what they
//! ask for, so that a pipeline of them is one object and one call.
//!
//! ```text
//! XLEN key
//! XRANGE key start end COUNT n
//! XACK key group id ...
//! XREADGROUP GROUP group consumer COUNT n [BLOCK ms] STREAMS key >
//! ```
//! A command that could fail by its words is in no run, nor one that asks for more than [`MOST_ENTRIES`].

use crate::id::Id;

/// Entries that one command may ask for.
pub const MOST_ENTRIES: u64 = 1000;

/// What an XRANGE asks for: both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: Id,
    pub end: Id,
    pub count: u64,
}

/// What an XREADGROUP asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub count: u64,
    pub block_ms: Option<u64>,
}

/// What the commands of a run ask for, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Lengths(usize),
    Ranges(Vec<Range>),
    /// All IDs, and how many are of each command.
    Acks {
        group: Vec<u8>,
        ids: Vec<Id>,
        counts: Vec<usize>,
    },
    Reads {
        group: Vec<u8>,
        consumer: Vec<u8>,
        reads: Vec<Read>,
    },
}

/// Commands that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRun {
    pub key: Vec<u8>,
    pub asked: Asked,
}

/// A command of a run, its words where they came.
enum Plain<'a, 'b> {
    Length,
    Range(Range),
    /// The ID that comes first is read, as for most there is no other.
    Ack {
        group: &'b [u8],
        first: Id,
        others: &'a [&'b [u8]],
    },
    Read {
        group: &'b [u8],
        consumer: &'b [u8],
        read: Read,
    },
}

/// A number of at most 18 digits, as Redis takes it: neither sign nor zeros before it.
fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 18 || (word.len() > 1 && word.first() == Some(&b'0')) {
        return None;
    }
    word.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some(value * 10 + u64::from(digit))
    })
}

fn count(word: &[u8]) -> Option<u64> {
    number(word).filter(|count| (1..=MOST_ENTRIES).contains(count))
}

fn id(word: &[u8], missing: u64) -> Option<Id> {
    Id::parse(word).map(|(ms, seq)| Id::new(ms, seq.unwrap_or(missing)))
}

/// An end of a range; `(` and whatever else there may be is left to the command.
fn end(word: &[u8], missing: u64) -> Option<Id> {
    match word {
        b"-" => Some(Id::MIN),
        b"+" => Some(Id::MAX),
        _ => id(word, missing),
    }
}

fn is(word: &[u8], name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// Key and meaning, where the words are one of the shapes above.
fn plain<'a, 'b>(words: &'a [&'b [u8]]) -> Option<(&'b [u8], Plain<'a, 'b>)> {
    match words {
        [name, key] if is(name, b"xlen") => Some((key, Plain::Length)),
        [name, key, from, to, option, most] if is(name, b"xrange") && is(option, b"count") => {
            let range = Range { start: end(from, 0)?, end: end(to, u64::MAX)?, count: count(most)? };
            Some((key, Plain::Range(range)))
        }
        [name, key, group, first, others @ ..] if is(name, b"xack") => {
            let first = id(first, 0)?;
            let sound = others.iter().all(|word| id(word, 0).is_some());
            sound.then_some((*key, Plain::Ack { group, first, others }))
        }
        [name, word, group, consumer, options @ .., streams, key, b">"]
            if is(name, b"xreadgroup") && is(word, b"group") && is(streams, b"streams") =>
        {
            let (most, block_ms) = match options {
                [option, most] if is(option, b"count") => (most, None),
                [option, most, block, ms] if is(option, b"count") && is(block, b"block") => (most, Some(number(ms)?)),
                _ => return None,
            };
            Some((key, Plain::Read { group, consumer, read: Read { count: count(most)?, block_ms } }))
        }
        _ => None,
    }
}

impl CommandRun {
    fn begun(key: &[u8], command: &Plain<'_, '_>) -> CommandRun {
        let asked = match command {
            Plain::Length => Asked::Lengths(0),
            Plain::Range(_) => Asked::Ranges(Vec::new()),
            Plain::Ack { group, .. } => Asked::Acks { group: group.to_vec(), ids: Vec::new(), counts: Vec::new() },
            Plain::Read { group, consumer, .. } => {
                Asked::Reads { group: group.to_vec(), consumer: consumer.to_vec(), reads: Vec::new() }
            }
        };
        CommandRun { key: key.to_vec(), asked }
    }

    /// Takes a command in, if it is of this kind and place.
    fn goes_on(&mut self, key: &[u8], command: &Plain<'_, '_>) -> bool {
        if self.key != key {
            return false;
        }
        match (&mut self.asked, command) {
            (Asked::Lengths(count), Plain::Length) => *count += 1,
            (Asked::Ranges(ranges), Plain::Range(range)) => ranges.push(*range),
            (Asked::Acks { group, ids, counts }, Plain::Ack { group: its, first, others }) if group == its => {
                ids.push(*first);
                ids.extend(others.iter().filter_map(|word| id(word, 0)));
                counts.push(1 + others.len());
            }
            (Asked::Reads { group, consumer, reads }, Plain::Read { group: its, consumer: who, read })
                if group == its && consumer == who =>
            {
                reads.push(*read);
            }
            _ => return false,
        }
        true
    }

    /// Commands.
    pub fn len(&self) -> usize {
        match &self.asked {
            Asked::Lengths(count) => *count,
            Asked::Ranges(ranges) => ranges.len(),
            Asked::Acks { counts, .. } => counts.len(),
            Asked::Reads { reads, .. } => reads.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the commands, in lower case.
    pub fn name(&self) -> &'static str {
        match &self.asked {
            Asked::Lengths(_) => "xlen",
            Asked::Ranges(_) => "xrange",
            Asked::Acks { .. } => "xack",
            Asked::Reads { .. } => "xreadgroup",
        }
    }

    /// The group that they are for.
    pub fn group(&self) -> Option<&[u8]> {
        match &self.asked {
            Asked::Acks { group, .. } | Asked::Reads { group, .. } => Some(group),
            Asked::Lengths(_) | Asked::Ranges(_) => None,
        }
    }

    /// Whether both are the same commands for the same place, whoever the consumer is.
    pub fn is_kin(&self, other: &CommandRun) -> bool {
        self.key == other.key && self.group() == other.group() && self.name() == other.name()
    }

    /// The run of the commands behind the first `done`.
    pub fn rest(&self, done: usize) -> CommandRun {
        let asked = match &self.asked {
            Asked::Lengths(count) => Asked::Lengths(count.saturating_sub(done)),
            Asked::Ranges(ranges) => Asked::Ranges(ranges.iter().skip(done).copied().collect()),
            Asked::Acks { group, ids, counts } => {
                let gone: usize = counts.iter().take(done).sum();
                let ids = ids.iter().skip(gone).copied().collect();
                Asked::Acks { group: group.clone(), ids, counts: counts.iter().skip(done).copied().collect() }
            }
            Asked::Reads { group, consumer, reads } => {
                let reads = reads.iter().skip(done).copied().collect();
                Asked::Reads { group: group.clone(), consumer: consumer.clone(), reads }
            }
        };
        CommandRun { key: self.key.clone(), asked }
    }

    /// Calls `each` with words that say the same as each of the commands did.
    pub fn commands(&self, mut each: impl FnMut(&[&[u8]])) {
        let key = self.key.as_slice();
        match &self.asked {
            Asked::Lengths(count) => (0..*count).for_each(|_| each(&[b"XLEN", key])),
            Asked::Ranges(ranges) => {
                for Range { start, end, count } in ranges {
                    let (start, end, count) = (start.to_string(), end.to_string(), count.to_string());
                    each(&[b"XRANGE", key, start.as_bytes(), end.as_bytes(), b"COUNT", count.as_bytes()]);
                }
            }
            Asked::Acks { group, ids, counts } => {
                let mut texts = ids.iter().map(Id::to_string);
                for count in counts {
                    let texts: Vec<String> = texts.by_ref().take(*count).collect();
                    let mut words: Vec<&[u8]> = vec![b"XACK", key, group];
                    words.extend(texts.iter().map(String::as_bytes));
                    each(&words);
                }
            }
            Asked::Reads { group, consumer, reads } => {
                for Read { count, block_ms } in reads {
                    let (count, block) = (count.to_string(), block_ms.map(|ms| ms.to_string()));
                    let mut words: Vec<&[u8]> = vec![b"XREADGROUP", b"GROUP", group, consumer];
                    words.extend([b"COUNT", count.as_bytes()]);
                    if let Some(ms) = &block {
                        words.extend([b"BLOCK", ms.as_bytes()]);
                    }
                    words.extend([b"STREAMS", key, b">"]);
                    each(&words);
                }
            }
        }
    }
}

/// Gathers runs.
#[derive(Debug, Default)]
pub struct CommandRuns {
    run: Option<CommandRun>,
}

impl CommandRuns {
    /// Takes a command into the run under way, if there is one and it belongs there.
    #[inline]
    pub fn goes_on(&mut self, words: &[&[u8]]) -> bool {
        let Some(run) = &mut self.run else { return false };
        plain(words).is_some_and(|(key, command)| run.goes_on(key, &command))
    }

    /// Takes a command in, if it is one for a run. Calls `whole` with the run before, where the command begins another.
    #[inline]
    pub fn take(&mut self, words: &[&[u8]], whole: impl FnOnce(CommandRun)) -> bool {
        let Some((key, command)) = plain(words) else { return false };
        if self.run.as_mut().is_some_and(|run| run.goes_on(key, &command)) {
            return true;
        }
        self.finish().map(whole);
        let mut run = CommandRun::begun(key, &command);
        run.goes_on(key, &command);
        self.run = Some(run);
        true
    }

    /// Ends the run under way, if there is one.
    pub fn finish(&mut self) -> Option<CommandRun> {
        self.run.take()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What becomes of commands: those of a run in one line, by themselves those of none.
    fn gathered(commands: &[&str]) -> Vec<Vec<String>> {
        let shown = |run: CommandRun| {
            let mut lines = Vec::new();
            run.commands(|words| lines.push(String::from_utf8(words.join(&b' ')).unwrap()));
            assert_eq!(lines.len(), run.len());
            lines
        };
        let (mut runs, mut found) = (CommandRuns::default(), Vec::new());
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            if !runs.take(&words, |run| found.push(shown(run))) {
                found.extend(runs.finish().map(shown));
                found.push(vec![(*command).to_owned(), "alone".to_owned()]);
            }
        }
        found.extend(runs.finish().map(shown));
        found
    }

    #[test]
    fn a_run_is_of_one_kind_and_place() {
        let read = "XREADGROUP GROUP g c COUNT 2 STREAMS k >";
        let commands = [
            "xlen k",
            "XLEN k",
            "XLEN l",
            "XACK l g 1 2-3",
            "XACK l g 4-0",
            "XACK l h 4-0",
            read,
            "xreadgroup group g c count 3 block 0 streams k >",
            "XREADGROUP GROUP g d COUNT 2 STREAMS k >",
            "XRANGE k - + COUNT 1",
            "XRANGE k 5 6-7 count 1000",
            "PING",
            "XLEN l",
        ];
        let max = u64::MAX;
        let expected: [&[&str]; 9] = [
            &["XLEN k", "XLEN k"],
            &["XLEN l"],
            &["XACK l g 1-0 2-3", "XACK l g 4-0"],
            &["XACK l h 4-0"],
            &[read, "XREADGROUP GROUP g c COUNT 3 BLOCK 0 STREAMS k >"],
            &["XREADGROUP GROUP g d COUNT 2 STREAMS k >"],
            &[&format!("XRANGE k 0-0 {max}-{max} COUNT 1"), "XRANGE k 5-0 6-7 COUNT 1000"],
            &["PING", "alone"],
            &["XLEN l"],
        ];
        assert_eq!(gathered(&commands), expected);
    }

    #[test]
    fn only_the_plain_shapes_are_taken() {
        for command in [
            "XLEN",
            "XLEN k l",
            "XLENS k",
            "XRANGE k - +",
            "XRANGE k - + COUNT 0",
            "XRANGE k - + COUNT 1001",
            "XRANGE k - + COUNT 01",
            "XRANGE k - + COUNT -1",
            "XRANGE k (1 + COUNT 1",
            "XRANGE k x + COUNT 1",
            "XRANGE k - + COUNT 1 COUNT 1",
            "XACK k g",
            "XACK k g 1-x",
            "XACK k g 1 -",
            "XREADGROUP GROUP g c STREAMS k >",
            "XREADGROUP GROUP g c COUNT 1 STREAMS k 0",
            "XREADGROUP GROUP g c COUNT 1 STREAMS k l > >",
            "XREADGROUP GROUP g c COUNT 1 BLOCK -1 STREAMS k >",
            "XREADGROUP GROUP g c COUNT 1 NOACK STREAMS k >",
            "XREADGROUP GROUP g c COUNT 1 CLAIM 1 STREAMS k >",
            "XREADGROUP GROUP g c BLOCK 9999999999999999999 COUNT 1 STREAMS k >",
        ] {
            assert_eq!(gathered(&[command]), [[command, "alone"]]);
        }
    }

    #[test]
    fn the_rest_of_a_run_is_what_comes_behind() {
        let commands = [
            ["XLEN k", "XLEN k", "XLEN k"],
            ["XACK k g 1-0 2-0", "XACK k g 3-0", "XACK k g 4-0 5-0"],
            ["XRANGE k 0-0 1-0 COUNT 1", "XRANGE k 0-0 2-0 COUNT 1", "XRANGE k 0-0 3-0 COUNT 1"],
            [
                "XREADGROUP GROUP g c COUNT 1 STREAMS k >",
                "XREADGROUP GROUP g c COUNT 2 STREAMS k >",
                "XREADGROUP GROUP g c COUNT 3 BLOCK 5 STREAMS k >",
            ],
        ];
        for run in commands {
            let mut runs = CommandRuns::default();
            for command in run {
                let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                assert!(runs.take(&words, |_| panic!("one run")));
            }
            let whole = runs.finish().unwrap();
            for done in 0..=run.len() {
                let mut lines = Vec::new();
                let rest = whole.rest(done);
                rest.commands(|words| lines.push(String::from_utf8(words.join(&b' ')).unwrap()));
                assert_eq!(lines, run[done..]);
                assert!(rest.is_kin(&whole));
                assert_eq!(rest.is_empty(), done == run.len());
            }
        }
    }
}

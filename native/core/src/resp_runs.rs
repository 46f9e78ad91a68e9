//! Runs of the plainest XADD, `XADD key * name value ...` again and again on one key: packed into rows as they come,
//! so that a pipeline of appends becomes one frame without an object for each of its fields.

use crate::block::BlockBuilder;
use crate::error::Result;
use crate::frame::MAX_ENTRY_BYTES;
use crate::id::Id;
use crate::packing::{Packed, BESIDE_ROW_BYTES};
use crate::rows::{self, RowsEncoder, Step, MAX_FIELDS};

/// Commands that follow one another, as the rows of one frame.
#[derive(Debug)]
pub struct Run {
    pub key: Vec<u8>,
    pub packed: Packed,
}

/// Gathers runs.
pub struct Runs {
    encoder: RowsEncoder,
    key: Vec<u8>,
    limit: usize,
}

/// Key and fields, where the words are a plain XADD that cannot fail by its size.
fn plain_add<'a, 'b>(words: &'a [&'b [u8]]) -> Option<(&'b [u8], &'a [&'b [u8]])> {
    let [name, key, b"*", fields @ ..] = words else { return None };
    if !name.eq_ignore_ascii_case(b"xadd") || fields.is_empty() || fields.len() % 2 > 0 {
        return None;
    }
    let size: usize = fields.iter().map(|word| word.len()).sum();
    (fields.len() / 2 <= MAX_FIELDS && size <= MAX_ENTRY_BYTES).then_some((key, fields))
}

impl Runs {
    /// `limit` is in bytes a run: [`crate::packing::MAX_ROWS_BYTES`].
    pub fn new(limit: usize) -> Runs {
        Runs { encoder: RowsEncoder::default(), key: Vec::new(), limit }
    }

    /// Takes a command in, if it is one for a run. Calls `whole` with the run before, where the command begins another.
    pub fn take(&mut self, words: &[&[u8]], whole: impl FnOnce(Run)) -> bool {
        let Some((key, fields)) = plain_add(words) else { return false };
        self.encoder.begin();
        for pair in fields.chunks_exact(2) {
            if let [name, value] = pair {
                self.encoder.field(name, value);
            }
        }
        let size = self.encoder.row_bytes();
        if size > MAX_ENTRY_BYTES {
            return false;
        }
        if key != self.key || self.encoder.payload().len() + size + BESIDE_ROW_BYTES > self.limit {
            self.finish().map(whole);
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.encoder.end(Step::Next).is_ok()
    }

    /// Ends the run under way, if there is one.
    pub fn finish(&mut self) -> Option<Run> {
        let rows = self.encoder.rows();
        if rows == 0 {
            return None;
        }
        let packed = Packed { payload: self.encoder.take(), rows, ids: None };
        Some(Run { key: self.key.clone(), packed })
    }
}

/// Calls `each` with the fields of every row, names and values in turn.
pub fn unpack(packed: &Packed, mut each: impl FnMut(&mut dyn Iterator<Item = &[u8]>)) -> Result<()> {
    let mut builder = BlockBuilder::default();
    rows::decode(&packed.payload, Id::MIN, packed.rows, 0..packed.rows, usize::MAX, &mut builder)?;
    let block = builder.finish();
    for row in 0..block.len() {
        each(&mut block.pairs(row).flat_map(|(name, value)| [name, value]));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::packing::MAX_ROWS_BYTES;

    /// What becomes of commands: the keys and the rows of runs; of other commands `None`.
    fn gathered(limit: usize, commands: &[&str]) -> Vec<Option<(String, Vec<String>)>> {
        let shown = |run: Run| {
            let mut rows = Vec::new();
            let text = |word: &[u8]| String::from_utf8(word.to_vec()).unwrap();
            unpack(&run.packed, |words| rows.push(words.map(text).collect::<Vec<_>>().join(" "))).unwrap();
            assert_eq!(rows.len(), run.packed.rows as usize);
            Some((text(&run.key), rows))
        };
        let (mut runs, mut found) = (Runs::new(limit), Vec::new());
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            if !runs.take(&words, |run| found.push(shown(run))) {
                found.extend(runs.finish().map(shown));
                found.push(None);
            }
        }
        found.extend(runs.finish().map(shown));
        found
    }

    fn run(key: &str, rows: &[&str]) -> Option<(String, Vec<String>)> {
        Some((key.to_owned(), rows.iter().map(|row| (*row).to_owned()).collect()))
    }

    #[test]
    fn a_run_ends_with_its_key_or_another_command() {
        let commands = ["XADD k * a 1", "xadd k * a 2 b 3", "XaDd l * a 4", "PING", "XADD l * a 5"];
        let expected = [run("k", &["a 1", "a 2 b 3"]), run("l", &["a 4"]), None, run("l", &["a 5"])];
        assert_eq!(gathered(MAX_ROWS_BYTES, &commands), expected);
    }

    #[test]
    fn only_the_plain_shape_is_taken() {
        for command in
            ["XADD k *", "XADD k * a", "XADD k * a 1 b", "XADD k 1-* a 1", "XADD k NOMKSTREAM * a 1", "XADDS k * a 1"]
        {
            assert_eq!(gathered(MAX_ROWS_BYTES, &[command]), [None], "{command}");
        }
        let large = format!("XADD k * a {}", "x".repeat(MAX_ENTRY_BYTES));
        assert_eq!(
            gathered(MAX_ROWS_BYTES, &["XADD k * a 1", &large, "XADD k * a 2"]),
            [run("k", &["a 1"]), None, run("k", &["a 2"])]
        );
        let many = format!("XADD k *{}", " a 1".repeat(MAX_FIELDS + 1));
        assert_eq!(gathered(MAX_ROWS_BYTES, &[&many]), [None]);
    }

    #[test]
    fn a_run_fits_into_its_frame() {
        let commands: Vec<String> = (0..100).map(|number| format!("XADD k * a {number:030}")).collect();
        let found = gathered(1000, &commands.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(found.len() > 3);
        let rows: Vec<String> = found.into_iter().flatten().flat_map(|(_, rows)| rows).collect();
        assert_eq!(rows, (0..100).map(|number| format!("a {number:030}")).collect::<Vec<_>>());
    }
}

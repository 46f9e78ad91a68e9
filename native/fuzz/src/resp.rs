//! What comes from a socket: requests of clients, and the replies of a server that is read from.

use diskstream_core::digest::Digest;
use diskstream_core::packing::{Packed, MAX_ROWS_BYTES};
use diskstream_core::resp::{Limits, Parser};
use diskstream_core::resp_commands::{CommandRun, CommandRuns};
use diskstream_core::resp_entries::{Fault, Replies, Summary};
use diskstream_core::resp_inline::split;
use diskstream_core::resp_reply::{put_array, put_bulk, put_entry};
use diskstream_core::resp_runs::{unpack, Runs};
use diskstream_core::rows;

use crate::blocks::plain;
use crate::input::Input;

type Words = Vec<Vec<u8>>;

fn owned(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// What a parser makes of pieces: the commands, the error, and whether a limit was passed.
fn commands(pieces: &[&[u8]], limits: Limits, authenticated: bool) -> (Vec<Words>, Option<Vec<u8>>, bool) {
    let mut parser = Parser::new(limits);
    let mut found = Vec::new();
    let mut came = 0;
    for piece in pieces {
        parser.feed(piece, authenticated, |words| found.push(owned(words))).unwrap();
        came += piece.len();
        assert!(parser.buffered_bytes() <= came);
        while parser.held_back() {
            let before = found.len();
            parser.feed(&[], authenticated, |words| found.push(owned(words))).unwrap();
            assert!(found.len() > before || !parser.held_back());
        }
    }
    (found, parser.error().map(<[u8]>::to_vec), parser.limit_passed())
}

/// The input in pieces whose sizes its first bytes say.
fn pieces<'a>(input: &mut Input<'a>) -> Vec<&'a [u8]> {
    let sizes = input.bytes(4);
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if input.is_empty() {
            break;
        }
        pieces.push(input.bytes(usize::from(*size).max(1)));
    }
    pieces
}

pub fn requests(data: &[u8]) {
    let mut input = Input(data);
    let authenticated = input.u8() & 1 == 1;
    let limits = Limits { bulk_bytes: 1 << input.u8().clamp(1, 30), query_bytes: usize::MAX };
    let cut = pieces(&mut input);
    let whole = cut.concat();
    let (found, error, _) = commands(&[&whole], limits, authenticated);
    assert_eq!(commands(&cut, limits, authenticated), (found.clone(), error, false));
    let few = commands(&cut, Limits { query_bytes: 64, ..limits }, authenticated);
    assert_eq!(few.0, found[..few.0.len()]);
    in_runs(&found);
    in_command_runs(&found);
}

/// Commands as runs of one kind: those of a run say the same when they are read once more, and in parts.
fn in_command_runs(commands: &[Words]) {
    let gathered_by = |commands: &[Words], short_way: bool| {
        let (mut runs, mut found, mut taken) = (CommandRuns::default(), Vec::new(), 0);
        for command in commands {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let went_on = short_way && runs.goes_on(&words);
            taken += usize::from(went_on || runs.take(&words, |run| found.push(run)));
        }
        found.extend(runs.finish());
        assert_eq!(taken, found.iter().map(CommandRun::len).sum());
        found
    };
    let gathered = |commands: &[Words]| gathered_by(commands, false);
    assert_eq!(gathered(commands), gathered_by(commands, true));
    for run in gathered(commands) {
        let mut words = Vec::new();
        run.commands(|command| words.push(owned(command)));
        assert_eq!(words.len(), run.len());
        assert_eq!(gathered(&words), std::slice::from_ref(&run));
        let half = run.len() / 2;
        assert_eq!(gathered(&words[half..]), [run.rest(half)]);
    }
}

/// Commands as runs of XADD, and out of them again.
fn in_runs(commands: &[Words]) {
    let mut runs = Runs::new(1 << 12);
    let mut back: Vec<Words> = Vec::new();
    let mut taken: Vec<Words> = Vec::new();
    let mut add = |run: diskstream_core::resp_runs::Run| {
        unpack(&run.packed, |words| {
            let mut command = vec![b"XADD".to_vec(), run.key.clone(), b"*".to_vec()];
            command.extend(words.map(<[u8]>::to_vec));
            back.push(command);
        })
        .unwrap();
    };
    for command in commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        if runs.take(&words, &mut add) {
            let mut plain = command.clone();
            plain[0] = b"XADD".to_vec();
            taken.push(plain);
        }
    }
    runs.finish().map(add);
    assert_eq!(back, taken);
}

pub fn inline(data: &[u8]) {
    let Some(words) = split(data) else { return };
    // In double quotes with all their bytes as numbers, the same words.
    let quoted =
        |word: &Vec<u8>| format!("\"{}\"", word.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>());
    let line = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    assert_eq!(split(line.as_bytes()), Some(words));
}

type Outcome = (Vec<Packed>, Vec<Summary>, Option<Fault>, usize);

fn taken(pieces: &[&[u8]], frame_bytes: usize) -> Outcome {
    let mut replies = Replies::new(frame_bytes);
    let (mut frames, mut summaries) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut data = *piece;
        loop {
            match replies.feed(data, &mut frames) {
                Ok(Some(summary)) => summaries.push(summary),
                Ok(None) => break,
                Err(fault) => return (frames, summaries, Some(fault), 0),
            }
            if replies.buffered_bytes() == 0 {
                break;
            }
            data = &[];
        }
    }
    (frames, summaries, None, replies.buffered_bytes())
}

pub fn replies(data: &[u8]) {
    let mut input = Input(data);
    let frame_bytes = usize::from(input.u16());
    let cut = pieces(&mut input);
    let whole = cut.concat();
    let outcome = taken(&[&whole], frame_bytes);
    assert_eq!(taken(&cut, frame_bytes), outcome);
    let (frames, summaries, fault, _) = outcome;
    let mut digest = Digest::default();
    for packed in &frames {
        let first = packed.ids.unwrap().0;
        let mut builder = diskstream_core::block::BlockBuilder::default();
        let last = rows::decode(&packed.payload, first, packed.rows, 0..packed.rows, usize::MAX, &mut builder).unwrap();
        assert_eq!(packed.ids, Some((first, last)));
        let block = builder.finish();
        (0..block.len()).for_each(|row| digest.add(block.id(row).unwrap(), block.pairs(row)));
        // As our own server would send them, they are taken the same way.
        let mut sent = Vec::new();
        put_array(&mut sent, block.len());
        (0..block.len()).for_each(|row| put_entry(&mut sent, &block, row).unwrap());
        let (again, _, None, 0) = taken(&[&sent], MAX_ROWS_BYTES) else { panic!("our own reply is refused") };
        assert_eq!(again.iter().map(|packed| packed.rows).sum::<u32>(), packed.rows);
        assert!(!plain(&block).is_empty());
    }
    if fault.is_none() && summaries.len() == 1 {
        assert!(frames.is_empty() || digest.entries >= summaries[0].digest.entries);
    }
    let mut out = Vec::new();
    put_bulk(&mut out, data);
    assert_eq!(out.len(), data.len() + data.len().to_string().len() + 5);
}

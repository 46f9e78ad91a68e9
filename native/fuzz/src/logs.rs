//! Whole log files: a script of frames is written as a log would be, damaged as it says, and followed.
//!
//! ```text
//! script := apart u8, snapshot u16 bytes, frame u8{1}: frame*, damage
//! frame  := kind u8, flags u8, entries u16, first ID (16), payload u16 bytes       kind 0 ends them
//! damage := (offset u16, mask u8)*
//! ```

use diskstream_core::audit_rows::Walk;
use diskstream_core::frame::{self, FrameSpec, Kind};
use diskstream_core::header::{Frontier, LogHeader, HEADER_BYTES};
use diskstream_core::id::Id;
use diskstream_core::scan::judge;
use diskstream_core::snapshot;
use diskstream_core::tail::Tail;

use crate::blocks::plain;
use crate::input::{put, sign, Input};
use crate::states::look;

const SALT: u32 = 77;
const UUID: [u8; 16] = [0; 16];
const KINDS: [Kind; 9] = [
    Kind::Entries,
    Kind::Groups,
    Kind::Delete,
    Kind::Trim,
    Kind::SetId,
    Kind::Replace,
    Kind::Mark,
    Kind::View,
    Kind::Snapshot,
];

fn kind_of(byte: u8) -> Kind {
    KINDS[usize::from(byte - 1) % KINDS.len()]
}

fn snapshot_frame(out: &mut Vec<u8>, payload: &[u8]) -> u32 {
    let spec = FrameSpec {
        salt: SALT,
        kind: Kind::Snapshot,
        flags: 0,
        entries: 0,
        lsn: 1,
        synced_lsn: 0,
        time_ms: 5,
        first: Id::MIN,
        previous_crc: 0,
    };
    frame::encode(out, &spec, payload)
}

/// The file that a script says; what is left of it is the damage.
fn written(input: &mut Input<'_>, snapshot: &[u8]) -> Vec<u8> {
    let frontier = Frontier { sequence: 1, synced_lsn: u64::from(input.u8()), ..Frontier::default() };
    let mut file = LogHeader { salt: SALT, uuid: UUID, segment: 9, created_ms: 1 }.encode(frontier);
    let mut link = snapshot_frame(&mut file, snapshot);
    for lsn in 2.. {
        let kind = input.u8();
        if kind == 0 {
            break;
        }
        let (flags, entries, first) = (input.u8() & 1, u32::from(input.u16()), input.id());
        let kind = kind_of(kind);
        let payload = input.counted();
        let flags = if kind == Kind::Entries { flags } else { 0 };
        let time_ms = u64::from(flags) + lsn * 10;
        let spec = FrameSpec {
            salt: SALT,
            kind,
            flags,
            entries,
            lsn,
            synced_lsn: lsn / 2,
            time_ms,
            first,
            previous_crc: link,
        };
        link = frame::encode(&mut file, &spec, payload);
    }
    file
}

fn read(tail: &Tail, file: &[u8]) {
    let all = tail.index.read(file, 0, tail.end, u64::MAX, usize::MAX);
    let entries = tail.index.entries_before(file, tail.end);
    let Ok(block) = all else { return };
    if entries.is_ok() {
        assert_eq!(tail.index.entries, block.len() as u64);
    }
    let whole = plain(&block);
    for at in [0, whole.len() / 2, whole.len()] {
        let part = tail.index.part(at as u64, 3);
        let some = part.read(file, at as u64, tail.end, 3, usize::MAX).unwrap();
        assert_eq!(plain(&some), whole[at..(at + 3).min(whole.len())]);
        if let Some((id, _)) = whole.get(at) {
            assert_eq!(tail.index.seek(file, *id, tail.end), Ok(at as u64));
        }
    }
}

/// What the stream says of itself as of any place, at a frame or within one.
fn count(tail: &Tail, file: &[u8]) {
    let all = tail.counters_at(file, tail.end).unwrap();
    assert_eq!((all.length, all.last), (tail.state.len(), tail.state.last_id));
    for stop in [0, tail.snapshot.0 + tail.snapshot.1, tail.end / 2, tail.end - 1] {
        if let Ok(found) = tail.counters_at(file, stop) {
            assert!(found.length <= all.length);
        }
    }
}

/// Follows a file to where it stops, and asks it everything.
fn follow(file: &[u8], apart: bool) {
    let Ok(mut tail) = Tail::begin(file) else { return };
    look(&tail.state);
    let _ = tail.pending(file);
    if tail.begin_groups(file, 1000, apart).is_err() {
        return;
    }
    let stopped = tail.follow_to_end(file);
    look(&tail.state);
    read(&tail, file);
    count(&tail, file);
    let _ = judge(file, &tail, &stopped);
    let mut again = Tail::begin(file).unwrap();
    if again.begin_groups(file, 1000, apart).is_ok() {
        again.follow(file, tail.end).unwrap();
        assert_eq!((again.lsn, again.link, again.state.len()), (tail.lsn, tail.link, tail.state.len()));
    }
    let _ = again.continues(&tail);
    let _ = again.rebase_to_snapshot(file);
    let _ = again.rebase(file, 1, tail.snapshot.0 + tail.snapshot.1, tail.begun.1);
    let mut walk = Walk::new(SALT, HEADER_BYTES, tail.begun.2, None);
    while let Ok(Some(_)) = walk.next(file) {}
    if let Ok(rolled) = snapshot::decode(&snapshot::encode(&tail.state, None), 10) {
        look(&rolled);
    }
}

pub fn log(data: &[u8]) {
    let mut input = Input(data);
    let apart = input.u8() & 1 == 1;
    let snapshot = input.counted();
    let mut file = written(&mut input, snapshot);
    file.resize(file.len() + 64, 0);
    follow(&file, apart);
    if input.is_empty() {
        return;
    }
    while !input.is_empty() {
        let (at, mask) = (usize::from(input.u16()), input.u8());
        if let Some(byte) = file.get_mut(at) {
            *byte ^= mask;
        }
    }
    follow(&file, apart);
    sign(&mut file, 60);
    follow(&file, apart);
}

/// The copy of a snapshot frame that stands in a sealed segment.
pub fn copy(data: &[u8]) {
    let _ = Tail::from_copy(data, 9);
    let mut bytes = Vec::new();
    snapshot_frame(&mut bytes, data);
    if let Ok(mut tail) = Tail::from_copy(&bytes, 9) {
        look(&tail.state);
        let _ = tail.begin_groups(&[], u64::MAX, true);
        let _ = tail.meta().live();
    }
    // A frame whose own fields are the fuzzer's.
    let mut bytes = data.to_vec();
    if let Some(payload) = bytes.get(64..) {
        let (length, crc) = (payload.len() as u32, diskstream_core::checksum(payload));
        put(&mut bytes, 4, &length.to_le_bytes());
        put(&mut bytes, 56, &crc.to_le_bytes());
        sign(&mut bytes, 60);
        let _ = Tail::from_copy(&bytes, 9);
    }
}

//! Inputs to begin with: what the encoders of the core write.

use std::sync::Arc;

use diskstream_core::audit::{AuditBuilder, AuditKey, HEADER_BYTES};
use diskstream_core::audit_rows::Names;
use diskstream_core::bitmap::Bitmap;
use diskstream_core::block::{Block, BlockBuilder};
use diskstream_core::commits::Part;
use diskstream_core::frame::{self, FrameSpec, Kind};
use diskstream_core::group_ops::Op;
use diskstream_core::header::{Frontier, LogHeader};
use diskstream_core::id::Id;
use diskstream_core::node::{NodePacker, NODE_HEAD_BYTES};
use diskstream_core::ops::{encode_delete, encode_replace, put_trim, Place, SetId};
use diskstream_core::packing::Packed;
use diskstream_core::pending::{encode_rows, Pending};
use diskstream_core::rows;
use diskstream_core::sealed::{Footer, SegmentKey};
use diskstream_core::snapshot;
use diskstream_core::sparse::{self, IndexRow};
use diskstream_core::staged;
use diskstream_core::state::{SegmentMeta, State};

use crate::blocks::{encoded, Plain};

type Seed = (&'static str, Vec<u8>);

fn entries() -> Plain {
    let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    vec![
        (Id::new(5, 1), vec![pair("speed", "30.2"), pair("rider", "Castilla")]),
        (Id::new(5, 2), vec![pair("speed", "-7"), pair("rider", "")]),
        (Id::new(9, 0), vec![pair("on", "true"), pair("at", "2026-11-21T10:11:12.5Z"), pair("on", "no")]),
        (Id::new(9, 7), vec![pair("speed", "1e3"), pair("rider", "x")]),
    ]
}

fn block() -> Block {
    let payload = encoded(&entries()).unwrap_or_default();
    let mut builder = BlockBuilder::default();
    rows::decode(&payload, Id::new(5, 1), 4, 0..4, usize::MAX, &mut builder).unwrap();
    builder.finish()
}

/// A number of 16 bits and those bytes.
fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes(), bytes].concat()
}

fn id(id: Id) -> Vec<u8> {
    [id.ms.to_le_bytes(), id.seq.to_le_bytes()].concat()
}

fn meta() -> SegmentMeta {
    let mut deleted = Bitmap::default();
    for at in [3, 4, 5, 64, 70] {
        deleted.insert(at);
    }
    SegmentMeta {
        number: 3,
        generation: 1,
        entries: 100,
        first: Id::new(1, 0),
        last: Id::new(4, 9),
        min_time_ms: 1,
        max_time_ms: 9,
        size_bytes: 4000,
        trimmed: 2,
        deleted: Arc::new(deleted),
    }
}

fn ops() -> Vec<Op> {
    let row = Pending { id: Id::new(5, 2), consumer: 1, time_ms: 77, deliveries: 3 };
    vec![
        Op::Create { group: 1, name: b"riders".to_vec(), last: Id::MIN, read: Some(0) },
        Op::Consumer { group: 1, consumer: 1, name: b"alice".to_vec() },
        Op::Consumer { group: 1, consumer: 2, name: b"bob".to_vec() },
        Op::Deliver {
            group: 1,
            consumer: 1,
            last: Id::new(9, 0),
            read: Some(3),
            ids: vec![Id::new(5, 1), Id::new(5, 2), Id::new(9, 0)],
        },
        Op::End { group: 1, ids: vec![(Id::new(5, 1), Some(1))] },
        Op::Assign {
            group: 1,
            consumer: 2,
            active: true,
            rows: vec![Pending { consumer: 2, ..row }],
            owners: vec![Some(1)],
        },
        Op::Refuse { group: 1, first: 1, rows: vec![(Id::new(9, 0), Some(1), 2)] },
        Op::Seen { group: 1, consumer: 2 },
        Op::Dismiss { group: 1, consumer: 1 },
        Op::Position { group: 1, last: Id::new(9, 0), read: None },
        Op::Message { producer: b"p".to_vec(), message: b"m".to_vec(), id: Id::new(9, 7), time_ms: 5 },
        Op::Windows { duration_s: 10, messages: 5 },
        Op::Commit { writer: b"w".to_vec(), version: 7, part: 1, time_ms: 6 },
        Op::Setting { name: b"retention".to_vec(), value: b"{}".to_vec() },
        Op::Delete { payload: encode_delete(Id::new(5, 2), &[Place { segment: 9, position: 1 }]) },
        Op::Trim { place: Place { segment: 9, position: 1 } },
    ]
}

fn put_ops(ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    ops.iter().for_each(|op| op.put(&mut out));
    out
}

/// A state with something in every section of its snapshot.
fn state() -> State {
    let mut state = State::empty(9);
    state.push_sealed(meta(), 9).unwrap();
    (state.last_id, state.max_deleted, state.entries_added) = (Id::new(4, 9), Id::new(2, 0), 200);
    state.trimmed_to = Id::new(0, 7);
    for op in &ops()[..12] {
        state.groups.apply(op, 50).unwrap();
    }
    state.commits.note(&Part { writer: b"w", version: 1, part: 2 }, 9);
    state.settings.set(b"retention", b"{}").unwrap();
    state
}

fn states() -> Vec<Seed> {
    let (mut bitmap, mut runs, mut one) = (Vec::new(), Vec::new(), Vec::new());
    meta().deleted.encode(&mut runs);
    bitmap.extend([100u64.to_le_bytes().as_slice(), &[0], &runs].concat());
    meta().put(&mut one);
    let (mut words, mut set) = (Vec::new(), Bitmap::default());
    for at in (0..200).step_by(2) {
        set.insert(at);
    }
    set.encode(&mut words);
    let (mut commits, mut settings, mut groups, mut windows, mut trim) = Default::default();
    state().commits.put(&mut commits);
    state().settings.put(&mut settings);
    state().groups.put(&mut groups);
    state().groups.windows.put(&mut windows);
    put_trim(&mut trim, Place { segment: 300, position: 70_000 });
    let places = [(3, 1), (3, 2), (3, 9), (9, 0)].map(|(segment, position)| Place { segment, position });
    let whole = snapshot::encode(&state(), None);
    vec![
        ("bitmap", bitmap),
        ("bitmap", [200u64.to_le_bytes().as_slice(), &[0], &words].concat()),
        ("meta", one),
        ("commits", commits),
        ("settings", settings),
        ("groups", [counted(&groups), put_ops(&ops()[4..9])].concat()),
        ("windows", windows),
        ("trim", trim),
        ("delete", encode_delete(Id::new(9, 9), &places)),
        ("set_id", SetId { last: Id::new(7, 7), entries_added: 9, max_deleted: Id::new(1, 1) }.encode()),
        ("replace", encode_replace(&[1, 2, 3], &meta())),
        ("snapshot", [&[9], whole.as_slice()].concat()),
        ("snapshot", [&[1], snapshot::encode(&State::empty(0), None).as_slice()].concat()),
        ("tail_copy", whole),
    ]
}

/// The script of a log with a frame of each kind; see `logs.rs`.
fn logs() -> Vec<Seed> {
    let mut state = state();
    state.active.number = 0;
    let one = |kind: u8, flags: u8, rows: u16, first: Id, payload: &[u8]| {
        [&[kind, flags], rows.to_le_bytes().as_slice(), &id(first), &counted(payload)].concat()
    };
    let rows = encoded(&entries()).unwrap_or_default();
    let (mut trim, none) = (Vec::new(), Id::MIN);
    put_trim(&mut trim, Place { segment: 9, position: 1 });
    let delete = encode_delete(Id::new(5, 2), &[Place { segment: 3, position: 8 }, Place { segment: 9, position: 1 }]);
    let set = SetId { last: Id::new(20, 7), entries_added: 900, max_deleted: Id::new(5, 2) }.encode();
    let message = put_ops(&ops()[10..11]);
    let with_records = [rows.as_slice(), &message, &(message.len() as u32).to_le_bytes()].concat();
    let frames = [
        one(1, 0, 4, Id::new(5, 1), &rows),
        one(2, 0, 0, none, &put_ops(&ops()[4..8])),
        one(1, 1, 4, Id::new(10, 1), &with_records),
        one(3, 0, 0, none, &delete),
        one(4, 0, 0, none, &trim),
        one(5, 0, 0, none, &set),
        one(6, 0, 0, none, &encode_replace(&[3], &SegmentMeta { number: 4, ..meta() })),
        one(7, 0, 0, none, b""),
        one(8, 0, 0, none, &[4]),
    ];
    let empty = snapshot::encode(&State::empty(0), None);
    let whole = snapshot::encode(&state, None);
    let first = one(1, 0, 4, Id::new(5, 1), &rows);
    vec![
        ("log", [&[1], counted(&whole).as_slice(), &[0], &frames.concat(), &[0]].concat()),
        ("log", [&[0], counted(&empty).as_slice(), &[9], &first, &[0], &[0x20, 0x10, 1]].concat()),
        ("log", [&[1], counted(&empty).as_slice(), &[0], &first, &one(2, 0, 0, none, &put_ops(&ops())), &[0]].concat()),
    ]
}

fn files() -> Vec<Seed> {
    let frontier = Frontier { sequence: 2, frontier_ms: 500, floor_ms: 3, synced_lsn: 9 };
    let mut header = LogHeader { salt: 7, uuid: [3; 16], segment: 12, created_ms: 99 }.encode(frontier);
    header.truncate(1100);
    let spec = FrameSpec {
        salt: 7,
        kind: Kind::Entries,
        flags: 1,
        entries: 4,
        lsn: 4,
        synced_lsn: 3,
        time_ms: 9,
        first: Id::new(5, 1),
        previous_crc: 8,
    };
    let mut one = Vec::new();
    frame::encode(&mut one, &spec, &[&b"rows"[..], &0u32.to_le_bytes()].concat());
    let key = SegmentKey { uuid: [1; 16], segment: 4, generation: 2, salt: 77 };
    let mut index = Vec::new();
    for (number, first) in [Id::new(1, 1), Id::new(6, 0)].into_iter().enumerate() {
        IndexRow { first, offset: 64, before: number as u64 * 20, length: 40, entries: 20 }.put(&mut index);
    }
    let sealed = |page_rows: u32| {
        let pages = if page_rows > 0 { sparse::page_rows(&index, page_rows as usize).unwrap() } else { Vec::new() };
        let footer = Footer {
            key,
            nodes: 2,
            entries: 40,
            first: Id::new(1, 1),
            last: Id::new(9, 9),
            min_time_ms: 1,
            max_time_ms: 2,
            index_offset: 64 + pages.len() as u64,
            index_crc: diskstream_core::checksum(&index),
            snapshot_crc: 0,
            snapshot_offset: 0,
            snapshot_length: 0,
            file_length: (64 + pages.len() + index.len() + 192) as u64,
            raw_bytes: 900,
            page_rows,
            pages_crc: diskstream_core::checksum(&pages),
        };
        [key.encode_header(), pages, index.clone(), footer.encode()].concat()
    };
    vec![
        ("log_header", header),
        ("frame", one),
        ("sealed", sealed(0)),
        ("sealed", sealed(1)),
        ("wire", [&3u16.to_le_bytes()[..], &[2, 1, 0, 0, 1, 7, 7]].concat()),
        ("wire", [&3u16.to_le_bytes()[..], &[0, 0xff, 0xff, 3]].concat()),
    ]
}

fn blocks() -> Vec<Seed> {
    let payload = encoded(&entries()).unwrap_or_default();
    let start = [id(Id::new(5, 1)), 4u16.to_le_bytes().to_vec(), payload.clone()].concat();
    let node = |level: i32| {
        let mut out = Vec::new();
        let mut source = BlockBuilder::default();
        let numbers = if level == 0 { 1 } else { 50 };
        for number in 0..numbers {
            for row in 0..4 {
                source.push_row(&block(), row).unwrap();
            }
            let _ = number;
        }
        let mut many = source.finish();
        many.ids = (1..=many.ids.len() as u64).map(|ms| Id::new(ms, 3)).collect();
        NodePacker::new(level).encode(&mut out, &many, 7, 3).unwrap();
        [&out[8..10], &out[20..21], &out[12..16], &out[NODE_HEAD_BYTES..]].concat()
    };
    let pending: Vec<Pending> = (0..5)
        .map(|at| Pending { id: Id::new(at, 1), consumer: at as u32 % 2, time_ms: 9 - at, deliveries: 1 })
        .collect();
    let mut chunk = Vec::new();
    encode_rows(&mut chunk, pending.iter());
    vec![
        ("rows", [&[1, 40, 0], start.as_slice()].concat()),
        ("columns", [&[1, 1, 3], start.as_slice()].concat()),
        ("columns", [&[7, 0, 9], start.as_slice()].concat()),
        ("node", node(0)),
        ("node", node(3)),
        ("pending", chunk),
        ("pending", vec![7; 24]),
        ("records", put_ops(&ops())),
        ("runs", [&[0, 9, 4], counted(&payload).as_slice(), &[4], payload.as_slice()].concat()),
        ("packing", packing()),
        ("stagings", staged_rows()),
        ("digests", digests()),
    ]
}

fn staged_rows() -> Vec<u8> {
    staged::encode(&Packed { payload: b"rows".to_vec(), rows: 2, ids: Some((Id::new(1, 2), Id::new(3, 4))) })
}

fn packing() -> Vec<u8> {
    let column = |flags: u8, offsets: &[u32], data: &[u8]| {
        let offsets: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let validity = if flags & 2 > 0 { counted(&[3]) } else { Vec::new() };
        [vec![flags, 0, 0], counted(&offsets), counted(data), validity].concat()
    };
    let bounds: Vec<u8> = [0u32, 1, 2].iter().flat_map(|bound| bound.to_le_bytes()).collect();
    let columns = [column(0, &[0, 1, 3], b"abc"), column(2, &[0, 2, 2], b"xy"), column(0, &[0, 3, 6], b"5-16-0")];
    [&[2, 2, 0, 2], columns.concat().as_slice(), &bounds].concat()
}

fn digests() -> Vec<u8> {
    let ints = |numbers: &[i32]| counted(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>());
    let words = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    [
        vec![1, 2],
        counted(&words(&[5, u64::MAX])),
        ints(&[0, 1, 3]),
        ints(&[0, 1, 3, 3]),
        ints(&[0, 2, 4, 14]),
        counted(b"abc"),
        counted(b"19.8 more of it"),
        counted(&[0b1000]),
        words(&[1, 2, 3, 4]),
    ]
    .concat()
}

fn audits() -> Vec<Seed> {
    let key = AuditKey { uuid: [4; 16], segment: 3, salt: 77 };
    let mut names = Names::default();
    ops().iter().for_each(|op| names.learn(op));
    let mut files = Vec::new();
    for level in [0, 3] {
        let mut file = Vec::new();
        let mut builder = AuditBuilder::new(key, level, &mut file);
        for (lsn, range) in [(2, 0..4), (5, 4..8), (6, 8..16)] {
            let part = &ops()[range];
            builder.push((lsn, 100 - lsn), (part, &put_ops(part)), &names, &mut file).unwrap();
        }
        builder.finish(&mut file).unwrap();
        files.push(("audit", file[HEADER_BYTES..].to_vec()));
        files.push(("audit", file));
    }
    let mut out = Vec::new();
    names.put(&mut out);
    files.push(("audit_names", out));
    files
}

fn texts() -> Vec<Seed> {
    let pieces = |head: &[u8], text: &str| [head, &[3, 50, 1, 7], text.as_bytes()].concat();
    let mut seeds: Vec<Seed> = [
        "1692632086370-12",
        "-9223372036854775808",
        "-1.005",
        "5e-3",
        "1970-01-01T02:00:00.0000019+02:00",
        "2024-02-29 01:02:03,5Z",
        "yes",
        "inf",
    ]
    .map(|text| ("texts", text.as_bytes().to_vec()))
    .to_vec();
    let reply = "*2\r\n*2\r\n$3\r\n5-1\r\n*4\r\n$1\r\na\r\n$2\r\nxy\r\n$1\r\nb\r\n$0\r\n\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n";
    seeds.extend([
        ("inline", b"SET  \"a\\x41\\n\" 'it\\'s' plain".to_vec()),
        (
            "requests",
            pieces(&[1, 20], "*4\r\n$4\r\nXADD\r\n$1\r\nk\r\n$1\r\n*\r\n$0\r\n\r\nPING\r\n*0\r\n*1\r\n$4\r\nPING\r\n"),
        ),
        (
            "requests",
            pieces(&[1, 20], "*5\r\n$4\r\nxadd\r\n$1\r\nk\r\n$1\r\n*\r\n$1\r\na\r\n$2\r\nxy\r\nxadd k * b \"1 2\"\r\n"),
        ),
        (
            "requests",
            pieces(&[1, 20], "xlen k\nXLEN k\nXRANGE k - + COUNT 9\nXRANGE k 5 6-7 COUNT 1\nXACK k g 1-1 2\n"),
        ),
        (
            "requests",
            pieces(&[1, 20], "XREADGROUP GROUP g c COUNT 9 BLOCK 5 STREAMS k >\nXACK k g 3\nXACK k g 4-1 5-0\n"),
        ),
        ("requests", pieces(&[0, 9], "AUTH x\r\n*11\r\n$1\r\na\r\n")),
        ("requests", pieces(&[1, 4], "*1\r\n$17\r\n")),
        ("replies", pieces(&[40, 0], reply)),
        ("replies", pieces(&[0, 9], &format!("{reply}*-1\r\n_\r\n"))),
        ("replies", pieces(&[0, 9], "-LOADING wait\r\n")),
    ]);
    seeds
}

/// All of them, with their targets' names.
pub fn all() -> Vec<Seed> {
    [states(), logs(), files(), blocks(), audits(), texts()].concat()
}

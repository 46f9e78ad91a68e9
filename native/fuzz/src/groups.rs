//! Consumer groups: records of a log, sections of a snapshot, chunks of a view.

use diskstream_core::audit_rows::{rows_of, Names};
use diskstream_core::commits::Part;
use diskstream_core::group_ops::{put_commit, put_deliver, read_ops, Op};
use diskstream_core::groups::Groups;
use diskstream_core::id::Id;
use diskstream_core::idempotence::Windows;
use diskstream_core::pending::{
    decode_chunk, encode_chunks, encode_rows, key_bytes, merge, parse_key, read_rows, ORDERS,
};
use diskstream_core::wire::Reader;

use crate::input::Input;
use crate::states::comes_back;

pub fn records(data: &[u8]) {
    let Ok(ops) = read_ops(data) else { return };
    let mut out = Vec::new();
    ops.iter().for_each(|op| op.put(&mut out));
    let back = read_ops(&out).unwrap();
    // An ID of a list may be written in more than one way; what it says comes back.
    assert_eq!(back, ops);
    let (mut all, mut taken) = (Names::default(), Names::default());
    ops.iter().for_each(|op| all.learn(op));
    let _ = rows_of(&ops, |row| taken.take(&all, &row));
    for op in &ops {
        let mut one = Vec::new();
        op.put(&mut one);
        let mut borrowed = Vec::new();
        match op {
            Op::Commit { writer, version, part, time_ms } => {
                put_commit(&mut borrowed, &Part { writer, version: *version, part: *part }, *time_ms);
            }
            Op::Deliver { group, consumer, last, read, ids } => {
                put_deliver(&mut borrowed, (*group, *consumer), *last, *read, ids);
            }
            _ => borrowed.clone_from(&one),
        }
        assert_eq!(one, borrowed);
    }
}

pub fn groups(data: &[u8]) {
    let mut input = Input(data);
    let size = usize::from(input.u16());
    let section = input.bytes(size);
    let Some(mut groups) = comes_back(section, Groups::read, Groups::put) else { return };
    let _ = (groups.pending(), groups.overlay_rows(), groups.is_empty());
    let mut names = Names::of(&groups);
    let Ok(ops) = read_ops(input.0) else { return };
    for op in &ops {
        names.learn(op);
        if groups.apply(op, 5).is_ok() {
            groups.replay(op, 5);
        }
    }
    let mut out = Vec::new();
    groups.put(&mut out);
    for group in groups.by_number.values_mut() {
        let rows = Groups::whole_rows(group);
        assert_eq!(rows.len() as u64, group.overlay.live());
        for order in ORDERS {
            let sorted: Vec<_> = group.overlay.range(order, (0, 0, 0), None).map(|row| row.key(order)).collect();
            assert!(sorted.is_sorted());
        }
        group.recount();
    }
    groups.viewed(9, 9);
}

pub fn windows(data: &[u8]) {
    let Some(mut windows) = comes_back(data, Windows::read, Windows::put) else { return };
    let _ = (windows.tracked(0), windows.tracked(u64::MAX), windows.is_default());
    windows.note(b"p", data.to_vec(), Id::MAX, u64::MAX);
    assert_eq!(windows.find(b"p", data, 0).is_some(), windows.messages > 0);
    windows.configure(windows.duration_s ^ 1, 1);
    assert_eq!(windows.tracked(0), (0, 0));
}

pub fn pending(data: &[u8]) {
    if let Some(key) = parse_key(data) {
        assert_eq!(key_bytes(key), data);
    }
    let Ok(rows) = read_rows(&mut Reader::new(data, "rows")) else { return };
    let mut out = Vec::new();
    encode_rows(&mut out, rows.iter());
    assert_eq!(read_rows(&mut Reader::new(&out, "rows")).as_ref(), Ok(&rows));
    for order in ORDERS {
        let _ = decode_chunk(data, order);
        let mut sorted = rows.clone();
        sorted.sort_by_key(|row| row.key(order));
        sorted.dedup_by_key(|row| row.key(order));
        let chunks = encode_chunks(&sorted, order);
        let back: Vec<_> = chunks.iter().flat_map(|(_, chunk)| decode_chunk(chunk, order).unwrap()).collect();
        assert_eq!(back, sorted);
        let (some, rest) = sorted.split_at(sorted.len() / 2);
        assert_eq!(merge(some.to_vec(), &[], rest, order), sorted);
    }
}

//! What the state says after frames, held against a plain list of entries.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::snapshot;

fn header(kind: Kind, first: u64, entries: u32) -> FrameHeader {
    FrameHeader {
        salt: 0,
        length: 0,
        kind,
        flags: 0,
        entries,
        lsn: 1,
        synced_lsn: 0,
        previous_crc: 0,
        time_ms: 9,
        first: Id::new(first, 0),
        payload_crc: 0,
        header_crc: 0,
    }
}

fn add(state: &mut State, first: u64, entries: u64) {
    let last = Id::new(first + entries - 1, 0);
    state.apply(&header(Kind::Entries, first, entries as u32), b"", last).unwrap();
}

fn delete(state: &mut State, segment: u64, positions: impl Iterator<Item = u64>) {
    let places: Vec<Place> = positions.map(|position| Place { segment, position }).collect();
    let payload = ops::encode_delete(Id::new(1, 0), &places);
    state.apply(&header(Kind::Delete, 0, 0), &payload, Id::MIN).unwrap();
}

fn trim(state: &mut State, place: Place) {
    let mut payload = Vec::new();
    ops::put_trim(&mut payload, place);
    state.apply(&header(Kind::Trim, 0, 0), &payload, Id::MIN).unwrap();
}

/// As a stream does it: what the next segment begins with is all that is known of those before.
fn roll(state: &mut State, next: u64) {
    *state = snapshot::decode(&snapshot::encode(state, None), next).unwrap();
}

fn three_segments() -> State {
    let mut state = State { active: SegmentMeta { number: 1, ..Default::default() }, ..Default::default() };
    add(&mut state, 1, 250);
    roll(&mut state, 2);
    add(&mut state, 1000, 250);
    roll(&mut state, 3);
    add(&mut state, 2000, 250);
    state
}

#[test]
fn an_exact_trim_is_found_by_counts_across_segments_and_deletes() {
    let mut state = three_segments();
    delete(&mut state, 2, 0..10);
    assert_eq!(state.len(), 740);
    let (place, gone) = state.plan_trim(400, false, 0).unwrap();
    assert_eq!((place, gone), (Place { segment: 2, position: 100 }, 340));
    trim(&mut state, place);
    assert_eq!(state.len(), 400);
    assert_eq!(state.dropped, vec![(1, 0)]);
    assert_eq!(state.plan_trim(400, false, 0), None);
}

#[test]
fn an_approximate_trim_removes_whole_runs_within_its_limit() {
    let state = three_segments();
    assert_eq!(state.plan_trim(740, true, 0), None);
    assert_eq!(state.plan_trim(599, true, 0), Some((Place { segment: 1, position: 100 }, 100)));
    assert_eq!(state.plan_trim(0, true, 99), None);
    assert_eq!(state.plan_trim(0, true, 120), Some((Place { segment: 1, position: 100 }, 100)));
    assert_eq!(state.plan_trim(0, true, 0).unwrap().1, 750);
}

#[test]
fn an_approximate_trim_takes_the_open_run_also_where_its_end_was_deleted() {
    for deleted in [249..250, 240..250, 0..1, 100..101] {
        let mut state = three_segments();
        let count = deleted.end - deleted.start;
        delete(&mut state, 3, deleted);
        assert_eq!(state.plan_trim(0, true, 0), Some((Place { segment: 3, position: 250 }, 750 - count)));
        assert_eq!(state.plan_trim(1, true, 0).unwrap().0, Place { segment: 3, position: 200 });
        let (place, _) = state.plan_trim(0, true, 0).unwrap();
        trim(&mut state, place);
        assert_eq!((state.len(), state.plan_trim(0, true, 0)), (0, None));
    }
}

#[test]
fn an_approximate_trim_takes_a_run_as_soon_as_all_that_is_live_in_it_may_go() {
    for (deleted, live) in [(150..200, 150), (199..215, 199), (190..205, 190), (200..210, 200)] {
        let mut state = three_segments();
        delete(&mut state, 1, deleted);
        let keep = state.len() - live;
        assert_eq!(state.plan_trim(keep, true, 0), Some((Place { segment: 1, position: 200 }, live)));
        assert_eq!(state.plan_trim(keep + 1, true, 0), Some((Place { segment: 1, position: 100 }, 100)));
    }
}

#[test]
fn a_segment_whose_entries_are_all_deleted_leaves_the_list() {
    let mut state = three_segments();
    delete(&mut state, 1, 0..250);
    assert_eq!(state.dropped, vec![(1, 0)]);
    assert_eq!(state.len(), 500);
    delete(&mut state, 3, 0..250);
    assert_eq!((state.len(), state.active.live()), (250, 0));
}

#[test]
fn what_was_dropped_in_frames_that_were_not_seen_is_found_by_what_is_listed_no_more() {
    let before = three_segments();
    let mut state = three_segments();
    trim(&mut state, Place { segment: 2, position: 9 });
    for (first, next) in [(4000, 4), (5000, 5), (6000, 6)] {
        roll(&mut state, next);
        add(&mut state, first, 10);
    }
    delete(&mut state, 4, 0..10);
    state.dropped.clear(); // as a snapshot has none
    state.note_missed(&before);
    assert_eq!(state.dropped, vec![(1, 0), (4, 0)]);
    state.dropped.clear();
    state.sealed[0].generation = 1; // compacted: the file of before is no more
    state.note_missed(&before);
    assert_eq!(state.dropped, vec![(1, 0), (2, 0), (4, 0)]);
    let mut far = State { active: SegmentMeta { number: u64::MAX, ..Default::default() }, ..Default::default() };
    far.note_missed(&before);
    assert_eq!(far.dropped.len(), 2 + MISSED);
}

#[test]
fn a_snapshot_brings_the_state_back() {
    let mut state = three_segments();
    delete(&mut state, 2, (0..250).step_by(3));
    trim(&mut state, Place { segment: 1, position: 17 });
    let payload = snapshot::encode(&state, None);
    let back = snapshot::decode(&payload, 4).unwrap();
    assert_eq!(back.sealed, [&state.sealed[..], &[state.active.clone()]].concat());
    assert_eq!((back.active.number, back.active.live()), (4, 0));
    assert_eq!((back.len(), back.last_id, back.entries_added), (state.len(), state.last_id, 750));
    for cut in 0..payload.len() {
        assert!(snapshot::decode(&payload[..cut], 4).is_err(), "cut at {cut}");
    }
}

#[test]
fn how_far_trims_went_is_known_beyond_a_roll_that_lists_nothing_of_what_they_took() {
    let mut state = three_segments();
    trim(&mut state, Place { segment: 3, position: 250 });
    roll(&mut state, 4);
    assert_eq!((state.len(), state.sealed.len(), state.trimmed_to), (0, 0, Id::new(2249, 0)));
    let mut deleted = three_segments();
    delete(&mut deleted, 3, 0..250);
    roll(&mut deleted, 4);
    assert_eq!((deleted.len(), deleted.sealed.len(), deleted.trimmed_to), (500, 2, Id::MIN));
}

#[test]
fn deletes_that_came_during_a_compaction_are_found_in_its_output() {
    let mut state = three_segments();
    delete(&mut state, 1, 0..5);
    let then: Vec<SegmentMeta> = state.sealed.clone();
    delete(&mut state, 1, 6..7);
    delete(&mut state, 2, 3..4);
    let now: Vec<Option<SegmentMeta>> = then.iter().map(|meta| state.segment(meta.number).cloned()).collect();
    let deleted = remap_deleted(&then, &now);
    assert_eq!(deleted.iter().collect::<Vec<_>>(), vec![1, 245 + 3]);
}

#[test]
fn a_segments_times_are_the_least_and_the_greatest_of_its_frames_whatever_the_clock_does() {
    let mut state = State { active: SegmentMeta { number: 1, ..Default::default() }, ..Default::default() };
    for (first, time_ms) in [(1, 500), (2, 300), (3, 900), (4, 400)] {
        let frame = FrameHeader { time_ms, ..header(Kind::Entries, first, 1) };
        state.apply(&frame, b"", Id::new(first, 0)).unwrap();
    }
    assert_eq!((state.active.min_time_ms, state.active.max_time_ms), (300, 900));
}

#[test]
fn entries_out_of_order_are_a_fault() {
    let mut state = three_segments();
    assert!(state.apply(&header(Kind::Entries, 5, 1), b"", Id::new(5, 0)).is_err());
}

fn set(state: &mut State, name: &[u8], value: &[u8]) -> Result<()> {
    let mut payload = Vec::new();
    Op::Setting { name: name.to_vec(), value: value.to_vec() }.put(&mut payload);
    state.apply(&header(Kind::Groups, 0, 0), &payload, Id::MIN)
}

#[test]
fn settings_go_into_the_next_snapshot_and_what_is_over_a_limit_is_a_fault() {
    let mut state = three_segments();
    assert!(snapshot::decode(&snapshot::encode(&state, None), 4).unwrap().settings.is_empty());
    set(&mut state, b"a", b"1").unwrap();
    set(&mut state, b"b", b"2").unwrap();
    set(&mut state, b"a", b"").unwrap();
    let again = snapshot::decode(&snapshot::encode(&state, None), 4).unwrap();
    assert_eq!(again.settings, state.settings);
    assert_eq!(again.settings.get(b"b"), Some(b"2".as_slice()));
    assert!(set(&mut state, &[0; 256], b"1").is_err());
    assert!(set(&mut state, b"a", &[0; 4097]).is_err());
}

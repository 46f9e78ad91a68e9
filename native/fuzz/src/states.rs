//! What a snapshot is made of, and the frames that change a stream's state.

use diskstream_core::bitmap::Bitmap;
use diskstream_core::commits::Commits;
use diskstream_core::ops::{self, Place, SetId};
use diskstream_core::settings::Settings;
use diskstream_core::snapshot;
use diskstream_core::state::{SegmentMeta, State};
use diskstream_core::wire::Reader;

use crate::input::Input;

/// What was read must be read again from what it writes, and then write the same.
pub fn comes_back<T>(
    data: &[u8],
    read: impl Fn(&mut Reader<'_>) -> diskstream_core::error::Result<T>,
    put: impl Fn(&T, &mut Vec<u8>),
) -> Option<T> {
    let found = read(&mut Reader::new(data, "input")).ok()?;
    let mut first = Vec::new();
    put(&found, &mut first);
    let mut reader = Reader::new(&first, "written");
    let back = read(&mut reader).unwrap();
    reader.end().unwrap();
    let mut second = Vec::new();
    put(&back, &mut second);
    assert_eq!(first, second);
    Some(back)
}

pub fn bitmap(data: &[u8]) {
    let mut input = Input(data);
    // Up to 2^24, for speed: with more, `meta` has bitmaps of half a gibibyte, which is their limit.
    let entries = (input.u64() >> (input.u8() % 64)) % (1 << 24);
    let Some(set) = comes_back(input.0, |reader| Bitmap::decode(reader, entries), Bitmap::encode) else { return };
    assert_eq!(set.count_range(0, entries), set.count());
    let (from, wanted) = (u64::from(input.u16()), u64::from(input.u8()));
    let to = from.saturating_add(wanted).min(entries);
    if entries > 4096 {
        let _ = (set.skip_absent(from, to, wanted), set.count_range(from, to));
        return;
    }
    let positions: Vec<u64> = set.iter().collect();
    assert!(positions.is_sorted() && positions.iter().all(|at| *at < entries && set.contains(*at)));
    assert_eq!(positions.len() as u64, set.count());
    let inside = positions.iter().filter(|at| (from..to).contains(at)).count() as u64;
    assert_eq!(set.count_range(from, to), inside);
    let place = set.skip_absent(from, entries, wanted);
    if from <= entries {
        assert!((place - from) - set.count_range(from, place) <= wanted);
    }
}

pub fn meta(data: &[u8]) {
    let Some(meta) = comes_back(data, SegmentMeta::read, SegmentMeta::put) else { return };
    assert!(meta.live() <= meta.entries);
    assert!(!meta.is_live(meta.entries));
}

pub fn commits(data: &[u8]) {
    comes_back(data, Commits::read, Commits::put);
}

pub fn settings(data: &[u8]) {
    comes_back(data, Settings::read, Settings::put);
}

pub fn trim(data: &[u8]) {
    comes_back(data, ops::read_trim, |place, out| ops::put_trim(out, *place));
}

pub fn delete(data: &[u8]) {
    let read = |payload: &[u8]| {
        let mut runs = Vec::new();
        let greatest = ops::read_delete(payload, |segment, start, stop| {
            assert!(start <= stop);
            runs.push((segment, start, stop));
            Ok(())
        });
        greatest.ok().map(|greatest| (greatest, runs))
    };
    let Some((greatest, runs)) = read(data) else { return };
    if runs.iter().map(|(_, start, stop)| stop - start).try_fold(0u64, u64::checked_add).is_none_or(|sum| sum > 4096) {
        return; // the encoder takes each place by itself
    }
    let in_order = runs.is_sorted_by(|a, b| a.0 != b.0 || a.2 <= b.1);
    let places: Vec<Place> = runs
        .iter()
        .flat_map(|(segment, start, stop)| (*start..*stop).map(|position| Place { segment: *segment, position }))
        .collect();
    let rising =
        places.windows(2).all(|pair| pair[0].segment != pair[1].segment || pair[0].position < pair[1].position);
    if in_order && rising && places.iter().all(|place| place.position < u64::MAX) {
        let (again, back) = read(&ops::encode_delete(greatest, &places)).unwrap();
        let flat: Vec<Place> = back
            .iter()
            .flat_map(|(segment, start, stop)| (*start..*stop).map(|position| Place { segment: *segment, position }))
            .collect();
        assert_eq!((again, flat), (greatest, places));
    }
}

pub fn set_id(data: &[u8]) {
    if let Ok(set) = SetId::parse(data) {
        assert_eq!(set.encode(), data);
    }
}

pub fn replace(data: &[u8]) {
    if let Ok((inputs, output)) = ops::read_replace(data) {
        let payload = ops::encode_replace(&inputs, &output);
        assert_eq!(ops::read_replace(&payload), Ok((inputs, output)));
    }
}

/// Whatever may be asked of a state.
pub fn look(state: &State) {
    let total = state.len();
    assert_eq!(state.is_empty(), total == 0);
    for (keep, approximate, limit) in [(0, false, 0), (total / 2, true, 0), (3, true, 100), (u64::MAX, false, 1)] {
        if let Some((place, gone)) = state.plan_trim(keep, approximate, limit) {
            assert!(gone <= total.saturating_sub(keep));
            assert!(state.live_before(place) <= total);
        }
    }
    for group in state.groups.by_number.values() {
        let _ = state.lag(group, state.last_id);
        let _ = state.estimate(group.last, state.last_id);
        let _ = state.read_after(group.last, group.read, &[state.last_id], group.greatest);
    }
    let _ = (state.groups.pending(), state.groups.overlay_rows());
}

pub fn snapshot(data: &[u8]) {
    let mut input = Input(data);
    let number = u64::from(input.u8());
    let Ok(state) = snapshot::decode(input.0, number) else { return };
    look(&state);
    let section = input.0.get(state.pending.clone()).unwrap();
    let chunks = snapshot::pending_chunks(section);
    let chunks = chunks.as_deref().unwrap_or(&[]);
    let first = snapshot::encode(&state, Some(chunks));
    let back = snapshot::decode(&first, number).unwrap();
    assert_eq!(back.len(), state.len());
    if !state.groups.is_empty() {
        assert_eq!(snapshot::pending_chunks(first.get(back.pending.clone()).unwrap()).as_deref(), Ok(chunks));
    }
    assert_eq!(snapshot::encode(&back, Some(chunks)), first);
}

#[cfg(test)]
mod tests {
    use super::comes_back;

    #[test]
    #[should_panic(expected = "assertion")]
    fn a_writer_that_loses_something_is_caught() {
        comes_back(&[8], |reader| reader.u8(), |byte, out| out.push(byte / 2));
    }

    #[test]
    #[should_panic(expected = "unwrap")]
    fn a_writer_whose_reader_refuses_it_is_caught() {
        comes_back(&[1], |reader| reader.u8(), |_, _| ());
    }
}

//! Payloads of the frames that are not entries.
//!
//! ```text
//! trim    := varint(segment) varint(position)               entries before that place are gone
//! delete  := greatest deleted ID (16) varint(segments) (varint(segment) varint(runs) (varint(gap) varint(run - 1))*)*
//! set-id  := last ID (16) entries added u64 greatest deleted ID (16)
//! replace := varint(inputs) varint(segment number)* meta    compaction: inputs become the one segment of meta
//! mark    := nothing                                        carries the synced LSN of a clean close
//! ```

use crate::error::Result;
use crate::id::Id;
use crate::state::SegmentMeta;
use crate::wire::{put_id, put_u64, put_varint, Reader};

/// A place in a stream: a position in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub segment: u64,
    pub position: u64,
}

pub fn put_trim(out: &mut Vec<u8>, place: Place) {
    put_varint(out, place.segment);
    put_varint(out, place.position);
}

pub fn read_trim(reader: &mut Reader<'_>) -> Result<Place> {
    let place = Place { segment: reader.varint()?, position: reader.varint()? };
    reader.end()?;
    Ok(place)
}

/// The payload that deletes `places`, which must be in order.
pub fn encode_delete(greatest: Id, places: &[Place]) -> Vec<u8> {
    let mut out = Vec::new();
    put_id(&mut out, greatest);
    let groups: Vec<&[Place]> = places.chunk_by(|a, b| a.segment == b.segment).collect();
    put_varint(&mut out, groups.len() as u64);
    for group in groups {
        let runs: Vec<&[Place]> = group.chunk_by(|a, b| a.position + 1 == b.position).collect();
        put_varint(&mut out, group.first().map_or(0, |place| place.segment));
        put_varint(&mut out, runs.len() as u64);
        let mut end = 0;
        for run in runs {
            let start = run.first().map_or(0, |place| place.position);
            put_varint(&mut out, start - end);
            put_varint(&mut out, run.len() as u64 - 1);
            end = start + run.len() as u64;
        }
    }
    out
}

/// The greatest deleted ID; each deleted run is given to `each` as `(segment, start, stop)`.
pub fn read_delete(payload: &[u8], mut each: impl FnMut(u64, u64, u64) -> Result<()>) -> Result<Id> {
    let mut reader = Reader::new(payload, "delete frame");
    let greatest = reader.id()?;
    let groups = reader.count(payload.len(), "a number of segments")?;
    for _ in 0..groups {
        let segment = reader.varint()?;
        let runs = reader.count(payload.len(), "a number of runs")?;
        let mut end = 0u64;
        for _ in 0..runs {
            let start = end.saturating_add(reader.varint()?);
            end = start.saturating_add(reader.varint()?).saturating_add(1);
            each(segment, start, end)?;
        }
    }
    reader.end()?;
    Ok(greatest)
}

/// What XSETID sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetId {
    pub last: Id,
    pub entries_added: u64,
    pub max_deleted: Id,
}

impl SetId {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        put_id(&mut out, self.last);
        put_u64(&mut out, self.entries_added);
        put_id(&mut out, self.max_deleted);
        out
    }

    pub fn parse(payload: &[u8]) -> Result<SetId> {
        let mut reader = Reader::new(payload, "set-id frame");
        let set = SetId { last: reader.id()?, entries_added: reader.u64()?, max_deleted: reader.id()? };
        reader.end()?;
        Ok(set)
    }
}

pub fn encode_replace(inputs: &[u64], output: &SegmentMeta) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, inputs.len() as u64);
    inputs.iter().for_each(|number| put_varint(&mut out, *number));
    output.put(&mut out);
    out
}

pub fn read_replace(payload: &[u8]) -> Result<(Vec<u64>, SegmentMeta)> {
    let mut reader = Reader::new(payload, "replace frame");
    let count = reader.count(payload.len(), "a number of segments")?;
    let inputs = (0..count).map(|_| reader.varint()).collect::<Result<Vec<u64>>>()?;
    let output = SegmentMeta::read(&mut reader)?;
    reader.end()?;
    Ok((inputs, output))
}

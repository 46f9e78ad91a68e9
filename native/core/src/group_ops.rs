//! The payload of a group frame: what one operation changed, as records that need nothing else to be applied.
//!
//! ```text
//! payload := record*          record := tag u8, body         optional := varint(0 or value + 1)
//!  1 create      varint(group) name last ID (16) optional(entries read)
//!  2 position    varint(group) last ID (16) optional(entries read)
//!  3 destroy     varint(group)
//!  4 consumer    varint(group) varint(consumer) name
//!  5 dismiss     varint(group) varint(consumer)                 its pending entries ended before, by 7
//!  6 deliver     varint(group) varint(consumer) last ID (16) optional(entries read) varint(n) step{n}
//!  7 end         varint(group) varint(n) (step, optional(owner))*          acknowledged, or dropped
//!  8 assign      varint(group) varint(consumer) active u8 rows optional(owner before){rows}
//!  9 refuse      varint(group) varint(first refusal) varint(n) (step, optional(owner before), varint(deliveries)){n}
//! 10 seen        varint(group) varint(consumer)
//! 11 delete      varint(length) delete payload      12 trim      varint(segment) varint(position)
//! 13 message     pid iid ID (16) time u64           14 windows   varint(duration, s) varint(messages)
//! 15 commit      writer varint(version) varint(part) time u64
//! 16 setting     name varint(length) value                   none: the setting goes
//! name := varint(length) bytes        step, rows: see pending.rs; the first step is taken from 0-0
//! ```
//! Each record carries the owners before, so that counts can be kept without looking them up. A consumer numbered 0 is
//! nobody.

use crate::commits::Part;
use crate::error::{push, Error, Result};
use crate::id::Id;
use crate::ops::{self, Place};
use crate::pending::{encode_rows, put_id_step, read_id_step, read_rows, Pending};
use crate::wire::{put_id, put_u64, put_varint, Reader};
use crate::FORMAT_VERSION;

/// No name of a group, a consumer, a producer, a message or a writer is longer.
pub const MAX_NAME_BYTES: usize = 4096;

/// Who had an entry: None where it was not pending.
pub type Owner = Option<u32>;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Create { group: u32, name: Vec<u8>, last: Id, read: Option<u64> },
    Position { group: u32, last: Id, read: Option<u64> },
    Destroy { group: u32 },
    Consumer { group: u32, consumer: u32, name: Vec<u8> },
    Dismiss { group: u32, consumer: u32 },
    Deliver { group: u32, consumer: u32, last: Id, read: Option<u64>, ids: Vec<Id> },
    End { group: u32, ids: Vec<(Id, Owner)> },
    Assign { group: u32, consumer: u32, active: bool, rows: Vec<Pending>, owners: Vec<Owner> },
    Refuse { group: u32, first: u64, rows: Vec<(Id, Owner, u64)> },
    Seen { group: u32, consumer: u32 },
    Delete { payload: Vec<u8> },
    Trim { place: Place },
    Message { producer: Vec<u8>, message: Vec<u8>, id: Id, time_ms: u64 },
    Windows { duration_s: u64, messages: u64 },
    Commit { writer: Vec<u8>, version: u64, part: u32, time_ms: u64 },
    Setting { name: Vec<u8>, value: Vec<u8> },
}

pub fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name);
}

pub fn read_name(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let length = reader.count(MAX_NAME_BYTES, "a name's length")?;
    Ok(reader.take(length)?.to_vec())
}

pub fn put_optional(out: &mut Vec<u8>, value: Option<u64>) {
    // Entries read and owners stay far below 2^64 - 1.
    put_varint(out, value.map_or(0, |value| value.saturating_add(1)));
}

pub fn read_optional(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    Ok(reader.varint()?.checked_sub(1))
}

fn read_number(reader: &mut Reader<'_>) -> Result<u32> {
    Ok(reader.count(u32::MAX as usize, "a number of 32 bits")? as u32)
}

fn put_owner(out: &mut Vec<u8>, owner: Owner) {
    put_optional(out, owner.map(u64::from));
}

fn read_owner(reader: &mut Reader<'_>) -> Result<Owner> {
    let owner = read_optional(reader)?;
    owner.map(|owner| u32::try_from(owner).map_err(|_| reader.fault("an owner of 32 bits", owner))).transpose()
}

fn put_numbers(out: &mut Vec<u8>, tag: u8, numbers: &[u32]) {
    out.push(tag);
    numbers.iter().for_each(|number| put_varint(out, u64::from(*number)));
}

impl Op {
    /// The entries of which the record says who had them before its frame, with their group.
    pub fn entries(&self) -> Vec<(u32, Id)> {
        match self {
            Op::End { group, ids } => ids.iter().map(|(id, _)| (*group, *id)).collect(),
            Op::Assign { group, rows, .. } => rows.iter().map(|row| (*group, row.id)).collect(),
            Op::Refuse { group, rows, .. } => rows.iter().map(|(id, ..)| (*group, *id)).collect(),
            _ => Vec::new(),
        }
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Op::Create { group, name, last, read } => {
                put_numbers(out, 1, &[*group]);
                put_name(out, name);
                put_id(out, *last);
                put_optional(out, *read);
            }
            Op::Position { group, last, read } => {
                put_numbers(out, 2, &[*group]);
                put_id(out, *last);
                put_optional(out, *read);
            }
            Op::Destroy { group } => put_numbers(out, 3, &[*group]),
            Op::Consumer { group, consumer, name } => {
                put_numbers(out, 4, &[*group, *consumer]);
                put_name(out, name);
            }
            Op::Dismiss { group, consumer } => put_numbers(out, 5, &[*group, *consumer]),
            Op::Deliver { group, consumer, last, read, ids } => {
                put_deliver(out, (*group, *consumer), *last, *read, ids)
            }
            Op::End { group, ids } => {
                put_numbers(out, 7, &[*group]);
                put_varint(out, ids.len() as u64);
                let mut before = Id::MIN;
                for (id, owner) in ids {
                    put_id_step(out, *id, before);
                    put_owner(out, *owner);
                    before = *id;
                }
            }
            Op::Assign { group, consumer, active, rows, owners } => {
                put_numbers(out, 8, &[*group, *consumer]);
                out.push(u8::from(*active));
                encode_rows(out, rows.iter());
                owners.iter().for_each(|owner| put_owner(out, *owner));
            }
            Op::Refuse { group, first, rows } => {
                put_numbers(out, 9, &[*group]);
                put_varint(out, *first);
                put_varint(out, rows.len() as u64);
                let mut before = Id::MIN;
                for (id, owner, deliveries) in rows {
                    put_id_step(out, *id, before);
                    put_owner(out, *owner);
                    put_varint(out, *deliveries);
                    before = *id;
                }
            }
            Op::Seen { group, consumer } => put_numbers(out, 10, &[*group, *consumer]),
            Op::Delete { payload } => {
                out.push(11);
                put_varint(out, payload.len() as u64);
                out.extend_from_slice(payload);
            }
            Op::Trim { place } => {
                out.push(12);
                ops::put_trim(out, *place);
            }
            Op::Message { producer, message, id, time_ms } => {
                out.push(13);
                put_name(out, producer);
                put_name(out, message);
                put_id(out, *id);
                put_u64(out, *time_ms);
            }
            Op::Windows { duration_s, messages } => {
                out.push(14);
                put_varint(out, *duration_s);
                put_varint(out, *messages);
            }
            Op::Commit { writer, version, part, time_ms } => {
                put_commit(out, &Part { writer, version: *version, part: *part }, *time_ms)
            }
            Op::Setting { name, value } => {
                out.push(16);
                put_name(out, name);
                put_name(out, value);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Op> {
        let tag = reader.u8()?;
        Ok(match tag {
            11 => {
                let length = reader.count(reader.remaining(), "the length of a delete")?;
                Op::Delete { payload: reader.take(length)?.to_vec() }
            }
            12 => Op::Trim { place: Place { segment: reader.varint()?, position: reader.varint()? } },
            13 => Op::Message {
                producer: read_name(reader)?,
                message: read_name(reader)?,
                id: reader.id()?,
                time_ms: reader.u64()?,
            },
            14 => Op::Windows { duration_s: reader.varint()?, messages: reader.varint()? },
            15 => Op::Commit {
                writer: read_name(reader)?,
                version: reader.varint()?,
                part: read_number(reader)?,
                time_ms: reader.u64()?,
            },
            16 => Op::Setting { name: read_name(reader)?, value: read_name(reader)? },
            1..=10 => read_group_op(tag, reader)?,
            _ => return Err(Error::Newer { what: "a group record", supported: FORMAT_VERSION, found: u32::from(tag) }),
        })
    }
}

/// The record of a commit, without a copy of its writer's name.
pub fn put_commit(out: &mut Vec<u8>, part: &Part<'_>, time_ms: u64) {
    out.push(15);
    put_name(out, part.writer);
    put_varint(out, part.version);
    put_varint(out, u64::from(part.part));
    put_u64(out, time_ms);
}

/// The record of a delivery, without a copy of its IDs.
pub fn put_deliver(out: &mut Vec<u8>, (group, consumer): (u32, u32), last: Id, read: Option<u64>, ids: &[Id]) {
    put_numbers(out, 6, &[group, consumer]);
    put_id(out, last);
    put_optional(out, read);
    put_varint(out, ids.len() as u64);
    let mut before = Id::MIN;
    for id in ids {
        put_id_step(out, *id, before);
        before = *id;
    }
}

fn read_group_op(tag: u8, reader: &mut Reader<'_>) -> Result<Op> {
    let group = read_number(reader)?;
    Ok(match tag {
        1 => Op::Create { group, name: read_name(reader)?, last: reader.id()?, read: read_optional(reader)? },
        2 => Op::Position { group, last: reader.id()?, read: read_optional(reader)? },
        3 => Op::Destroy { group },
        4 => Op::Consumer { group, consumer: read_number(reader)?, name: read_name(reader)? },
        5 => Op::Dismiss { group, consumer: read_number(reader)? },
        6 => {
            let (consumer, last, read) = (read_number(reader)?, reader.id()?, read_optional(reader)?);
            let ids = read_steps(reader, |id, _| Ok(id))?;
            Op::Deliver { group, consumer, last, read, ids }
        }
        7 => Op::End { group, ids: read_steps(reader, |id, reader| Ok((id, read_owner(reader)?)))? },
        8 => {
            let (consumer, active) = (read_number(reader)?, reader.u8()? != 0);
            let rows = read_rows(reader)?;
            let owners = rows.iter().map(|_| read_owner(reader)).collect::<Result<Vec<_>>>()?;
            Op::Assign { group, consumer, active, rows, owners }
        }
        9 => {
            let first = reader.varint()?;
            let rows = read_steps(reader, |id, reader| Ok((id, read_owner(reader)?, reader.varint()?)))?;
            Op::Refuse { group, first, rows }
        }
        _ => Op::Seen { group, consumer: read_number(reader)? },
    })
}

fn read_steps<T>(reader: &mut Reader<'_>, mut each: impl FnMut(Id, &mut Reader<'_>) -> Result<T>) -> Result<Vec<T>> {
    let count = reader.count(reader.remaining() / 2, "a number of IDs")?;
    let mut out = Vec::with_capacity(count);
    let mut id = Id::MIN;
    for _ in 0..count {
        id = read_id_step(reader, id)?;
        out.push(each(id, reader)?);
    }
    Ok(out)
}

/// All records of a payload.
pub fn read_ops(payload: &[u8]) -> Result<Vec<Op>> {
    let mut reader = Reader::new(payload, "group frame");
    let mut ops = Vec::new();
    while reader.remaining() > 0 {
        push(&mut ops, Op::read(&mut reader)?, "records of a frame")?;
    }
    Ok(ops)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_record_reads_back_as_it_was_written() {
        let row = Pending { id: Id::new(9, 9), consumer: 2, time_ms: 77, deliveries: 3 };
        let ops = vec![
            Op::Create { group: 1, name: b"g".to_vec(), last: Id::MAX, read: None },
            Op::Position { group: 1, last: Id::MIN, read: Some(0) },
            Op::Consumer { group: 1, consumer: 2, name: Vec::new() },
            Op::Deliver {
                group: 1,
                consumer: 2,
                last: Id::new(5, 1),
                read: Some(7),
                ids: vec![Id::new(5, 0), Id::new(5, 1)],
            },
            Op::End { group: 1, ids: vec![(Id::new(5, 1), Some(2)), (Id::new(4, 0), None)] },
            Op::Assign { group: 1, consumer: 2, active: true, rows: vec![row], owners: vec![Some(0)] },
            Op::Refuse { group: 1, first: 4, rows: vec![(Id::new(9, 9), Some(2), u64::MAX)] },
            Op::Seen { group: 1, consumer: 2 },
            Op::Dismiss { group: 1, consumer: 2 },
            Op::Delete { payload: b"anything".to_vec() },
            Op::Trim { place: Place { segment: 3, position: 4 } },
            Op::Message { producer: b"p".to_vec(), message: b"m".to_vec(), id: Id::new(1, 1), time_ms: 5 },
            Op::Windows { duration_s: 100, messages: 200 },
            Op::Commit { writer: b"w".to_vec(), version: u64::MAX, part: u32::MAX, time_ms: 6 },
            Op::Setting { name: b"n".to_vec(), value: b"v".to_vec() },
            Op::Setting { name: b"n".to_vec(), value: Vec::new() },
            Op::Destroy { group: 1 },
        ];
        let mut payload = Vec::new();
        ops.iter().for_each(|op| op.put(&mut payload));
        assert_eq!(read_ops(&payload).unwrap(), ops);
        for cut in 1..payload.len() {
            // Cut anywhere it is whole records or a fault, never a panic.
            drop(read_ops(payload.get(..cut).unwrap()));
        }
        payload.push(99);
        assert!(matches!(read_ops(&payload), Err(Error::Newer { .. })));
    }
}

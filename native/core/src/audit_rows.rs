//! What records of groups say about entries: who was given which, and what became of it.
//!
//! A record holds numbers of groups and consumers. No number is ever given twice, so [`Names`] only grows: a group or a
//! consumer that is gone by now still has its name.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::frame::{self, FrameHeader, Kind};
use crate::group_ops::{put_name, read_name, read_ops, Op, Owner};
use crate::groups::Groups;
use crate::id::Id;
use crate::ops;
use crate::wire::{put_varint, Reader};

/// One thing that happened. A consumer or owner numbered 0 is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditRow {
    pub action: &'static str,
    pub group: Option<u32>,
    pub consumer: Option<u32>,
    pub id: Option<Id>,
    pub deliveries: Option<u64>,
    pub owner: Owner,
}

impl AuditRow {
    fn of(action: &'static str, group: u32) -> AuditRow {
        AuditRow { action, group: Some(group), consumer: None, id: None, deliveries: None, owner: None }
    }
}

/// Names of groups and consumers, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub groups: BTreeMap<u32, Vec<u8>>,
    pub consumers: BTreeMap<(u32, u32), Vec<u8>>,
}

impl Names {
    pub fn of(groups: &Groups) -> Names {
        let mut names = Names::default();
        for (number, group) in &groups.by_number {
            names.groups.insert(*number, group.name.clone());
            let consumers = group.consumers.iter();
            names.consumers.extend(consumers.map(|(consumer, it)| ((*number, *consumer), it.name.clone())));
        }
        names
    }

    /// Notes the name that a record gives.
    pub fn learn(&mut self, op: &Op) {
        match op {
            Op::Create { group, name, .. } => drop(self.groups.insert(*group, name.clone())),
            Op::Consumer { group, consumer, name } => drop(self.consumers.insert((*group, *consumer), name.clone())),
            _ => {}
        }
    }

    /// Takes over from `all` what `row` mentions.
    pub fn take(&mut self, all: &Names, row: &AuditRow) {
        let Some(group) = row.group else { return };
        if let Some(name) = all.groups.get(&group).filter(|_| !self.groups.contains_key(&group)) {
            self.groups.insert(group, name.clone());
        }
        for key in [row.consumer, row.owner].into_iter().flatten().map(|consumer| (group, consumer)) {
            if let Some(name) = all.consumers.get(&key).filter(|_| !self.consumers.contains_key(&key)) {
                self.consumers.insert(key, name.clone());
            }
        }
    }

    /// The name of a group; its number behind `#` where the name is not known.
    pub fn group(&self, group: u32) -> Vec<u8> {
        self.groups.get(&group).cloned().unwrap_or_else(|| format!("#{group}").into_bytes())
    }

    /// The same of a consumer; nothing for nobody.
    pub fn consumer(&self, group: u32, consumer: u32) -> Vec<u8> {
        if consumer == 0 {
            return Vec::new();
        }
        self.consumers.get(&(group, consumer)).cloned().unwrap_or_else(|| format!("#{consumer}").into_bytes())
    }

    /// `varint(n) (varint(group) name){n} varint(n) (varint(group) varint(consumer) name){n}`
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.groups.len() as u64);
        for (group, name) in &self.groups {
            put_varint(out, u64::from(*group));
            put_name(out, name);
        }
        put_varint(out, self.consumers.len() as u64);
        for ((group, consumer), name) in &self.consumers {
            put_varint(out, u64::from(*group));
            put_varint(out, u64::from(*consumer));
            put_name(out, name);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Names> {
        let number = |reader: &mut Reader<'_>| Ok(reader.count(u32::MAX as usize, "a number of 32 bits")? as u32);
        let mut names = Names::default();
        for _ in 0..reader.count(reader.remaining() / 2, "a number of groups")? {
            names.groups.insert(number(reader)?, read_name(reader)?);
        }
        for _ in 0..reader.count(reader.remaining() / 3, "a number of consumers")? {
            let key = (number(reader)?, number(reader)?);
            names.consumers.insert(key, read_name(reader)?);
        }
        Ok(names)
    }
}

/// Whether a record says anything of an entry, a group or a consumer: looks and messages of producers do not.
fn matters(op: &Op) -> bool {
    !matches!(op, Op::Seen { .. } | Op::Message { .. } | Op::Windows { .. } | Op::Commit { .. } | Op::Setting { .. })
}

/// The records of a frame that the audit keeps, and their bytes; None where it keeps none of them.
pub fn kept<'a>(header: &FrameHeader, payload: &'a [u8]) -> Result<Option<(Vec<Op>, &'a [u8])>> {
    let records = match header.kind {
        Kind::Groups => payload,
        Kind::Entries => header.split(payload)?.1,
        _ => return Ok(None),
    };
    let ops = read_ops(records)?;
    Ok(ops.iter().any(matters).then_some((ops, records)))
}

/// What ends an entry's being pending, as far as the frame around it tells.
fn ending(ops: &[Op], group: u32) -> &'static str {
    let mut word = "ack";
    for op in ops {
        match op {
            // The consumer went, or a claim found that the entry is gone.
            Op::Dismiss { group: other, .. } | Op::Assign { group: other, .. } if *other == group => return "drop",
            Op::Delete { .. } | Op::Trim { .. } => word = "remove",
            _ => {}
        }
    }
    word
}

/// Everything that the records of one frame say, in their order.
pub fn rows_of(ops: &[Op], mut each: impl FnMut(AuditRow)) -> Result<()> {
    for op in ops {
        match op {
            Op::Create { group, last, .. } => each(AuditRow { id: Some(*last), ..AuditRow::of("create", *group) }),
            Op::Position { group, last, .. } => each(AuditRow { id: Some(*last), ..AuditRow::of("position", *group) }),
            Op::Destroy { group } => each(AuditRow::of("destroy", *group)),
            Op::Consumer { group, consumer, .. } => {
                each(AuditRow { consumer: Some(*consumer), ..AuditRow::of("consumer", *group) });
            }
            Op::Dismiss { group, consumer } => {
                each(AuditRow { consumer: Some(*consumer), ..AuditRow::of("dismiss", *group) });
            }
            Op::Deliver { group, consumer, ids, .. } => {
                let row =
                    AuditRow { consumer: Some(*consumer), deliveries: Some(1), ..AuditRow::of("deliver", *group) };
                ids.iter().for_each(|id| each(AuditRow { id: Some(*id), ..row }));
            }
            Op::End { group, ids } => {
                let row = AuditRow::of(ending(ops, *group), *group);
                ids.iter().for_each(|(id, owner)| each(AuditRow { id: Some(*id), owner: *owner, ..row }));
            }
            Op::Assign { group, consumer, rows, owners, .. } => {
                // A group that was set back delivers what is pending once more, in the frame of what is new.
                let anew = ops.iter().any(|op| matches!(op, Op::Deliver { group: other, .. } if other == group));
                for (row, owner) in rows.iter().zip(owners) {
                    let action = match owner {
                        _ if anew => "deliver",
                        Some(owner) if owner == consumer => "redeliver",
                        _ => "claim",
                    };
                    let (id, deliveries) = (Some(row.id), Some(row.deliveries));
                    let consumer = Some(*consumer);
                    each(AuditRow { action, group: Some(*group), consumer, id, deliveries, owner: *owner });
                }
            }
            Op::Refuse { group, rows, .. } => {
                for (id, owner, deliveries) in rows {
                    let (id, deliveries) = (Some(*id), Some(*deliveries));
                    each(AuditRow { id, deliveries, owner: *owner, ..AuditRow::of("refuse", *group) });
                }
            }
            Op::Delete { payload } => {
                let greatest = ops::read_delete(payload, |_, _, _| Ok(()))?;
                // Positions say which; of the IDs only the greatest is there, and not in a trim.
                let id = (greatest > Id::MIN).then_some(greatest);
                each(AuditRow { group: None, id, ..AuditRow::of("delete", 0) });
            }
            Op::Trim { .. } => each(AuditRow { group: None, ..AuditRow::of("trim", 0) }),
            Op::Seen { .. } | Op::Message { .. } | Op::Windows { .. } | Op::Commit { .. } | Op::Setting { .. } => {}
        }
    }
    Ok(())
}

/// A frame that the audit keeps: its header, its records, and their bytes.
pub type Kept<'a> = (FrameHeader, Vec<Op>, &'a [u8]);

/// A walk over the frames of a log file.
#[derive(Debug, Clone)]
pub struct Walk {
    salt: u32,
    at: u64,
    link: u32,
    /// Where to stop; None goes on to the last frame.
    end: Option<u64>,
}

impl Walk {
    /// From the frame at `at` on, which is linked to `link`.
    pub fn new(salt: u32, at: u64, link: u32, end: Option<u64>) -> Walk {
        Walk { salt, at, link, end }
    }

    /// The next frame that the audit keeps; None behind the last.
    ///
    /// # Errors
    /// [`crate::error::Error::Corrupt`] where something else than zeros stands behind the last frame.
    pub fn next<'a>(&mut self, file: &'a [u8]) -> Result<Option<Kept<'a>>> {
        while self.end.is_none_or(|end| self.at < end) {
            let header = match frame::parse_header(file, self.at, self.salt, self.link) {
                Ok(header) => header,
                Err(_) if self.end.is_none() && self.is_blank(file) => return Ok(None),
                Err(error) => return Err(error),
            };
            let at = self.at;
            if matches!(header.kind, Kind::Groups) || header.flags != 0 {
                let payload = frame::payload(file, at, &header)?;
                let found = kept(&header, payload).map_err(|error| error.at(at))?;
                self.pass(&header);
                if let Some((ops, records)) = found {
                    return Ok(Some((header, ops, records)));
                }
            } else {
                self.pass(&header);
            }
        }
        Ok(None)
    }

    fn pass(&mut self, header: &FrameHeader) {
        self.at = self.at.saturating_add(header.frame_bytes() as u64);
        self.link = header.header_crc;
    }

    fn is_blank(&self, file: &[u8]) -> bool {
        let start = usize::try_from(self.at).unwrap_or(usize::MAX);
        file.get(start..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ops::encode_delete;

    fn actions(ops: &[Op]) -> Vec<&'static str> {
        let mut found = Vec::new();
        rows_of(ops, |row| found.push(row.action)).unwrap();
        found
    }

    #[test]
    fn what_ends_an_entry_is_told_by_the_frame_around_it() {
        let end = |group| Op::End { group, ids: vec![(Id::new(1, 0), Some(7))] };
        assert_eq!(actions(&[end(1)]), ["ack"]);
        assert_eq!(actions(&[end(1), Op::Dismiss { group: 1, consumer: 7 }]), ["drop", "dismiss"]);
        let delete = Op::Delete { payload: encode_delete(Id::new(1, 0), &[]) };
        assert_eq!(actions(&[end(1), end(2), delete]), ["remove", "remove", "delete"]);
    }

    #[test]
    fn names_come_back_and_unknown_ones_are_numbers() {
        let mut names = Names::default();
        names.learn(&Op::Create { group: 3, name: b"g".to_vec(), last: Id::MIN, read: None });
        names.learn(&Op::Consumer { group: 3, consumer: 1, name: b"c".to_vec() });
        let mut out = Vec::new();
        names.put(&mut out);
        assert_eq!(Names::read(&mut Reader::new(&out, "test")).unwrap(), names);
        assert_eq!((names.group(3), names.group(4)), (b"g".to_vec(), b"#4".to_vec()));
        assert_eq!((names.consumer(3, 1), names.consumer(3, 2)), (b"c".to_vec(), b"#2".to_vec()));
        assert_eq!(names.consumer(3, 0), b"");
    }
}

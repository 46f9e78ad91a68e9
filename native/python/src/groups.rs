//! Consumer groups of a [`Log`]: what is known of them, and records of what changes. Under the append lock.

use diskstream_core::frame::Kind;
use diskstream_core::group_ops::{Op, Owner};
use diskstream_core::groups::{Group, Groups};
use diskstream_core::id::Id;
use diskstream_core::ops::{self, Place};
use diskstream_core::pending::{Key, Order, Pending, ORDERS};
use diskstream_core::settings::Settings;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{self, Failure};
use crate::id::{parse, EntryId};
use crate::log::Log;
use crate::view::Unknown;

/// `(number, name, last delivered ID, entries read, consumers, pending, refused)`.
type GroupRow<'py> = (u32, Bound<'py, PyBytes>, EntryId, Option<u64>, usize, u64, u64);
/// `(number, name, seen ms, active ms, pending)`.
type ConsumerRow<'py> = (u32, Bound<'py, PyBytes>, u64, Option<u64>, u64);
/// `(ID, consumer's number, time ms, deliveries)`.
pub type PendingRow = (EntryId, u32, u64, u64);

pub fn pending_row(row: &Pending) -> PendingRow {
    (EntryId::of(row.id), row.consumer, row.time_ms, row.deliveries)
}

pub fn order_of(py: Python<'_>, order: usize) -> PyResult<Order> {
    ORDERS.get(order).copied().ok_or_else(|| errors::argument(py, "no such order"))
}

pub fn ids_of(ids: &[Bound<'_, PyAny>]) -> PyResult<Vec<Id>> {
    ids.iter().map(|id| parse(id, 0)).collect()
}

fn group_of<'a>(py: Python<'_>, groups: &'a Groups, number: u32) -> PyResult<&'a Group> {
    groups.by_number.get(&number).ok_or_else(|| errors::argument(py, "no such group"))
}

fn owner(group: &Group, id: Id) -> Owner {
    group.find(id).map(|row| row.consumer)
}

type Row<'py> = Bound<'py, PyTuple>;

/// A record from `(word, arguments...)`, completed from what is known: numbers of what is new, owners before.
fn op_of(groups: &Groups, path: &str, given: &Row<'_>) -> PyResult<Op> {
    let py = given.py();
    let limited = |error| errors::core(py, path, error);
    let word: String = given.get_item(0)?.extract()?;
    let name = |at: usize| -> PyResult<Vec<u8>> { Ok(given.get_item(at)?.cast::<PyBytes>()?.as_bytes().to_vec()) };
    let number = |at: usize| -> PyResult<u32> { given.get_item(at)?.extract() };
    Ok(match word.as_str() {
        "create" => {
            let (last, read) = (parse(&given.get_item(2)?, 0)?, given.get_item(3)?.extract()?);
            Op::Create { group: groups.fresh_group().map_err(limited)?, name: name(1)?, last, read }
        }
        "position" => {
            let (last, read) = (parse(&given.get_item(2)?, 0)?, given.get_item(3)?.extract()?);
            Op::Position { group: number(1)?, last, read }
        }
        "destroy" => Op::Destroy { group: number(1)? },
        "consumer" => {
            let group = number(1)?;
            let consumer = group_of(py, groups, group)?.fresh_consumer().map_err(limited)?;
            Op::Consumer { group, consumer, name: name(2)? }
        }
        "dismiss" => Op::Dismiss { group: number(1)?, consumer: number(2)? },
        "seen" => Op::Seen { group: number(1)?, consumer: number(2)? },
        "end" => {
            let group = group_of(py, groups, number(1)?)?;
            let ids = ids_of(&given.get_item(2)?.extract::<Vec<_>>()?)?;
            Op::End { group: number(1)?, ids: ids.into_iter().map(|id| (id, owner(group, id))).collect() }
        }
        "assign" => assign(groups, given)?,
        "refuse" => {
            let group = group_of(py, groups, number(1)?)?;
            let mut rows = Vec::new();
            for row in given.get_item(2)?.try_iter()? {
                let (id, deliveries) = row?.extract::<(Bound<'_, PyAny>, u64)>()?;
                let id = parse(&id, 0)?;
                rows.push((id, owner(group, id), deliveries));
            }
            Op::Refuse { group: number(1)?, first: group.refusals + 1, rows }
        }
        "delete" => {
            let places: Vec<(u64, u64)> = given.get_item(2)?.extract()?;
            let places: Vec<Place> =
                places.into_iter().map(|(segment, position)| Place { segment, position }).collect();
            Op::Delete { payload: ops::encode_delete(parse(&given.get_item(1)?, 0)?, &places) }
        }
        "trim" => Op::Trim {
            place: Place { segment: given.get_item(1)?.extract()?, position: given.get_item(2)?.extract()? },
        },
        "message" => Op::Message {
            producer: name(1)?,
            message: name(2)?,
            id: parse(&given.get_item(3)?, 0)?,
            time_ms: given.get_item(4)?.extract()?,
        },
        "windows" => Op::Windows { duration_s: given.get_item(1)?.extract()?, messages: given.get_item(2)?.extract()? },
        "commit" => Op::Commit {
            writer: name(1)?,
            version: given.get_item(2)?.extract()?,
            part: given.get_item(3)?.extract()?,
            time_ms: given.get_item(4)?.extract()?,
        },
        "setting" => Op::Setting { name: name(1)?, value: name(2)? },
        _ => return Err(errors::argument(py, "no such record")),
    })
}

/// `("assign", group, consumer, active, [(id, time ms, deliveries), ...])`.
fn assign(groups: &Groups, given: &Row<'_>) -> PyResult<Op> {
    let (number, consumer, active) = (given.get_item(1)?, given.get_item(2)?, given.get_item(3)?.extract()?);
    let (number, consumer): (u32, u32) = (number.extract()?, consumer.extract()?);
    let group = group_of(given.py(), groups, number)?;
    let (mut rows, mut owners) = (Vec::new(), Vec::new());
    for row in given.get_item(4)?.try_iter()? {
        let (id, time_ms, deliveries) = row?.extract::<(Bound<'_, PyAny>, u64, u64)>()?;
        let id = parse(&id, 0)?;
        rows.push(Pending { id, consumer, time_ms, deliveries });
        owners.push(owner(group, id));
    }
    Ok(Op::Assign { group: number, consumer, active, rows, owners })
}

impl Log {
    /// Appends a group frame; the caller holds the append lock. 0, or a reason.
    pub(crate) fn append_records(&self, py: Python<'_>, payload: &[u8], now_ms: u64) -> PyResult<u8> {
        self.append_frame(py, Kind::Groups, payload, now_ms)
    }
}

#[pymethods]
impl Log {
    /// IDs that were pending and are not any more, since the last call; None where any may be. Under the append lock.
    fn take_freed(&self, py: Python<'_>) -> Option<Vec<EntryId>> {
        let freed = self.lock_brief(py).tail.state.groups.freed.take();
        freed.map(|ids| ids.into_iter().map(EntryId::of).collect())
    }

    /// Appends one frame with these records, each `(word, arguments...)`: they happen together or not at all. A record
    /// is completed from the state before the frame, so none may name an entry that another one names. Returns 0, or a
    /// reason; under the append lock.
    fn change(&self, py: Python<'_>, records: Vec<Row<'_>>, now_ms: u64) -> PyResult<u8> {
        let payload = {
            let active = self.lock_brief(py);
            let mut payload = Vec::new();
            let mut settings: Option<Settings> = None;
            let mut named = Vec::new();
            for record in &records {
                let op = op_of(&active.tail.state.groups, &active.file.path, record)?;
                if let Op::Setting { name, value } = &op {
                    // A frame that cannot be applied must not be written.
                    let settings = settings.get_or_insert_with(|| active.tail.state.settings.clone());
                    settings.check(name, value).map_err(|error| errors::core(py, &self.path(), error))?;
                    settings.set(name, value).map_err(|error| errors::core(py, &self.path(), error))?;
                }
                named.append(&mut op.entries());
                op.put(&mut payload);
            }
            named.sort_unstable();
            if named.windows(2).any(|pair| matches!(pair, [one, next] if one == next)) {
                // Its owner would be counted out twice: nobody could apply the frame any more.
                return Err(errors::argument(py, "an entry is named twice in one change"));
            }
            payload
        };
        self.append_records(py, &payload, now_ms)
    }

    /// Bytes that the names of groups, consumers and messages take, about.
    #[getter]
    fn names_bytes(&self, py: Python<'_>) -> u64 {
        let active = self.lock_brief(py);
        active.tail.state.groups.names_bytes + active.tail.state.groups.windows.names_bytes
    }

    /// How many of these are of messages that are forgotten with the next one.
    fn past_names_bytes(&self, py: Python<'_>, now_ms: u64) -> u64 {
        self.lock_brief(py).tail.state.groups.windows.past_names_bytes(now_ms)
    }

    /// The number of a group, None where there is no such group.
    fn group_number(&self, py: Python<'_>, name: &[u8]) -> Option<u32> {
        self.lock_brief(py).tail.state.groups.number(name)
    }

    /// How many groups there are, and whether the stream ever had one or an idempotent message.
    #[getter]
    fn group_count(&self, py: Python<'_>) -> (usize, bool) {
        let active = self.lock_brief(py);
        let groups = &active.tail.state.groups;
        (groups.by_number.len(), !groups.is_empty())
    }

    /// All groups in byte order of their names; or `only` the one of this number, if it is there.
    #[pyo3(signature = (only=None))]
    fn groups<'py>(&self, py: Python<'py>, only: Option<u32>) -> Vec<GroupRow<'py>> {
        let active = self.lock_brief(py);
        let (first, last) = only.map_or((0, u32::MAX), |only| (only, only));
        let asked = active.tail.state.groups.by_number.range(first..=last);
        let mut rows: Vec<(u32, &Group)> = asked.map(|(number, group)| (*number, group)).collect();
        rows.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        rows.into_iter()
            .map(|(number, group)| {
                let (last, consumers) = (EntryId::of(group.last), group.consumers.len());
                (number, PyBytes::new(py, &group.name), last, group.read, consumers, group.pending, group.refused)
            })
            .collect()
    }

    /// The numbers of the groups that have something pending.
    fn groups_holding(&self, py: Python<'_>) -> Vec<u32> {
        let active = self.lock_brief(py);
        let groups = active.tail.state.groups.by_number.iter();
        groups.filter(|(_, group)| group.pending > 0).map(|(number, _)| *number).collect()
    }

    /// The least last delivered ID of all groups: every group was given what is not beyond it. None without groups.
    fn least_delivered(&self, py: Python<'_>) -> Option<EntryId> {
        let active = self.lock_brief(py);
        active.tail.state.groups.by_number.values().map(|group| group.last).min().map(EntryId::of)
    }

    /// The last delivered ID of a group; None where it is gone.
    fn last_delivered(&self, py: Python<'_>, group: u32) -> Option<EntryId> {
        self.lock_brief(py).tail.state.groups.by_number.get(&group).map(|group| EntryId::of(group.last))
    }

    /// `(entries read, lag)` of a group, where `first` is the first live entry's ID.
    fn progress(&self, py: Python<'_>, group: u32, first: &Bound<'_, PyAny>) -> PyResult<(Option<u64>, Option<i64>)> {
        let first = parse(first, 0)?;
        let active = self.lock_brief(py);
        let group = group_of(py, &active.tail.state.groups, group)?;
        Ok((group.read, active.tail.state.lag(group, first)))
    }

    /// The first live entry's ID (0-0 where there is none), None where a sealed segment must be read for it.
    pub(crate) fn first_id(&self, py: Python<'_>) -> Option<EntryId> {
        let active = self.lock_brief(py);
        let state = &active.tail.state;
        if state.is_empty() {
            return Some(EntryId::of(Id::MIN));
        }
        let meta = state.sealed.first().unwrap_or(&state.active);
        if meta.is_live(0) {
            return Some(EntryId::of(meta.first));
        }
        if !state.sealed.is_empty() {
            return None;
        }
        let position = Some(meta.next_live(0)).filter(|position| meta.is_live(*position))?;
        let block = active.tail.index.read(active.map.bytes(), position, active.tail.end, 1, 1).ok()?;
        block.id(0).map(EntryId::of)
    }

    /// The number of a consumer, None where there is no such consumer.
    pub(crate) fn consumer_number(&self, py: Python<'_>, group: u32, name: &[u8]) -> Option<u32> {
        self.lock_brief(py).tail.state.groups.by_number.get(&group)?.consumer(name)
    }

    /// The name of a consumer, None where there is none of this number.
    fn consumer_name<'py>(&self, py: Python<'py>, group: u32, consumer: u32) -> Option<Bound<'py, PyBytes>> {
        let active = self.lock_brief(py);
        let found = active.tail.state.groups.by_number.get(&group)?.consumers.get(&consumer)?;
        Some(PyBytes::new(py, &found.name))
    }

    /// How many consumers a group has.
    fn consumer_count(&self, py: Python<'_>, group: u32) -> usize {
        self.lock_brief(py).tail.state.groups.by_number.get(&group).map_or(0, |group| group.consumers.len())
    }

    /// When a consumer was seen last, in ms.
    pub(crate) fn consumer_seen(&self, py: Python<'_>, group: u32, consumer: u32) -> Option<u64> {
        Some(self.lock_brief(py).tail.state.groups.by_number.get(&group)?.consumers.get(&consumer)?.seen_ms)
    }

    /// The consumers of a group in byte order of their names.
    fn consumers<'py>(&self, py: Python<'py>, group: u32) -> Vec<ConsumerRow<'py>> {
        let active = self.lock_brief(py);
        let Some(group) = active.tail.state.groups.by_number.get(&group) else { return Vec::new() };
        let mut rows: Vec<_> = group.consumers.iter().collect();
        rows.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        rows.into_iter()
            .map(|(number, it)| (*number, PyBytes::new(py, &it.name), it.seen_ms, it.active_ms, it.pending))
            .collect()
    }

    /// Those of `ids` that only the view can know of.
    fn unknown(&self, py: Python<'_>, group: u32, ids: Vec<Bound<'_, PyAny>>) -> PyResult<Unknown> {
        let mut ids = ids_of(&ids)?;
        let active = self.lock_brief(py);
        let known = group_of(py, &active.tail.state.groups, group)?;
        ids.retain(|id| known.is_unknown(*id));
        ids.sort_unstable();
        ids.dedup();
        Ok(Unknown { group, ids })
    }

    /// The pending entries with these IDs, None for each that is not pending; the view was asked before.
    fn find_pending(
        &self,
        py: Python<'_>,
        group: u32,
        ids: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Option<PendingRow>>> {
        let ids = ids_of(&ids)?;
        let active = self.lock_brief(py);
        let group = group_of(py, &active.tail.state.groups, group)?;
        Ok(ids.into_iter().map(|id| group.find(id).map(|row| pending_row(&row))).collect())
    }

    /// Whether the view holds pending entries of a group that are not known here.
    fn is_viewed(&self, py: Python<'_>, group: u32) -> bool {
        self.lock_brief(py).tail.state.groups.by_number.get(&group).is_some_and(|group| group.in_view() > 0)
    }

    /// Pending rows in one of three orders (0 by ID, 1 by consumer, 2 by time), from a key on and before another: those
    /// of one chunk of the view, as they are now, with those that came since. At most `limit`.
    #[pyo3(signature = (group, order, start, until, chunk, limit))]
    #[allow(clippy::too_many_arguments)]
    fn pending_rows(
        &self,
        py: Python<'_>,
        group: u32,
        order: usize,
        start: Key,
        until: Option<Key>,
        chunk: Option<&[u8]>,
        limit: usize,
    ) -> PyResult<Vec<PendingRow>> {
        let order = order_of(py, order)?;
        let base = chunk.map(|chunk| diskstream_core::pending::decode_chunk(chunk, order)).transpose();
        let base = base.map_err(|error| errors::core(py, "view", error))?.unwrap_or_default();
        let mut active = self.lock_brief(py);
        let group = active.tail.state.groups.by_number.get_mut(&group);
        let overlay = &mut group.ok_or_else(|| errors::argument(py, "no such group"))?.overlay;
        let within = |row: &Pending| row.key(order) >= start && until.is_none_or(|until| row.key(order) < until);
        let base: Vec<Pending> =
            base.into_iter().filter(|row| within(row) && overlay.get(row.id).is_none()).take(limit).collect();
        let mut base = base.iter().peekable();
        let mut rows = Vec::new();
        for row in overlay.range(order, start, until) {
            while let Some(before) = base.next_if(|before| before.key(order) < row.key(order)) {
                rows.push(pending_row(before));
            }
            if rows.len() >= limit {
                break;
            }
            rows.push(pending_row(&row));
        }
        rows.extend(base.map(pending_row));
        rows.truncate(limit);
        Ok(rows)
    }

    /// The ID of a message that was added already, None where it is not remembered.
    fn find_message(&self, py: Python<'_>, producer: &[u8], message: &[u8], now_ms: u64) -> Option<EntryId> {
        let id = self.lock_brief(py).tail.state.groups.windows.find(producer, message, now_ms)?;
        Some(EntryId::of(id))
    }

    /// Version and part that a writer committed last; None where it is not remembered.
    fn committed(&self, py: Python<'_>, writer: &[u8]) -> Option<(u64, u32)> {
        self.lock_brief(py).tail.state.commits.last(writer)
    }

    /// What was set under a name; None where nothing is.
    fn setting<'py>(&self, py: Python<'py>, name: &[u8]) -> Option<Bound<'py, PyBytes>> {
        self.lock_brief(py).tail.state.settings.get(name).map(|value| PyBytes::new(py, value))
    }

    /// All settings, in byte order of their names.
    fn settings<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let active = self.lock_brief(py);
        let settings = active.tail.state.settings.iter();
        settings.map(|(name, value)| (PyBytes::new(py, name), PyBytes::new(py, value))).collect()
    }

    /// Counts a message that was refused because it had been added already.
    fn note_duplicate(&self, py: Python<'_>) {
        self.lock_brief(py).tail.state.groups.windows.duplicates += 1;
    }

    /// `(duration s, messages, producers tracked, messages tracked, messages added, duplicates)`.
    fn windows(&self, py: Python<'_>, now_ms: u64) -> (u64, u64, u64, u64, u64, u64) {
        let active = self.lock_brief(py);
        let windows = &active.tail.state.groups.windows;
        let (producers, messages) = windows.tracked(now_ms);
        (windows.duration_s, windows.messages, producers, messages, windows.added, windows.duplicates)
    }
}

impl Log {
    /// What the state before a frame says, in one look: for the quick ways.
    pub(crate) fn with_group<T>(
        &self,
        py: Python<'_>,
        number: u32,
        look: impl FnOnce(&Group) -> Result<T, Failure>,
    ) -> PyResult<Result<T, Failure>> {
        let active = self.lock_brief(py);
        Ok(look(group_of(py, &active.tail.state.groups, number)?))
    }
}

//! Pending entries, and the chunks in which the view keeps them: sorted rows by one of three orders.
//!
//! ```text
//! chunk := varint(rows) row*
//! row   := varint(ms - ms of the row before, zigzag), varint(seq, zigzag difference where ms is the same),
//!          varint(consumer), varint(time - time of the row before, zigzag), varint(deliveries)
//! key   := in the order of each index, three u64, big-endian:
//!          by ID (0, ms, seq)   by consumer (consumer, ms, seq)   by time (owned << 63 | time, ms, seq)
//! ```
//! A chunk is stored under the key of its first row, and holds every row up to the next chunk's key. Rows of an entry
//! that nobody owns (XNACK) have consumer 0 and, for a time, the number of the refusal: they come first by time, in the
//! order in which they were refused.

use crate::error::Result;
use crate::id::Id;
use crate::wire::{put_varint, Reader};

/// A chunk is split when it would hold more rows.
pub const CHUNK_ROWS: usize = 128;

/// One entry of a pending entries list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    pub id: Id,
    /// The number of the consumer that has it; 0 for nobody.
    pub consumer: u32,
    /// When it was delivered last; for nobody's entries the number of the refusal.
    pub time_ms: u64,
    pub deliveries: u64,
}

/// What an index is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    ById,
    ByConsumer,
    ByTime,
}

pub const ORDERS: [Order; 3] = [Order::ById, Order::ByConsumer, Order::ByTime];

/// The place of a row in an index.
pub type Key = (u64, u64, u64);

const OWNED: u64 = 1 << 63;

impl Pending {
    pub fn key(&self, order: Order) -> Key {
        let first = match order {
            Order::ById => 0,
            Order::ByConsumer => u64::from(self.consumer),
            Order::ByTime if self.consumer == 0 => self.time_ms & !OWNED,
            Order::ByTime => OWNED | self.time_ms,
        };
        (first, self.id.ms, self.id.seq)
    }
}

pub fn key_bytes(key: Key) -> [u8; 24] {
    let mut out = [0u8; 24];
    for (part, value) in out.chunks_exact_mut(8).zip([key.0, key.1, key.2]) {
        part.copy_from_slice(&value.to_be_bytes());
    }
    out
}

/// The key that `bytes` are, None where they are not 24.
pub fn parse_key(bytes: &[u8]) -> Option<Key> {
    let mut parts = bytes.chunks_exact(8).map(|part| {
        let mut word = [0u8; 8];
        word.copy_from_slice(part);
        u64::from_be_bytes(word)
    });
    (bytes.len() == 24).then(|| Some((parts.next()?, parts.next()?, parts.next()?)))?
}

/// `value` as its difference from `before`, in either direction, so that small ones are short.
pub fn zigzag(value: u64, before: u64) -> u64 {
    let difference = value.wrapping_sub(before) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

pub fn unzigzag(coded: u64, before: u64) -> u64 {
    before.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
}

/// Appends an ID as a step from `before`, in any direction.
pub fn put_id_step(out: &mut Vec<u8>, id: Id, before: Id) {
    put_varint(out, zigzag(id.ms, before.ms));
    put_varint(out, if id.ms == before.ms { zigzag(id.seq, before.seq) } else { id.seq });
}

pub fn read_id_step(reader: &mut Reader<'_>, before: Id) -> Result<Id> {
    let ms = unzigzag(reader.varint()?, before.ms);
    let seq = reader.varint()?;
    Ok(Id::new(ms, if ms == before.ms { unzigzag(seq, before.seq) } else { seq }))
}

/// Packs rows, whatever their order.
pub fn encode_rows<'a>(out: &mut Vec<u8>, rows: impl ExactSizeIterator<Item = &'a Pending>) {
    put_varint(out, rows.len() as u64);
    let (mut id, mut time_ms) = (Id::MIN, 0);
    for row in rows {
        put_id_step(out, row.id, id);
        put_varint(out, u64::from(row.consumer));
        put_varint(out, zigzag(row.time_ms, time_ms));
        put_varint(out, row.deliveries);
        (id, time_ms) = (row.id, row.time_ms);
    }
}

pub fn read_rows(reader: &mut Reader<'_>) -> Result<Vec<Pending>> {
    // Each row has five bytes or more, so a count beyond that is a fault before it is a size.
    let count = reader.count(reader.remaining() / 5, "a number of pending entries")?;
    let mut rows = Vec::with_capacity(count);
    let (mut id, mut time_ms) = (Id::MIN, 0);
    for _ in 0..count {
        id = read_id_step(reader, id)?;
        let consumer = reader.count(u32::MAX as usize, "a consumer's number")? as u32;
        time_ms = unzigzag(reader.varint()?, time_ms);
        rows.push(Pending { id, consumer, time_ms, deliveries: reader.varint()? });
    }
    Ok(rows)
}

/// A whole chunk, which must be sorted.
pub fn decode_chunk(chunk: &[u8], order: Order) -> Result<Vec<Pending>> {
    let mut reader = Reader::new(chunk, "chunk of pending entries");
    let rows = read_rows(&mut reader)?;
    reader.end()?;
    if !rows.is_sorted_by(|a, b| a.key(order) < b.key(order)) {
        return Err(reader.fault("rows in order", "others"));
    }
    Ok(rows)
}

/// Rows in order, as chunks with their keys.
pub fn encode_chunks(rows: &[Pending], order: Order) -> Vec<(Key, Vec<u8>)> {
    rows.chunks(CHUNK_ROWS)
        .filter_map(|part| {
            let key = part.first()?.key(order);
            let mut out = Vec::with_capacity(part.len() * 10);
            encode_rows(&mut out, part.iter());
            Some((key, out))
        })
        .collect()
}

/// `base` without the keys of `gone`, with `new` in it; each is sorted, and the result is.
pub fn merge(base: Vec<Pending>, gone: &[Key], new: &[Pending], order: Order) -> Vec<Pending> {
    let mut kept: Vec<Pending> = Vec::with_capacity(base.len() + new.len());
    let mut new = new.iter().peekable();
    for row in base {
        let key = row.key(order);
        while let Some(next) = new.next_if(|next| next.key(order) < key) {
            kept.push(*next);
        }
        let replaced = new.next_if(|next| next.key(order) == key);
        if let Some(next) = replaced {
            kept.push(*next);
        } else if gone.binary_search(&key).is_err() {
            kept.push(row);
        }
    }
    kept.extend(new);
    kept
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn row(ms: u64, consumer: u32, time_ms: u64) -> Pending {
        Pending { id: Id::new(ms, ms % 3), consumer, time_ms, deliveries: 1 }
    }

    #[test]
    fn chunks_give_back_what_was_packed() {
        let rows: Vec<Pending> = (0..300).map(|ms| row(ms * 7, (ms % 4) as u32, 1_000 - ms)).collect();
        let chunks = encode_chunks(&rows, Order::ById);
        assert_eq!(chunks.len(), 3);
        let back: Vec<Pending> =
            chunks.iter().flat_map(|(_, chunk)| decode_chunk(chunk, Order::ById).unwrap()).collect();
        assert_eq!(back, rows);
        assert!(chunks.iter().all(|(key, _)| parse_key(&key_bytes(*key)) == Some(*key)));
        let (_, first) = chunks.first().unwrap();
        assert!(decode_chunk(first.get(..first.len() - 1).unwrap(), Order::ById).is_err());
        assert!(decode_chunk(first, Order::ByTime).is_err(), "sorted by another order");
    }

    #[test]
    fn extreme_values_survive() {
        let rows = vec![
            Pending { id: Id::MIN, consumer: 0, time_ms: u64::MAX, deliveries: u64::MAX },
            Pending { id: Id::MAX, consumer: u32::MAX, time_ms: 0, deliveries: 0 },
        ];
        let mut out = Vec::new();
        encode_rows(&mut out, rows.iter());
        assert_eq!(read_rows(&mut Reader::new(&out, "rows")).unwrap(), rows);
    }

    #[test]
    fn a_merge_removes_replaces_and_adds() {
        let base = vec![row(1, 1, 5), row(4, 1, 5), row(7, 1, 5)];
        let new = vec![row(0, 2, 9), row(4, 2, 9), row(9, 2, 9)];
        let gone = vec![row(7, 0, 0).key(Order::ById)];
        let merged = merge(base, &gone, &new, Order::ById);
        assert_eq!(
            merged.iter().map(|row| (row.id.ms, row.consumer)).collect::<Vec<_>>(),
            [(0, 2), (1, 1), (4, 2), (9, 2)]
        );
    }

    #[test]
    fn nobodys_entries_come_first_by_time_in_the_order_of_refusal() {
        let mut rows = [row(9, 1, 0), row(2, 0, 7), row(5, 0, 6)];
        rows.sort_by_key(|row| row.key(Order::ByTime));
        assert_eq!(rows.iter().map(|row| row.id.ms).collect::<Vec<_>>(), [5, 2, 9]);
    }
}

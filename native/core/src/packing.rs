//! Columns of bytes, as Arrow lays them out, into packed rows: frame after frame, without anything for each row but this.

use crate::error::Error;
use crate::frame::MAX_PAYLOAD_BYTES;
use crate::id::Id;
use crate::rows::{RowsEncoder, Step};

/// What the rows of one frame take at most: a commit record, with a name of 4 KiB, must find room behind them.
pub const MAX_ROWS_BYTES: usize = MAX_PAYLOAD_BYTES - (16 << 10);
/// A row takes this much beside its names, lengths and values: two varints of a step, two of a shape.
pub const BESIDE_ROW_BYTES: usize = 64;

/// What keeps rows from being packed; with the number of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No field at all.
    NoField(usize),
    /// A field with a value has no name.
    NoName(usize),
    /// The ID, or half of it, is null.
    NoId(usize),
    /// The text is no ID.
    BadId(usize),
    /// The ID is not above the one before.
    Order(usize),
    /// `0-0` is no ID of an entry.
    Zero,
    Core(usize, Error),
}

type Outcome<T> = Result<T, Fault>;

/// A column of strings or bytes: offsets of 32 or 64 bits, data, and a bit for each value that is there.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    pub offsets: &'a [u8],
    pub wide: bool,
    pub data: &'a [u8],
    /// None where every value is there.
    pub validity: Option<&'a [u8]>,
    /// What the first offset counts from, where `data` is not all of a buffer.
    pub base: u64,
    /// The bit of the first value.
    pub first_bit: usize,
}

#[inline]
fn word<const N: usize>(bytes: &[u8], index: usize) -> Option<[u8; N]> {
    bytes.get(index.checked_mul(N)?..)?.first_chunk::<N>().copied()
}

impl<'a> Bytes<'a> {
    #[inline]
    fn offset(&self, index: usize) -> Option<usize> {
        let offset = if self.wide {
            u64::from_le_bytes(word(self.offsets, index)?)
        } else {
            u64::from(u32::from_le_bytes(word(self.offsets, index)?))
        };
        usize::try_from(offset.checked_sub(self.base)?).ok()
    }

    #[inline]
    fn is_there(&self, index: usize) -> bool {
        let Some(bits) = self.validity else { return true };
        let bit = self.first_bit + index;
        bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// The value of a row; None where it is null.
    #[inline]
    fn get(&self, index: usize) -> Result<Option<&'a [u8]>, Error> {
        if !self.is_there(index) {
            return Ok(None);
        }
        let bounds = self.offset(index).zip(self.offset(index + 1));
        let value = bounds.and_then(|(start, end)| self.data.get(start..end));
        value.map(Some).ok_or(Error::Invalid("a column whose offsets lie outside its data"))
    }
}

/// IDs of rows, as columns have them.
#[derive(Debug, Clone, Copy)]
pub enum Ids<'a> {
    Automatic,
    /// Milliseconds and sequences as words of 64 bits; None for a row without.
    Words {
        ms: &'a [u8],
        seq: &'a [u8],
    },
    Text(Bytes<'a>),
}

impl Ids<'_> {
    fn get(&self, row: usize) -> Outcome<Option<Id>> {
        Ok(match self {
            Ids::Automatic => None,
            Ids::Words { ms, seq } => {
                let (Some(ms), Some(seq)) = (word(ms, row), word(seq, row)) else { return Err(Fault::NoId(row)) };
                Some(Id::new(u64::from_le_bytes(ms), u64::from_le_bytes(seq)))
            }
            Ids::Text(column) => {
                let text = column.get(row).map_err(|error| Fault::Core(row, error))?.ok_or(Fault::NoId(row))?;
                let (ms, seq) = Id::parse(text).ok_or(Fault::BadId(row))?;
                Some(Id::new(ms, seq.unwrap_or(0)))
            }
        })
    }
}

/// The rows of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub payload: Vec<u8>,
    pub rows: u32,
    /// The first ID and the last, where they were given.
    pub ids: Option<(Id, Id)>,
}

/// Takes rows, gives frames. Where one ends depends on the rows alone, so equal rows are always cut alike.
struct Packer<'a> {
    encoder: RowsEncoder,
    ids: Ids<'a>,
    limit: usize,
    first: Option<Id>,
    before: Option<Id>,
    frames: Vec<Packed>,
}

impl Packer<'_> {
    /// Ends the row whose fields the encoder has.
    fn end(&mut self, row: usize) -> Outcome<()> {
        if self.encoder.fields() == 0 {
            return Err(Fault::NoField(row));
        }
        let id = self.ids.get(row)?;
        if let Some(id) = id {
            if self.before.is_some_and(|before| id <= before) {
                return Err(Fault::Order(row));
            }
            if id == Id::MIN {
                return Err(Fault::Zero);
            }
        }
        if self.encoder.payload().len() + self.encoder.row_bytes() + BESIDE_ROW_BYTES > self.limit {
            self.cut();
        }
        let step = match (self.before, id) {
            (Some(before), Some(id)) => Step::Between(before, id),
            _ => Step::Next,
        };
        self.encoder.end(step).map_err(|error| Fault::Core(row, error))?;
        self.first = self.first.or(id);
        self.before = id;
        Ok(())
    }

    fn cut(&mut self) {
        let rows = self.encoder.rows();
        if rows > 0 {
            let ids = self.first.take().zip(self.before);
            self.frames.push(Packed { payload: self.encoder.take(), rows, ids });
        }
    }
}

fn packer(ids: Ids<'_>, limit: usize) -> Packer<'_> {
    Packer { encoder: RowsEncoder::default(), ids, limit, first: None, before: None, frames: Vec::new() }
}

/// Packs columns, each of which is a field; a null leaves it out. `limit` is in bytes a frame: [`MAX_ROWS_BYTES`].
pub fn pack_columns(columns: &[(&[u8], Bytes<'_>)], rows: usize, ids: Ids<'_>, limit: usize) -> Outcome<Vec<Packed>> {
    let mut packer = packer(ids, limit);
    for row in 0..rows {
        packer.encoder.begin();
        for (name, column) in columns {
            if let Some(value) = column.get(row).map_err(|error| Fault::Core(row, error))? {
                packer.encoder.field(name, value);
            }
        }
        packer.end(row)?;
    }
    packer.cut();
    Ok(packer.frames)
}

/// Lists of pairs: row `r` has the pairs from `bounds[r]` on, up to `bounds[r + 1]`, both of them words of 32 bits.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    pub bounds: &'a [u8],
    pub names: Bytes<'a>,
    pub values: Bytes<'a>,
}

/// Packs lists of pairs of name and value; a null value leaves the field out.
pub fn pack_pairs(pairs: &Pairs<'_>, rows: usize, ids: Ids<'_>, limit: usize) -> Outcome<Vec<Packed>> {
    let mut packer = packer(ids, limit);
    for row in 0..rows {
        packer.encoder.begin();
        let bounds = word(pairs.bounds, row).zip(word(pairs.bounds, row + 1));
        let (start, end) =
            bounds.ok_or(Fault::Core(row, Error::Invalid("a list column with fewer offsets than rows")))?;
        let (start, end) = (u32::from_le_bytes(start) as usize, u32::from_le_bytes(end) as usize);
        // Beyond its bits every value counts as null: a wrong end would be walked up to, not noticed.
        if start < end && (pairs.names.offset(end).is_none() || pairs.values.offset(end).is_none()) {
            return Err(Fault::Core(row, Error::Invalid("a list column whose offsets lie outside its fields")));
        }
        for at in start..end {
            let fault = |error| Fault::Core(row, error);
            if let Some(value) = pairs.values.get(at).map_err(fault)? {
                let name = pairs.names.get(at).map_err(fault)?.ok_or(Fault::NoName(row))?;
                packer.encoder.field(name, value);
            }
        }
        packer.end(row)?;
    }
    packer.cut();
    Ok(packer.frames)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::block::BlockBuilder;
    use crate::rows;

    type Row = (Id, Vec<(Vec<u8>, Vec<u8>)>);

    struct Column {
        offsets: Vec<u8>,
        data: Vec<u8>,
        bits: Vec<u8>,
    }

    impl Column {
        fn of(values: &[Option<&str>]) -> Column {
            let mut column = Column { offsets: vec![0; 4], data: Vec::new(), bits: vec![0; values.len() / 8 + 1] };
            for (at, value) in values.iter().enumerate() {
                column.data.extend_from_slice(value.unwrap_or("").as_bytes());
                column.offsets.extend_from_slice(&(column.data.len() as u32).to_le_bytes());
                *column.bits.get_mut(at / 8).unwrap() |= u8::from(value.is_some()) << (at % 8);
            }
            column
        }

        fn bytes(&self) -> Bytes<'_> {
            let validity = Some(self.bits.as_slice());
            Bytes { offsets: &self.offsets, wide: false, data: &self.data, validity, base: 0, first_bit: 0 }
        }
    }

    fn unpacked(frame: &Packed) -> Vec<Row> {
        let first = frame.ids.map_or(Id::new(1, 0), |(first, _)| first);
        let mut builder = BlockBuilder::default();
        rows::decode(&frame.payload, first, frame.rows, 0..frame.rows, usize::MAX, &mut builder).unwrap();
        let block = builder.finish();
        let pairs = |row| block.pairs(row).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        (0..block.len()).map(|row| (block.id(row).unwrap(), pairs(row))).collect()
    }

    #[test]
    fn a_null_leaves_its_field_out() {
        let (a, b) = (Column::of(&[Some("1"), None, Some("")]), Column::of(&[Some("x"), Some("y"), None]));
        let columns = [(&b"a"[..], a.bytes()), (&b"b"[..], b.bytes())];
        let frames = pack_columns(&columns, 3, Ids::Automatic, MAX_ROWS_BYTES).unwrap();
        let found: Vec<_> = frames.iter().flat_map(unpacked).map(|(_, pairs)| pairs).collect();
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(found, [vec![pair("a", "1"), pair("b", "x")], vec![pair("b", "y")], vec![pair("a", "")]]);
        let nothing = Column::of(&[Some("1"), None]);
        let refused = pack_columns(&[(b"a", nothing.bytes())], 2, Ids::Automatic, MAX_ROWS_BYTES);
        assert_eq!(refused, Err(Fault::NoField(1)));
    }

    #[test]
    fn frames_are_cut_by_their_bytes_and_keep_ids_and_rows() {
        let values: Vec<String> = (0..500).map(|number| format!("value {number}")).collect();
        let column = Column::of(&values.iter().map(|value| Some(value.as_str())).collect::<Vec<_>>());
        let ids: Vec<Id> = (0..500).map(|number| Id::new(u64::MAX - 1000 + number / 3, number)).collect();
        let words = |of: fn(&Id) -> u64| ids.iter().flat_map(|id| of(id).to_le_bytes()).collect::<Vec<u8>>();
        let (ms, seq) = (words(|id| id.ms), words(|id| id.seq));
        let given = Ids::Words { ms: &ms, seq: &seq };
        let frames = pack_columns(&[(b"v", column.bytes())], 500, given, 1000).unwrap();
        assert!(frames.len() > 5);
        assert!(frames.iter().all(|frame| frame.payload.len() <= 1000));
        let found: Vec<Row> = frames.iter().flat_map(unpacked).collect();
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
        assert_eq!(found.last().unwrap().1, [(b"v".to_vec(), b"value 499".to_vec())]);
        assert_eq!(frames.last().unwrap().ids.unwrap().1, *ids.last().unwrap());
        assert_eq!(pack_columns(&[(b"v", column.bytes())], 500, given, 1000).unwrap(), frames);
    }

    #[test]
    fn ids_rise_and_are_there() {
        let column = Column::of(&[Some("v"); 2]);
        let packed = |text: [Option<&str>; 2]| {
            let ids = Column::of(&text);
            pack_columns(&[(b"v", column.bytes())], 2, Ids::Text(ids.bytes()), MAX_ROWS_BYTES).map(drop)
        };
        assert_eq!(packed([Some("5"), Some("5-1")]), Ok(()));
        assert_eq!(packed([Some("5-1"), Some("5-1")]), Err(Fault::Order(1)));
        assert_eq!(packed([Some("5-1"), None]), Err(Fault::NoId(1)));
        assert_eq!(packed([Some("5-x"), None]), Err(Fault::BadId(0)));
        assert_eq!(packed([Some("0-0"), None]), Err(Fault::Zero));
    }

    #[test]
    fn pairs_may_repeat_a_name_and_wrong_bounds_are_no_panic() {
        let names = Column::of(&[Some("a"), Some("a"), None, None]);
        let values = Column::of(&[Some("1"), Some("2"), None, Some("4")]);
        let bounds: Vec<u8> = [0u32, 3, 4, 9].iter().flat_map(|bound| bound.to_le_bytes()).collect();
        let pairs = Pairs { bounds: &bounds, names: names.bytes(), values: values.bytes() };
        let frames = pack_pairs(&pairs, 1, Ids::Automatic, MAX_ROWS_BYTES).unwrap();
        let found = frames.first().map(unpacked).unwrap();
        let pair = |value: &[u8]| (b"a".to_vec(), value.to_vec());
        assert_eq!(found, [(Id::new(1, 0), vec![pair(b"1"), pair(b"2")])]);
        assert_eq!(pack_pairs(&pairs, 2, Ids::Automatic, MAX_ROWS_BYTES), Err(Fault::NoName(1)));
        let short = Bytes { data: b"", ..values.bytes() };
        assert!(pack_pairs(&Pairs { values: short, ..pairs }, 1, Ids::Automatic, MAX_ROWS_BYTES).is_err());
        assert!(pack_pairs(&pairs, 9, Ids::Automatic, MAX_ROWS_BYTES).is_err());
        let bounds: Vec<u8> = [0u32, u32::MAX].iter().flat_map(|bound| bound.to_le_bytes()).collect();
        assert!(pack_pairs(&Pairs { bounds: &bounds, ..pairs }, 1, Ids::Automatic, MAX_ROWS_BYTES).is_err());
    }
}

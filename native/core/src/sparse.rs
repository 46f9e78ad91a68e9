//! The sparse index of a sealed segment: where each node stands, and the search for one.
//!
//! ```text
//! page-row* index-row*                         page-row (32)
//!                                                 0  first ID of its first index row    16
//! index-row (40)                                 16  entries before it                  u64
//!    0  first ID             16                  24  CRC32C of its index rows           u32
//!   16  offset of the node   u64                 28  zero                               4
//!   24  entries before it    u64
//!   32  length of the node   u32
//!   36  entries in it        u32
//! ```
//!
//! Page `p` is the index rows from `p` times the footer's *index rows a page* on. To find a node takes the page rows,
//! whose checksum is compared when a segment is opened, and one page, whose checksum is compared when it is first
//! touched: of a file that is not in memory no more is read than these. Where there are no page rows the whole index is
//! compared at the opening. What is compared is read from the file first, if there is one: a disk that fails is an error
//! then, while a first touch of a mapping would end the process.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::id::Id;
use crate::node::{MAX_NODE_ENTRIES, MAX_NODE_RAW_BYTES, NODE_HEAD_BYTES};
use crate::plurals::number_of;
use crate::sealed::Footer;
use crate::wire::{put_id, put_u32, put_u64, Reader};

pub const INDEX_ROW_BYTES: usize = 40;
pub const PAGE_ROW_BYTES: usize = 32;
/// Index rows in a page of the files written now: about five kilobytes.
pub const PAGE_ROWS: usize = 128;

/// One row of the index: where a node stands and what it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRow {
    pub first: Id,
    pub offset: u64,
    pub before: u64,
    pub length: u32,
    pub entries: u32,
}

impl IndexRow {
    pub fn put(&self, out: &mut Vec<u8>) {
        put_id(out, self.first);
        put_u64(out, self.offset);
        put_u64(out, self.before);
        put_u32(out, self.length);
        put_u32(out, self.entries);
    }

    fn parse(bytes: &[u8]) -> Result<IndexRow> {
        let mut reader = Reader::new(bytes, "index row");
        Ok(IndexRow {
            first: reader.id()?,
            offset: reader.u64()?,
            before: reader.u64()?,
            length: reader.u32()?,
            entries: reader.u32()?,
        })
    }
}

struct PageRow {
    first: Id,
    before: u64,
    crc: u32,
}

impl PageRow {
    fn parse(bytes: &[u8]) -> Result<PageRow> {
        let mut reader = Reader::new(bytes, "page row");
        Ok(PageRow { first: reader.id()?, before: reader.u64()?, crc: reader.u32()? })
    }
}

/// The page rows of an index, for pages of so many rows: none for one of a single page, which is compared as a whole.
pub fn page_rows(index: &[u8], in_page: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let page_bytes = in_page.max(1) * INDEX_ROW_BYTES;
    if index.len() <= page_bytes {
        return Ok(out);
    }
    for page in index.chunks(page_bytes) {
        let row = IndexRow::parse(page)?;
        put_id(&mut out, row.first);
        put_u64(&mut out, row.before);
        put_u32(&mut out, crc32c::crc32c(page));
        put_u32(&mut out, 0);
    }
    Ok(out)
}

/// The page rows of an index, and which pages have been compared with their checksum: a bit each, which any thread may set.
#[derive(Debug)]
pub struct Pages {
    rows: Vec<u8>,
    compared: Box<[AtomicU64]>,
}

impl Pages {
    /// From the bytes at the footer's `pages_offset`: as many as its `pages_bytes`.
    pub fn new(bytes: &[u8], footer: &Footer) -> Result<Pages> {
        let offset = footer.pages_offset();
        let rows = bytes.get(..footer.pages_bytes());
        let rows = rows.ok_or_else(|| Error::corrupt("page rows", offset, footer.pages_bytes(), bytes.len()))?;
        if footer.pages() > 0 {
            same("page rows", offset, footer.pages_crc, rows)?;
        }
        let compared = (0..footer.pages().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Pages { rows: rows.to_vec(), compared })
    }

    fn row(&self, number: usize) -> Result<PageRow> {
        let start = number.saturating_mul(PAGE_ROW_BYTES);
        let bytes = self.rows.get(start..start.saturating_add(PAGE_ROW_BYTES));
        PageRow::parse(bytes.ok_or(Error::Invalid("a page past the end of the index"))?)
    }

    #[inline]
    fn is_compared(&self, page: usize) -> bool {
        self.compared.get(page / 64).is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    fn note(&self, page: usize) {
        if let Some(word) = self.compared.get(page / 64) {
            word.fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }
}

/// The file that an index is mapped from.
pub trait Source {
    /// `size` bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Unread`].
    fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>>;
}

/// The index rows, mapped or read.
#[derive(Clone, Copy)]
pub struct Index<'a> {
    bytes: &'a [u8],
    footer: &'a Footer,
    pages: &'a Pages,
    source: Option<&'a dyn Source>,
}

impl<'a> Index<'a> {
    /// The index of a segment, of the bytes from the footer's `index_offset` on, which may be mapped from a `source`.
    pub fn new(
        bytes: &'a [u8],
        footer: &'a Footer,
        pages: &'a Pages,
        source: Option<&'a dyn Source>,
    ) -> Result<Index<'a>> {
        let bytes = bytes.get(..footer.index_bytes()).ok_or_else(|| {
            Error::corrupt("sparse index", footer.index_offset, number_of(footer.nodes.into(), "row"), bytes.len())
        })?;
        Ok(Index { bytes, footer, pages, source })
    }

    /// All of it: with its checksum, and with what the page rows say.
    pub fn check(&self) -> Result<()> {
        let offset = self.footer.index_offset;
        same("sparse index", offset, self.footer.index_crc, &self.first_touch(offset, self.bytes)?)?;
        (0..self.footer.pages()).try_for_each(|page| self.check_page(page))
    }

    /// Bytes of the mapping that nobody may have touched yet, from the file where there is one.
    fn first_touch(&self, offset: u64, mapped: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(match self.source {
            Some(source) => Cow::Owned(source.read(offset, mapped.len())?),
            None => Cow::Borrowed(mapped),
        })
    }

    #[cold]
    fn check_page(&self, number: usize) -> Result<()> {
        let page = self.pages.row(number)?;
        let size = self.footer.page_rows as usize * INDEX_ROW_BYTES;
        let start = number.saturating_mul(size);
        let rows = self.bytes.get(start..self.bytes.len().min(start.saturating_add(size))).unwrap_or(&[]);
        let offset = self.footer.index_offset + start as u64;
        let rows = self.first_touch(offset, rows)?;
        same("page of the sparse index", offset, page.crc, &rows)?;
        let first = IndexRow::parse(&rows)?;
        if (first.first, first.before) != (page.first, page.before) {
            let found = format!("{} behind {}", first.first, number_of(first.before, "entry"));
            return Err(Error::corrupt("page of the sparse index", offset, "what its page row says", found));
        }
        self.pages.note(number);
        Ok(())
    }

    pub fn rows(&self) -> usize {
        self.footer.nodes as usize
    }

    /// Row `number`, with the sizes it claims held against the limits.
    pub fn row(&self, number: usize) -> Result<IndexRow> {
        if let Some(page) = number.checked_div(self.footer.page_rows as usize) {
            if !self.pages.is_compared(page) {
                self.check_page(page)?;
            }
        }
        let start = number.saturating_mul(INDEX_ROW_BYTES);
        let bytes = self.bytes.get(start..start.saturating_add(INDEX_ROW_BYTES));
        let row = IndexRow::parse(bytes.ok_or(Error::Invalid("a node past the end of the segment"))?)?;
        let largest = MAX_NODE_RAW_BYTES + NODE_HEAD_BYTES;
        if row.length as usize > largest || row.entries as usize > MAX_NODE_ENTRIES {
            let found =
                format!("{} and {}", number_of(row.length.into(), "byte"), number_of(row.entries.into(), "entry"));
            return Err(Error::corrupt("index row", self.offset_of(number), "sizes within the limits", found));
        }
        Ok(row)
    }

    /// Where row `number` stands in the file.
    pub fn offset_of(&self, number: usize) -> u64 {
        self.footer.index_offset.saturating_add(number.saturating_mul(INDEX_ROW_BYTES) as u64)
    }

    /// The last row of which `before` holds, by its first ID and the entries before it; the first where it holds of none.
    fn last_that(&self, holds: impl Fn(Id, u64) -> bool) -> Result<usize> {
        let page_rows = self.footer.page_rows as usize;
        let (mut low, mut high) = (0, self.rows());
        if page_rows > 0 {
            let behind =
                partition(0, self.footer.pages(), |page| self.pages.row(page).map(|row| holds(row.first, row.before)))?;
            low = behind.saturating_sub(1) * page_rows;
            high = high.min(low + page_rows);
        }
        let behind = partition(low, high, |number| self.row(number).map(|row| holds(row.first, row.before)))?;
        Ok(behind.saturating_sub(1).max(low))
    }

    /// The node that holds `id`, or would: the last one that does not begin beyond it (the first where all do).
    pub fn node_of_id(&self, id: Id) -> Result<usize> {
        self.last_that(|first, _| first <= id)
    }

    /// The node that holds position `position` of the segment.
    pub fn node_of_position(&self, position: u64) -> Result<usize> {
        self.last_that(|_, before| before <= position)
    }
}

fn same(what: &'static str, offset: u64, crc: u32, bytes: &[u8]) -> Result<()> {
    let found = crc32c::crc32c(bytes);
    if found != crc {
        return Err(Error::corrupt(what, offset, format!("checksum {crc:08x}"), format!("{found:08x}")));
    }
    Ok(())
}

/// The first of `low..high` of which `holds` does not hold: a bisection, as they are in order.
fn partition(mut low: usize, mut high: usize, holds: impl Fn(usize) -> Result<bool>) -> Result<usize> {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::sealed::SegmentKey;

    /// Page rows, and an index of so many rows, ten IDs and fifty entries apart; and a footer for it.
    fn index_of(rows: u64, with_pages: bool) -> (Vec<u8>, Vec<u8>, Footer) {
        let mut bytes = Vec::new();
        for node in 0..rows {
            let row = IndexRow { first: Id::new(node * 10, 0), offset: 0, before: node * 50, length: 99, entries: 50 };
            row.put(&mut bytes);
        }
        let pages = if with_pages { page_rows(&bytes, PAGE_ROWS).unwrap() } else { Vec::new() };
        let footer = Footer {
            key: SegmentKey { uuid: [1; 16], segment: 4, generation: 2, salt: 77 },
            nodes: rows as u32,
            entries: rows * 50,
            first: Id::MIN,
            last: Id::MAX,
            min_time_ms: 0,
            max_time_ms: 0,
            index_offset: 1000 + pages.len() as u64,
            index_crc: crc32c::crc32c(&bytes),
            snapshot_crc: 0,
            snapshot_offset: 0,
            snapshot_length: 0,
            file_length: 0,
            raw_bytes: 0,
            page_rows: if pages.is_empty() { 0 } else { PAGE_ROWS as u32 },
            pages_crc: crc32c::crc32c(&pages),
        };
        (pages, bytes, footer)
    }

    #[test]
    fn nodes_are_found_by_id_and_by_position_with_pages_and_without() {
        for rows in [1, 2, 127, 128, 129, 256, 257, 1000] {
            for with_pages in [false, true] {
                let (pages, bytes, footer) = index_of(rows, with_pages);
                assert_eq!(footer.pages() > 0, with_pages && rows > 128);
                let pages = Pages::new(&pages, &footer).unwrap();
                let index = Index::new(&bytes, &footer, &pages, None).unwrap();
                index.check().unwrap();
                for node in 0..rows {
                    let number = node as usize;
                    assert_eq!(index.node_of_id(Id::new(node * 10, 0)).unwrap(), number);
                    assert_eq!(index.node_of_id(Id::new(node * 10 + 9, 7)).unwrap(), number);
                    assert_eq!(index.node_of_position(node * 50).unwrap(), number);
                    assert_eq!(index.node_of_position(node * 50 + 49).unwrap(), number);
                    assert_eq!(index.row(number).unwrap().before, node * 50);
                }
                assert_eq!(index.node_of_id(Id::MAX).unwrap(), rows as usize - 1);
                assert_eq!(index.node_of_id(Id::MIN).unwrap(), 0);
                assert!(index.row(rows as usize).is_err());
            }
        }
    }

    #[test]
    fn a_damaged_page_is_seen_by_whoever_reads_it_and_by_nobody_else() {
        let (pages, bytes, footer) = index_of(300, true);
        for at in (0..bytes.len()).step_by(3) {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            let pages = Pages::new(&pages, &footer).unwrap();
            let index = Index::new(&bad, &footer, &pages, None).unwrap();
            let damaged = at / (PAGE_ROWS * INDEX_ROW_BYTES);
            for node in 0..300usize {
                let found = [
                    index.node_of_id(Id::new(node as u64 * 10, 5)),
                    index.node_of_position(node as u64 * 50 + 1),
                    index.row(node).map(|_| node),
                ];
                for each in found {
                    assert_eq!(each.ok(), (node / PAGE_ROWS != damaged).then_some(node), "byte {at}");
                }
            }
            assert!(index.check().is_err());
        }
    }

    #[test]
    fn damaged_page_rows_are_seen_when_they_are_read_and_an_index_without_them_when_it_is_checked() {
        let (pages, _, footer) = index_of(300, true);
        for bit in 0..pages.len() * 8 {
            let mut bad = pages.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Pages::new(&bad, &footer).is_err());
        }
        assert!(Pages::new(&pages[..pages.len() - 1], &footer).is_err());
        let (pages, mut bytes, footer) = index_of(300, false);
        bytes[5000] ^= 1;
        let pages = Pages::new(&pages, &footer).unwrap();
        assert!(Index::new(&bytes, &footer, &pages, None).unwrap().check().is_err());
    }

    #[test]
    fn page_rows_that_are_another_indexes_are_seen() {
        let (mut pages, bytes, mut footer) = index_of(300, true);
        pages[PAGE_ROW_BYTES + 16] ^= 1; // the entries before page 1
        footer.pages_crc = crc32c::crc32c(&pages);
        let pages = Pages::new(&pages, &footer).unwrap();
        let index = Index::new(&bytes, &footer, &pages, None).unwrap();
        assert!(index.row(130).is_err() && index.row(5).is_ok() && index.check().is_err());
        assert!(Index::new(&bytes[..bytes.len() - 1], &footer, &pages, None).is_err());
    }

    #[test]
    fn a_row_past_the_limits_is_named_by_its_place_in_the_file() {
        let (pages, mut bytes, mut footer) = index_of(3, false);
        bytes[2 * INDEX_ROW_BYTES + 36..].copy_from_slice(&(MAX_NODE_ENTRIES as u32 + 1).to_le_bytes());
        footer.index_crc = crc32c::crc32c(&bytes);
        let pages = Pages::new(&pages, &footer).unwrap();
        let index = Index::new(&bytes, &footer, &pages, None).unwrap();
        let found = format!("99 bytes and {}", number_of(MAX_NODE_ENTRIES as u64 + 1, "entry"));
        let expected = Error::corrupt("index row", 1000 + 80, "sizes within the limits", found);
        assert_eq!(index.row(2), Err(expected));
        assert!(index.row(1).is_ok());
    }

    /// A file that is no longer than it is.
    struct Cut(Vec<u8>);

    impl Source for Cut {
        fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>> {
            let start = offset as usize;
            self.0.get(start..start + size).map(<[u8]>::to_vec).ok_or(Error::Unread { code: None })
        }
    }

    #[test]
    fn what_is_touched_first_is_read_from_the_file() {
        let (pages, bytes, footer) = index_of(300, true);
        let whole = [vec![0; 1000], pages.clone(), bytes.clone()].concat();
        let cut = Cut(whole[..whole.len() - 1].to_vec());
        let pages = Pages::new(&pages, &footer).unwrap();
        let index = Index::new(&bytes, &footer, &pages, Some(&cut)).unwrap();
        assert!(index.row(255).is_ok());
        assert_eq!(index.row(256), Err(Error::Unread { code: None }));
        assert_eq!(index.check(), Err(Error::Unread { code: None }));
    }
}

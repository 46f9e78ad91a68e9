//! Marks in a large payload of rows: places where reading may begin, whatever comes before them.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::rows::{ShapeAt, Steps};

/// From one mark to the next at most, but for a longer row: what a read steps over, and compares the checksum of.
const MARK_ROWS: u32 = 256;
const MARK_BYTES: usize = 64 << 10;

/// Who begins at a mark takes over all shapes defined before it. So there are no marks behind the row that defines one
/// shape more than this: rows there are stepped over from the last mark on.
const MOST_SHAPES: usize = 1024;

/// A row that reading may begin at.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) row: u32,
    /// How many shapes were defined before it.
    pub(crate) shapes: u32,
    /// Where the row begins in its payload.
    pub(crate) at: usize,
    /// The ID of the row before; the first row's own.
    pub(crate) before: Id,
    /// Of all up to the next mark.
    crc: u32,
}

/// The marks of one payload, in order; the first row is one.
///
/// The payload's own checksum is compared once, before they are made. From then on each part has one, so that whoever
/// reads a part compares what he reads, and nothing else.
#[derive(Debug)]
pub struct Marks {
    marks: Vec<Mark>,
    /// Of the payload.
    length: usize,
    pub(crate) shapes: Vec<ShapeAt>,
    /// The checksums of their definitions.
    definitions: Vec<u32>,
}

impl Marks {
    /// Steps over all rows once.
    ///
    /// # Errors
    /// [`crate::error::Error::Corrupt`] for what are no rows.
    pub fn of(payload: &[u8], first: Id, rows: u32) -> Result<Marks> {
        let mut steps = Steps::new(payload, first);
        let mut marks: Vec<Mark> = Vec::new();
        while steps.row < rows && steps.shapes.len() <= MOST_SHAPES {
            let (row, at) = (steps.row, steps.reader.position());
            if marks.last().is_none_or(|last| row - last.row >= MARK_ROWS || at - last.at >= MARK_BYTES) {
                marks.push(Mark { row, shapes: steps.shapes.len() as u32, at, before: steps.id, crc: 0 });
            }
            steps.over()?;
        }
        marks.shrink_to_fit();
        let mut end = payload.len();
        for mark in marks.iter_mut().rev() {
            mark.crc = sum(payload, mark.at, end);
            end = mark.at;
        }
        let mut shapes = steps.shapes;
        shapes.truncate(MOST_SHAPES);
        let definitions = shapes.iter().map(|shape| sum(payload, shape.start, shape.end)).collect();
        Ok(Marks { marks, length: payload.len(), shapes, definitions })
    }

    /// The last mark that is not behind a row.
    pub(crate) fn at_or_before(&self, row: u32) -> Option<&Mark> {
        self.last(self.marks.partition_point(|mark| mark.row <= row))
    }

    /// The last mark that has IDs below `id` only before it: IDs rise from row to row, whatever the bytes are.
    pub(crate) fn below(&self, id: Id) -> Option<&Mark> {
        self.last(self.marks.partition_point(|mark| mark.row == 0 || mark.before < id))
    }

    fn last(&self, marks: usize) -> Option<&Mark> {
        self.marks.get(marks.checked_sub(1)?)
    }

    /// The first mark behind a row.
    pub(crate) fn behind(&self, row: u32) -> Option<&Mark> {
        self.marks.get(self.marks.partition_point(|mark| mark.row <= row))
    }

    /// Compares the part that a row stands in.
    pub(crate) fn compare(&self, payload: &[u8], row: u32) -> Result<()> {
        let Some(mark) = self.at_or_before(row) else { return Ok(()) };
        let end = self.behind(row).map_or(self.length, |next| next.at);
        same(mark.crc, sum(payload, mark.at, end), mark.at)
    }

    /// Compares the definition of a shape.
    pub(crate) fn compare_shape(&self, payload: &[u8], number: usize) -> Result<()> {
        match (self.shapes.get(number), self.definitions.get(number)) {
            (Some(shape), Some(crc)) => same(*crc, sum(payload, shape.start, shape.end), shape.start),
            _ => Ok(()), // it is defined in what is read
        }
    }
}

fn sum(payload: &[u8], start: usize, end: usize) -> u32 {
    crc32c::crc32c(payload.get(start..end).unwrap_or(&[]))
}

fn same(crc: u32, found: u32, at: usize) -> Result<()> {
    if crc == found {
        return Ok(());
    }
    Err(Error::corrupt("entries frame", at as u64, format!("checksum {crc:08x}"), format!("{found:08x}")))
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;

//! Marks in a large payload of rows: places where reading may begin, whatever comes before them.

use crate::error::Result;
use crate::id::Id;
use crate::rows::{ShapeAt, Steps};

/// From one mark to the next: what a read steps over at most.
pub const MARK_ROWS: u32 = 256;

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
    /// The ID of the row before.
    pub(crate) before: Id,
}

/// The marks of one payload, in order. The first row needs none.
#[derive(Debug)]
pub struct Marks {
    marks: Vec<Mark>,
    pub(crate) shapes: Vec<ShapeAt>,
}

impl Marks {
    /// Steps over all rows once.
    ///
    /// # Errors
    /// [`crate::error::Error::Corrupt`] for what are no rows.
    pub fn of(payload: &[u8], first: Id, rows: u32) -> Result<Marks> {
        let mut steps = Steps::new(payload, first);
        let mut marks = Vec::new();
        while steps.row < rows && steps.shapes.len() <= MOST_SHAPES {
            if steps.row > 0 && steps.row % MARK_ROWS == 0 {
                let (row, shapes) = (steps.row, steps.shapes.len() as u32);
                marks.push(Mark { row, shapes, at: steps.reader.position(), before: steps.id });
            }
            steps.over()?;
        }
        steps.shapes.truncate(MOST_SHAPES);
        steps.shapes.shrink_to_fit();
        marks.shrink_to_fit();
        Ok(Marks { marks, shapes: steps.shapes })
    }

    /// The last mark that is not behind a row.
    pub(crate) fn at_or_before(&self, row: u32) -> Option<&Mark> {
        self.last(self.marks.partition_point(|mark| mark.row <= row))
    }

    /// The last mark that has IDs below `id` only before it: IDs rise from row to row, whatever the bytes are.
    pub(crate) fn below(&self, id: Id) -> Option<&Mark> {
        self.last(self.marks.partition_point(|mark| mark.before < id))
    }

    fn last(&self, marks: usize) -> Option<&Mark> {
        self.marks.get(marks.checked_sub(1)?)
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;

//! What can be wrong with bytes, and where.

use std::fmt;

use crate::id::Id;
use crate::plurals::number_of;

/// A fault in bytes that came from a disk or a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The bytes at `offset` are not what was written there.
    Corrupt { what: &'static str, offset: u64, expected: String, found: String },
    /// Something is larger than its documented limit.
    Limit { what: &'static str, limit: u64, found: u64 },
    /// Written by a later version of the format.
    Newer { what: &'static str, supported: u32, found: u32 },
    /// The medium did not give bytes that it should have: the system's code, None where the file is too short.
    Unread { code: Option<i32> },
    /// An entry holds a field twice, and that is not to be.
    Twice { id: Id, name: String },
    /// There is no memory for something of this size.
    NoMemory { what: &'static str, bytes: u64 },
    /// A request that cannot be met: out of range, out of order.
    Invalid(&'static str),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A fault of content, with what was expected and what was found.
    pub fn corrupt(what: &'static str, offset: u64, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Error::Corrupt { what, offset, expected: expected.to_string(), found: found.to_string() }
    }

    /// An entry that holds the field `name` twice.
    pub fn twice(id: Option<Id>, name: &[u8]) -> Self {
        Error::Twice { id: id.unwrap_or(Id::MIN), name: String::from_utf8_lossy(name).into_owned() }
    }

    /// The same fault, `base` bytes further into the file.
    #[must_use]
    pub fn at(self, base: u64) -> Self {
        match self {
            Error::Corrupt { what, offset, expected, found } => {
                Error::Corrupt { what, offset: offset.saturating_add(base), expected, found }
            }
            other => other,
        }
    }
}

/// Makes room for so many more bytes of `what`: a buffer that grows by itself ends the process where there is none.
#[inline]
pub fn make_room(out: &mut Vec<u8>, more_bytes: usize, what: &'static str) -> Result<()> {
    let bytes = (out.len() + more_bytes) as u64;
    out.try_reserve(more_bytes).map_err(|_| Error::NoMemory { what, bytes })
}

/// Adds to a list that may become long: likewise.
pub fn push<T>(out: &mut Vec<T>, item: T, what: &'static str) -> Result<()> {
    let bytes = (size_of::<T>() * (out.len() + 1)) as u64;
    out.try_reserve(1).map_err(|_| Error::NoMemory { what, bytes })?;
    out.push(item);
    Ok(())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Corrupt { what, offset, expected, found } => {
                write!(f, "{what} at offset {offset}: expected {expected}, found {found}")
            }
            Error::Limit { what, limit, found } => write!(f, "{what} is {found}, over the limit of {limit}"),
            Error::Newer { what, supported, found } => {
                write!(f, "{what} has format version {found}; this build reads up to {supported}")
            }
            Error::Unread { code: Some(code) } => write!(f, "could not be read: system error {code}"),
            Error::Unread { code: None } => f.write_str("the file is shorter than it was"),
            Error::Twice { id, name } => {
                write!(
                    f,
                    "entry {}-{} holds the field {name} twice: duplicates 'first' or 'last' says which counts",
                    id.ms, id.seq
                )
            }
            Error::NoMemory { what, bytes } => {
                write!(
                    f,
                    "no memory for {what} of {}: take less at a time, or raise what ulimit -v says",
                    number_of(*bytes, "byte")
                )
            }
            Error::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

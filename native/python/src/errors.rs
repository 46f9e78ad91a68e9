//! The one place that turns faults into Python exceptions: classes of `diskstream.errors`, and Python's own `MemoryError`.

use diskstream_core::error::Error;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use std::io;

/// Why an operation did not happen, found out without Python.
#[derive(Debug)]
pub enum Failure {
    /// Python must do something first, then try again: one of the `Reason` codes.
    Reason(u8),
    Core(Error),
    Io(&'static str, io::Error),
    /// The log is poisoned; the text says since what.
    Poisoned(String),
    /// The ID given is not above the last one.
    NotAbove,
    /// The last possible ID is taken.
    Exhausted,
    /// `0-0` was given.
    Zero,
    Closed,
    /// The part was committed before: there is nothing to append.
    Committed,
    /// This thread holds the lock that it asks for.
    Reentered,
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Core(error)
    }
}

/// Reasons that an append hands up to Python.
pub mod reason {
    /// The file must grow by some zeros first.
    pub const EXTEND: u8 = 1;
    /// The segment is full.
    pub const ROLL: u8 = 2;
    /// Another process has rolled.
    pub const FOLLOW: u8 = 3;
    /// A holder of the lock died.
    pub const CHECK: u8 = 4;
    /// The stream was deleted or renamed.
    pub const MOVED: u8 = 5;
    /// The frontier of automatic IDs must be moved on.
    pub const FRONTIER: u8 = 6;
    /// The log is damaged.
    pub const ROTTEN: u8 = 7;
    /// This opening of the log was closed.
    pub const CLOSED: u8 = 8;
    /// What comes next stands in sealed segments.
    pub const SEALED: u8 = 9;
    /// The view of pending entries must be asked first.
    pub const VIEW: u8 = 10;
}

/// Bytes as people read them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

type Arguments<'py> = Vec<Bound<'py, PyAny>>;

fn build(py: Python<'_>, class: &str, arguments: PyResult<Arguments<'_>>) -> PyErr {
    let made = arguments.and_then(|arguments| {
        let class = py.import("diskstream.errors")?.getattr(class)?;
        class.call1(pyo3::types::PyTuple::new(py, arguments)?)
    });
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

macro_rules! arguments {
    ($py:expr, $($value:expr),*) => {
        $crate::errors::collect([$($value.into_pyobject($py).map(Bound::into_any).map_err(PyErr::from)),*])
    };
}

fn collect<'py, const N: usize>(values: [PyResult<Bound<'py, PyAny>>; N]) -> PyResult<Arguments<'py>> {
    values.into_iter().collect()
}

/// A forked child goes on with a call of its parent's, and with what that had open: it is to be done anew.
pub fn forked(py: Python<'_>) -> PyErr {
    moved(py, "ForkedError")
}

/// Another thread of this process gave up the page: look up anew what it is of.
pub fn given_up(py: Python<'_>) -> PyErr {
    moved(py, "GivenUpError")
}

fn moved(py: Python<'_>, class: &str) -> PyErr {
    let class = py.import("diskstream.engine.moved").and_then(|module| module.getattr(class));
    class.and_then(|class| class.call0()).map_or_else(|error| error, PyErr::from_value)
}

/// An `ArgumentError`: the caller asked for what cannot be.
pub fn argument(py: Python<'_>, text: &str) -> PyErr {
    build(py, "ArgumentError", arguments!(py, text))
}

/// An `ArgumentError` for the wrong kind of thing.
pub fn wrong_type(py: Python<'_>, text: &str) -> PyErr {
    build(py, "ArgumentTypeError", arguments!(py, text))
}

/// An `InvalidIDError` that repeats what was given.
pub fn invalid_id(py: Python<'_>, given: &str) -> PyErr {
    build(py, "InvalidIDError", arguments!(py, given))
}

/// A fault in the bytes of `path`.
pub fn core(py: Python<'_>, path: &str, error: Error) -> PyErr {
    match error {
        Error::Corrupt { what, offset, expected, found } => {
            build(py, "CorruptionError", arguments!(py, path, what, offset, expected, found))
        }
        Error::Limit { what, limit, found } => build(py, "LimitError", arguments!(py, what, limit, found)),
        Error::Newer { what, supported, found } => {
            build(py, "NewerFormatError", arguments!(py, path, what, supported, found))
        }
        Error::Unread { code } => {
            let error = code.map_or_else(|| io::ErrorKind::UnexpectedEof.into(), io::Error::from_raw_os_error);
            storage(py, path, "read", &error)
        }
        Error::Twice { .. } => argument(py, &error.to_string()),
        Error::NoMemory { .. } => PyMemoryError::new_err(error.to_string()),
        Error::Invalid(text) => argument(py, text),
    }
}

/// A failed system call on `path`: `DiskFullError` where that is what it says, else `StorageError`.
pub fn storage(py: Python<'_>, path: &str, action: &str, error: &io::Error) -> PyErr {
    let code = error.raw_os_error().unwrap_or(5);
    let text = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file is shorter than it was".to_owned(),
        _ => error.to_string(),
    };
    build(py, "storage_error", arguments!(py, path, action, code, text))
}

/// Lets signal handlers run in the midst of a wait without the GIL: Ctrl-C ends it. An interpreter that is on its way
/// out runs none: who adds from a finalizer then waits on.
pub fn signals() -> Result<(), Failure> {
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(())).map_err(Failure::Python)
}

/// A failure in words for people, where no exception is raised yet.
pub fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Io(action, error) => format!("could not {action}: {error}"),
        Failure::Python(error) => Python::attach(|py| error.value(py).to_string()),
        Failure::Core(error) => error.to_string(),
        other => format!("{other:?}"),
    }
}

/// Any failure but a reason, which is the caller's to hand on.
pub fn failure(py: Python<'_>, path: &str, failure: Failure) -> PyErr {
    match failure {
        Failure::Core(error) => core(py, path, error),
        Failure::Io(action, error) => storage(py, path, action, &error),
        Failure::Poisoned(text) => build(py, "PoisonedError", arguments!(py, path, text)),
        Failure::NotAbove => build(py, "IDOrderError", arguments!(py,)),
        Failure::Exhausted => build(py, "IDExhaustedError", arguments!(py,)),
        Failure::Zero => build(py, "ZeroIDError", arguments!(py,)),
        Failure::Closed => build(py, "ClosedError", arguments!(py, "the log")),
        Failure::Committed => argument(py, "this part was committed before"),
        Failure::Reentered => argument(py, "this thread is changing the stream already: not from a signal handler"),
        Failure::Python(error) => error,
        Failure::Reason(code) => argument(py, &format!("reason {code} was not handled")),
    }
}

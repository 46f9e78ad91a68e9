//! `Ctl`: the shared page of a stream.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskstream_sys::ctl::{Bell, Ctl as Page, Lock, Word, FLAG_CHECK};
use diskstream_sys::forks;
use diskstream_sys::mutex::Locked;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{self, failure, storage, Failure};
use crate::sleeping::{sleep, Watched, SLICE};

/// A position word: `segment << 40 | offset`.
pub fn place(segment: u64, offset: u64) -> u64 {
    (segment << 40) | (offset & ((1 << 40) - 1))
}

pub fn split(word: u64) -> (u64, u64) {
    (word >> 40, word & ((1 << 40) - 1))
}

/// The mapped page `ctl` of a stream.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Ctl {
    pub page: Arc<Page>,
    /// Threads of this process that have the maintenance lock by this mapping, or wait for it.
    maintaining: Arc<AtomicUsize>,
}

fn lock_of(number: u8) -> Lock {
    match number {
        0 => Lock::Append,
        1 => Lock::Flush,
        _ => Lock::Maintenance,
    }
}

/// Says that this process has just been forked: what changes a page or a log file that was opened before is refused.
#[pyfunction]
pub fn forked() {
    forks::forked();
}

/// An error where a forked child goes on with a page of its parent's: in a call in which a signal handler forked.
fn ours(py: Python<'_>, page: &Page) -> PyResult<()> {
    if page.is_left() {
        return Err(errors::forked(py));
    }
    Ok(())
}

/// Takes the append lock, off the GIL where it must wait. An error only where a signal came in between.
pub fn acquire(py: Python<'_>, page: &Page, lock: Lock) -> PyResult<()> {
    ours(py, page)?;
    let mutex = page.lock(lock);
    let mut locked = mutex.spin_lock();
    while locked == Locked::No {
        locked = py.detach(|| page.lock(lock).lock(SLICE));
        if locked == Locked::No {
            py.check_signals()?;
            ours(py, page)?;
        }
    }
    match locked {
        Locked::Mine => return Err(failure(py, "ctl", Failure::Reentered)),
        Locked::GivenUp => return Err(errors::given_up(py)),
        _ => {}
    }
    if locked == Locked::AfterDeath && lock == Lock::Append {
        page.raise_flags(FLAG_CHECK);
    }
    Ok(())
}

/// Holds one of a page's locks for the length of a `with` block.
///
/// Taking and giving up are calls into native code, between which and the block Python handles no signal: Ctrl-C
/// cannot leave the lock behind.
#[pyclass(frozen, module = "diskstream._native")]
pub struct Guard {
    page: Arc<Page>,
    lock: Lock,
    wait: bool,
    held: AtomicBool,
    maintaining: Arc<AtomicUsize>,
}

#[pymethods]
impl Guard {
    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        // Counted before it is taken, until it is given up: who closes the page sees each holder there is.
        self.count(AtomicUsize::fetch_add);
        let taken = self.take(py);
        if !matches!(taken, Ok(true)) {
            self.count(AtomicUsize::fetch_sub);
        }
        taken
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, _details: &Bound<'_, PyTuple>) {
        if self.held.swap(false, Ordering::Relaxed) {
            self.page.lock(self.lock).unlock();
            self.count(AtomicUsize::fetch_sub);
        }
    }
}

impl Guard {
    fn count(&self, change: impl Fn(&AtomicUsize, usize, Ordering) -> usize) {
        if self.lock == Lock::Maintenance {
            change(&self.maintaining, 1, Ordering::SeqCst);
        }
    }

    fn take(&self, py: Python<'_>) -> PyResult<bool> {
        if self.wait {
            acquire(py, &self.page, self.lock)?;
            self.held.store(true, Ordering::Relaxed);
            return Ok(true);
        }
        ours(py, &self.page)?;
        let locked = self.page.lock(self.lock).try_lock();
        if locked == Locked::GivenUp {
            return Err(errors::given_up(py));
        }
        if locked == Locked::AfterDeath && self.lock == Lock::Append {
            self.page.raise_flags(FLAG_CHECK);
        }
        let held = matches!(locked, Locked::Yes | Locked::AfterDeath);
        self.held.store(held, Ordering::Relaxed);
        Ok(held)
    }
}

#[pymethods]
impl Ctl {
    #[new]
    fn new(py: Python<'_>, fd: RawFd, path: &str) -> PyResult<Ctl> {
        let page = Page::new(fd).map_err(|error| storage(py, path, "map", &error))?;
        Ok(Ctl { page: Arc::new(page), maintaining: Arc::new(AtomicUsize::new(0)) })
    }

    /// Makes the page anew. Only for who has proved that nobody else uses it.
    fn init(&self, py: Python<'_>, generation: u64, flags: u32) -> PyResult<()> {
        ours(py, &self.page)?;
        self.page.init(generation, flags).map_err(|error| storage(py, "ctl", "initialise", &error))
    }

    /// Says in which boot the log was put right: the last step of a recovery.
    fn confirm(&self, py: Python<'_>, boot: [u8; 16]) -> PyResult<()> {
        ours(py, &self.page)?;
        self.page.confirm(boot);
        Ok(())
    }

    #[getter]
    fn ready(&self) -> bool {
        self.page.is_ready()
    }

    #[getter]
    fn is_of_our_namespace(&self) -> bool {
        self.page.is_of_our_namespace()
    }

    #[getter]
    fn boot(&self) -> [u8; 16] {
        self.page.boot()
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.page.get(Word::Generation)
    }

    #[getter]
    fn flags(&self) -> u32 {
        self.page.flags()
    }

    fn raise_flags(&self, py: Python<'_>, flags: u32) -> PyResult<()> {
        ours(py, &self.page)?;
        self.page.raise_flags(flags);
        self.page.wake_queue(usize::MAX, None);
        self.page.ring(Bell::Readers);
        Ok(())
    }

    fn clear_flags(&self, py: Python<'_>, flags: u32) -> PyResult<()> {
        ours(py, &self.page)?;
        self.page.clear_flags(flags);
        Ok(())
    }

    #[getter]
    fn poison_text(&self) -> String {
        self.page.poison_text()
    }

    /// Poisons the stream for every process.
    fn poison(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        ours(py, &self.page)?;
        self.page.poison(reason);
        Ok(())
    }

    /// Sets the written, visible and durable positions, and the durable sequence number: after a recovery or a roll.
    /// Without `rings` nobody is woken: all of it was so before.
    #[pyo3(signature = (segment, offset, lsn, rings=true))]
    fn publish(&self, py: Python<'_>, segment: u64, offset: u64, lsn: u64, rings: bool) -> PyResult<()> {
        ours(py, &self.page)?;
        let at = place(segment, offset);
        for word in [Word::Durable, Word::Visible, Word::Written] {
            self.page.set(word, at);
        }
        self.page.set(Word::DurableLsn, lsn);
        if !rings {
            return Ok(());
        }
        self.page.wake_queue(1, None);
        self.page.ring(Bell::Readers);
        self.page.ring(Bell::Flushed);
        Ok(())
    }

    /// `(segment, offset)` up to which frames are written.
    #[getter]
    fn written(&self) -> (u64, u64) {
        split(self.page.get(Word::Written))
    }

    #[getter]
    fn visible(&self) -> (u64, u64) {
        split(self.page.get(Word::Visible))
    }

    #[getter]
    fn durable(&self) -> (u64, u64) {
        split(self.page.get(Word::Durable))
    }

    /// A guard for lock 0 (append), 1 (flush) or 2 (maintenance): `with ctl.locked(0): ...`.
    ///
    /// With `wait` false it does not wait for another holder; what `with` gives says whether it has the lock.
    #[pyo3(signature = (lock, wait=true))]
    fn locked(&self, lock: u8, wait: bool) -> Guard {
        Guard {
            page: Arc::clone(&self.page),
            lock: lock_of(lock),
            wait,
            held: AtomicBool::new(false),
            maintaining: Arc::clone(&self.maintaining),
        }
    }

    /// Whether a thread of this process has the maintenance lock, or waits for it.
    #[getter]
    fn is_maintained_here(&self) -> bool {
        self.maintaining.load(Ordering::SeqCst) > 0
    }

    /// Ends the opening that `fd` is of: no lock is taken by it any more. True where a thread of this process has one: then
    /// `fd` is closed, and its `flock` given up, with the last of them; else both are the caller's to do.
    fn give_up(&self, fd: RawFd) -> bool {
        self.page.give_up(fd)
    }

    /// The word that readers sleep on: read it first, then look, then wait for it to change.
    #[getter]
    fn bell(&self) -> u32 {
        self.page.bell(Bell::Readers).load(Ordering::SeqCst)
    }

    /// Says that this page is below `hub`, a store's: who waits for very many such pages sleeps there.
    fn set_hub(&self, hub: &Ctl) {
        self.page.set_hub(&hub.page);
    }

    /// Rings the readers' bell.
    fn ring(&self) {
        self.page.ring(Bell::Readers);
    }
}

/// Sleeps until one of the pages' bells is not as it was read, or `timeout_s` has passed (None: for ever).
///
/// Returns whether a bell rang. Signals are handled in between: Ctrl-C ends the wait.
#[pyfunction]
#[pyo3(signature = (bells, timeout_s))]
pub fn wait_bells(py: Python<'_>, bells: Vec<(Py<Ctl>, u32)>, timeout_s: Option<f64>) -> PyResult<bool> {
    let until = match timeout_s {
        None => None,
        Some(seconds) => {
            let wait = Duration::try_from_secs_f64(seconds.max(0.0))
                .map_err(|_| errors::argument(py, "timeout is not a number of seconds or out of range"))?;
            Instant::now().checked_add(wait)
        }
    };
    let watched = bells.iter().map(|(ctl, seen)| Watched::bell(&ctl.get().page, *seen)).collect();
    sleep(py, watched, until)
}

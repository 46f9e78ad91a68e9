//! Waiting for a group's next entry, in the order in which the waiting began.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskstream_sys::ctl::{Bell, Ctl as Page};
use diskstream_sys::futex;
use diskstream_sys::queue::Turn;
use pyo3::prelude::*;

use crate::ctl::{slept, Ctl};
use crate::errors;

/// A place in the queue of a group on one stream's page; given up when it goes.
#[pyclass(frozen, module = "diskstream._native", name = "Turn")]
pub struct PyTurn {
    page: Arc<Page>,
    turn: Turn,
}

impl PyTurn {
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// A place at the end of a group's queue; None where all are taken.
    pub fn join(page: &Arc<Page>, group: u32) -> Option<PyTurn> {
        let turn = page.join_queue(group)?;
        Some(PyTurn { page: Arc::clone(page), turn })
    }

    fn is_called(&self) -> bool {
        let (word, waiting) = self.page.turn_word(self.turn);
        word.load(Ordering::SeqCst) != waiting
    }
}

impl Drop for PyTurn {
    fn drop(&mut self) {
        self.page.leave_queue(self.turn, false);
    }
}

#[pymethods]
impl PyTurn {
    /// Gives the place up; once is enough. Unless it was `served`, the next is woken in its stead.
    #[pyo3(signature = (served=false))]
    fn leave(&self, served: bool) {
        self.page.leave_queue(self.turn, served);
    }

    /// Waits on in the old order. False where the place was lost: take another.
    fn again(&self) -> bool {
        self.page.wait_again(self.turn)
    }

    /// Wakes the one that waits longest for the group, if it has waited longer.
    fn wake_before(&self) {
        self.page.wake_before(self.turn);
    }

    /// Whether it was woken, or lost its place.
    #[getter]
    fn called(&self) -> bool {
        self.is_called()
    }
}

#[pymethods]
impl Ctl {
    /// A place at the end of a group's queue; None where all are taken: wait for the bell instead.
    fn join_queue(&self, group: u32) -> Option<PyTurn> {
        PyTurn::join(&self.page, group)
    }

    /// How many entries of a group are promised to waiters other than `mine`.
    #[pyo3(signature = (group, mine=None))]
    fn promised(&self, group: u32, mine: Option<&PyTurn>) -> u64 {
        self.page.promised(group, mine.map(PyTurn::turn))
    }

    /// Wakes the `count` that wait longest for a group (for each group, where none is given).
    #[pyo3(signature = (count, group=None))]
    fn wake_queue(&self, count: usize, group: Option<u32>) {
        self.page.wake_queue(count, group);
    }
}

/// Sleeps until one of `turns` is called, one of the bells is not as it was read, or `timeout_s` has passed.
///
/// Returns whether something happened. Signals are handled before it returns: Ctrl-C ends the wait.
#[pyfunction]
pub fn wait_turns(
    py: Python<'_>,
    turns: Vec<Py<PyTurn>>,
    bells: Vec<(Py<Ctl>, u32)>,
    timeout_s: f64,
) -> PyResult<bool> {
    let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0))
        .map_err(|_| errors::argument(py, "timeout is not a number of seconds or out of range"))?;
    let until = Instant::now() + timeout.min(Duration::from_secs(60));
    let rung = || bells.iter().any(|(ctl, seen)| ctl.get().page.bell(Bell::Readers).load(Ordering::SeqCst) != *seen);
    let happened = || turns.iter().any(|turn| turn.get().is_called()) || rung();
    for (ctl, _) in &bells {
        ctl.get().page.sleepers(Bell::Readers).fetch_add(1, Ordering::SeqCst);
    }
    let mut words: Vec<_> = turns.iter().map(|turn| turn.get().page.turn_word(turn.get().turn)).collect();
    words.extend(bells.iter().map(|(ctl, seen)| (ctl.get().page.bell(Bell::Readers), *seen)));
    let mut found = happened();
    let mut done = Ok(());
    while !found && done.is_ok() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        py.detach(|| match words.as_slice() {
            [(word, seen)] => futex::wait(word, *seen, left),
            _ => {
                if !futex::wait_any(&words, left) {
                    std::thread::sleep(left.min(Duration::from_millis(1)));
                }
            }
        });
        found = happened();
        done = py.check_signals();
    }
    for (ctl, _) in &bells {
        slept(&ctl.get().page);
    }
    done.map(|()| found)
}

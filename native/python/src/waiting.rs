//! Waiting for a group's next entry, in the order in which the waiting began.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskstream_sys::ctl::Ctl as Page;
use diskstream_sys::queue::Turn;
use pyo3::prelude::*;

use crate::ctl::Ctl;
use crate::errors;
use crate::sleeping::{sleep, Watched};

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
    let called = turns.iter().map(|turn| {
        let (word, seen) = turn.get().page.turn_word(turn.get().turn);
        Watched { page: &turn.get().page, word, seen }
    });
    let rung = bells.iter().map(|(ctl, seen)| Watched::bell(&ctl.get().page, *seen));
    sleep(py, called.chain(rung).collect(), Some(until))
}

//! Sleeping until one of any number of words on shared pages is not as it was read.
//!
//! The kernel sleeps on [`futex::MAX_WORDS`] words at once. Where there are more, the sleep is on the hubs of their
//! pages (see `Bell::Hub`), one for each store: whoever changes such a word rings the hub, if somebody is counted on its
//! page. Processes that know no hub change the word and ring nothing: all words are looked at now and then.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use diskstream_sys::ctl::{Bell, Ctl as Page};
use diskstream_sys::futex;
use pyo3::prelude::*;

/// A wait is cut into slices of this length, so that a signal is seen even when it went to another thread.
pub const SLICE: Duration = Duration::from_millis(50);
/// How often all words are looked at, though no hub was rung. A look at 20,000 takes about a millisecond. A slice is as long
/// as this where no signal is handled.
const LOOK: Duration = Duration::from_millis(200);

/// A word, and what was read of it.
#[derive(Clone, Copy)]
pub struct Watched<'a> {
    pub page: &'a Page,
    pub word: &'a AtomicU32,
    pub seen: u32,
}

impl<'a> Watched<'a> {
    pub fn bell(page: &'a Page, seen: u32) -> Watched<'a> {
        Watched { page, word: page.bell(Bell::Readers), seen }
    }

    fn has_changed(&self) -> bool {
        self.word.load(Ordering::SeqCst) != self.seen
    }

    /// Which sleepers of its page are counted: who changes the word wakes others only where there are some. A place of
    /// the queue has one sleeper, who is woken in any case.
    fn counted(&self, is_many: bool) -> Option<Bell> {
        if is_many && self.page.hub().is_some() {
            return Some(Bell::Hub);
        }
        std::ptr::eq(self.word, self.page.bell(Bell::Readers)).then_some(Bell::Readers)
    }

    /// The word that the sleep is on in its stead.
    fn at_hub(&self) -> Watched<'a> {
        self.page.hub().map_or(*self, |hub| {
            let word = hub.bell(Bell::Hub);
            Watched { page: hub, word, seen: word.load(Ordering::SeqCst) }
        })
    }
}

/// Sleeps until one of the words is not as it was read, or it is `until` (None: for ever). Returns whether one is not.
///
/// Signals are handled in between: Ctrl-C ends the wait.
pub fn sleep(py: Python<'_>, mut watched: Vec<Watched<'_>>, until: Option<Instant>) -> PyResult<bool> {
    if watched.len() > futex::MAX_WORDS {
        // Names of no streams have one bell, their store's.
        let mut known = HashSet::new();
        watched.retain(|each| known.insert((each.word.as_ptr(), each.seen)));
    }
    let is_many = watched.len() > futex::MAX_WORDS;
    let counted: Vec<_> = watched.iter().filter_map(|each| Some((each.page, each.counted(is_many)?))).collect();
    for (page, bell) in &counted {
        page.sleepers(*bell).fetch_add(1, Ordering::SeqCst);
    }
    let slept = sleep_counted(py, &watched, is_many, until);
    for (page, bell) in &counted {
        page.has_slept(*bell);
    }
    slept
}

fn sleep_counted(py: Python<'_>, watched: &[Watched<'_>], is_many: bool, until: Option<Instant>) -> PyResult<bool> {
    let longest = if futex::is_first_thread() { SLICE } else { LOOK };
    loop {
        // Read before the words are looked at: what rings behind the look ends the sleep.
        let mut words = watched.to_vec();
        if is_many {
            let mut known = HashSet::new();
            words = watched.iter().map(Watched::at_hub).filter(|each| known.insert(each.word.as_ptr())).collect();
        }
        if watched.iter().any(Watched::has_changed) {
            return Ok(true);
        }
        let looked = Instant::now();
        while !words.iter().any(Watched::has_changed) {
            let left = until.map_or(longest, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(watched.iter().any(Watched::has_changed));
            }
            let slice = left.min(longest);
            let slept = py.detach(|| match words.as_slice() {
                [only] => {
                    futex::wait(only.word, only.seen, slice);
                    true
                }
                _ => {
                    let pairs: Vec<_> = words.iter().map(|each| (each.word, each.seen)).collect();
                    futex::wait_any(&pairs, slice)
                }
            });
            py.check_signals()?;
            if !slept {
                std::thread::sleep(slice.min(Duration::from_millis(1)));
            }
            if !slept || looked.elapsed() >= LOOK {
                break;
            }
        }
    }
}

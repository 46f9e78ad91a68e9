//! How many forks this process is away from the one that loaded the library.
//!
//! What belongs to one process remembers the count of when it was made: a signal handler may fork in the midst of a call,
//! which the child then goes on with.

use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// Says that this process has just been forked.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Release);
}

pub fn count() -> u64 {
    FORKS.load(Ordering::Acquire)
}

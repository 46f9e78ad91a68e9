//! Who has a lock of a page by one opening of it, and the descriptor that stays open for them.
//!
//! Once no opening has its `flock`, whoever opens the page next is alone and makes its locks anew: one that a thread
//! still had would be pulled from under it. So an opening ends with the last lock that was taken by it: who closes it
//! hands the descriptor over where a lock is held, and no lock is taken by it from then on.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::forks;

/// No lock is taken by this opening any more.
const GIVEN_UP: u64 = 1 << 63;
/// The descriptor was handed over: closing it is nobody else's.
const HANDED_OVER: u64 = 1 << 62;
const COUNT: u64 = HANDED_OVER - 1;
const NONE: RawFd = -1;

/// The holders of locks by one opening, all of them threads of this process.
#[derive(Debug)]
pub struct Holders {
    /// The two flags above, and how many locks are held or being tried.
    state: AtomicU64,
    /// The descriptor, once it was handed over and until it is closed.
    fd: AtomicI32,
    /// In forks: the locks of an opening are left to its process.
    made_at: u64,
}

impl Default for Holders {
    fn default() -> Holders {
        Holders { state: AtomicU64::new(0), fd: AtomicI32::new(NONE), made_at: forks::count() }
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        self.end(); // in a forked child, which has nobody that would
    }
}

impl Holders {
    /// Counts who is about to try a lock; false where the opening was given up. Ends with [`Holders::leave`].
    #[inline]
    pub fn enter(&self) -> bool {
        // Counted before it is looked at: who gives the opening up either sees this one, or is seen.
        let before = self.state.fetch_add(1, Ordering::SeqCst);
        if before & GIVEN_UP == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Says that a lock was given up, or not taken.
    #[inline]
    pub fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::SeqCst);
        if before & GIVEN_UP != 0 && before & COUNT == 1 {
            self.end();
        }
    }

    /// Gives the opening up. Returns whether the descriptor is theirs now: a lock is held by it. Said once, it stays.
    pub fn give_up(&self, fd: RawFd) -> bool {
        let first = self.state.load(Ordering::SeqCst) & GIVEN_UP == 0;
        if first {
            self.fd.store(fd, Ordering::SeqCst); // before the last of them can look for it
            let before = self.state.fetch_or(GIVEN_UP, Ordering::SeqCst);
            // Nobody holds one, and nobody who is yet to be refused looks for it: the descriptor stays the caller's,
            // unless one of those has closed it already.
            if before & COUNT > 0 || self.fd.swap(NONE, Ordering::SeqCst) == NONE {
                self.state.fetch_or(HANDED_OVER, Ordering::SeqCst);
            }
        }
        self.state.load(Ordering::SeqCst) & HANDED_OVER != 0
    }

    /// Closes what was handed over, and gives up its locks, unless they are the parent's of this process.
    fn end(&self) {
        let fd = self.fd.swap(NONE, Ordering::SeqCst);
        if fd == NONE {
            return;
        }
        if self.made_at == forks::count() {
            unlock(fd);
        }
        // SAFETY: the descriptor was handed over to be closed here, and the swap gave it to this thread alone.
        unsafe { libc::close(fd) };
    }
}

/// Gives up both locks of an opening explicitly: a mapping or a forked child would keep them.
fn unlock(fd: RawFd) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all zero is a valid `flock`, of the whole file.
        let mut record: libc::flock = unsafe { std::mem::zeroed() };
        record.l_type = libc::F_UNLCK as libc::c_short;
        record.l_whence = libc::SEEK_SET as libc::c_short;
        // The record first, as at a death: who gets the other one looks at it.
        // SAFETY: `record` lives through the call, which only reads it.
        unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const record) };
    }
    // SAFETY: a descriptor and a constant.
    unsafe { libc::flock(fd, libc::LOCK_UN) };
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsRawFd, IntoRawFd};

    /// A file that is locked by the opening whose descriptor is given, and another opening of it.
    fn locked(name: &str) -> (RawFd, File) {
        let path = std::env::temp_dir().join(format!("diskstream-holders-{name}-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let other = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) }, 0);
        (file.into_raw_fd(), other)
    }

    fn is_free(other: &File) -> bool {
        unsafe { libc::flock(other.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
    }

    #[test]
    fn an_opening_by_which_no_lock_is_held_stays_the_callers_to_close() {
        let ((fd, other), holders) = (locked("none"), Holders::default());
        assert!(holders.enter());
        holders.leave();
        assert!(!holders.give_up(fd));
        assert!(!holders.enter());
        assert!(!holders.give_up(fd));
        assert!(!is_free(&other));
        unsafe { libc::close(fd) };
        assert!(is_free(&other));
    }

    #[test]
    fn an_opening_ends_with_the_last_lock_that_was_taken_by_it() {
        let ((fd, other), holders) = (locked("last"), Holders::default());
        assert!(holders.enter() && holders.enter());
        assert!(holders.give_up(fd));
        assert!(!holders.enter());
        holders.leave();
        assert!(!is_free(&other));
        holders.leave();
        assert!(is_free(&other));
        assert!(holders.give_up(fd));
        assert!(!holders.enter());
    }

    #[test]
    fn a_forked_child_closes_what_was_handed_over_and_leaves_the_lock_to_its_parent() {
        let ((fd, other), mut holders) = (locked("child"), Holders::default());
        holders.made_at += 1;
        let parents = unsafe { libc::dup(fd) }; // the same opening
        assert!(holders.enter());
        assert!(holders.give_up(fd));
        drop(holders);
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, -1);
        assert!(!is_free(&other));
        unsafe { libc::close(parents) };
        assert!(is_free(&other));
    }
}

//! A mutex in shared memory that dies with its holder.

use std::io;
use std::time::Duration;

use crate::holders::Holders;

/// What came of trying to lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    Yes,
    /// The lock is held, and whoever held it before died with it: what it guards must be checked.
    AfterDeath,
    No,
    /// This very thread holds it already: waiting would be for ever.
    Mine,
    /// The opening of the page was given up: no lock is taken by it any more.
    GivenUp,
}

/// A robust, process-shared pthread mutex that lives at a fixed place of a mapping.
///
/// Constructed only by [`crate::ctl::Ctl`], which owns the mapping.
pub struct RobustMutex<'a> {
    raw: *mut libc::pthread_mutex_t,
    holders: &'a Holders,
}

const SPINS: usize = 40;
const PAUSES: usize = 16;

/// Room that a mutex takes on the page, on any platform.
pub const MUTEX_BYTES: usize = 64;
const _: () = assert!(std::mem::size_of::<libc::pthread_mutex_t>() <= MUTEX_BYTES);

impl<'a> RobustMutex<'a> {
    /// # Safety
    /// `raw` must point to [`MUTEX_BYTES`] writable bytes, aligned to 64, that live as long as `'a`.
    pub(crate) unsafe fn at(raw: *mut u8, holders: &'a Holders) -> RobustMutex<'a> {
        RobustMutex { raw: raw.cast(), holders }
    }

    /// Makes the mutex anew. Nobody else may be using it.
    ///
    /// # Errors
    /// What pthread_mutex_init(3) says.
    pub(crate) fn init(&self) -> io::Result<()> {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: `attributes` is initialised by the first call, used by the next ones and destroyed by the last;
        // `raw` is valid by the contract of `at`.
        let code = unsafe {
            let attributes = attributes.as_mut_ptr();
            libc::pthread_mutexattr_init(attributes);
            libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST);
            // Error checking: unlocking a mutex of another thread, or locking twice, is refused instead of undefined.
            libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK);
            let code = libc::pthread_mutex_init(self.raw, attributes);
            libc::pthread_mutexattr_destroy(attributes);
            code
        };
        if code == 0 {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(code))
        }
    }

    /// What came of an attempt by one who is counted as a holder: who did not get the lock is none.
    fn outcome(&self, code: libc::c_int) -> Locked {
        if code != 0 && code != libc::EOWNERDEAD {
            self.holders.leave();
        }
        match code {
            0 => Locked::Yes,
            libc::EOWNERDEAD => {
                // SAFETY: we hold the mutex, in the state this call is for.
                unsafe { libc::pthread_mutex_consistent(self.raw) };
                Locked::AfterDeath
            }
            libc::EDEADLK => Locked::Mine,
            _ => Locked::No,
        }
    }

    #[inline]
    pub fn try_lock(&self) -> Locked {
        if !self.holders.enter() {
            return Locked::GivenUp;
        }
        // SAFETY: an initialised mutex, by the contract of `at`.
        self.outcome(unsafe { libc::pthread_mutex_trylock(self.raw) })
    }

    /// Tries for some microseconds, about as long as an append holds the lock, before a sleep would be worth its cost.
    pub fn spin_lock(&self) -> Locked {
        for _ in 0..SPINS {
            let locked = self.try_lock();
            if locked != Locked::No {
                return locked;
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        Locked::No
    }

    /// Waits at most `timeout`.
    pub fn lock(&self, timeout: Duration) -> Locked {
        if !self.holders.enter() {
            return Locked::GivenUp;
        }
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `until` is ours to fill in.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
        let nanos = i64::from(timeout.subsec_nanos()) + until.tv_nsec;
        until.tv_sec += libc::time_t::try_from(timeout.as_secs()).unwrap_or(1 << 30) + nanos / 1_000_000_000;
        until.tv_nsec = nanos % 1_000_000_000;
        // SAFETY: an initialised mutex, by the contract of `at`.
        self.outcome(unsafe { libc::pthread_mutex_timedlock(self.raw, &raw const until) })
    }

    #[inline]
    pub fn unlock(&self) {
        // SAFETY: an initialised mutex; one that this thread does not hold is refused by its type.
        if unsafe { libc::pthread_mutex_unlock(self.raw) } == 0 {
            self.holders.leave();
        }
    }
}

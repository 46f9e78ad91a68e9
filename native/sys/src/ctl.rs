//! The shared page of a stream: locks, positions, wake words, flags. Hints only, made anew at each first open.
//!
//! ```text
//!    0  magic u64 (written last)    192  maintenance mutex          384  flush word u32, waiters u32
//!    8  version u32, flags u32      256  written position u64       448  durable LSN u64
//!   16  boot id 16                  264  visible position u64       456  generation u64
//!   32  PID namespace u32
//!   64  append mutex                272  durable position u64       464  size of the last commit group u64
//!  128  flush mutex                 320  wake word u32, waiters u32  512  poison text: length u32, 252 bytes
//!                                   328  hub word u32, waiters u32
//! ```
//! Behind these stand, from 480 on, the waiters of consumer groups: their number u32, tickets given u64, and from 1024 on
//! their places: see `queue.rs`.
//!
//! A position is `segment << 40 | offset`, so that it grows with every append and fits in one atomic word.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::forks;
use crate::holders::Holders;
use crate::map::Map;
use crate::mutex::RobustMutex;
use crate::queue::namespace_now;

pub const PAGE_BYTES: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"DSKCTL01");
const VERSION: u32 = 1;
const TEXT_BYTES: usize = 252;
const NAMESPACE_AT: usize = 32;

pub const FLAG_POISONED: u32 = 1;
/// The stream was deleted, renamed or replaced: look it up by name again.
pub const FLAG_MOVED: u32 = 2;
/// A holder of the append lock died: the tail must be checked before the next append.
pub const FLAG_CHECK: u32 = 4;
/// The log is damaged: nothing may be appended.
pub const FLAG_ROTTEN: u32 = 8;

/// The words of the page that hold a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Written = 256,
    Visible = 264,
    Durable = 272,
    DurableLsn = 448,
    Generation = 456,
    /// How many callers the last flush served: whom the next one waits for, for a moment.
    Group = 464,
    /// Position behind the last frame of entries, as writers that flush each frame leave it.
    Entries = 472,
}

/// The three locks of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Append = 64,
    Flush = 128,
    Maintenance = 192,
}

/// A futex word and the count of those who sleep on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bell {
    /// Rung when something becomes visible.
    Readers = 320,
    /// Of a store's page, its hub: rung with the bell, or a place of the queue, of each page below it on which somebody
    /// is counted as sleeping here. Such a sleeper is counted on the pages that it waits for, not on the hub.
    Hub = 328,
    /// Rung when something becomes durable.
    Flushed = 384,
}

/// A mapped page.
pub struct Ctl {
    map: Map,
    /// In forks: a child leaves its parent's page alone.
    made_at: u64,
    hub: OnceLock<Arc<Ctl>>,
    holders: Holders,
}

impl Ctl {
    /// Maps the page; the file must have [`PAGE_BYTES`] bytes.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn new(fd: RawFd) -> io::Result<Ctl> {
        let map = Map::new(fd, 0, PAGE_BYTES, true)?;
        Ok(Ctl { map, made_at: forks::count(), hub: OnceLock::new(), holders: Holders::default() })
    }

    /// Whether it is the parent's of this process, which was forked in the midst of what it goes on with.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.made_at != forks::count()
    }

    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: callers pass multiples of eight below PAGE_BYTES; the page is mapped, writable and only ever
        // accessed through atomics (the mutexes aside).
        unsafe { AtomicU64::from_ptr(self.map.base().add(offset).cast()) }
    }

    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as above, with multiples of four.
        unsafe { AtomicU32::from_ptr(self.map.base().add(offset).cast()) }
    }

    /// Makes the page anew, with these flags. The caller has proved that nobody else uses it.
    ///
    /// # Errors
    /// What pthread_mutex_init(3) says.
    pub fn init(&self, generation: u64, flags: u32) -> io::Result<()> {
        self.u64(0).store(0, Ordering::SeqCst);
        // Never without them in between: who is killed here leaves a page that is as poisoned as it was.
        self.u32(12).store(flags, Ordering::SeqCst);
        // Who closed the stream for lack of room and waits for it all the same still compares the wake word: begun at
        // nought, it might be as it was read when the next entry has come. Nor is a ticket given twice: who gives up a
        // place that he had on the page before would give up another's.
        let kept = [Bell::Readers as usize, crate::queue::TICKETS, crate::queue::TICKETS + 4];
        for offset in (16..PAGE_BYTES).step_by(4).filter(|offset| !kept.contains(offset)) {
            self.u32(offset).store(0, Ordering::Relaxed);
        }
        for lock in [Lock::Append, Lock::Flush, Lock::Maintenance] {
            self.lock(lock).init()?;
        }
        self.u32(8).store(VERSION, Ordering::Relaxed);
        self.u32(NAMESPACE_AT).store(namespace_now(), Ordering::Relaxed);
        self.set(Word::Generation, generation);
        self.u64(0).store(MAGIC, Ordering::SeqCst);
        Ok(())
    }

    /// Says in which boot the log behind the page was put right: the last step of a recovery. Until then the page is of
    /// no boot, so a recovery that is killed is done again in full.
    pub fn confirm(&self, boot: [u8; 16]) {
        let (low, high) = boot.split_at(8);
        for (offset, half) in [(16, low), (24, high)] {
            let mut bytes = [0u8; 8];
            bytes.copy_from_slice(half);
            self.u64(offset).store(u64::from_le_bytes(bytes), Ordering::Release);
        }
    }

    /// Whether the page was made by [`Ctl::init`] of this version.
    pub fn is_ready(&self) -> bool {
        self.u64(0).load(Ordering::Acquire) == MAGIC && self.u32(8).load(Ordering::Relaxed) == VERSION
    }

    /// Whether the page was made in this PID namespace, as far as anybody knows. A lock holds the number of a thread,
    /// and the threads of another namespace have the same numbers: a lock that one of those holds would seem held by
    /// this thread, and be taken for a dead one's when this thread dies.
    pub fn is_of_our_namespace(&self) -> bool {
        let (its, ours) = (self.u32(NAMESPACE_AT).load(Ordering::Relaxed), namespace_now());
        its == 0 || ours == 0 || its == ours
    }

    /// The boot in which the page was made.
    pub fn boot(&self) -> [u8; 16] {
        let mut boot = [0u8; 16];
        let (low, high) = boot.split_at_mut(8);
        low.copy_from_slice(&self.u64(16).load(Ordering::Relaxed).to_le_bytes());
        high.copy_from_slice(&self.u64(24).load(Ordering::Relaxed).to_le_bytes());
        boot
    }

    pub fn lock(&self, lock: Lock) -> RobustMutex<'_> {
        // SAFETY: each lock has 64 bytes of the page to itself, aligned to 64, mapped as long as `self`.
        unsafe { RobustMutex::at(self.map.base().add(lock as usize), &self.holders) }
    }

    /// Ends the opening that `fd` is of: see [`Holders::give_up`].
    pub fn give_up(&self, fd: RawFd) -> bool {
        self.holders.give_up(fd)
    }

    #[inline]
    pub fn get(&self, word: Word) -> u64 {
        self.u64(word as usize).load(Ordering::Acquire)
    }

    #[inline]
    pub fn set(&self, word: Word, value: u64) {
        self.u64(word as usize).store(value, Ordering::Release);
    }

    /// Raises a word that never falls.
    #[inline]
    pub fn raise(&self, word: Word, value: u64) {
        self.u64(word as usize).fetch_max(value, Ordering::AcqRel);
    }

    #[inline]
    pub fn flags(&self) -> u32 {
        self.u32(12).load(Ordering::Acquire)
    }

    pub fn raise_flags(&self, flags: u32) {
        self.u32(12).fetch_or(flags, Ordering::AcqRel);
    }

    pub fn clear_flags(&self, flags: u32) {
        self.u32(12).fetch_and(!flags, Ordering::AcqRel);
    }

    pub fn bell(&self, bell: Bell) -> &AtomicU32 {
        self.u32(bell as usize)
    }

    pub fn sleepers(&self, bell: Bell) -> &AtomicU32 {
        self.u32(bell as usize + 4)
    }

    /// Says whose hub is to be rung with this page, which is below it; the first one stays.
    pub fn set_hub(&self, hub: &Arc<Ctl>) {
        self.hub.get_or_init(|| Arc::clone(hub));
    }

    /// The page whose hub is rung with this one.
    pub fn hub(&self) -> Option<&Arc<Ctl>> {
        self.hub.get()
    }

    /// Rings a bell: who looked at its word before sleeps no more.
    #[inline]
    pub fn ring(&self, bell: Bell) {
        self.bell(bell).fetch_add(1, Ordering::SeqCst);
        if self.sleepers(bell).load(Ordering::SeqCst) > 0 {
            crate::futex::wake_all(self.bell(bell));
        }
        if bell == Bell::Readers {
            self.ring_hub();
        }
    }

    /// Ends what counted a sleeper; in a child that was forked meanwhile, the parent sees to that.
    pub fn has_slept(&self, bell: Bell) {
        if !self.is_left() {
            // A page that was made anew meanwhile counts from nought.
            let less = |count: u32| count.checked_sub(1);
            let _ = self.sleepers(bell).fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        }
    }

    /// Wakes who waits at the hub for this page among many others. Costs one load where nobody does.
    #[inline]
    pub(crate) fn ring_hub(&self) {
        if self.sleepers(Bell::Hub).load(Ordering::SeqCst) > 0 {
            if let Some(hub) = self.hub.get() {
                hub.bell(Bell::Hub).fetch_add(1, Ordering::SeqCst);
                crate::futex::wake_all(hub.bell(Bell::Hub));
            }
        }
    }

    /// Poisons the stream for every process, with the reason; the first reason stays.
    pub fn poison(&self, reason: &str) {
        if self.is_left() || self.flags() & FLAG_POISONED != 0 {
            return;
        }
        let bytes = reason.as_bytes();
        let size = bytes.len().min(TEXT_BYTES);
        for (index, chunk) in bytes.get(..size).unwrap_or(&[]).chunks(4).enumerate() {
            let mut word = [0u8; 4];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.u32(516 + index * 4).store(u32::from_le_bytes(word), Ordering::Relaxed);
        }
        self.u32(512).store(size as u32, Ordering::Release);
        self.raise_flags(FLAG_POISONED);
        self.ring(Bell::Readers);
        self.ring(Bell::Flushed);
    }

    /// Why the stream is poisoned.
    pub fn poison_text(&self) -> String {
        let size = (self.u32(512).load(Ordering::Acquire) as usize).min(TEXT_BYTES);
        let mut bytes = Vec::with_capacity(size + 4);
        for index in 0..size.div_ceil(4) {
            bytes.extend_from_slice(&self.u32(516 + index * 4).load(Ordering::Relaxed).to_le_bytes());
        }
        bytes.truncate(size);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::mutex::Locked;
    use std::os::fd::AsRawFd;

    fn page() -> (std::fs::File, Ctl) {
        let path = std::env::temp_dir().join(format!("diskstream-ctl-{:?}", std::thread::current().id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        std::fs::remove_file(path).unwrap();
        let ctl = Ctl::new(file.as_raw_fd()).unwrap();
        ctl.init(3, 0).unwrap();
        (file, ctl)
    }

    #[test]
    fn a_page_is_ready_only_after_init_and_remembers() {
        let (_file, ctl) = page();
        assert!(ctl.is_ready());
        assert_eq!((ctl.boot(), ctl.get(Word::Generation)), ([0; 16], 3));
        ctl.confirm([7; 16]);
        assert_eq!(ctl.boot(), [7; 16]);
        ctl.poison("fdatasync failed: no space");
        ctl.poison("a later reason");
        assert_eq!(ctl.poison_text(), "fdatasync failed: no space");
        assert_eq!(ctl.flags(), FLAG_POISONED);
    }

    #[test]
    fn a_hub_is_rung_with_a_page_below_it_while_somebody_is_counted_there() {
        let ((_file, ctl), (_hub_file, hub)) = (page(), page());
        let hub = Arc::new(hub);
        ctl.set_hub(&hub);
        let rung = || hub.bell(Bell::Hub).load(Ordering::SeqCst);
        ctl.ring(Bell::Readers);
        assert_eq!(rung(), 0);
        ctl.sleepers(Bell::Hub).fetch_add(1, Ordering::SeqCst);
        ctl.ring(Bell::Readers);
        ctl.ring(Bell::Flushed);
        assert_eq!(rung(), 1);
        ctl.join_queue(1).unwrap();
        ctl.wake_queue(1, None);
        assert_eq!(rung(), 2);
        ctl.has_slept(Bell::Hub);
        ctl.has_slept(Bell::Hub); // of a page that was made anew
        ctl.ring(Bell::Readers);
        assert_eq!((rung(), ctl.sleepers(Bell::Hub).load(Ordering::SeqCst)), (2, 0));
    }

    #[test]
    fn the_wake_word_of_a_page_made_anew_goes_on() {
        let (_file, ctl) = page();
        ctl.ring(Bell::Readers);
        ctl.sleepers(Bell::Readers).fetch_add(1, Ordering::SeqCst);
        ctl.init(4, 0).unwrap();
        assert_eq!(ctl.bell(Bell::Readers).load(Ordering::SeqCst), 1);
        assert_eq!(ctl.sleepers(Bell::Readers).load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_lock_whose_holder_died_says_so_once() {
        let (_file, ctl) = page();
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(ctl.lock(Lock::Append).try_lock(), Locked::Yes));
        });
        // The kernel hands the lock on when the thread is really gone, a moment after its closure has returned.
        assert_eq!(ctl.lock(Lock::Append).lock(std::time::Duration::from_secs(10)), Locked::AfterDeath);
        assert_eq!(ctl.lock(Lock::Append).try_lock(), Locked::Mine);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(ctl.lock(Lock::Append).try_lock(), Locked::No));
        });
        ctl.lock(Lock::Append).unlock();
        assert_eq!(ctl.lock(Lock::Append).try_lock(), Locked::Yes);
    }
}

//! The queue of those who wait for a group's next entry, on the shared page: 96 places of 32 bytes from 1024 on.
//!
//! ```text
//! place := state u32 (the futex word), group u32, ticket u64, woken at ms u64, pid u32, pid namespace u32
//! ```
//! A waiter takes a place and a ticket. Whoever adds entries wakes the waiter with the least ticket of each group; who is
//! served and leaves some wakes the next. A woken waiter has a promise for [`PROMISE_MS`]: others leave it its entry for that long. All of it is
//! a hint: each waiter looks again after a while, so one that was killed, or lost its place, delays the others for a
//! moment and no more.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::ctl::Ctl;
use crate::futex;

const PLACES_AT: usize = 1024;
const PLACE_BYTES: usize = 32;
/// Waiters of one stream that are served in order; more of them are woken together.
pub const PLACES: usize = 96;
const WAITERS: usize = 480;
pub(crate) const TICKETS: usize = 488;

const FREE: u32 = 0;
const WAITING: u32 = 1;
const WOKEN: u32 = 2;
const TAKEN: u32 = 3;

/// For how long a woken waiter's entry is left to it.
pub const PROMISE_MS: u64 = 100;

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub place: usize,
    pub ticket: u64,
}

fn monotonic_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours to fill in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Tells this PID namespace from others: a number means nobody outside of its own. 0 where nobody can say.
pub(crate) fn namespace_now() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino() as u32)
}

/// The same as it was at first.
fn namespace() -> u32 {
    static NAMESPACE: OnceLock<u32> = OnceLock::new();
    *NAMESPACE.get_or_init(namespace_now)
}

fn is_gone(pid: u32, its_namespace: u32) -> bool {
    if its_namespace != namespace() || its_namespace == 0 {
        return false;
    }
    // SAFETY: signal 0 is sent to nobody.
    let sent = unsafe { libc::kill(pid as libc::pid_t, 0) };
    sent != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

impl Ctl {
    fn state(&self, place: usize) -> &AtomicU32 {
        self.u32(PLACES_AT + place * PLACE_BYTES)
    }

    fn group(&self, place: usize) -> &AtomicU32 {
        self.u32(PLACES_AT + place * PLACE_BYTES + 4)
    }

    fn ticket(&self, place: usize) -> &AtomicU64 {
        self.u64(PLACES_AT + place * PLACE_BYTES + 8)
    }

    fn woken_at(&self, place: usize) -> &AtomicU64 {
        self.u64(PLACES_AT + place * PLACE_BYTES + 16)
    }

    fn owner(&self, place: usize) -> (u32, u32) {
        let at = PLACES_AT + place * PLACE_BYTES + 24;
        (self.u32(at).load(Ordering::Relaxed), self.u32(at + 4).load(Ordering::Relaxed))
    }

    fn free(&self, place: usize, from: u32) -> bool {
        let freed = self.state(place).compare_exchange(from, FREE, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if freed {
            self.u32(WAITERS).fetch_sub(1, Ordering::SeqCst);
        }
        freed
    }

    /// Joins the queue of a group, under the stream's append lock. None where all places are taken.
    pub fn join_queue(&self, group: u32) -> Option<Turn> {
        for attempt in 0..2 {
            for place in 0..PLACES {
                if self.state(place).compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    let ticket = self.u64(TICKETS).fetch_add(1, Ordering::SeqCst) + 1;
                    let at = PLACES_AT + place * PLACE_BYTES + 24;
                    self.group(place).store(group, Ordering::Relaxed);
                    self.ticket(place).store(ticket, Ordering::Relaxed);
                    self.u32(at).store(std::process::id(), Ordering::Relaxed);
                    self.u32(at + 4).store(namespace(), Ordering::Relaxed);
                    self.u32(WAITERS).fetch_add(1, Ordering::SeqCst);
                    self.state(place).store(WAITING, Ordering::SeqCst);
                    return Some(Turn { place, ticket });
                }
            }
            if attempt == 0 {
                self.sweep();
            }
        }
        None
    }

    /// Frees the places of processes that are gone. One that is taken, and waits for nothing, is that of a process that
    /// died as it joined: who joins has the append lock, as the caller has it now.
    fn sweep(&self) {
        for place in 0..PLACES {
            let state = self.state(place).load(Ordering::SeqCst);
            let (pid, its_namespace) = self.owner(place);
            if (state == WAITING || state == WOKEN) && is_gone(pid, its_namespace) {
                self.free(place, state);
            } else if state == TAKEN {
                // Whether it was counted nobody knows: too many cost a look, too few would let others wait.
                self.state(place).store(FREE, Ordering::SeqCst);
            }
        }
    }

    /// Gives the place up, if it still is the waiter's. Unless it was `served`, the next is woken in its stead.
    pub fn leave_queue(&self, turn: Turn, served: bool) {
        // The place of a forked child's parent is the parent's.
        if self.is_left() || self.ticket(turn.place).load(Ordering::SeqCst) != turn.ticket {
            return;
        }
        let group = self.group(turn.place).load(Ordering::Relaxed);
        self.free(turn.place, WAITING);
        if self.free(turn.place, WOKEN) && !served {
            self.wake_queue(1, Some(group));
        }
    }

    /// Waits on, in the old order, after being woken for nothing. False where the place was lost meanwhile.
    pub fn wait_again(&self, turn: Turn) -> bool {
        if self.is_left() || self.ticket(turn.place).load(Ordering::SeqCst) != turn.ticket {
            return false;
        }
        let state = self.state(turn.place);
        let again = state.compare_exchange(WOKEN, WAITING, Ordering::SeqCst, Ordering::SeqCst);
        again.is_ok() || again == Err(WAITING)
    }

    /// The futex word of a place, which is 1 for as long as its waiter need not wake.
    pub fn turn_word(&self, turn: Turn) -> (&AtomicU32, u32) {
        (self.state(turn.place.min(PLACES - 1)), WAITING)
    }

    /// Wakes the `count` that wait longest for each group (for `only` one, where given). Costs one load where nobody waits.
    #[inline]
    pub fn wake_queue(&self, count: usize, only: Option<u32>) {
        if self.u32(WAITERS).load(Ordering::SeqCst) > 0 {
            self.wake_waiters(count, only);
        }
    }

    #[cold]
    fn wake_waiters(&self, count: usize, only: Option<u32>) {
        let mut waiting: Vec<(u32, u64, usize)> = (0..PLACES)
            .filter(|place| self.state(*place).load(Ordering::SeqCst) == WAITING)
            .map(|place| (self.group(place).load(Ordering::Relaxed), self.ticket(place).load(Ordering::Relaxed), place))
            .filter(|(group, ..)| only.is_none_or(|only| only == *group))
            .collect();
        waiting.sort_unstable();
        for group in waiting.chunk_by(|a, b| a.0 == b.0) {
            let mut left = count;
            for (_, _, place) in group {
                if left == 0 {
                    break;
                }
                let (pid, its_namespace) = self.owner(*place);
                if is_gone(pid, its_namespace) {
                    self.free(*place, WAITING);
                    continue;
                }
                self.woken_at(*place).store(monotonic_ms(), Ordering::Relaxed);
                if self.state(*place).compare_exchange(WAITING, WOKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    futex::wake_all(self.state(*place));
                    left -= 1;
                }
            }
        }
        self.ring_hub();
    }

    /// Wakes the one that waits longest, if it has waited longer than `mine`.
    pub fn wake_before(&self, mine: Turn) {
        let group = self.group(mine.place).load(Ordering::Relaxed);
        let older = |place: &usize| {
            self.state(*place).load(Ordering::SeqCst) == WAITING
                && self.group(*place).load(Ordering::Relaxed) == group
                && self.ticket(*place).load(Ordering::Relaxed) < mine.ticket
        };
        if (0..PLACES).any(|place| older(&place)) {
            self.wake_queue(1, Some(group));
        }
    }

    /// How many entries of a group are left to others: to waiters that were woken, or that have waited longer than
    /// `mine`.
    pub fn promised(&self, group: u32, mine: Option<Turn>) -> u64 {
        if self.u32(WAITERS).load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let mut count = 0;
        let now = monotonic_ms();
        for place in 0..PLACES {
            let state = self.state(place).load(Ordering::SeqCst);
            if !matches!(state, WAITING | WOKEN) || self.group(place).load(Ordering::Relaxed) != group {
                continue;
            }
            // Who waits longer goes first: what is promised to later ones is not kept from it.
            let older = mine.is_none_or(|mine| self.ticket(place).load(Ordering::Relaxed) < mine.ticket);
            if !older || (state == WAITING && mine.is_none()) {
                continue;
            }
            if state == WOKEN && self.woken_at(place).load(Ordering::Relaxed) + PROMISE_MS < now {
                self.free(place, WOKEN); // too slow, or dead
            } else {
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ctl::PAGE_BYTES;
    use std::os::fd::AsRawFd;

    fn page(name: &str) -> (std::fs::File, Ctl) {
        let path = std::env::temp_dir().join(format!("diskstream-queue-{name}-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        std::fs::remove_file(path).unwrap();
        let ctl = Ctl::new(file.as_raw_fd()).unwrap();
        ctl.init(1, 0).unwrap();
        (file, ctl)
    }

    fn woken(ctl: &Ctl, turn: Turn) -> bool {
        ctl.state(turn.place).load(Ordering::SeqCst) == WOKEN
    }

    #[test]
    fn one_waiter_of_each_group_is_woken_for_an_entry_the_longest_waiting_first() {
        let (_file, ctl) = page("order");
        let turns: Vec<Turn> = [1, 2, 1].into_iter().map(|group| ctl.join_queue(group).unwrap()).collect();
        let [first, other, second] = turns.try_into().unwrap();
        ctl.wake_queue(1, None);
        assert!(woken(&ctl, first) && woken(&ctl, other) && !woken(&ctl, second));
        assert_eq!((ctl.promised(1, None), ctl.promised(1, Some(first))), (1, 0));
        ctl.leave_queue(first, true);
        ctl.wake_queue(1, Some(1));
        assert!(woken(&ctl, second));
        assert!(ctl.wait_again(second) && !woken(&ctl, second));
        assert_eq!(ctl.promised(1, None), 0);
    }

    #[test]
    fn who_waits_leaves_an_entry_to_each_that_has_waited_longer_and_calls_it() {
        let (_file, ctl) = page("older");
        let [first, second] = [ctl.join_queue(1).unwrap(), ctl.join_queue(1).unwrap()];
        let other = ctl.join_queue(2).unwrap();
        assert_eq!((ctl.promised(1, Some(second)), ctl.promised(1, Some(first))), (1, 0));
        ctl.wake_before(first);
        ctl.wake_before(other);
        assert!(!woken(&ctl, first) && !woken(&ctl, second) && !woken(&ctl, other));
        ctl.wake_before(second);
        assert!(woken(&ctl, first) && !woken(&ctl, second));
    }

    #[test]
    fn who_leaves_without_an_entry_passes_the_call_on() {
        let (_file, ctl) = page("passing");
        let [first, second] = [ctl.join_queue(1).unwrap(), ctl.join_queue(1).unwrap()];
        ctl.wake_queue(1, None);
        ctl.leave_queue(first, false);
        assert!(woken(&ctl, second));
    }

    #[test]
    fn places_of_those_who_died_as_they_took_them_can_be_had_again() {
        let (_file, ctl) = page("taken");
        (0..PLACES).for_each(|place| ctl.state(place).store(TAKEN, Ordering::SeqCst));
        let [first, second] = [ctl.join_queue(1).unwrap(), ctl.join_queue(1).unwrap()];
        ctl.wake_queue(1, None);
        assert!(woken(&ctl, first) && !woken(&ctl, second));
        ctl.leave_queue(first, false);
        assert!(woken(&ctl, second));
    }

    #[test]
    fn who_waited_on_the_page_as_it_was_before_gives_up_nobody_s_place() {
        let (_file, ctl) = page("renewed");
        let before = ctl.join_queue(1).unwrap();
        ctl.init(2, 0).unwrap();
        let [first, second] = [ctl.join_queue(1).unwrap(), ctl.join_queue(1).unwrap()];
        assert!(!ctl.wait_again(before));
        ctl.leave_queue(before, false);
        ctl.wake_queue(1, None);
        assert!(woken(&ctl, first) && !woken(&ctl, second));
    }

    #[test]
    fn places_are_bounded_and_can_be_had_again() {
        let (_file, ctl) = page("bounded");
        let turns: Vec<Turn> = (0..PLACES).map(|_| ctl.join_queue(1).unwrap()).collect();
        assert_eq!(ctl.join_queue(1), None);
        turns.iter().for_each(|turn| ctl.leave_queue(*turn, false));
        turns.iter().for_each(|turn| ctl.leave_queue(*turn, false)); // once is enough, twice does no harm
        let again = ctl.join_queue(1).unwrap();
        assert!(!turns.contains(&again), "a ticket is given once");
        assert!(turns.iter().all(|old| !ctl.wait_again(*old)), "a place that was given up is another's");
    }
}

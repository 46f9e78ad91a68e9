//! Waiting on a shared word, across processes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` still is `expected`, until woken, interrupted, or `timeout` has passed.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the word lives in a mapping that outlives the call; the kernel only reads it and `limit`.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit) };
}

/// Whether this is the thread that the program began with: where Python handles signals, unless it was embedded elsewhere.
pub fn is_first_thread() -> bool {
    // SAFETY: it takes nothing, and cannot fail.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Wakes everyone who sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, libc::c_int::MAX) };
}

/// One word of a wait on several, as futex_waitv(2) takes it.
#[repr(C)]
struct Waiter {
    expected: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

const SYS_FUTEX_WAITV: libc::c_long = 449;
const FUTEX_32: u32 = 2;

/// Most words one wait can take (the kernel's own limit).
pub const MAX_WORDS: usize = 128;

/// Sleeps while each of the words still is as expected. False where the kernel cannot do it, or a filter of system calls
/// that does not know the call refuses it, by whatever error: sleep and look again.
pub fn wait_any(words: &[(&AtomicU32, u32)], timeout: Duration) -> bool {
    if words.is_empty() || words.len() > MAX_WORDS {
        return false;
    }
    let waiters: Vec<Waiter> = words
        .iter()
        .map(|(word, expected)| Waiter {
            expected: u64::from(*expected),
            address: word.as_ptr() as u64,
            flags: FUTEX_32,
            reserved: 0,
        })
        .collect();
    let mut limit = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `limit` is ours to fill in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut limit) };
    let nanos = i64::from(timeout.subsec_nanos()) + limit.tv_nsec;
    limit.tv_sec += libc::time_t::try_from(timeout.as_secs()).unwrap_or(1 << 30) + nanos / 1_000_000_000;
    limit.tv_nsec = nanos % 1_000_000_000;
    // SAFETY: the array and `limit` live through the call, the words in mappings that do.
    let result = unsafe {
        libc::syscall(
            SYS_FUTEX_WAITV,
            waiters.as_ptr(),
            waiters.len() as libc::c_uint,
            0 as libc::c_uint,
            &raw const limit,
            libc::CLOCK_MONOTONIC,
        )
    };
    let of_a_sleep = [libc::EAGAIN, libc::EINTR, libc::ETIMEDOUT];
    result >= 0 || std::io::Error::last_os_error().raw_os_error().is_some_and(|code| of_a_sleep.contains(&code))
}

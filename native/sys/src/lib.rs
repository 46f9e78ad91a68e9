//! Mappings, shared atomics, robust mutexes and futexes, behind safe interfaces.
//!
//! The only unsafe code of diskstream. Each block says what makes it sound.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod ctl;
pub mod forks;
pub mod futex;
pub mod holders;
pub mod io;
pub mod map;
pub mod mutex;
pub mod queue;
pub mod socket;

//! One program for all targets: the environment says which of them takes the bytes.
#![no_main]

use std::sync::LazyLock;

use diskstream_fuzz::{target, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is no target"))
});

fuzz_target!(|data: &[u8]| TARGET(data));

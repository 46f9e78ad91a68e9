//! One program for all targets: the environment says which of them takes the bytes.
#![no_main]

use std::hint::black_box;
use std::sync::LazyLock;

use diskstream_fuzz::{target, Target};
use libfuzzer_sys::fuzz_target;

/// Mistakes that this program must see, each behind bytes that a fuzzer finds at once: whoever runs it tries them first.
const PLANTED: [(&str, Target); 5] = [
    ("planted panic", |_| panic!("planted")),
    ("planted overflow", |data| drop(black_box(data.len() as u8).wrapping_sub(black_box(data.len() as u8)) - 1)),
    ("planted leak", |data| std::mem::forget(black_box(vec![7u8; data.len() + 100]))),
    ("planted allocation", |data| drop(black_box(Vec::<u8>::with_capacity((2 << 30) + data.len())))),
    ("planted read", |data| {
        let past = black_box(data.to_vec());
        // One byte behind the end of an allocation, as no safe code can read it.
        drop(black_box(unsafe { past.as_ptr().add(past.len()).read_volatile() }));
    }),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let planted = PLANTED.iter().find(|(known, _)| *known == name).map(|(_, target)| *target);
    target(&name).or(planted).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is no target"))
});

fuzz_target!(|data: &[u8]| {
    if !data.is_empty() {
        TARGET(data);
    }
});

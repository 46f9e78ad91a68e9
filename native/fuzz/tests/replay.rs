//! Every input of the corpus, and all that was once found, through the targets: without a fuzzer and without a sanitizer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use diskstream_fuzz::{seeds, target, TARGETS};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn every_input_of_the_corpus_passes() {
    for (name, target) in TARGETS {
        for path in inputs(&corpus().join(name)) {
            println!("{}", path.display()); // shown where it fails
            target(&std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn what_the_encoders_write_passes_whole_cut_and_with_a_bit_flipped() {
    for (name, bytes) in seeds::all() {
        let target = target(name).unwrap();
        println!("{name}: {bytes:02x?}");
        target(&bytes);
        for cut in (0..bytes.len()).step_by(bytes.len() / 64 + 1) {
            target(bytes.get(..cut).unwrap());
            let mut flipped = bytes.clone();
            flipped.iter_mut().skip(cut).take(1).for_each(|byte| *byte ^= 1 << (cut % 8));
            println!("{cut}");
            target(&flipped);
        }
    }
}

#[test]
fn every_target_has_a_seed_and_a_folder_and_every_folder_a_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let folders = inputs(&corpus()).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, folders);
    assert_eq!(names, seeds::all().iter().map(|(name, _)| (*name).to_owned()).collect());
    assert!(TARGETS.iter().all(|(name, _)| !inputs(&corpus().join(name)).is_empty()));
}

#[test]
fn the_corpus_is_small() {
    let sizes: Vec<(usize, u64)> = TARGETS
        .iter()
        .map(|(name, _)| {
            let found = inputs(&corpus().join(name));
            (found.len(), found.iter().map(|path| path.metadata().unwrap().len()).sum())
        })
        .collect();
    assert!(sizes.iter().all(|(count, _)| *count <= 30));
    assert!(sizes.iter().map(|(_, bytes)| bytes).sum::<u64>() < 500 << 10);
}

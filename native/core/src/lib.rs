//! Formats, codecs and state of a diskstream log.
//!
//! Pure functions over byte slices: no Python, no input or output, no unsafe code. Whatever comes from a disk is
//! parsed with checked reads and ends in [`error::Error`], never in a panic.
#![forbid(unsafe_code)]

pub mod audit;
pub mod audit_rows;
pub mod bitmap;
pub mod block;
pub mod columns;
pub mod commits;
pub mod counters;
pub mod digest;
pub mod digest_rows;
pub mod error;
pub mod frame;
pub mod freed;
pub mod group_ops;
pub mod groups;
pub mod header;
pub mod id;
pub mod id_run;
pub mod idempotence;
pub mod listed;
pub mod marks;
pub mod node;
pub mod ops;
pub mod overlay;
pub mod packing;
pub mod parse;
pub mod pending;
pub mod plurals;
pub mod progress;
pub mod resp;
pub mod resp_commands;
pub mod resp_entries;
pub mod resp_inline;
pub mod resp_reply;
pub mod resp_runs;
pub mod row_index;
pub mod rows;
pub mod scan;
pub mod sealed;
pub mod settings;
pub mod snapshot;
pub mod sparse;
pub mod staged;
pub mod state;
pub mod tail;
pub mod typed;
pub mod whose;
pub mod wire;

/// The version of every file format here. A file with a greater one is refused.
pub const FORMAT_VERSION: u32 = 1;

/// How the body of a node or of an audit's block is stored. A head that is sound and names another codec is a later
/// version's, and nothing that a repair may take for damage.
pub const CODEC_PLAIN: u8 = 0;
pub const CODEC_ZSTD: u8 = 1;

/// Whether zstd can have made `packed` bytes of `raw` ones: a block of it holds 128 KiB and takes four bytes at least. A
/// size that is beyond that is a fault before anything is allocated for it.
pub fn zstd_could_unpack(packed: usize, raw: usize) -> bool {
    raw <= packed.saturating_mul(32_768)
}

/// CRC32C, as every format here uses it.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

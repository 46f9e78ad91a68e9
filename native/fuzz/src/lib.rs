//! Every parser of the core as a function of any bytes.
//!
//! A target panics where a parser does, where what was read does not come back from its encoder, and where bytes that
//! come in pieces say something else than the same bytes at once. What a checksum guards is signed anew first: a fuzzer
//! would never get past it, and somebody who writes a file does.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod audits;
mod blocks;
mod files;
mod groups;
mod input;
mod logs;
mod packed;
mod resp;
pub mod seeds;
mod states;
mod texts;

pub type Target = fn(&[u8]);

/// All targets, by name; each has a folder of this name in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("audit", audits::audit),
    ("audit_names", audits::names),
    ("bitmap", states::bitmap),
    ("columns", blocks::columns),
    ("commits", states::commits),
    ("delete", states::delete),
    ("digests", packed::digests),
    ("frame", files::frame),
    ("groups", groups::groups),
    ("inline", resp::inline),
    ("log", logs::log),
    ("log_header", files::log_header),
    ("meta", states::meta),
    ("node", blocks::node),
    ("packing", packed::packing),
    ("pending", groups::pending),
    ("records", groups::records),
    ("replace", states::replace),
    ("replies", resp::replies),
    ("requests", resp::requests),
    ("rows", blocks::rows),
    ("runs", packed::runs),
    ("sealed", files::sealed),
    ("set_id", states::set_id),
    ("settings", states::settings),
    ("snapshot", states::snapshot),
    ("stagings", packed::stagings),
    ("tail_copy", logs::copy),
    ("texts", texts::texts),
    ("trim", states::trim),
    ("windows", groups::windows),
    ("wire", files::wire),
];

/// The target of a name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

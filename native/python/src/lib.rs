//! `diskstream._native`: what Python sees of the core. Each call handles a batch, a node or a segment.
#![forbid(unsafe_code)]

mod add_run;
mod args;
mod audit;
mod bytes;
mod columns;
mod command_run;
mod commit;
mod ctl;
mod deliver;
mod deliver_runs;
mod delivery;
mod digest;
mod entries_reply;
mod entry;
mod errors;
mod file;
mod groups;
mod id;
mod log;
mod log_append;
mod log_read;
mod names;
mod nodes;
mod packing;
mod pieces;
mod ranging;
mod replies;
mod resp;
mod scan;
mod sealed;
mod sealer;
mod segment_scan;
mod segments;
mod sleeping;
mod socket;
mod take;
mod view;
mod waiting;

use diskstream_core::header::{Frontier, LogHeader};
use diskstream_core::snapshot;
use diskstream_core::state::State;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Header block and snapshot frame of the first segment of a new stream.
#[pyfunction]
fn first_segment<'py>(
    py: Python<'py>,
    uuid: [u8; 16],
    salt: u32,
    now_ms: u64,
) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    use diskstream_core::frame::{encode, FrameSpec, Kind};
    use diskstream_core::id::Id;
    let header = LogHeader { salt, uuid, segment: 1, created_ms: now_ms };
    let mut state = State::empty(0);
    state.uuid = uuid;
    let spec = FrameSpec {
        salt,
        kind: Kind::Snapshot,
        flags: 0,
        entries: 0,
        lsn: 1,
        synced_lsn: 0,
        time_ms: now_ms,
        first: Id::MIN,
        previous_crc: 0,
    };
    let mut frame = Vec::new();
    encode(&mut frame, &spec, &snapshot::encode(&state, None));
    let frontier = Frontier { sequence: 1, ..Frontier::default() };
    (PyBytes::new(py, &header.encode(frontier)), PyBytes::new(py, &frame))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FORMAT_VERSION", diskstream_core::FORMAT_VERSION)?;
    module.add("LOG_HEADER_BYTES", diskstream_core::header::HEADER_BYTES)?;
    module.add("MAX_ENTRY_BYTES", diskstream_core::frame::MAX_ENTRY_BYTES)?;
    module.add("MAX_BATCH_BYTES", diskstream_core::frame::MAX_PAYLOAD_BYTES - 1024)?;
    module.add("TRIM_GRANULE_ENTRIES", diskstream_core::state::TRIM_GRANULE_ENTRIES)?;
    module.add("MAX_NAME_BYTES", diskstream_core::group_ops::MAX_NAME_BYTES)?;
    module.add("MAX_NAMES_BYTES", diskstream_core::groups::MAX_NAMES_BYTES)?;
    module.add("MAX_SETTING_BYTES", diskstream_core::settings::MAX_SETTING_BYTES)?;
    module.add("MAX_GROUPS", diskstream_core::groups::MAX_GROUPS)?;
    module.add("LOOK_MS", take::LOOK_MS)?;
    module.add("SEEN_EVERY_MS", take::SEEN_EVERY_MS)?;
    module.add("MAX_CONSUMERS", diskstream_core::groups::MAX_CONSUMERS)?;
    module.add("CTL_BYTES", diskstream_sys::ctl::PAGE_BYTES)?;
    module.add_class::<id::EntryId>()?;
    module.add_class::<entry::Entry>()?;
    module.add_class::<delivery::Delivery>()?;
    module.add_class::<entry::Block>()?;
    module.add_class::<file::LogFile>()?;
    module.add_class::<ctl::Ctl>()?;
    module.add_class::<ctl::Guard>()?;
    module.add_class::<waiting::PyTurn>()?;
    module.add_class::<view::Changes>()?;
    module.add_class::<view::Unknown>()?;
    module.add_class::<log::Log>()?;
    module.add_class::<packing::PackedRows>()?;
    module.add_class::<resp::RequestParser>()?;
    module.add_class::<socket::Receiver>()?;
    module.add_class::<add_run::AddRun>()?;
    module.add_class::<command_run::CommandRun>()?;
    module.add_class::<entries_reply::EntriesReply>()?;
    module.add_class::<replies::ReplyEncoder>()?;
    module.add_class::<segments::SegmentView>()?;
    module.add_class::<segments::RowSegment>()?;
    module.add_class::<sealed::SealedSegment>()?;
    module.add_class::<nodes::NodeCache>()?;
    module.add_class::<columns::ColumnBatch>()?;
    module.add_class::<scan::ScanBatch>()?;
    module.add_class::<scan::ScanLayout>()?;
    module.add_class::<digest::RowDigests>()?;
    module.add_class::<audit::AuditLog>()?;
    module.add_class::<audit::AuditFile>()?;
    module.add_class::<sealer::Sealer>()?;
    module.add_function(wrap_pyfunction!(ctl::forked, module)?)?;
    module.add_function(wrap_pyfunction!(ctl::wait_bells, module)?)?;
    module.add_function(wrap_pyfunction!(socket::send_each, module)?)?;
    module.add_function(wrap_pyfunction!(waiting::wait_turns, module)?)?;
    module.add_function(wrap_pyfunction!(delivery::delivery, module)?)?;
    module.add_function(wrap_pyfunction!(entry::restore_entry, module)?)?;
    module.add_function(wrap_pyfunction!(ranging::entry_lists, module)?)?;
    module.add_function(wrap_pyfunction!(log_append::are_plain, module)?)?;
    module.add_function(wrap_pyfunction!(log_append::check_rows, module)?)?;
    module.add_function(wrap_pyfunction!(packing::pack_named_columns, module)?)?;
    module.add_function(wrap_pyfunction!(packing::pack_listed_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(first_segment, module)?)?;
    module.add_function(wrap_pyfunction!(segments::segment_at, module)?)?;
    module.add_function(wrap_pyfunction!(pieces::checksum, module)?)?;
    module.add_function(wrap_pyfunction!(pieces::unpack_node, module)?)?;
    module.add_function(wrap_pyfunction!(pieces::unpack_rows, module)?)?;
    Ok(())
}

//! The snapshot: all of a stream's state that is not entries, as sections. The first frame of each log file.
//!
//! ```text
//! snapshot := section*            section := tag u8, varint(length), bytes{length}
//!  1 counters   last ID (16), greatest deleted ID (16), entries added u64, stream uuid (16)
//!  2 segments   varint(n) meta{n}: the segments before this one, in order
//! 16 groups     varint(next group) varint(n) (varint(group) group){n}, windows
//! 17 pending    (varint(group) varint(length) chunk{length})*: the pending entries by ID, see pending.rs
//! 18 commits    varint(n) (writer varint(version) varint(part) time u64){n}: in order of the writers' names
//! 19 settings   varint(n) (name varint(length) value){n}: in order of the names
//! 129 trimmed   the greatest ID (16) that a trim took, of segments that are not listed any more; may be passed over
//!
//! group    := name, last ID (16), optional(entries read), greatest ID ever pending (16), varint: next consumer, pending,
//!             refused, refusals, consumers; consumer*
//! consumer := varint(number) name varint(seen, ms) optional(active, ms) varint(pending)
//! windows  := varint(duration, s) varint(messages) messages added u64 varint(n) (name varint(m) (name, ID (16)){m}){n}
//! ```
//! Sections 16 and 17 are there once a stream has had a group or an idempotent message, section 18 once it has had a
//! commit record, section 19 while something is set. `name` (also of a writer) and `optional` are those of group records. A reader that meets a tag it does
//! not know refuses the file, unless the tag's high bit says that it may be passed over: who passed over commits would
//! append twice what was appended, and who passed over settings would forget them in the next snapshot.

use crate::commits::Commits;
use crate::error::{Error, Result};
use crate::groups::Groups;
use crate::id::Id;
use crate::pending::{encode_chunks, Order};
use crate::settings::Settings;
use crate::state::{SegmentMeta, State};
use crate::wire::{put_id, put_u64, put_varint, Reader};
use crate::FORMAT_VERSION;

const COUNTERS: u8 = 1;
const SEGMENTS: u8 = 2;
const GROUPS: u8 = 16;
const PENDING: u8 = 17;
const COMMITS: u8 = 18;
const SETTINGS: u8 = 19;
const MAY_BE_IGNORED: u8 = 0x80;
const TRIMMED: u8 = MAY_BE_IGNORED | 1;

fn put_section(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    put_varint(out, body.len() as u64);
    out.extend_from_slice(body);
}

/// The snapshot that begins the segment after the active one of `state`.
///
/// `chunks` are the pending entries by ID, as the view has them, with their groups' numbers; None takes the overlays,
/// which must be whole.
pub fn encode(state: &State, chunks: Option<&[(u32, &[u8])]>) -> Vec<u8> {
    let mut counters = Vec::new();
    put_id(&mut counters, state.last_id);
    put_id(&mut counters, state.max_deleted);
    put_u64(&mut counters, state.entries_added);
    counters.extend_from_slice(&state.uuid);
    let mut segments = Vec::new();
    let active = (state.active.live() > 0).then_some(&state.active);
    let listed = state.sealed.len() + usize::from(active.is_some());
    put_varint(&mut segments, listed as u64);
    state.sealed.iter().chain(active).for_each(|meta| meta.put(&mut segments));
    let mut out = Vec::new();
    put_section(&mut out, COUNTERS, &counters);
    put_section(&mut out, SEGMENTS, &segments);
    if !state.groups.is_empty() {
        let mut groups = Vec::new();
        state.groups.put(&mut groups);
        put_section(&mut out, GROUPS, &groups);
        put_section(&mut out, PENDING, &pending(state, chunks));
    }
    if !state.commits.is_empty() {
        let mut commits = Vec::new();
        state.commits.put(&mut commits);
        put_section(&mut out, COMMITS, &commits);
    }
    if !state.settings.is_empty() {
        let mut settings = Vec::new();
        state.settings.put(&mut settings);
        put_section(&mut out, SETTINGS, &settings);
    }
    put_trimmed(&mut out, state);
    out
}

/// A segment without live entries is not listed from here on: where trims took some, all is trimmed up to its last ID.
fn put_trimmed(out: &mut Vec<u8>, state: &State) {
    let goes = state.active.live() == 0 && state.active.trimmed > 0;
    let trimmed = state.trimmed_to.max(if goes { state.active.last } else { Id::MIN });
    if trimmed > Id::MIN {
        let mut body = Vec::new();
        put_id(&mut body, trimmed);
        put_section(out, TRIMMED, &body);
    }
}

fn pending(state: &State, chunks: Option<&[(u32, &[u8])]>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |group: u32, chunk: &[u8]| {
        put_varint(&mut out, u64::from(group));
        put_varint(&mut out, chunk.len() as u64);
        out.extend_from_slice(chunk);
    };
    if let Some(chunks) = chunks {
        chunks.iter().for_each(|(group, chunk)| put(*group, chunk));
    } else {
        for (number, group) in &state.groups.by_number {
            let rows = Groups::whole_rows(group);
            encode_chunks(&rows, Order::ById).iter().for_each(|(_, chunk)| put(*number, chunk));
        }
    }
    out
}

/// The chunks of section 17, each with its group's number.
pub fn pending_chunks(section: &[u8]) -> Result<Vec<(u32, &[u8])>> {
    let mut reader = Reader::new(section, "pending entries of a snapshot");
    let mut chunks = Vec::new();
    while reader.remaining() > 0 {
        let group = reader.count(u32::MAX as usize, "a group's number")? as u32;
        let length = reader.count(reader.remaining(), "the length of a chunk")?;
        chunks.push((group, reader.take(length)?));
    }
    Ok(chunks)
}

/// The state at the beginning of segment `number`.
pub fn decode(payload: &[u8], number: u64) -> Result<State> {
    let mut reader = Reader::new(payload, "snapshot");
    let mut state = State::empty(number);
    let mut seen = [false; 2];
    while reader.remaining() > 0 {
        let tag = reader.u8()?;
        let length = reader.count(reader.remaining(), "the length of a section")?;
        let mut body = Reader::new(reader.take(length)?, "snapshot section");
        match tag {
            COUNTERS => {
                state.last_id = body.id()?;
                state.max_deleted = body.id()?;
                state.entries_added = body.u64()?;
                state.uuid.copy_from_slice(body.take(16)?);
                body.end()?;
                seen[0] = true;
            }
            SEGMENTS => {
                let count = body.count(length, "a number of segments")?;
                for _ in 0..count {
                    state.push_sealed(SegmentMeta::read(&mut body)?, number)?;
                }
                body.end()?;
                seen[1] = true;
            }
            GROUPS => {
                state.groups = Groups::read(&mut body)?;
                body.end()?;
            }
            COMMITS => {
                state.commits = Commits::read(&mut body)?;
                body.end()?;
            }
            SETTINGS => {
                state.settings = Settings::read(&mut body)?;
                body.end()?;
            }
            TRIMMED => {
                state.trimmed_to = body.id()?;
                body.end()?;
            }
            PENDING => state.pending = reader.position() - length..reader.position(),
            tag if tag & MAY_BE_IGNORED != 0 => {}
            tag => {
                return Err(Error::Newer { what: "snapshot section", supported: FORMAT_VERSION, found: u32::from(tag) })
            }
        }
    }
    if seen != [true; 2] {
        return Err(reader.fault("sections 1 and 2", "fewer"));
    }
    Ok(state)
}

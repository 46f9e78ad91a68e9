//! What lies behind the last good frame: nothing, the torn tail of a crash, or rot.

use crate::error::{Error, Result};
use crate::frame::{self, FrameHeader};
use crate::tail::Tail;

/// The verdict on the bytes from `offset` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Only zeros: the file simply ends here.
    Clean,
    /// Bytes up to `end` that nothing durable depends on.
    Torn { end: u64 },
    /// A whole frame (or a frontier slot) at `at` says that the frame wanted here (or a later one) was already durable; or it is of a later
    /// version, and what it says is not known.
    Rotten { at: u64, synced_lsn: u64 },
}

/// Looks at everything from `offset`, where the frame `lsn` was expected and not found.
///
/// Frames lie on multiples of eight, so each of those places is tried. A frame found there counts only if its own
/// checksums hold, it carries the segment's salt, and its number lies beyond `lsn`. It convicts if it claims that
/// `lsn` was synced. A later frame that claims nothing of the sort may well be there after a power cut, since a
/// disk writes in any order.
pub fn examine(file: &[u8], offset: u64, lsn: u64, salt: u32) -> Verdict {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = file.get(start..).unwrap_or(&[]);
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else { return Verdict::Clean };
    let end = offset + last as u64 + 1;
    let mut at = offset;
    while at < end {
        match frame_at(file, at, salt) {
            Some(Ok(header)) if header.lsn >= lsn => {
                if header.synced_lsn >= lsn {
                    return Verdict::Rotten { at, synced_lsn: header.synced_lsn };
                }
                at += header.frame_bytes() as u64;
            }
            Some(Err(Error::Newer { .. })) => return Verdict::Rotten { at, synced_lsn: lsn },
            _ => at += 8,
        }
    }
    Verdict::Torn { end }
}

/// The verdict on what stopped a tail.
///
/// # Errors
/// [`Error::Newer`] where that is a frame of a later version.
pub fn judge(file: &[u8], tail: &Tail, stopped: &Error) -> Result<Verdict> {
    if matches!(stopped, Error::Newer { .. }) {
        return Err(stopped.clone());
    }
    let salt = tail.header.salt;
    let whole = frame::parse_header(file, tail.end, salt, tail.link);
    if whole.and_then(|header| frame::payload(file, tail.end, &header).map(drop)).is_ok() {
        // Written whole, behind the right frame, and yet it cannot be applied: no crash does that.
        return Ok(Verdict::Rotten { at: tail.end, synced_lsn: tail.lsn.saturating_add(1) });
    }
    let claimed = tail.frontier.synced_lsn;
    match examine(file, tail.end, tail.lsn.saturating_add(1), salt) {
        Verdict::Clean | Verdict::Torn { .. } if claimed > tail.lsn => {
            Ok(Verdict::Rotten { at: tail.frontier.slot_offset(), synced_lsn: claimed })
        }
        verdict => Ok(verdict),
    }
}

fn frame_at(file: &[u8], at: u64, salt: u32) -> Option<Result<FrameHeader>> {
    let start = usize::try_from(at).ok()?;
    // The salt comes first and is nearly always wrong: no checksum is computed for most places.
    (file.get(start..start.checked_add(4)?)? == salt.to_le_bytes()).then_some(())?;
    Some(frame::probe(file, at, salt))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::frame::{encode, FrameSpec, Kind};
    use crate::id::Id;

    fn file(synced: [u64; 3]) -> (Vec<u8>, Vec<u64>) {
        let (mut out, mut link, mut starts) = (Vec::new(), 0, Vec::new());
        for (lsn, synced_lsn) in (1u64..).zip(synced) {
            let spec = FrameSpec {
                salt: 9,
                kind: Kind::Mark,
                flags: 0,
                entries: 0,
                lsn,
                synced_lsn,
                time_ms: 0,
                first: Id::MIN,
                previous_crc: link,
            };
            starts.push(out.len() as u64);
            link = encode(&mut out, &spec, b"0123456789");
        }
        out.resize(out.len() + 100, 0);
        (out, starts)
    }

    #[test]
    fn zeros_are_the_end_and_unclaimed_bytes_are_torn() {
        let (mut bytes, starts) = file([0, 0, 0]);
        let end = bytes.len() as u64 - 100;
        assert_eq!(examine(&bytes, end, 4, 9), Verdict::Clean);
        bytes[starts[1] as usize + 30] ^= 1;
        assert!(matches!(examine(&bytes, starts[1], 2, 9), Verdict::Torn { .. }));
    }

    #[test]
    fn a_later_frame_that_knew_it_was_durable_makes_it_rot() {
        let (mut bytes, starts) = file([0, 0, 2]);
        bytes[starts[1] as usize + 30] ^= 1;
        assert_eq!(examine(&bytes, starts[1], 2, 9), Verdict::Rotten { at: starts[2], synced_lsn: 2 });
        let (mut bytes, starts) = file([0, 0, 1]);
        bytes[starts[1] as usize + 30] ^= 1;
        assert!(matches!(examine(&bytes, starts[1], 2, 9), Verdict::Torn { .. }));
    }
}

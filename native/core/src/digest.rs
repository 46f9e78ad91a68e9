//! The digest of entries: equal for equal entries, in whatever frames, nodes and segments they stand.
//!
//! It is a sum over the entries, so digests of disjoint ranges add up. The definition stands in
//! `diskstream/digests.py`; the jobs of Spark find the same for the rows of an archive that lists fields.

use crate::id::Id;

/// Two lanes, which differ in this multiplier only.
pub(crate) const LANES: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F];
const SECOND: u64 = 0xBF58_476D_1CE4_E5B9;
pub(crate) const PLACE: u64 = 0xD6E8_FEB8_6659_FD93;
/// Longer values go through BLAKE2b.
const LONG: usize = 64;
/// What the pairs of an entry stand under, as a column does in an archive.
const COLUMN: &[u8] = b"fields";

/// Of a number of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    pub entries: u64,
    /// Bytes of names and values.
    pub size_bytes: u64,
    pub lanes: [u64; 2],
}

impl Digest {
    /// Takes an entry in.
    pub fn add<'a>(&mut self, id: Id, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        let mut list = [0u64; 2];
        let mut place = 0u64;
        for (name, value) in pairs {
            place += 1;
            self.size_bytes = self.size_bytes.wrapping_add((name.len() + value.len()) as u64);
            let (names, values) = (words(name), words(value));
            let parts = list.iter_mut().zip(LANES).zip(names.iter().zip(values));
            for ((sum, lane), (name, value)) in parts {
                let pair = name.wrapping_add(value.wrapping_mul(3)).wrapping_add(place.wrapping_mul(PLACE));
                *sum = sum.wrapping_add(mix(pair, lane));
            }
        }
        let column = words(COLUMN);
        let parts = self.lanes.iter_mut().zip(LANES).zip(list.iter().zip(column));
        for ((sum, lane), (list, column)) in parts {
            let at = mix(id.ms.wrapping_mul(lane).wrapping_add(mix(id.seq.wrapping_add(lane), lane)), lane);
            let fields = mix(list.wrapping_add(place).wrapping_add(column), lane);
            *sum = sum.wrapping_add(mix(at.wrapping_add(fields), lane));
        }
        self.entries += 1;
    }
}

#[inline]
pub(crate) fn mix(mut x: u64, lane: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(lane);
    x ^= x >> 29;
    x = x.wrapping_mul(SECOND);
    x ^ (x >> 32)
}

/// `bytes(v)` in both lanes.
#[inline]
pub(crate) fn words(value: &[u8]) -> [u64; 2] {
    if value.len() > LONG {
        return blake2b_128(value);
    }
    let mut hashes = LANES.map(|lane| lane.wrapping_add(value.len() as u64));
    for part in value.chunks(8) {
        step(&mut hashes, word(part));
    }
    hashes
}

/// The same of `data[from..to]`; None where there are no such bytes.
///
/// Most values are short, and have others behind them: one load of eight bytes then takes a whole one.
#[inline(always)]
pub(crate) fn words_at(data: &[u8], from: usize, to: usize) -> Option<[u64; 2]> {
    let size = to.wrapping_sub(from);
    let whole = data.get(from..).and_then(|behind| behind.first_chunk::<8>());
    let (1..=8, Some(whole)) = (size, whole) else { return any_at(data, from, to) };
    let mut hashes = LANES.map(|lane| lane.wrapping_add(size as u64));
    // The bytes beyond the value are shifted out.
    let unused = 64 - 8 * size as u32;
    step(&mut hashes, u64::from_le_bytes(*whole) << unused >> unused);
    Some(hashes)
}

#[inline(never)]
fn any_at(data: &[u8], from: usize, to: usize) -> Option<[u64; 2]> {
    data.get(from..to).map(words)
}

#[inline(always)]
fn step(hashes: &mut [u64; 2], word: u64) {
    for (hash, lane) in hashes.iter_mut().zip(LANES) {
        *hash = (*hash ^ word).wrapping_mul(lane);
        *hash ^= *hash >> 32;
    }
}

/// Up to eight bytes, little-endian, filled up with zeros.
#[inline]
fn word(part: &[u8]) -> u64 {
    if let Some(whole) = part.first_chunk::<8>() {
        return u64::from_le_bytes(*whole);
    }
    // Two loads that overlap, so that neither depends on a loop over bytes.
    if let (Some(head), Some(tail)) = (part.first_chunk::<4>(), part.last_chunk::<4>()) {
        let beyond = 8 * (part.len() as u32 - 4);
        return u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << beyond;
    }
    part.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
}

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

const BLOCK: usize = 128;

/// BLAKE2b (RFC 7693) without a key, 16 bytes of it.
fn blake2b_128(value: &[u8]) -> [u64; 2] {
    let mut state = IV;
    if let Some(first) = state.first_mut() {
        *first ^= 0x0101_0000 ^ 16;
    }
    let mut done = 0u128;
    let mut parts = value.chunks(BLOCK).peekable();
    while let Some(part) = parts.next() {
        let mut padded = [0u8; BLOCK];
        for (to, from) in padded.iter_mut().zip(part) {
            *to = *from;
        }
        done += part.len() as u128;
        compress(&mut state, &padded, done, parts.peek().is_none());
    }
    let [first, second, ..] = state;
    [first, second]
}

#[allow(clippy::indexing_slicing)] // all indices are constants below the lengths of their arrays
fn compress(state: &mut [u64; 8], block: &[u8; BLOCK], done: u128, last: bool) {
    let mut m = [0u64; 16];
    for (to, from) in m.iter_mut().zip(block.chunks(8)) {
        *to = word(from);
    }
    let mut v = [0u64; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&IV);
    v[12] ^= done as u64;
    v[13] ^= (done >> 64) as u64;
    if last {
        v[14] = !v[14];
    }
    for round in 0..12 {
        let s = &SIGMA[round % 10];
        for (turn, [a, b, c, d]) in [
            [0, 4, 8, 12],
            [1, 5, 9, 13],
            [2, 6, 10, 14],
            [3, 7, 11, 15],
            [0, 5, 10, 15],
            [1, 6, 11, 12],
            [2, 7, 8, 13],
            [3, 4, 9, 14],
        ]
        .into_iter()
        .enumerate()
        {
            v[a] = v[a].wrapping_add(v[b]).wrapping_add(m[s[2 * turn]]);
            v[d] = (v[d] ^ v[a]).rotate_right(32);
            v[c] = v[c].wrapping_add(v[d]);
            v[b] = (v[b] ^ v[c]).rotate_right(24);
            v[a] = v[a].wrapping_add(v[b]).wrapping_add(m[s[2 * turn + 1]]);
            v[d] = (v[d] ^ v[a]).rotate_right(16);
            v[c] = v[c].wrapping_add(v[d]);
            v[b] = (v[b] ^ v[c]).rotate_right(63);
        }
    }
    for (at, word) in state.iter_mut().enumerate() {
        *word ^= v[at] ^ v[at + 8];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blake2b_is_that_of_the_rfc() {
        // hashlib.blake2b(data, digest_size=16)
        let data: Vec<u8> = (0..200u32).map(|number| (number % 251) as u8).collect();
        let found: Vec<u8> = blake2b_128(&data).iter().flat_map(|word| word.to_le_bytes()).collect();
        let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "61479efa6267fea757b3f881e2979bbc");
        let found: Vec<u8> = blake2b_128(&data[..128]).iter().flat_map(|word| word.to_le_bytes()).collect();
        let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "a74787004ef589e31149183900d0294a");
    }

    #[test]
    fn it_tells_order_names_values_and_ids_apart_and_adds_up() {
        let entry = |ms: u64, pairs: &[(&'static [u8], &'static [u8])]| {
            let mut digest = Digest::default();
            digest.add(Id::new(ms, 0), pairs.iter().copied());
            digest
        };
        let one = entry(1, &[(b"a", b"1"), (b"b", b"2")]);
        for other in [
            entry(2, &[(b"a", b"1"), (b"b", b"2")]),
            entry(1, &[(b"b", b"2"), (b"a", b"1")]),
            entry(1, &[(b"a", b"12"), (b"b", b"")]),
            entry(1, &[(b"a", b"1")]),
        ] {
            assert_ne!(one.lanes, other.lanes);
        }
        let mut both = one;
        both.add(Id::new(2, 0), std::iter::once((&b"c"[..], &b"3"[..])));
        let two = entry(2, &[(b"c", b"3")]);
        assert_eq!(both.lanes[0], one.lanes[0].wrapping_add(two.lanes[0]));
        assert_eq!((both.entries, both.size_bytes), (2, 6));
    }
}

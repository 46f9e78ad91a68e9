//! What was set for a stream: values by name, which the native side keeps and does not look into.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::group_ops::{put_name, read_name};
use crate::wire::{put_varint, Reader};

/// Settings of a stream, bytes of a name, bytes of a value: no more of each. A snapshot holds them all, so they stay
/// below 272 KiB.
pub const MAX_SETTINGS: usize = 64;
pub const MAX_SETTING_NAME_BYTES: usize = 255;
pub const MAX_SETTING_BYTES: usize = 4096;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    by_name: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Settings {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.by_name.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Whether a value may be set: what does not fit is refused before it is written, and where it is read.
    pub fn check(&self, name: &[u8], value: &[u8]) -> Result<()> {
        let count = self.by_name.len() + usize::from(!value.is_empty() && !self.by_name.contains_key(name));
        for (what, limit, found) in [
            ("the name of a setting", MAX_SETTING_NAME_BYTES, name.len()),
            ("the value of a setting", MAX_SETTING_BYTES, value.len()),
            ("the number of settings", MAX_SETTINGS, count),
        ] {
            if found > limit {
                return Err(Error::Limit { what, limit: limit as u64, found: found as u64 });
            }
        }
        Ok(())
    }

    /// Sets a value; an empty one takes the setting away.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        if self.check(name, value).is_err() {
            return Err(Error::corrupt("setting", 0, "a setting within its limits", name.len().max(value.len())));
        }
        if value.is_empty() {
            self.by_name.remove(name);
        } else {
            self.by_name.insert(name.to_vec(), value.to_vec());
        }
        Ok(())
    }

    /// Section 19 of a snapshot.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.by_name.len() as u64);
        for (name, value) in &self.by_name {
            put_name(out, name);
            put_name(out, value);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Settings> {
        let mut settings = Settings::default();
        let count = reader.count(MAX_SETTINGS, "a number of settings")?;
        if count == 0 {
            return Err(reader.fault("at least one setting", 0));
        }
        for _ in 0..count {
            let (name, value) = (read_name(reader)?, read_name(reader)?);
            if value.is_empty() {
                return Err(reader.fault("a value", "none"));
            }
            if settings.by_name.last_key_value().is_some_and(|(before, _)| *before >= name) {
                return Err(reader.fault("settings in order", "another order"));
            }
            settings.set(&name, &value)?;
        }
        Ok(settings)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_value_replaces_the_one_before_and_an_empty_one_takes_it_away() {
        let mut settings = Settings::default();
        settings.set(b"a", b"1").unwrap();
        settings.set(b"a", b"2").unwrap();
        settings.set(b"b", b"3").unwrap();
        assert_eq!((settings.get(b"a"), settings.iter().count()), (Some(b"2".as_slice()), 2));
        settings.set(b"a", b"").unwrap();
        settings.set(b"never there", b"").unwrap();
        assert_eq!((settings.get(b"a"), settings.iter().count()), (None, 1));
        settings.set(b"b", b"").unwrap();
        assert!(settings.is_empty());
    }

    #[test]
    fn what_is_over_a_limit_is_refused() {
        let mut settings = Settings::default();
        for number in 0..MAX_SETTINGS {
            settings.set(format!("{number:02}").as_bytes(), b"x").unwrap();
        }
        assert!(settings.check(b"one more", b"x").is_err());
        assert!(settings.check(b"one more", b"").is_ok(), "to take away what is not there changes nothing");
        settings.set(b"00", &[7; MAX_SETTING_BYTES]).unwrap();
        assert!(settings.check(b"00", &[7; MAX_SETTING_BYTES + 1]).is_err());
        assert!(settings.set(&[b'n'; MAX_SETTING_NAME_BYTES + 1], b"x").is_err());
    }

    #[test]
    fn they_come_back_from_a_snapshot_and_no_cut_is_a_panic() {
        let mut settings = Settings::default();
        settings.set(b"", b"x").unwrap();
        settings.set(b"b", &[0; MAX_SETTING_BYTES]).unwrap();
        let mut out = Vec::new();
        settings.put(&mut out);
        assert_eq!(Settings::read(&mut Reader::new(&out, "settings")).unwrap(), settings);
        for cut in 0..out.len() {
            assert!(Settings::read(&mut Reader::new(out.get(..cut).unwrap(), "settings")).is_err());
        }
        for wrong in [b"\x00".as_slice(), b"\x01\x01a\x00", b"\x02\x01b\x01x\x01a\x01x", b"\x02\x01a\x01x\x01a\x01x"] {
            assert!(Settings::read(&mut Reader::new(wrong, "settings")).is_err(), "{wrong:?}");
        }
    }
}

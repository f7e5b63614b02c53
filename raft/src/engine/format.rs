//! The format record: which release may open this store. It is one value under one key of the
//! `Meta` family and the first thing read at every open; it does not convert anything.

use super::StorageFault;

/// The format this release writes.
pub const FORMAT: u32 = 1;

/// The oldest format this release reads.
pub const FORMAT_MIN_READABLE: u32 = 1;

/// Key of the record in [`Family::Meta`](super::Family::Meta).
pub(crate) const FORMAT_KEY: &[u8] = b"format";

/// What the writer of a store says about who may read it: eight bytes, two big-endian numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatRecord {
    /// The format the store is in.
    pub format: u32,
    /// The oldest release, by the format it writes, that reads this store without harm.
    pub reader_min: u32,
}

impl FormatRecord {
    /// What this release writes into a new store.
    pub const CURRENT: FormatRecord = FormatRecord {
        format: FORMAT,
        reader_min: FORMAT,
    };

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.format.to_be_bytes());
        bytes[4..].copy_from_slice(&self.reader_min.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (format, reader_min) = bytes.split_first_chunk::<4>()?;
        Some(Self {
            format: u32::from_be_bytes(*format),
            reader_min: u32::from_be_bytes(reader_min.try_into().ok()?),
        })
    }
}

/// Judges the record of a store that is not new.
///
/// # Errors
/// `NewerFormat` or `OlderFormat` if this release is the wrong one, `Corrupt` if the record is
/// missing or misshapen.
pub(crate) fn judge(stored: Option<&[u8]>) -> Result<FormatRecord, StorageFault> {
    let corrupt = |detail: &str| StorageFault::Corrupt {
        what: "format record".into(),
        detail: detail.into(),
    };
    let stored = stored.ok_or_else(|| corrupt("missing in a store that holds data"))?;
    let record = FormatRecord::from_bytes(stored).ok_or_else(|| corrupt("not eight bytes"))?;
    if record.reader_min > FORMAT {
        return Err(StorageFault::NewerFormat {
            needed: record.reader_min,
            readable: FORMAT,
        });
    }
    if record.format < FORMAT_MIN_READABLE {
        return Err(StorageFault::OlderFormat {
            found: record.format,
            readable: FORMAT_MIN_READABLE,
        });
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(format: u32, reader_min: u32) -> [u8; 8] {
        FormatRecord { format, reader_min }.to_bytes()
    }

    #[test]
    fn a_later_writer_decides_whether_we_may_read() {
        assert!(judge(Some(&record(FORMAT, FORMAT))).is_ok());
        assert!(judge(Some(&record(FORMAT + 3, FORMAT))).is_ok());
        assert_eq!(
            judge(Some(&record(FORMAT + 3, FORMAT + 1))),
            Err(StorageFault::NewerFormat {
                needed: FORMAT + 1,
                readable: FORMAT
            })
        );
        assert_eq!(
            judge(Some(&record(0, 0))),
            Err(StorageFault::OlderFormat {
                found: 0,
                readable: FORMAT_MIN_READABLE
            })
        );
    }

    #[test]
    fn a_missing_or_misshapen_record_is_damage() {
        for stored in [None, Some(&b"1234567"[..]), Some(b"123456789")] {
            assert!(
                matches!(judge(stored), Err(StorageFault::Corrupt { .. })),
                "{stored:?}"
            );
        }
    }
}

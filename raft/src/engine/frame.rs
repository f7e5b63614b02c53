//! A check on single records: eight bytes of SHA-256 in front of the value. RocksDB checks its own
//! blocks and log records; this one also sees what was damaged in memory, put under the wrong key
//! by a bug, or cut short. It finds accidents, not forgeries.

use redlatch_types::Digest;

use super::StorageFault;

const CHECK_LEN: usize = 8;

/// `bytes` with their check in front.
pub fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(CHECK_LEN + bytes.len());
    framed.extend_from_slice(&Digest::of(bytes).0[..CHECK_LEN]);
    framed.extend_from_slice(bytes);
    framed
}

/// The bytes that [`framed`] was given.
///
/// # Errors
/// `Corrupt`, naming `what`, if the check does not fit.
pub fn unframed<'a>(what: &str, value: &'a [u8]) -> Result<&'a [u8], StorageFault> {
    let corrupt = |detail: &str| StorageFault::Corrupt {
        what: what.into(),
        detail: detail.into(),
    };
    let (check, bytes) = value
        .split_first_chunk::<CHECK_LEN>()
        .ok_or_else(|| corrupt("shorter than its check"))?;
    match Digest::of(bytes).0.starts_with(check) {
        true => Ok(bytes),
        false => Err(corrupt("does not fit its check")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flip_and_every_cut_is_noticed() {
        let value = framed(b"entry 7");
        assert_eq!(unframed("entry", &value), Ok(&b"entry 7"[..]));
        for at in 0..value.len() {
            let mut flipped = value.clone();
            flipped[at] ^= 1;
            assert!(unframed("entry", &flipped).is_err(), "flip at {at}");
            assert!(unframed("entry", &value[..at]).is_err(), "cut at {at}");
        }
    }
}

//! authenticatorData (WebAuthn §6.1): fixed part, flags, and extensions to the last byte.

use redlatch_types::Digest;

use super::AssertionRefused;
use super::canonical_cbor::is_map_by_name;

/// The flags byte. Bits 1 and 5 are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    const USER_PRESENT: u8 = 1 << 0;
    const USER_VERIFIED: u8 = 1 << 2;
    const BACKUP_ELIGIBLE: u8 = 1 << 3;
    const BACKED_UP: u8 = 1 << 4;
    const ATTESTED: u8 = 1 << 6;
    const EXTENSIONS: u8 = 1 << 7;
    const RESERVED: u8 = 1 << 1 | 1 << 5;

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    /// As it stands in the signed bytes.
    pub(super) fn byte(self) -> u8 {
        self.0
    }

    pub(super) fn backup_eligible(self) -> bool {
        self.has(Self::BACKUP_ELIGIBLE)
    }

    pub(super) fn backed_up(self) -> bool {
        self.has(Self::BACKED_UP)
    }
}

/// What an authenticator says about an assertion. The extensions were read and are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AuthenticatorData {
    rp_id_hash: Digest,
    pub(super) flags: Flags,
    pub(super) counter: u32,
}

impl AuthenticatorData {
    /// Reads all of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Result<AuthenticatorData, AssertionRefused> {
        let truncated = AssertionRefused::AuthenticatorDataTruncated;
        let (rp_id_hash, rest) = bytes.split_first_chunk::<32>().ok_or(truncated)?;
        let (&[flags], rest) = rest.split_first_chunk::<1>().ok_or(truncated)?;
        let (counter, rest) = rest.split_first_chunk::<4>().ok_or(truncated)?;
        let flags = Flags(flags);
        if flags.has(Flags::RESERVED) {
            return Err(AssertionRefused::ReservedFlags);
        }
        if flags.has(Flags::ATTESTED) {
            return Err(AssertionRefused::AttestedCredential);
        }
        if flags.has(Flags::EXTENSIONS) {
            if !is_map_by_name(rest) {
                return Err(AssertionRefused::ExtensionsMalformed);
            }
        } else if !rest.is_empty() {
            return Err(AssertionRefused::TrailingBytes);
        }
        Ok(AuthenticatorData {
            rp_id_hash: Digest(*rp_id_hash),
            flags,
            counter: u32::from_be_bytes(*counter),
        })
    }

    /// The rules of §7.2 steps 14 to 19.
    pub(super) fn check(&self, rp_id: &str, backup_eligible: bool) -> Result<(), AssertionRefused> {
        if self.rp_id_hash != Digest::of(rp_id.as_bytes()) {
            return Err(AssertionRefused::WrongRelyingParty);
        }
        if !self.flags.has(Flags::USER_PRESENT) {
            return Err(AssertionRefused::UserNotPresent);
        }
        if !self.flags.has(Flags::USER_VERIFIED) {
            return Err(AssertionRefused::UserNotVerified);
        }
        if self.flags.backed_up() && !self.flags.backup_eligible() {
            return Err(AssertionRefused::BackedUpIneligible);
        }
        if self.flags.backup_eligible() != backup_eligible {
            return Err(AssertionRefused::EligibilityChanged);
        }
        Ok(())
    }
}

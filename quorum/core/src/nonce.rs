//! The signing nonce: a value that exists once, serves one subset and is consumed by signing.
//!
//! The only file that names the library's own nonce type, which can be cloned (D13, FAULTS 32).
//! [`Nonce`] has no `Clone`, no `Debug`, no serde; it is never written anywhere, so that it
//! dies with the process. It does not decide what is signed.

use frost_ed25519::SigningPackage;
use frost_ed25519::round1::{SigningNonces, commit};
use frost_ed25519::round2::sign;
use rand_core::{CryptoRng, Error, RngCore};
use redlatch_types::{Bytes, Digest};

use crate::group::NotOfTheGroup;
use crate::messages::NonceCommitmentV1;
use crate::planted::Bug;
use crate::share::KeyShare;
use crate::tally::Subset;

/// A nonce pair with its public half.
pub(crate) struct Nonce {
    secret: SigningNonces,
    commitment: NonceCommitmentV1,
}

impl Nonce {
    /// Draws a pair for `subset`. `context` is mixed into every byte drawn.
    pub(crate) fn draw(
        share: &KeyShare,
        subset: Subset,
        context: &Digest,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<Nonce, NotOfTheGroup> {
        let mut hedged = Hedged {
            inner: rng,
            context: *context,
            drawn: 0,
        };
        let (secret, public) = commit(share.package().signing_share(), &mut hedged);
        let commitment = NonceCommitmentV1 {
            subset,
            hiding: Bytes(public.hiding().serialize()?),
            binding: Bytes(public.binding().serialize()?),
        };
        Ok(Nonce { secret, commitment })
    }

    /// The public half.
    pub(crate) fn commitment(&self) -> &NonceCommitmentV1 {
        &self.commitment
    }

    /// The one signature share that this nonce ever makes.
    pub(crate) fn sign(
        self,
        share: &KeyShare,
        package: &SigningPackage,
    ) -> Result<Bytes, NotOfTheGroup> {
        let share = sign(package, &self.secret, share.package())?;
        Ok(Bytes(share.serialize()))
    }
}

/// A generator whose output also depends on a context, so that two copies of one machine with
/// one generator state draw different nonces for different contexts (FAULTS 34).
struct Hedged<'a, R> {
    inner: &'a mut R,
    context: Digest,
    drawn: u64,
}

impl<R: RngCore + CryptoRng> RngCore for Hedged<'_, R> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        for piece in dest.chunks_mut(32) {
            let mut raw = zeroize::Zeroizing::new([0; 32]);
            if !Bug::NonceDerived.planted() {
                self.inner.fill_bytes(&mut raw[..]);
            }
            self.drawn += 1;
            let block = zeroize::Zeroizing::new(
                Digest::of_parts(&[
                    b"redlatch/v1/nonce-hedge\0",
                    &raw[..],
                    &self.context.0,
                    &self.drawn.to_be_bytes(),
                ])
                .0,
            );
            piece.copy_from_slice(&block[..piece.len()]);
        }
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        self.fill_bytes(dest);
        Ok(())
    }
}

impl<R: RngCore + CryptoRng> CryptoRng for Hedged<'_, R> {}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::marker::PhantomData;

    use super::Nonce;
    use crate::share::{KeyShare, SealedShare};

    /// An inherent method is found before a trait's, and only where its bound holds.
    struct Probe<T>(PhantomData<T>);
    trait Without {
        fn is_clone(&self) -> bool {
            false
        }
        fn is_debug(&self) -> bool {
            false
        }
    }
    impl<T> Without for Probe<T> {}
    impl<T: Clone> Probe<T> {
        fn is_clone(&self) -> bool {
            true
        }
    }
    impl<T: Debug> Probe<T> {
        fn is_debug(&self) -> bool {
            true
        }
    }

    #[test]
    fn fault_032_nonces_and_shares_can_neither_be_copied_nor_printed() {
        let nonce = Probe::<Nonce>(PhantomData);
        let share = Probe::<KeyShare>(PhantomData);
        let sealed = Probe::<SealedShare>(PhantomData);
        assert!(!nonce.is_clone() && !nonce.is_debug());
        assert!(!share.is_clone() && !share.is_debug());
        assert!(!sealed.is_clone() && !sealed.is_debug());
        let plain = Probe::<u8>(PhantomData);
        assert!(
            plain.is_clone() && plain.is_debug(),
            "the probe can say yes"
        );
    }
}

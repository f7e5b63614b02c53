//! The key ceremony: a distributed key generation among the four verifiers (D13).
//!
//! ```text
//!  begin ─▶ [Persist begun, Broadcast round 1]
//!  4 × round 1 ─▶ [Tell round 2 to each of three]
//!  4 × round 2 ─▶ self-test over every three ─▶ [Persist sealed share + boot record, Confirm]
//!                      └── waits, sealed, for the journal's activation
//! ```
//!
//! Threshold three and the four members are constants and the roster's; no message names them
//! (FAULTS 40). Every message is signed with the vote key that the roster pins to its index,
//! and names the ceremony (FAULTS 39). A ceremony that failed, timed out or was interrupted by
//! a restart is dead for good; the share of a finished one is kept (FAULTS 38). Channels
//! between verifiers are confidential; that is the driver's part.

mod fault;

use std::collections::BTreeMap;

use frost_ed25519::keys::dkg;
use frost_ed25519::keys::{SigningShare, VerifiableSecretSharingCommitment};
use frost_ed25519::{Identifier, Signature};
use rand_core::{CryptoRng, RngCore};
use redlatch_types::{Bytes, Canonical, Digest, Envelope, Record, Signed};
use zeroize::Zeroizing;

use crate::group;
use crate::messages::{CeremonyId, CeremonyRound1V1, CeremonyRound2V1, PublicKeyPackageV1};
use crate::records::{BootRecordV1, CeremonyRecordV1, Row, ShareRow};
use crate::share::SealedShare;
use crate::tally::{MEMBERS, THRESHOLD};
use crate::terms::{OwnSeat, Terms};

pub use fault::CeremonyFault;

/// What the driver does next, in order.
pub enum CeremonyEffect {
    /// Write all rows in one transaction and sync; if that fails, the process ends.
    Persist(Vec<Row>),
    /// Say this signed round-1 message to the three others, until each has it.
    Broadcast(Envelope),
    /// Tell this member alone, over its own confidential channel. The bytes are a canonical
    /// [`Envelope`] and hold a secret; they are erased on drop.
    Tell {
        /// FROST identifier of the recipient.
        to: u16,
        /// Canonical bytes of the signed round-2 message.
        message: Zeroizing<Vec<u8>>,
    },
    /// The signed [`redlatch_types::records::KeyConfirmationV1`], for `ActivateQuorumKey`.
    Confirm(Envelope),
}

/// Where a participant stands.
enum Stage {
    /// Collects round 1.
    Round1(dkg::round1::SecretPackage),
    /// Collects round 2.
    Round2(dkg::round2::SecretPackage),
    /// The share is made.
    Finished,
    /// Dead for good.
    Dead,
}

/// One participant of one ceremony.
pub struct Ceremony {
    terms: Terms,
    seat: OwnSeat,
    id: CeremonyId,
    deadline: u64,
    boot: BootRecordV1,
    stage: Stage,
    round1: BTreeMap<u16, Signed<CeremonyRound1V1>>,
    round2: BTreeMap<u16, (Digest, Zeroizing<Vec<u8>>)>,
}

impl Ceremony {
    /// Begins. `known` is what the store holds under [`Row::ceremony_key`]; `boot` is the boot
    /// record of now ([`crate::Verifier::boot_record`] with the highest share epoch so far);
    /// `deadline` is on the driver's clock, milliseconds.
    ///
    /// # Errors
    /// [`CeremonyFault::BegunBefore`] or [`CeremonyFault::StaleRoster`].
    pub fn begin(
        terms: Terms,
        seat: OwnSeat,
        id: CeremonyId,
        known: Option<&CeremonyRecordV1>,
        boot: BootRecordV1,
        deadline: u64,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<(Ceremony, Vec<CeremonyEffect>), CeremonyFault> {
        if known.is_some() {
            return Err(CeremonyFault::BegunBefore);
        }
        if id.roster_epoch != terms.roster().roster_epoch
            || id.quorum_key_epoch != terms.next_key_epoch()
        {
            return Err(CeremonyFault::StaleRoster);
        }
        let me = group::identifier(seat.identifier).map_err(|_| CeremonyFault::BadResult)?;
        let (secret, package) =
            dkg::part1(me, MEMBERS, THRESHOLD, rng).map_err(|_| CeremonyFault::BadResult)?;
        let said = round1_message(&seat, id, &package).ok_or(CeremonyFault::BadResult)?;
        let envelope = Envelope::seal(terms.scope(), &seat.key, &said);
        let own = envelope.open().map_err(|_| CeremonyFault::BadResult)?;
        let ceremony = Ceremony {
            round1: BTreeMap::from([(seat.identifier, own)]),
            round2: BTreeMap::new(),
            stage: Stage::Round1(secret),
            terms,
            seat,
            id,
            deadline,
            boot,
        };
        let effects = vec![
            CeremonyEffect::Persist(vec![Row::Ceremony(CeremonyRecordV1 { ceremony: id })]),
            CeremonyEffect::Broadcast(envelope),
        ];
        Ok((ceremony, effects))
    }

    /// Which ceremony.
    pub fn id(&self) -> CeremonyId {
        self.id
    }

    /// Whether this participant made its share.
    pub fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Finished)
    }

    /// Whether this ceremony is dead here.
    pub fn is_dead(&self) -> bool {
        matches!(self.stage, Stage::Dead)
    }

    /// A member's round-1 message came. With the fourth, round 2 begins.
    ///
    /// # Errors
    /// [`CeremonyFault`]; a message of somebody else does not occupy the member's place.
    pub fn handle_round1(
        &mut self,
        envelope: &Envelope,
    ) -> Result<Vec<CeremonyEffect>, CeremonyFault> {
        let signed: Signed<CeremonyRound1V1> = self.open(envelope)?;
        let said = signed.record();
        let member = self.member(&signed, said.identifier)?;
        if said.ceremony != self.id {
            return Err(CeremonyFault::OtherCeremony);
        }
        let known = self.terms.by_identifier(member).map(|v| &v.verifier_id);
        if known != Some(&said.verifier_id) {
            return Err(CeremonyFault::NotAuthorised);
        }
        if let Some(before) = self.round1.get(&member) {
            return if before.digest() == signed.digest() {
                Ok(Vec::new())
            } else {
                Err(self.die(CeremonyFault::Equivocation(member)))
            };
        }
        if !matches!(self.stage, Stage::Round1(_)) {
            return Err(CeremonyFault::Over);
        }
        self.round1.insert(member, signed);
        if self.round1.len() < usize::from(MEMBERS) {
            return Ok(Vec::new());
        }
        self.begin_round2()
    }

    /// A member's round-2 message came: the canonical bytes of its envelope. With the third,
    /// the share is made.
    ///
    /// # Errors
    /// [`CeremonyFault`]; [`CeremonyFault::TooEarly`] until round 1 is complete here.
    pub fn handle_round2(&mut self, message: &[u8]) -> Result<Vec<CeremonyEffect>, CeremonyFault> {
        let envelope =
            Envelope::from_canonical(message).map_err(|_| CeremonyFault::NotCanonical)?;
        let signed: Signed<CeremonyRound2V1> = self.open(&envelope)?;
        let said = signed.record();
        let member = self.member(&signed, said.sender)?;
        if said.ceremony != self.id {
            return Err(CeremonyFault::OtherCeremony);
        }
        if said.recipient != self.seat.identifier || member == self.seat.identifier {
            return Err(CeremonyFault::OtherRecipient);
        }
        match self.stage {
            Stage::Round1(_) => return Err(CeremonyFault::TooEarly),
            Stage::Round2(_) => {}
            // A late repeat: the share is made.
            Stage::Finished => return Ok(Vec::new()),
            Stage::Dead => return Err(CeremonyFault::Over),
        }
        if said.round1_digest != self.round1_digest() {
            return Err(self.die(CeremonyFault::OtherRound1(member)));
        }
        if let Some((before, _)) = self.round2.get(&member) {
            return if *before == signed.digest() {
                Ok(Vec::new())
            } else {
                Err(self.die(CeremonyFault::Equivocation(member)))
            };
        }
        let share = Zeroizing::new(said.share.0.clone());
        self.round2.insert(member, (signed.digest(), share));
        if self.round2.len() < usize::from(MEMBERS - 1) {
            return Ok(Vec::new());
        }
        self.finish()
    }

    /// Time passed (the driver's clock, milliseconds). A finished ceremony stays finished: its
    /// share waits for the journal.
    ///
    /// # Errors
    /// [`CeremonyFault::TimedOut`] once, when the deadline has passed.
    pub fn handle_timeout(&mut self, now: u64) -> Result<(), CeremonyFault> {
        if now < self.deadline || matches!(self.stage, Stage::Finished | Stage::Dead) {
            return Ok(());
        }
        Err(self.die(CeremonyFault::TimedOut))
    }

    fn open<T: Record>(&self, envelope: &Envelope) -> Result<Signed<T>, CeremonyFault> {
        if matches!(self.stage, Stage::Dead) {
            return Err(CeremonyFault::Over);
        }
        if envelope.scope != self.terms.scope() {
            return Err(CeremonyFault::NotAuthorised);
        }
        envelope.open().map_err(|_| CeremonyFault::NotAuthorised)
    }

    /// The member that signed, which must be the one that the message names.
    fn member<T>(&self, signed: &Signed<T>, claimed: u16) -> Result<u16, CeremonyFault> {
        self.terms
            .roster()
            .verifier_by_vote_key(signed.key())
            .map(|v| v.identifier)
            .filter(|i| *i == claimed)
            .ok_or(CeremonyFault::NotAuthorised)
    }

    fn die(&mut self, fault: CeremonyFault) -> CeremonyFault {
        self.stage = Stage::Dead;
        self.round2.clear();
        fault
    }

    /// Digest of the four round-1 messages in the order of their members.
    fn round1_digest(&self) -> Digest {
        let lines: Vec<(u16, Digest)> = self
            .round1
            .iter()
            .map(|(member, said)| (*member, said.digest()))
            .collect();
        Digest::of_parts(&[
            b"redlatch/v1/ceremony-round-1\0",
            &(self.id, lines).to_canonical(),
        ])
    }

    fn others(&self) -> Result<BTreeMap<Identifier, dkg::round1::Package>, CeremonyFault> {
        let mut packages = BTreeMap::new();
        for (member, said) in &self.round1 {
            if *member == self.seat.identifier {
                continue;
            }
            let bad = || CeremonyFault::BadPackage(*member);
            let identifier = group::identifier(*member).map_err(|_| bad())?;
            let package = round1_package(said.record()).ok_or_else(bad)?;
            packages.insert(identifier, package);
        }
        Ok(packages)
    }

    fn begin_round2(&mut self) -> Result<Vec<CeremonyEffect>, CeremonyFault> {
        let others = match self.others() {
            Ok(others) => others,
            Err(fault) => return Err(self.die(fault)),
        };
        let Stage::Round1(secret) = std::mem::replace(&mut self.stage, Stage::Dead) else {
            return Err(CeremonyFault::Over);
        };
        let (secret, packages) = dkg::part2(secret, &others).map_err(blame)?;
        self.stage = Stage::Round2(secret);
        let round1_digest = self.round1_digest();
        let mut effects = Vec::new();
        for (identifier, package) in packages {
            let to = group::number(identifier).ok_or(CeremonyFault::BadResult)?;
            let said = CeremonyRound2V1 {
                ceremony: self.id,
                sender: self.seat.identifier,
                recipient: to,
                round1_digest,
                share: Bytes(package.signing_share().serialize()),
            };
            let envelope = Envelope::seal(self.terms.scope(), &self.seat.key, &said);
            effects.push(CeremonyEffect::Tell {
                to,
                message: Zeroizing::new(envelope.to_canonical()),
            });
        }
        Ok(effects)
    }

    fn finish(&mut self) -> Result<Vec<CeremonyEffect>, CeremonyFault> {
        match self.make_share() {
            Ok(effects) => {
                self.stage = Stage::Finished;
                self.round2.clear();
                Ok(effects)
            }
            Err(fault) => Err(self.die(fault)),
        }
    }

    fn make_share(&self) -> Result<Vec<CeremonyEffect>, CeremonyFault> {
        let Stage::Round2(secret) = &self.stage else {
            return Err(CeremonyFault::Over);
        };
        let mut told = BTreeMap::new();
        for (member, (_, share)) in &self.round2 {
            let bad = |_| CeremonyFault::BadPackage(*member);
            let identifier = group::identifier(*member).map_err(|_| CeremonyFault::BadResult)?;
            let share = SigningShare::deserialize(share).map_err(bad)?;
            told.insert(identifier, dkg::round2::Package::new(share));
        }
        let (package, keys) = dkg::part3(secret, &self.others()?, &told).map_err(blame)?;
        let bad = |_| CeremonyFault::BadResult;
        let public = PublicKeyPackageV1 {
            quorum_key_epoch: self.id.quorum_key_epoch,
            group_key: group::group_key(keys.verifying_key()).map_err(bad)?,
            verifying_shares: group::verifying_shares(&keys).map_err(bad)?,
        };
        let transcript_digest = self.transcript_digest(&public);
        let sealed = SealedShare::of_ceremony(
            self.terms.scope().organism_id,
            self.seat.identifier,
            self.id.roster_epoch,
            transcript_digest,
            public,
            &package,
        )
        .map_err(|_| CeremonyFault::BadResult)?;
        self.keep_and_confirm(&sealed)
    }

    /// The share, and the boot record that knows of it, in one write; then the confirmation.
    fn keep_and_confirm(&self, sealed: &SealedShare) -> Result<Vec<CeremonyEffect>, CeremonyFault> {
        let confirmation = sealed
            .confirm(&self.terms, &self.seat)
            .map_err(|_| CeremonyFault::BadResult)?;
        let boot = BootRecordV1 {
            key_epoch: self.boot.key_epoch.max(sealed.epoch()),
            ..self.boot.clone()
        };
        let share = ShareRow {
            quorum_key_epoch: sealed.epoch(),
            group_key: sealed.group_key(),
            bytes: sealed.to_bytes(),
        };
        Ok(vec![
            CeremonyEffect::Persist(vec![Row::Share(share), Row::Boot(boot)]),
            CeremonyEffect::Confirm(confirmation),
        ])
    }

    /// Over all round-1 messages in the order of members, the group key, organism and epochs
    /// (FAULTS 38).
    fn transcript_digest(&self, public: &PublicKeyPackageV1) -> Digest {
        let parts = (self.terms.scope(), self.round1_digest(), public.digest());
        Digest::of_parts(&[b"redlatch/v1/ceremony-transcript\0", &parts.to_canonical()])
    }
}

fn blame(error: frost_ed25519::Error) -> CeremonyFault {
    error
        .culprits()
        .into_iter()
        .find_map(group::number)
        .map_or(CeremonyFault::BadResult, CeremonyFault::BadPackage)
}

fn round1_message(
    seat: &OwnSeat,
    ceremony: CeremonyId,
    package: &dkg::round1::Package,
) -> Option<CeremonyRound1V1> {
    let commitment = package.commitment().serialize().ok()?;
    let proof = package.proof_of_knowledge().serialize().ok()?;
    Some(CeremonyRound1V1 {
        ceremony,
        verifier_id: seat.verifier_id.clone(),
        identifier: seat.identifier,
        commitment: commitment.into_iter().map(Bytes).collect(),
        proof: Bytes(proof),
    })
}

/// `None` unless it has exactly the threshold's number of good points and a good proof.
fn round1_package(said: &CeremonyRound1V1) -> Option<dkg::round1::Package> {
    if said.commitment.len() != usize::from(THRESHOLD) {
        return None;
    }
    let points = said.commitment.iter().map(|b| b.0.as_slice());
    let commitment = VerifiableSecretSharingCommitment::deserialize(points).ok()?;
    let proof = Signature::deserialize(&said.proof.0).ok()?;
    Some(dkg::round1::Package::new(commitment, proof))
}

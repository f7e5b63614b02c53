//! The four verifiers and the sentinel as the coordinator calls them.

use std::collections::BTreeMap;
use std::time::Duration;

use redlatch_ballot::messages::PublicKeyPackageV1;
use redlatch_link::transport::{Dialer, Link, TransportError};
use redlatch_link::{PeerIdentity, Role, client_type, world};
use redlatch_proto::v1;
use redlatch_proto::v1::sentinel_client::SentinelClient;
use redlatch_proto::v1::verifier_client::VerifierClient;
use redlatch_types::records::{FindingsV1, RosterV1};
use redlatch_types::{Canonical, Digest, Envelope, Refusal, VerifierId};

/// How long a call that only reads may take.
const READ_DEADLINE: Duration = Duration::from_secs(2);
/// How long a verifier may take to answer; its evaluators are the slow part.
const VOTER_DEADLINE: Duration = Duration::from_secs(40);
/// How long the sentinel may take to judge.
const SENTINEL_DEADLINE: Duration = Duration::from_secs(10);

type Voter = client_type!(VerifierClient);
type Watcher = client_type!(SentinelClient);

/// Where the parties of a decision listen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartyAddresses {
    /// `host:port` of the verifiers, by name.
    pub verifiers: BTreeMap<String, String>,
    /// `host:port` of the sentinel.
    pub sentinel: Option<String>,
}

/// What a verifier said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Canonical bytes of its answer.
    Answer(Vec<u8>),
    /// A refusal, and the sheet it opened before, if that is why.
    Refused(Refusal, Option<Vec<u8>>),
    /// It was not reached, or is not ready.
    Silent,
}

/// What a verifier is asked.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// For its sealed vote.
    Ballot(v1::BallotRequest),
    /// To open it.
    Open(v1::OpenRequest),
    /// For a share.
    Sign(v1::SignRequest),
}

/// Links to the parties. Nothing is connected before it is needed.
pub(crate) struct Parties {
    voters: BTreeMap<VerifierId, Voter>,
    sentinel: Option<Watcher>,
}

impl Parties {
    /// Links to every verifier of the roster that has an address, and to the sentinel.
    ///
    /// # Errors
    /// [`TransportError::NotAnAddress`] for an address that cannot be dialled or a name that nobody has.
    pub(crate) fn new(
        dialer: &Dialer,
        roster: &RosterV1,
        addresses: &PartyAddresses,
    ) -> Result<Parties, TransportError> {
        let mut voters = BTreeMap::new();
        for (name, address) in &addresses.verifiers {
            let verifier = roster
                .verifiers
                .iter()
                .find(|it| it.verifier_id.as_str() == name)
                .ok_or_else(|| TransportError::NotAnAddress(format!("verifiers.{name}")))?;
            let link = link(dialer, Role::Verifier, name, address)?;
            let client = VerifierClient::with_interceptor(link.channel(), link.introduction());
            voters.insert(verifier.verifier_id.clone(), client);
        }
        let sentinel = match &addresses.sentinel {
            None => None,
            Some(address) => {
                let link = link(
                    dialer,
                    Role::Sentinel,
                    roster.sentinel.name.as_str(),
                    address,
                )?;
                let (channel, introduction) = (link.channel(), link.introduction());
                Some(SentinelClient::with_interceptor(channel, introduction))
            }
        };
        Ok(Parties { voters, sentinel })
    }

    /// The verifiers that have an address.
    pub(super) fn voters(&self) -> impl Iterator<Item = &VerifierId> {
        self.voters.keys()
    }

    /// The public key package that a verifier holds, if it may vote.
    pub(super) async fn key(&self, verifier: &VerifierId) -> Option<PublicKeyPackageV1> {
        let mut client = self.voters.get(verifier)?.clone();
        let call = world::timeout(READ_DEADLINE, client.key(v1::KeyRequest {})).await;
        let answer = call.ok()?.ok()?.into_inner();
        let bytes = answer.public_key_package.filter(|_| answer.can_sign)?;
        PublicKeyPackageV1::from_canonical(&bytes).ok()
    }

    /// Asks a verifier once.
    pub(super) async fn ask(&self, verifier: &VerifierId, question: Question) -> Said {
        let Some(client) = self.voters.get(verifier) else {
            return Said::Silent;
        };
        let mut client = client.clone();
        let call = async {
            match question {
                Question::Ballot(request) => client.ballot(request).await,
                Question::Open(request) => client.open(request).await,
                Question::Sign(request) => client.sign(request).await,
            }
        };
        match world::timeout(VOTER_DEADLINE, call).await {
            Ok(Ok(answer)) => said(answer.into_inner()),
            Ok(Err(status)) => {
                tracing::debug!(%verifier, %status, "a verifier does not answer");
                Said::Silent
            }
            Err(world::DeadlinePassed) => Said::Silent,
        }
    }

    /// Findings by their digest, if the verifier gives the ones that have it.
    pub(super) async fn findings(
        &self,
        verifier: &VerifierId,
        digest: &Digest,
    ) -> Option<FindingsV1> {
        let mut client = self.voters.get(verifier)?.clone();
        let request = v1::FindingsRequest {
            digest: digest.0.to_vec(),
        };
        let call = world::timeout(READ_DEADLINE, client.findings(request)).await;
        let bytes = call.ok()?.ok()?.into_inner().findings?;
        if Digest::of(&bytes) != *digest {
            return None;
        }
        FindingsV1::from_canonical(&bytes).ok()
    }

    /// The sentinel's verdict on the intent of a freeze receipt; `None` if it says nothing.
    pub(super) async fn verdict(&self, freeze_receipt: &str) -> Option<Envelope> {
        let mut client = self.sentinel.clone()?;
        let request = v1::EvaluateRequest {
            freeze_receipt: freeze_receipt.to_owned(),
        };
        let call = world::timeout(SENTINEL_DEADLINE, client.evaluate(request)).await;
        match call.ok()? {
            Ok(answer) => Envelope::from_canonical(&answer.into_inner().verdict_envelope).ok(),
            Err(status) => {
                tracing::debug!(%status, "the sentinel does not answer");
                None
            }
        }
    }
}

fn link(dialer: &Dialer, role: Role, name: &str, address: &str) -> Result<Link, TransportError> {
    let organism = dialer.identity().organism;
    let peer = PeerIdentity::new(organism, role, name)
        .map_err(|_| TransportError::NotAnAddress(name.to_owned()))?;
    dialer.channel(address, &peer)
}

fn said(answer: v1::VoterAnswer) -> Said {
    use v1::voter_answer::Result as Wire;
    match answer.result {
        Some(Wire::Answer(bytes)) => Said::Answer(bytes),
        Some(Wire::Refusal(code)) => match code.parse() {
            Ok(refusal) => Said::Refused(refusal, answer.opened_sheet),
            // A code of another version refuses as well.
            Err(_) => Said::Refused(Refusal::NotSupported, answer.opened_sheet),
        },
        None => Said::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_refuses_and_an_empty_answer_is_silence() {
        use v1::voter_answer::Result as Wire;
        let of = |result| {
            said(v1::VoterAnswer {
                result,
                opened_sheet: None,
            })
        };
        assert_eq!(of(None), Said::Silent);
        assert_eq!(of(Some(Wire::Answer(vec![1]))), Said::Answer(vec![1]));
        let known = of(Some(Wire::Refusal("expired".into())));
        assert_eq!(known, Said::Refused(Refusal::Expired, None));
        let unknown = of(Some(Wire::Refusal("from_the_future".into())));
        assert_eq!(unknown, Said::Refused(Refusal::NotSupported, None));
    }
}

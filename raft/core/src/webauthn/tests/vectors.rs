//! Assertions that were made elsewhere: the vectors of W3C Web Authentication Level 3 §16.
//!
//! All are for the relying party example.org and its origin. The credential ids are left out,
//! since no signature covers them; that of §16.6 has the greatest allowed length.

use super::*;

struct Vector {
    key: &'static str,
    challenge: &'static str,
    authenticator_data: &'static str,
    client_data_json: &'static str,
    signature: &'static str,
}

/// §16.6, an ES256 credential with a very long credential id: user present and verified,
/// eligible for backup, high S.
const LONG_ID: Vector = Vector {
    key: "a5010203262001\
          2158203b8176b7504489cc593046d7988abb7905a742de6ac2cdc748a873c663e90cb1\
          2258201436d5edc9a75f23999eef9d5950a5c2455514ee1014084720f841a06b828a11",
    challenge: "ef1deba56dce48f674a447ccf63b9599258ce87648e5c396f2ef0ca1da460e3b",
    authenticator_data: "bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b50d00000000",
    client_data_json: "7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a22377833727057334f53505a30\
        7045664d396a75566d53574d36485a4935634f573875384d6f647047446a73222c226f726967696e223a226874747073\
        3a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73657d",
    signature: "304502203ecef83fb12a0cae7841055f9f87103a99fd14b424194bbf06c4623d3ee6e3fd022100d2ace346db262b1374\
        a6b70faa51f518a42ddca13a4125ce6f5052a75bac9fb6",
};

/// §16.2, an ES256 credential without attestation: user present and not verified, backed up.
const NOT_VERIFIED: Vector = Vector {
    key: "a5010203262001\
          215820afefa16f97ca9b2d23eb86ccb64098d20db90856062eb249c33a9b672f26df61\
          225820930a56b87a2fca66334b03458abf879717c12cc68ed73290af2e2664796b9220",
    challenge: "39c0e7521417ba54d43e8dc95174f423dee9bf3cd804ff6d65c857c9abf4d408",
    authenticator_data: "bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b51900000000",
    client_data_json: "7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a224f63446e55685158756c5455\
        506f334a5558543049393770767a7a59425039745a63685879617630314167222c226f726967696e223a226874747073\
        3a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73657d",
    signature: "3046022100f50a4e2e4409249c4a853ba361282f09841df4dd4547a13a87780218deffcd380221008480ac0f0b935381\
        74f575bf11a1dd5d78c6e486013f937295ea13653e331e87",
};

/// §16.4, an ES256 credential asked for in a frame of another origin, with a member that no
/// version of the specification knows.
const IN_A_FRAME: Vector = Vector {
    key: "a5010203262001\
          21582022200a473f90b11078851550d03b4e44a2279f8c4eca27b3153dedfe03e4e97d\
          225820cbd0be95e746ad6f5a8191be11756e4c0420e72f65b466d39bc56b8b123a9c6e",
    challenge: "876aa517ba83fdee65fcffdbca4c84eeae5d54f8041a1fc85c991e5bbb273137",
    authenticator_data: "bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b50500000000",
    client_data_json: "7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a226832716c463771445f65356c\
        5f505f62796b7945377135645650674547685f49584a6b655737736e4d5463222c226f726967696e223a226874747073\
        3a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a747275652c22657874726144617461223a22\
        636c69656e74446174614a534f4e206d617920626520657874656e6465642077697468206164646974696f6e616c2066\
        69656c647320696e20746865206675747572652c207375636820617320746869733a2039327063545644304162792d71\
        3464746d6a36656667227d",
    signature: "3046022100eb12fcf23b12764c0f122e22371fab92e283879fd798f38ee1841c951b6e40e7022100c76237ff9db77b3c\
        56f30837cda6a09acfa2e915544e609c0733b1184036d1cf",
};

/// §16.11, an Ed25519 credential: user present and not verified.
const ED25519: Vector = Vector {
    key: "a4010103272006\
          21582044e06ddd331c36a8dc667bab52bcae63486c916aa5e339e6acebaa84934bf832",
    challenge: "895957e01c633a698348a2d8a31a54b7db27e8c1c43b2080d79ae2190267bfd2",
    authenticator_data: "bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b50100000000",
    client_data_json: "7b2274797065223a22776562617574686e2e676574222c226368616c6c656e6765223a2269566c583442786a4f6d6d44\
        534b4c596f7870557439736e364d48454f7943413135726947514a6e763949222c226f726967696e223a226874747073\
        3a2f2f6578616d706c652e6f7267222c2263726f73734f726967696e223a66616c73657d",
    signature: "f5c59c7e46c34f6f8cc197101ddf9934fa2595f68eb1913a637e8419eb9ba4cfdfc48f85393bc0d40b011f0d6fecb097\
        d6607525713223a0dc0d453993dae00b",
};

impl Vector {
    fn judged(&self, backup_eligible: bool) -> Result<Verified, AssertionRefused> {
        let [authenticator_data, client_data_json, signature, key] = [
            self.authenticator_data,
            self.client_data_json,
            self.signature,
            self.key,
        ]
        .map(|text| hex::decode(text).unwrap());
        let id = [7; CREDENTIAL_ID_LEN_MAX];
        let credential = Credential {
            id: &id,
            key: &CredentialKey::from_cose(&key).unwrap(),
            rp_id: "example.org",
            origins: &["https://example.org"],
            counter: 0,
            backup_eligible,
        };
        let assertion = Assertion {
            credential_id: &id,
            authenticator_data: &authenticator_data,
            client_data_json: &client_data_json,
            signature: &signature,
        };
        let message = signed_bytes(&assertion);
        assert_eq!(credential.key.verify(&message, &signature), Ok(()));
        verify(&credential, &self.challenge.parse().unwrap(), &assertion)
    }
}

#[test]
fn vectors_of_the_specification() {
    let verified = Verified {
        counter: 0,
        backup_eligible: true,
        backed_up: false,
    };
    assert_eq!(LONG_ID.judged(true), Ok(verified));
    let changed = Err(AssertionRefused::EligibilityChanged);
    assert_eq!(LONG_ID.judged(false), changed);
    let not_verified = Err(AssertionRefused::UserNotVerified);
    assert_eq!(NOT_VERIFIED.judged(true), not_verified);
    assert_eq!(ED25519.judged(false), not_verified);
    let in_a_frame = Err(AssertionRefused::CrossOrigin);
    assert_eq!(IN_A_FRAME.judged(false), in_a_frame);
}

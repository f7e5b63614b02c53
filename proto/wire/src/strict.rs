//! The servers' codec: a request must be spelled as we spell it (FAULTS 51).
//!
//! A caller that sets a field which this build does not know must not be half understood, and
//! the last of two values must not silently win. So a request is decoded, encoded again and
//! compared: unknown fields, repeated fields, fields out of order, explicit defaults, groups
//! and over-long varints are refused as a whole. Clients stay lenient: an answer may carry
//! more than an older client knows.
//!
//! Nothing here looks at what the bytes mean.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

/// Encodes like prost; decodes only what prost would have encoded.
#[derive(Debug, Clone)]
pub struct StrictCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for StrictCodec<T, U> {
    fn default() -> Self {
        StrictCodec(PhantomData)
    }
}

impl<T, U> Codec for StrictCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = StrictDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        StrictDecoder(PhantomData)
    }
}

/// See [`StrictCodec`].
#[derive(Debug, Clone)]
pub struct StrictDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for StrictDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        exact(&bytes).map(Some)
    }
}

/// Decodes `bytes`, which must be exactly how the message is encoded here.
///
/// # Errors
/// `INVALID_ARGUMENT` for anything else.
pub fn exact<U: Message + Default>(bytes: &[u8]) -> Result<U, Status> {
    let refuse = |why: String| Status::invalid_argument(format!("the request is malformed: {why}"));
    let message = U::decode(bytes).map_err(|error| refuse(error.to_string()))?;
    if message.encoded_len() == bytes.len() && message.encode_to_vec() == bytes {
        Ok(message)
    } else {
        Err(refuse(
            "a field is unknown here, repeated, out of order or spelled in another way".into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::SubmitRequest;

    fn request() -> SubmitRequest {
        SubmitRequest {
            command: vec![0xaa, 0xbb],
            receipt_wait_ms: 7,
        }
    }

    #[test]
    fn fault_051_a_request_has_one_spelling() {
        let good = request().encode_to_vec();
        assert_eq!(good, [0x0a, 0x02, 0xaa, 0xbb, 0x10, 0x07]);
        assert_eq!(exact::<SubmitRequest>(&good).unwrap(), request());
        let others: &[(&str, &[u8])] = &[
            ("reordered", &[0x10, 0x07, 0x0a, 0x02, 0xaa, 0xbb]),
            (
                "over-long varint",
                &[0x0a, 0x02, 0xaa, 0xbb, 0x10, 0x87, 0x00],
            ),
            (
                "repeated",
                &[0x0a, 0x02, 0xaa, 0xbb, 0x10, 0x09, 0x10, 0x07],
            ),
            (
                "unknown field 99",
                &[0x0a, 0x02, 0xaa, 0xbb, 0x10, 0x07, 0x98, 0x06, 0x01],
            ),
            ("explicit default", &[0x0a, 0x02, 0xaa, 0xbb, 0x10, 0x00]),
            ("empty group", &[0x0a, 0x02, 0xaa, 0xbb, 0x1b, 0x1c]),
            (
                "endless varint",
                &[
                    0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
                ],
            ),
            ("truncated", &[0x0a, 0x02, 0xaa]),
            ("wrong wire type", &[0x0d, 0x00, 0x00, 0x00, 0x00]),
        ];
        for (what, bytes) in others {
            let refused = exact::<SubmitRequest>(bytes).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{what}");
        }
    }

    #[test]
    fn fault_051_the_servers_use_it_and_the_clients_do_not() {
        let generated = include_str!(concat!(env!("OUT_DIR"), "/redlatch.v1.rs"));
        let mut inside = "";
        for line in generated.lines() {
            if let Some(name) = line.trim().strip_prefix("pub mod ") {
                inside = name;
            }
            if line.contains("Codec::default()") {
                let strict = line.contains("crate::strict::StrictCodec");
                assert_eq!(strict, inside.contains("_server"), "{inside} {line}");
            }
        }
    }
}

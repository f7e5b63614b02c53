//! Addresses with a restriction.

use std::net::SocketAddr;

use super::TransportError;

/// The address, if it is reachable from this machine alone.
///
/// # Errors
/// [`TransportError::NotLoopback`].
pub fn loopback_only(address: SocketAddr) -> Result<SocketAddr, TransportError> {
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(TransportError::NotLoopback { address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_loopback() {
        for good in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert!(
                loopback_only(good.parse().expect("address")).is_ok(),
                "{good}"
            );
        }
        for bad in [
            "0.0.0.0:1",
            "[::]:1",
            "10.0.0.1:1",
            "[::ffff:127.0.0.1]:1",
            "192.168.0.1:1",
        ] {
            assert!(
                loopback_only(bad.parse().expect("address")).is_err(),
                "{bad}"
            );
        }
    }
}

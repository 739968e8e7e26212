//! A reverse proxy that knows its users and names them in a header. Only requests from its own addresses
//! are believed: anybody can send a header.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName};

/// The longest name of a user, in bytes.
const LONGEST: usize = 200;

/// An address, or all that begin like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl FromStr for Network {
    type Err = String;

    /// `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Network, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let wrong = || format!("`{text}` is no address such as `192.0.2.7` or `10.0.0.0/8`");
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix =
            prefix.map_or(Ok(most), |prefix| prefix.trim().parse().map_err(|_| wrong()))?;
        // `/0` would believe everybody.
        if prefix == 0 || prefix > most {
            return Err(wrong());
        }
        Ok(Network { address, prefix })
    }
}

impl Network {
    fn has(&self, other: IpAddr) -> bool {
        let same =
            |ours: u128, theirs: u128, bits: u32| (ours ^ theirs) >> (bits - self.prefix) == 0;
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same(ours.to_bits().into(), theirs.to_bits().into(), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same(ours.to_bits(), theirs.to_bits(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// What the operator says about the proxy.
#[derive(Clone, Debug)]
pub struct TrustedProxy {
    pub header: HeaderName,
    pub networks: Vec<Network>,
}

impl TrustedProxy {
    /// The user that the proxy names, when the request comes from it.
    pub(super) fn user(&self, headers: &HeaderMap, peer: IpAddr) -> Option<String> {
        if !self.networks.iter().any(|network| network.has(peer)) {
            return None;
        }
        // Twice means that the proxy let one through that the browser sent.
        let mut values = headers.get_all(&self.header).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let name = std::str::from_utf8(value.as_bytes()).ok()?.trim();
        (!name.is_empty() && name.len() <= LONGEST).then(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::server::proxy::Network;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        for (network, address, is_in) in [
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "127.0.0.1", false),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.has(address.parse().unwrap()), is_in, "{network} {address}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/0", "proxy.example", "10.0.0.0/", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}

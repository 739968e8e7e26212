//! Whether a webhook is from somebody who knows the secret: HMAC-SHA256 over the raw body, as GitHub
//! sends it in `X-Hub-Signature-256`
//! (<https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>). The older
//! `X-Hub-Signature` (SHA-1) counts for nothing.

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

const HEADER: &str = "x-hub-signature-256";

/// The signature that a request claims, when it has exactly one that is well formed.
pub(super) fn claimed(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut values = headers.get_all(HEADER).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let digits = value.to_str().ok()?.strip_prefix("sha256=")?;
    let mut signature = [0; 32];
    if digits.len() != 2 * signature.len() || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in signature.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(signature)
}

/// A body being checked while it arrives, against the secret and, during a rotation, the one before.
pub(super) struct Check(Vec<Hmac<Sha256>>);

impl Check {
    pub(super) fn new(secrets: &[SecretString]) -> Check {
        let keyed = |secret: &SecretString| {
            Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).ok()
        };
        Check(secrets.iter().filter_map(keyed).collect())
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        for mac in &mut self.0 {
            mac.update(bytes);
        }
    }

    /// Compares in constant time, with every secret whatever came of the others.
    pub(super) fn accepts(self, claimed: &[u8; 32]) -> bool {
        self.0.into_iter().fold(false, |found, mac| mac.verify_slice(claimed).is_ok() | found)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use secrecy::SecretString;

    use crate::server::signature::{Check, claimed};

    /// The example of GitHub's documentation.
    #[test]
    fn the_documented_example_is_accepted_and_nothing_near_it() {
        let secrets =
            [SecretString::from("before"), SecretString::from("It's a Secret to Everybody")];
        let signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let accepts = |header: &str, body: &str, secrets: &[SecretString]| {
            let mut headers = HeaderMap::new();
            headers.insert("x-hub-signature-256", header.parse().unwrap());
            let mut check = Check::new(secrets);
            check.update(body.as_bytes());
            claimed(&headers).is_some_and(|claimed| check.accepts(&claimed))
        };
        let whole = format!("sha256={signature}");
        assert!(accepts(&whole, "Hello, World!", &secrets));
        for (header, body) in [
            (whole.as_str(), "Hello, World?"),
            (signature, "Hello, World!"),
            (&whole[..70], "Hello, World!"),
            (&format!("{whole}0"), "Hello, World!"),
            (&format!("sha1={signature}"), "Hello, World!"),
            ("sha256=", "Hello, World!"),
            ("", "Hello, World!"),
        ] {
            assert!(!accepts(header, body, &secrets), "{header} {body}");
        }
        assert!(!accepts(&whole, "Hello, World!", &secrets[..1]));
        assert!(!accepts(&whole, "Hello, World!", &[]));
    }
}

//! RSA keys of OpenSSH: signatures of the kind `rsa-sha2-512` (RFC 8332), made by aws-lc-rs, which takes a key in the
//! form of PKCS #1 (RFC 8017, appendix A.1.2).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA512, RsaKeyPair};
use num_bigint::BigUint;
use ssh_key::private::RsaKeypair;
use ssh_key::{Algorithm, Error, HashAlg, Mpint, Signature};

/// The key, ready to sign. `None` when it cannot be used: it is too short or long, or no RSA key by its numbers.
pub(super) fn ready(key: &RsaKeypair) -> Option<RsaKeyPair> {
    RsaKeyPair::from_der(&pkcs1(key)?).ok()
}

/// Signs a text; PKCS #1 v1.5, so that equal texts have equal signatures.
pub(super) fn sign(key: &RsaKeyPair, text: &[u8]) -> Result<Signature, Error> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), text, &mut signature)
        .map_err(|_| Error::Crypto)?;
    Signature::new(Algorithm::Rsa { hash: Some(HashAlg::Sha512) }, signature)
}

/// `RSAPrivateKey` in DER. OpenSSH leaves out `d mod (p - 1)` and `d mod (q - 1)`.
fn pkcs1(key: &RsaKeypair) -> Option<Vec<u8>> {
    let number = |of: &Mpint| of.as_positive_bytes().map(BigUint::from_bytes_be);
    let private = &key.private;
    let [modulus, public] = [number(&key.public.n)?, number(&key.public.e)?];
    let [secret, inverse] = [number(&private.d)?, number(&private.iqmp)?];
    let primes = [number(&private.p)?, number(&private.q)?];
    let one = BigUint::from(1_u8);
    if primes.iter().any(|prime| *prime <= one) {
        return None;
    }
    let [of_first, of_second] = primes.each_ref().map(|prime| &secret % (prime - &one));
    let [first, second] = primes;
    let version = BigUint::default();
    let all = [version, modulus, public, secret, first, second, of_first, of_second, inverse];
    let content: Vec<u8> = all.iter().flat_map(integer).collect();
    Some(tagged(0x30, content))
}

fn integer(number: &BigUint) -> Vec<u8> {
    let mut bytes = number.to_bytes_be();
    // The first bit is the sign.
    if bytes.first().is_some_and(|first| *first >= 0x80) {
        bytes.insert(0, 0);
    }
    tagged(0x02, bytes)
}

fn tagged(tag: u8, content: Vec<u8>) -> Vec<u8> {
    let length = content.len();
    let size = length.to_be_bytes();
    let size = &size[size.iter().take_while(|byte| **byte == 0).count()..];
    let mut tagged = vec![tag];
    match u8::try_from(length) {
        Ok(length) if length < 0x80 => tagged.push(length),
        // A length has at most eight bytes.
        _ => {
            tagged.push(0x80 | u8::try_from(size.len()).unwrap_or_default());
            tagged.extend(size);
        }
    }
    tagged.extend(content);
    tagged
}

#[cfg(test)]
mod tests {
    use crate::signing::rsa::tagged;

    #[test]
    fn lengths_are_written_as_der_wants_them() {
        let head = |length| tagged(4, vec![0; length])[..5.min(length + 2)].to_vec();
        assert_eq!(head(0), [4, 0]);
        assert_eq!(head(127)[..3], [4, 127, 0]);
        assert_eq!(head(128)[..4], [4, 0x81, 128, 0]);
        assert_eq!(head(300), [4, 0x82, 1, 44, 0]);
    }
}

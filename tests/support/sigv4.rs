//! Signatures of AWS, version 4, computed from what arrived: the documented steps, one after the other, and
//! nothing of the code under test. Its examples are those that AWS publishes.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// A request as a server sees it.
pub(crate) struct Received<'a> {
    pub(crate) method: &'a str,
    /// As it came, with escapes.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// Names in lower case.
    pub(crate) headers: &'a BTreeMap<String, String>,
    pub(crate) body: &'a [u8],
}

/// What an `Authorization` says.
#[derive(Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) key: String,
    pub(crate) date: String,
    pub(crate) region: String,
    pub(crate) service: String,
    pub(crate) signed: Vec<String>,
    pub(crate) signature: String,
}

/// Reads an `Authorization` of this kind.
pub(crate) fn claim(authorization: &str) -> Option<Claim> {
    let parts = authorization.strip_prefix("AWS4-HMAC-SHA256 ")?;
    let fields: BTreeMap<&str, &str> =
        parts.split(',').filter_map(|part| part.trim().split_once('=')).collect();
    let scope: Vec<&str> = fields.get("Credential")?.split('/').collect();
    let [key, date, region, service, "aws4_request"] = scope[..] else { return None };
    Some(Claim {
        key: key.to_owned(),
        date: date.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        signed: fields.get("SignedHeaders")?.split(';').map(str::to_owned).collect(),
        signature: (*fields.get("Signature")?).to_owned(),
    })
}

/// The signature that the request must have for a claim and a secret.
pub(crate) fn signature(request: &Received<'_>, claim: &Claim, secret: &str) -> String {
    let Claim { date, region, service, .. } = claim;
    let time = request.headers.get("x-amz-date").cloned().unwrap_or_default();
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let hash = hex::encode(Sha256::digest(canonical(request, claim).as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
    let start = format!("AWS4{secret}").into_bytes();
    let key = [date.as_str(), region, service, "aws4_request"]
        .iter()
        .fold(start, |key, part| mac(&key, part.as_bytes()));
    hex::encode(mac(&key, text.as_bytes()))
}

fn canonical(request: &Received<'_>, claim: &Claim) -> String {
    // Every service but S3 encodes the path as it was sent once more.
    let path = request.path.split('/').map(encoded).collect::<Vec<_>>().join("/");
    let mut query: Vec<(String, String)> = url::form_urlencoded::parse(request.query.as_bytes())
        .map(|(name, value)| (encoded(&name), encoded(&value)))
        .collect();
    query.sort();
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let header = |name: &String| {
        let value = request.headers.get(name).map(String::as_str).unwrap_or_default();
        let words: Vec<&str> = value.split_whitespace().collect();
        format!("{name}:{}\n", words.join(" "))
    };
    let headers: String = claim.signed.iter().map(header).collect();
    let body = hex::encode(Sha256::digest(request.body));
    let (method, names) = (request.method, claim.signed.join(";"));
    format!("{method}\n{path}\n{}\n{headers}\n{names}\n{body}", query.join("&"))
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

//! Signatures of AWS (version 4) on requests to Bedrock: over the method, the address, the body's hash and
//! the headers that matter. Headers that proxies change are left out.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use reqsign_aws_v4::{Credential as Keys, RequestSigner};
use reqsign_core::hash::hex_sha256;
use reqsign_core::{Context, SignRequest};
use url::Url;

use super::refused;
use crate::wire::fault::Fault;

const HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// Keys to sign with, for one region.
pub struct Signer {
    keys: Keys,
    region: String,
}

impl Signer {
    pub(super) fn new(keys: Keys, region: String) -> Signer {
        Signer { keys, region }
    }

    /// Adds the signature of a POST request to its headers.
    ///
    /// # Errors
    /// When the keys or the address cannot be used.
    pub(crate) async fn sign(
        &self,
        url: &Url,
        headers: &mut HeaderMap,
        body: &Bytes,
    ) -> Result<(), Fault> {
        let failed = |_| refused("the request could not be signed with these credentials");
        let hash = HeaderValue::try_from(hex_sha256(body));
        let hash = hash.map_err(|_| refused("the body could not be hashed"))?;
        let mut request = Request::builder().method(Method::POST).uri(url.as_str());
        request = request.header(HASH, hash);
        if let Some(kind) = headers.get(header::CONTENT_TYPE) {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(()).map_err(|_| refused("the address cannot be signed"))?;
        let mut parts = request.into_parts().0;
        RequestSigner::new(service(url), &self.region)
            .sign_request(&Context::new(), &mut parts, Some(&self.keys), None)
            .await
            .map_err(failed)?;
        for name in ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"]
        {
            let name = HeaderName::from_static(name);
            if let Some(mut value) = parts.headers.remove(&name) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        Ok(())
    }
}

/// The name of the service in the signature: the two of Bedrock differ.
fn service(url: &Url) -> &'static str {
    let host = url.host_str().unwrap_or_default();
    if host.starts_with("bedrock-mantle") { "bedrock-mantle" } else { "bedrock" }
}

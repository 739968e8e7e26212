//! What makes a request ours: the key, the token or the signature, and what the operator adds.
//!
//! Called by [`super::HttpProvider`] for each attempt, because tokens end and signatures have a time.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderValue, header};
use secrecy::ExposeSecret;
use url::Url;

use super::accounts::Account;
use super::{HttpProvider, anthropic};
use crate::catalogue::Model;
use crate::endpoint::{Endpoint, Key, KeyHeader, KeyOwner};
use crate::identity::{Credential, IssuedCredential};
use crate::item::Wire;
use crate::wire::fault::{Fault, FaultKind};

/// How OpenAI's own client asks for a lighter form of the protocol. For users whose service wants it.
const RESPONSES_LITE: &str = "x-openai-internal-codex-responses-lite";

/// How a JSON web token begins.
const TOKEN: &str = "eyJ";

/// Where Anthropic takes a list of features, ours and the operator's.
const FEATURES: &str = "anthropic-beta";

impl HttpProvider {
    /// The headers of one attempt, and when the credentials in them were fetched.
    ///
    /// # Errors
    /// When there are no credentials to be had, or they cannot be sent there.
    pub(super) async fn headers(
        &self,
        account: &Account,
        model: &Model,
        url: &Url,
        body: &Bytes,
    ) -> Result<(HeaderMap, Option<DateTime<Utc>>), Fault> {
        let minted = match account.endpoint.identity() {
            Some(identity) => Some(identity.current(&self.client).await?),
            None => None,
        };
        let key = match &minted {
            Some(minted) => key_of(&account.endpoint, minted)?,
            None => account.endpoint.key().cloned(),
        };
        let mut headers = self.plain(model, key.as_ref());
        add(&mut headers, &account.endpoint.extras().headers);
        if let Some((name, value)) = key.as_ref().and_then(|key| key.header(model.wire)) {
            headers.insert(name, value);
        }
        if let Some(IssuedCredential { credential: Credential::Signing(signer), .. }) = &minted {
            signer.sign(url, &mut headers, body).await?;
        }
        Ok((headers, minted.map(|minted| minted.asked)))
    }

    fn plain(&self, model: &Model, key: Option<&Key>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        // A compressed answer can be a bomb, and a stream of small events gains nothing.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if model.wire == Wire::Messages {
            let key = key.map(|key| &key.value);
            anthropic::add(&mut headers, model, &self.anthropic_version, key);
        }
        if model.responses_lite && model.wire == Wire::Responses {
            headers.insert(RESPONSES_LITE, HeaderValue::from_static("true"));
        }
        headers
    }
}

/// The operator's headers replace ours, but for the list of features, which they add to.
fn add(headers: &mut HeaderMap, extras: &HeaderMap) {
    for (name, value) in extras {
        let ours = headers.get(name).filter(|_| name == FEATURES);
        let both = ours.and_then(|ours| {
            HeaderValue::from_bytes(&[ours.as_bytes(), b",", value.as_bytes()].concat()).ok()
        });
        headers.insert(name.clone(), both.unwrap_or_else(|| value.clone()));
    }
}

/// Fetched credentials as a key; `None` for those that sign.
fn key_of(endpoint: &Endpoint, minted: &IssuedCredential) -> Result<Option<Key>, Fault> {
    let Credential::Token(value) = &minted.credential else { return Ok(None) };
    let text = value.expose_secret();
    if let (Some(issuer), Some(owner)) = (KeyOwner::of_key(text), endpoint.owner())
        && issuer != owner
    {
        let (issuer, owner) = (issuer.name(), owner.name());
        let message = format!("the key is one of {issuer}, and the model is asked at {owner}");
        return Err(Fault { is_final: true, ..Fault::new(FaultKind::SignIn, message) });
    }
    // Azure takes keys and tokens in different headers.
    let sent = match endpoint.sent() {
        KeyHeader::AzureKey if text.starts_with(TOKEN) => KeyHeader::Bearer,
        sent => sent,
    };
    Ok(Some(Key { value: value.clone(), name: "key-command", sent }))
}

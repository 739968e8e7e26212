//! The headers of Anthropic's API: its version, the requested features, the key.
//!
//! Called by [`super::HttpProvider`] for the Messages wire.

use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::catalogue::{Model, Thinking};
use patchwright_base::error::Failure;

/// The version that every server of this wire knows. Bodies are valid under `2026-10-21` as well.
pub(super) const DEFAULT_VERSION: &str = "2023-06-01";

/// Thinking between calls, for models that are given a budget; the others do it by themselves.
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// Goes with tokens of a login or of a federated identity.
const OAUTH: &str = "oauth-2025-04-20";

/// How such tokens begin.
const OAUTH_PREFIX: &str = "sk-ant-oat";

/// The header of an API version, which is a date.
///
/// # Errors
/// When `text` is not a version.
pub(super) fn version(text: &str) -> Result<HeaderValue, Failure> {
    let text = text.trim();
    let is_date = text.len() == 10
        && text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    HeaderValue::from_str(text).ok().filter(|_| is_date).ok_or_else(|| {
        Failure::usage(format!("`ANTHROPIC_VERSION` is not a version of the API: {text}"))
            .hint(format!("leave it out, or set a date such as `{DEFAULT_VERSION}`"))
    })
}

/// Tokens go as `Authorization` and keys as `x-api-key`; both together are refused.
pub(crate) fn is_token(key: &SecretString) -> bool {
    key.expose_secret().starts_with(OAUTH_PREFIX)
}

/// Adds the version, and the features that are not in it.
pub(super) fn add(
    headers: &mut HeaderMap,
    model: &Model,
    version: &HeaderValue,
    key: Option<&SecretString>,
) {
    headers.insert(HeaderName::from_static("anthropic-version"), version.clone());
    let mut features = Vec::new();
    if model.thinking == Thinking::Budget {
        features.push(INTERLEAVED);
    }
    if key.is_some_and(is_token) {
        features.push(OAUTH);
    }
    if !features.is_empty()
        && let Ok(value) = HeaderValue::from_str(&features.join(","))
    {
        headers.insert(HeaderName::from_static("anthropic-beta"), value);
    }
}

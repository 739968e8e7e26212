//! What an operator adds to the requests of one endpoint: headers and query parameters that a gateway
//! wants, and a command that prints the key.
//!
//! Values may refer to environment variables (`${PATCHWRIGHT_…}`), which is how secrets get in: the
//! configuration itself is journalled. What is put in is made known to the redactor.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::identity::KeyCommand;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact;

/// Variables that values may refer to begin like this, so that no key of another kind is sent by mistake.
const PREFIX: &str = "PATCHWRIGHT_";

/// Headers that the connection or the protocol sets.
const RESERVED: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that hold the key.
const KEYS: &[&str] = &["authorization", "api-key", "x-api-key", "x-goog-api-key"];

/// Words in the name of a header or parameter whose value is a secret.
const SECRET: &[&str] = &["auth", "key", "token", "secret", "cookie", "password"];

/// Query parameters that the wires need.
const RESERVED_QUERY: &[&str] = &["alt"];

/// Entries of either kind at most.
const MOST: usize = 32;
/// The longest time that a command may take.
const LONGEST: u64 = 600;

/// What is said about one endpoint: `endpoints.NAME`, where the name is a provider or a base URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct EndpointSettings {
    /// Sent with every request.
    pub headers: BTreeMap<String, String>,
    /// Added to the address of every request.
    pub query: BTreeMap<String, String>,
    /// Ask on the `responses` wire over a WebSocket, where the server takes one.
    pub websocket: bool,
    /// Program and arguments that print the key. It runs on the host.
    pub key_command: Vec<String>,
    /// How long that may take; 30 when absent.
    pub key_command_timeout_seconds: Option<u64>,
    /// How long a key is used that does not say it itself; until it is refused when absent.
    pub key_ttl_seconds: Option<u64>,
}

/// Headers and fields of an endpoint, ready to be sent.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Secret values are marked as sensitive.
    pub headers: HeaderMap,
    pub query: Vec<(String, SecretString)>,
    pub command: Option<KeyCommand>,
    pub websocket: bool,
}

/// What is said about an endpoint: by its address first, then by the provider's name.
pub(super) fn settings_of<'a>(
    all: &'a BTreeMap<String, EndpointSettings>,
    provider: &str,
    base: &Url,
) -> Option<(&'a str, &'a EndpointSettings)> {
    let by_address = all.iter().filter(|(name, _)| is_address(name) && covers(name, base));
    let nearest = by_address.max_by_key(|(name, _)| name.len());
    let entry = nearest.or_else(|| all.get_key_value(provider));
    entry.map(|(name, settings)| (name.as_str(), settings))
}

/// The name is a base URL, not a provider's.
pub fn is_address(name: &str) -> bool {
    name.contains("://")
}

/// The base is at this address or below it.
fn covers(name: &str, base: &Url) -> bool {
    let Ok(url) = Url::parse(name.trim()) else { return false };
    let path = url.path().trim_end_matches('/');
    let rest = base.path().strip_prefix(path);
    url.origin() == base.origin() && rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
}

impl EndpointSettings {
    /// Puts the variables in.
    ///
    /// # Errors
    /// When something cannot be sent, is the protocol's own, or a variable is not set.
    pub(super) fn resolved(&self, name: &str, env: &Env) -> Result<Extras> {
        let key = |part: &str, entry: &str| format!("`endpoints.{name}.{part}.{entry}`");
        if self.headers.len().max(self.query.len()) > MOST {
            return Err(Failure::usage(format!("`endpoints.{name}` has more than {MOST} entries")));
        }
        let mut extras =
            Extras { command: self.command(name)?, websocket: self.websocket, ..Extras::default() };
        for (header, value) in &self.headers {
            let key = key("headers", header);
            let (header, value) = header_of(&key, header, value, env)?;
            extras.headers.insert(header, value);
        }
        for (parameter, value) in &self.query {
            let key = key("query", parameter);
            if RESERVED_QUERY.contains(&parameter.to_ascii_lowercase().as_str()) {
                return Err(own(&key));
            }
            extras.query.push((parameter.clone(), filled(&key, parameter, value, env)?));
        }
        Ok(extras)
    }

    fn command(&self, name: &str) -> Result<Option<KeyCommand>> {
        let times = [
            ("key-command-timeout-seconds", self.key_command_timeout_seconds, LONGEST),
            ("key-ttl-seconds", self.key_ttl_seconds, u64::from(u32::MAX)),
        ];
        for (key, seconds, longest) in times {
            if seconds.is_some_and(|it| it == 0 || it > longest) {
                return Err(Failure::usage(format!(
                    "`endpoints.{name}.{key}` has to be between 1 and {longest}"
                )));
            }
            if seconds.is_some() && self.key_command.is_empty() {
                return Err(Failure::usage(format!(
                    "`endpoints.{name}.{key}` has no `key-command`"
                )));
            }
        }
        if self.key_command.is_empty() {
            return Ok(None);
        }
        if self.key_command.iter().any(|it| it.contains('\0')) || self.key_command[0].is_empty() {
            return Err(Failure::usage(format!(
                "`endpoints.{name}.key-command` cannot be started"
            ))
            .hint("write a list of the program and its arguments"));
        }
        Ok(Some(KeyCommand {
            argv: self.key_command.clone(),
            timeout: self.key_command_timeout_seconds.map(Duration::from_secs),
            ttl: self.key_ttl_seconds.map(Duration::from_secs),
        }))
    }
}

fn header_of(key: &str, name: &str, value: &str, env: &Env) -> Result<(HeaderName, HeaderValue)> {
    let header = HeaderName::try_from(name).map_err(|_| {
        Failure::usage(format!("{key} is not the name of a header"))
            .hint("use letters, digits and `-`")
    })?;
    if KEYS.contains(&header.as_str()) {
        return Err(Failure::usage(format!("{key} is where the model's key is sent")).hint(
            "set `PATCHWRIGHT_API_KEY` or the provider's variable, or name a `key-command`",
        ));
    }
    if RESERVED.contains(&header.as_str()) || header.as_str().starts_with("x-amz-") {
        return Err(own(key));
    }
    let text = filled(key, name, value, env)?;
    let mut sent = HeaderValue::try_from(text.expose_secret()).map_err(|_| {
        Failure::usage(format!("{key} cannot be sent"))
            .hint("take out line breaks and other control characters")
    })?;
    sent.set_sensitive(value.contains("${"));
    Ok((header, sent))
}

fn own(key: &str) -> Failure {
    Failure::usage(format!("{key} is set by the protocol itself")).hint("leave it out")
}

/// A secret in the configuration would be in every journal.
fn needs_variable(key: &str, name: &str, value: &str) -> Result<()> {
    let name = name.to_ascii_lowercase();
    if SECRET.iter().any(|word| name.contains(word)) && !value.contains("${") {
        return Err(Failure::usage(format!(
            "{key} looks like a secret, and the configuration is kept with every run"
        ))
        .hint(
            "put it into an environment variable, and write `${PATCHWRIGHT_NAME}` in its place",
        ));
    }
    Ok(())
}

/// A value with the variables in place of their references. `key` is its place in the configuration, `name`
/// what it is sent as.
///
/// # Errors
/// When a variable is not set or is not for this, or when a secret stands there itself.
pub fn filled(key: &str, name: &str, value: &str, env: &Env) -> Result<SecretString> {
    needs_variable(key, name, value)?;
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, from)) = rest.split_once("${") {
        text.push_str(before);
        let Some((name, after)) = from.split_once('}') else {
            return Err(Failure::usage(format!("{key} has a `${{` without its `}}`"))
                .hint("write `${PATCHWRIGHT_NAME}`"));
        };
        if !name.starts_with(PREFIX) {
            return Err(Failure::usage(format!("{key} refers to `{name}`"))
                .hint(format!("name the variable `{PREFIX}…`: no other is sent to an endpoint")));
        }
        let secret = env.secret(name).ok_or_else(|| {
            Failure::usage(format!("{key} refers to `{name}`, which is not set"))
                .hint(format!("set `{name}`, or leave it out"))
        })?;
        redact::learn(name, &secret);
        text.push_str(secret.expose_secret());
        rest = after;
    }
    text.push_str(rest);
    Ok(text.into())
}

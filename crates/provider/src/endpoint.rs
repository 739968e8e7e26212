//! Where a model is asked: the address, how a path is added to it, how the key is sent, and the few
//! things that a cloud wants different in the body. What is spoken there is one of the four wires.
//!
//! [`Endpoint::find`] chooses one from the configuration and the environment. Sources of the formats:
//! Azure's "v1 API" and "REST API reference", Bedrock's "Responses API" and "Messages API", Google's
//! `generateContent` reference for Vertex AI, Anthropic's "Claude on Vertex AI".

mod choose;
mod extras;
mod keys;

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use url::Url;

use super::http::anthropic;
use super::identity::Identity;
use super::item::Wire;
use super::wire;
use patchwright_base::error::{Failure, Result};

pub use self::choose::{EndpointRequest, OWN_KEY, open};
pub use self::extras::{EndpointSettings, Extras, filled, is_address};
pub use self::keys::KeyOwner;

/// The version of the Messages protocol that Vertex AI wants in the body.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// Versions of Google's API as they stand in addresses.
const VERSIONS: &[&str] = &["v1", "v1beta", "v1beta1", "v1alpha"];

/// A place where a model is asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    base: Url,
    route: Route,
    key: Option<Key>,
    /// Keys that are used when that one cannot be.
    spare: Vec<Key>,
    /// Where credentials are fetched, when there is no key.
    identity: Option<Arc<Identity>>,
    /// How those are sent.
    sent: KeyHeader,
    /// What the operator adds to every request.
    extras: Extras,
}

/// A key and how it is sent.
#[derive(Clone, Debug)]
pub struct Key {
    pub value: SecretString,
    /// The variable that it came from, for messages.
    pub name: &'static str,
    pub sent: KeyHeader,
}

/// The header that a key is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// As the wire's maker wants it: `Authorization: Bearer`, `x-api-key`, `x-goog-api-key`.
    AsWire,
    /// `Authorization: Bearer`, on every wire.
    Bearer,
    /// `api-key` on the OpenAI wires, as Azure wants it; elsewhere as the wire.
    AzureKey,
}

/// How the path of a request is made from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The wire's own path is added.
    Wire,
    /// A host with several protocols: `openai/v1/…` and `anthropic/v1/messages`. The version, where
    /// there is one, goes into the query (`preview`).
    ByMaker { version: Option<String> },
    /// Azure's dated API: the deployment is in the path, the version in the query.
    Deployments { version: String },
    /// Vertex AI, below a project and a location: the model is in the path.
    Publishers,
}

impl Endpoint {
    /// A server by its base URL (`https://api.openai.com/v1`; for Anthropic and Google without the
    /// version). Servers on the own machine may need no key.
    ///
    /// # Errors
    /// When no request can be sent to the URL, or the key cannot be a header.
    pub fn new(base_url: &str, route: Route, key: Option<Key>) -> Result<Endpoint> {
        let invalid = |why: &str| {
            Failure::usage(format!("the base URL of the model is not usable: {why}"))
                .hint("give it like `https://api.openai.com/v1`, in `--base-url` or the provider's variable")
        };
        let base = Url::parse(base_url.trim()).map_err(|err| invalid(&err.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(invalid("it must start with `http://` or `https://`"));
        }
        // A password in a URL would appear in logs and error messages.
        if !base.username().is_empty() || base.password().is_some() {
            return Err(invalid("it contains a user name or password"));
        }
        key.iter().try_for_each(sendable)?;
        Ok(Endpoint {
            base,
            route,
            key,
            spare: Vec::new(),
            identity: None,
            sent: KeyHeader::Bearer,
            extras: Extras::default(),
        })
    }

    /// With keys that are used in this order when the first one cannot be.
    ///
    /// # Errors
    /// When one of them cannot be a header.
    pub fn with_keys(mut self, keys: Vec<Key>) -> Result<Endpoint> {
        keys.iter().try_for_each(sendable)?;
        let mut keys = keys.into_iter();
        self.key = keys.next();
        self.spare = keys.collect();
        Ok(self)
    }

    /// All keys, in the order in which they are used.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.key.iter().chain(&self.spare)
    }

    /// One endpoint for each key, otherwise like this one; one without a key when there is none.
    pub fn by_key(&self) -> Vec<Endpoint> {
        let alone =
            |key: Option<&Key>| Endpoint { key: key.cloned(), spare: Vec::new(), ..self.clone() };
        match self.keys().map(|key| alone(Some(key))).collect::<Vec<_>>() {
            none if none.is_empty() => vec![alone(None)],
            all => all,
        }
    }

    /// The base without credentials, query and final slash, as it may be shown.
    pub fn display_url(&self) -> String {
        let mut shown = self.base.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        shown.as_str().trim_end_matches('/').to_owned()
    }

    /// This endpoint with an identity instead of keys: credentials are fetched when they are needed.
    #[must_use]
    pub fn with_identity(self, identity: Arc<Identity>, sent: KeyHeader) -> Endpoint {
        Endpoint { key: None, spare: Vec::new(), identity: Some(identity), sent, ..self }
    }

    /// How tokens that were fetched are sent.
    pub fn sent(&self) -> KeyHeader {
        self.sent
    }

    /// Where credentials are fetched, when no variable holds a key.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// What the operator adds to every request.
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// The key that is sent.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// How paths are made.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The company whose public service this is; `None` for a server of the user's own.
    pub fn owner(&self) -> Option<KeyOwner> {
        KeyOwner::of_host(self.base.host_str()?)
    }

    /// The address of a request.
    pub fn url(&self, wire: Wire, model: &str) -> Url {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{}", self.path(wire, model)));
        match &self.route {
            Route::Deployments { version } | Route::ByMaker { version: Some(version) }
                if matches!(wire, Wire::Responses | Wire::Chat) =>
            {
                url.query_pairs_mut().append_pair("api-version", version);
            }
            _ => {}
        }
        // Without it the API streams one JSON array instead of events.
        if wire == Wire::Gemini && !url.query_pairs().any(|(name, _)| name == "alt") {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        for (name, value) in &self.extras.query {
            replace_parameter(&mut url, name, value.expose_secret());
        }
        url
    }

    fn path(&self, wire: Wire, model: &str) -> String {
        let own = wire::path(wire, model);
        let name = segment(model);
        match (&self.route, wire) {
            (Route::ByMaker { .. }, Wire::Responses | Wire::Chat) => format!("openai/v1/{own}"),
            (Route::ByMaker { .. } | Route::Deployments { .. }, Wire::Messages) => {
                format!("anthropic/{own}")
            }
            (Route::Deployments { .. }, Wire::Responses) => format!("openai/{own}"),
            (Route::Deployments { .. }, Wire::Chat) => format!("openai/deployments/{name}/{own}"),
            (Route::Publishers, Wire::Gemini) => {
                format!("publishers/google/models/{name}:streamGenerateContent")
            }
            (Route::Publishers, Wire::Messages) => {
                format!("publishers/anthropic/models/{name}:streamRawPredict")
            }
            (Route::Publishers, Wire::Chat) => format!("endpoints/openapi/{own}"),
            // Users write Google's version into the base URL, as other clients want it.
            (_, Wire::Gemini) if self.has_version() => own.trim_start_matches("v1beta/").to_owned(),
            _ => own,
        }
    }

    fn has_version(&self) -> bool {
        let mut parts = self.base.path_segments().into_iter().flatten();
        parts.any(|part| VERSIONS.contains(&part))
    }

    /// The header with the key, if there is one.
    pub fn key_header(&self, wire: Wire) -> Option<(HeaderName, HeaderValue)> {
        self.key.as_ref().and_then(|key| key.header(wire))
    }

    /// The body as this endpoint wants it. Fields keep their order and their bytes, so a body that
    /// begins like the one before still does.
    pub fn body(&self, wire: Wire, body: Vec<u8>) -> Vec<u8> {
        match (&self.route, wire) {
            (Route::Publishers, Wire::Messages) => vertex_messages(&body).unwrap_or(body),
            _ => body,
        }
    }
}

impl Key {
    /// The header that it is sent in; `None` when it cannot be one.
    pub(crate) fn header(&self, wire: Wire) -> Option<(HeaderName, HeaderValue)> {
        let key = self;
        let is_openai = matches!(wire, Wire::Responses | Wire::Chat);
        let (name, value) = match (key.sent, wire) {
            (KeyHeader::AzureKey, _) if is_openai => {
                (HeaderName::from_static("api-key"), bare(&key.value))
            }
            (KeyHeader::Bearer, _) | (_, Wire::Responses | Wire::Chat) => {
                (header::AUTHORIZATION, bearer(&key.value))
            }
            // Anthropic refuses a key as `Authorization` and an OAuth token as `x-api-key`.
            (_, Wire::Messages) if anthropic::is_token(&key.value) => {
                (header::AUTHORIZATION, bearer(&key.value))
            }
            (_, Wire::Messages) => (HeaderName::from_static("x-api-key"), bare(&key.value)),
            (_, Wire::Gemini) => (HeaderName::from_static("x-goog-api-key"), bare(&key.value)),
        };
        // Keys of variables were checked when the endpoint was made.
        Some((name, value.ok()?))
    }
}

/// A parameter with this value alone.
fn replace_parameter(url: &mut Url, name: &str, value: &str) {
    let others: Vec<(String, String)> =
        url.query_pairs().into_owned().filter(|(other, _)| other != name).collect();
    let mut pairs = url.query_pairs_mut();
    pairs.clear().extend_pairs(others).append_pair(name, value);
}

/// The model is in the path, and the version is a field instead of a header.
fn vertex_messages(body: &[u8]) -> Option<Vec<u8>> {
    let JsonFields(fields) = serde_json::from_slice(body).ok()?;
    let mut out = format!("{{\"anthropic_version\":\"{VERTEX_VERSION}\"");
    for (name, value) in fields {
        if matches!(name.as_str(), "model" | "anthropic_version") {
            continue;
        }
        out.push(',');
        out.push_str(&serde_json::to_string(&name).ok()?);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    Some(out.into_bytes())
}

/// The top level of a JSON object, in order, with the values untouched.
struct JsonFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for JsonFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonFields<'de>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = JsonFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(JsonFields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// What is escaped in a name: models of Vertex AI and Bedrock have `@` and `:` in theirs.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@').remove(b':');

/// A name as one segment of a path, whatever it holds.
fn segment(name: &str) -> String {
    let segment = utf8_percent_encode(name, ESCAPED).to_string();
    // `.` and `..` would be resolved away, and the request would go to another path.
    if matches!(segment.as_str(), "." | "..") { segment.replace('.', "%2E") } else { segment }
}

/// Refuses a key that cannot be a header.
fn sendable(key: &Key) -> Result<()> {
    bearer(&key.value).map(drop).map_err(|()| {
        Failure::usage("the model key contains characters that no key has")
            .hint("check the variable for a line break or quotation marks")
    })
}

fn bearer(key: &SecretString) -> Result<HeaderValue, ()> {
    sensitive(format!("Bearer {}", key.expose_secret()))
}

fn bare(key: &SecretString) -> Result<HeaderValue, ()> {
    sensitive(key.expose_secret().to_owned())
}

/// A header value that is left out of debug output.
fn sensitive(text: String) -> Result<HeaderValue, ()> {
    let mut value = HeaderValue::try_from(text).map_err(|_| ())?;
    value.set_sensitive(true);
    Ok(value)
}

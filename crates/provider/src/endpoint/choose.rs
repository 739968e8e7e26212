//! From what an operator wants and the environment to the endpoint of a model. The names of variables are
//! the vendors' own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use reqwest::Client;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::extras::{self, EndpointSettings};
use super::keys::{KeyOwner, VARIABLES};
use super::{Endpoint, Key, KeyHeader, Route};
use crate::Provider;
use crate::catalogue::{self, Model};
use crate::hosted;
use crate::http::HttpProvider;
use crate::identity::{self, Identity};
use crate::item::Wire;
use crate::retry::Policy;
use crate::scripted::ScriptedProvider;
use crate::wire;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};

/// A key of another name than the provider's, for servers of one's own.
pub const OWN_KEY: &str = "PATCHWRIGHT_API_KEY";

const OPENAI: &[(&str, KeyHeader)] = &[("OPENAI_API_KEY", KeyHeader::AsWire)];
const ANTHROPIC: &[(&str, KeyHeader)] =
    &[("ANTHROPIC_API_KEY", KeyHeader::AsWire), ("ANTHROPIC_AUTH_TOKEN", KeyHeader::Bearer)];
const GOOGLE: &[(&str, KeyHeader)] =
    &[("GEMINI_API_KEY", KeyHeader::AsWire), ("GOOGLE_API_KEY", KeyHeader::AsWire)];
const AZURE: &[(&str, KeyHeader)] =
    &[("AZURE_OPENAI_API_KEY", KeyHeader::AzureKey), ("AZURE_OPENAI_AD_TOKEN", KeyHeader::Bearer)];
const BEDROCK: &[(&str, KeyHeader)] = &[("AWS_BEARER_TOKEN_BEDROCK", KeyHeader::AsWire)];
const VERTEX: &[(&str, KeyHeader)] = &[
    ("GOOGLE_OAUTH_ACCESS_TOKEN", KeyHeader::Bearer),
    ("CLOUDSDK_AUTH_ACCESS_TOKEN", KeyHeader::Bearer),
];

/// What an operator decides about the endpoint of a model.
#[derive(Clone, Copy, Debug)]
pub struct EndpointRequest<'a> {
    /// As the user wrote it: a catalogue slug, or `scripted:FILE`.
    pub model: &'a str,
    /// Instead of the address of the model's own provider.
    pub base_url: Option<&'a str>,
    /// Tools that the provider runs, with references to environment variables in place of secrets.
    pub hosted_tools: &'a [Value],
    /// What is said about endpoints, by provider or base URL.
    pub endpoints: &'a BTreeMap<String, EndpointSettings>,
}

/// The provider of a model: prepared replies, or HTTP.
///
/// # Errors
/// When the endpoint or its key is missing or cannot be right.
pub fn open(
    wanted: EndpointRequest<'_>,
    model: &Model,
    env: &Env,
    http: &Client,
) -> Result<Arc<dyn Provider>> {
    if let Some(file) = wanted.model.trim().strip_prefix("scripted:") {
        return Ok(Arc::new(ScriptedProvider::open(Path::new(file))?));
    }
    let endpoint = Endpoint::from_request(wanted, model, env)?;
    endpoint.check(model, env)?;
    let policy = Policy { scale: env.time_scale(), ..Policy::default() };
    let mut provider = HttpProvider::at(endpoint, http.clone())
        .with_policy(policy)
        .with_secrets(hosted::secrets(wanted.hosted_tools, env)?);
    if let Some(version) = env.var("ANTHROPIC_VERSION") {
        provider = provider.with_anthropic_version(version)?;
    }
    Ok(Arc::new(provider))
}

impl Endpoint {
    /// The endpoint of a model.
    ///
    /// # Errors
    /// When a setting is missing, or the key is that of another company than the endpoint's. Nothing
    /// is sent for it.
    pub fn find(base_url: Option<&str>, model: &Model, env: &Env) -> Result<Endpoint> {
        let endpoint = Endpoint::locate(base_url, model, env)?;
        endpoint.check(model, env)?;
        Ok(endpoint)
    }

    /// The endpoint of a model as the operator wants it, with what authenticates there.
    ///
    /// # Errors
    /// When a setting that it is made of is missing or wrong.
    pub fn from_request(wanted: EndpointRequest<'_>, model: &Model, env: &Env) -> Result<Endpoint> {
        let mut endpoint = Endpoint::locate(wanted.base_url, model, env)?;
        let settings = extras::settings_of(wanted.endpoints, &model.provider, &endpoint.base);
        if let Some((name, settings)) = settings {
            endpoint.extras = settings.resolved(name, env)?;
        }
        if let Some(command) = endpoint.extras.command.clone() {
            let sent = sources(model, endpoint.owner())
                .first()
                .map_or(KeyHeader::AsWire, |(_, sent)| *sent);
            return Ok(endpoint.with_identity(Identity::by_command(command, env), sent));
        }
        Ok(endpoint)
    }

    /// The endpoint of a model, with the key that there is or the identity that the environment gives.
    ///
    /// # Errors
    /// When a setting that the address is made of is missing or wrong.
    pub fn locate(base_url: Option<&str>, model: &Model, env: &Env) -> Result<Endpoint> {
        let endpoint = match model.provider.as_str() {
            "azure" => azure(base_url, model, env),
            "bedrock" => bedrock(base_url, model, env),
            "vertex" => vertex(base_url, model, env),
            _ => own(base_url, model, env),
        }?;
        Ok(match Identity::find(model, env).filter(|_| endpoint.key.is_none()) {
            Some(identity) => endpoint.with_identity(identity, KeyHeader::Bearer),
            None => endpoint,
        })
    }

    /// Refuses what cannot succeed: no key for a public service, another company's key, a model that
    /// does not answer on the wire there.
    ///
    /// # Errors
    /// For each of these, with the setting to change. No request was sent.
    pub fn check(&self, model: &Model, env: &Env) -> Result<()> {
        let Some(owner) = self.owner() else { return Ok(()) };
        let slug = &model.slug;
        if model.responses_only && model.wire == Wire::Chat {
            return Err(Failure::usage(format!(
                "`{slug}` answers only on the `responses` wire at {}",
                owner.name()
            ))
            .hint(format!("write `{slug}` instead of `chat/{slug}`, without `--wire chat`")));
        }
        if self.identity.is_some() {
            return Ok(());
        }
        let Some(key) = &self.key else {
            return Err(no_key(model, sources(model, Some(owner)), env));
        };
        let foreign = self
            .keys()
            .find_map(|key| KeyOwner::of_key(key.value.expose_secret()).filter(|it| *it != owner));
        let Some(issuer) = foreign else { return Ok(()) };
        Err(Failure::provider(format!(
            "`{}` holds a key of {}, and `{slug}` is asked at {} ({})",
            key.name,
            issuer.name(),
            owner.name(),
            self.display_url(),
        ))
        .hint(format!("set `{}` to a key of {}", key.name, owner.name()))
        .hint("or choose a model of the key's own provider with `--model`"))
    }
}

/// The variables that may hold the key of a model. At a server of the user's own the wire decides.
fn sources(model: &Model, at: Option<KeyOwner>) -> &'static [(&'static str, KeyHeader)] {
    let by_wire = match model.wire {
        Wire::Responses | Wire::Chat => OPENAI,
        Wire::Messages => ANTHROPIC,
        Wire::Gemini => GOOGLE,
    };
    match (model.provider.as_str(), at) {
        ("azure", _) => AZURE,
        ("bedrock", _) => BEDROCK,
        ("vertex", _) => VERTEX,
        (_, Some(KeyOwner::OpenRouter)) => {
            &[("OPENROUTER_API_KEY", KeyHeader::Bearer), ("OPENAI_API_KEY", KeyHeader::AsWire)]
        }
        (_, Some(KeyOwner::Anthropic)) => ANTHROPIC,
        (_, Some(KeyOwner::Google)) => GOOGLE,
        _ => by_wire,
    }
}

/// The keys of the first variable that has any.
fn keys(sources: &[(&'static str, KeyHeader)], env: &Env) -> Vec<Key> {
    // `PATCHWRIGHT_API_KEY` is sent like the key of the provider that it stands in for.
    let first = sources.first().map_or(KeyHeader::AsWire, |(_, sent)| *sent);
    // Our own variable comes first: a user who sets it means this program, others may be set for
    // other tools.
    let own = std::iter::once((OWN_KEY, first));
    own.chain(sources.iter().copied())
        .map(|(name, sent)| {
            let values = env.secret_list(name).into_iter();
            values.map(|value| Key { value, name, sent }).collect::<Vec<_>>()
        })
        .find(|keys| !keys.is_empty())
        .unwrap_or_default()
}

/// An endpoint whose key comes from the sources that fit it.
fn with_key(base: &str, route: Route, model: &Model, env: &Env) -> Result<Endpoint> {
    let owner = Endpoint::new(base, route.clone(), None)?.owner();
    Endpoint::new(base, route, None)?.with_keys(keys(sources(model, owner), env))
}

fn own(given: Option<&str>, model: &Model, env: &Env) -> Result<Endpoint> {
    let variable = match model.wire {
        Wire::Responses | Wire::Chat => "OPENAI_BASE_URL",
        Wire::Messages => "ANTHROPIC_BASE_URL",
        Wire::Gemini => "GOOGLE_GEMINI_BASE_URL",
    };
    let base = given.or_else(|| env.var(variable)).or_else(|| catalogue::default_base_url(model));
    let Some(base) = base else {
        let (slug, word) = (&model.slug, wire::word(model.wire));
        return Err(if model.provider == "chat" {
            Failure::usage(format!("no endpoint is known for `chat/{slug}`"))
                .hint("name it with `--base-url`")
        } else {
            Failure::usage(format!("`{}` has no endpoint for the `{word}` wire", model.provider))
                .hint("leave out `--wire`, or name a server that speaks it with `--base-url`")
        });
    };
    with_key(base, Route::Wire, model, env)
}

/// Azure: the resource's endpoint, with the v1 API or, for a dated version, the one
/// before it.
fn azure(given: Option<&str>, model: &Model, env: &Env) -> Result<Endpoint> {
    offers("azure", model, &[Wire::Responses, Wire::Chat, Wire::Messages])?;
    let base = given.or_else(|| env.var("AZURE_OPENAI_ENDPOINT")).ok_or_else(|| {
        Failure::usage("the Azure resource is not named")
            .hint("set `AZURE_OPENAI_ENDPOINT`, for example to `https://NAME.openai.azure.com`")
    })?;
    // Users paste the base URL that the OpenAI libraries want, which includes these endings.
    let mut base = base.trim().trim_end_matches('/');
    for tail in ["/v1", "/openai", "/anthropic"] {
        base = base.strip_suffix(tail).unwrap_or(base);
    }
    let route = match env.var("OPENAI_API_VERSION").map(str::trim) {
        None | Some("v1") => Route::ByMaker { version: None },
        Some(version @ ("preview" | "latest")) => {
            Route::ByMaker { version: Some(version.to_owned()) }
        }
        Some(version) if is_dated(version) => Route::Deployments { version: version.to_owned() },
        Some(_) => {
            return Err(Failure::usage("`OPENAI_API_VERSION` is not a version of Azure's API")
                .hint("unset it for the v1 API, or give a date such as `2025-04-01-preview`"));
        }
    };
    with_key(base, route, model, env)
}

/// `2025-04-01`, `2025-04-01-preview`.
fn is_dated(version: &str) -> bool {
    let date = version.strip_suffix("-preview").unwrap_or(version);
    chrono::NaiveDate::parse_from_str(date, "%Y-%m-%d").is_ok()
}

fn bedrock(given: Option<&str>, model: &Model, env: &Env) -> Result<Endpoint> {
    offers("bedrock", model, &[Wire::Responses, Wire::Chat, Wire::Messages])?;
    let base = if let Some(base) = given {
        base.trim().trim_end_matches('/').to_owned()
    } else {
        let region = env.var("AWS_REGION").or_else(|| env.var("AWS_DEFAULT_REGION"));
        let region = region.ok_or_else(|| {
            Failure::usage("no region is named for Amazon Bedrock")
                .hint("set `AWS_REGION`, for example to `us-east-1`")
        })?;
        format!("https://bedrock-runtime.{}.amazonaws.com", place("AWS_REGION", region)?)
    };
    // With a path the user has chosen a protocol; without one the host serves several.
    let route = if has_path(&base) { Route::Wire } else { Route::ByMaker { version: None } };
    with_key(&base, route, model, env)
}

fn vertex(given: Option<&str>, model: &Model, env: &Env) -> Result<Endpoint> {
    offers("vertex", model, &[Wire::Gemini, Wire::Messages, Wire::Chat])?;
    let projects = ["GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUDSDK_CORE_PROJECT"];
    let project = projects.iter().find_map(|name| env.var(name)).ok_or_else(|| {
        Failure::usage("no project is named for Vertex AI")
            .hint("set `GOOGLE_CLOUD_PROJECT` to the project's id")
    })?;
    let location = env.var("GOOGLE_CLOUD_LOCATION").or_else(|| env.var("CLOUD_ML_REGION"));
    let location = place("GOOGLE_CLOUD_LOCATION", location.unwrap_or("global"))?;
    let base = match given.map(|base| base.trim().trim_end_matches('/')) {
        Some(base) if has_path(base) => base.to_owned(),
        Some(base) => format!("{base}/v1"),
        None => match location {
            "global" => "https://aiplatform.googleapis.com/v1".to_owned(),
            // The two multi-regions have hosts of another form than the regions.
            "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com/v1"),
            _ => format!("https://{location}-aiplatform.googleapis.com/v1"),
        },
    };
    // A slash in the variable must not lead to another path.
    let project = super::segment(project.trim());
    let base = format!("{base}/projects/{project}/locations/{location}");
    with_key(&base, Route::Publishers, model, env)
}

/// A region as part of a host name.
fn place<'a>(variable: &str, text: &'a str) -> Result<&'a str> {
    let text = text.trim();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || !text.chars().all(fits) {
        return Err(Failure::usage(format!("`{variable}` is not a region: {text}"))
            .hint("write it like `us-east-1`"));
    }
    Ok(text)
}

fn has_path(base: &str) -> bool {
    base.split_once("://").is_some_and(|(_, rest)| rest.contains('/'))
}

fn offers(platform: &str, model: &Model, wires: &[Wire]) -> Result<()> {
    if wires.contains(&model.wire) {
        return Ok(());
    }
    let words: Vec<String> = wires.iter().map(|it| format!("`{}`", wire::word(*it))).collect();
    let (slug, word) = (&model.slug, wire::word(model.wire));
    Err(Failure::usage(format!("`{platform}/{slug}` cannot be asked on the `{word}` wire"))
        .hint(format!("`--wire` can be {} there", words.join(", "))))
}

/// How the key is to come into its variable. A workflow that names a secret sets the variable also where there is no such
/// secret, to nothing.
fn key_hint(name: &str, wanted: &[(&str, KeyHeader)], env: &Env) -> String {
    let empty = wanted.iter().map(|(name, _)| *name).find(|name| env.is_empty(name));
    match (empty, env.is_actions()) {
        (Some(empty), true) => format!(
            "`{empty}` is set, but to nothing: there is no secret of the name that the workflow has, or GitHub does not \
             give it to this event (pull requests of Dependabot and of forks)"
        ),
        (None, true) => format!(
            "add the key as a secret of the repository, and `{name}: ${{{{ secrets.{name} }}}}` to the `env` of the step"
        ),
        (Some(empty), false) => format!("`{empty}` is set, but to nothing: set it to the key"),
        (None, false) => format!("set `{name}`"),
    }
}

fn no_key(model: &Model, wanted: &[(&str, KeyHeader)], env: &Env) -> Failure {
    let name = wanted.first().map_or(OWN_KEY, |(name, _)| *name);
    let hint = match model.provider.as_str() {
        "vertex" => {
            format!("set `{name}`, for example to the output of `gcloud auth print-access-token`")
        }
        "bedrock" => {
            format!(
                "set `{name}` to a Bedrock API key, or let Patchwright sign with credentials of AWS"
            )
        }
        _ => key_hint(name, wanted, env),
    };
    let mut failure = Failure::provider(format!("no key for `{}`", model.slug)).hint(hint);
    if let Some(known) = model.likely_meant() {
        failure = failure.hint(format!(
            "`{}` is not in the catalogue: did you mean `--model {known}`?",
            model.slug
        ));
    }
    failure = identity::missing(model, env).into_iter().fold(failure, Failure::hint);
    let is_wanted = |name: &str| wanted.iter().any(|(wanted, _)| *wanted == name);
    let others = VARIABLES.iter().filter(|(name, _)| env.var(name).is_some() && !is_wanted(name));
    others.fold(failure, |failure, (name, what)| {
        failure.hint(format!("`{name}` is set, which is for {what}"))
    })
}

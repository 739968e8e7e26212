//! The model catalogue, `models.toml`: quirks of models are data there and nowhere else.
//!
//! [`Catalogue::resolve`] turns what a user wrote after `--model` into a [`Model`]. Nothing here
//! talks to a provider: whether a model exists at an endpoint is the endpoint's to say.

mod fields;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::fields::{Fields, OutputLimit, Price, Thinking};
use super::item::{Usage, Wire};
use super::wire;
use crate::error::{Failure, Result};

/// A resolved catalogue entry: everything that the rest of the program may ask about a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a model")]
pub struct Model {
    /// What is sent as `model`.
    pub slug: String,
    /// `openai`, `anthropic`, `google`, `chat` or `scripted`.
    pub provider: String,
    pub wire: Wire,
    /// Tool profile: `codex`, `claude`, `gemini`, `generic`, `text`, …
    pub profile: String,
    /// System prompt family (a file in `prompts/`).
    pub prompt: String,
    /// Tokens.
    pub context_window: u64,
    /// Tokens.
    pub max_output: u64,
    /// Dollars per million tokens; `None` when unknown.
    pub price: Option<Price>,
    /// Levels that may be asked for; empty for models without reasoning effort.
    pub efforts: Vec<String>,
    pub default_effort: Option<String>,
    /// `low`, `medium`, `high`; sent only when set.
    pub verbosity: Option<String>,
    pub parallel_calls: bool,
    /// How the depth of thinking is asked for.
    pub thinking: Thinking,
    /// Which of its profile's shell tools the model gets; `None` for the profile's own.
    pub shell: Option<String>,
    /// Which of its profile's ways to edit files the model gets; `None` for the profile's own.
    pub patch: Option<String>,
    /// Function tools are declared with the provider's strict mode.
    pub strict: bool,
    /// The model takes pictures.
    pub images: bool,
    /// Tokens of a conversation from which on it is compacted; `None` for a part of the window.
    pub compact_at: Option<u64>,
    /// The provider stores replies, and requests name the last one instead of repeating the
    /// conversation (Responses wire only).
    pub stateful: bool,
    /// How the length of a reply is limited on the Chat wire.
    pub output_limit: OutputLimit,
    /// The Chat wire asks for the token count at the end of the stream.
    pub stream_usage: bool,
    /// Tokens of one tool output before truncation.
    pub output_tokens: u64,
    /// `reasoning.summary` on the Responses wire; sent only when set.
    pub reasoning_summary: Option<String>,
    /// The entry is a family default because the slug is unknown.
    pub assumed: bool,
}

impl Model {
    /// Tokens of a conversation from which on it is compacted.
    pub fn compact_at(&self) -> u64 {
        self.compact_at.unwrap_or(self.context_window / 100 * 85)
    }

    /// The file of a `scripted:FILE` model.
    pub fn script(&self) -> Option<&Path> {
        self.slug.strip_prefix("scripted:").filter(|_| self.provider == "scripted").map(Path::new)
    }

    /// Refuses what would fail at the first request: a wire that this build does not speak, a
    /// reasoning effort that the model does not have.
    pub fn check(&self, effort: Option<&str>) -> Result<()> {
        let slug = &self.slug;
        if self.provider != "scripted" && !wire::SPOKEN.contains(&self.wire) {
            let word = wire::word(self.wire);
            let failure = format!(
                "`{slug}` is asked on the `{word}` wire, which this version does not speak"
            );
            return Err(Failure::usage(failure)
                .hint("choose an OpenAI model, or `chat/NAME` with `--base-url`"));
        }
        let Some(effort) = effort else { return Ok(()) };
        // What an unknown model can do is the endpoint's to say.
        if self.assumed || self.efforts.iter().any(|level| level == effort) {
            return Ok(());
        }
        let failure = Failure::usage(format!("`{slug}` has no reasoning effort `{effort}`"));
        Err(match self.efforts.as_slice() {
            [] => failure.hint("leave out `--effort`: the model has no levels"),
            levels => failure.hint(format!("it has: {}", levels.join(", "))),
        })
    }
}

/// What is charged for a model whose price is unknown: as much as the dearest one known, so that a
/// dollar budget holds.
const DEAREST: Price =
    Price { input: 10.0, output: 50.0, cache_read: 10.0, cache_write: Some(20.0) };

/// All models that are known by name, and the families of the rest.
#[derive(Clone, Debug)]
pub struct Catalogue {
    families: BTreeMap<String, Fields>,
    models: BTreeMap<String, Fields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    family: BTreeMap<String, Fields>,
    model: Vec<Fields>,
}

const PROVIDERS: &[&str] = &["openai", "anthropic", "google", "chat"];

impl Catalogue {
    /// The built-in catalogue with the user's overrides, by slug. An override of an unknown slug
    /// adds a model; it starts from its `family`, or from what its name suggests.
    pub fn load(overrides: &BTreeMap<String, Fields>) -> Result<Catalogue> {
        let file: File = toml::from_str(include_str!("models.toml")).map_err(|err| {
            Failure::internal("the built-in model catalogue is broken").caused_by(err)
        })?;
        let models = file.model.into_iter().filter_map(|model| Some((model.slug.clone()?, model)));
        let mut catalogue = Catalogue { families: file.family, models: models.collect() };
        for (slug, fields) in overrides {
            if let Some(family) = &fields.family
                && !catalogue.families.contains_key(family)
            {
                let families = catalogue.families.keys().map(String::as_str);
                return Err(suggest(
                    Failure::usage(format!(
                        "the model `{slug}` names an unknown family `{family}`"
                    )),
                    family,
                    families,
                ));
            }
            let known = catalogue.models.get(slug).cloned().unwrap_or_default();
            catalogue.models.insert(slug.clone(), fields.clone().over(&known));
        }
        for slug in overrides.keys() {
            catalogue.resolve(slug, None)?;
        }
        Ok(catalogue)
    }

    /// Every known slug, in order.
    pub fn slugs(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The model that `--model` names: `gpt-5.3-codex`, `anthropic/claude-sonnet-5`, `chat/NAME`
    /// for any OpenAI-compatible server, or `scripted:FILE`. `wire` overrides the catalogue's.
    pub fn resolve(&self, spec: &str, wire: Option<Wire>) -> Result<Model> {
        let spec = spec.trim();
        if let Some(file) = spec.strip_prefix("scripted:") {
            if file.is_empty() {
                return Err(Failure::usage("`scripted:` needs a file: `scripted:replies.yml`"));
            }
            return self.family_default("scripted", spec, wire);
        }
        if let Some(fields) = self.models.get(spec) {
            return self.inherit(spec, fields.clone()).model(spec, wire);
        }
        match spec.split_once('/') {
            Some((provider, slug)) => self.with_provider(spec, provider, slug, wire),
            None => match self.family_by_prefix(spec) {
                Some(family) => {
                    Ok(Model { assumed: true, ..self.family_default(family, spec, wire)? })
                }
                None => Err(self.unknown(spec)),
            },
        }
    }

    fn with_provider(
        &self,
        spec: &str,
        provider: &str,
        slug: &str,
        wire: Option<Wire>,
    ) -> Result<Model> {
        let provider = if provider == "gemini" { "google" } else { provider };
        if slug.is_empty() {
            return Err(Failure::usage(format!("`{spec}` names no model"))
                .hint(format!("write `{provider}/NAME`")));
        }
        let (family, provider_wire) = match provider {
            "openai" => ("gpt", Wire::Responses),
            "anthropic" => ("claude", Wire::Messages),
            "google" => ("gemini", Wire::Gemini),
            "chat" => ("chat", Wire::Chat),
            _ => {
                let failure = Failure::usage(format!("unknown provider `{provider}` in `{spec}`"));
                return Err(suggest(failure, provider, PROVIDERS.iter().copied()));
            }
        };
        if let Some(fields) = self.models.get(slug) {
            let fields = self.inherit(slug, fields.clone());
            if provider == "chat" {
                let model = fields.model(slug, Some(wire.unwrap_or(provider_wire)))?;
                return Ok(Model { provider: "chat".to_owned(), ..model });
            }
            if fields.provider.as_deref() != Some(provider) {
                let theirs = fields.provider.unwrap_or_default();
                return Err(Failure::usage(format!("`{slug}` is not a model of `{provider}`"))
                    .hint(format!("write `{slug}` or `{theirs}/{slug}`")));
            }
            return fields.model(slug, wire);
        }
        let of_provider = |name: &&str| {
            self.families.get(*name).and_then(|it| it.provider.as_deref()) == Some(provider)
        };
        let family = self.family_by_prefix(slug).filter(of_provider).unwrap_or(family);
        Ok(Model { assumed: true, ..self.family_default(family, slug, wire)? })
    }

    fn inherit(&self, slug: &str, fields: Fields) -> Fields {
        let family = fields.family.clone();
        let family = family.as_deref().or_else(|| self.family_by_prefix(slug)).unwrap_or("chat");
        match self.families.get(family) {
            Some(base) => fields.over(base),
            None => fields,
        }
    }

    fn family_default(&self, family: &str, slug: &str, wire: Option<Wire>) -> Result<Model> {
        self.families.get(family).cloned().unwrap_or_default().model(slug, wire)
    }

    /// The family with the longest prefix that fits.
    fn family_by_prefix(&self, slug: &str) -> Option<&str> {
        self.families
            .iter()
            .flat_map(|(name, fields)| {
                let prefixes = fields.prefixes.iter().flatten();
                prefixes.map(move |prefix| (prefix.as_str(), name.as_str()))
            })
            .filter(|(prefix, _)| slug.starts_with(prefix))
            .max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, name)| name)
    }

    fn unknown(&self, spec: &str) -> Failure {
        let failure = Failure::usage(format!("unknown model `{spec}`"));
        suggest(failure, spec, self.slugs())
            .hint("for a server of your own, write `chat/NAME` and set `--base-url`")
    }
}

/// What the tokens cost in dollars, and whether that is an estimate, because a price or a count is
/// not known. An estimate is on the high side.
pub fn cost(model: &Model, usage: &Usage) -> (f64, bool) {
    let price = model.price.unwrap_or(DEAREST);
    let cached = usage.cached_input.min(usage.input);
    let written = usage.cache_write.min(usage.input - cached);
    let fresh = usage.input - cached - written;
    let dollars = tokens(fresh) * price.input
        + tokens(cached) * price.cache_read
        + tokens(written) * price.cache_write.unwrap_or(price.input)
        + tokens(usage.output) * price.output;
    (dollars / 1e6, usage.estimated || model.price.is_none())
}

#[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
fn tokens(count: u64) -> f64 {
    count as f64
}

/// The address where the models of this provider are asked when the user names none.
pub fn default_base_url(model: &Model) -> Option<&'static str> {
    match model.provider.as_str() {
        "openai" => Some(wire::default_base_url(Wire::Responses)),
        "anthropic" => Some(wire::default_base_url(Wire::Messages)),
        "google" => Some(wire::default_base_url(Wire::Gemini)),
        _ => None,
    }
}

/// Adds `did you mean` when something known is close.
fn suggest<'a>(failure: Failure, given: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let given = given.to_ascii_lowercase();
    let closest = known
        .map(|name| (distance(&given, name), name))
        .filter(|(distance, name)| *distance <= name.len() / 3)
        .min();
    match closest {
        Some((_, name)) => failure.hint(format!("did you mean `{name}`?")),
        None => failure,
    }
}

/// Levenshtein distance in bytes: how far apart two names are.
pub fn distance(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.bytes().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 1..row.len() {
            let substitution = diagonal + usize::from(byte != other[column - 1]);
            diagonal = row[column];
            row[column] = substitution.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

//! The model catalogue, `models.toml`: quirks of models are data there and nowhere else.
//!
//! [`Catalogue::resolve`] turns what a user wrote after `--model` into a [`Model`]. Nothing here
//! talks to a provider: whether a model exists at an endpoint is the endpoint's to say.

mod fields;
mod platform;
mod price;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::fields::{Fields, OutputLimit, StructuredOutput, Thinking, ToolChoices, ToolMode};
pub use self::price::{Price, PriceStep, cost, least};
use super::item::Wire;
use super::wire;
use patchwright_base::error::{Failure, Result};
use patchwright_base::nearby::{self, suggest};

/// A resolved catalogue entry: everything that the rest of the program may ask about a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a model")]
pub struct Model {
    /// What is sent as `model`.
    pub slug: String,
    /// `openai`, `anthropic`, `google`, `azure`, `bedrock`, `vertex`, `chat` or `scripted`.
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
    /// How long requests cost more, the shortest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub price_above: Vec<PriceStep>,
    /// Levels that a request may name; empty for models without reasoning effort.
    pub efforts: Vec<String>,
    pub default_effort: Option<String>,
    /// `low`, `medium`, `high`; sent only when set.
    pub verbosity: Option<String>,
    pub parallel_calls: bool,
    /// How a request asks for a depth of thinking.
    pub thinking: Thinking,
    /// Which of its profile's shell tools the model gets; `None` for the profile's own.
    pub shell: Option<String>,
    /// Which of its profile's ways to edit files the model gets; `None` for the profile's own.
    pub patch: Option<String>,
    /// How the model calls tools.
    #[serde(default)]
    pub tool_mode: ToolMode,
    /// Tools are declared by an item of the conversation instead of the request (OpenAI's own
    /// Responses API).
    #[serde(default)]
    pub tools_in_input: bool,
    /// Requests carry the header of a lighter form of the protocol (Responses wire only).
    #[serde(default)]
    pub responses_lite: bool,
    /// `reasoning.context` on the Responses wire; sent only when set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_context: Option<String>,
    /// Function tools are declared with the provider's strict mode.
    pub strict: bool,
    /// The model takes pictures.
    pub images: bool,
    /// The model knows its provider's own search for tools (Responses wire only).
    #[serde(default)]
    pub tool_search: bool,
    /// Tokens of a conversation from which on it is compacted; `None` for what [`Model::compact_at`]
    /// makes of the window and the price.
    pub compact_at: Option<u64>,
    /// The provider stores replies, and requests name the last one instead of repeating the
    /// conversation (Responses wire only).
    pub stateful: bool,
    /// How the length of a reply is limited on the Chat wire.
    pub output_limit: OutputLimit,
    /// What a request may say about the choice of tools.
    #[serde(default)]
    pub tool_choice: ToolChoices,
    /// How a result is asked for as JSON; `None` for what [`Model::structured_output`] makes of the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<StructuredOutput>,
    /// The Chat wire asks for the token count at the end of the stream.
    pub stream_usage: bool,
    /// Tokens of one tool output before truncation.
    pub output_tokens: u64,
    /// `reasoning.summary` on the Responses wire; sent only when set.
    pub reasoning_summary: Option<String>,
    /// The entry is a family default because the slug is unknown.
    pub assumed: bool,
    /// The model cannot be asked through Chat Completions.
    #[serde(default)]
    pub responses_only: bool,
    /// The day on which its maker ends it, as `YYYY-MM-DD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// A known slug that an unknown one is close to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

impl Model {
    /// Tokens of a conversation from which on it is compacted: a part of the window, and before a
    /// request of its length costs more than one that is shorter.
    pub fn compact_at(&self) -> u64 {
        // The rest is room for the next reply and for what counting by bytes gets wrong.
        let fits = self.context_window / 100 * 85;
        let cheap = self.price_above.first().map(|step| step.tokens / 100 * 95);
        self.compact_at.unwrap_or(cheap.map_or(fits, |cheap| cheap.min(fits)))
    }

    /// How a result is asked for as JSON. Of servers that speak a maker's protocol without being the maker's
    /// it is not known which schemas they take, so they are asked in a way that all of them know.
    pub fn structured_output(&self) -> StructuredOutput {
        let is_makers =
            matches!(self.provider.as_str(), "openai" | "azure" | "anthropic" | "google");
        self.structured_output.unwrap_or(match (self.wire, is_makers && !self.assumed) {
            (Wire::Responses | Wire::Gemini, _) | (_, true) => StructuredOutput::Schema,
            (Wire::Messages, false) => StructuredOutput::Tool,
            (Wire::Chat, false) => StructuredOutput::Words,
        })
    }

    /// This model at an address of the user's own, where nobody knows what it costs.
    #[must_use]
    pub fn without_price(self) -> Model {
        Model { price: None, price_above: Vec::new(), ..self }
    }

    /// What is sent is the name that replies have too. On the clouds it is a deployment's, or one
    /// with the region and the version around it.
    pub fn is_named(&self) -> bool {
        !matches!(self.provider.as_str(), "azure" | "bedrock" | "vertex")
    }

    /// The address is OpenAI's own API, or one that was put in its place: it knows what is new there.
    /// Other services of the same protocol do not.
    pub fn is_makers_responses(&self) -> bool {
        self.wire == Wire::Responses && self.provider == "openai"
    }

    /// The file of a `scripted:FILE` model.
    pub fn script(&self) -> Option<&Path> {
        self.slug.strip_prefix("scripted:").filter(|_| self.provider == "scripted").map(Path::new)
    }

    /// Refuses what would fail at the first request: a reasoning effort that the model does not have.
    pub fn check(&self, effort: Option<&str>) -> Result<()> {
        let slug = &self.slug;
        if self.provider == "scripted" {
            return Ok(());
        }
        let Some(effort) = effort else { return Ok(()) };
        // Nothing is known about an assumed model; the endpoint refuses an effort that it does not
        // have.
        if self.assumed || self.efforts.iter().any(|level| level == effort) {
            return Ok(());
        }
        let failure = Failure::usage(format!("`{slug}` has no reasoning effort `{effort}`"));
        Err(match self.efforts.as_slice() {
            [] => failure.hint("leave out `--effort`: the model has no levels"),
            levels => {
                let levels_known = levels.iter().map(String::as_str);
                suggest(failure, effort, levels_known)
                    .hint(format!("`--effort` can be {}", levels.join(", ")))
            }
        })
    }

    /// The model of the catalogue that is likely meant by a name that is not in it; `None` also where the two may be
    /// versions of one model.
    pub fn likely_meant(&self) -> Option<&str> {
        self.did_you_mean.as_deref().filter(|known| differs_in_letters(&self.slug, known))
    }

    /// Warnings before the work starts: a name that looks misspelt, figures that are guesses, a model that
    /// is no longer offered. `today` is `YYYY-MM-DD`.
    pub fn notes(&self, today: &str) -> Vec<String> {
        let slug = &self.slug;
        let mut notes = Vec::new();
        match self.likely_meant() {
            Some(known) => notes.push(format!(
                "`{slug}` is not in the catalogue: did you mean `{known}`? It is asked as written"
            )),
            _ if self.assumed && self.provider == "azure" => notes.push(format!(
                "nothing is known about the model behind `azure/{slug}`, so context and prices are \
                 guesses: name it in the configuration, `models: {{azure/{slug}: {{like: MODEL}}}}`"
            )),
            _ => {}
        }
        if let Some(ends) = self.ends.as_deref().filter(|ends| *ends < today) {
            notes.push(format!("`{slug}` ended on {ends}: its provider may refuse it"));
        }
        notes
    }
}

/// Most names that an answer to an unknown one has.
const MAX_NAMED: usize = 8;

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

impl Catalogue {
    /// The built-in catalogue with the user's overrides, by slug. An override of an unknown slug
    /// adds a model; it starts from its `family`, or from what its name suggests.
    pub fn load(overrides: &BTreeMap<String, Fields>) -> Result<Catalogue> {
        let file: File = toml::from_str(include_str!("models.toml")).map_err(|err| {
            Failure::internal("the built-in model catalogue is broken").caused_by(err)
        })?;
        let models = file.model.into_iter().filter_map(|model| Some((model.slug.clone()?, model)));
        let mut catalogue = Catalogue { families: file.family, models: models.collect() };
        for (name, fields) in overrides {
            fields.check(name)?;
            catalogue.check_names(name, fields)?;
            // An override of a cloud's name starts from the maker's entry of the same model.
            let known = catalogue.models.get(name).or_else(|| match name.split_once('/') {
                Some((word, slug)) => catalogue.behind(platform::provider(word)?.name, slug),
                None => catalogue.snapshot(name),
            });
            let known = known.cloned().unwrap_or_default();
            catalogue.models.insert(name.clone(), fields.clone().over(&known));
        }
        // A mistake in an override is reported now, not when the model is first used.
        for name in overrides.keys() {
            catalogue.resolve(name, None)?;
        }
        Ok(catalogue)
    }

    /// Refuses an override that names a family, a provider or a model that does not exist.
    fn check_names(&self, name: &str, fields: &Fields) -> Result<()> {
        let unknown = |key: &str, given: &str, known: &mut dyn Iterator<Item = &str>| {
            let what = format!("`models.{name}.{key}` names an unknown {key} `{given}`");
            Err(suggest(Failure::usage(what), given, known))
        };
        if let Some(family) = &fields.family
            && !self.families.contains_key(family)
        {
            return unknown("family", family, &mut self.families.keys().map(String::as_str));
        }
        if let Some(provider) = &fields.provider
            && platform::provider(provider).is_none()
        {
            let mut names = platform::PROVIDERS.iter().map(|provider| provider.name);
            return unknown("provider", provider, &mut names);
        }
        if let Some(like) = &fields.like
            && !self.models.contains_key(like)
        {
            let what = format!("`models.{name}.like` names an unknown model `{like}`");
            return Err(suggest(Failure::usage(what), like, self.slugs()));
        }
        Ok(())
    }

    /// Every known slug, in order.
    pub fn slugs(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The model that `--model` names: `gpt-5.3-codex`, `anthropic/claude-sonnet-5`,
    /// `azure/DEPLOYMENT`, `bedrock/ID`, `vertex/ID`, `chat/NAME` for any OpenAI-compatible server, or
    /// `scripted:FILE`. `wire` overrides the catalogue's.
    pub fn resolve(&self, spec: &str, wire: Option<Wire>) -> Result<Model> {
        let spec = spec.trim();
        if let Some(file) = spec.strip_prefix("scripted:") {
            if file.is_empty() {
                return Err(Failure::usage("`scripted:` needs a file: `scripted:replies.yml`"));
            }
            return self.family_default("scripted", spec, wire);
        }
        let prefix = spec.split_once('/');
        if let Some((word, slug)) = prefix
            && let Some(provider) = platform::provider(word)
        {
            return self.with_provider(spec, provider, slug, wire);
        }
        if let Some(fields) = self.snapshot(spec) {
            return self.inherit(spec, fields.clone()).model(spec, wire);
        }
        match (prefix, self.family_by_prefix(spec)) {
            (Some((word, "")), _) => Err(Failure::usage(format!("`{spec}` names no model"))
                .hint(format!("write `{word}/NAME`"))),
            (Some((word, _)), _) => {
                let failure = Failure::usage(format!("unknown provider `{word}` in `{spec}`"));
                let known = platform::PROVIDERS.iter().map(|provider| provider.name);
                Err(suggest(failure, word, known)
                    .hint("for a server of your own, write `chat/NAME` and set `--base-url`"))
            }
            (None, Some(family)) => {
                Ok(self.assumed(spec, self.family_default(family, spec, wire)?))
            }
            (None, None) => Err(self.unknown(spec)),
        }
    }

    fn with_provider(
        &self,
        spec: &str,
        provider: &platform::Provider,
        slug: &str,
        wire: Option<Wire>,
    ) -> Result<Model> {
        let name = provider.name;
        if slug.is_empty() {
            return Err(Failure::usage(format!("`{spec}` names no model"))
                .hint(format!("write `{name}/NAME`")));
        }
        let exact = self.models.get(spec);
        let makers = platform::makers_name(name, slug);
        if let Some(fields) = exact.or_else(|| self.behind(name, slug)) {
            let mut fields = self.inherit(makers, fields.clone());
            // `anthropic/gpt-5` is a slip: the model exists, but not at this provider.
            if provider.is_maker && fields.provider.as_deref() != Some(name) {
                let theirs = fields.provider.unwrap_or_default();
                return Err(Failure::usage(format!("`{slug}` is not a model of `{name}`"))
                    .hint(format!("write `{slug}` or `{theirs}/{slug}`")));
            }
            // A gateway of the user's own may translate Chat Completions, so the restriction holds
            // at public services only.
            let responses_only =
                if name == "chat" { fields.responses_only.take() } else { fields.responses_only };
            let wire = wire.or(exact.and_then(|fields| fields.wire)).or(provider.wire);
            let model = fields.model(slug, wire)?;
            let responses_only = responses_only.unwrap_or_default();
            return Ok(Model { provider: name.to_owned(), responses_only, ..model });
        }
        let fits = |family: &&str| {
            let theirs = self.families.get(*family).and_then(|fields| fields.provider.as_deref());
            theirs == Some(name) || (!provider.is_maker && name != "chat")
        };
        let family = self.family_by_prefix(makers).filter(fits).unwrap_or(provider.family);
        let model = self.family_default(family, slug, wire.or(provider.wire))?;
        let model = Model { provider: name.to_owned(), ..model };
        Ok(if name == "chat" {
            Model { assumed: true, ..model }
        } else {
            self.assumed(makers, model)
        })
    }

    /// The entry of a slug, or of the slug without the date of a snapshot.
    fn snapshot(&self, slug: &str) -> Option<&Fields> {
        self.models.get(slug).or_else(|| self.models.get(platform::without_date(slug)?))
    }

    /// The entry of the model behind a provider's name.
    fn behind(&self, provider: &str, name: &str) -> Option<&Fields> {
        let makers = platform::makers_name(provider, name);
        self.models.get(name).or_else(|| self.snapshot(makers))
    }

    /// A model of which only the family is known.
    fn assumed(&self, slug: &str, model: Model) -> Model {
        let did_you_mean = nearby::slip(slug, self.slugs()).map(str::to_owned);
        Model { assumed: true, did_you_mean, ..model }
    }

    /// The fields with those of the entry that they are like, and then of the family.
    fn inherit(&self, slug: &str, fields: Fields) -> Fields {
        let (mut fields, mut slug) = (fields, slug.to_owned());
        // The bound ends a circle of `like` entries; real chains are shorter.
        for _ in 0..4 {
            let Some(like) = fields.like.take() else { break };
            if let Some(base) = self.models.get(&like) {
                fields = fields.over(base);
            }
            slug = like;
        }
        let family = fields.family.clone();
        let family = family.as_deref().or_else(|| self.family_by_prefix(&slug)).unwrap_or("chat");
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
        // `sonnet`, `sonnet-5`: a part of the name, as people say it.
        let part = format!("-{}-", spec.to_ascii_lowercase());
        let has_it = |slug: &&str| spec.len() >= 3 && format!("-{slug}-").contains(&part);
        let named: Vec<String> =
            self.slugs().filter(has_it).take(MAX_NAMED).map(|slug| format!("`{slug}`")).collect();
        let failure = if named.is_empty() {
            suggest(failure, spec, self.slugs())
        } else {
            failure.hint(format!("models of that name are {}", named.join(", ")))
        };
        failure.hint("for a server of your own, write `chat/NAME` and set `--base-url`")
    }
}

/// The address where the models of this provider are asked when the user names none.
pub fn default_base_url(model: &Model) -> Option<&'static str> {
    match (model.provider.as_str(), model.wire) {
        ("openai", Wire::Responses | Wire::Chat)
        | ("anthropic", Wire::Messages)
        | ("google", Wire::Gemini) => Some(wire::default_base_url(model.wire)),
        // Both offer an endpoint compatible with Chat Completions beside their own protocol.
        ("anthropic", Wire::Chat) => Some("https://api.anthropic.com/v1"),
        ("google", Wire::Chat) => Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        _ => None,
    }
}
/// True when two names differ in more than digits, so that one is not just another version of the
/// other.
fn differs_in_letters(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect()
    };
    letters(one) != letters(other)
}

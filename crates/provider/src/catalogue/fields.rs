//! The fields of a catalogue entry as they are written, and how entries inherit.

use serde::{Deserialize, Serialize};

use super::Model;
use super::price::{Price, PriceStep};
use crate::item::Wire;
use patchwright_base::error::{Failure, Result};

/// How a request sets the depth of thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Thinking {
    /// By a level alone (`reasoning.effort`, `reasoning_effort`, `thinkingLevel`).
    #[default]
    Level,
    /// Anthropic's adaptive thinking, with the level in `output_config.effort`.
    Adaptive,
    /// By a number of tokens (`budget_tokens`, `thinkingBudget`).
    Budget,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolMode {
    /// Each by a call of its own.
    #[default]
    Direct,
    /// From scripts: one tool, `exec`, takes JavaScript that calls the others.
    Code,
}

/// What a request may say about the choice of tools. What a model cannot be told is left to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolChoices {
    /// Everything.
    #[default]
    All,
    /// That it may or must not call any, but not that it must.
    Optional,
    /// Nothing: the field is not sent.
    Unsent,
}

/// How a model is bound to JSON of a given form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StructuredOutput {
    /// By the wire's own field for a JSON Schema.
    #[default]
    Schema,
    /// By a tool whose arguments are the result, and which it has to call.
    Tool,
    /// By words alone.
    Words,
}

/// The field of a Chat Completions request that limits the length of a reply to the model's
/// `max-output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputLimit {
    /// No limit is sent: the server's own applies. Some servers refuse a limit that exceeds what
    /// the prompt leaves of their context window.
    #[default]
    None,
    /// `max_tokens`, as most servers call it.
    MaxTokens,
    /// `max_completion_tokens`, as OpenAI and Azure call it.
    MaxCompletionTokens,
}

/// Fields of a model as written in `models.toml` and in users' overrides; what is absent is
/// inherited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Fields {
    /// The entry's name; required in `models.toml`, the key in overrides.
    pub slug: Option<String>,
    /// A model of the catalogue that this one is like: a deployment with a name of its own.
    pub like: Option<String>,
    pub family: Option<String>,
    pub provider: Option<String>,
    pub wire: Option<Wire>,
    /// The model cannot be asked through Chat Completions.
    pub responses_only: Option<bool>,
    pub profile: Option<String>,
    pub prompt: Option<String>,
    pub context: Option<u64>,
    pub max_output: Option<u64>,
    /// Input, output, cache read, and cache write where it has its own price.
    pub price: Option<Vec<f64>>,
    /// From how many tokens of input on a request costs how many times as much.
    pub price_above: Option<Vec<PriceStep>>,
    pub efforts: Option<Vec<String>>,
    pub default_effort: Option<String>,
    pub verbosity: Option<String>,
    pub reasoning_summary: Option<String>,
    pub parallel_calls: Option<bool>,
    pub thinking: Option<Thinking>,
    pub shell: Option<String>,
    pub patch: Option<String>,
    pub tool_mode: Option<ToolMode>,
    /// Tools are declared in the conversation (OpenAI's own Responses API only).
    pub tools_in_input: Option<bool>,
    /// `x-openai-internal-codex-responses-lite` is sent (Responses wire only).
    pub responses_lite: Option<bool>,
    pub reasoning_context: Option<String>,
    pub strict: Option<bool>,
    pub images: Option<bool>,
    /// The model knows its provider's own search for tools (Responses wire only).
    pub tool_search: Option<bool>,
    pub compact_at: Option<u64>,
    pub stateful: Option<bool>,
    pub output_limit: Option<OutputLimit>,
    pub stream_usage: Option<bool>,
    /// What a request may say about the choice of tools: `all`, `optional`, `unsent`.
    pub tool_choice: Option<ToolChoices>,
    /// How a result is asked for as JSON: `schema`, `tool`, `words`.
    pub structured_output: Option<StructuredOutput>,
    pub output_tokens: Option<u64>,
    /// The day on which its maker ends it, as `YYYY-MM-DD`.
    pub ends: Option<String>,
    /// Families only: slugs that begin like this belong to it.
    pub prefixes: Option<Vec<String>>,
}

impl Fields {
    /// Refuses values that no model can have, by the key of the configuration that holds them.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let wrong = |key: &str, why: &str| {
            Err(Failure::usage(format!("`models.{name}.{key}` {why}"))
                .hint("the fields of a model are described in `docs/endpoints.md`"))
        };
        if name.trim() != name || name.is_empty() || name.contains(char::is_whitespace) {
            return Err(Failure::usage(format!("`{name}` in `models` is no name of a model")));
        }
        if self.slug.is_some() {
            return wrong("slug", "is the name of the entry itself");
        }
        if self.prefixes.is_some() {
            return wrong("prefixes", "is only for families");
        }
        let counts = [
            ("context", self.context),
            ("max-output", self.max_output),
            ("output-tokens", self.output_tokens),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return wrong(key, "must be more than 0 tokens");
        }
        if let (Some(context), Some(output)) = (self.context, self.max_output)
            && output > context
        {
            return wrong("max-output", "is larger than `context`");
        }
        if let Some(ends) = &self.ends
            && chrono::NaiveDate::parse_from_str(ends, "%Y-%m-%d").is_err()
        {
            return wrong("ends", "must be a day, such as `2027-04-01`");
        }
        if let (Some(default), Some(efforts)) = (&self.default_effort, &self.efforts)
            && !efforts.contains(default)
        {
            return wrong("default-effort", "is not one of `efforts`");
        }
        if let Some(price) = &self.price {
            Price::parse(name, price)?;
        }
        if !self.price_above.iter().flatten().all(PriceStep::is_sound) {
            return wrong(
                "price-above",
                "needs `tokens` above 0, and `input` and `output` of 1 or more",
            );
        }
        Ok(())
    }

    /// These fields, and `base` where they are absent.
    pub(super) fn over(self, base: &Fields) -> Fields {
        let base = base.clone();
        // What was chosen for a longer window says nothing of this one.
        let fits = |at: &u64| self.context.is_none_or(|context| *at <= context / 100 * 85);
        let compact_at = base.compact_at.filter(fits);
        Fields {
            slug: self.slug.or(base.slug),
            like: self.like.or(base.like),
            family: self.family.or(base.family),
            provider: self.provider.or(base.provider),
            wire: self.wire.or(base.wire),
            responses_only: self.responses_only.or(base.responses_only),
            profile: self.profile.or(base.profile),
            prompt: self.prompt.or(base.prompt),
            context: self.context.or(base.context),
            max_output: self.max_output.or(base.max_output),
            price: self.price.or(base.price),
            price_above: self.price_above.or(base.price_above),
            efforts: self.efforts.or(base.efforts),
            default_effort: self.default_effort.or(base.default_effort),
            verbosity: self.verbosity.or(base.verbosity),
            reasoning_summary: self.reasoning_summary.or(base.reasoning_summary),
            parallel_calls: self.parallel_calls.or(base.parallel_calls),
            thinking: self.thinking.or(base.thinking),
            shell: self.shell.or(base.shell),
            patch: self.patch.or(base.patch),
            tool_mode: self.tool_mode.or(base.tool_mode),
            tools_in_input: self.tools_in_input.or(base.tools_in_input),
            responses_lite: self.responses_lite.or(base.responses_lite),
            reasoning_context: self.reasoning_context.or(base.reasoning_context),
            strict: self.strict.or(base.strict),
            images: self.images.or(base.images),
            tool_search: self.tool_search.or(base.tool_search),
            compact_at: self.compact_at.or(compact_at),
            stateful: self.stateful.or(base.stateful),
            output_limit: self.output_limit.or(base.output_limit),
            stream_usage: self.stream_usage.or(base.stream_usage),
            tool_choice: self.tool_choice.or(base.tool_choice),
            structured_output: self.structured_output.or(base.structured_output),
            output_tokens: self.output_tokens.or(base.output_tokens),
            ends: self.ends.or(base.ends),
            prefixes: None,
        }
    }

    pub(super) fn model(self, slug: &str, wire: Option<Wire>) -> Result<Model> {
        let missing =
            || Failure::usage(format!("the model `{slug}` lacks a field, and no family gives it"));
        let chosen = wire.or(self.wire).ok_or_else(missing)?;
        if chosen == Wire::Chat && self.responses_only == Some(true) {
            return Err(Failure::usage(format!("`{slug}` answers only on the `responses` wire"))
                .hint("leave out `--wire chat`"));
        }
        let mut price_above = self.price_above.unwrap_or_default();
        price_above.sort_by_key(|step| step.tokens);
        Ok(Model {
            slug: slug.to_owned(),
            provider: self.provider.ok_or_else(missing)?,
            wire: chosen,
            profile: self.profile.ok_or_else(missing)?,
            prompt: self.prompt.ok_or_else(missing)?,
            context_window: self.context.ok_or_else(missing)?,
            max_output: self.max_output.ok_or_else(missing)?,
            price: self.price.map(|price| Price::parse(slug, &price)).transpose()?,
            price_above,
            efforts: self.efforts.unwrap_or_default(),
            default_effort: self.default_effort,
            verbosity: self.verbosity,
            parallel_calls: self.parallel_calls.unwrap_or(true),
            thinking: self.thinking.unwrap_or_default(),
            shell: self.shell,
            patch: self.patch,
            tool_mode: self.tool_mode.unwrap_or_default(),
            tools_in_input: self.tools_in_input.unwrap_or_default(),
            responses_lite: self.responses_lite.unwrap_or_default(),
            reasoning_context: self.reasoning_context,
            strict: self.strict.unwrap_or_default(),
            images: self.images.unwrap_or_default(),
            tool_search: self.tool_search.unwrap_or_default(),
            compact_at: self.compact_at,
            stateful: self.stateful.unwrap_or_default(),
            output_limit: self.output_limit.unwrap_or_default(),
            stream_usage: self.stream_usage.unwrap_or(true),
            tool_choice: self.tool_choice.unwrap_or_default(),
            structured_output: self.structured_output,
            output_tokens: self.output_tokens.unwrap_or(10_000),
            reasoning_summary: self.reasoning_summary,
            assumed: false,
            responses_only: self.responses_only.unwrap_or_default(),
            ends: self.ends,
            did_you_mean: None,
        })
    }
}

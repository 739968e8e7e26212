//! Models: one request in, one reply out.
//!
//! [`Provider`] is a seam with two shipping implementations: HTTP ([`http::HttpProvider`], which owns
//! retries) and scripted ([`scripted::ScriptedProvider`], for the demo, tests and replay). The four
//! wires are pure `encode`/`decode` pairs in [`wire`].

pub mod catalogue;
pub mod endpoint;
mod explain;
pub mod hosted;
pub mod http;
pub mod identity;
pub mod item;
pub mod output;
pub mod retry;
pub mod scripted;
mod shape;
pub mod shared_limits;
pub mod sse;
pub mod wire;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::catalogue::Model;
use self::item::{Content, Item, StopReason, Usage};
use self::shared_limits::SharedLimits;
use patchwright_base::error::{Failure, Outage, OutageCause, Service};

/// Receives text as it streams in, and retries. It must not block.
pub type OnProgress<'a> = &'a (dyn for<'p> Fn(Progress<'p>) + Send + Sync);

/// A model that answers.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Sends one request and waits for the complete reply. Retries what can succeed (see
    /// `docs/reliability.md`); a reply is only returned when its final event has arrived.
    ///
    /// `progress` receives text as it streams in, and retries; it must not block.
    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError>;

    /// The address that is asked, as it may be shown; `None` where nobody is.
    fn endpoint(&self) -> Option<&str> {
        None
    }

    /// A run, or a sub-agent of it, goes on after `replies` replies that it has already: prepared
    /// replies start there. A live model reads the history and needs no word.
    fn resume_at(&self, _agent: Option<&str>, _replies: usize) {}

    /// Rate limits are shared with other processes from now on. Prepared replies have none.
    fn share_limits(&self, _limits: &SharedLimits) {}
}

/// One request. Building it twice from the same parts gives the same bytes.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub model: &'a Model,
    /// The system prompt.
    pub instructions: &'a str,
    pub tools: &'a [ToolDeclaration],
    /// Everything said so far; append-only between requests of one run.
    pub history: &'a [Item],
    /// One of the model's reasoning levels; `None` leaves the provider's default.
    pub effort: Option<&'a str>,
    /// Whether the model may, must or must not call tools.
    pub tool_choice: ToolChoice<'a>,
    /// The reply has to be JSON of this form, where the model can be bound to one.
    pub output: Option<OutputFormat<'a>>,
    /// Constant for a conversation, so that prompt caches hit: the run's id, and for a sub-agent its
    /// own behind a slash.
    pub cache_key: &'a str,
    /// The last reply, for models that are asked with stored replies (`Model::stateful`); such a
    /// request sends only what was said since. `None` sends everything.
    pub previous: Option<Previous<'a>>,
    /// Another model can be asked instead, so not much time is spent on this one.
    pub has_alternative: bool,
}

impl Request<'_> {
    /// The sub-agent whose request it is; of the run's own model none.
    pub fn agent(&self) -> Option<&str> {
        self.cache_key.split_once('/').map(|(_, agent)| agent)
    }
}

/// A reply that the provider has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous<'a> {
    /// Its id.
    pub id: &'a str,
    /// How many items of the history it and what it answered are: the provider knows these.
    pub known: usize,
}

/// JSON that a reply has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputFormat<'a> {
    /// What the provider calls it: letters, digits, underscores.
    pub name: &'a str,
    /// JSON Schema.
    pub schema: &'a Value,
}

/// Whether the model may call tools. A model that cannot be told so is asked without: see
/// [`catalogue::ToolChoices`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// As it likes.
    #[default]
    Auto,
    /// It has to answer in words; the tools stay declared, so that prompt caches hit.
    None,
    /// It has to call one.
    Required,
    /// It has to call this one, which is declared.
    Named(&'a str),
}

/// A tool as it is declared to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    pub name: String,
    pub description: String,
    pub form: ToolForm,
}

/// The shape in which a tool is declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolForm {
    /// JSON arguments by JSON Schema.
    Function { schema: Value, strict: bool },
    /// Free text constrained by a grammar.
    Freeform {
        /// `lark` or `regex`.
        syntax: String,
        definition: String,
    },
    /// A tool that the provider defines; the value is the declaration as sent.
    Native { value: Value },
}

/// What happens while a reply is on its way.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    Retrying {
        attempt: u32,
        wait: Duration,
        why: &'a str,
    },
    /// An attempt broke off after it had begun, and this is what it may have cost. It is no part of the reply that a
    /// later attempt brings: that one has the length of the conversation, and a price of its own.
    Lost {
        usage: Usage,
    },
}

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub items: Vec<Item>,
    pub usage: Usage,
    pub stop: StopReason,
    /// The model that the provider says answered.
    pub model: String,
    /// The provider's own id of the reply or request, for support tickets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Reply {
    /// All that the model said or refused with, as one text: a structured output can come in several parts.
    pub fn text(&self) -> String {
        let said = self.items.iter().filter_map(|item| match item {
            Item::Message(message) => Some(message),
            _ => None,
        });
        let parts = said.flat_map(|message| &message.content).filter_map(|part| match part {
            Content::Text { text } | Content::Refusal { text } => Some(text.as_str()),
            Content::Image { .. } => None,
        });
        parts.collect()
    }
}

/// Why there is no reply. Each kind has one right reaction, so the kinds are what callers match on.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// 429 with a wait, after retries were used up.
    #[error("{endpoint} limits the rate of requests: {message}")]
    RateLimited { endpoint: String, message: String, wait: Option<Duration> },
    /// Out of credit or quota: no retry can help.
    #[error("{endpoint} reports an exhausted quota: {message}")]
    Quota { endpoint: String, message: String },
    /// 401 or 403. Here and below, `hint` names the setting to change where that is known.
    #[error("{endpoint} refuses the key: {message}")]
    Authentication { endpoint: String, message: String, hint: Option<String> },
    /// Credentials for the endpoint could not be fetched.
    #[error("cannot sign in for {endpoint}: {message}")]
    SignIn { endpoint: String, message: String, hint: Option<String> },
    /// The history no longer fits the model's context window.
    #[error("the conversation exceeds the context window: {message}")]
    ContextOverflow { message: String },
    /// A content filter or safety system blocked the request.
    #[error("{endpoint} blocked the request: {message}")]
    Filtered { endpoint: String, message: String },
    /// A picture of the conversation cannot be read, or the model takes none. Nothing of the request was worked on.
    #[error("{endpoint} refuses the pictures of the conversation: {message}")]
    PicturesRefused { endpoint: String, message: String },
    /// 5xx, overload, connection trouble, after retries were used up.
    #[error("{endpoint} is unavailable: {message}")]
    Unavailable { endpoint: String, message: String, hint: Option<String> },
    /// 400, 404, 413 and the like: our request or the configuration is wrong.
    #[error("{endpoint} rejects the request ({status}): {message}")]
    Rejected { endpoint: String, status: u16, message: String, hint: Option<String> },
    /// The answer is not in the protocol: an HTML page, broken events.
    #[error("{endpoint} answered with something else than the protocol: {message}")]
    Malformed { endpoint: String, message: String, hint: Option<String> },
    /// The scripted model has no reply left.
    #[error("the script `{script}` has no reply left after {used}")]
    ScriptExhausted { script: String, used: usize },
}

impl ProviderError {
    /// The provider itself failed, whatever it was asked.
    pub fn outage(&self) -> Option<Outage> {
        let cause = match self {
            ProviderError::Unavailable { .. } => OutageCause::Down,
            ProviderError::RateLimited { wait, .. } => OutageCause::Limited(*wait),
            _ => return None,
        };
        Some(Outage { service: Service::Model, cause })
    }
}

impl From<ProviderError> for Failure {
    /// The error as a person reads it, with the setting to change.
    fn from(err: ProviderError) -> Failure {
        let hint = match &err {
            ProviderError::Authentication { hint: Some(hint), .. }
            | ProviderError::SignIn { hint: Some(hint), .. }
            | ProviderError::Unavailable { hint: Some(hint), .. }
            | ProviderError::Rejected { hint: Some(hint), .. }
            | ProviderError::Malformed { hint: Some(hint), .. } => hint.clone(),
            ProviderError::RateLimited { wait: Some(wait), .. } => {
                let wait = retry::spoken(*wait);
                format!("run it again in {wait}; the run continues where it stopped")
            }
            ProviderError::RateLimited { wait: None, .. } | ProviderError::Unavailable { .. } => {
                "run it again later; the run continues where it stopped".to_owned()
            }
            ProviderError::Quota { .. } => "check the plan and the spending limit of the account".to_owned(),
            ProviderError::Authentication { .. } => {
                "check that the key is the provider's own (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY`) and may use this model".to_owned()
            }
            ProviderError::SignIn { .. } => "check the credentials of the environment".to_owned(),
            ProviderError::ContextOverflow { .. } => {
                "choose a model with a larger context window, or a smaller task".to_owned()
            }
            ProviderError::Filtered { .. } => "rephrase the task, or choose another model".to_owned(),
            ProviderError::PicturesRefused { .. } => {
                "set `models.NAME.images: false` in the configuration if the model takes none".to_owned()
            }
            ProviderError::Rejected { status: 404, .. } => {
                "check the model's name in `--model` and the base URL in `--base-url`".to_owned()
            }
            ProviderError::Rejected { .. } => {
                "check `--model`, `--effort` and `--base-url`; `patchwright tools` prints what is declared to the model".to_owned()
            }
            ProviderError::Malformed { .. } => {
                "check that `--base-url` (or the provider's variable) names the API, for OpenAI ending in `/v1`".to_owned()
            }
            ProviderError::ScriptExhausted { .. } => "add replies to the script".to_owned(),
        };
        Failure::provider(err.to_string()).hint(hint).in_an_outage(err.outage())
    }
}

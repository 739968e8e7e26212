//! A model that says what a script says: for the demo, tests, replay and resuming.
//!
//! `docs/scripted.md` describes the file. Replies are given out in order, whatever was asked; call
//! ids follow from the position, so a script always makes the same conversation. Nothing here reads
//! the history.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::item::{Content, Item, Message, Payload, Reasoning, Role, StopReason, ToolCall, Usage};
use super::{
    OnProgress, Progress, Provider, ProviderError, Reply, Request, ToolDeclaration, ToolForm,
};
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;

/// Bytes of a script at most.
const MAX_SCRIPT: u64 = 16 << 20;

/// Gives out prepared replies.
#[derive(Debug)]
pub struct ScriptedProvider {
    name: String,
    replies: Vec<ScriptStep>,
    next: AtomicUsize,
    /// What sub-agents say, by their ids, and how many replies of each were given.
    agents: BTreeMap<String, (Vec<ScriptStep>, AtomicUsize)>,
}

#[derive(Debug)]
enum ScriptStep {
    Written(ScriptedReply),
    Recorded(RecordedOutcome),
}

/// What became of a recorded request.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedOutcome {
    Reply(Box<Reply>),
    /// It was refused as too long.
    TooLong,
    /// Its pictures were refused.
    PicturesRefused,
    /// The model was given up for another.
    GivenUp,
}

impl RecordedOutcome {
    /// The recorded reply, or its failure, given once more.
    ///
    /// # Errors
    /// When there was no reply.
    pub fn again(&self) -> Result<Reply, ProviderError> {
        let message = "as it was recorded".to_owned();
        match self {
            RecordedOutcome::Reply(reply) => Ok(reply.as_ref().clone()),
            RecordedOutcome::TooLong => Err(ProviderError::ContextOverflow { message }),
            RecordedOutcome::PicturesRefused => {
                let endpoint = "the journal".to_owned();
                Err(ProviderError::PicturesRefused { endpoint, message })
            }
            RecordedOutcome::GivenUp => {
                let endpoint = "the journal".to_owned();
                Err(ProviderError::Unavailable { endpoint, message, hint: None })
            }
        }
    }
}

/// One reply of a script.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedReply {
    /// The sub-agent that says it, `agent-1` for the first; the run's own model when absent. Each has its
    /// replies in order.
    pub agent: Option<String>,
    /// What the model thinks; shown, never sent anywhere.
    pub reasoning: Option<String>,
    /// What the model says.
    pub text: Option<String>,
    /// The tools that it calls, in order.
    pub calls: Vec<ScriptedCall>,
    /// Tokens; counted roughly from the request when absent.
    pub usage: Option<ScriptedUsage>,
    /// `end_turn` when absent.
    pub stop: Option<StopReason>,
    /// There is no reply, but this error.
    pub error: Option<ScriptedError>,
}

/// A call: `args` for tools with JSON arguments, `input` for free text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    #[serde(default)]
    pub args: Option<Value>,
    #[serde(default)]
    pub input: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    pub input: u64,
    pub cached_input: u64,
    pub output: u64,
    pub reasoning: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    pub kind: ScriptedErrorKind,
    #[serde(default)]
    pub message: String,
}

/// The errors that a script can raise: those of [`ProviderError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedErrorKind {
    RateLimited,
    Quota,
    Authentication,
    ContextOverflow,
    Filtered,
    PicturesRefused,
    Unavailable,
    Rejected,
    Malformed,
}

impl ScriptedProvider {
    /// Reads a script, YAML or JSON.
    pub fn open(path: &Path) -> Result<ScriptedProvider> {
        let shown = path.display();
        let unreadable = || Failure::usage(format!("cannot read the script `{shown}`"));
        let text =
            named_file::read_text(path, MAX_SCRIPT).map_err(|err| unreadable().caused_by(err))?;
        ScriptedProvider::parse(&shown.to_string(), &text)
    }

    /// A script that is already in memory; `name` appears in messages.
    pub fn parse(name: &str, text: &str) -> Result<ScriptedProvider> {
        let replies: Vec<ScriptedReply> = serde_saphyr::from_str(text).map_err(|err| {
            Failure::usage(format!("the script `{name}` is not valid"))
                .caused_by(anyhow::anyhow!("{err}"))
                .hint("a script is a list of replies with `text`, `calls`, `usage`, `stop` or `error`")
        })?;
        let mut own = Vec::new();
        let mut agents: BTreeMap<String, (Vec<ScriptStep>, AtomicUsize)> = BTreeMap::new();
        for reply in replies {
            match &reply.agent {
                None => own.push(ScriptStep::Written(reply)),
                Some(agent) => {
                    let said = &mut agents.entry(agent.clone()).or_default().0;
                    said.push(ScriptStep::Written(reply));
                }
            }
        }
        Ok(ScriptedProvider { agents, ..ScriptedProvider::new(name, own) })
    }

    /// What a journal recorded, again.
    pub fn again(requests: Vec<RecordedOutcome>) -> ScriptedProvider {
        let steps = requests.into_iter().map(ScriptStep::Recorded).collect();
        ScriptedProvider::new("journal", steps)
    }

    /// Replies that are left.
    pub fn left(&self) -> usize {
        self.replies.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }

    fn new(name: &str, replies: Vec<ScriptStep>) -> ScriptedProvider {
        ScriptedProvider {
            name: name.to_owned(),
            replies,
            next: AtomicUsize::new(0),
            agents: BTreeMap::new(),
        }
    }

    /// The next reply; `None` when the script is at its end.
    fn next(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Option<Result<Reply, ProviderError>> {
        let (replies, next) = match request.agent() {
            None => (&self.replies, &self.next),
            Some(agent) => self.agents.get(agent).map(|(replies, next)| (replies, next))?,
        };
        let index = next.fetch_add(1, Ordering::Relaxed);
        let reply = match replies.get(index)? {
            ScriptStep::Recorded(recorded) => match recorded.again() {
                Ok(reply) => reply,
                Err(err) => return Some(Err(err)),
            },
            ScriptStep::Written(written) => match &written.error {
                Some(error) => return Some(Err(error.as_provider_error(&self.name))),
                None => written.reply(index, request),
            },
        };
        for item in &reply.items {
            tell(item, progress);
        }
        Some(Ok(reply))
    }
}

fn tell(item: &Item, progress: OnProgress<'_>) {
    match item {
        Item::Message(message) => {
            for part in &message.content {
                if let Content::Text { text } = part {
                    progress(Progress::Text(text));
                }
            }
        }
        Item::Reasoning(thought) => {
            for text in &thought.summary {
                progress(Progress::Reasoning(text));
            }
        }
        Item::Call(_) | Item::Output(_) | Item::Opaque(_) => {}
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn resume_at(&self, agent: Option<&str>, replies: usize) {
        let next = match agent {
            None => Some(&self.next),
            Some(agent) => self.agents.get(agent).map(|(_, next)| next),
        };
        if let Some(next) = next {
            next.store(replies, Ordering::Relaxed);
        }
    }

    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        self.next(request, progress).unwrap_or_else(|| {
            Err(ProviderError::ScriptExhausted {
                script: self.name.clone(),
                used: self.replies.len(),
            })
        })
    }
}

impl ScriptedReply {
    fn reply(&self, index: usize, request: &Request<'_>) -> Reply {
        let mut items = Vec::new();
        if let Some(thought) = &self.reasoning {
            items.push(Item::Reasoning(Reasoning { summary: vec![thought.clone()], native: None }));
        }
        if let Some(text) = &self.text {
            let content = vec![Content::text(text.as_str())];
            items.push(Item::Message(Message { role: Role::Assistant, content, native: None }));
        }
        for (number, call) in self.calls.iter().enumerate() {
            items.push(Item::Call(ToolCall {
                id: format!("call_{}_{}", index + 1, number + 1),
                name: call.tool.clone(),
                payload: call.payload(request.tools),
                native: None,
            }));
        }
        Reply {
            items,
            usage: self.usage.map_or_else(|| counted(request), ScriptedUsage::usage),
            stop: self.stop.unwrap_or(StopReason::EndTurn),
            model: request.model.slug.clone(),
            id: None,
        }
    }
}

impl ScriptedUsage {
    fn usage(self) -> Usage {
        Usage {
            input: self.input,
            cached_input: self.cached_input,
            cache_write: 0,
            output: self.output,
            reasoning: self.reasoning,
            estimated: false,
        }
    }
}

/// A rough count, so that token budgets mean something in a demo.
fn counted(request: &Request<'_>) -> Usage {
    let input = request.instructions.len() as u64 / 4 + 100 * request.history.len() as u64;
    Usage { input, output: 50, ..Usage::default() }
}

impl ScriptedCall {
    /// The arguments in the form in which the tool was declared.
    fn payload(&self, tools: &[ToolDeclaration]) -> Payload {
        let declared = tools.iter().find(|tool| tool.name == self.tool).map(|tool| &tool.form);
        match declared {
            Some(ToolForm::Freeform { .. }) => Payload::Freeform(self.as_text()),
            Some(ToolForm::Function { .. }) => Payload::Json(self.as_json()),
            Some(ToolForm::Native { .. }) => Payload::Native(self.as_json()),
            None => match &self.input {
                Some(input) => Payload::Freeform(input.clone()),
                None => Payload::Json(self.as_json()),
            },
        }
    }

    fn as_text(&self) -> String {
        match (&self.input, &self.args) {
            (Some(text), _) | (None, Some(Value::String(text))) => text.clone(),
            // A patch written as the arguments of the function form.
            (None, Some(args)) => match args.get("input").and_then(Value::as_str) {
                Some(input) => input.to_owned(),
                None => args.to_string(),
            },
            (None, None) => String::new(),
        }
    }

    fn as_json(&self) -> String {
        match (&self.args, &self.input) {
            // A text stands for arguments that are not JSON.
            (Some(Value::String(text)), _) => text.clone(),
            (Some(args), _) => args.to_string(),
            (None, Some(input)) => json!({ "input": input }).to_string(),
            (None, None) => "{}".to_owned(),
        }
    }
}

impl ScriptedError {
    fn as_provider_error(&self, script: &str) -> ProviderError {
        let (endpoint, message) = (script.to_owned(), self.message.clone());
        match self.kind {
            ScriptedErrorKind::RateLimited => {
                ProviderError::RateLimited { endpoint, message, wait: Some(Duration::from_secs(1)) }
            }
            ScriptedErrorKind::Quota => ProviderError::Quota { endpoint, message },
            ScriptedErrorKind::Authentication => {
                ProviderError::Authentication { endpoint, message, hint: None }
            }
            ScriptedErrorKind::ContextOverflow => ProviderError::ContextOverflow { message },
            ScriptedErrorKind::Filtered => ProviderError::Filtered { endpoint, message },
            ScriptedErrorKind::PicturesRefused => {
                ProviderError::PicturesRefused { endpoint, message }
            }
            ScriptedErrorKind::Unavailable => {
                ProviderError::Unavailable { endpoint, message, hint: None }
            }
            ScriptedErrorKind::Rejected => {
                ProviderError::Rejected { endpoint, status: 400, message, hint: None }
            }
            ScriptedErrorKind::Malformed => {
                ProviderError::Malformed { endpoint, message, hint: None }
            }
        }
    }
}

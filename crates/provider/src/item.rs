//! The conversation in our own terms, for all wires (OpenAI Responses, Chat Completions, Anthropic
//! Messages, Gemini).
//!
//! A wire translates [`Item`]s to its own JSON and back. What must travel back unmodified (encrypted
//! reasoning, signatures, item ids, phases) is kept in [`Native`] and is never looked into here.
//! Histories are append-only: nothing in this file edits an item.

use serde::{Deserialize, Serialize};

/// A conversation as another model, or the same one with another company's key, can read it: what was said,
/// called and answered, without what only its author's provider understands (sealed reasoning, signatures,
/// ids, items of hosted tools).
pub fn carried_over(items: &[Item]) -> Vec<Item> {
    items.iter().filter_map(Item::carried_over).collect()
}

/// Which protocol a model is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// OpenAI Responses, `POST /v1/responses`.
    Responses,
    /// OpenAI Chat Completions, `POST /v1/chat/completions`.
    Chat,
    /// Anthropic Messages, `POST /v1/messages`.
    Messages,
    /// Gemini `generateContent`.
    Gemini,
}

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    Message(Message),
    Reasoning(Reasoning),
    Call(ToolCall),
    Output(CallOutput),
    /// An item of a provider's own hosted tools: carried through history, never interpreted.
    Opaque(Native),
}

impl Item {
    fn carried_over(&self) -> Option<Item> {
        match self {
            Item::Message(said) => Some(Item::Message(Message { native: None, ..said.clone() })),
            Item::Call(call) => {
                let payload = match &call.payload {
                    // A tool of the provider's own is a function to everybody else.
                    Payload::Native(arguments) => Payload::Json(arguments.clone()),
                    payload => payload.clone(),
                };
                Some(Item::Call(ToolCall { payload, native: None, ..call.clone() }))
            }
            Item::Output(output) => {
                let form = match output.form {
                    OutputForm::Custom => OutputForm::Custom,
                    _ => OutputForm::Function,
                };
                Some(Item::Output(CallOutput { form, ..output.clone() }))
            }
            Item::Reasoning(_) | Item::Opaque(_) => None,
        }
    }
}

/// Something said by one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: Vec<Content>,
    /// Wire-specific fields that must be sent back with it (`phase`, item id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl Message {
    /// The provider says that this is said on the way, and is not the answer.
    pub fn is_commentary(&self) -> bool {
        let native = self.native.as_ref().filter(|native| native.wire == Wire::Responses);
        let phase = native.and_then(|native| native.value.get("phase"));
        phase.is_some_and(|phase| phase == "commentary")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The operator: instructions that outrank the user's.
    Developer,
    User,
    Assistant,
}

/// Tokens of a picture, roughly and rather too many; APIs count by pixels.
pub const PICTURE_TOKENS: usize = 1600;

/// A part of a message or of a tool output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    Text {
        text: String,
    },
    /// Base64 without line breaks.
    Image {
        media_type: String,
        data: String,
    },
    /// What the model said instead of answering.
    Refusal {
        text: String,
    },
}

impl Content {
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text { text: text.into() }
    }

    /// The texts of a list, joined with line breaks. Pictures are left out.
    pub fn texts(content: &[Content]) -> String {
        let texts = content.iter().filter_map(|part| match part {
            Content::Text { text } | Content::Refusal { text } => Some(text.as_str()),
            Content::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Item {
    /// The parts of a message or an output; other items have none.
    pub fn content(&self) -> &[Content] {
        match self {
            Item::Message(message) => &message.content,
            Item::Output(output) => &output.content,
            Item::Reasoning(_) | Item::Call(_) | Item::Opaque(_) => &[],
        }
    }

    /// Puts `text` in the place of each picture; how many there were.
    pub fn without_pictures(&mut self, text: &str) -> usize {
        let content = match self {
            Item::Message(message) => &mut message.content,
            Item::Output(output) => &mut output.content,
            Item::Reasoning(_) | Item::Call(_) | Item::Opaque(_) => return 0,
        };
        let pictures = content.iter_mut().filter(|part| matches!(part, Content::Image { .. }));
        pictures.map(|picture| *picture = Content::text(text)).count()
    }
}

/// Thinking of the model. The summary is for people; the rest is in `native`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    pub summary: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// A call of a tool, complete: half-received calls never become one of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the history; what the output is matched by (`call_id`, `tool_use_id`, …).
    pub id: String,
    /// The name under which the model called it.
    pub name: String,
    pub payload: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl ToolCall {
    /// The form in which this call must be answered.
    pub fn output_form(&self) -> OutputForm {
        match (&self.payload, self.name.as_str()) {
            (Payload::Freeform(_), _) => OutputForm::Custom,
            (Payload::Native(_), "local_shell") => OutputForm::LocalShell,
            (Payload::Native(_), "shell") => OutputForm::Shell,
            (Payload::Native(_), "apply_patch") => OutputForm::ApplyPatch,
            (Payload::Native(_), "computer") => OutputForm::Computer,
            (Payload::Native(_), "mcp_approval_request") => OutputForm::McpApproval,
            (Payload::Native(_), "tool_search") => OutputForm::ToolSearch,
            (Payload::Native(_) | Payload::Json(_), _) => OutputForm::Function,
        }
    }
}

/// The arguments of a call, in the form in which they came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Payload {
    /// JSON text, exactly as the model wrote it; may be invalid JSON.
    Json(String),
    /// Free text of a custom (grammar) tool.
    Freeform(String),
    /// A call of a provider-defined tool (`local_shell`, hosted `shell`, hosted `apply_patch`,
    /// `computer`, `tool_search`, a request to approve a remote call): the wire has turned it into the
    /// arguments of our own tool of that name, as JSON text.
    Native(String),
}

impl Payload {
    /// The arguments as text, whatever their form.
    pub fn as_str(&self) -> &str {
        match self {
            Payload::Json(text) | Payload::Freeform(text) | Payload::Native(text) => text,
        }
    }
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOutput {
    /// The id of the call that this answers.
    pub id: String,
    /// The name of the tool that was called (Gemini needs it).
    pub name: String,
    pub content: Vec<Content>,
    /// False when the tool failed; wires that have an error flag set it.
    pub success: bool,
    /// What failed was carried out all the same, as a command that ends with an error: the content is
    /// its result. Otherwise a failure's content says why there is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran: bool,
    /// What the call is about is still at work: a command in a session, a script, another agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// The form of the call, which decides the form of the output on the Responses wire.
    pub form: OutputForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputForm {
    Function,
    Custom,
    LocalShell,
    Shell,
    ApplyPatch,
    /// A screenshot.
    Computer,
    /// Yes or no to a call of a remote MCP server; ours is always no.
    McpApproval,
    /// A list of tool declarations.
    ToolSearch,
}

/// What a wire wants to see again, as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Native {
    pub wire: Wire,
    pub value: serde_json::Value,
}

/// Tokens of one reply, normalised: every count is of tokens, and the parts are contained in the
/// totals on every wire.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Usage {
    /// All input, cached or not.
    pub input: u64,
    /// The part of `input` that was read from a prompt cache.
    pub cached_input: u64,
    /// The part of `input` that was written to a prompt cache at its own price.
    pub cache_write: u64,
    /// All output, reasoning included.
    pub output: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
    /// True when the provider sent no usage and these are our own estimates.
    pub estimated: bool,
}

impl Usage {
    /// All tokens of the reply.
    pub fn total(&self) -> u64 {
        self.input + self.output
    }

    /// The tokens that a limit counts: all but those that were read from a prompt cache. They are sent
    /// again with each request of a conversation and cost little.
    pub fn counted(&self) -> u64 {
        self.total() - self.cached_input.min(self.input)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input += other.input;
        self.cached_input += other.cached_input;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.estimated |= other.estimated;
    }
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had said what it wanted to say (there may be calls in the reply).
    EndTurn,
    /// The output limit cut the reply off. Calls in it are not run.
    MaxOutput,
    /// A content filter ended it.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The provider paused a long turn; send the history again as it is.
    Pause,
    /// The model tried to call a tool in a form that the provider could not read, or one that was not
    /// declared. A call among the items has no id, is never run, and holds what the provider says.
    MalformedCall,
}

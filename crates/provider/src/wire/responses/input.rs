//! Elements of the `input` array: every item of the conversation as Responses wants it back.
//!
//! Called by [`super::encode`] alone.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{calls, outputs};
use crate::Request;
use crate::catalogue::ToolMode;
use crate::item::{CallOutput, Content, Item, Message, Native, OutputForm, Reasoning, Role, Wire};
use crate::{shape, wire};

/// An element of `input`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Entry<'a> {
    Typed(Input<'a>),
    Raw(&'a Value),
    Built(Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Input<'a> {
    Message {
        #[serde(flatten)]
        kept: RoundTripFields<'a>,
        role: Role,
        content: TextOrParts<'a>,
    },
    Reasoning {
        #[serde(flatten)]
        kept: RoundTripFields<'a>,
        summary: Vec<Part<'a>>,
    },
    FunctionCall {
        #[serde(flatten)]
        kept: RoundTripFields<'a>,
        call_id: &'a str,
        name: ToolName<'a>,
        arguments: &'a str,
    },
    CustomToolCall {
        #[serde(flatten)]
        kept: RoundTripFields<'a>,
        call_id: &'a str,
        name: ToolName<'a>,
        input: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: TextOrParts<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a Value>,
    },
    CustomToolCallOutput {
        call_id: &'a str,
        output: TextOrParts<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a Value>,
    },
    LocalShellCallOutput {
        // The description requires both and defines only `id`; the guide reads `call_id`.
        id: &'a str,
        call_id: &'a str,
        output: String,
    },
    ShellCallOutput {
        call_id: &'a str,
        output: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_output_length: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a Value>,
    },
    ApplyPatchCallOutput {
        call_id: &'a str,
        status: &'static str,
        output: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a Value>,
    },
    ComputerCallOutput {
        call_id: &'a str,
        output: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        acknowledged_safety_checks: Option<&'a Value>,
    },
    McpApprovalResponse {
        approval_request_id: &'a str,
        approve: bool,
        reason: String,
    },
    ToolSearchOutput {
        call_id: &'a str,
        execution: &'static str,
        status: &'static str,
        tools: Value,
    },
}

/// The fields of a received item that go back with it, from its [`Native`] value.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct RoundTripFields<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_content: Option<&'a str>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    content: Option<&'a Value>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    caller: Option<&'a Value>,
}

impl<'a> RoundTripFields<'a> {
    pub(super) fn from_native(native: Option<&'a Native>) -> RoundTripFields<'a> {
        let Some(value) = native.and_then(ours) else { return RoundTripFields::default() };
        // A compatible server may send other types than documented. Such an item goes back with the
        // fields that we know.
        let mut kept = RoundTripFields::deserialize(value).unwrap_or_default();
        kept.content = value.get("content");
        kept.caller = value.get("caller");
        kept
    }

    pub(super) fn without_content(self) -> RoundTripFields<'a> {
        RoundTripFields { content: None, ..self }
    }

    pub(super) fn without_status(self) -> RoundTripFields<'a> {
        RoundTripFields { status: None, ..self }
    }
}

pub(super) fn ours(native: &Native) -> Option<&Value> {
    (native.wire == Wire::Responses).then_some(&native.value)
}

/// A text, or a list of parts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum TextOrParts<'a> {
    Text(&'a str),
    Joined(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: DataUrl<'a>, detail: &'static str },
    OutputText { text: &'a str, annotations: [(); 0], logprobs: [(); 0] },
    Refusal { refusal: &'a str },
    SummaryText { text: &'a str },
}

pub(super) struct DataUrl<'a> {
    media_type: &'a str,
    data: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data:{};base64,{}", self.media_type, self.data))
    }
}

/// A tool name as the API takes it back.
pub(super) struct ToolName<'a>(pub(super) &'a str);

const NAME_LIMIT: usize = 64;

impl Serialize for ToolName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&shape::tool_name(self.0, NAME_LIMIT))
    }
}

/// The calls of a model that calls tools from scripts.
const SCRIPTS: &[&str] = &["exec", "wait"];

/// What elements of `input` depend on besides their own item.
pub(super) struct Context<'a> {
    /// The model accepts pictures; other models get a note in their place.
    images: bool,
    /// The model calls tools from scripts.
    scripts: bool,
    /// What came with the calls of provider-defined and of programs' calls, by call id.
    calls: HashMap<&'a str, &'a Value>,
}

impl<'a> Context<'a> {
    pub(super) fn new(request: &Request<'a>) -> Context<'a> {
        let calls = request.history.iter().filter_map(|item| match item {
            Item::Call(call) => Some((call.id.as_str(), call.native.as_ref().and_then(ours)?)),
            _ => None,
        });
        Context {
            images: request.model.images,
            scripts: request.model.tool_mode == ToolMode::Code,
            calls: calls.collect(),
        }
    }

    fn of_call(&self, call_id: &str, pointer: &str) -> Option<&'a Value> {
        self.calls.get(call_id)?.pointer(pointer).filter(|value| !value.is_null())
    }

    /// Pushes the elements that an item becomes; none for what this wire cannot be told.
    pub(super) fn push(&self, item: &'a Item, elements: &mut Vec<Entry<'a>>) {
        match item {
            Item::Message(said) => elements.push(Entry::Typed(self.message(said))),
            Item::Reasoning(thought) => elements.extend(reasoning(thought).map(Entry::Typed)),
            Item::Call(call) => elements.push(calls::tool_call(call)),
            Item::Output(answer) => self.output(answer, elements),
            Item::Opaque(native) => elements.extend(ours(native).map(Entry::Raw)),
        }
    }

    fn message(&self, said: &'a Message) -> Input<'a> {
        let mut kept = RoundTripFields::from_native(said.native.as_ref());
        kept.content = None;
        let content = match said.role {
            Role::Developer | Role::User => {
                kept = RoundTripFields::default();
                TextOrParts::Parts(self.input_parts(&said.content))
            }
            Role::Assistant if kept.id.is_some() => {
                // The API requires a status on a message that has an id.
                kept.status = kept.status.or(Some("completed"));
                TextOrParts::Parts(said.content.iter().filter_map(spoken_part).collect())
            }
            // Without an id the description knows an assistant message only as plain text.
            Role::Assistant => {
                kept.status = None;
                plain(&said.content)
            }
        };
        Input::Message { kept, role: said.role, content }
    }

    fn input_parts(&self, content: &'a [Content]) -> Vec<Part<'a>> {
        content
            .iter()
            .map(|part| match part {
                Content::Text { text } | Content::Refusal { text } => {
                    Part::InputText { text: text.into() }
                }
                Content::Image { media_type, data } if self.images => {
                    Part::InputImage { image_url: DataUrl { media_type, data }, detail: "auto" }
                }
                Content::Image { media_type, data } => {
                    Part::InputText { text: wire::picture_note(media_type, data).into() }
                }
            })
            .collect()
    }

    /// The output of a tool. A script's output is always a list, as in OpenAI's own client.
    fn words(&self, answer: &'a CallOutput) -> TextOrParts<'a> {
        if self.scripts && SCRIPTS.contains(&answer.name.as_str()) {
            return TextOrParts::Parts(self.input_parts(&answer.content));
        }
        match answer.content.as_slice() {
            [] => TextOrParts::Text(""),
            [Content::Text { text }] => TextOrParts::Text(text),
            parts => TextOrParts::Parts(self.input_parts(parts)),
        }
    }

    fn output(&self, answer: &'a CallOutput, elements: &mut Vec<Entry<'a>>) {
        let call_id = answer.id.as_str();
        let caller = self.of_call(call_id, "/caller");
        elements.push(Entry::Typed(match answer.form {
            OutputForm::Function => {
                Input::FunctionCallOutput { call_id, output: self.words(answer), caller }
            }
            OutputForm::Custom => {
                Input::CustomToolCallOutput { call_id, output: self.words(answer), caller }
            }
            OutputForm::LocalShell => Input::LocalShellCallOutput {
                id: call_id,
                call_id,
                output: Content::texts(&answer.content),
            },
            OutputForm::Shell => {
                let limit = self.of_call(call_id, "/action/max_output_length");
                Input::ShellCallOutput {
                    call_id,
                    output: outputs::shell(answer),
                    max_output_length: limit.filter(|limit| limit.is_u64()),
                    caller,
                }
            }
            OutputForm::ApplyPatch => Input::ApplyPatchCallOutput {
                call_id,
                status: if answer.success { "completed" } else { "failed" },
                output: Content::texts(&answer.content),
                caller,
            },
            OutputForm::Computer => Input::ComputerCallOutput {
                call_id,
                output: outputs::screenshot(&answer.content),
                acknowledged_safety_checks: self.of_call(call_id, "/pending_safety_checks"),
            },
            OutputForm::McpApproval => Input::McpApprovalResponse {
                approval_request_id: call_id,
                approve: false,
                reason: Content::texts(&answer.content),
            },
            OutputForm::ToolSearch => Input::ToolSearchOutput {
                call_id,
                execution: "client",
                status: "completed",
                tools: outputs::tools(&Content::texts(&answer.content)),
            },
        }));
        // A screenshot's output has no field for text, so the text follows as a message.
        let words = Content::texts(&answer.content);
        if answer.form == OutputForm::Computer && !words.is_empty() {
            let content = TextOrParts::Parts(vec![Part::InputText { text: words.into() }]);
            // Only items that the server made have ids there; ours never had one.
            let kept = RoundTripFields::default();
            elements.push(Entry::Typed(Input::Message { kept, role: Role::Developer, content }));
        }
    }
}

fn spoken_part(part: &Content) -> Option<Part<'_>> {
    match part {
        Content::Text { text } => Some(Part::OutputText { text, annotations: [], logprobs: [] }),
        Content::Refusal { text } => Some(Part::Refusal { refusal: text }),
        Content::Image { .. } => None,
    }
}

fn plain(content: &[Content]) -> TextOrParts<'_> {
    match content {
        [Content::Text { text } | Content::Refusal { text }] => TextOrParts::Text(text),
        parts => TextOrParts::Joined(Content::texts(parts)),
    }
}

/// Reasoning goes back only when it carries what the server needs to read it.
fn reasoning(thought: &Reasoning) -> Option<Input<'_>> {
    let kept = RoundTripFields::from_native(thought.native.as_ref());
    // The server finds its own reasoning by id.
    kept.id?;
    if kept.encrypted_content.is_none() && kept.content.is_none() {
        return None;
    }
    let summary = thought.summary.iter().map(|text| Part::SummaryText { text }).collect();
    Some(Input::Reasoning { kept: RoundTripFields { status: None, ..kept }, summary })
}

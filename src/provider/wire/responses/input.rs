//! Elements of the `input` array: every item of the conversation as Responses wants it back.
//!
//! Called by [`super::encode`] alone.

use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, ToolCall,
    Wire,
};

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
        kept: Kept<'a>,
        role: Role,
        content: Words<'a>,
    },
    Reasoning {
        #[serde(flatten)]
        kept: Kept<'a>,
        summary: Vec<Part<'a>>,
    },
    FunctionCall {
        #[serde(flatten)]
        kept: Kept<'a>,
        call_id: &'a str,
        name: ToolName<'a>,
        arguments: &'a str,
    },
    CustomToolCall {
        #[serde(flatten)]
        kept: Kept<'a>,
        call_id: &'a str,
        name: ToolName<'a>,
        input: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Words<'a>,
    },
    CustomToolCallOutput {
        call_id: &'a str,
        output: Words<'a>,
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
    },
    ApplyPatchCallOutput {
        call_id: &'a str,
        status: &'static str,
        output: String,
    },
}

/// The fields of a received item that go back with it, from its [`Native`] value.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Kept<'a> {
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
}

impl<'a> Kept<'a> {
    fn of(native: Option<&'a Native>) -> Kept<'a> {
        let Some(value) = native.and_then(ours) else { return Kept::default() };
        let mut kept = Kept::deserialize(value).unwrap_or_default();
        kept.content = value.get("content");
        kept
    }
}

fn ours(native: &Native) -> Option<&Value> {
    (native.wire == Wire::Responses).then_some(&native.value)
}

/// A text, or a list of parts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Words<'a> {
    Text(&'a str),
    Joined(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    InputText { text: &'a str },
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

/// A tool name as the API accepts it back. A model can call a name that no tool has; sent back as
/// it is, such a name would make every later request a 400.
pub(super) struct ToolName<'a>(&'a str);

const NAME_LIMIT: usize = 64;

impl Serialize for ToolName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !self.0.is_empty() && self.0.len() <= NAME_LIMIT && self.0.chars().all(fits) {
            return serializer.serialize_str(self.0);
        }
        let mut name: String =
            self.0.chars().take(NAME_LIMIT).map(|c| if fits(c) { c } else { '_' }).collect();
        if name.is_empty() {
            name.push('_');
        }
        serializer.serialize_str(&name)
    }
}

/// The item as an element; `None` for what this wire cannot be told.
pub(super) fn entry<'a>(item: &'a Item, history: &'a [Item]) -> Option<Entry<'a>> {
    match item {
        Item::Message(said) => Some(Entry::Typed(message(said))),
        Item::Reasoning(thought) => reasoning(thought).map(Entry::Typed),
        Item::Call(call) => Some(tool_call(call)),
        Item::Output(answer) => Some(Entry::Typed(output(answer, history))),
        Item::Opaque(native) => ours(native).map(Entry::Raw),
    }
}

fn message(said: &Message) -> Input<'_> {
    let mut kept = Kept::of(said.native.as_ref());
    kept.content = None;
    let content = match said.role {
        Role::Developer | Role::User => {
            kept = Kept::default();
            Words::Parts(input_parts(&said.content))
        }
        Role::Assistant if kept.id.is_some() => {
            kept.status = kept.status.or(Some("completed"));
            Words::Parts(said.content.iter().filter_map(spoken_part).collect())
        }
        // Without an id the description knows an assistant message only as plain text.
        Role::Assistant => {
            kept.status = None;
            plain(&said.content)
        }
    };
    Input::Message { kept, role: said.role, content }
}

fn input_parts(content: &[Content]) -> Vec<Part<'_>> {
    content
        .iter()
        .map(|part| match part {
            Content::Text { text } | Content::Refusal { text } => Part::InputText { text },
            Content::Image { media_type, data } => {
                Part::InputImage { image_url: DataUrl { media_type, data }, detail: "auto" }
            }
        })
        .collect()
}

fn spoken_part(part: &Content) -> Option<Part<'_>> {
    match part {
        Content::Text { text } => Some(Part::OutputText { text, annotations: [], logprobs: [] }),
        Content::Refusal { text } => Some(Part::Refusal { refusal: text }),
        Content::Image { .. } => None,
    }
}

fn plain(content: &[Content]) -> Words<'_> {
    match content {
        [Content::Text { text } | Content::Refusal { text }] => Words::Text(text),
        parts => Words::Joined(text_of(parts)),
    }
}

/// The texts of a content list, one after the other.
fn text_of(content: &[Content]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|part| match part {
            Content::Text { text } | Content::Refusal { text } => Some(text.as_str()),
            Content::Image { .. } => None,
        })
        .collect();
    texts.join("\n")
}

/// Reasoning goes back only when it carries what the server needs to read it.
fn reasoning(thought: &Reasoning) -> Option<Input<'_>> {
    let kept = Kept::of(thought.native.as_ref());
    kept.id?;
    if kept.encrypted_content.is_none() && kept.content.is_none() {
        return None;
    }
    let summary = thought.summary.iter().map(|text| Part::SummaryText { text }).collect();
    Some(Input::Reasoning { kept: Kept { status: None, ..kept }, summary })
}

fn tool_call(call: &ToolCall) -> Entry<'_> {
    let kept = || Kept { content: None, ..Kept::of(call.native.as_ref()) };
    let (call_id, name) = (call.id.as_str(), ToolName(&call.name));
    match &call.payload {
        Payload::Json(arguments) => {
            Entry::Typed(Input::FunctionCall { kept: kept(), call_id, name, arguments })
        }
        Payload::Freeform(input) => {
            // The description gives this item no status.
            let kept = Kept { status: None, ..kept() };
            Entry::Typed(Input::CustomToolCall { kept, call_id, name, input })
        }
        Payload::Native(arguments) => match call.native.as_ref().and_then(ours) {
            Some(value) => Entry::Raw(value),
            None => built_call(call, arguments),
        },
    }
}

/// A call of a provider-defined tool that did not come from this wire (a script, another wire).
fn built_call<'a>(call: &'a ToolCall, arguments: &'a str) -> Entry<'a> {
    let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    let id = &call.id;
    Entry::Built(match call.output_form() {
        OutputForm::LocalShell => {
            let mut action = json!({
                "type": "exec",
                "command": args.get("command").cloned().unwrap_or_else(|| json!([])),
                "env": {},
            });
            for (ours, theirs) in [("workdir", "working_directory"), ("timeout_ms", "timeout_ms")] {
                if let Some(value) = args.get(ours) {
                    action[theirs] = value.clone();
                }
            }
            json!({"type": "local_shell_call", "id": id, "call_id": id, "action": action, "status": "completed"})
        }
        OutputForm::Shell => {
            json!({"type": "shell_call", "call_id": id, "action": args, "status": "completed"})
        }
        OutputForm::ApplyPatch => json!({
            "type": "apply_patch_call", "call_id": id, "operation": args, "status": "completed",
        }),
        OutputForm::Function | OutputForm::Custom => {
            let kept = Kept::default();
            let name = ToolName(&call.name);
            return Entry::Typed(Input::FunctionCall { kept, call_id: id, name, arguments });
        }
    })
}

fn output<'a>(answer: &'a CallOutput, history: &'a [Item]) -> Input<'a> {
    let call_id = answer.id.as_str();
    match answer.form {
        OutputForm::Function => {
            Input::FunctionCallOutput { call_id, output: output_words(&answer.content) }
        }
        OutputForm::Custom => {
            Input::CustomToolCallOutput { call_id, output: output_words(&answer.content) }
        }
        OutputForm::LocalShell => {
            Input::LocalShellCallOutput { id: call_id, call_id, output: text_of(&answer.content) }
        }
        OutputForm::Shell => Input::ShellCallOutput {
            call_id,
            output: shell_output(answer),
            max_output_length: max_output_length(call_id, history),
        },
        OutputForm::ApplyPatch => Input::ApplyPatchCallOutput {
            call_id,
            status: if answer.success { "completed" } else { "failed" },
            output: text_of(&answer.content),
        },
    }
}

fn output_words(content: &[Content]) -> Words<'_> {
    match content {
        [] => Words::Text(""),
        [Content::Text { text }] => Words::Text(text),
        parts => Words::Parts(input_parts(parts)),
    }
}

/// The chunks of a hosted shell's output: as the tool made them, or one chunk around its text.
fn shell_output(answer: &CallOutput) -> Value {
    let text = text_of(&answer.content);
    if let Ok(Value::Array(chunks)) = serde_json::from_str(&text)
        && !chunks.is_empty()
        && chunks.iter().all(|chunk| {
            chunk["stdout"].is_string()
                && chunk["stderr"].is_string()
                && chunk["outcome"].is_object()
        })
    {
        return Value::Array(chunks);
    }
    let exit_code = i32::from(!answer.success);
    json!([{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": exit_code}}])
}

/// The limit that the call named; the API wants it repeated with the output.
fn max_output_length<'a>(call_id: &str, history: &'a [Item]) -> Option<&'a Value> {
    history
        .iter()
        .rev()
        .find_map(|item| match item {
            Item::Call(call) if call.id == call_id => call.native.as_ref(),
            _ => None,
        })
        .and_then(ours)
        .and_then(|value| value.pointer("/action/max_output_length"))
        .filter(|limit| limit.is_u64())
}

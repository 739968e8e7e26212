//! The conversation as `contents`: what the user and the model said in turn.
//!
//! - Parts of the model go back as they came, in order, never merged or split, with their
//!   signatures; those of one reply are one content.
//! - The outputs of a reply's calls are one user content right behind it, as many as there are
//!   calls and in their order. Nothing else is in it but pictures.
//! - Gemini 3 refuses a step whose first call has no signature. For calls that came from elsewhere (a
//!   script, another provider), or whose signature was lost on the way, the API documents a value that
//!   stands for one. It is set wherever such a call is first, not only in the current turn, so that old
//!   bytes never change.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{FUNCTION_CALL, SIGNATURE, field, object_of, text_field};
use crate::Request;
use crate::catalogue::Thinking;
use crate::item::{
    CallOutput, Content as Said, Item, Message, Native, Payload, Role, ToolCall, Wire,
};
use crate::wire;

/// What the API takes for the signature of a call that it did not make
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Longest name of a function that all versions of the API take.
const MAX_NAME: usize = 64;

/// An element of `contents`.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
    /// It answers calls.
    #[serde(skip)]
    answers: bool,
    /// It makes calls.
    #[serde(skip)]
    calls: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Native(&'a Value),
    /// A part of the API's own to which something was added.
    Completed(Value),
    Text {
        text: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    Picture {
        inline_data: Blob<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: Call<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    #[serde(rename_all = "camelCase")]
    Response {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct Call<'a> {
    name: Cow<'a, str>,
    args: Value,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

/// The history of a request.
pub(super) fn contents<'a>(request: &Request<'a>) -> Vec<Content<'a>> {
    let mut conversation = Conversation {
        list: Vec::new(),
        open_calls: Vec::new(),
        outputs: Vec::new(),
        is_third: request.model.thinking != Thinking::Budget,
        images: request.model.images,
    };
    for item in request.history {
        conversation.item(item);
    }
    conversation.answer();
    // The API expects the last turn to be the user's.
    if conversation.list.last().is_some_and(|last| last.role == "model") {
        conversation.user().parts.push(text("Go on."));
    }
    conversation.list
}

struct Conversation<'a> {
    list: Vec<Content<'a>>,
    /// Calls of the last reply.
    open_calls: Vec<&'a ToolCall>,
    /// Outputs that follow it.
    outputs: Vec<&'a CallOutput>,
    /// Gemini 3 or later: signatures are checked, and outputs may hold pictures.
    is_third: bool,
    /// The model accepts pictures; other models get a note in their place.
    images: bool,
}

impl<'a> Conversation<'a> {
    fn item(&mut self, item: &'a Item) {
        match item {
            Item::Output(output) => self.outputs.push(output),
            Item::Message(said) if said.role != Role::Assistant => {
                self.answer();
                let images = self.images;
                let spoken = |content| spoken(content, images);
                let parts: Vec<Part<'a>> = said.content.iter().filter_map(spoken).collect();
                if !parts.is_empty() {
                    self.user().parts.extend(parts);
                }
            }
            Item::Message(said) => self.push_message(said),
            Item::Reasoning(thought) => self.replay(thought.native.as_ref()),
            Item::Opaque(native) => self.replay(Some(native)),
            Item::Call(call) => self.call(call),
        }
    }

    /// The content that the model's next part goes into.
    fn model(&mut self) -> &mut Content<'a> {
        if !self.outputs.is_empty() {
            self.answer();
        }
        self.last("model", |last| last.role == "model")
    }

    /// The content that the user's next part goes into; answers to calls stand alone.
    fn user(&mut self) -> &mut Content<'a> {
        self.last("user", |last| last.role == "user" && !last.answers)
    }

    fn last(
        &mut self,
        role: &'static str,
        fits: impl Fn(&Content<'a>) -> bool,
    ) -> &mut Content<'a> {
        let at = match self.list.last() {
            Some(last) if fits(last) => self.list.len() - 1,
            _ => {
                self.list.push(Content { role, parts: Vec::new(), answers: false, calls: false });
                self.list.len() - 1
            }
        };
        &mut self.list[at]
    }

    fn push_message(&mut self, said: &'a Message) {
        if let Some(parts) = own_parts(said.native.as_ref()) {
            self.model().parts.extend(parts.iter().map(Part::Native));
            return;
        }
        let words = said.content.iter().filter(|part| !matches!(part, Said::Image { .. }));
        let parts: Vec<Part<'a>> =
            words.filter_map(|content| spoken(content, self.images)).collect();
        if !parts.is_empty() {
            self.model().parts.extend(parts);
        }
    }

    fn replay(&mut self, native: Option<&'a Native>) {
        if let Some(parts) = own_parts(native) {
            self.model().parts.extend(parts.iter().map(Part::Native));
        }
    }

    fn call(&mut self, call: &'a ToolCall) {
        let is_third = self.is_third;
        let content = self.model();
        let is_first = !std::mem::replace(&mut content.calls, true);
        match own_parts(call.native.as_ref()) {
            Some(parts) if is_first && is_third => content.parts.extend(parts.iter().map(signed)),
            Some(parts) => content.parts.extend(parts.iter().map(Part::Native)),
            None => content.parts.push(Part::Call {
                function_call: Call { name: function_name(&call.name), args: arguments(call) },
                thought_signature: (is_first && is_third).then_some(NO_SIGNATURE),
            }),
        }
        self.open_calls.push(call);
    }

    /// Answers the calls of the last reply, each of them: one without an answer would make the API
    /// refuse the conversation from then on.
    fn answer(&mut self) {
        let calls = std::mem::take(&mut self.open_calls);
        let outputs = std::mem::take(&mut self.outputs);
        if calls.is_empty() && outputs.is_empty() {
            return;
        }
        let mut by_id: HashMap<&str, &'a CallOutput> =
            outputs.iter().map(|output| (output.id.as_str(), *output)).collect();
        let (mut parts, mut beside) = (Vec::new(), Vec::new());
        for call in calls {
            let output = by_id.remove(call.id.as_str());
            parts.push(self.response(call, output, &mut beside));
        }
        let has_calls = !parts.is_empty();
        parts.append(&mut beside);
        if has_calls {
            self.list.push(Content { role: "user", parts, answers: true, calls: false });
        }
        // Outputs of calls that are not in the history can only be told.
        for output in outputs.into_iter().filter(|output| by_id.contains_key(output.id.as_str())) {
            let told = format!("Output of `{}`:\n{}", output.name, Said::texts(&output.content));
            self.user().parts.push(text(told));
        }
    }

    fn response(
        &self,
        call: &'a ToolCall,
        output: Option<&'a CallOutput>,
        beside: &mut Vec<Part<'a>>,
    ) -> Part<'a> {
        // The answer must repeat the id and the name that the API itself gave.
        let made = own_parts(call.native.as_ref())
            .and_then(|parts| parts.iter().find_map(|part| field(part, FUNCTION_CALL)));
        let (mut response, mut inside) = (json!({"error": "The call was not run."}), Vec::new());
        if let Some(output) = output {
            // `error` means that the tool did not run. A command that ran and failed has a result:
            // its output.
            let key = if output.success || output.ran { "output" } else { "error" };
            let mut words = Vec::new();
            for content in &output.content {
                match content {
                    Said::Text { text } | Said::Refusal { text } => words.push(Cow::from(text)),
                    Said::Image { media_type, data } => {
                        match picture(media_type, data, self.images) {
                            // Beside an answer only a picture may stand.
                            Part::Text { text } => words.push(text),
                            shown if self.is_third && is_nested(&shown) => inside.push(shown),
                            shown => beside.push(shown),
                        }
                    }
                }
            }
            response = json!({key: words.join("\n")});
        }
        Part::Response {
            function_response: FunctionResponse {
                id: made.and_then(|made| text_field(made, ("id", "id"))),
                name: match made.and_then(|made| text_field(made, ("name", "name"))) {
                    Some(name) => Cow::Borrowed(name),
                    None => function_name(&call.name),
                },
                response,
                parts: inside,
            },
        }
    }
}

/// Pictures that Gemini 3 takes inside an output; others stand beside it.
const NESTED_PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp"];

fn is_nested(part: &Part<'_>) -> bool {
    matches!(part, Part::Picture { inline_data } if NESTED_PICTURES.contains(&inline_data.mime_type))
}

/// Pictures that the API takes at all (<https://ai.google.dev/gemini-api/docs/image-understanding>). It refuses
/// a request with any other.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// A picture, or a note in its place.
fn picture<'a>(media_type: &'a str, data: &'a str, images: bool) -> Part<'a> {
    if !images {
        return text(wire::picture_note(media_type, data));
    }
    let mime_type = wire::picture_type(media_type);
    if PICTURES.contains(&mime_type) {
        Part::Picture { inline_data: Blob { mime_type, data } }
    } else {
        text(wire::unknown_picture_note(media_type))
    }
}

/// The first call of a content, which the API wants signed. One that came without a signature, from a proxy
/// that drops it for example, gets the value that stands for one.
fn signed(part: &Value) -> Part<'_> {
    if field(part, FUNCTION_CALL).is_none() || text_field(part, SIGNATURE).is_some() {
        return Part::Native(part);
    }
    let mut part = part.clone();
    if let Some(fields) = part.as_object_mut() {
        fields.shift_remove(SIGNATURE.1);
        fields.insert(SIGNATURE.0.to_owned(), Value::from(NO_SIGNATURE));
    }
    Part::Completed(part)
}

/// The parts that came from this wire.
fn own_parts(native: Option<&Native>) -> Option<&Vec<Value>> {
    let native = native.filter(|native| native.wire == Wire::Gemini)?;
    native.value.get("parts").and_then(Value::as_array).filter(|parts| !parts.is_empty())
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part::Text { text: text.into() }
}

/// Empty text is refused.
fn spoken(content: &Said, images: bool) -> Option<Part<'_>> {
    match content {
        Said::Text { text: words } | Said::Refusal { text: words } => {
            (!words.is_empty()).then(|| text(words.as_str()))
        }
        Said::Image { media_type, data } => Some(picture(media_type, data, images)),
    }
}

fn arguments(call: &ToolCall) -> Value {
    match &call.payload {
        Payload::Freeform(input) => json!({"input": input}),
        Payload::Json(arguments) | Payload::Native(arguments) => object_of(arguments),
    }
}

/// A name that the API takes back, whatever the model called: a letter or `_`, then letters,
/// digits, `_`, `.`, `:` and `-`.
fn function_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.len() <= MAX_NAME && name.starts_with(begins) && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mut clean = String::new();
    if !name.starts_with(begins) {
        clean.push('_');
    }
    clean.extend(name.chars().map(|c| if fits(c) { c } else { '_' }).take(MAX_NAME - clean.len()));
    Cow::Owned(clean)
}

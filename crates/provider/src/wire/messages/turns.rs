//! The conversation as the `messages` array: turns of user and assistant by turns.
//!
//! Called by [`super::encode`]. The API wants every call answered in the very next user turn, the
//! results before anything else, and all results of one reply together; it takes no empty texts, no
//! ids or names with odd characters, and no assistant turn at the end unless it paused that turn
//! itself. A history that was made for another wire, or that lacks an output, is brought into that
//! shape; one of our own goes through as it is.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::encode::{CacheControl, tool_name};
use crate::Request;
use crate::item::{
    CallOutput, Content, Item, Message, Native, Payload, Reasoning, Role, ToolCall, Wire,
};
use crate::shape::FreshIds;
use crate::wire;

/// One element of `messages`.
#[derive(Serialize)]
pub(super) struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Typed(Part<'a>),
    Raw(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Input<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        toolset_name: Option<&'a Value>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<TextOrParts<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// An object, as the model wrote it where that can be.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Written(&'a RawValue),
    Built(Value),
}

/// The content of a result.
#[derive(Serialize)]
#[serde(untagged)]
enum TextOrParts<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Block<'a>>),
}

/// The output of a call for which the history has none.
const NO_OUTPUT: &str = "This call has no output: it was not run.";

/// Ends or begins a request where the API wants the user to speak.
const GO_ON: &str = "Go on.";

/// The turns of a history, with the marks up to which the API may cache.
pub(super) fn turns<'a>(request: &Request<'a>) -> Vec<Turn<'a>> {
    let mut builder = Builder { images: request.model.images, ..Builder::default() };
    for item in request.history {
        builder.item(item);
    }
    let mut turns = builder.finish();
    mark_for_cache(&mut turns);
    turns
}

/// Marks the ends of the last two user turns. The earlier one is where the request before this one
/// ended, so the cache is found however many blocks the model has added since (the API looks back
/// over twenty only); the later one is where the next request will find it.
fn mark_for_cache(turns: &mut [Turn<'_>]) {
    for turn in turns.iter_mut().rev().filter(|turn| turn.role == "user").take(2) {
        let last = turn.content.iter_mut().rev().find_map(|block| match block {
            Block::Typed(
                Part::Text { cache_control, .. }
                | Part::Image { cache_control, .. }
                | Part::ToolResult { cache_control, .. },
            ) => Some(cache_control),
            Block::Typed(Part::ToolUse { .. }) | Block::Raw(_) => None,
        });
        if let Some(mark) = last {
            *mark = Some(CacheControl::default());
        }
    }
}

#[derive(Default)]
struct Builder<'a> {
    turns: Vec<Turn<'a>>,
    /// The assistant turn that is being collected.
    said: Vec<Block<'a>>,
    /// Calls of the last assistant turn that have no output yet.
    pending: Vec<String>,
    /// The user turn that is being collected: results, and what comes after them.
    results: Vec<Block<'a>>,
    heard: Vec<Block<'a>>,
    /// The API paused the assistant turn itself.
    is_paused: bool,
    /// The model accepts pictures; other models get a note in their place.
    images: bool,
    /// The id that the API gets in place of one of the history.
    ids: HashMap<&'a str, String>,
    used: FreshIds,
}

impl<'a> Builder<'a> {
    fn item(&mut self, item: &'a Item) {
        match item {
            Item::Message(message) if message.role == Role::Assistant => self.spoken(message),
            Item::Message(message) => self.message(message),
            Item::Reasoning(thought) => self.thought(thought),
            Item::Call(call) => self.call(call),
            Item::Output(output) => self.output(output),
            Item::Opaque(native) => {
                if let Some(value) = ours(native) {
                    self.speak(Block::Raw(value));
                    self.is_paused = true;
                }
            }
        }
    }

    fn speak(&mut self, block: Block<'a>) {
        if !self.results.is_empty() || !self.heard.is_empty() {
            self.end_user();
        }
        // Anything after the paused block shows that the pause is over.
        self.is_paused &= !self.said.is_empty() && is_thinking(&block);
        self.said.push(block);
    }

    fn hear(&mut self, block: Block<'a>) {
        self.end_assistant();
        self.heard.push(block);
    }

    fn spoken(&mut self, message: &'a Message) {
        let kept = message.native.as_ref().and_then(ours);
        if kept.is_some_and(|kept| kept.get("stop_details").is_some()) {
            return;
        }
        match kept.and_then(|kept| kept.get("content")).and_then(Value::as_array) {
            Some(blocks) => {
                for block in blocks.iter().filter(|block| !is_blank(&block["text"])) {
                    self.speak(Block::Raw(block));
                }
            }
            None => {
                for part in &message.content {
                    if let Content::Text { text } | Content::Refusal { text } = part
                        && !text.trim().is_empty()
                    {
                        self.speak(text_block(text));
                    }
                }
            }
        }
        self.is_paused |= kept.is_some_and(|kept| kept["paused"] == true);
    }

    fn message(&mut self, message: &'a Message) {
        for part in &message.content {
            match part {
                Content::Text { text } | Content::Refusal { text } if text.trim().is_empty() => {}
                Content::Text { text } | Content::Refusal { text } => {
                    self.hear(match message.role {
                        // The API has no developer role, and the tag marks text that is not the
                        // user's.
                        Role::Developer => text_block(format!(
                            "<system-reminder>\n{}\n</system-reminder>",
                            text.trim()
                        )),
                        Role::User | Role::Assistant => text_block(text),
                    });
                }
                Content::Image { media_type, data } => {
                    self.hear(picture(media_type, data, self.images));
                }
            }
        }
    }

    /// Only what the API itself sent, and whole.
    fn thought(&mut self, thought: &'a Reasoning) {
        if let Some(value) = thought.native.as_ref().and_then(ours) {
            self.speak(Block::Raw(value));
        }
    }

    fn call(&mut self, call: &'a ToolCall) {
        let id = self.fresh_id(&call.id);
        let kept = call.native.as_ref().and_then(ours);
        self.speak(Block::Typed(Part::ToolUse {
            id: id.clone(),
            name: tool_name(&call.name),
            input: input(&call.payload),
            caller: kept.and_then(|kept| kept.get("caller")),
            toolset_name: kept.and_then(|kept| kept.get("toolset_name")),
        }));
        self.pending.push(id);
    }

    fn output(&mut self, output: &'a CallOutput) {
        self.end_assistant();
        let id = self.ids.get(output.id.as_str()).cloned().unwrap_or_default();
        let Some(position) = self.pending.iter().position(|pending| *pending == id) else {
            // The API refuses a result without its call, so it becomes text.
            let text = texts(&output.content);
            if !text.trim().is_empty() {
                self.heard.push(text_block(format!("Output of `{}`:\n{text}", output.name)));
            }
            return;
        };
        self.results.push(Block::Typed(Part::ToolResult {
            tool_use_id: self.pending.remove(position),
            content: result(output, self.images),
            is_error: !output.success,
            cache_control: None,
        }));
    }

    /// The id under which the API knows a call: letters, digits, `_` and `-`, and never used twice.
    fn fresh_id(&mut self, id: &'a str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut plain: String = id.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        if plain.is_empty() {
            plain.push_str("call");
        }
        let fresh = self.used.take(&plain);
        self.ids.insert(id, fresh.clone());
        fresh
    }

    fn end_assistant(&mut self) {
        // The API refuses an assistant turn whose last block is thinking.
        while self.said.last().is_some_and(is_thinking) {
            self.said.pop();
        }
        let said = std::mem::take(&mut self.said);
        self.push("assistant", said);
    }

    fn end_user(&mut self) {
        let mut content = std::mem::take(&mut self.results);
        // The API refuses a conversation in which a call has no result.
        content.extend(self.pending.drain(..).map(|id| {
            Block::Typed(Part::ToolResult {
                tool_use_id: id,
                content: Some(TextOrParts::Text(NO_OUTPUT.into())),
                is_error: true,
                cache_control: None,
            })
        }));
        content.append(&mut self.heard);
        self.push("user", content);
    }

    /// Turns alternate and begin with the user's.
    fn push(&mut self, role: &'static str, mut content: Vec<Block<'a>>) {
        if content.is_empty() {
            return;
        }
        match self.turns.last_mut() {
            Some(last) if last.role == role => {
                last.content.append(&mut content);
                return;
            }
            None if role == "assistant" => {
                self.turns.push(Turn { role: "user", content: vec![text_block(GO_ON)] });
            }
            Some(_) | None => {}
        }
        self.turns.push(Turn { role, content });
    }

    fn finish(mut self) -> Vec<Turn<'a>> {
        if self.is_paused && self.pending.is_empty() && !self.said.is_empty() {
            let said = std::mem::take(&mut self.said);
            self.push("assistant", said);
            return self.turns;
        }
        self.end_assistant();
        self.end_user();
        if self.turns.last().is_some_and(|turn| turn.role == "assistant") {
            self.push("user", vec![text_block(GO_ON)]);
        }
        self.turns
    }
}

fn ours(native: &Native) -> Option<&Value> {
    (native.wire == Wire::Messages).then_some(&native.value)
}

fn is_thinking(block: &Block<'_>) -> bool {
    match block {
        Block::Raw(value) => value["type"] == "thinking" || value["type"] == "redacted_thinking",
        Block::Typed(_) => false,
    }
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn text_block<'a>(text: impl Into<Cow<'a, str>>) -> Block<'a> {
    Block::Typed(Part::Text { text: text.into(), cache_control: None })
}

/// A picture, where the model accepts them, in one of the formats that the API takes.
fn picture<'a>(media_type: &'a str, data: &'a str, images: bool) -> Block<'a> {
    if !images {
        return text_block(wire::picture_note(media_type, data));
    }
    match wire::picture_type(media_type) {
        media_type @ ("image/jpeg" | "image/png" | "image/gif" | "image/webp") => {
            Block::Typed(Part::Image {
                source: Source { r#type: "base64", media_type, data },
                cache_control: None,
            })
        }
        media_type => text_block(wire::unknown_picture_note(media_type)),
    }
}

/// The content of a result. An error has text only: the API refuses pictures in it.
fn result(output: &CallOutput, images: bool) -> Option<TextOrParts<'_>> {
    let has_pictures = output.content.iter().any(|part| matches!(part, Content::Image { .. }));
    if has_pictures && output.success {
        let parts = output.content.iter().filter_map(|part| match part {
            Content::Text { text } | Content::Refusal { text } => {
                (!text.trim().is_empty()).then(|| text_block(text))
            }
            Content::Image { media_type, data } => Some(picture(media_type, data, images)),
        });
        return Some(TextOrParts::Parts(parts.collect()));
    }
    let text = texts(&output.content);
    match (output.success, text.trim().is_empty()) {
        (true, true) => None,
        (false, true) => Some(TextOrParts::Text("The tool failed without a message.".into())),
        (_, false) => Some(TextOrParts::Text(text)),
    }
}

fn texts(content: &[Content]) -> Cow<'_, str> {
    match content {
        [Content::Text { text }] => Cow::Borrowed(text),
        parts => Cow::Owned(Content::texts(parts)),
    }
}

/// The API takes objects only. Any other value is sent back under one key, so that the model sees what
/// it wrote.
fn input(payload: &Payload) -> Input<'_> {
    let text = match payload {
        Payload::Freeform(text) => return Input::Built(json!({"input": text})),
        Payload::Json(text) | Payload::Native(text) => text.trim(),
    };
    if text.is_empty() {
        return Input::Built(json!({}));
    }
    // `RawValue` checks less than the API does: a number or an escape that only looks valid would
    // be refused there.
    let is_object = serde_json::from_str::<Map<String, Value>>(text).is_ok();
    match serde_json::from_str(text) {
        Ok(written) if is_object => Input::Written(written),
        Ok(_) | Err(_) => Input::Built(json!({"INVALID_JSON": text})),
    }
}

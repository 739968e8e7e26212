//! A request as the JSON body of `POST /v1/chat/completions`.
//!
//! `messages` is the last field, so a request is the previous one with bytes added before the
//! closing brackets. One reply of the model is one assistant message, with the outputs of its calls
//! right behind it. Toward other servers than OpenAI's, user and assistant messages alternate.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::reasoning::PLAIN_THOUGHTS;
use crate::catalogue::OutputLimit;
use crate::item::{
    CallOutput, Content, Item, Message, Native, Payload, Reasoning, Role, ToolCall, Wire,
};
use crate::output::is_plain;
use crate::wire;
use crate::{Request, ToolChoice, ToolDeclaration, ToolForm, shape};
use patchwright_base::lenient_json;

/// An assistant message between the outputs of tools and the next user message, for templates that require
/// one.
const READ: &str = "I have read the output.";

/// Longest name of a tool that the API takes.
const MAX_NAME: usize = 64;

/// The body; the same request gives the same bytes.
pub fn encode(request: &Request<'_>) -> Vec<u8> {
    let model = request.model;
    let is_openai = model.provider == "openai";
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model.slug));
    body.insert("stream".to_owned(), json!(true));
    // Without it the API sends no usage in streams; some servers refuse the field.
    if model.stream_usage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    let limit = match model.output_limit {
        OutputLimit::None => None,
        OutputLimit::MaxTokens => Some("max_tokens"),
        OutputLimit::MaxCompletionTokens => Some("max_completion_tokens"),
    };
    if let Some(limit) = limit {
        body.insert(limit.to_owned(), json!(model.max_output));
    }
    let tools: Vec<Value> =
        request.tools.iter().filter_map(|tool| declaration(tool, is_openai)).collect();
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
        if let Some(choice) = shape::tool_choice(request) {
            body.insert("tool_choice".to_owned(), self::choice(request, choice, is_openai));
        }
        // Compatible servers may not know the field. It is sent to them only when it forbids
        // parallel calls.
        let in_parallel = shape::calls_in_parallel(request);
        if is_openai || !in_parallel {
            body.insert("parallel_tool_calls".to_owned(), json!(in_parallel));
        }
    }
    if let Some(output) = request.output {
        let (name, strict) = (output.name, is_plain(output.schema));
        let schema = json!({"name": name, "schema": output.schema, "strict": strict});
        let format = json!({"type": "json_schema", "json_schema": schema});
        body.insert("response_format".to_owned(), format);
    }
    if let Some(effort) = request.effort.filter(|_| !model.efforts.is_empty()) {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
    // `store`, `verbosity` and the cache key are OpenAI's own; other servers may answer 400.
    if is_openai {
        body.insert("store".to_owned(), json!(false));
        if let Some(verbosity) = &model.verbosity {
            body.insert("verbosity".to_owned(), json!(verbosity));
        }
        if !request.cache_key.is_empty() {
            body.insert("prompt_cache_key".to_owned(), json!(request.cache_key));
        }
    }
    let mut messages =
        Messages { list: Vec::new(), pictures: Vec::new(), is_openai, images: model.images };
    if !request.instructions.is_empty() {
        messages.list.push(json!({"role": "system", "content": request.instructions}));
    }
    for item in request.history {
        messages.item(item);
    }
    messages.finish_reply();
    messages.show_pictures();
    body.insert("messages".to_owned(), Value::Array(messages.list));
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The choice of tools: a word, or the tool by its kind, which is a function everywhere but at `OpenAI`.
fn choice(request: &Request<'_>, choice: ToolChoice<'_>, is_openai: bool) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => match shape::form_of(request, name) {
            Some(ToolForm::Freeform { .. }) if is_openai => {
                json!({"type": "custom", "custom": {"name": name}})
            }
            Some(ToolForm::Native { .. }) => json!("required"),
            _ => json!({"type": "function", "function": {"name": name}}),
        },
    }
}

fn declaration(tool: &ToolDeclaration, is_openai: bool) -> Option<Value> {
    let (name, description) = (&tool.name, &tool.description);
    match &tool.form {
        ToolForm::Function { schema, strict } => {
            let mut function =
                json!({"name": name, "description": description, "parameters": schema});
            // Compatible servers may refuse a field that they do not know, so `strict` is sent only
            // when it is on.
            if *strict {
                function["strict"] = json!(true);
            }
            Some(json!({"type": "function", "function": function}))
        }
        ToolForm::Freeform { syntax, definition } if is_openai => {
            let grammar = json!({"syntax": syntax, "definition": definition});
            let format = json!({"type": "grammar", "grammar": grammar});
            let custom = json!({"name": name, "description": description, "format": format});
            Some(json!({"type": "custom", "custom": custom}))
        }
        ToolForm::Freeform { .. } => {
            let parameters = shape::free_text_schema();
            let function =
                json!({"name": name, "description": description, "parameters": parameters});
            Some(json!({"type": "function", "function": function}))
        }
        // Provider-defined tools exist on other wires only.
        ToolForm::Native { .. } => None,
    }
}

struct Messages {
    list: Vec<Value>,
    /// Pictures from tool outputs: a tool message holds text only, so they follow in a message of
    /// their own.
    pictures: Vec<Value>,
    is_openai: bool,
    /// The model accepts pictures; other models get a note in their place.
    images: bool,
}

impl Messages {
    fn item(&mut self, item: &Item) {
        // Pictures follow the last output of a reply: a user message between two outputs would
        // separate an output from its call.
        if !matches!(item, Item::Output(_)) {
            self.show_pictures();
        }
        if let Item::Output(_) | Item::Message(Message { role: Role::Developer | Role::User, .. }) =
            item
        {
            self.finish_reply();
        }
        match item {
            Item::Message(said) => self.message(said),
            Item::Reasoning(thought) => self.reasoning(thought),
            Item::Call(call) => self.call(call),
            Item::Output(output) => self.output(output),
            Item::Opaque(_) => {}
        }
    }

    fn message(&mut self, said: &Message) {
        let role = match said.role {
            Role::Assistant => return self.say(&said.content),
            Role::Developer if self.is_openai => "developer",
            // Many chat templates take a system message only at the beginning.
            Role::Developer | Role::User => "user",
        };
        let has_pictures = said.content.iter().any(|it| matches!(it, Content::Image { .. }));
        let content = if has_pictures && self.images {
            Value::Array(said.content.iter().map(part).collect())
        } else {
            Value::String(words_of(&said.content))
        };
        self.tell(role, content);
    }

    /// Adds a message for the model. Many chat templates (Mistral's, Gemma's) and Mistral's API refuse two
    /// user messages in a row, and a user message directly after a tool output. So neighbours are joined,
    /// and an assistant message is put between. OpenAI's own models get the messages as they are.
    fn tell(&mut self, role: &str, content: Value) {
        if !self.is_openai {
            match self.list.last_mut() {
                Some(last) if last["role"] == "user" => return join(&mut last["content"], content),
                Some(last) if last["role"] == "tool" => {
                    self.list.push(json!({"role": "assistant", "content": READ}));
                }
                _ => {}
            }
        }
        self.list.push(json!({"role": role, "content": content}));
    }

    /// The assistant message that the current reply is being collected in.
    fn assistant(&mut self) -> Option<&mut Map<String, Value>> {
        if self.list.last().is_none_or(|last| last["role"] != "assistant") {
            self.list.push(json!({"role": "assistant", "content": null}));
        }
        self.list.last_mut().and_then(Value::as_object_mut)
    }

    fn say(&mut self, content: &[Content]) {
        let text = Content::texts(content);
        // Some servers refuse a message without words.
        if text.is_empty() {
            return;
        }
        let Some(message) = self.assistant() else { return };
        let whole = match message.get("content").and_then(Value::as_str) {
            Some(before) => format!("{before}\n{text}"),
            None => text,
        };
        message.insert("content".to_owned(), Value::String(whole));
    }

    /// A reply is complete. Plain thoughts belong to the calls that they led to: servers that want
    /// them back want them there (`DeepSeek` refuses a call without them), and some refuse them
    /// elsewhere. `reasoning_details` and `thinking_blocks` always go back.
    fn finish_reply(&mut self) {
        if let Some(Value::Object(message)) = self.list.last_mut()
            && message.get("role").and_then(Value::as_str) == Some("assistant")
            && !message.contains_key("tool_calls")
        {
            for field in PLAIN_THOUGHTS {
                message.shift_remove(field);
            }
            // A thought that nothing followed is no message.
            if message.get("content").is_none_or(Value::is_null) {
                self.list.pop();
            }
        }
    }

    /// Only as the server sent it: some need it back, others refuse it.
    fn reasoning(&mut self, thought: &Reasoning) {
        let Some(fields) = thought.native.as_ref().and_then(ours).and_then(Value::as_object) else {
            return;
        };
        if let Some(message) = self.assistant() {
            for (key, value) in fields {
                message.insert(key.clone(), value.clone());
            }
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let name = shape::tool_name(&call.name, MAX_NAME);
        let mut element = match &call.payload {
            Payload::Freeform(input) if self.is_openai => {
                json!({"id": call.id, "type": "custom", "custom": {"name": name, "input": input}})
            }
            Payload::Freeform(input) => {
                let arguments = json!({"input": input}).to_string();
                json!({"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}})
            }
            Payload::Json(arguments) | Payload::Native(arguments) => {
                let arguments = object(arguments);
                json!({"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}})
            }
        };
        // Signatures of the thought behind a call: Gemini's endpoint, and LiteLLM in front of it.
        for key in ["extra_content", "provider_specific_fields"] {
            if let Some(value) = call.native.as_ref().and_then(ours).and_then(|it| it.get(key)) {
                element[key] = value.clone();
            }
        }
        let Some(message) = self.assistant() else { return };
        let calls = message.entry("tool_calls").or_insert_with(|| json!([]));
        if let Some(calls) = calls.as_array_mut() {
            calls.push(element);
        }
    }

    fn output(&mut self, output: &CallOutput) {
        let text =
            if self.images { Content::texts(&output.content) } else { words_of(&output.content) };
        self.list.push(json!({"role": "tool", "tool_call_id": output.id, "content": text}));
        if !self.images {
            return;
        }
        let pictures = output.content.iter().filter(|it| matches!(it, Content::Image { .. }));
        self.pictures.extend(pictures.map(part));
    }

    fn show_pictures(&mut self) {
        if self.pictures.is_empty() {
            return;
        }
        let mut parts =
            vec![json!({"type": "text", "text": "The pictures of the tool outputs above:"})];
        parts.append(&mut self.pictures);
        self.tell("user", Value::Array(parts));
    }
}

/// Arguments as they were written, where they are one JSON object. Servers such as vLLM and llama.cpp read them to fill
/// their chat template and answer 400 or 500 to anything else, from then on, for the conversation keeps it. What is no
/// object goes back as one that shows what was written.
fn object(arguments: &str) -> Cow<'_, str> {
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    if is_object(arguments) {
        return Cow::Borrowed(arguments);
    }
    let written = arguments.trim();
    match lenient_json::read(written) {
        Ok(Value::Object(fields)) => Cow::Owned(Value::Object(fields).to_string()),
        Ok(Value::String(inner)) if is_object(&inner) => Cow::Owned(inner),
        _ if written.is_empty() => Cow::Borrowed("{}"),
        // Free text is what the only argument of some tools is.
        _ if written.starts_with(['{', '[', '"']) => {
            Cow::Owned(json!({"invalid_json": written}).to_string())
        }
        _ => Cow::Owned(json!({"input": written}).to_string()),
    }
}

/// Adds to a content, at its end: what was sent before stays as it was.
fn join(content: &mut Value, more: Value) {
    if let (Value::String(before), Value::String(more)) = (&mut *content, &more) {
        before.push_str("\n\n");
        before.push_str(more);
        return;
    }
    let parts = |content: Value| match content {
        Value::Array(parts) => parts,
        content => vec![json!({"type": "text", "text": content})],
    };
    let mut all = parts(content.take());
    all.extend(parts(more));
    *content = Value::Array(all);
}

fn ours(native: &Native) -> Option<&Value> {
    (native.wire == Wire::Chat).then_some(&native.value)
}

fn part(content: &Content) -> Value {
    match content {
        Content::Text { text } | Content::Refusal { text } => json!({"type": "text", "text": text}),
        Content::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            json!({"type": "image_url", "image_url": {"url": url}})
        }
    }
}

/// The texts of a content list, with a note in place of each picture.
fn words_of(content: &[Content]) -> String {
    let words = content.iter().map(|part| match part {
        Content::Text { text } | Content::Refusal { text } => text.clone(),
        Content::Image { media_type, data } => wire::picture_note(media_type, data),
    });
    words.collect::<Vec<_>>().join("\n")
}

//! A request as the JSON body of `POST /v1/messages`.
//!
//! `messages` is the last field and history is append-only, so a request is the previous one with
//! content added, and with the two marks for the prompt cache moved on. The mark on the system
//! prompt stays: tools and system prompt are the beginning of what is cached.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::turns::{Turn, turns};
use crate::catalogue::{Model, Thinking};
use crate::item::Item;
use crate::{Request, ToolChoice, ToolDeclaration, ToolForm, shape};

/// Output tokens asked of a model that is not in the catalogue: more is refused where the model
/// has less.
const ASSUMED_OUTPUT: u64 = 32_000;

/// The least that the API takes as a thinking budget.
const LEAST_BUDGET: u64 = 1024;

/// The body; the same request gives the same bytes.
pub fn encode(request: &Request<'_>) -> Vec<u8> {
    let model = request.model;
    let max_tokens = max_tokens(model);
    let thinking = ThinkingField::new(model, request.effort, max_tokens);
    let effort = request.effort.filter(|_| model.thinking == Thinking::Adaptive);
    let mut tools: Vec<Tool<'_>> = request.tools.iter().filter_map(Tool::new).collect();
    let are_declared = !tools.is_empty();
    if !are_declared {
        // The API refuses a history with calls in a request that declares no tools.
        tools = called(request.history);
    }
    let tool_choice = match (are_declared, tools.is_empty()) {
        (_, true) => None,
        // These declarations only describe old calls; the model must not make new ones.
        (false, false) => Some(Choice::None),
        (true, false) => {
            shape::tool_choice(request).map(|it| Choice::new(request, it, thinking.is_some()))
        }
    };
    if let (true, Some(Tool::Function { cache_control, .. })) =
        (request.instructions.trim().is_empty(), tools.last_mut())
    {
        // Without a system prompt, the last tool ends the part that never changes.
        *cache_control = Some(CacheControl::default());
    }
    let body = Body {
        model: &model.slug,
        max_tokens,
        thinking,
        output_config: OutputConfig::new(request, effort),
        tools,
        tool_choice,
        system: system(request.instructions),
        stream: true,
        messages: turns(request),
    };
    // Every part serialises: strings, numbers, and JSON values.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The top level, in the order in which it is sent.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemBlock<'a>>,
    stream: bool,
    messages: Vec<Turn<'a>>,
}

/// A point up to which the API may cache the prompt, for five minutes since its last use.
#[derive(Serialize)]
pub(super) struct CacheControl {
    r#type: &'static str,
}

impl Default for CacheControl {
    fn default() -> CacheControl {
        CacheControl { r#type: "ephemeral" }
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

/// JSON that the reply has to be.
#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

impl<'a> OutputConfig<'a> {
    fn new(request: &Request<'a>, effort: Option<&'a str>) -> Option<OutputConfig<'a>> {
        let format = request.output;
        let format = format.map(|output| Format { r#type: "json_schema", schema: output.schema });
        (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format })
    }
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

fn system(instructions: &str) -> Vec<SystemBlock<'_>> {
    if instructions.trim().is_empty() {
        return vec![];
    }
    vec![SystemBlock { r#type: "text", text: instructions, cache_control: CacheControl::default() }]
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ThinkingField {
    /// Summarised: newer models keep their thinking to themselves unless asked, and people read it.
    Adaptive {
        display: &'static str,
    },
    Enabled {
        budget_tokens: u64,
    },
}

impl ThinkingField {
    fn new(model: &Model, effort: Option<&str>, max_tokens: u64) -> Option<ThinkingField> {
        match model.thinking {
            Thinking::Level => None,
            Thinking::Adaptive => Some(ThinkingField::Adaptive { display: "summarized" }),
            Thinking::Budget => budget(effort, max_tokens)
                .map(|budget_tokens| ThinkingField::Enabled { budget_tokens }),
        }
    }
}

fn max_tokens(model: &Model) -> u64 {
    let most = if model.assumed { ASSUMED_OUTPUT } else { u64::MAX };
    model.max_output.clamp(1, most)
}

/// Tokens for thinking, out of `max_tokens`; at least a quarter of those is left for the answer.
fn budget(effort: Option<&str>, max_tokens: u64) -> Option<u64> {
    let wished = match effort {
        Some("none") => return None,
        Some("minimal") => LEAST_BUDGET,
        Some("low") => 4096,
        None | Some("medium") => 12_288,
        Some("high") => 24_576,
        Some(_) => 49_152,
    };
    // The API counts thinking towards `max_tokens`.
    let budget = wished.min(max_tokens / 4 * 3);
    (budget >= LEAST_BUDGET).then_some(budget)
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice<'a> {
    Auto {
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    Any {
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    Tool {
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    None,
}

impl<'a> Choice<'a> {
    fn new(request: &Request<'a>, choice: ToolChoice<'a>, thinks: bool) -> Choice<'a> {
        let disable_parallel_tool_use = !request.model.parallel_calls;
        match choice {
            ToolChoice::None => Choice::None,
            // A model that thinks cannot be made to call: the API refuses the two together.
            ToolChoice::Required if !thinks => Choice::Any { disable_parallel_tool_use },
            ToolChoice::Named(name) if !thinks => {
                Choice::Tool { name: tool_name(name), disable_parallel_tool_use }
            }
            ToolChoice::Required | ToolChoice::Named(_) | ToolChoice::Auto => {
                Choice::Auto { disable_parallel_tool_use }
            }
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Function {
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        input_schema: Cow<'a, Value>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        strict: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A tool that the API defines, by its type and name (`bash_20250124`, `bash`).
    Native(&'a Value),
}

impl<'a> Tool<'a> {
    fn new(tool: &'a ToolDeclaration) -> Option<Tool<'a>> {
        let (input_schema, strict) = match &tool.form {
            ToolForm::Function { schema, strict } => (schema_of(schema), *strict),
            ToolForm::Freeform { .. } => (Cow::Owned(shape::free_text_schema()), false),
            // The tools of other companies have no name, and no meaning here.
            ToolForm::Native { value } => {
                return value
                    .get("name")
                    .is_some_and(Value::is_string)
                    .then_some(Tool::Native(value));
            }
        };
        Some(Tool::Function {
            name: tool_name(&tool.name),
            description: &tool.description,
            input_schema,
            strict,
            cache_control: None,
        })
    }
}

/// Calls may only be sent back with tools: those of a history, when none are declared.
fn called(history: &[Item]) -> Vec<Tool<'_>> {
    let names: BTreeSet<Cow<'_, str>> = history
        .iter()
        .filter_map(|item| match item {
            Item::Call(call) => Some(tool_name(&call.name)),
            _ => None,
        })
        .collect();
    let tool = |name| Tool::Function {
        name,
        description: "",
        input_schema: Cow::Owned(json!({"type": "object"})),
        strict: false,
        cache_control: None,
    };
    names.into_iter().map(tool).collect()
}

/// The API wants an object at the root, and no alternatives there: those become one object that
/// may have the properties of each.
fn schema_of(schema: &Value) -> Cow<'_, Value> {
    const ALTERNATIVES: &[&str] = &["oneOf", "anyOf", "allOf"];
    let has = |key: &&str| schema.get(*key).is_some();
    if schema["type"] == "object" && !ALTERNATIVES.iter().any(has) {
        return Cow::Borrowed(schema);
    }
    let mut root = schema.as_object().cloned().unwrap_or_default();
    let variants: Vec<Value> =
        ALTERNATIVES.iter().filter_map(|key| root.shift_remove(*key)).collect();
    let mut properties = match root.shift_remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    for variant in variants.iter().filter_map(Value::as_array).flatten() {
        for (name, property) in
            variant.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            properties.entry(name.clone()).or_insert_with(|| property.clone());
        }
    }
    root.insert("type".to_owned(), json!("object"));
    root.insert("properties".to_owned(), Value::Object(properties));
    Cow::Owned(Value::Object(root))
}

/// A tool name as the API takes it back.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    shape::tool_name(name, 128)
}

//! A request as the JSON body of `:streamGenerateContent`. The model's name is in the address.
//!
//! `contents` is the last field and history is append-only, so a request is the previous one with
//! bytes added before the closing brackets: implicit caching hits. Tools are declared by
//! `parametersJsonSchema`, which takes JSON Schema as it is (`parameters` knows a part of `OpenAPI`
//! only) and which the Gemini API, Vertex AI and `LiteLLM` all read.

use serde::Serialize;
use serde_json::{Value, json};

use super::contents::{Content, contents};
use crate::catalogue::{Model, Thinking};
use crate::{Request, ToolChoice, ToolDeclaration, ToolForm, shape};

/// The body; the same request gives the same bytes.
pub fn encode(request: &Request<'_>) -> Vec<u8> {
    let model = request.model;
    let functions: Vec<Function<'_>> = request.tools.iter().filter_map(Function::new).collect();
    let mut tools = Vec::new();
    if !functions.is_empty() {
        tools.push(Tool::Functions { function_declarations: functions });
    }
    tools.extend(request.tools.iter().filter_map(hosted).map(Tool::Hosted));
    if request.output.is_some() {
        // Models before Gemini 3 refuse a form for the reply beside tools.
        tools.clear();
    }
    let choice = match shape::tool_choice(request) {
        // What the API does by itself.
        Some(ToolChoice::Auto) | None => None,
        Some(ToolChoice::None) => Some(json!({"mode": "NONE"})),
        Some(ToolChoice::Required) => Some(json!({"mode": "ANY"})),
        Some(ToolChoice::Named(name)) => {
            Some(json!({"mode": "ANY", "allowedFunctionNames": [name]}))
        }
    };
    let body = Body {
        system_instruction: (!request.instructions.is_empty())
            .then(|| json!({"parts": [{"text": request.instructions}]})),
        tool_config: choice
            .filter(|_| !tools.is_empty())
            .map(|choice| json!({"functionCallingConfig": choice})),
        tools,
        generation_config: GenerationConfig {
            // The limit of a model that is not in the catalogue is the endpoint's to say.
            max_output_tokens: (!model.assumed).then_some(model.max_output),
            thinking_config: thinking(model, request.effort),
            response_mime_type: request.output.map(|_| "application/json"),
            response_json_schema: request.output.map(|output| output.schema),
        },
        contents: contents(request),
    };
    // Every part serialises: strings, numbers, and JSON values.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The top level, in the order in which it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        self.max_output_tokens.is_none()
            && self.thinking_config.is_none()
            && self.response_json_schema.is_none()
    }
}

/// A level (Gemini 3 and later) or a budget (Gemini 2.5); both together are an error.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    /// Asking for summaries while thinking is off is an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
}

fn thinking(model: &Model, effort: Option<&str>) -> Option<ThinkingConfig> {
    match model.thinking {
        Thinking::Level | Thinking::Adaptive => {
            let thinks = !model.efforts.is_empty() || effort.is_some();
            thinks.then(|| ThinkingConfig {
                thinking_level: effort.map(str::to_ascii_uppercase),
                thinking_budget: None,
                include_thoughts: true,
            })
        }
        Thinking::Budget => {
            let budget = budget(effort);
            Some(ThinkingConfig {
                thinking_level: None,
                thinking_budget: Some(budget),
                include_thoughts: budget != 0,
            })
        }
    }
}

/// Tokens for a level, by the table in Google's notes on its OpenAI-compatible endpoint; -1 lets the
/// model decide.
fn budget(effort: Option<&str>) -> i64 {
    match effort {
        None => -1,
        Some("none") => 0,
        Some("minimal" | "low") => 1024,
        Some("medium") => 8192,
        Some(_) => 24_576,
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    #[serde(rename_all = "camelCase")]
    Functions {
        function_declarations: Vec<Function<'a>>,
    },
    Hosted(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<Schema<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Schema<'a> {
    Given(&'a Value),
    Built(Value),
}

impl<'a> Function<'a> {
    fn new(tool: &'a ToolDeclaration) -> Option<Function<'a>> {
        let schema = match &tool.form {
            // An object without properties is refused by some versions; none at all means the same.
            ToolForm::Function { schema, .. } => {
                has_properties(schema).then_some(Schema::Given(schema))
            }
            ToolForm::Freeform { .. } => Some(Schema::Built(shape::free_text_schema())),
            ToolForm::Native { .. } => return None,
        };
        let (name, description) = (tool.name.as_str(), tool.description.as_str());
        Some(Function { name, description, parameters_json_schema: schema })
    }
}

fn has_properties(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.is_some_and(|fields| !fields.is_empty())
        || schema.get("type") != Some(&json!("object"))
}

/// A tool of Google's own (`{"googleSearch": {}}`). Those of other providers have a `type`.
fn hosted(tool: &ToolDeclaration) -> Option<&Value> {
    match &tool.form {
        ToolForm::Native { value } if value.is_object() && value.get("type").is_none() => {
            Some(value)
        }
        _ => None,
    }
}

//! A request as the JSON body of `POST /v1/responses`.
//!
//! `input` is the last field and history is append-only, so a request is the previous one with
//! bytes added before the closing brackets: prompt caches hit. Items that came from this wire go
//! back with the ids and the status that they came with (the API description requires them on
//! reasoning and assistant messages); items from elsewhere go without.

use serde::Serialize;
use serde_json::{Value, json};

use super::input::{Context, Entry};
use crate::catalogue::ToolMode;
use crate::output::is_plain;
use crate::{Previous, Request, ToolChoice, ToolDeclaration, ToolForm, shape};

/// The body; the same request gives the same bytes.
pub fn encode(request: &Request<'_>) -> Vec<u8> {
    let body = body(request, request.previous.filter(|_| request.model.stateful), Some(true));
    // Every part serialises: strings, numbers, and JSON values.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The request for a connection on which the server keeps this reply, whether replies are stored or not. What belongs
/// to the transport is left out.
pub(crate) fn encode_onto(request: &Request<'_>, kept: Option<&str>) -> Vec<u8> {
    let is_kept = |id: &str| request.model.stateful || kept == Some(id);
    let body = body(request, request.previous.filter(|it| is_kept(it.id)), None);
    serde_json::to_vec(&body).unwrap_or_default()
}

fn body<'a>(
    request: &Request<'a>,
    previous: Option<Previous<'a>>,
    stream: Option<bool>,
) -> Body<'a> {
    let model = request.model;
    let has_tools = !request.tools.is_empty();
    let reasons = !model.efforts.is_empty();
    // A history that is shorter than what the provider stored was compacted; then everything is
    // sent.
    let previous = previous.filter(|it| it.known <= request.history.len());
    let known = previous.map_or(0, |it| it.known);
    let new = request.history.get(known..).unwrap_or_default();
    let context = Context::new(request);
    let mut input = Vec::with_capacity(new.len() + 1);
    let in_input = model.tools_in_input && model.is_makers_responses() && has_tools;
    if in_input && known == 0 {
        input.push(Entry::Built(declared_in_input(request.tools)));
    }
    for item in new {
        context.push(item, &mut input);
    }
    Body {
        model: &model.slug,
        instructions: request.instructions,
        tools: request.tools.iter().filter(|_| !in_input).map(Tool::new).collect(),
        tool_choice: shape::tool_choice(request)
            .filter(|_| has_tools)
            .map(|it| choice(request, it)),
        parallel_tool_calls: has_tools
            // A script already calls tools in parallel, and only one cell can run at a time.
            .then_some(shape::calls_in_parallel(request) && model.tool_mode == ToolMode::Direct),
        reasoning: reasons.then(|| ReasoningOptions::for_request(request)).flatten(),
        text: Text::for_request(request),
        store: model.stateful,
        stream,
        include: include(request, reasons),
        prompt_cache_key: request.cache_key,
        previous_response_id: previous.map(|previous| previous.id),
        input,
    }
}

/// Fields that the server sends only when requested, and that later requests need: the server
/// forgets it with the reply.
fn include(request: &Request<'_>, reasons: bool) -> Vec<&'static str> {
    let declared = |kind: &str| {
        request.tools.iter().any(|tool| match &tool.form {
            ToolForm::Native { value } => value.get("type").and_then(Value::as_str) == Some(kind),
            ToolForm::Function { .. } | ToolForm::Freeform { .. } => false,
        })
    };
    let wishes = [
        (reasons, "reasoning.encrypted_content"),
        (declared("file_search"), "file_search_call.results"),
        (declared("code_interpreter"), "code_interpreter_call.outputs"),
    ];
    wishes.into_iter().filter_map(|(wanted, name)| wanted.then_some(name)).collect()
}

/// The item that declares tools: functions and free text in the namespace that OpenAI's own client uses,
/// and beside it what the provider runs itself. Shape: `AdditionalTools` and `NamespaceToolParam` of the
/// published API description.
fn declared_in_input(tools: &[ToolDeclaration]) -> Value {
    let is_hosted = |tool: &&ToolDeclaration| matches!(tool.form, ToolForm::Native { .. });
    let (hosted, own): (Vec<_>, Vec<_>) = tools.iter().partition(is_hosted);
    let encoded = |tools: Vec<&ToolDeclaration>| -> Vec<Value> {
        tools.into_iter().map(|tool| json!(Tool::new(tool))).collect()
    };
    let own = encoded(own);
    let mut list = Vec::with_capacity(hosted.len() + 1);
    if !own.is_empty() {
        list.push(json!({
            "type": "namespace", "name": "functions", "description": "", "tools": own,
        }));
    }
    list.extend(encoded(hosted));
    json!({"type": "additional_tools", "role": "developer", "tools": list})
}

/// The top level, in the order in which it is sent.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningOptions<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_response_id: Option<&'a str>,
    input: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct ReasoningOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
}

impl<'a> ReasoningOptions<'a> {
    /// The options for reasoning; `None` when all are the server's defaults.
    fn for_request(request: &Request<'a>) -> Option<ReasoningOptions<'a>> {
        let model = request.model;
        let options = ReasoningOptions {
            effort: request.effort,
            summary: model.reasoning_summary.as_deref(),
            context: model.reasoning_context.as_deref().filter(|_| model.is_makers_responses()),
        };
        let says = options.effort.or(options.summary).or(options.context);
        says.is_some().then_some(options)
    }
}

/// The choice of tools: a word, or the tool by its kind.
fn choice(request: &Request<'_>, choice: ToolChoice<'_>) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => match shape::form_of(request, name) {
            Some(ToolForm::Freeform { .. }) => json!({"type": "custom", "name": name}),
            // One of the provider's own is named by its type.
            Some(ToolForm::Native { value }) => json!({"type": value.get("type")}),
            Some(ToolForm::Function { .. }) | None => json!({"type": "function", "name": name}),
        },
    }
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

impl<'a> Text<'a> {
    /// The options for text; `None` when all are the server's defaults.
    fn for_request(request: &Request<'a>) -> Option<Text<'a>> {
        let format = request.output.map(|output| Format {
            r#type: "json_schema",
            name: output.name,
            schema: output.schema,
            strict: is_plain(output.schema),
        });
        let verbosity = request.model.verbosity.as_deref();
        (verbosity.is_some() || format.is_some()).then_some(Text { verbosity, format })
    }
}

/// JSON that the reply has to be.
#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Function {
        r#type: &'static str,
        name: &'a str,
        description: &'a str,
        parameters: &'a Value,
        strict: bool,
    },
    Custom {
        r#type: &'static str,
        name: &'a str,
        description: &'a str,
        format: Grammar<'a>,
    },
    Native(&'a Value),
}

#[derive(Serialize)]
struct Grammar<'a> {
    r#type: &'static str,
    syntax: &'a str,
    definition: &'a str,
}

impl<'a> Tool<'a> {
    fn new(tool: &'a ToolDeclaration) -> Tool<'a> {
        let (name, description) = (tool.name.as_str(), tool.description.as_str());
        match &tool.form {
            ToolForm::Function { schema, strict } => Tool::Function {
                r#type: "function",
                name,
                description,
                parameters: schema,
                strict: *strict,
            },
            ToolForm::Freeform { syntax, definition } => Tool::Custom {
                r#type: "custom",
                name,
                description,
                format: Grammar { r#type: "grammar", syntax, definition },
            },
            ToolForm::Native { value } => Tool::Native(value),
        }
    }
}

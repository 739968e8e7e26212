//! The API's rules for requests, as OpenAI's description and its documented refusals state them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Recorded;

/// Checks each request, alone and against the ones before.
#[derive(Default)]
pub(super) struct Validator {
    violations: Vec<String>,
    may_rewrite: bool,
    /// The last body by cache key.
    last: BTreeMap<String, Value>,
    /// Items that the server has sent, by id.
    issued: BTreeMap<String, Value>,
}

const TOP_LEVEL: &[&str] = &[
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Type, required fields, further fields.
const ITEMS: &[(&str, &[&str], &[&str])] = &[
    ("message", &["role", "content"], &["id", "status", "phase"]),
    ("reasoning", &["id", "summary"], &["encrypted_content", "content", "status"]),
    ("function_call", &["call_id", "name", "arguments"], &["id", "status", "namespace"]),
    ("function_call_output", &["call_id", "output"], &["id", "status"]),
    ("custom_tool_call", &["call_id", "name", "input"], &["id", "namespace"]),
    ("custom_tool_call_output", &["call_id", "output"], &["id"]),
    ("local_shell_call", &["id", "call_id", "action", "status"], &[]),
    ("local_shell_call_output", &["id", "call_id", "output"], &["status"]),
    ("shell_call", &["call_id", "action"], &["id", "status", "environment"]),
    ("shell_call_output", &["call_id", "output"], &["id", "status", "max_output_length"]),
    ("apply_patch_call", &["call_id", "status", "operation"], &["id"]),
    ("apply_patch_call_output", &["call_id", "status"], &["id", "output"]),
    ("web_search_call", &["id", "status"], &["action"]),
    ("mcp_call", &["id", "server_label", "name", "arguments"], &["output", "error", "status"]),
    ("compaction", &["encrypted_content"], &["id"]),
];

impl Validator {
    pub(super) fn add(&mut self, number: usize, what: impl std::fmt::Display) {
        self.violations.push(format!("request {number}: {what}"));
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    pub(super) fn allow_rewrites(&mut self) {
        self.may_rewrite = true;
    }

    pub(super) fn issued(&mut self, items: &[Value]) {
        for item in items {
            if let Some(id) = item["id"].as_str() {
                self.issued.insert(id.to_owned(), item.clone());
            }
        }
    }

    pub(super) fn request(&mut self, number: usize, request: &Recorded) {
        let mut problems = Problems::default();
        problems.route(request);
        problems.top_level(&request.body);
        for tool in list(&request.body, "tools") {
            problems.tool(tool);
        }
        let input = list(&request.body, "input");
        for (index, item) in input.iter().enumerate() {
            problems.item(index, item);
            self.unchanged(index, item, &mut problems);
        }
        problems.pairs(input);
        problems.reasoning_is_followed(input);
        self.extends_the_last(&request.body, &mut problems);
        for problem in problems.0 {
            self.add(number, problem);
        }
    }

    /// What the server sent comes back as it was.
    fn unchanged(&self, index: usize, item: &Value, problems: &mut Problems) {
        let Some(issued) = item["id"].as_str().and_then(|id| self.issued.get(id)) else { return };
        let keys = [
            "type",
            "phase",
            "encrypted_content",
            "arguments",
            "input",
            "call_id",
            "name",
            "action",
        ];
        for key in keys {
            if issued.get(key) != item.get(key) {
                problems.add(format!("input[{index}].{key} is not what the server had sent"));
            }
        }
    }

    fn extends_the_last(&mut self, body: &Value, problems: &mut Problems) {
        let key = body["prompt_cache_key"].as_str().unwrap_or_default().to_owned();
        let last = self.last.insert(key, body.clone());
        let Some(last) = last.filter(|_| !self.may_rewrite) else { return };
        for (name, value) in last.as_object().into_iter().flatten() {
            if name != "input" && body.get(name) != Some(value) {
                problems.add(format!("`{name}` differs from the request before"));
            }
        }
        let (before, now) = (list(&last, "input"), list(body, "input"));
        if !now.starts_with(before) {
            let at = before.iter().zip(now).take_while(|(one, other)| one == other).count();
            problems.add(format!("`input` does not extend the request before, from item {at} on"));
        }
    }
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: String) {
        self.0.push(problem);
    }

    fn must(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.0.push(rule());
        }
    }

    fn route(&mut self, request: &Recorded) {
        let place = format!("{} {}", request.method, request.path);
        self.must(place == "POST /v1/responses", || format!("unknown route {place}"));
        let header = |name: &str| request.headers.get(name).map(String::as_str).unwrap_or_default();
        let json = header("content-type").starts_with("application/json");
        self.must(json, || "content-type is not application/json".to_owned());
        let bearer = header("authorization").starts_with("Bearer ");
        self.must(bearer, || "no bearer token".to_owned());
    }

    fn top_level(&mut self, body: &Value) {
        let Some(fields) = body.as_object() else {
            return self.add("the body is no JSON object".to_owned());
        };
        for (key, value) in fields {
            self.must(TOP_LEVEL.contains(&key.as_str()), || format!("unknown field `{key}`"));
            self.must(!value.is_null(), || format!("`{key}` is null"));
        }
        self.must(body["model"].is_string(), || "`model` is missing".to_owned());
        self.must(body["input"].is_array(), || "`input` is no list".to_owned());
        self.must(body["stream"] == true, || "`stream` is not true".to_owned());
        self.must(body["store"] == false, || "`store` is not false".to_owned());
        for sampling in ["temperature", "top_p", "max_output_tokens", "previous_response_id"] {
            self.must(body.get(sampling).is_none(), || format!("`{sampling}` is set"));
        }
        if body.get("tools").is_none() {
            let choice = body.get("tool_choice").is_none();
            self.must(choice, || "`tool_choice` without tools".to_owned());
        }
        if let Some(reasoning) = body.get("reasoning").and_then(Value::as_object) {
            for key in reasoning.keys() {
                let known = ["effort", "summary"].contains(&key.as_str());
                self.must(known, || format!("unknown field `reasoning.{key}`"));
            }
        }
    }

    fn tool(&mut self, tool: &Value) {
        let name = tool["name"].as_str().unwrap_or_default();
        match tool["type"].as_str().unwrap_or_default() {
            "function" => {
                self.tool_name(name);
                self.must(tool["parameters"].is_object(), || format!("`{name}` has no parameters"));
                self.must(tool["strict"].is_boolean(), || format!("`{name}` has no `strict`"));
                if tool["strict"] == true {
                    self.strict(name, &tool["parameters"]);
                }
            }
            "custom" => {
                self.tool_name(name);
                let format = &tool["format"];
                let fits = format["type"] == "grammar"
                    && matches!(format["syntax"].as_str(), Some("lark" | "regex"))
                    && format["definition"].is_string();
                self.must(fits, || format!("`{name}` has no grammar"));
            }
            "local_shell" | "shell" | "apply_patch" | "web_search" | "mcp" => {}
            other => self.add(format!("unknown tool type `{other}`")),
        }
    }

    fn tool_name(&mut self, name: &str) {
        self.must(is_name(name), || format!("tool name `{name}`"));
    }

    /// The provider's rules for strict schemas.
    fn strict(&mut self, tool: &str, schema: &Value) {
        let Some(fields) = schema.as_object() else { return };
        for word in ["allOf", "oneOf", "not", "if", "default", "patternProperties"] {
            self.must(!fields.contains_key(word), || format!("`{tool}`: strict with `{word}`"));
        }
        if let Some(properties) = schema["properties"].as_object() {
            let closed = schema["additionalProperties"] == false;
            self.must(closed, || format!("`{tool}`: strict without additionalProperties false"));
            let required = list(schema, "required");
            for (key, property) in properties {
                let is_required = required.iter().any(|name| name == key);
                self.must(is_required, || format!("`{tool}`: strict, `{key}` is not required"));
                self.strict(tool, property);
            }
        }
        self.strict(tool, &schema["items"]);
        for variant in list(schema, "anyOf") {
            self.strict(tool, variant);
        }
    }

    fn item(&mut self, index: usize, item: &Value) {
        let kind = item["type"].as_str().unwrap_or_default();
        let Some((_, required, further)) = ITEMS.iter().find(|(name, ..)| *name == kind) else {
            return self.add(format!("input[{index}] has the unknown type `{kind}`"));
        };
        for key in *required {
            self.must(item.get(key).is_some(), || format!("input[{index}] ({kind}) lacks `{key}`"));
        }
        for key in item.as_object().into_iter().flat_map(|fields| fields.keys()) {
            let known = key == "type" || required.contains(&&**key) || further.contains(&&**key);
            self.must(known, || format!("input[{index}] ({kind}) has the unknown field `{key}`"));
        }
        match kind {
            "message" => self.message(index, item),
            "function_call" => {
                let name = item["name"].as_str().unwrap_or_default();
                self.must(is_name(name), || format!("input[{index}]: call name `{name}`"));
                let text = item["arguments"].is_string();
                self.must(text, || format!("input[{index}]: arguments are no text"));
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.parts(index, &item["output"], &["input_text", "input_image", "input_file"]);
            }
            "reasoning" => {
                let sealed = item["encrypted_content"].is_string() || item["content"].is_array();
                self.must(sealed, || format!("input[{index}]: reasoning by id alone"));
            }
            _ => {}
        }
    }

    fn message(&mut self, index: usize, item: &Value) {
        match item["role"].as_str().unwrap_or_default() {
            "user" | "developer" | "system" => {
                self.must(item.get("id").is_none(), || format!("input[{index}]: user with id"));
                self.parts(index, &item["content"], &["input_text", "input_image", "input_file"]);
            }
            "assistant" if item.get("id").is_some() => {
                let whole = item["status"].is_string() && item["content"].is_array();
                self.must(whole, || format!("input[{index}]: incomplete output message"));
                self.parts(index, &item["content"], &["output_text", "refusal"]);
                for part in list(item, "content").iter().filter(|it| it["type"] == "output_text") {
                    let annotated = part["annotations"].is_array();
                    self.must(annotated, || format!("input[{index}]: no annotations"));
                }
            }
            "assistant" => {
                let plain = item["content"].is_string();
                self.must(plain, || format!("input[{index}]: assistant parts without id"));
            }
            role => self.add(format!("input[{index}]: role `{role}`")),
        }
    }

    fn parts(&mut self, index: usize, content: &Value, allowed: &[&str]) {
        if content.is_string() {
            return;
        }
        let Some(parts) = content.as_array() else {
            return self.add(format!("input[{index}]: content is neither text nor list"));
        };
        for part in parts {
            let kind = part["type"].as_str().unwrap_or_default();
            self.must(allowed.contains(&kind), || format!("input[{index}]: part `{kind}`"));
            if kind == "input_image" {
                let url = part["image_url"].as_str().unwrap_or_default();
                let fits = url.starts_with("data:image/") && part["detail"].is_string();
                self.must(fits, || format!("input[{index}]: image"));
            }
        }
    }

    /// Each call has one output of its own kind, after it.
    fn pairs(&mut self, input: &[Value]) {
        let mut open: BTreeMap<&str, &str> = BTreeMap::new();
        let mut closed: Vec<&str> = Vec::new();
        for (index, item) in input.iter().enumerate() {
            let kind = item["type"].as_str().unwrap_or_default();
            let Some(id) = item["call_id"].as_str() else { continue };
            if kind.ends_with("_call") {
                let is_new = !open.contains_key(id) && !closed.contains(&id);
                self.must(is_new, || format!("input[{index}]: call id `{id}` is used twice"));
                open.insert(id, kind);
            } else if let Some(call) = open.remove(id) {
                let fits = kind.strip_suffix("_output") == Some(call);
                self.must(fits, || format!("input[{index}]: `{kind}` answers a `{call}`"));
                closed.push(id);
            } else {
                self.add(format!("input[{index}]: no call has the id `{id}`"));
            }
        }
        for (id, kind) in open {
            self.add(format!("no output for the {kind} `{id}`"));
        }
    }

    fn reasoning_is_followed(&mut self, input: &[Value]) {
        for (index, item) in input.iter().enumerate() {
            if item["type"] != "reasoning" {
                continue;
            }
            let next = input.get(index + 1);
            let kind = next.and_then(|next| next["type"].as_str()).unwrap_or_default();
            let is_output = kind.ends_with("_output");
            let is_asked = next.is_some_and(|next| next["role"] == "user");
            self.must(!kind.is_empty() && !is_output && !is_asked, || {
                format!("input[{index}]: reasoning without its following item")
            });
        }
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

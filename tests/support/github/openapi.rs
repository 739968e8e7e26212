//! GitHub's own description of its API, as the judge of every request and answer, and as the mould
//! of answers: [`Description::skeleton`] has every required field of a schema.
//!
//! The file is a trimmed copy; `trim_openapi.py` beside this file made it and says how.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

static TEXT: &str = include_str!("../../fixtures/github-openapi.json");
static WEBHOOKS: &str = include_str!("../../fixtures/github-webhooks.json");
/// Where validators find the components: one copy that is walked once, instead of one for each validator.
const COMPONENTS: &str = "urn:description";

pub(crate) struct Description {
    components: Value,
    /// The components under [`COMPONENTS`], walked once for all validators.
    registry: jsonschema::Registry<'static>,
    routes: Vec<Route>,
    validators: Mutex<HashMap<String, jsonschema::Validator>>,
    skeletons: Mutex<HashMap<String, Value>>,
}

struct Route {
    segments: Vec<String>,
    methods: Map<String, Value>,
}

/// A described operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// `post /repos/{owner}/{repo}/pulls`
    pub(crate) name: String,
    value: Value,
}

pub(crate) fn description() -> &'static Description {
    static DESCRIPTION: OnceLock<Description> = OnceLock::new();
    DESCRIPTION.get_or_init(|| Description::read(TEXT))
}

/// The payloads of webhooks, which are schemas called `webhook-…`.
pub(crate) fn webhooks() -> &'static Description {
    static DESCRIPTION: OnceLock<Description> = OnceLock::new();
    DESCRIPTION.get_or_init(|| Description::read(WEBHOOKS))
}

impl Description {
    fn read(text: &str) -> Description {
        let mut doc: Value = serde_json::from_str(text).expect("the description is JSON");
        nullable_to_null_type(&mut doc);
        null_after_all(&mut doc);
        let mut routes: Vec<Route> = doc["paths"]
            .as_object()
            .expect("paths")
            .iter()
            .map(|(path, methods)| Route {
                segments: path.trim_start_matches('/').split('/').map(str::to_owned).collect(),
                methods: methods.as_object().expect("methods").clone(),
            })
            .collect();
        // `commits/{ref}/status` before `commits/{ref}`, which may have slashes in it.
        routes.sort_by_key(|route| {
            let open = route.segments.iter().filter(|s| s.starts_with('{')).count();
            (open, std::cmp::Reverse(route.segments.len()))
        });
        let components = doc["components"].take();
        let registry = jsonschema::Registry::new()
            .add(COMPONENTS, json!({"components": components}))
            .and_then(jsonschema::RegistryBuilder::prepare)
            .expect("the description's references are sound");
        Description {
            components,
            registry,
            routes,
            validators: Mutex::default(),
            skeletons: Mutex::default(),
        }
    }

    /// The operation of a request, or what is wrong with the request.
    pub(crate) fn check_request(
        &self,
        method: &str,
        segments: &[String],
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<Operation, String> {
        let shown = format!("{method} /{}", segments.join("/"));
        let route = self.routes.iter().find(|route| matches(&route.segments, segments));
        let route =
            route.ok_or_else(|| format!("{shown}: no such path in GitHub's description"))?;
        let key = method.to_lowercase();
        let value = route.methods.get(&key).ok_or_else(|| format!("{shown}: no such method"))?;
        let operation = Operation {
            name: format!("{key} /{}", route.segments.join("/")),
            value: value.clone(),
        };
        self.check_query(&operation, query).map_err(|err| format!("{shown}: {err}"))?;
        self.check_body(&operation, body).map_err(|err| format!("{shown}: {err}"))?;
        Ok(operation)
    }

    fn check_query(&self, operation: &Operation, query: &[(String, String)]) -> Result<(), String> {
        let parameters: Vec<&Value> = operation.value["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|parameter| self.resolve(parameter))
            .filter(|parameter| parameter["in"] == "query")
            .collect();
        // The links of this list have a cursor, which the description leaves out.
        let has_cursor = operation.name == "get /repos/{owner}/{repo}/issues";
        for (name, text) in query.iter().filter(|(name, _)| !has_cursor || name != "after") {
            let parameter = parameters
                .iter()
                .find(|parameter| parameter["name"] == **name)
                .ok_or_else(|| format!("no query parameter `{name}`"))?;
            let schema = self.resolve(&parameter["schema"]);
            if schema["type"] == "integer" && text.parse::<i64>().is_err() {
                return Err(format!("query parameter `{name}` is not a number: `{text}`"));
            }
            let allowed = schema["enum"].as_array();
            if allowed.is_some_and(|allowed| !allowed.iter().any(|value| value == &json!(text))) {
                return Err(format!("query parameter `{name}` may not be `{text}`"));
            }
        }
        for parameter in parameters.iter().filter(|parameter| parameter["required"] == true) {
            if !query.iter().any(|(name, _)| parameter["name"] == **name) {
                return Err(format!("query parameter {} is missing", parameter["name"]));
            }
        }
        Ok(())
    }

    fn check_body(&self, operation: &Operation, body: Option<&Value>) -> Result<(), String> {
        let described = &operation.value["requestBody"];
        let schema = &described["content"]["application/json"]["schema"];
        match body {
            None if described["required"] == true && schema["required"].is_array() => {
                Err("the body is missing".to_owned())
            }
            None => Ok(()),
            Some(_) if schema.is_null() => Err("it takes no body".to_owned()),
            Some(body) => {
                // GitHub ignores what it does not know; here it is a mistake of ours.
                let known = self.resolve(schema)["properties"].as_object();
                if let (Some(known), Some(given)) = (known, body.as_object())
                    && let Some(stranger) = given.keys().find(|key| !known.contains_key(*key))
                {
                    return Err(format!("the body has an unknown field `{stranger}`"));
                }
                self.check_value(&format!("{} request", operation.name), schema, body)
            }
        }
    }

    /// What is wrong with an answer; answers of a status that is not described are not judged.
    pub(crate) fn check_answer(
        &self,
        operation: &Operation,
        status: u16,
        body: &Value,
    ) -> Result<(), String> {
        let answer = self.resolve(&operation.value["responses"][status.to_string()]);
        let schema = &answer["content"]["application/json"]["schema"];
        if schema.is_null() {
            return Ok(());
        }
        self.check_value(&format!("{} {status}", operation.name), schema, body)
            .map_err(|err| format!("answer {status} to {}: {err}", operation.name))
    }

    /// What is wrong with a value of a named schema.
    pub(crate) fn check_schema(&self, schema: &str, value: &Value) -> Result<(), String> {
        let reference = json!({"$ref": format!("#/components/schemas/{schema}")});
        self.check_value(schema, &reference, value)
    }

    fn check_value(&self, name: &str, schema: &Value, value: &Value) -> Result<(), String> {
        let mut validators = self.validators.lock();
        let validator = validators.entry(name.to_owned()).or_insert_with(|| {
            let mut schema = schema.clone();
            refer_to_registry(&mut schema);
            jsonschema::options()
                .with_registry(&self.registry)
                .build(&schema)
                .expect("the description's schemas are valid")
        });
        let problems: Vec<String> = validator
            .iter_errors(value)
            .take(10)
            .map(|err| format!("{err} at `{}`", err.instance_path()))
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// A value with every required field of the schema, empty where it may be empty.
    pub(crate) fn skeleton(&self, schema: &str) -> Value {
        if let Some(known) = self.skeletons.lock().get(schema) {
            return known.clone();
        }
        let made = self.mould(&self.components["schemas"][schema], 0);
        self.skeletons.lock().insert(schema.to_owned(), made.clone());
        made
    }

    fn mould(&self, schema: &Value, depth: usize) -> Value {
        let schema = self.resolve(schema);
        for either in ["anyOf", "oneOf", "allOf"] {
            if let Some(first) = schema[either].as_array().and_then(|all| all.first()) {
                let nullable = schema[either]
                    .as_array()
                    .is_some_and(|all| all.contains(&json!({"type": "null"})));
                return if nullable { Value::Null } else { self.mould(first, depth) };
            }
        }
        if let Some(value) = schema["enum"].as_array().and_then(|values| values.first()) {
            return value.clone();
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) if kinds.iter().any(|kind| kind == "null") => return Value::Null,
            Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or("object"),
            _ => "object",
        };
        match kind {
            "string" => match schema["format"].as_str() {
                Some("uri") => json!("https://example.com/"),
                Some("date-time") => json!("2026-01-01T00:00:00Z"),
                _ => json!(""),
            },
            "integer" | "number" => json!(0),
            "boolean" => json!(false),
            "array" => json!([]),
            _ => {
                let mut object = Map::new();
                let required = schema["required"].as_array().into_iter().flatten();
                for name in required.filter_map(Value::as_str).filter(|_| depth < 12) {
                    object.insert(
                        name.to_owned(),
                        self.mould(&schema["properties"][name], depth + 1),
                    );
                }
                Value::Object(object)
            }
        }
    }

    /// Adds what a schema requires and a value lacks, however deep.
    pub(crate) fn complete(&self, schema: &str, value: &mut Value) {
        self.fill(&self.components["schemas"][schema], value);
    }

    fn fill(&self, schema: &Value, value: &mut Value) {
        let schema = self.resolve(schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.fill(part, value);
        }
        for either in ["anyOf", "oneOf"] {
            let parts = schema[either].as_array().into_iter().flatten();
            if let Some(first) = parts.into_iter().next().filter(|_| !value.is_null()) {
                self.fill(first, value);
            }
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    self.fill(&schema["items"], item);
                }
            }
            Value::Object(object) => {
                for name in schema["required"].as_array().into_iter().flatten() {
                    let name = name.as_str().unwrap_or_default();
                    if !object.contains_key(name) {
                        let made = self.mould(&schema["properties"][name], 0);
                        object.insert(name.to_owned(), made);
                    }
                }
                for (name, value) in object {
                    self.fill(&schema["properties"][name], value);
                }
            }
            _ => {}
        }
    }

    fn resolve<'a>(&'a self, mut value: &'a Value) -> &'a Value {
        while let Some(reference) = value["$ref"].as_str() {
            let pointer = reference.trim_start_matches("#/components");
            value = self.components.pointer(pointer).expect("references lead somewhere");
        }
        value
    }
}

fn matches(template: &[String], segments: &[String]) -> bool {
    let many = ["{ref}", "{path}", "{basehead}"];
    let open_end = template.last().is_some_and(|last| many.contains(&last.as_str()));
    if open_end && segments.len() > template.len() {
        return matches(template, &segments[..template.len()]);
    }
    template.len() == segments.len()
        && template.iter().zip(segments).all(|(one, other)| one.starts_with('{') || one == other)
}

/// GitHub sends `null` for the line and position of a comment whose line has changed, and for the
/// repository of a fork that is gone, though its description has them always.
fn null_after_all(doc: &mut Value) {
    let comments = ["review-comment", "pull-request-review-comment"];
    let lines = ["line", "position", "original_line"];
    let mut places: Vec<String> = comments
        .iter()
        .flat_map(|schema| lines.map(|field| format!("{schema}/properties/{field}")))
        .collect();
    // The account of an installation is a user or an enterprise; in the list it would be both.
    let listed = "/paths/~1app~1installations/get/responses/200/content/application~1json/schema";
    if let Some(schema) = doc.pointer_mut(&format!("{listed}/items")) {
        *schema = json!({"$ref": "#/components/schemas/installation"});
    }
    for schema in ["pull-request", "pull-request-simple"] {
        places.push(format!("{schema}/properties/head/properties/repo"));
    }
    for place in places {
        if let Some(schema) = doc.pointer_mut(&format!("/components/schemas/{place}")) {
            let known = schema.take();
            *schema = json!({"anyOf": [known, {"type": "null"}]});
        }
    }
}

/// `OpenAPI` 3.0 says `nullable: true` where JSON Schema has the type `null`.
fn nullable_to_null_type(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(nullable_to_null_type),
        Value::Object(object) => {
            object.values_mut().for_each(nullable_to_null_type);
            if object.get("nullable") != Some(&Value::Bool(true)) {
                return;
            }
            object.remove("nullable");
            if let Some(Value::String(kind)) = object.get("type") {
                let kinds = json!([kind, "null"]);
                object.insert("type".to_owned(), kinds);
                if let Some(Value::Array(values)) = object.get_mut("enum") {
                    values.push(Value::Null);
                }
            } else {
                let inner = Value::Object(std::mem::take(object));
                object.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
            }
        }
        _ => {}
    }
}

/// Lays `over` on `base`: objects field by field, everything else whole.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// The fields of a query or form, decoded.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .collect()
}

/// Makes the references of a schema absolute, so that they are looked up in the registry.
fn refer_to_registry(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(to) if key == "$ref" && to.starts_with('#') => {
                        to.insert_str(0, COMPONENTS);
                    }
                    _ => refer_to_registry(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(refer_to_registry),
        _ => {}
    }
}

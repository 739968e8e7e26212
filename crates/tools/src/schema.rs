//! JSON Schemas for models, made from `Args` types: short, complete in themselves, and the same bytes
//! every time.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// How deep a schema may be nested before references are no longer followed.
const MAX_DEPTH: usize = 16;

/// Keywords in the order in which they are written.
const KEYWORDS: &[&str] = &[
    "type",
    "description",
    "enum",
    "const",
    "anyOf",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "items",
    "properties",
    "required",
    "additionalProperties",
];

/// Marks an argument that is understood without being shown: what some families call with, and no
/// model has to be told of.
const QUIET: &str = "x-quiet";

/// The schema of a tool's arguments, [`clean`].
pub fn of<T: JsonSchema>() -> Value {
    let generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    clean(&generator.into_root_schema_for::<T>().to_value())
}

/// Inlines references, forbids unknown fields, and drops what tells a model nothing. Optional fields
/// lose their `null`: leaving them out says the same.
pub fn clean(schema: &Value) -> Value {
    clean_with(schema, &|_| false)
}

/// Cleans a schema and keeps, of the arguments that are not shown as a rule, those that are `named`.
pub fn clean_with(schema: &Value, named: &dyn Fn(&str) -> bool) -> Value {
    cleaned(
        schema,
        &SchemaContext { definitions: definitions(schema), is_whole: false, named },
        MAX_DEPTH,
    )
}

/// Cleans a schema and keeps all that is understood: the arguments that are not shown, and the zero at which counts
/// start.
pub fn whole(schema: &Value) -> Value {
    let named = &|_: &str| true;
    cleaned(
        schema,
        &SchemaContext { definitions: definitions(schema), is_whole: true, named },
        MAX_DEPTH,
    )
}

fn definitions(schema: &Value) -> &Value {
    let definitions = schema.get("$defs").or_else(|| schema.get("definitions"));
    definitions.unwrap_or(&Value::Null)
}

/// What a schema is cleaned with.
struct SchemaContext<'d> {
    definitions: &'d Value,
    is_whole: bool,
    /// Arguments that are shown although they are quiet.
    named: &'d dyn Fn(&str) -> bool,
}

fn cleaned(schema: &Value, context: &SchemaContext<'_>, depth: usize) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    if depth == 0 {
        return json!({});
    }
    let mut fields = fields.clone();
    inline(&mut fields, context.definitions);
    drop_null(&mut fields);
    inline(&mut fields, context.definitions);
    collapse_constants(&mut fields);
    let is_object = is_object(&fields);
    let mut result = Map::new();
    for keyword in KEYWORDS {
        let value = match (*keyword, fields.get(*keyword)) {
            ("additionalProperties", value) if is_object => match value {
                Some(Value::Object(_)) => value.map(|value| cleaned(value, context, depth - 1)),
                _ => Some(json!(false)),
            },
            ("properties", None) if is_object => Some(json!({})),
            (_, None) => None,
            ("properties", Some(Value::Object(properties))) => Some(Value::Object(
                properties
                    .iter()
                    .filter(|(name, value)| value.get(QUIET).is_none() || (context.named)(name))
                    .map(|(name, value)| (name.clone(), cleaned(value, context, depth - 1)))
                    .collect(),
            )),
            ("items", Some(items)) => Some(cleaned(items, context, depth - 1)),
            ("anyOf", Some(Value::Array(variants))) => Some(Value::Array(
                variants.iter().map(|value| cleaned(value, context, depth - 1)).collect(),
            )),
            ("description", Some(Value::String(text))) => Some(json!(one_line(text))),
            // Every count starts at zero; saying so is noise.
            ("minimum", Some(minimum)) if !context.is_whole && minimum.as_f64() == Some(0.0) => {
                None
            }
            (_, Some(value)) => Some(value.clone()),
        };
        if let Some(value) = value {
            result.insert((*keyword).to_owned(), value);
        }
    }
    Value::Object(result)
}

/// Puts the referenced definition in place of a `$ref`; what stands beside the reference wins.
fn inline(fields: &mut Map<String, Value>, definitions: &Value) {
    let Some(Value::String(reference)) = fields.shift_remove("$ref") else { return };
    let name = reference.rsplit('/').next().unwrap_or_default();
    if let Some(Value::Object(definition)) = definitions.get(name) {
        for (key, value) in definition {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// `["string", "null"]` → `"string"`, `anyOf: [X, null]` → X.
fn drop_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get("type") {
        let mut types: Vec<Value> = types.iter().filter(|kind| *kind != "null").cloned().collect();
        let only = if types.len() == 1 { types.swap_remove(0) } else { Value::Array(types) };
        fields.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(options)) = fields.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    if let Some(Value::Array(variants)) = fields.get("anyOf") {
        let is_null = |variant: &&Value| variant.get("type") == Some(&json!("null"));
        let rest: Vec<Value> = variants.iter().filter(|v| !is_null(v)).cloned().collect();
        if let [Value::Object(only)] = rest.as_slice() {
            fields.shift_remove("anyOf");
            for (key, value) in only {
                fields.entry(key.clone()).or_insert_with(|| value.clone());
            }
        } else {
            fields.insert("anyOf".to_owned(), Value::Array(rest));
        }
    }
}

/// An enum whose variants have doc comments comes as `oneOf` constants; one list says it shorter.
fn collapse_constants(fields: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = fields.shift_remove("oneOf") else { return };
    let mut names = Vec::new();
    for variant in &variants {
        match (variant.get("const"), variant.get("enum")) {
            (Some(name), _) => names.push(name.clone()),
            (None, Some(Value::Array(several))) => names.extend(several.iter().cloned()),
            (None, _) => {
                fields.insert("anyOf".to_owned(), Value::Array(variants));
                return;
            }
        }
    }
    fields.entry("type").or_insert_with(|| json!("string"));
    fields.insert("enum".to_owned(), Value::Array(names));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Keywords that strict mode takes; it refuses a declaration with any other.
const STRICT_KEYWORDS: &[&str] = &[
    "type",
    "description",
    "enum",
    "const",
    "anyOf",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "pattern",
    "items",
    "properties",
];

/// The schema for a provider's strict mode: every object is closed, every field is required (an
/// optional one may be `null` instead), and no keyword is left that the mode refuses. For schemas
/// that [`can_be_strict`].
pub fn strict(schema: &Value) -> Value {
    stricter(schema, MAX_DEPTH)
}

fn stricter(schema: &Value, depth: usize) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    if depth == 0 {
        return json!({});
    }
    let mut result = Map::new();
    for (keyword, value) in fields {
        let value = match (keyword.as_str(), value) {
            ("items", items) => stricter(items, depth - 1),
            ("anyOf", Value::Array(variants)) => {
                variants.iter().map(|variant| stricter(variant, depth - 1)).collect()
            }
            ("properties", Value::Object(properties)) => {
                let required = required(schema);
                let strict = properties.iter().map(|(name, property)| {
                    let inner = stricter(property, depth - 1);
                    let is_required = required.contains(&name.as_str());
                    (name.clone(), if is_required { inner } else { nullable(inner) })
                });
                Value::Object(strict.collect())
            }
            (other, value) if STRICT_KEYWORDS.contains(&other) => value.clone(),
            _ => continue,
        };
        result.insert(keyword.clone(), value);
    }
    if is_object(fields) {
        let properties = result.entry("properties").or_insert_with(|| json!({}));
        let names = properties.as_object().into_iter().flat_map(Map::keys);
        let names = names.cloned().map(Value::String).collect();
        result.insert("required".to_owned(), names);
        result.insert("additionalProperties".to_owned(), json!(false));
    }
    Value::Object(result)
}

/// Whether strict mode can express a schema: an object at the root, no map with free keys, no part
/// that takes anything.
pub fn can_be_strict(schema: &Value) -> bool {
    let is_root = schema.as_object().is_some_and(is_object) && schema.get("anyOf").is_none();
    is_root && is_strictable(schema, MAX_DEPTH)
}

fn is_strictable(schema: &Value, depth: usize) -> bool {
    let Value::Object(fields) = schema else { return false };
    let is_typed =
        ["type", "enum", "const", "anyOf"].iter().any(|keyword| fields.contains_key(*keyword));
    let mut parts = fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::values)
        .chain(fields.get("items"))
        .chain(fields.get("anyOf").and_then(Value::as_array).into_iter().flatten());
    let is_list = fields.get("type") == Some(&json!("array"));
    depth > 0
        && (is_typed || is_object(fields))
        && (!is_list || fields.contains_key("items"))
        && ["allOf", "oneOf", "not", "$ref"].iter().all(|keyword| !fields.contains_key(*keyword))
        && !is_map(fields)
        && parts.all(|part| is_strictable(part, depth - 1))
}

fn is_object(fields: &Map<String, Value>) -> bool {
    fields.contains_key("properties") || fields.get("type") == Some(&json!("object"))
}

/// An object with free keys.
fn is_map(fields: &Map<String, Value>) -> bool {
    match fields.get("additionalProperties") {
        None | Some(Value::Bool(false)) => false,
        Some(_) => is_object(fields),
    }
}

/// The names of the required fields.
pub fn required(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn nullable(mut schema: Value) -> Value {
    if let Some(Value::Array(options)) = schema.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
    let kind = schema.get("type").cloned();
    match kind {
        Some(Value::String(kind)) if kind == "null" => {}
        Some(Value::String(kind)) => schema["type"] = json!([kind, "null"]),
        Some(Value::Array(mut kinds)) => {
            if !kinds.iter().any(|kind| kind == "null") {
                kinds.push(json!("null"));
            }
            schema["type"] = Value::Array(kinds);
        }
        _ => {
            return json!({ "anyOf": [schema, { "type": "null" }] });
        }
    }
    schema
}

/// A schema that is not ours, as providers take it: an object at its top, without what only says how
/// parts are combined there (they refuse that), and without its own address. What is checked before a
/// call is the schema itself.
pub fn declared(schema: &Value) -> Value {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    for keyword in ["$schema", "$id", "id", "oneOf", "anyOf", "allOf", "not", "enum", "const"] {
        fields.shift_remove(keyword);
    }
    fields.insert("type".to_owned(), json!("object"));
    if !fields.get("properties").is_some_and(Value::is_object) {
        fields.insert("properties".to_owned(), json!({}));
    }
    Value::Object(fields)
}

/// The expected arguments in one line: `{"path": string, "depth"?: integer}`.
pub fn shape(schema: &Value) -> String {
    if let Some(Value::Array(options)) = schema.get("enum") {
        return options.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let required = required(schema);
        let fields = properties.iter().map(|(name, property)| {
            let mark = if required.contains(&name.as_str()) { "" } else { "?" };
            format!("\"{name}\"{mark}: {}", shape(property))
        });
        return format!("{{{}}}", fields.collect::<Vec<_>>().join(", "));
    }
    if let Some(Value::Array(variants)) = schema.get("anyOf") {
        return variants.iter().map(shape).collect::<Vec<_>>().join(" | ");
    }
    match (schema.get("type"), schema.get("items")) {
        (Some(Value::String(kind)), Some(items)) if kind == "array" => {
            format!("[{}]", shape(items))
        }
        (Some(Value::String(kind)), _) => kind.clone(),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Args {
        /// Where to look,
        /// and what for.
        path: String,
        depth: Option<std::num::NonZeroU8>,
        mode: Option<Mode>,
        plain: Option<Plain>,
        /// Details.
        inner: Option<Inner>,
        words: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Mode {
        /// One.
        Slice,
        /// Two.
        Block,
    }

    #[derive(JsonSchema)]
    #[schemars(inline)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Plain {
        A,
        B,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Inner {
        #[serde(default)]
        count: u64,
    }

    #[test]
    fn schemas_are_short_and_complete() {
        assert_eq!(
            of::<Args>().to_string(),
            json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "Where to look, and what for." },
                    "depth": { "type": "integer", "minimum": 1, "maximum": 255 },
                    "mode": { "type": "string", "enum": ["slice", "block"] },
                    "plain": { "type": "string", "enum": ["A", "B"] },
                    "inner": {
                        "type": "object",
                        "description": "Details.",
                        "properties": { "count": { "type": "integer" } },
                        "additionalProperties": false,
                    },
                    "words": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["path", "words"],
                "additionalProperties": false,
            })
            .to_string()
        );
    }

    #[test]
    fn strict_schemas_require_everything_and_allow_null_instead() {
        let schema = strict(&of::<Args>());
        assert_eq!(schema["required"], json!(["path", "depth", "mode", "plain", "inner", "words"]));
        assert_eq!(schema["properties"]["path"]["type"], json!("string"));
        assert_eq!(schema["properties"]["depth"]["type"], json!(["integer", "null"]));
        assert_eq!(schema["properties"]["mode"]["enum"], json!(["slice", "block", null]));
        assert_eq!(schema["properties"]["inner"]["required"], json!(["count"]));
    }

    #[test]
    fn the_shape_fits_one_line() {
        assert_eq!(
            shape(&of::<Args>()),
            r#"{"path": string, "depth"?: integer, "mode"?: "slice" | "block", "plain"?: "A" | "B", "inner"?: {"count"?: integer}, "words": [string]}"#
        );
    }
}

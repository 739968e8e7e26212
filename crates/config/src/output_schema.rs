//! The JSON Schema of a result (`output-schema`), checked before anything is paid for: that it is one, that it
//! stands alone, and that something can meet it.

use serde_json::{Map, Value};

use crate::tools;

/// Bytes of a schema: it is sent with a request, and told to the model.
const MAX_BYTES: usize = 64 << 10;
/// Levels of one.
const MAX_DEPTH: usize = 32;
/// What is wrong with a result, at most.
const MAX_PROBLEMS: usize = 10;
/// Bytes of one such line.
const MAX_LINE: usize = 300;

/// What is wrong with a schema, in a sentence without the name of the setting.
///
/// # Errors
/// When it cannot be used.
pub fn check(schema: &Value) -> Result<(), String> {
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return Err(format!("has {bytes} bytes; at most {MAX_BYTES} are taken"));
    }
    if !schema.is_object() {
        return Err("must be a JSON Schema, which is an object".to_owned());
    }
    walk(schema, "#", MAX_DEPTH)?;
    if schema.get("type") != Some(&Value::from("object")) {
        return Err("must have `type: object` at its root, which all providers want".to_owned());
    }
    tools::compiled(schema).map_err(|why| format!("is not valid JSON Schema: {why}"))?;
    match unmeetable(schema) {
        None => Ok(()),
        Some((place, why)) => Err(format!("cannot be met by anything: {why}, at `{place}`")),
    }
}

/// The first thing that stands in the way of a value, and where it is: the value itself is bounded by whoever
/// asks.
///
/// # Errors
/// The problems, a line each.
pub fn validate(schema: &Value, value: &Value) -> Result<(), Vec<String>> {
    let validator = tools::compiled(schema).map_err(|why| vec![why])?;
    let problem = |error: jsonschema::ValidationError<'_>| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the root".to_owned() } else { format!("`{place}`") };
        let line = format!("at {place}: {}", error.masked());
        line[..line.floor_char_boundary(MAX_LINE)].to_owned()
    };
    let problems: Vec<String> =
        validator.iter_errors(value).take(MAX_PROBLEMS).map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Refuses what leads elsewhere, and what is too deep.
fn walk(schema: &Value, place: &str, left: usize) -> Result<(), String> {
    if left == 0 {
        return Err(format!("is nested more than {MAX_DEPTH} deep"));
    }
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                let to = value.as_str().filter(|_| matches!(key.as_str(), "$ref" | "$dynamicRef"));
                if let Some(to) = to.filter(|to| !to.starts_with('#')) {
                    return Err(format!(
                        "refers to `{to}` at `{place}`, and nothing is fetched: put that definition into \
                         `$defs` and refer to `#/$defs/NAME`"
                    ));
                }
                walk(value, &format!("{place}/{key}"), left - 1)?;
            }
            Ok(())
        }
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(at, value)| walk(value, &format!("{place}/{at}"), left - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// The reason why no value at all meets the schema, and where it stands, as far as that is plain from single
/// keywords and what is required. `None` is no promise.
fn unmeetable(schema: &Value) -> Option<(String, String)> {
    stuck(schema, "#", MAX_DEPTH)
}

type Reason = Option<(String, String)>;

fn stuck(schema: &Value, place: &str, left: usize) -> Reason {
    let here = |why: &str| Some((place.to_owned(), why.to_owned()));
    let fields = match schema {
        Value::Bool(false) => return here("`false` allows no value"),
        Value::Object(fields) if left > 0 => fields,
        _ => return None,
    };
    if fields.get("not").is_some_and(allows_all) {
        return here("`not` excludes every value");
    }
    let is_empty =
        |key: &str| fields.get(key).is_some_and(|it| it.as_array().is_some_and(Vec::is_empty));
    if let Some(key) = ["enum", "anyOf", "oneOf", "type"].into_iter().find(|key| is_empty(key)) {
        return here(&format!("`{key}` is empty"));
    }
    if let (Some(only), Some(listed)) = (fields.get("const"), fields.get("enum"))
        && !listed.as_array().is_some_and(|listed| listed.contains(only))
    {
        return here("`const` is not in `enum`");
    }
    bounds(fields, place)
        .or_else(|| in_parts(fields, place, left))
        .or_else(|| required(fields, place, left))
}

fn allows_all(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

/// Pairs of bounds that cross, where the type that they are for is the only one.
fn bounds(fields: &Map<String, Value>, place: &str) -> Reason {
    const PAIRS: &[(&[&str], &str, &str)] = &[
        (&["string"], "minLength", "maxLength"),
        (&["number", "integer"], "minimum", "maximum"),
        (&["array"], "minItems", "maxItems"),
        (&["object"], "minProperties", "maxProperties"),
    ];
    let kind = fields.get("type").and_then(Value::as_str)?;
    let number = |key: &str| fields.get(key).and_then(Value::as_f64);
    let crossed = PAIRS.iter().find(|(kinds, least, most)| {
        let bounds = number(least).zip(number(most));
        kinds.contains(&kind) && bounds.is_some_and(|(least, most)| least > most)
    });
    let (_, least, most) = crossed?;
    Some((place.to_owned(), format!("`{least}` is more than `{most}`")))
}

/// `allOf` with a part that nothing meets; `anyOf` and `oneOf` without one that something does.
fn in_parts(fields: &Map<String, Value>, place: &str, left: usize) -> Reason {
    let parts = |key: &str| {
        let parts = fields.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
        let place = format!("{place}/{key}");
        parts
            .map(move |(at, part)| stuck(part, &format!("{place}/{at}"), left - 1))
            .collect::<Vec<_>>()
    };
    if let Some(reason) = parts("allOf").into_iter().flatten().next() {
        return Some(reason);
    }
    ["anyOf", "oneOf"].into_iter().find_map(|key| {
        let reasons = parts(key);
        let is_stuck = !reasons.is_empty() && reasons.iter().all(Option::is_some);
        reasons.into_iter().next().flatten().filter(|_| is_stuck)
    })
}

/// A required property that may not be there, or that has no possible value.
fn required(fields: &Map<String, Value>, place: &str, left: usize) -> Reason {
    // An object is not the only thing that such a schema allows.
    if fields.get("type").and_then(Value::as_str) != Some("object") {
        return None;
    }
    let known = fields.get("properties").and_then(Value::as_object);
    let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false))
        && !fields.contains_key("patternProperties");
    let names = fields.get("required").and_then(Value::as_array)?.iter().filter_map(Value::as_str);
    for name in names {
        match known.and_then(|known| known.get(name)) {
            None if is_closed => {
                return Some((place.to_owned(), format!("`{name}` is required and not allowed")));
            }
            None => {}
            Some(schema) => {
                let reason = stuck(schema, &format!("{place}/properties/{name}"), left - 1);
                if reason.is_some() {
                    return reason;
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{check, validate};

    /// An object with one required property.
    fn with(property: impl Into<Value>) -> Value {
        let property: Value = property.into();
        json!({"type": "object", "properties": {"a": property}, "required": ["a"]})
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_for_a_reason() {
        let mut deep = json!({"type": "string"});
        for _ in 0..40 {
            deep = json!({"type": "array", "items": deep});
        }
        let long = "x".repeat(70_000);
        for (schema, expected) in [
            (json!(true), "must be a JSON Schema"),
            (json!({"type": "array"}), "`type: object` at its root"),
            (with(json!({"type": "wrong"})), "is not valid JSON Schema"),
            (with(json!({"$ref": "https://example.com/a.json"})), "nothing is fetched"),
            (
                with(json!({"$ref": "other.json#/a"})),
                "refers to `other.json#/a` at `#/properties/a`",
            ),
            (with(json!({"$ref": "#/$defs/none"})), "is not valid JSON Schema"),
            (with(json!({"pattern": "(a"})), "is not valid JSON Schema"),
            (with(json!({"description": long})), "at most 65536 are taken"),
            (with(deep), "nested more than 32 deep"),
            (with(json!(false)), "`false` allows no value, at `#/properties/a`"),
            (with(json!({"not": {}})), "`not` excludes every value"),
            (
                with(json!({"type": "integer", "minimum": 2, "maximum": 1})),
                "`minimum` is more than",
            ),
            (with(json!({"anyOf": [false, {"not": true}]})), "cannot be met by anything"),
            (with(json!({"allOf": [{}, false]})), "at `#/properties/a/allOf/1`"),
            (with(json!({"const": 1, "enum": [2]})), "`const` is not in `enum`"),
            (
                json!({"type": "object", "required": ["b"], "additionalProperties": false}),
                "`b` is required and not allowed",
            ),
        ] {
            let why =
                check(&schema).expect_err(&schema.to_string().chars().take(80).collect::<String>());
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_schema_that_something_meets_is_taken() {
        for property in [
            json!({"type": "string", "minLength": 1, "maxLength": 1}),
            json!({"anyOf": [false, {"type": "string"}]}),
            json!({"minimum": 2, "maximum": 1}),
            json!({"$ref": "#/$defs/b"}),
            json!({"$ref": "#"}),
        ] {
            let mut schema = with(property);
            schema["$defs"] = json!({"b": {"type": "boolean"}});
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_result_is_said_by_place() {
        let schema = with(json!({"type": "integer"}));
        assert_eq!(validate(&schema, &json!({"a": 1})), Ok(()));
        let problems = validate(&schema, &json!({"a": "secret"})).unwrap_err();
        assert_eq!(problems, ["at `/a`: value is not of type \"integer\""]);
        assert_eq!(validate(&schema, &json!([])).unwrap_err().len(), 1);
    }
}

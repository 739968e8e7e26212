//! Files in the formats of others, as plain values and within bounds: YAML, JSON with comments, TOML.

use serde_json::Value;

/// Most bytes of a YAML file: parsers expand what aliases say.
const MAX_YAML: usize = 256 << 10;
/// Most bytes of a TOML or JSON file that is parsed as a whole.
const MAX_DOCUMENT: usize = 1 << 20;

/// A YAML document.
///
/// # Errors
/// Why it is not read, in one line.
pub(crate) fn yaml(text: &str) -> Result<Value, String> {
    document(text, Booleans::Old)
}

/// A workflow of GitHub, whose runner takes `on` and `yes` for words, as YAML 1.2 does.
///
/// # Errors
/// Why it is not read, in one line.
pub(crate) fn workflow(text: &str) -> Result<Value, String> {
    document(text, Booleans::Core)
}

/// Which words are booleans.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Booleans {
    /// Those of YAML 1.1: `yes`, `on`, and so on.
    Old,
    /// `true` and `false`.
    Core,
}

fn document(text: &str, booleans: Booleans) -> Result<Value, String> {
    if text.len() > MAX_YAML {
        return Err(format!("is larger than {} KB", MAX_YAML >> 10));
    }
    let budget = serde_saphyr::budget! {
        max_aliases: 500,
        max_anchors: 500,
        max_depth: 40,
        max_documents: 1,
        max_nodes: 20_000,
    };
    let strict_booleans = booleans == Booleans::Core;
    // GitLab takes the last of two keys with one name, and GitHub neither.
    let duplicate_keys = match booleans {
        Booleans::Old => serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        Booleans::Core => serde_saphyr::options::DuplicateKeyPolicy::Error,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        strict_booleans: strict_booleans,
        duplicate_keys: duplicate_keys,
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|err| format!("is not valid YAML: {}", first_line(&err.to_string())))?;
    if nodes(&value, 50_000) == 0 {
        return Err("has too many parts, perhaps by aliases".to_owned());
    }
    Ok(value)
}

/// How much of `room` is left when every part of a value takes one.
fn nodes(value: &Value, room: usize) -> usize {
    let room = room.saturating_sub(1);
    match value {
        Value::Array(many) => many.iter().fold(room, |room, one| nodes(one, room)),
        Value::Object(map) => map.values().fold(room, |room, one| nodes(one, room)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => room,
    }
}

/// JSON as editors write it: with comments, and commas before closing brackets.
///
/// # Errors
/// Why it is not read, in one line.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    if text.len() > MAX_DOCUMENT {
        return Err(format!("is larger than {} KB", MAX_DOCUMENT >> 10));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&without_comments(text)))
        .map_err(|err| format!("is not valid JSON: {err}"))
}

/// TOML as a table.
///
/// # Errors
/// Why it is not read, in one line.
pub(crate) fn toml(text: &str) -> Result<toml::Table, String> {
    if text.len() > MAX_DOCUMENT {
        return Err(format!("is larger than {} KB", MAX_DOCUMENT >> 10));
    }
    text.parse::<toml::Table>()
        .map_err(|err| format!("is not valid TOML: {}", first_line(err.message())))
}

fn first_line(text: &str) -> String {
    patchwright_base::text::line(text.lines().next().unwrap_or_default())
}

/// Comments become spaces, and so do commas that nothing follows. Strings are left alone.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut comma = None;
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => {
                out.push(c);
                comma = None;
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => while chars.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
            }
            (',', _) => {
                comma = Some(out.len());
                out.push(c);
            }
            (']' | '}', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            _ => {
                if !c.is_whitespace() {
                    comma = None;
                }
                out.push(c);
            }
        }
    }
    out
}

/// The text of a value that is a word: numbers and booleans too, as YAML writes versions.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The text that GitHub's runner makes of a value: numbers are of double precision and lose their zeros.
pub(crate) fn runner_scalar(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) if !number.is_u64() && !number.is_i64() => {
            Some(number.as_f64()?.to_string())
        }
        other => scalar(other),
    }
}

/// The texts of a value that is one or a list.
pub(crate) fn scalars(value: &Value) -> Vec<String> {
    match value {
        Value::Array(many) => many.iter().filter_map(scalar).collect(),
        one => scalar(one).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_comments_is_json() {
        let text = "{ // name\n \"a\": \"// no /* comment */, ]\", /* x */ \"b\": [1, 2,], \"c\": \"\\\"\",\n}";
        let value = json(text).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"a": "// no /* comment */, ]", "b": [1, 2], "c": "\""})
        );
        assert!(json("{ /* for ever").is_err());
    }

    #[test]
    fn a_workflow_is_read_as_the_runner_does() {
        let rows = [
            ("on", "on"),
            ("yes", "yes"),
            ("Off", "Off"),
            ("n", "n"),
            ("true", "true"),
            ("TRUE", "true"),
            ("010", "10"),
            ("1.0", "1"),
            ("3.10", "3.1"),
            ("'3.10'", "3.10"),
            ("0x1F", "31"),
            ("12", "12"),
        ];
        for (written, expected) in rows {
            let value = workflow(&format!("a: {written}")).unwrap();
            let found = value.get("a").and_then(runner_scalar);
            assert_eq!(found.as_deref(), Some(expected), "{written}");
        }
        assert_eq!(workflow("on: push").unwrap(), serde_json::json!({"on": "push"}));
    }

    #[test]
    fn bombs_and_rubbish_are_refused_in_one_line() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let many = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{many}]\n"));
        }
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        for text in [&bomb, &deep, "a: [", "a: \"b"] {
            let why = yaml(text).unwrap_err();
            assert!(!why.contains('\n') && why.len() < 400, "{why}");
        }
        assert!(yaml(&"- x\n".repeat(100_000)).unwrap_err().contains("larger"));
        assert!(toml("a = [").is_err() && json(&deep).is_err());
    }
}

//! JSON as models write it. Two slips can only mean one thing and are read as that: control characters that stand in a
//! string as they are (a line break, above all), and an object whose last brace is missing. Everything else stays an error.

use std::borrow::Cow;

use serde_json::Value;

/// Reads JSON, with those slips.
///
/// # Errors
/// For what is no JSON even so: what is wrong with the text as it was written.
pub fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|err| {
        let mended = mended(text.trim()).and_then(|text| serde_json::from_str(&text).ok());
        mended.ok_or(err)
    })
}

/// The text with `\n` and the like in strings where the characters themselves stood.
pub fn escaped(text: &str) -> Cow<'_, str> {
    Scan::of(text).text
}

/// The text without those slips; `None` where a string does not end, which may be a value that was cut.
fn mended(text: &str) -> Option<String> {
    let scan = Scan::of(text);
    if scan.in_string {
        return None;
    }
    let mut text = scan.text.into_owned();
    // A number may have had more digits, and more than one missing brace is a text that was cut anywhere.
    let is_whole = text.ends_with(['"', '}', ']'])
        || ["true", "false", "null"].iter().any(|word| text.ends_with(word));
    if scan.depth == 1 && is_whole && text.starts_with('{') {
        text.push('}');
    }
    Some(text)
}

struct Scan<'t> {
    text: Cow<'t, str>,
    in_string: bool,
    /// Brackets that are open at the end.
    depth: i64,
}

impl Scan<'_> {
    fn of(text: &str) -> Scan<'_> {
        let (mut in_string, mut is_escaped, mut depth) = (false, false, 0_i64);
        let mut out = String::new();
        let mut copied = 0;
        for (at, byte) in text.bytes().enumerate() {
            if !in_string {
                match byte {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                continue;
            }
            // Behind a backslash, a line break may be meant as one or as none.
            if byte < b' ' && !is_escaped {
                out.push_str(&text[copied..at]);
                let character = Value::from(char::from(byte).to_string()).to_string();
                out.push_str(character.trim_matches('"'));
                copied = at + 1;
            }
            in_string = byte != b'"' || is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
        }
        let text = if copied == 0 {
            Cow::Borrowed(text)
        } else {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        };
        Scan { text, in_string, depth }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::lenient_json::*;

    #[test]
    fn slips_with_one_meaning_are_read() {
        for (text, expected) in [
            (r#"{"a": "b"}"#, json!({"a": "b"})),
            ("{\"a\": \"b\n\tc\r\n\u{1}\"}", json!({"a": "b\n\tc\r\n\u{1}"})),
            (r#"{"a": "b""#, json!({"a": "b"})),
            ("{\"a\": [\"b\nc\"]\n", json!({"a": ["b\nc"]})),
            (r#"{"a": {"b": "}"}"#, json!({"a": {"b": "}"}})),
            (r#"{"a": "\"", "b": true"#, json!({"a": "\"", "b": true})),
            ("{\"a\": \"é\nü\"", json!({"a": "é\nü"})),
            (" 7 ", json!(7)),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text:?}");
        }
        assert_eq!(escaped("\n{\"a\": \"b\nc\"}"), "\n{\"a\": \"b\\nc\"}");
    }

    /// What may have been cut, or may mean several things, is told as it was written.
    #[test]
    fn other_slips_are_errors() {
        for text in [
            "",
            "{",
            r#"{"a": "b"#,
            r#"{"a": "b","#,
            r#"{"a": "b", "c""#,
            r#"{"a": "b", "c":"#,
            r#"{"a": 12"#,
            r#"{"a": tru"#,
            r#"{"a": {"b": "c""#,
            r#"{"a": [{"b": "c"]}"#,
            r#"["a""#,
            r#"{"a": "b"}}"#,
            r#"{"a": "b" "c"}"#,
            "{\"a\": \"b\\\nc\"}",
            "{\"a\": \"b\n, \"c\": \"d\"}",
            "{'a': 'b'}",
        ] {
            let err = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(read(text).unwrap_err().to_string(), err, "{text:?}");
        }
    }
}

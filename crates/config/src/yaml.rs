//! What the YAML parser says, in words about the file: its own are partly for programmers who use it.

use std::borrow::Cow;

use patchwright_base::nearby;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

/// The error with its place and the lines around it.
pub fn explained(err: &Error) -> String {
    err.render_with_formatter(&PlainWords)
}

/// What is said of these errors instead, without their place.
pub fn plain_words(err: &Error) -> Option<String> {
    let words = match err {
        Error::Unexpected { expected: "sequence start", .. } => {
            "a list is expected here, such as `[a, b]`"
        }
        Error::Unexpected { expected: "mapping start", .. } => "keys with values are expected here",
        Error::Unexpected { expected: "string scalar", .. } => "a text is expected here",
        Error::InvalidScalar { ty, .. } => match *ty {
            "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => {
                "a whole number is expected here, 0 or more"
            }
            "f32" | "f64" | "floating point" => "a number is expected here",
            "bool" | "boolean" => "`true` or `false` is expected here",
            _ => return None,
        },
        Error::SerdeUnknownField { field, expected, .. } => {
            return Some(unknown("key", field, expected));
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            return Some(unknown("value", variant, expected));
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return Some(format!("`{key}` is there twice"));
        }
        Error::DuplicateMappingKey { .. } => "a key is there twice",
        Error::MultipleDocuments { .. } => {
            "another document begins here; a file is a single one, without `---`"
        }
        _ => return None,
    };
    Some(words.to_owned())
}

/// Names that are listed where none of them is like what was written.
const MAX_LISTED: usize = 12;

/// The message about an unknown name.
fn unknown(what: &str, name: &str, there: &[&str]) -> String {
    match nearby::nearest(name, there.iter().copied()) {
        Some(near) => format!("unknown {what} `{name}`; did you mean `{near}`?"),
        None if there.len() > MAX_LISTED => format!("unknown {what} `{name}`"),
        None => format!("unknown {what} `{name}`, expected one of {}", there.join(", ")),
    }
}

struct PlainWords;

impl MessageFormatter for PlainWords {
    fn format_message<'a>(&self, err: &'a Error) -> Cow<'a, str> {
        plain_words(err).map_or_else(|| DefaultMessageFormatter.format_message(err), Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn names_are_listed_where_they_are_few_and_none_is_meant() {
        let few = ["model", "base-url"];
        let rows = [
            ("base_url", "unknown key `base_url`; did you mean `base-url`?"),
            ("colour", "unknown key `colour`, expected one of model, base-url"),
        ];
        for (name, expected) in rows {
            assert_eq!(unknown("key", name, &few), expected);
        }
        assert_eq!(unknown("key", "colour", &few.repeat(7)), "unknown key `colour`");
    }
}

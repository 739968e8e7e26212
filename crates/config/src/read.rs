//! How the text of a value is read, in a file or an input of the Action.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Deserializer};

use patchwright_base::duration::parse_duration;
use patchwright_policy::names::Pattern;

use crate::{check, output_schema};

/// Parses `512`, `64k`, `100m`, `4g` as bytes (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let mistake = || format!("`{text}` is not a size; write for example `512m` or `4g`");
    let lower = text.trim().to_ascii_lowercase();
    let (digits, unit) = match lower.char_indices().last() {
        Some((at, 'k')) => (&lower[..at], 1u64 << 10),
        Some((at, 'm')) => (&lower[..at], 1 << 20),
        Some((at, 'g')) => (&lower[..at], 1 << 30),
        _ => (lower.as_str(), 1),
    };
    let count: u64 = digits.parse().map_err(|_| mistake())?;
    count.checked_mul(unit).ok_or_else(mistake)
}

#[expect(clippy::unnecessary_wraps, reason = "all readers of inputs have one shape")]
pub(crate) fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A JSON Schema that can be used.
pub(crate) fn schema(text: &str) -> Result<serde_json::Value, String> {
    let schema = serde_json::from_str(text).map_err(|err| format!("is not JSON: {err}"))?;
    output_schema::check(&schema).map_err(|why| format!("the schema {why}"))?;
    Ok(schema)
}

pub(crate) fn number<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|err| format!("`{text}` is not valid: {err}"))
}

pub(crate) fn parsed<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

/// One of the words of an enum, as on the command line.
pub(crate) fn choice<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let words: Vec<String> = words.map(|word| format!("`{}`", word.get_name())).collect();
        format!("`{text}` is not one of {}", words.join(", "))
    })
}

pub(crate) fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("must be `true` or `false`: {text}"))
}

/// Entries between commas or lines.
pub(crate) fn list(text: &str) -> Result<Vec<String>, String> {
    split(text, &[',', '\n'])
}

/// Commands, which may have commas in them.
pub(crate) fn lines(text: &str) -> Result<Vec<String>, String> {
    split(text, &['\n'])
}

/// Patterns of titles.
pub(crate) fn patterns(text: &str) -> Result<Vec<String>, String> {
    lines(text)?.iter().map(|line| pattern(line)).collect()
}

pub(crate) fn pattern(text: &str) -> Result<String, String> {
    Pattern::parse(text).map(|_| text.to_owned())
}

/// Hosts, however they are separated.
pub(crate) fn hosts(text: &str) -> Result<Vec<String>, String> {
    split(text, &[',', '\n', ' '])
}

#[expect(clippy::unnecessary_wraps, reason = "all readers of inputs have one shape")]
fn split(text: &str, separators: &[char]) -> Result<Vec<String>, String> {
    let entries = text.split(separators).map(|entry| entry.trim().to_owned());
    Ok(entries.filter(|entry| !entry.is_empty()).collect())
}

/// The name after `@`, with or without it.
pub(crate) fn mention(text: &str) -> Result<String, String> {
    check::mention(text)?;
    Ok(without_at(text).to_owned())
}

fn without_at(name: &str) -> &str {
    name.strip_prefix('@').unwrap_or(name)
}

/// A list in a file, which may be a single entry: `setup: none`.
pub(crate) fn file_words<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text, or a list of texts")]
    enum TextOrList {
        One(String),
        Many(Vec<String>),
    }
    Ok(Option::<TextOrList>::deserialize(deserializer)?.map(|words| match words {
        TextOrList::One(word) => vec![word],
        TextOrList::Many(words) => words,
    }))
}

/// A duration in a file.
pub(crate) fn file_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_duration(&text).map_err(serde::de::Error::custom)).transpose()
}

/// A size in a file.
pub(crate) fn file_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_size(&text).map_err(serde::de::Error::custom)).transpose()
}

/// A name in a file; whether it can be one is checked with the rest of the file.
pub(crate) fn file_mention<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.map(|name| without_at(&name).to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::read::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h", 3600), ("1h30m", 5400)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "5", "m", "5d", "-1s", "99999999999999999999s", "10000h", "1m30"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for (text, bytes) in [("512", 512), ("64k", 65_536), ("4G", 4 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "g", "4t", "-1", "99999999999999999999g"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}

//! The text of a call of `exec`: its settings and its script. Pure.

use serde::Deserialize;

/// Largest script, in bytes.
const MAX_SOURCE: usize = 512 << 10;

const PRAGMA: &str = "@exec:";

/// A script and what its first line asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Script {
    pub source: String,
    pub yield_time_ms: Option<u64>,
    pub max_output_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    yield_time_ms: Option<u64>,
    max_output_tokens: Option<u64>,
}

/// Reads a call's text. The line with the settings stays in the script, so that the lines of errors are
/// those that the model wrote.
///
/// # Errors
/// For the model: what is wrong with the text.
pub(super) fn read(text: &str) -> Result<Script, String> {
    let source = super::super::script_text::bare(text, "code");
    if source.trim().is_empty() {
        return Err("the script is empty: send JavaScript source".to_owned());
    }
    if source.len() > MAX_SOURCE {
        return Err(format!("the script has {} bytes; {MAX_SOURCE} are taken", source.len()));
    }
    let first = source.lines().next().unwrap_or_default().trim();
    let settings = first.strip_prefix("//").map(str::trim_start);
    let settings = match settings.and_then(|line| line.strip_prefix(PRAGMA)) {
        None => Settings::default(),
        Some(json) => serde_json::from_str(json.trim()).map_err(|err| {
            format!(
                "the first line is no valid `// {PRAGMA}` line: {err}. It takes JSON with \
                 `yield_time_ms` and `max_output_tokens`"
            )
        })?,
    };
    Ok(Script {
        yield_time_ms: settings.yield_time_ms,
        max_output_tokens: settings.max_output_tokens,
        source,
    })
}

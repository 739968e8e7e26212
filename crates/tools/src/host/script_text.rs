//! Source code as models send it to tools that take it bare: some wrap it all the same. Pure.

use serde_json::Value;

/// The source without a JSON object or a code fence around it. Neither is a program by itself.
pub(super) fn bare(text: &str, field: &str) -> String {
    let trimmed = text.trim();
    if trimmed.starts_with('{')
        && let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(trimmed)
        && let Some(Value::String(code)) = fields.get(field).or_else(|| fields.get("input"))
    {
        return code.clone();
    }
    if let Some(fenced) = trimmed.strip_prefix("```")
        && let Some(body) = fenced.strip_suffix("```")
        && let Some((language, body)) = body.split_once('\n')
        && matches!(language.trim(), "" | "js" | "javascript" | "ts" | "typescript" | "mjs")
    {
        return body.to_owned();
    }
    text.to_owned()
}

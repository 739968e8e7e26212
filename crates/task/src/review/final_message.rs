//! Findings in a final message. Models that were trained to end a review with JSON (`{"findings": […]}`
//! with `title`, `body`, `confidence_score`, `priority` and `code_location`, as the review mode of Codex
//! ends) do so although there is a tool; what they say is taken all the same.

use serde::Deserialize;
use serde_json::Value;

use patchwright_review::finding::{Category, Finding, Priority, Verdict};

/// Most findings that are taken from a message; the most important of them are kept later.
const MAX_FINDINGS: usize = 2000;
/// Most lines that a location may span.
const MAX_LINES: u32 = 200;
/// Bytes of a body.
const MAX_BODY: usize = 16 << 10;

/// What a final message holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedMessage {
    /// The words around or in the JSON.
    pub summary: String,
    pub findings: Vec<Finding>,
    /// Why findings that seem to be there could not be taken.
    pub trouble: Option<String>,
}

#[derive(Deserialize)]
struct Review {
    findings: Vec<Value>,
    overall_correctness: Option<String>,
    overall_explanation: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    title: String,
    #[serde(default)]
    body: String,
    confidence_score: Option<f64>,
    /// A number, or a word such as `P1`.
    priority: Option<Value>,
    code_location: Location,
}

#[derive(Deserialize)]
struct Location {
    #[serde(alias = "path", alias = "file_path")]
    absolute_file_path: String,
    line_range: Lines,
}

#[derive(Deserialize)]
struct Lines {
    start: u32,
    end: Option<u32>,
}

/// Reads a final message. `resolve` turns a path into that of a changed file where it is one, `read`
/// gives a file of the head.
pub fn read(
    message: &str,
    resolve: &dyn Fn(&str) -> String,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> ParsedMessage {
    let plain = |trouble| ParsedMessage {
        summary: message.trim().to_owned(),
        findings: Vec::new(),
        trouble,
    };
    let Some((start, end)) = object(message) else {
        let tries = message.contains("\"findings\"") && message.contains('{');
        return plain(tries.then(|| "it holds no complete JSON object".to_owned()));
    };
    let review: Review = match serde_json::from_str(&message[start..end]) {
        Ok(review) => review,
        Err(err) => return plain(Some(err.to_string())),
    };
    let around = format!("{}{}", &message[..start], &message[end..]);
    let around = around.replace("```json", "").replace("```", "");
    let said = [review.overall_explanation.as_deref(), Some(around.trim())];
    let said: Vec<&str> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    let verdict =
        review.overall_correctness.map(|verdict| format!("\n\nVerdict: {}", verdict.trim()));
    let mut written = ParsedMessage {
        summary: format!("{}{}", said.join("\n\n"), verdict.unwrap_or_default()).trim().to_owned(),
        ..ParsedMessage::default()
    };
    let left_out = review.findings.len().saturating_sub(MAX_FINDINGS);
    for (at, value) in review.findings.into_iter().take(MAX_FINDINGS).enumerate() {
        match serde_json::from_value::<Item>(value) {
            Ok(item) => written.findings.push(finding(&item, resolve, read)),
            Err(err) => written.trouble = Some(format!("finding {}: {err}", at + 1)),
        }
    }
    if left_out > 0 {
        written.trouble = Some(format!("{left_out} findings are more than are taken"));
    }
    written
}

/// Where the object with the findings is.
fn object(message: &str) -> Option<(usize, usize)> {
    let key = message.find("\"findings\"")?;
    let start = message[..key].rfind('{')?;
    let mut values = serde_json::Deserializer::from_str(&message[start..]).into_iter::<Value>();
    values.next()?.ok()?;
    Some((start, start + values.byte_offset()))
}

fn finding(
    item: &Item,
    resolve: &dyn Fn(&str) -> String,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Finding {
    let path = resolve(&item.code_location.absolute_file_path);
    let Lines { start, end } = &item.code_location.line_range;
    let start = *start;
    let last = end.unwrap_or(start).clamp(start, start.saturating_add(MAX_LINES));
    let text = read(&path).map(|content| String::from_utf8_lossy(&content).into_owned());
    let quoted = text.unwrap_or_default();
    let skip = usize::try_from(start.saturating_sub(1)).unwrap_or(usize::MAX);
    let count = usize::try_from(last - start).unwrap_or(0) + 1;
    let quote: Vec<&str> = quoted.lines().skip(skip).take(count).collect();
    let (tagged, title) = without_tag(item.title.trim());
    let said = |value: &Value| match value {
        Value::String(word) => Priority::spelled(word),
        value => u8::try_from(value.as_u64()?).ok()?.try_into().ok(),
    };
    let priority = item.priority.as_ref().and_then(said).or(tagged);
    let body = &item.body[..item.body.floor_char_boundary(MAX_BODY)];
    Finding {
        path,
        quote: quote.join("\n"),
        line: Some(start),
        title: title.chars().take(200).collect(),
        body: body.to_owned(),
        priority: priority.unwrap_or(Priority::P2),
        confidence: item.confidence_score.unwrap_or(0.5).clamp(0.0, 1.0),
        category: Category::Other,
        replacement: None,
        reproduction: None,
        verdict: Verdict::Pending,
    }
}

/// `[P1] Title` → 1 and the title.
fn without_tag(title: &str) -> (Option<Priority>, &str) {
    let tagged = title.strip_prefix("[P").and_then(|rest| rest.split_once(']'));
    match tagged.and_then(|(digit, rest)| Some((Priority::spelled(digit)?, rest.trim()))) {
        Some((priority, rest)) => (Some(priority), rest),
        None => (None, title),
    }
}

#[cfg(test)]
mod tests {
    use crate::review::final_message::*;

    fn take(message: &str) -> ParsedMessage {
        let resolve = |path: &str| path.trim_start_matches("/workspace/").to_owned();
        let file = |path: &str| (path == "src/a.rs").then(|| b"one\ntwo\nthree\nfour\n".to_vec());
        read(message, &resolve, &file)
    }

    #[test]
    fn a_message_in_the_shape_of_codex_becomes_findings_with_the_quoted_lines() {
        let message = r#"Here is my review.
```json
{"findings": [{"title": "[P1] Two is wrong", "body": "Because.", "confidence_score": 0.8,
  "priority": null, "code_location": {"absolute_file_path": "/workspace/src/a.rs",
  "line_range": {"start": 2, "end": 3}}}],
 "overall_correctness": "patch is incorrect", "overall_explanation": "It breaks two.",
 "overall_confidence_score": 0.9}
```"#;
        let written = take(message);
        assert_eq!(written.trouble, None);
        assert_eq!(
            written.summary,
            "It breaks two.\n\nHere is my review.\n\nVerdict: patch is incorrect"
        );
        let [finding] = written.findings.as_slice() else { panic!("{written:?}") };
        assert_eq!((finding.path.as_str(), finding.quote.as_str()), ("src/a.rs", "two\nthree"));
        assert_eq!((finding.title.as_str(), finding.line), ("Two is wrong", Some(2)));
        assert_eq!((finding.priority, finding.confidence), (Priority::P1, 0.8));
    }

    #[test]
    fn words_are_a_summary_and_broken_json_is_trouble_with_the_words_kept() {
        let plain = take("All good.\n\nVerdict: correct");
        assert_eq!(plain.summary, "All good.\n\nVerdict: correct");
        assert_eq!((plain.findings.len(), plain.trouble), (0, None));
        for broken in [
            r#"{"findings": [{"title": "cut of"#,
            r#"{"findings": "none"}"#,
            r#"{"findings": [{"title": "no place"}]}"#,
        ] {
            let written = take(broken);
            assert!(written.trouble.is_some(), "{broken}");
            assert!(written.findings.is_empty(), "{broken}");
        }
        let empty = take(r#"{"findings": [], "overall_correctness": "patch is correct"}"#);
        assert_eq!((empty.summary.as_str(), empty.trouble), ("Verdict: patch is correct", None));
    }

    #[test]
    fn numbers_out_of_range_are_brought_into_it_and_priorities_are_read_as_words() {
        let message = r#"{"findings": [{"title": "t", "confidence_score": 7, "priority": 9,
            "code_location": {"absolute_file_path": "gone.rs", "line_range": {"start": 4294967295}}}]}"#;
        let written = take(message);
        let [finding] = written.findings.as_slice() else { panic!("{written:?}") };
        assert_eq!((finding.priority, finding.confidence), (Priority::P2, 1.0));
        assert_eq!(finding.quote, "");
        for (said, meant) in [
            ("\"P1\"", Priority::P1),
            ("\"0\"", Priority::P0),
            ("3", Priority::P3),
            ("\"high\"", Priority::P2),
        ] {
            let written =
                take(&message.replace("\"priority\": 9", &format!("\"priority\": {said}")));
            assert_eq!(written.findings[0].priority, meant, "{said}");
        }
    }
}

//! Findings that a model reported in more calls than one reply may have. They were not taken, and it was told so; what it
//! did not report again is lost, which the review has to say.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use patchwright_journal::{Entry, Line};
use patchwright_provider::item::{Item, Payload, ToolCall};
use patchwright_review::finding::Finding;
use patchwright_tools::dispatch::MAX_CALLS;
use patchwright_types::calls::Fault;

/// The tool that findings are reported with.
const TOOL: &str = "report_finding";

/// A report that was not taken, as far as it says what it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct UnheardFinding {
    #[serde(default)]
    path: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    quote: String,
}

/// The reports that were not taken, by the journal.
pub(super) fn reported(lines: &[Line]) -> Vec<UnheardFinding> {
    let entries = || lines.iter().map(|line| &line.entry);
    let refused: HashSet<&str> = entries()
        .filter_map(|entry| match entry {
            Entry::CallEnded { output, fault: Some(Fault::TooMany), .. } if output.name == TOOL => {
                Some(output.id.as_str())
            }
            _ => None,
        })
        .collect();
    if refused.is_empty() {
        return Vec::new();
    }
    let replied = entries().filter_map(|entry| match entry {
        Entry::Replied { reply, .. } => Some(&reply.items),
        _ => None,
    });
    let calls: HashMap<&str, &ToolCall> = replied
        .flatten()
        .filter_map(|item| match item {
            Item::Call(call) => Some((call.id.as_str(), call)),
            _ => None,
        })
        .collect();
    refused.into_iter().map(|id| calls.get(id).map(|call| said(call)).unwrap_or_default()).collect()
}

fn said(call: &ToolCall) -> UnheardFinding {
    let (Payload::Json(text) | Payload::Freeform(text) | Payload::Native(text)) = &call.payload;
    serde_json::from_str(text).unwrap_or_default()
}

/// How many of them were not reported again: in the same words, or about the same lines.
pub(super) fn still(unheard: &[UnheardFinding], found: &[Finding]) -> usize {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_found = |one: &&UnheardFinding| {
        found.iter().any(|other| {
            other.path == one.path.trim()
                && (words(&other.title) == words(&one.title)
                    || words(&other.quote) == words(&one.quote))
        })
    };
    unheard.iter().filter(|one| !is_found(one)).count()
}

/// What the review says about them.
pub(super) fn sentence(lost: usize) -> Option<String> {
    let findings = match lost {
        0 => return None,
        1 => "1 finding was".to_owned(),
        several => format!("{several} findings were"),
    };
    Some(format!(
        "{findings} not taken: the model reported them in one reply beyond its first {MAX_CALLS} calls, and not again"
    ))
}

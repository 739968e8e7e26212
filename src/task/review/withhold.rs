//! A finding that holds one of our own secrets is not published at all: what is left of it after
//! redaction could still say enough.

use super::outcome::Reviewed;
use crate::redact::Redactor;
use crate::review::anchor::{Anchor, Anchored};

/// The review without such findings, and how many there were.
pub(super) fn without_secrets(redactor: &Redactor, reviewed: &Reviewed) -> (Reviewed, usize) {
    let mut clean = reviewed.clone();
    clean.findings.retain(|anchored| !leaks(redactor, anchored));
    let withheld = reviewed.findings.len() - clean.findings.len();
    if !redactor.scan(clean.summary.as_bytes()).is_empty() {
        clean.summary = String::new();
        clean.notes.push(
            "the model's summary was withheld: it contained one of Patchwright's own secrets"
                .into(),
        );
    }
    if withheld > 0 {
        clean.notes.push(format!(
            "{withheld} finding(s) were withheld: they contained one of Patchwright's own secrets"
        ));
    }
    (clean, withheld)
}

fn leaks(redactor: &Redactor, anchored: &Anchored) -> bool {
    let finding = &anchored.finding;
    let place = match &anchored.anchor {
        Anchor::Lines { path, .. } => path.as_str(),
        Anchor::File { why, .. } | Anchor::Nowhere { why } => why.as_str(),
    };
    let parts = [
        finding.path.as_str(),
        place,
        &finding.title,
        &finding.body,
        &finding.quote,
        finding.replacement.as_deref().unwrap_or_default(),
        anchored.suggestion.as_deref().unwrap_or_default(),
    ];
    // Together as well: a secret may be spread over title and body.
    let whole = parts.concat();
    let is_in = |text: &str| !redactor.scan(text.as_bytes()).is_empty();
    parts.into_iter().any(is_in) || is_in(&whole)
}

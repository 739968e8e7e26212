//! A finding that holds one of our own secrets is not published at all: what is left of it after
//! redaction could still say enough.

use patchwright_base::redact::Redactor;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::Priority;
use patchwright_types::reviewed::Reviewed;

/// The review without such findings, and how important those are.
pub(super) fn without_secrets(
    redactor: &Redactor,
    reviewed: &Reviewed,
) -> (Reviewed, Vec<Priority>) {
    let mut clean = reviewed.clone();
    let (leaking, findings): (Vec<Anchored>, Vec<Anchored>) =
        clean.findings.into_iter().partition(|anchored| leaks(redactor, anchored));
    clean.findings = findings;
    let withheld: Vec<Priority> = leaking.iter().map(|one| one.finding.priority).collect();
    if !redactor.scan(clean.summary.as_bytes()).is_empty() {
        clean.summary = String::new();
        clean.notes.push(
            "the model's summary was withheld: it contained one of Patchwright's own secrets"
                .into(),
        );
    }
    if !withheld.is_empty() {
        clean.notes.push(format!(
            "{} finding(s) were withheld: they contained one of Patchwright's own secrets",
            withheld.len()
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
        finding.reproduction.as_deref().unwrap_or_default(),
        anchored.suggestion.as_deref().unwrap_or_default(),
    ];
    // Together as well: a secret may be spread over title and body.
    let whole = parts.concat();
    let is_in = |text: &str| !redactor.scan(text.as_bytes()).is_empty();
    parts.into_iter().any(is_in) || is_in(&whole)
}

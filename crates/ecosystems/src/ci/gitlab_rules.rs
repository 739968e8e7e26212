//! Whether GitLab runs a job by itself for a merge request or for a push to a branch.
//! Sources: "CI/CD YAML syntax reference", `rules`, `only`; "Predefined CI/CD variables".

use serde_json::Value;

use crate::read::{scalar, scalars};

/// Most rules of a job, and parts of a condition.
const MAX_RULES: usize = 100;

/// What a pipeline runs for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    MergeRequest,
    Push,
}

/// A variable of a pipeline.
#[derive(PartialEq, Eq)]
enum Variable<'a> {
    Is(&'a str),
    Unset,
    Unknown,
}

/// `rules` are those of the job with what they refer to.
pub(super) fn runs(job: &Value, rules: Option<&[Value]>) -> bool {
    let tags = job.get("tags").map(scalars).unwrap_or_default();
    let is_elsewhere = |tag: &String| {
        let tag = tag.to_ascii_lowercase();
        tag.contains("windows") || tag.contains("macos")
    };
    let when = job.get("when").and_then(scalar).unwrap_or_default();
    let by_event = match rules {
        Some(rules) => {
            [Event::MergeRequest, Event::Push].iter().any(|event| by_rules(rules, &when, *event))
        }
        None => runs_when(&when) && is_for_changes(job),
    };
    by_event && !tags.iter().any(is_elsewhere)
}

/// A job starts alone, and not after a failure.
fn runs_when(when: &str) -> bool {
    !matches!(when, "never" | "manual" | "on_failure")
}

/// The first rule that holds decides. What cannot be known may hold.
fn by_rules(rules: &[Value], of_job: &str, event: Event) -> bool {
    for rule in rules.iter().take(MAX_RULES) {
        let when = rule.get("when").and_then(scalar).unwrap_or_else(|| of_job.to_owned());
        let says = rule.get("if").and_then(scalar).map_or(Some(true), |it| holds(&it, event));
        let is_open = ["changes", "exists"].iter().any(|key| rule.get(*key).is_some());
        match says {
            Some(false) => {}
            Some(true) if !is_open => return runs_when(&when),
            _ if runs_when(&when) => return true,
            _ => {}
        }
    }
    false
}

/// `only` names more than tags, schedules and the like.
fn is_for_changes(job: &Value) -> bool {
    const OTHERS: &[&str] =
        &["tags", "schedules", "triggers", "web", "api", "pipelines", "chat", "external"];
    let only = job.get("only").map(|only| only.get("refs").unwrap_or(only));
    let only = only.map(scalars).unwrap_or_default();
    only.is_empty() || only.iter().any(|name| !OTHERS.contains(&name.as_str()))
}

/// Whether a condition holds; `None` where that depends on something else.
fn holds(condition: &str, event: Event) -> Option<bool> {
    // A pattern may have the signs of operators in it.
    if condition.contains('(') || condition.len() > 2_000 {
        return None;
    }
    any_of(condition.split("||").map(|part| {
        let all = part.split("&&").map(|term| holds_alone(term.trim(), event).map(|it| !it));
        any_of(all).map(|fails| !fails)
    }))
}

/// One is true, or else all are false.
fn any_of(mut terms: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    terms
        .try_fold(Some(false), |before, term| match term {
            Some(true) => Err(Some(true)),
            Some(false) => Ok(before),
            None => Ok(None),
        })
        .unwrap_or_else(|decided| decided)
}

/// `$A`, `$A == "b"`, `$A != $B`, `$A =~ /b/`.
fn holds_alone(term: &str, event: Event) -> Option<bool> {
    for (operator, is_equal) in [("==", true), ("!=", false)] {
        if let Some((left, right)) = term.split_once(operator) {
            let (left, right) = (value(left, event), value(right, event));
            let is_open = left == Variable::Unknown || right == Variable::Unknown;
            return (!is_open).then_some((left == right) == is_equal);
        }
    }
    for (operator, of_nothing) in [("=~", false), ("!~", true)] {
        if let Some((left, _)) = term.split_once(operator) {
            return (value(left, event) == Variable::Unset).then_some(of_nothing);
        }
    }
    match value(term, event) {
        Variable::Is(text) => Some(!text.is_empty()),
        Variable::Unset => Some(false),
        Variable::Unknown => None,
    }
}

fn value(word: &str, event: Event) -> Variable<'_> {
    let word = word.trim();
    if word == "null" {
        return Variable::Unset;
    }
    let Some(name) = word.strip_prefix('$') else {
        let quoted = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
        return quoted('"').or_else(|| quoted('\'')).map_or(Variable::Unknown, Variable::Is);
    };
    let is_request = event == Event::MergeRequest;
    match name.trim_start_matches('{').trim_end_matches('}') {
        "CI_PIPELINE_SOURCE" if is_request => Variable::Is("merge_request_event"),
        "CI_PIPELINE_SOURCE" => Variable::Is("push"),
        "CI_COMMIT_TAG" => Variable::Unset,
        "CI_COMMIT_BRANCH" if is_request => Variable::Unset,
        "CI_COMMIT_BRANCH" | "CI_COMMIT_REF_NAME" | "CI_COMMIT_REF_SLUG" => Variable::Is("change"),
        "CI_DEFAULT_BRANCH" => Variable::Is("main"),
        "CI_MERGE_REQUEST_ID" | "CI_MERGE_REQUEST_IID" if is_request => Variable::Is("1"),
        name if name.starts_with("CI_MERGE_REQUEST_") && !is_request => Variable::Unset,
        _ => Variable::Unknown,
    }
}

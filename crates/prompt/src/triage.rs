//! The task: triage this issue.

use minijinja::{Value, context};

use super::{render, tag_of};
use patchwright_base::error::{Failure, Result};

/// What the model is told. All texts are clean already.
#[derive(Clone, Copy, Debug)]
pub struct TriageTask<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub number: u64,
    pub most_questions: usize,
    /// Name and description.
    pub labels: &'a [(String, String)],
    pub candidates: &'a [TriageCandidate],
    /// Path and text.
    pub templates: &'a [(String, String)],
    /// From `context::thread`.
    pub thread: &'a str,
}

/// Another issue, which may be about the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriageCandidate {
    pub number: u64,
    pub open: bool,
    pub title: String,
    pub body: String,
}

/// The task in words.
///
/// # Errors
/// When a text holds the tag that is made from all of them.
pub fn triage_task(task: &TriageTask<'_>) -> Result<String> {
    let TriageTask { repository, number, most_questions, thread, .. } = *task;
    let pairs = task.labels.iter().chain(task.templates);
    let mut texts: Vec<&str> = pairs.flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    texts.extend(task.candidates.iter().flat_map(|it| [it.title.as_str(), it.body.as_str()]));
    texts.push(thread);
    let tag = tag_of(&texts);
    if texts.iter().any(|text| text.contains(&tag)) {
        return Err(Failure::internal("a text holds the digest of itself"));
    }
    let labels = task.labels.iter().map(|(name, description)| context! { name, description });
    let templates = task.templates.iter().map(|(path, text)| context! { path, text });
    let candidates = task.candidates.iter().map(|it| {
        let state = if it.open { "open" } else { "closed" };
        context! { number => it.number, state, title => it.title.as_str(), body => it.body.as_str() }
    });
    let (labels, templates) = (labels.collect::<Vec<Value>>(), templates.collect::<Vec<Value>>());
    let candidates = candidates.collect::<Vec<Value>>();
    render(
        "task/triage.md",
        context! { repository, number, most_questions, labels, candidates, templates, thread, tag },
    )
}

//! The model's answer: what form it has, and what of it counts.

use serde::Deserialize;
use serde_json::{Value, json};

use super::admit::AdmittedTriage;
use super::choices::TriageChoices;
use super::labels::is_same;
use super::publish;
use crate::run::Run;
use patchwright_base::text;
use patchwright_journal::Entry;
use patchwright_types::outcome::Outcome;
use patchwright_types::triaged::{Duplicate, LabelState, ProposedLabel, Triaged};

/// What one issue gets at most.
pub(super) const MAX_QUESTIONS: usize = 5;
const MAX_LABELS: usize = 5;
const MAX_DUPLICATES: usize = 5;
/// Bytes of one text.
const MAX_TEXT: usize = 1_000;
/// Answers that are named as dropped.
const MAX_DROPPED: usize = 20;

#[derive(Default, Deserialize)]
struct TriageReply {
    summary: String,
    labels: Vec<ChosenLabel>,
    duplicates: Vec<ChosenIssue>,
    missing: Vec<String>,
}

#[derive(Deserialize)]
struct ChosenLabel {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct ChosenIssue {
    number: u64,
    reason: String,
}

/// The schema of the answer. What may stand in it is not in the schema: what the model may not name is dropped,
/// and the rest counts.
pub(super) fn schema() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let list = |item: &Value| json!({"type": "array", "items": item});
    let object = |fields: Value| {
        let required: Vec<&String> =
            fields.as_object().into_iter().flat_map(|it| it.keys()).collect();
        json!({
            "type": "object", "required": required, "properties": fields, "additionalProperties": false,
        })
    };
    let reason = text("Why, in one sentence.");
    object(json!({
        "summary": text("What the issue is about, in one sentence."),
        "labels": list(&object(json!({
            "name": text("A label of the list, spelled as there."), "reason": reason,
        }))),
        "duplicates": list(&object(json!({
            "number": {"type": "integer", "description": "The number of an issue of the list."},
            "reason": reason,
        }))),
        "missing": list(&text("A question to the author.")),
    }))
}

/// What counts of the answer of a run.
pub(super) fn triaged(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    offer: &TriageChoices,
    outcome: &Outcome,
) -> Triaged {
    let answer = outcome.output.clone().and_then(|output| serde_json::from_value(output).ok());
    let TriageReply { summary, labels, duplicates, missing } = answer.unwrap_or_default();
    let mut dropped = Vec::new();
    let before = EarlierLabels::of(run);
    let labels = chosen_labels((admitted, &before), offer, labels, &mut dropped);
    let duplicates = chosen_issues(offer, duplicates, &mut dropped);
    let questions = missing.iter().map(|it| bounded(it)).filter(|it| !it.trim().is_empty());
    let questions = questions.take(MAX_QUESTIONS).collect();
    dropped.truncate(MAX_DROPPED);
    Triaged {
        run: run.folder.id.clone(),
        repository: admitted.repository.id.to_string(),
        number: admitted.issue.number,
        conclusion: outcome.conclusion,
        reason: outcome.reason.clone(),
        summary: bounded(&summary),
        labels,
        duplicates,
        questions,
        candidates: offer.candidates.len(),
        dropped,
        spending: outcome.spending.clone(),
    }
}

/// Labels that an earlier attempt of this run put on: it ended before the comment that remembers them.
#[derive(Default)]
struct EarlierLabels {
    /// It began to.
    intended: Vec<String>,
    /// GitHub said that they are on.
    done: Vec<String>,
}

impl EarlierLabels {
    fn of(run: &Run<'_>) -> EarlierLabels {
        let names = |detail: &Value| -> Vec<String> {
            detail
                .get("labels")
                .cloned()
                .and_then(|it| serde_json::from_value(it).ok())
                .unwrap_or_default()
        };
        let mut earlier = EarlierLabels::default();
        for line in &run.folder.recorded {
            match &line.entry {
                Entry::EffectIntended { effect, detail, .. } if effect == publish::LABELS => {
                    earlier.intended.extend(names(detail));
                }
                Entry::EffectDone { effect, detail, .. } if effect == publish::LABELS => {
                    earlier.done.extend(names(detail));
                }
                _ => {}
            }
        }
        earlier
    }
}

fn chosen_labels(
    (admitted, before): (&AdmittedTriage, &EarlierLabels),
    offer: &TriageChoices,
    chosen: Vec<ChosenLabel>,
    dropped: &mut Vec<String>,
) -> Vec<ProposedLabel> {
    let mut labels: Vec<ProposedLabel> = Vec::new();
    for ChosenLabel { name, reason } in chosen {
        let Some((name, _)) = offer.labels.iter().find(|(offered, _)| is_same(offered, &name))
        else {
            dropped
                .push(format!("the label `{}` was not among those to choose from", short(&name)));
            continue;
        };
        if labels.len() == MAX_LABELS || labels.iter().any(|it| it.name == *name) {
            continue;
        }
        let has = |labels: &[String]| labels.iter().any(|it| is_same(it, name));
        let was_put_on = has(&admitted.memory.labels) || has(&before.done);
        let state = match has(&admitted.issue.labels) {
            // Of one that was there before, no attempt intended anything.
            true if has(&before.intended) => LabelState::Added,
            true => LabelState::There,
            false if was_put_on => LabelState::TakenOff,
            false => LabelState::Proposed,
        };
        labels.push(ProposedLabel { name: name.clone(), reason: bounded(&reason), state });
    }
    labels
}

fn chosen_issues(
    offer: &TriageChoices,
    chosen: Vec<ChosenIssue>,
    dropped: &mut Vec<String>,
) -> Vec<Duplicate> {
    let mut found: Vec<Duplicate> = Vec::new();
    for ChosenIssue { number, reason } in chosen {
        let Some(candidate) = offer.candidates.iter().find(|it| it.number == number) else {
            dropped.push(format!("issue #{number} was not among those that the search found"));
            continue;
        };
        if found.len() == MAX_DUPLICATES || found.iter().any(|it| it.number == number) {
            continue;
        }
        let (title, open, reason) = (candidate.title.clone(), candidate.open, bounded(&reason));
        found.push(Duplicate { number, title, open, reason });
    }
    found
}

fn bounded(said: &str) -> String {
    text::head(said.trim(), MAX_TEXT)
}

fn short(said: &str) -> String {
    text::cut(&text::line(said), 60)
}

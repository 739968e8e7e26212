//! The second look: before anything is published, the reviewer is asked to confirm or to withdraw each of
//! its findings, in the same conversation and sandbox.
//!
//! It decides about findings only. When it fails, or there is no budget left for it, the review is what it
//! was without it, and the findings that have no answer say so.

use std::collections::BTreeSet;

use crate::agent_phase::Phase;
use crate::brief::message;
use patchwright_agent::{Agent, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_journal::{Entry, Line};
use patchwright_prompt::{self as prompt, QuestionedFinding};
use patchwright_provider::item::Role;
use patchwright_review::finding::{Finding, Priority, Verdict};
use patchwright_review::overall::{self, OverallVerdict};
use patchwright_tools::review::ReviewContext;

/// Findings of one message, and bytes of their texts together: a model that is asked about many at once
/// confirms them without checking.
const MAX_FINDINGS: usize = 20;
const MAX_BYTES: usize = 48 << 10;
/// Bytes of one finding's body.
const MAX_BODY: usize = 4 << 10;

/// Asks about all findings that have no answer yet.
///
/// # Errors
/// When the journal cannot be written.
pub(crate) async fn take(
    phase: &Phase<'_>,
    agent: &mut Agent<'_>,
    recorded: &[Line],
    review_context: &ReviewContext<'_>,
    stopped: &mut Stopped,
) -> Result<()> {
    let run = phase.run;
    if !run.config.review.second_look {
        return Ok(());
    }
    let mut asked = asked(recorded);
    review_context.question(&asked.iter().copied().collect::<Vec<_>>());
    let mut summary = first_summary(recorded.iter().map(|line| &line.entry)).map(str::to_owned);
    while matches!(stopped.reason, StopKind::Finished) {
        let batch = batch(&stopped.findings, &asked);
        if batch.is_empty() {
            break;
        }
        phase.progress.phase("Looking at the findings once more");
        let summary = summary.get_or_insert_with(|| stopped.final_message.clone()).clone();
        run.journal(&Entry::SecondLook { findings: batch.clone(), summary })?;
        review_context.question(&batch);
        let offered = run.config.review.suggestions;
        let question = question(&batch, stopped, review_context, offered)?;
        *stopped = agent.continue_with(vec![message(Role::User, question)]).await;
        asked.extend(batch);
    }
    if let Some(summary) = summary {
        conclude(stopped, summary);
    }
    Ok(())
}

/// The review as it is after the second look, however that ended.
fn conclude(stopped: &mut Stopped, summary: String) {
    let last = std::mem::take(&mut stopped.final_message);
    stopped.final_message = final_message(summary, last);
    let is_over = match &stopped.reason {
        StopKind::Finished | StopKind::Cancelled | StopKind::Machine(_) => None,
        reason => Some(reason.sentence()),
    };
    if let Some(why) = is_over {
        stopped.notes.push(format!("the second look at the findings was not finished: {why}"));
        stopped.reason = StopKind::Finished;
    }
    for finding in &mut stopped.findings {
        if finding.verdict == Verdict::Pending {
            finding.verdict = Verdict::Unconfirmed;
        }
    }
}

/// What stands for the review as a whole: what the model said after the second look, when that is a final
/// message again, or what it had said before.
fn final_message(summary: String, last: String) -> String {
    let is_final = last.lines().any(|line| {
        let line = line.trim_start_matches(['*', '#', '_', '>', ' ']);
        line.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("verdict:"))
    });
    if is_final { last } else { summary }
}

/// What a finished review that is on record had said: its findings and its final message, as
/// [`take`] left them.
pub(crate) fn recorded(recorded: &[Line], stopped: &mut Stopped) {
    if let Some(summary) = first_summary(recorded.iter().map(|line| &line.entry)) {
        conclude(stopped, summary.to_owned());
    }
}

fn first_summary<'e>(mut entries: impl Iterator<Item = &'e Entry>) -> Option<&'e str> {
    entries.find_map(|entry| match entry {
        Entry::SecondLook { summary, .. } => Some(summary.as_str()),
        _ => None,
    })
}

/// The findings that a killed attempt had asked about.
fn asked(recorded: &[Line]) -> BTreeSet<usize> {
    let of_pair = |pair: &[Line]| match (&pair[0].entry, &pair[1].entry) {
        (Entry::SecondLook { findings, .. }, Entry::Added { .. }) => findings.clone(),
        _ => Vec::new(),
    };
    recorded.windows(2).flat_map(of_pair).collect()
}

/// The numbers of the next findings to ask about.
fn batch(findings: &[Finding], asked: &BTreeSet<usize>) -> Vec<usize> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for (at, finding) in findings.iter().enumerate() {
        let number = at + 1;
        if finding.verdict != Verdict::Pending || asked.contains(&number) {
            continue;
        }
        let replacement = finding.replacement.as_ref().map_or(0, String::len);
        let code = finding.quote.len() + replacement;
        bytes += finding.body.len().min(MAX_BODY) + code + finding.title.len();
        if batch.len() == MAX_FINDINGS || (bytes > MAX_BYTES && !batch.is_empty()) {
            break;
        }
        batch.push(number);
    }
    batch
}

fn question(
    batch: &[usize],
    Stopped { findings, final_message, .. }: &Stopped,
    review_context: &ReviewContext<'_>,
    suggestions: bool,
) -> Result<String> {
    let asked = |number: &usize| {
        let mut finding = findings.get(number.checked_sub(1)?)?.clone();
        finding.body = text::head(&finding.body, MAX_BODY);
        let placed = (review_context.place)(&finding);
        // Signs and numbers that were copied along are no code. What leaves lines out stays as short as it is.
        let lines = finding.quote.lines().count();
        if let Some(code) = placed.code.filter(|code| code.lines().count() <= lines) {
            finding.quote = code;
        }
        // What is not offered to anybody is not asked about.
        finding.replacement = placed.suggestion.filter(|_| suggestions);
        let place = placed.words.unwrap_or_else(|_| match placed.off_diff {
            Some(lines) => format!("{}, {lines}, off the difference", text::code(&finding.path)),
            None => text::code(&finding.path),
        });
        Some((*number, finding, place))
    };
    let asked: Vec<(usize, Finding, String)> = batch.iter().filter_map(asked).collect();
    let texts = asked.iter().flat_map(|(_, finding, _)| {
        let replacement = finding.replacement.as_deref().unwrap_or_default();
        [finding.title.as_str(), finding.body.as_str(), finding.quote.as_str(), replacement]
    });
    let tag = prompt::tag_of(&texts.collect::<Vec<_>>());
    let questioned = asked.iter().map(|(number, finding, place)| QuestionedFinding {
        number: *number,
        finding,
        place,
    });
    let is_grave = asked.iter().any(|(_, finding, _)| finding.priority <= Priority::P1);
    let contradicts = is_grave && overall::said(final_message) == Some(OverallVerdict::Correct);
    prompt::second_look(&questioned.collect::<Vec<_>>(), contradicts, &tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_review_keeps_its_summary_unless_a_new_one_is_said() {
        let before = || "Adds it.\n\nVerdict: needs work".to_owned();
        let after = "Adds it well.\n\n**Verdict: correct**";
        assert_eq!(final_message(before(), "Both confirmed.".to_owned()), before());
        assert_eq!(final_message(before(), String::new()), before());
        assert_eq!(final_message(before(), after.to_owned()), after);
    }
}

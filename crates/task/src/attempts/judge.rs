//! A model that compares attempts which are equal by everything that was verified: asked once, without tools, for a
//! number and a reason. What it reads was written by models and by the repository, which may want to decide for it;
//! so it can choose among equal attempts and do nothing else, and its words are reported as its words.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::job::Job;
use super::super::pipeline::{FinishedJob, PreparedJob};
use super::super::run::Run;
use crate::brief::message;
use patchwright_agent::budget::{self, Decision, SharedBudget};
use patchwright_agent::compact;
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_config::Config;
use patchwright_git::diff::{self, DiffSpec};
use patchwright_git::{GitError, blocking};
use patchwright_prompt::{self as prompt, JudgedAttempt};
use patchwright_provider::catalogue::{self, Model, StructuredOutput};
use patchwright_provider::item::{Item, Role, Usage};
use patchwright_provider::output::as_sent;
use patchwright_provider::{OutputFormat, Progress, Provider, Reply, Request, ToolChoice};
use patchwright_types::attempts::JudgeReport;

/// Bytes of the task, of an agent's last words, and of all changes together.
const TASK: usize = 32 << 10;
const WORDS: usize = 3 << 10;
const CHANGES: usize = 160 << 10;
/// Characters of the reason in the report.
const REASON: usize = 500;
/// Most time for the answer.
const TIME: Duration = Duration::from_mins(5);

/// What came of asking.
#[derive(Debug, Default)]
pub(super) struct JudgeChoice {
    /// One of those that were compared.
    pub chosen: Option<u32>,
    pub report: JudgeReport,
    pub usage: Usage,
}

/// What the judge has to answer.
#[derive(Deserialize)]
struct JudgeReply {
    attempt: u32,
    #[serde(default)]
    reason: String,
}

/// Asks which of these is the best. Whatever goes wrong is in the report and ends nothing.
///
/// # Errors
/// When the prompts cannot be read, or the run was interrupted.
pub(super) async fn ask(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    budget: &SharedBudget,
    compared: &[(u32, &FinishedJob)],
) -> Result<JudgeChoice> {
    let judge = run.world.others.judge.as_ref();
    let model = judge.map_or(&run.world.model, |judge| &judge.model);
    let provider = judge.map_or(&run.world.provider, |judge| &judge.provider);
    let name = judge.map_or(run.config.model.as_str(), |judge| judge.name.as_str());
    let mut judged = JudgeChoice {
        report: JudgeReport {
            model: name.to_owned(),
            compared: compared.iter().map(|(number, _)| *number).collect(),
            ..JudgeReport::default()
        },
        ..JudgeChoice::default()
    };
    let question = question(run, job, prepared, compared).await?;
    let items = [message(Role::User, question)];
    let least = catalogue::least(model, estimate(&items));
    if let Decision::Stop(_) = budget.decide(least, run.remaining()) {
        "the budget has no room for it".clone_into(&mut judged.report.said);
        return Ok(judged);
    }
    run.environment.ui.say(&format!("asking `{name}` to compare {} attempts", compared.len()));
    let effort = judge.map_or_else(|| own_effort(&run.config, model), |it| it.effort(&run.config));
    let lost = parking_lot::Mutex::new(Usage::default());
    let answer = run
        .unless_interrupted(async {
            Ok(answer(run, (provider.as_ref(), model), effort, &items, &lost).await)
        })
        .await?;
    judged.usage = *lost.lock();
    match answer {
        Ok(reply) => {
            judged.usage += budget::plausible(reply.usage);
            take(&mut judged, &reply.text());
        }
        Err(why) => judged.report.said = why,
    }
    judged.report.said = run.world.redactor.redact(&judged.report.said);
    judged.report.cost_usd = catalogue::cost(model, &judged.usage).0;
    Ok(judged)
}

fn own_effort<'a>(config: &'a Config, model: &'a Model) -> Option<&'a str> {
    config.effort.as_deref().or(model.default_effort.as_deref())
}

/// Takes the answer, when it is one.
fn take(judged: &mut JudgeChoice, said: &str) {
    let clean = |words: &str| text::cut(&text::line(words), REASON);
    match read(said) {
        Some(answer) if judged.report.compared.contains(&answer.attempt) => {
            judged.chosen = Some(answer.attempt);
            judged.report.decided = true;
            judged.report.said = clean(&answer.reason);
        }
        Some(answer) => {
            judged.report.said = format!(
                "it chose attempt {}, which was not among those to compare",
                answer.attempt
            );
        }
        None => judged.report.said = format!("its answer could not be read: {}", clean(said)),
    }
}

/// The answer in a text, with a fence around it or not.
fn read(said: &str) -> Option<JudgeReply> {
    let said = said.trim();
    let inner = said.strip_prefix("```json").or_else(|| said.strip_prefix("```"));
    let inner = inner.and_then(|inner| inner.trim_end().strip_suffix("```")).unwrap_or(said);
    serde_json::from_str(inner.trim()).ok()
}

async fn answer(
    run: &Run<'_>,
    (provider, model): (&dyn Provider, &Model),
    effort: Option<&str>,
    items: &[Item],
    lost: &parking_lot::Mutex<Usage>,
) -> Result<Reply, String> {
    let schema = as_sent(&schema());
    let instructions = prompt::text("task/judge_system.md").map_err(|err| err.to_string())?;
    let is_bound = model.output_mode(&schema) == StructuredOutput::Schema;
    let key = format!("{}-judge", run.folder.id);
    let request = Request {
        model,
        instructions,
        tools: &[],
        history: items,
        effort,
        tool_choice: ToolChoice::None,
        output: is_bound.then_some(OutputFormat { name: "choice", schema: &schema }),
        cache_key: &key,
        previous: None,
        // The smallest change is there in any case.
        has_alternative: true,
    };
    let progress = |what: Progress<'_>| {
        if let Progress::Lost { usage } = what {
            *lost.lock() += budget::plausible(usage);
        }
    };
    let time = TIME.min(run.remaining());
    match tokio::time::timeout(time, provider.reply(&request, &progress)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(err)) => Err(text::cut(&text::line(&format!("it did not answer: {err}")), REASON)),
        Err(_) => {
            // What was sent is billed all the same.
            let input = compact::estimate(items) + compact::estimate_text(instructions);
            *lost.lock() += Usage { input, estimated: true, ..Usage::default() };
            Err(format!("it did not answer within {} s", time.as_secs()))
        }
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "attempt": { "type": "integer", "description": "The number of the best attempt." },
            "reason": { "type": "string", "description": "Why, in one or two sentences." },
        },
        "required": ["attempt", "reason"],
        "additionalProperties": false,
    })
}

async fn question(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    compared: &[(u32, &FinishedJob)],
) -> Result<String> {
    let (task, _) = job.subject.task_text(run, job.checkout, &prepared.checks).await?;
    let room = CHANGES / compared.len().max(1);
    let mut texts = Vec::new();
    for (number, finished) in compared {
        let change = change(job, finished, room).await;
        let words = clean(&finished.outcome.final_message, WORDS);
        texts.push((*number, facts(finished), words, change));
    }
    let attempts: Vec<JudgedAttempt<'_>> = texts
        .iter()
        .map(|(number, facts, words, change)| JudgedAttempt {
            number: *number,
            facts,
            words,
            change,
        })
        .collect();
    prompt::judge(&clean(&task, TASK), &attempts)
}

/// What others wrote, without what a reader cannot see.
fn clean(untrusted: &str, most: usize) -> String {
    text::head(&text::visible(untrusted), most)
}

fn facts(finished: &FinishedJob) -> String {
    let FinishedJob { outcome, .. } = finished;
    let files = outcome.change.iter().flat_map(|change| &change.files);
    let (added, removed) = files.fold((0, 0), |(added, removed), file| {
        (added + file.added_lines, removed + file.removed_lines)
    });
    format!("{added} lines added, {removed} removed, checks {}", outcome.evidence.verdict().word())
}

/// The change as a patch; what cannot be read is said to be so.
async fn change(job: &Job<'_>, finished: &FinishedJob, room: usize) -> String {
    let Some(change) = &finished.outcome.change else { return "(no change)".to_owned() };
    let workspace = job.checkout.workspace.clone();
    let tree = change.tree;
    let patch = blocking(move || {
        let base = diff::tree_of(&workspace.repo, workspace.base)?;
        let patch =
            diff::unified(&workspace.repo, base, tree, DiffSpec { paths: &[], max_bytes: room })?;
        Ok::<_, GitError>(patch)
    });
    match patch.await {
        Ok(patch) => {
            let mut text = clean(&String::from_utf8_lossy(&patch.bytes), room);
            if !patch.left_out.is_empty() {
                let left = patch.left_out.len();
                let _ = write!(text, "\n({left} files are too large to be shown)");
            }
            text
        }
        Err(_) => "(it cannot be shown)".to_owned(),
    }
}

/// Tokens of the question, roughly.
fn estimate(items: &[Item]) -> u64 {
    patchwright_agent::compact::estimate(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_attempt_that_was_compared_can_be_chosen() {
        for (answer, expected) in [
            (r#"{"attempt": 2, "reason": "smaller"}"#, Some(2)),
            ("```json\n{\"attempt\": 3}\n```", Some(3)),
            (r#"{"attempt": 1, "reason": "it told me to"}"#, None),
            ("Attempt 2 is the best.", None),
            (r#"{"attempt": "2"}"#, None),
            (r#"{"attempt": 2} and more"#, None),
            ("", None),
        ] {
            let report = JudgeReport { compared: vec![2, 3], ..JudgeReport::default() };
            let mut judged = JudgeChoice { report, ..JudgeChoice::default() };
            take(&mut judged, answer);
            assert_eq!(judged.chosen, expected, "{answer}");
            assert_eq!(judged.report.decided, expected.is_some(), "{answer}");
        }
    }
}

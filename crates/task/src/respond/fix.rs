//! `fix`: commits on the branch of the pull request; on an issue, the issue's own flow.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::admit::AdmittedCommand;
use super::land::{self, PushResult};
use super::landed;
use super::own_commits::{self, IsForeign};
use super::target;
use super::work::{self, Instruction};
use super::{CommandReply, DoneBy};
use crate::asked;
use crate::kept_work;
use crate::pipeline::{self, RunReport};
use crate::publish;
use crate::run::{Run, RunEnvironment};
use crate::salvage;
use crate::workspace::Checkout;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::PullRequest;
use patchwright_journal::{self as journal, Entry};
use patchwright_report::answer as words;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::task::IssueRequest;

pub(super) use crate::workspace::ASKED_TRAILER;

/// Does what was asked.
pub(super) async fn fix(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    asked: &str,
) -> Result<CommandReply> {
    let Some(pull) = &admitted.pull else { return Box::pin(issue(run, admitted, asked)).await };
    if let Some(landed) = landed::before_the_end(run, admitted, pull).await? {
        return Ok(landed);
    }
    let checkout = Checkout::of_command(run, admitted).await?;
    let instruction = Instruction {
        template: "task/fix.md",
        words: asked,
        failures: "",
        mode: None,
        trailers: trailers(admitted),
        conflict: None,
    };
    change(run, admitted, pull, &checkout, &instruction).await
}

/// Nothing is pushed to a branch that nobody will merge, or where people have ended the conversation.
pub(super) fn must_be_open(pull: &PullRequest) -> Result<()> {
    let (state, hint) = match (pull.open, pull.merged, pull.locked) {
        (true, _, false) => return Ok(()),
        (true, _, true) => ("locked", "unlock the conversation, and ask again"),
        (false, true, _) => ("merged", "open a new pull request, or ask in an issue"),
        (false, false, _) => ("closed", "open a new pull request, or ask in an issue"),
    };
    Err(Failure::nothing_to_do(format!("pull request #{} is {state}", pull.number)).hint(hint))
}

/// What our commits say below their message: the comment that they answer.
pub(super) fn trailers(admitted: &AdmittedCommand) -> Vec<String> {
    admitted.asked_in().map(|asked| format!("{ASKED_TRAILER}{asked}")).into_iter().collect()
}

/// Works on the head and pushes what came of it.
pub(super) async fn change(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    checkout: &Checkout,
    instruction: &Instruction<'_>,
) -> Result<CommandReply> {
    let is_foreign = IsForeign::of(run, admitted, pull);
    if let Some(commit) = own_commits::landed_before(run, checkout, instruction, is_foreign) {
        let commit = commit.to_string();
        let url = land::commit_url(&admitted.repository, &commit);
        return Ok(landed::said_again(pull, &commit, url.as_deref(), &pull.head_branch));
    }
    if !run.config.dry_run && landed::pushed(run, admitted).is_none() {
        run.unless_interrupted(target::guard(run, admitted, pull)).await?;
    }
    let done = work::work(run, admitted, checkout, instruction).await?;
    let landed = land::land(run, admitted, pull, checkout, &done).await;
    let landed = landed.map_err(|failure| kept_work::named(run, failure, &done.outcome))?;
    let mut outcome = done.outcome;
    match &landed {
        PushResult::Stopped => return Ok(nothing_new(run, CommandReply::stopped(), outcome)),
        PushResult::There { commit, url, branch } => {
            let answer = landed::said_again(pull, commit, url.as_deref(), branch);
            return Ok(nothing_new(run, answer, outcome));
        }
        PushResult::Patch { why } => {
            outcome.conclusion = Conclusion::Partial;
            outcome.reason = Some(why.clone());
        }
        PushResult::Secret { why } => {
            outcome.conclusion = Conclusion::Refused;
            outcome.reason = Some(why.clone());
        }
        PushResult::Contained { branch } => {
            outcome.conclusion = Conclusion::NothingToDo;
            outcome.reason = Some(format!("`{branch}` has this change by now"));
        }
        PushResult::Pushed { .. } | PushResult::Nothing => {}
    }
    // What a limit cut short is on a machine that may be thrown away, and the run is not resumed.
    let is_cut_short = outcome.conclusion == Conclusion::Budget
        && matches!(landed, PushResult::Nothing)
        && publish::is_worth_a_draft(&outcome);
    let is_shown = is_cut_short || matches!(landed, PushResult::Patch { .. });
    let patch = run.folder.path.join("change.patch");
    let patch = is_shown.then(|| fs_err::read(patch).ok()).flatten();
    let held_back = done.judged.held_back_patch.as_deref().map(String::from_utf8_lossy);
    let body = words::fixed(&words::Fixed {
        outcome: &outcome,
        landed: landed.seen(),
        patch: patch.as_deref().map(String::from_utf8_lossy).as_deref(),
        held_back: held_back.as_deref(),
    });
    let published = published(pull, &landed);
    salvage::write_report(run, &outcome, published.as_ref());
    let message = message(&outcome.final_message, &landed);
    Ok(CommandReply { message, published, ..CommandReply::of_work(outcome, body) })
}

/// Ends work of which nothing is pushed, because it is not wanted any more, or there already.
pub(super) fn nothing_new(run: &Run<'_>, answer: CommandReply, outcome: Outcome) -> CommandReply {
    let answer = answer.after(outcome);
    if let Some(outcome) = &answer.outcome {
        salvage::write_report(run, outcome, answer.published.as_ref());
    }
    answer
}

pub(super) fn message(said: &str, landed: &PushResult) -> String {
    match landed {
        PushResult::Pushed { commit, branch, .. } => {
            format!("{said}\n\npushed {commit} to {branch}")
        }
        PushResult::There { .. }
        | PushResult::Contained { .. }
        | PushResult::Patch { .. }
        | PushResult::Secret { .. }
        | PushResult::Nothing
        | PushResult::Stopped => said.to_owned(),
    }
}

pub(super) fn published(pull: &PullRequest, landed: &PushResult) -> Option<Published> {
    match landed {
        PushResult::Pushed { commit, branch, .. } | PushResult::There { commit, branch, .. } => {
            Some(published_in(pull, commit, branch))
        }
        PushResult::Contained { .. }
        | PushResult::Patch { .. }
        | PushResult::Secret { .. }
        | PushResult::Nothing
        | PushResult::Stopped => None,
    }
}

/// The pull request whose branch has this commit.
pub(super) fn published_in(pull: &PullRequest, commit: &str, branch: &str) -> Published {
    Published {
        draft: pull.draft,
        branch: branch.to_owned(),
        head_sha: commit.to_owned(),
        pull_request: pull.number,
        url: pull.html_url.clone(),
        operation: patchwright_forge::Operation::Updated,
    }
}

/// The issue's own flow, with the words (or the plan) beside what the issue says.
pub(super) async fn issue(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    asked: &str,
) -> Result<CommandReply> {
    let request = IssueRequest {
        repository: admitted.request.repository.clone(),
        number: admitted.request.number,
        trigger: admitted.request.trigger.clone(),
    };
    if let Some(answer) = ended_before(run, asked)? {
        return Ok(answer);
    }
    let environment =
        RunEnvironment { asked: words_of(asked), out: None, ..run.environment.clone() };
    let begun = |id: &str| run.folder.intends(ISSUE_RUN, id, json!({}));
    let (world, config) = (run.world, run.config.clone());
    let ended =
        Box::pin(pipeline::issue_within(world, config, request, environment, begun)).await?;
    let pull_request = ended.published.as_ref().map(|published| published.pull_request);
    let RunReport { outcome, published, folder, .. } = ended;
    Ok(IssueRun { outcome, pull_request, published, folder }.reply())
}

/// The answer, where the run of the issue has come to its end and only that is missing.
pub(super) fn ended_before(run: &Run<'_>, asked: &str) -> Result<Option<CommandReply>> {
    let ended = IssueRun::ended_before(run, words_of(asked).as_deref())?;
    if let Some(IssueRun { outcome, .. }) = &ended {
        run.environment.ui.say(&format!("run {} had done it", outcome.run));
    }
    Ok(ended.map(IssueRun::reply))
}

/// What was asked, as the model is told it; `None` without any words.
fn words_of(asked: &str) -> Option<String> {
    let words = crate::context::hidden::clean(asked).text.trim().to_owned();
    (!words.is_empty()).then_some(words)
}

/// How the journal calls the run of the issue that works for a command; its key is that run's id.
const ISSUE_RUN: &str = "issue_run";

fn begun_for_issue(entry: &Entry) -> Option<String> {
    match entry {
        Entry::EffectIntended { effect, key, .. } if effect == ISSUE_RUN => Some(key.clone()),
        _ => None,
    }
}

/// The folder of the newest run of the issue that the command in this folder has begun.
pub(crate) fn issue_run_in(folder: &Path) -> Option<PathBuf> {
    let (lines, _) = journal::read_until_damage(&folder.join(journal::FILE));
    let id = lines.iter().rev().find_map(|line| begun_for_issue(&line.entry))?;
    Some(folder.with_file_name(id)).filter(|folder| folder.is_dir())
}

/// The run of the issue, at its end.
struct IssueRun {
    outcome: Outcome,
    pull_request: Option<u64>,
    published: Option<Published>,
    folder: PathBuf,
}

impl IssueRun {
    /// The run that a killed attempt of this one had begun, where it has come to its end and only the answer is
    /// missing. One whose model did not hear these words has done something else.
    fn ended_before(run: &Run<'_>, asked: Option<&str>) -> Result<Option<IssueRun>> {
        let Some(id) = run.folder.find(begun_for_issue) else { return Ok(None) };
        let folder = run.world.state.join("runs").join(id);
        let (lines, _) = journal::read_until_damage(&folder.join(journal::FILE));
        let ended = lines.iter().rev().find_map(|line| match &line.entry {
            Entry::RunEnded { outcome } => Some(outcome.as_ref().clone()),
            _ => None,
        });
        let Some(outcome) = ended else { return Ok(None) };
        if let Some(asked) = asked
            && asked::is_unaware(&run.world.redactor, &folder, &lines, asked)?
        {
            return Ok(None);
        }
        let pull_request = lines.iter().rev().find_map(|line| match &line.entry {
            Entry::EffectDone { effect, detail, .. } if effect == "pull_request" => {
                detail["number"].as_u64()
            }
            _ => None,
        });
        // Written when all was published. Where it cannot be read, the number is known still.
        let published = fs_err::read(folder.join("result.json")).ok();
        let published = published.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let published =
            published.and_then(|it| serde_json::from_value(it["published"].clone()).ok());
        Ok(Some(IssueRun { outcome, pull_request, published, folder }))
    }

    fn reply(self) -> CommandReply {
        let IssueRun { outcome, pull_request, published, folder } = self;
        let landed = match pull_request {
            Some(number) => words::LandedChange::PullRequest { number },
            None => words::LandedChange::Nothing,
        };
        let fixed = words::Fixed { outcome: &outcome, landed, patch: None, held_back: None };
        let body = words::fixed(&fixed);
        let answer = CommandReply::of_work(outcome, body);
        CommandReply { published, done_by: DoneBy::IssueRun(folder), ..answer }
    }
}

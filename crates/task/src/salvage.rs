//! The files that every run leaves, however it ended: `change.patch`, `held-back.patch`, `plan.md`,
//! `report.html`, `result.json`.

use std::path::PathBuf;

use serde_json::Value;

use super::folder::attempt_folder;
use super::run::Run;
use super::settle::JudgedChange;
use super::workspace::Workspace;
use patchwright_agent::sub_agent_log::{self, SubAgentLog};
use patchwright_base::error::{Failure, FailureKind, Hint, Result};
use patchwright_base::redact::keys::without_keys;
use patchwright_config::Mode;
use patchwright_git::Oid;
use patchwright_git::diff::{self, DiffSpec, OmittedFile};
use patchwright_journal::{self as journal, Line};
use patchwright_policy::Violation;
use patchwright_report::{hand_over, html, plan_md};
use patchwright_types::events::{AgentResult, Event, RunConclusion, RunResult};
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::reviewed::Reviewed;
use patchwright_types::task::{
    CampaignRequest, CommandRequest, IssueRequest, LearnRequest, PromptRequest, ReviewRequest,
    TaskKind, TriageRequest,
};

/// The file of a run's folder with what policy held back.
pub const HELD_BACK: &str = "held-back.patch";

/// Rule of the remarks about files that a patch does not have.
const LEFT_OUT: &str = "patch.left-out";

/// The signal of a process that was killed.
const KILLED: u8 = 9;

/// Such files that are named one by one.
const MAX_NAMED: usize = 50;

/// Writes patch and plan before anything is published, so that a failing forge loses nothing.
///
/// When one of our own secrets is in the change, or may be, the patch is not written: it would leave
/// with the run's artefacts.
pub fn write(
    run: &Run<'_>,
    workspace: &Workspace,
    outcome: &mut Outcome,
    judged: &JudgedChange,
) -> Result<()> {
    let is_words = |words: &&String| run.config.mode == Mode::Plan && !words.trim().is_empty();
    let words = Some(&outcome.final_message).filter(is_words);
    let plan = plan_md::plan_md(&run.subject(), &outcome.plan, words.map(String::as_str));
    run.folder.write("plan.md", run.world.redactor.redact(&plan).as_bytes())?;
    if let Some(change) = &outcome.change
        && !outcome.judgement.leaks()
    {
        let base = workspace.base_tree()?;
        let handed = handed_over(workspace, base, change.tree, "change.patch");
        if let Some(patch) = &handed.patch {
            run.folder.write("change.patch", patch)?;
        }
        outcome.judgement.flags.extend(handed.flags);
    }
    if let Some(patch) = &judged.held_back_patch {
        run.folder.write(HELD_BACK, patch)?;
    }
    Ok(())
}

/// Writes what the model has changed, before the checks run on it or this machine fails. [`write`] writes it once more,
/// with what is said of it.
pub(super) fn keep_change(
    run: &Run<'_>,
    workspace: &Workspace,
    judged: &JudgedChange,
) -> Result<()> {
    let Some(change) = judged.change.as_ref().filter(|_| !judged.judgement.leaks()) else {
        return Ok(());
    };
    let handed = handed_over(workspace, workspace.base_tree()?, change.tree, "change.patch");
    if let Some(patch) = &handed.patch {
        run.folder.write("change.patch", patch)?;
    }
    Ok(())
}

/// The failure of this machine that ended the work, after as much of the work was kept as it allows.
pub(super) fn failed_machine(
    run: &Run<'_>,
    workspace: &Workspace,
    judged: Result<JudgedChange>,
    failure: Failure,
) -> Failure {
    let kept = judged.and_then(|judged| {
        keep_change(run, workspace, &judged)?;
        Ok(judged.change.is_some_and(|change| !change.files.is_empty()))
    });
    match kept {
        Ok(true) => {
            let patch = run.folder.path.join("change.patch");
            failure
                .hint(Hint::on_this_machine(format!("the change so far is in {}", patch.display())))
        }
        Ok(false) => failure,
        Err(err) => {
            run.environment.ui.warn(&format!("the work so far is not in a patch: {err}"));
            failure
        }
    }
}

/// A patch as it is handed over, with remarks about what is not in it.
#[derive(Debug, Default)]
pub(super) struct SalvagedPatch {
    /// Absent when it could not be made.
    pub patch: Option<Vec<u8>>,
    pub flags: Vec<Violation>,
}

/// The patch from one tree to another. Files that are too large for it are named in the patch and in the report.
pub(super) fn handed_over(
    workspace: &Workspace,
    from: Oid,
    to: Oid,
    name: &'static str,
) -> SalvagedPatch {
    let patch = match diff::unified(&workspace.repo, from, to, DiffSpec::all()) {
        Ok(patch) => patch,
        Err(err) => {
            let message = format!("`{name}` could not be made: {err}");
            return SalvagedPatch {
                patch: None,
                flags: vec![Violation::new(LEFT_OUT, None, message)],
            };
        }
    };
    let flag = |left: &OmittedFile| {
        let message = format!("is too large for `{name}` and not in it ({} bytes)", left.size);
        Violation::new(LEFT_OUT, Some(left.path.clone()), message)
    };
    let mut flags: Vec<Violation> = patch.left_out.iter().take(MAX_NAMED).map(flag).collect();
    if let more @ 1.. = patch.left_out.len() - flags.len() {
        let message =
            format!("{more} more files are not in `{name}`, which is too large with them");
        flags.push(Violation::new(LEFT_OUT, None, message));
    }
    SalvagedPatch { patch: Some(hand_over::patch(&patch.left_out, &patch.bytes)), flags }
}

/// Writes the report and the machine-readable result. The run is over by then, so an error here is
/// printed and ends nothing.
pub fn write_report(run: &Run<'_>, outcome: &Outcome, published: Option<&Published>) {
    write_ended(run, outcome, published, None);
}

/// Writes both once more for a run that ends with a failure though its work was done: whoever reads them must not take
/// for published what is not.
pub(super) fn write_failed(
    run: &Run<'_>,
    outcome: &Outcome,
    published: Option<&Published>,
    failure: &Failure,
) {
    write_ended(run, outcome, published, Some(failure));
}

fn write_ended(
    run: &Run<'_>,
    outcome: &Outcome,
    published: Option<&Published>,
    failure: Option<&Failure>,
) {
    let patch = match fs_err::read(run.folder.path.join("change.patch")) {
        // A run without a change has no such file.
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(err) => {
            run.environment.ui.failure(&format!("the report is without the change: {err}"));
            Vec::new()
        }
        Ok(patch) => patch,
    };
    let pages = pages(run, outcome, published);
    let diff = String::from_utf8_lossy(&patch);
    write_page(run, outcome, &Page { diff: &diff, failure, reviewed: None, pages: &pages });
    if let Some(output) = &outcome.output {
        write_last(run, "output.json", &format!("{output:#}"));
    }
    let mut result = result(run, outcome, published);
    let reason = failure.map(in_one_line);
    if let Some(failure) = failure {
        result = RunResult { conclusion: failure.kind.into(), reason: reason.as_deref(), ..result };
    }
    write_last(run, "result.json", &as_text(run, &Event::Result(Box::new(result))));
}

/// Brings up to date what [`unpublished`] has left in the result of a run, once it is known that its change is there. What
/// the work came to is in it already.
pub(super) fn amend(run: &Run<'_>, conclusion: Conclusion, published: &Published) {
    let text = fs_err::read(run.folder.path.join("result.json")).unwrap_or_default();
    let Ok(Value::Object(mut result)) = serde_json::from_slice(&text) else { return };
    result.insert("conclusion".to_owned(), conclusion.word().into());
    result.insert("reason".to_owned(), Value::Null);
    let published = serde_json::to_value(published).unwrap_or_default();
    result.insert("published".to_owned(), published);
    write_last(run, "result.json", &format!("{:#}", Value::Object(result)));
}

/// What the files of a run say from before it publishes until all is published: a process that is killed meanwhile cannot
/// say anything more, and `done` would be taken for published.
pub(super) fn unpublished() -> Failure {
    let why = "the run ended before it had published all of this";
    Failure::new(FailureKind::Signal(KILLED), why).hint(
        "run the same command again: what is missing is published without asking the model again",
    )
}

/// What failed, and why, without what to do.
pub(super) fn in_one_line(failure: &Failure) -> String {
    let Failure { message, cause, .. } = failure;
    cause.as_ref().map_or_else(|| message.clone(), |cause| format!("{message}: {cause}"))
}

/// What a page has beside the outcome and the journal.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    /// The change as a unified diff.
    pub diff: &'a str,
    /// What the run ends with though its work was done.
    pub failure: Option<&'a Failure>,
    pub reviewed: Option<&'a Reviewed>,
    pub pages: &'a html::Pages,
}

/// Writes `report.html`.
pub(super) fn write_page(run: &Run<'_>, outcome: &Outcome, page: &Page<'_>) {
    let Page { diff, failure, reviewed, pages } = *page;
    let (lines, damage) = readable_lines(run, outcome);
    let recorded = sub_agent_log::lanes(&lines);
    let agents: Vec<html::Agent> = recorded
        .into_iter()
        .map(|lane| html::Agent {
            who: who(&lane),
            ended: lane.status.before_closing().word(),
            spending: lane.spending,
            id: lane.id,
        })
        .collect();
    let page = html::report(&html::Report {
        subject: &run.subject(),
        title: run.title.as_deref().unwrap_or_default(),
        outcome,
        failure,
        reviewed,
        diff,
        journal: &lines,
        damage: damage.as_ref().map(ToString::to_string).as_deref(),
        agents: &agents,
        pages,
    });
    // It is a page that people are given; the journal beside it has what was said.
    write_last(run, "report.html", &without_keys(&page));
}

/// What the run has on the forge, as far as it is known.
fn pages(run: &Run<'_>, outcome: &Outcome, published: Option<&Published>) -> html::Pages {
    let url = published.map(|it| it.url.as_str());
    html::Pages {
        pull_request: published.map(|it| (it.pull_request, it.url.clone())),
        branch: published.map(|it| it.branch.clone()),
        head: published.map(|it| it.head_sha.clone()),
        ..known_pages(run, outcome, url)
    }
}

/// The pages of a run that has published no change. The page of the repository is that of `page`, which stands below
/// it, or of the workflow run.
pub(super) fn known_pages(run: &Run<'_>, outcome: &Outcome, page: Option<&str>) -> html::Pages {
    let (repository, number) = match &run.task.kind {
        TaskKind::Issue(IssueRequest { repository, number, .. })
        | TaskKind::Review(ReviewRequest { repository, number, .. })
        | TaskKind::Respond(CommandRequest { repository, number, .. })
        | TaskKind::Triage(TriageRequest { repository, number, .. }) => {
            (Some(repository), Some(*number))
        }
        TaskKind::Campaign(CampaignRequest { repository, .. })
        | TaskKind::Learn(LearnRequest { repository, .. })
        | TaskKind::Prompt(PromptRequest { repository, .. }) => (Some(repository), None),
        TaskKind::Exec(_) | TaskKind::Measure(_) => (None, None),
    };
    let mut known = [page, outcome.provenance.run_url.as_deref()].into_iter().flatten();
    let below = |url: &str| {
        // A workflow may run in another repository than the one that it works on.
        let name = format!("/{}/", repository?);
        let end = url.starts_with("http").then(|| url.find(&name))?? + name.len() - 1;
        Some(url[..end].to_owned())
    };
    html::Pages { repository: known.find_map(below), number, ..html::Pages::default() }
}

pub(super) fn write_last(run: &Run<'_>, name: &str, text: &str) {
    let text = run.world.redactor.redact(text);
    if let Err(failure) = run.folder.write(name, text.as_bytes()) {
        run.environment.ui.warn(&failure.to_string());
    }
}

/// The run in a form for programs: `result.json`, and the last line of `--json`.
pub fn result<'a>(
    run: &'a Run<'_>,
    outcome: &'a Outcome,
    published: Option<&'a Published>,
) -> RunResult<'a> {
    RunResult {
        run: &outcome.run,
        conclusion: RunConclusion::Work(outcome.conclusion),
        reason: outcome.reason.as_deref(),
        checks: outcome.evidence.verdict().word(),
        final_message: &outcome.final_message,
        output: outcome.output.as_ref(),
        files: outcome.change.as_ref().map_or(0, |change| change.files.len()),
        plan: &outcome.plan,
        evidence: &outcome.evidence,
        judgement: &outcome.judgement,
        spending: &outcome.spending,
        provenance: &outcome.provenance,
        published,
        folder: &run.folder.path,
        attempts: &outcome.attempts,
        publish_notes: &outcome.publish_notes,
        agents: agents(run, outcome),
    }
}

/// An event as a file.
pub(super) fn as_text(run: &Run<'_>, event: &Event<'_>) -> String {
    let mut whole = serde_json::to_value(event).unwrap_or_default();
    journal::redact_strings(&mut whole, &run.world.redaction());
    format!("{whole:#}")
}

/// What the journal has, up to where it is damaged. That it is, is said: a report without a part of it looks like
/// a run in which less happened.
fn readable_lines(run: &Run<'_>, outcome: &Outcome) -> (Vec<Line>, Option<Failure>) {
    let (lines, damage) = journal::read_until_damage(&conversation(run, outcome));
    if let Some(damage) = &damage {
        run.environment.ui.failure(&damage.to_string());
    }
    (lines, damage)
}

/// The journal that has the conversation: that of the attempt that was kept, where there were several.
fn conversation(run: &Run<'_>, outcome: &Outcome) -> PathBuf {
    match outcome.attempts.chosen {
        0 => run.folder.journal.path().to_owned(),
        number => attempt_folder(&run.folder.path, number).join(journal::FILE),
    }
}

/// Which agent this is: `agent-1 (explorer, gpt-5.3-codex)`.
fn who(lane: &SubAgentLog) -> String {
    format!("{} ({}, {})", lane.id, lane.kind, lane.model)
}

/// What each sub-agent was and used, in a form for programs.
fn agents(run: &Run<'_>, outcome: &Outcome) -> Vec<AgentResult> {
    let (lines, _) = journal::read_until_damage(&conversation(run, outcome));
    let agent = |lane: SubAgentLog| AgentResult {
        ended: lane.status.before_closing().word(),
        id: lane.id,
        kind: lane.kind,
        model: lane.model,
        spending: lane.spending,
    };
    sub_agent_log::lanes(&lines).into_iter().map(agent).collect()
}

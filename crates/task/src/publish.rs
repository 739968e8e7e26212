//! One branch, one pull request, one comment, however often it runs.
//!
//! Every write is journaled before and after; a write whose answer is lost is looked up by the forge
//! before it is repeated. Access and the issue's state are checked again right before the push.

use std::future::Future;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::admit::{self, AdmittedIssue, AdmittedPrompt};
use super::branch_target::{self, BranchTarget, Rewriting};
use super::decorate::{self, OpenedPull};
use super::earlier::{Earlier, EarlierPull, notes};
use super::job::Job;
use super::pull_request::{has_unfinished, is_made_ready, open_or_update, was_created_untold};
use super::respond::stop;
use super::run::Run;
use super::settle::JudgedChange;
use super::signing;
use super::workspace::{Checkout, Workspace};
use super::{resumption, signals, title};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::{Comment, ForgeError, Issue, Operation, PullRequestDraft, Repository};
use patchwright_git::{Oid, tree};
use patchwright_report::{self as report, pr_body, template};
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::publish_notes::PublishNotes;
use patchwright_types::published::Published;
use patchwright_types::task::{PromptRequest, TaskKind, Trigger};

/// What finds our pull request again.
fn marker(run: &Run<'_>) -> String {
    report::marker(pr_body::PURPOSE, &run.folder.id)
}

/// Whether there is something that may be published.
pub fn is_publishable(outcome: &Outcome) -> bool {
    matches!(outcome.conclusion, Conclusion::Done | Conclusion::Partial) && outcome.change.is_some()
}

/// Whether there is work that was cut short, of which the policy allows all that is left: a draft of it is
/// worth more to people than a patch on a runner that is thrown away.
pub fn is_worth_a_draft(outcome: &Outcome) -> bool {
    let is_cut_short = matches!(
        outcome.conclusion,
        Conclusion::Interrupted | Conclusion::Budget | Conclusion::Provider | Conclusion::Sandbox
    );
    is_cut_short && outcome.change.is_some() && outcome.judgement.violations.is_empty()
}

/// What a run came to that a signal ends before it has published: whoever sent that does not want a pull request that is
/// ready to be merged, and the reason, with which its description begins, has the next run make it ready.
pub fn unpublished(outcome: &Outcome) -> Outcome {
    let is_complete = outcome.conclusion == Conclusion::Done;
    let stopped = || "The run was stopped from outside before it had published this.".to_owned();
    let reason = outcome.reason.clone().or_else(|| is_complete.then(stopped));
    Outcome { reason, ..outcome.clone() }
}

/// Publishing for a run that a signal ends: whoever sent it waits seconds, not minutes, before it kills.
/// Where that is not enough, the next run finds what was done.
pub async fn before_the_end<T>(work: impl Future<Output = Result<T>>) -> Result<Option<T>> {
    let patience = signals::time_left(signals::RUNNER_LETS_PUBLISH, AFTER_SIGNAL);
    tokio::time::timeout(patience, work).await.ok().transpose()
}

/// Most time for publishing after a signal, where no runner gives less.
const AFTER_SIGNAL: Duration = Duration::from_secs(20);

/// What the pull request is opened for.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    Issue(&'a AdmittedIssue),
    Prompt(&'a AdmittedPrompt),
}

impl<'a> Origin<'a> {
    /// The repository at the branch that the pull request is to be merged into.
    pub(super) async fn open(self, run: &Run<'_>) -> Result<Workspace> {
        match self {
            Origin::Issue(issue) => issue.open(run).await,
            Origin::Prompt(prompt) => prompt.open(run).await,
        }
    }

    pub(super) fn kind(self) -> TaskKind {
        match self {
            Origin::Issue(issue) => issue.request.clone().into(),
            Origin::Prompt(prompt) => prompt.request.clone().into(),
        }
    }

    /// The base branch, where one is asked for.
    pub(super) fn asked_base(self, config: &'a Config) -> Option<&'a str> {
        match self {
            Origin::Issue(_) => config.publish.base.as_deref(),
            Origin::Prompt(prompt) => prompt.request.base.as_deref(),
        }
    }

    /// What is to be done there.
    pub(super) fn job(self, checkout: &'a Checkout, earlier: &'a [EarlierPull]) -> Job<'a> {
        let job = match self {
            Origin::Issue(issue) => Job::issue(issue, checkout),
            Origin::Prompt(prompt) => Job::prompt(&prompt.request, checkout),
        };
        Job { earlier, ..job }
    }

    pub(super) fn repository(self) -> &'a Repository {
        match self {
            Origin::Issue(issue) => &issue.repository,
            Origin::Prompt(prompt) => &prompt.repository,
        }
    }

    pub(super) fn trigger(self) -> Option<&'a Trigger> {
        match self {
            Origin::Issue(issue) => issue.request.trigger.as_ref(),
            Origin::Prompt(prompt) => prompt.request.trigger.as_ref(),
        }
    }

    /// The name of its branch below [`OWN_BRANCHES`]: the same one each time. Another prompt is another piece
    /// of work.
    pub(super) fn branch(self) -> String {
        match self {
            Origin::Issue(issue) => format!("issue-{}", issue.issue.number),
            Origin::Prompt(prompt) => {
                let PromptRequest { base, prompt, .. } = &prompt.request;
                let text = format!("{}\n{prompt}", base.as_deref().unwrap_or_default());
                format!("prompt-{}", hex::encode(&Sha256::digest(text.as_bytes())[..4]))
            }
        }
    }

    /// Number and title of the issue.
    pub(super) fn issue(self) -> Option<(u64, &'a str)> {
        match self {
            Origin::Issue(issue) => Some((issue.issue.number, issue.snapshot.title.as_str())),
            Origin::Prompt(_) => None,
        }
    }
}

/// What is to be published.
#[derive(Clone, Copy)]
pub struct Proposal<'a> {
    pub workspace: &'a Workspace,
    pub commit: Oid,
    pub outcome: &'a Outcome,
    pub judged: &'a JudgedChange,
    /// Where the branch is pushed to: the repository itself, or a fork of it.
    pub head: &'a Repository,
    /// The name that was found to be possible.
    pub branch: &'a str,
}

/// Pushes the branch and opens or updates the pull request. Returns what people should know of it, too.
pub(super) async fn publish(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    earlier: Earlier<'_>,
) -> Result<(Published, PublishNotes)> {
    let issue = recheck(run, origin).await?;
    let mut outcome = proposal.outcome.clone();
    outcome.publish_notes.unheard = notes::unheard(run, origin, earlier, issue.as_ref()).await;
    let proposal = &Proposal { outcome: &outcome, ..*proposal };
    let (place, head) = put_on_branch(run, origin, proposal).await?;
    if let Err(failure) = signing::must_be_verified(run, proposal.head, head).await {
        decorate::keep_unmerged(run, origin, proposal, &place.branch).await;
        return Err(failure);
    }
    let found = notes::of_branch(run, origin, proposal, earlier, (&place, head)).await;
    let outcome = Outcome { publish_notes: found, ..outcome.clone() };
    let proposal = &Proposal { outcome: &outcome, ..*proposal };
    let published = propose(run, origin, proposal, (place, head)).await?;
    Ok((published, outcome.publish_notes))
}

/// Opens or updates the pull request of what is on its branch.
async fn propose(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    (place, head): (BranchTarget, Oid),
) -> Result<Published> {
    let draft = draft_of(run, origin, proposal, &place.branch);
    // A draft that somebody made of it stays one.
    let was_unfinished =
        !draft.draft && place.tip.is_some() && has_unfinished(run, origin, &draft).await;
    let base = proposal.workspace.base;
    let (mut pull_request, operation, edits) =
        open_or_update(run, origin.repository(), &draft, (&marker(run), base)).await?;
    if place.same.is_none() {
        decorate::leave_edits(run, origin.repository(), (pull_request.number, &draft), edits).await;
    }
    let mut is_changed = place.same.is_none();
    if operation != Operation::Created && pull_request.draft && was_unfinished {
        pull_request.draft = !is_made_ready(run, origin, &pull_request).await;
        is_changed |= !pull_request.draft;
    }
    let opened = OpenedPull { pull: &pull_request, operation, head };
    decorate::decorate(run, origin, proposal, opened).await;
    notes::tell(run, origin, &proposal.outcome.publish_notes, (&pull_request, operation)).await;
    let operation = match operation {
        Operation::Unchanged | Operation::Updated if was_created_untold(run, &place.branch) => {
            Operation::Created
        }
        Operation::Unchanged if is_changed => Operation::Updated,
        operation => operation,
    };
    run.environment.ui.say(&format!(
        "pull request #{}: {} ({})",
        pull_request.number,
        pull_request.html_url,
        operation.word()
    ));
    Ok(Published {
        branch: place.branch,
        head_sha: head.to_string(),
        pull_request: pull_request.number,
        url: pull_request.html_url,
        operation,
        draft: pull_request.draft,
    })
}

/// Access and state may have changed while the agent worked. Returns the issue and its comments as they are now.
async fn recheck(run: &Run<'_>, origin: Origin<'_>) -> Result<Option<(Issue, Vec<Comment>)>> {
    let forge = run.world.forge()?.as_ref();
    let repository = &origin.repository().id;
    let same = admit::must_be_same(forge, origin.repository()).await;
    same.map_err(|failure| failure.hint(run.change_kept()))?;
    admit::check_actor(forge, &run.config, repository, origin.trigger()).await?;
    let Origin::Issue(admitted) = origin else { return Ok(None) };
    let number = &admitted.request.number;
    let issue = forge.issue(repository, *number).await;
    let issue = issue.map_err(|err| Failure::from(err).hint(run.change_kept()))?;
    let happened = match (issue.open, issue.locked) {
        (false, _) => Some("closed"),
        (true, true) => Some("locked"),
        (true, false) => None,
    };
    if let Some(happened) = happened {
        return Err(Failure::nothing_to_do(format!(
            "issue #{number} was {happened} while it was worked on, so nothing was published"
        ))
        .hint(run.change_kept()));
    }
    let comments = forge.comments(repository, *number, stop::MAX_COMMENTS).await;
    let comments = comments.map_err(Failure::from)?;
    let now = stop::state(&comments);
    if stop::since(stop::state(&admitted.comments), now) {
        return Err(Failure::nothing_to_do(format!(
            "somebody said stop on issue #{number} while it was worked on, so nothing was published"
        ))
        .hint(run.change_kept()));
    }
    Ok(Some((issue, comments)))
}

/// How often the branch is looked at, when it has moved each time it was to be pushed to.
const LOOKS: u32 = 4;

/// Puts the change on its branch: looked at, pushed, and looked at again when somebody was faster. That
/// may have been our own push, of an attempt that was killed while the server still worked on it.
async fn put_on_branch(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
) -> Result<(BranchTarget, Oid)> {
    let (mut looks, mut rewriting) = (0, Rewriting::Allowed);
    loop {
        let place = branch_target::choose(run, origin, proposal, rewriting).await?;
        if place.tip.is_some() {
            decorate::before_push(run, origin, proposal, &place.branch).await?;
        }
        if let Some(same) = place.same {
            return Ok((place, same));
        }
        looks += 1;
        let commit = signed(run, proposal).await?;
        let Proposal { workspace, head: to, .. } = *proposal;
        let (branch, tip) = (place.branch.as_str(), place.tip);
        match push(run, Push { workspace, commit, to, branch, tip }).await? {
            Ok(()) => {
                resumption::forget_refusal(run);
                return Ok((place, commit));
            }
            Err(ForgeError::Moved { .. }) if looks < LOOKS => {
                let ui = run.environment.ui;
                ui.say(&format!("`{}` has moved; looking at it again", place.branch));
            }
            Err(err @ ForgeError::Moved { .. }) => {
                return Err(push_failed(err, &place.branch).hint(
                    "the branch moves all the time; run the same command again when it does not",
                ));
            }
            // It would be refused each time, and whoever has paid for the change would never see it.
            Err(err) if tip.is_some() && rewriting == Rewriting::Allowed && is_no_rewrite(&err) => {
                rewriting = Rewriting::Refused;
                run.environment.ui.say(&format!(
                    "`{branch}` may not be rewritten, so its pull request stays as it is, and another branch is used"
                ));
            }
            Err(err) => return Err(refused(run, origin, err, &place.branch)),
        }
    }
}

/// A rule refused the push because the branch may only be added to.
pub fn is_no_rewrite(err: &ForgeError) -> bool {
    matches!(err, ForgeError::Invalid { message, .. } if message.to_lowercase().contains("cannot force-push"))
}

/// The commit as it is pushed.
async fn signed(run: &Run<'_>, proposal: &Proposal<'_>) -> Result<Oid> {
    let Proposal { workspace, commit, head, .. } = *proposal;
    let signed = signing::sign(run, head, (&workspace.repo, commit)).await;
    signed.map_err(|failure| failure.hint(run.change_kept()))
}

/// A commit, and the branch that it is to be put on.
pub(super) struct Push<'a> {
    pub workspace: &'a Workspace,
    pub commit: Oid,
    /// The repository of the branch.
    pub to: &'a Repository,
    pub branch: &'a str,
    /// What the branch points to; `None` for one that is not there.
    pub tip: Option<Oid>,
}

/// The inner error is the forge's: what becomes of the push depends on it.
pub(super) async fn push(
    run: &Run<'_>,
    push: Push<'_>,
) -> Result<std::result::Result<(), ForgeError>> {
    let Push { workspace, commit, to, branch, tip } = push;
    run.folder.intends("push", branch, json!({ "commit": commit, "expected": tip }))?;
    let from = workspace.repo.path();
    if let Err(err) = run.world.forge()?.push(to, from, commit.into(), branch, tip).await {
        return Ok(Err(err));
    }
    run.folder.did("push", branch, json!({ "commit": commit }))?;
    Ok(Ok(()))
}

/// The push failed. What the server has refused for what is in it, it refuses again: the next run may be told why.
fn refused(run: &Run<'_>, origin: Origin<'_>, err: ForgeError, branch: &str) -> Failure {
    let (ForgeError::Invalid { message, .. } | ForgeError::SecretFound { message, .. }) = &err
    else {
        return push_failed(err, branch);
    };
    if message.to_lowercase().contains("verified signatures") {
        return push_failed(err, branch)
            .hint("have the commits signed: `commits.signing` in the configuration, or `--sign`");
    }
    let Origin::Issue(issue) = origin else { return push_failed(err, branch) };
    resumption::keep_refusal(run, issue, message);
    push_failed(err, branch).hint(
        "to have the change made anew instead, say in the issue or in a comment what it has to be like: the work \
         begins again then, and the model is told the server's words",
    )
}

fn push_failed(err: ForgeError, branch: &str) -> Failure {
    let failure = Failure::from(err);
    Failure { message: format!("cannot push to `{branch}`: {}", failure.message), ..failure }
}

fn draft_of(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    branch: &str,
) -> PullRequestDraft {
    let Proposal { workspace, outcome, judged, head, .. } = *proposal;
    let issue = origin.issue();
    let template = template_of(workspace);
    let patch = judged.held_back_patch.as_deref().map(String::from_utf8_lossy);
    let title = title::of_run(run, &outcome.final_message);
    let body = pr_body::body(&pr_body::PullRequest {
        outcome,
        issue,
        title: &title,
        template: template.as_deref(),
        held_back_patch: patch.as_deref(),
        marker: &marker(run),
    });
    PullRequestDraft {
        title: run.world.redactor.redact(&title),
        body: run.world.redactor.redact(&body),
        head_repository: head.id.clone(),
        head_branch: branch.to_owned(),
        base_branch: workspace.base_branch.clone(),
        moves_base: origin.asked_base(&run.config).is_some(),
        draft: decorate::is_draft(run, outcome),
    }
}

/// The repository's own pull request template, from the base commit.
pub(super) fn template_of(workspace: &Workspace) -> Option<String> {
    let paths = tree::paths_at(&workspace.repo, workspace.base, usize::MAX).ok()?;
    let path = template::find(paths.iter().map(String::as_str))?;
    Some(String::from_utf8_lossy(&workspace.file_now(path)?).into_owned())
}

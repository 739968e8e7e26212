//! The pull request with the lessons: one branch, one pull request, which the next proposal brings up to date for
//! as long as it is open. A person merges it: auto-merge is never turned on, whatever is configured.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::branch::{BranchLookup, BranchState};
use crate::decorate::{DecorationNotes, Extras, leave_edits};
use crate::publish::{self, Push};
use crate::run::Run;
use crate::settle::BlobsOf;
use crate::signing;
use crate::workspace::{RUN_TRAILER, Workspace};
use crate::{admit, authorship, base_moved, branch_name, failures, pull_request, title};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{ForgeError, Operation, PullRequest, PullRequestDraft, Repository};
use patchwright_git::{Oid, commit, tree};
use patchwright_policy as policy;
use patchwright_report::memory::{self, Memory};
use patchwright_report::{self as report, commit_message};
use patchwright_types::published::Published;

/// Branches that are looked at: each but the last has commits of people, and its proposal was merged or closed.
const MOST_BRANCHES: usize = 20;
/// Begins the line of the commit that says until when what was said has been read.
const READ_TRAILER: &str = "Patchwright-Memory-Read: ";

/// The title, and the subject of the commit.
const TITLE: &str = "Remember what maintainers corrected";

/// Where lessons are proposed, and what was proposed there before.
pub(super) struct ProposalState {
    pub branch: String,
    /// Where the branch is pushed to.
    pub head: Repository,
    tip: Option<Oid>,
    /// The open proposal.
    pub open: Option<PullRequest>,
    /// Until when the last proposal had read, whatever became of it.
    pub read_until: Option<DateTime<Utc>>,
}

/// Until when a proposal had read, as its description says. Whoever may write can edit that, but not the time at which
/// it was opened.
fn said_until(pull: &PullRequest, now: DateTime<Utc>) -> DateTime<Utc> {
    let said = memory::read_until(&pull.body);
    let said = said.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    said.filter(|said| *said <= now).unwrap_or(pull.created_at)
}

/// The same, as the commit says it: a description that people have edited is left as it is, and gets old.
fn recorded_until(message: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let line = message.lines().find_map(|line| line.strip_prefix(READ_TRAILER))?;
    let said = DateTime::parse_from_rfc3339(line.trim()).ok()?.to_utc();
    Some(said).filter(|said| *said <= now)
}

/// What people committed would be replaced.
fn taken_by_people(pull: &PullRequest) -> Failure {
    Failure::nothing_to_do(format!(
        "somebody has committed to the proposal #{}, which is left alone",
        pull.number
    ))
    .hint("merge or close it; the next run proposes what was said since")
}

/// What stands on one branch is no change of another.
fn moved_by_people(pull: &PullRequest) -> Failure {
    Failure::nothing_to_do(format!(
        "somebody has moved the proposal #{} to `{}`, where it is left alone",
        pull.number, pull.base_branch
    ))
    .hint("merge or close it, or move it back; the next run proposes what was said since")
}

impl ProposalState {
    /// Looks before anything is paid for.
    ///
    /// # Errors
    /// When people have committed to the branch of an open proposal, which is then theirs.
    pub(super) async fn look(
        run: &Run<'_>,
        repository: &Repository,
        workspace: &Workspace,
        head: Repository,
    ) -> Result<ProposalState> {
        let forge = run.world.forge()?.as_ref();
        let viewer = forge.viewer().await.map_err(Failure::from)?;
        let name = branch_name::own_branch(run, &head, memory::PURPOSE).await?.name;
        let now = run.world.clock.now();
        let own = format!("{RUN_TRAILER}{}", run.folder.id);
        let (mut branch, mut read_until) = (name.clone(), None);
        for _ in 0..MOST_BRANCHES {
            let pulls = forge.pull_requests_from(&repository.id, &head.id, &branch).await;
            let mut pulls = pulls.map_err(Failure::from)?;
            let lookup = BranchLookup {
                forge,
                repository: &head,
                upstream: &repository.id,
                repo: &workspace.repo,
                base: workspace.base,
                base_branch: &workspace.base_branch,
                email: run.config.identity.committer_email(),
            };
            let state = lookup
                .state(&branch)
                .await
                .map_err(|err| failures::of_forge(format!("cannot look at `{branch}`"), err))?;
            let (tip_now, message) = match &state {
                BranchState::Ours { tip, facts } => (tip.to_string(), facts.message.as_str()),
                BranchState::Absent | BranchState::Theirs { .. } => (String::new(), ""),
            };
            let recorded = recorded_until(message, now);
            pulls.retain(|pull| {
                // Whoever edits the description may take the marker out; the commit has a line of its own.
                let is_described = report::is_described(&pull.body, memory::PURPOSE);
                let has_commit = recorded.is_some() && pull.head_sha == tip_now;
                admit::is_us(viewer.as_ref(), &pull.author) && (is_described || has_commit)
            });
            let said = pulls.iter().map(|pull| said_until(pull, now)).max();
            // What a run had pushed before it was killed has still to be proposed, by this very run if it is that one.
            let was_proposed =
                !message.contains(&own) && pulls.iter().any(|pull| pull.head_sha == tip_now);
            read_until = read_until.max(said).max(recorded.filter(|_| was_proposed));
            let open = pulls.into_iter().find(|pull| pull.open);
            let tip = match (state, &open) {
                (_, Some(pull)) if pull.base_branch != workspace.base_branch => {
                    return Err(moved_by_people(pull));
                }
                (BranchState::Absent, _) => None,
                (BranchState::Ours { tip, .. }, _) => Some(tip),
                (BranchState::Theirs { .. }, Some(pull)) => {
                    return Err(taken_by_people(pull));
                }
                // Merged or closed with what people committed to it, and still there, as GitHub leaves it.
                (BranchState::Theirs { tip, .. }, None) => {
                    branch = format!("{name}-{}", &tip.to_string()[..7]);
                    continue;
                }
            };
            return Ok(ProposalState { branch, head, tip, open, read_until });
        }
        Err(Failure::refused(format!("every branch like `{name}` has commits of other people"))
            .hint("delete those that are no longer needed"))
    }

    /// The file with what an open proposal has added to it; what was proposed and not merged, people did not want.
    pub(super) async fn memory(&self, workspace: &Workspace) -> Result<(Memory, Memory)> {
        let file = async |at: Oid| -> Result<Memory> {
            let content = workspace.at(at).file(memory::FILE).await?.unwrap_or_default();
            // Written back, it would have lost what people wrote.
            let text = String::from_utf8(content).map_err(|_| {
                Failure::refused(format!("`{}` is not written in UTF-8", memory::FILE))
                    .hint("save it as UTF-8: lessons are added to what it has")
            })?;
            Ok(Memory::parse(&text))
        };
        let base = file(workspace.base).await?;
        let (Some(tip), Some(_)) = (self.tip, &self.open) else { return Ok((base.clone(), base)) };
        let facts = commit::read(&workspace.repo, tip)
            .map_err(|err| Failure::forge("the proposal cannot be read").caused_by(err))?;
        let before = match facts.parents.first().filter(|parent| workspace.has(**parent)) {
            Some(parent) => file(*parent).await?,
            None => base.clone(),
        };
        let proposed = file(tip).await?.moved(&before, &base);
        Ok((base, proposed))
    }
}

/// The commit of the file on the base. What was said until `until` has been read for it.
///
/// # Errors
/// When the policy refuses it.
pub(super) fn commit(
    run: &Run<'_>,
    workspace: &Workspace,
    (text, until): (&str, DateTime<Utc>),
) -> Result<Oid> {
    let failed =
        |err| Failure::refused("the file with the lessons cannot be written").caused_by(err);
    let (repo, base) = (&workspace.repo, workspace.base);
    let tree = tree::with_file(repo, base, memory::FILE, text.as_bytes()).map_err(failed)?;
    let change = tree::between(repo, base, tree).map_err(failed)?;
    let redactor = &run.world.redactor;
    let judgement = policy::check(&run.config.policy, &change, &BlobsOf(repo), redactor, &[]);
    let held = judgement.held_back.iter().map(|held| format!("it is held back ({})", held.rule));
    let broken = judgement.violations.iter().map(|violation| violation.message.clone());
    let against: Vec<String> = broken.chain(held).collect();
    if !against.is_empty() {
        return Err(Failure::refused(format!(
            "the policy does not let `{}` be proposed: {}",
            memory::FILE,
            against.join("; ")
        ))
        .hint("allow that path in the section `policy`, or switch `memory` off"));
    }
    let message = commit_message::commit_message(&title_of(run), "", &[]);
    let read = format!("{READ_TRAILER}{}", until.to_rfc3339_opts(SecondsFormat::Secs, true));
    let spec = commit::CommitSpec {
        author: authorship::author(&run.config),
        committer: authorship::committer(&run.config),
        message: run.world.redactor.redact(&message),
        trailers: [format!("{RUN_TRAILER}{}", run.folder.id), read]
            .into_iter()
            .chain(authorship::trailers(&run.config, None))
            .collect(),
        time: run.world.clock.now(),
    };
    commit::create(repo, base, tree, &spec)
        .map_err(|err| Failure::internal("the commit cannot be made").caused_by(err))
}

fn title_of(run: &Run<'_>) -> String {
    title::fitting(&run.config, TITLE)
}

/// Pushes the branch, and opens or updates the pull request.
///
/// # Errors
/// When the forge does not take one of them.
pub(super) async fn publish(
    run: &Run<'_>,
    repository: &Repository,
    workspace: &Workspace,
    standing: &ProposalState,
    (commit, body): (Oid, String),
) -> Result<Published> {
    let ProposalState { branch, head, tip, .. } = standing;
    admit::must_be_same(run.world.forge()?.as_ref(), repository).await?;
    if let Err(replaced) = base_moved::must_have_base(run, repository, workspace).await {
        // Resumed, it would be put onto the same commit again.
        run.folder.finish();
        return Err(replaced);
    }
    let commit = signing::sign(run, head, (&workspace.repo, commit)).await?;
    let push = Push { workspace, commit, to: head, branch, tip: *tip };
    publish::push(run, push).await?.map_err(|err| {
        let moved = matches!(err, ForgeError::Moved { .. });
        let failure = failures::of_forge(format!("cannot push to `{branch}`"), err);
        if moved {
            return failure.hint(
                "another run may have proposed lessons meanwhile: run the same command again",
            );
        }
        failure
    })?;
    signing::must_be_verified(run, head, commit).await?;
    let draft = PullRequestDraft {
        title: title_of(run),
        body: run.world.redactor.redact(&body),
        head_repository: head.id.clone(),
        head_branch: branch.clone(),
        base_branch: workspace.base_branch.clone(),
        moves_base: true,
        draft: run.config.publish.draft,
    };
    let marker = report::marker(memory::PURPOSE, &run.folder.id);
    let (pull, operation, edits) =
        pull_request::open_or_update(run, repository, &draft, (&marker, workspace.base)).await?;
    leave_edits(run, repository, (pull.number, &draft), edits).await;
    ask_people(run, repository, &pull, (operation, commit)).await;
    Ok(Published {
        branch: branch.clone(),
        head_sha: commit.to_string(),
        pull_request: pull.number,
        url: pull.html_url,
        operation,
        draft: pull.draft,
    })
}

/// The labels and reviewers of every pull request of ours. Without them it is still good.
async fn ask_people(
    run: &Run<'_>,
    repository: &Repository,
    pull: &PullRequest,
    (operation, head): (Operation, Oid),
) {
    let Ok(forge) = run.world.forge() else { return };
    let (wanted, number) = (&run.config.publish, pull.number);
    let extras = Extras { forge: forge.as_ref(), repository: &repository.id, number, head, wanted };
    let mut told = DecorationNotes::all();
    let _ = extras.label(&wanted.labels, &mut told).await;
    if operation == Operation::Created {
        let _ = extras.ask(&wanted.reviewers, &[], &mut told).await;
    }
    let by_people = "a person is to read what runs will be told";
    let _ = extras.merge(Some(by_people), &mut told).await;
    for said in &told.said {
        run.environment.ui.say(&run.world.redactor.redact(said));
    }
}

//! From a commit to the branch of the pull request: on top of what is there, never over it.
//!
//! The branch may be ours, another one of the repository, or a fork's that maintainers may push to.
//! When it has moved meanwhile, the change is merged onto what is there now if no line is in dispute;
//! otherwise, and wherever we may not push, the change is handed over as a patch.

use serde_json::json;

use super::admit::AdmittedCommand;
use super::fix::{self, must_be_open};
use super::landed;
use super::own_commits::{Proof, asked_in, find_ours};
use super::stop;
use super::target::{Target, target};
use crate::admit;
use crate::authorship;
use crate::decorate;
use crate::pipeline::FinishedJob;
use crate::publish;
use crate::resumption;
use crate::run::{DEPTH, Run};
use crate::signing;
use crate::workspace::{self, Checkout, RUN_TRAILER, Workspace};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{ForgeError, PullRequest, Repository};
use patchwright_git::push::NewCommits;
use patchwright_git::{Oid, blocking, commit, diff, merge};
use patchwright_report::answer::LandedChange;
use patchwright_report::rebase as said;

/// How often a branch that keeps moving is followed.
const ATTEMPTS: usize = 3;
/// How a push is called in the journal.
pub(super) const EFFECT: &str = "push";

/// What became of the change.
pub(super) enum PushResult {
    Pushed {
        commit: String,
        url: Option<String>,
        branch: String,
        /// The commit that it was merged onto, when the branch had moved; no check saw that.
        onto: Option<String>,
    },
    /// It could not be pushed, and why.
    Patch { why: String },
    /// The forge found a secret in it, and says which: nobody is shown the change.
    Secret { why: String },
    /// Another run, of the same comment, has pushed this to the branch.
    There { commit: String, url: Option<String>, branch: String },
    /// The branch has the same change by now.
    Contained { branch: String },
    /// There was nothing that may be published.
    Nothing,
    /// Somebody said stop meanwhile.
    Stopped,
}

impl PushResult {
    pub(super) fn seen(&self) -> LandedChange<'_> {
        match self {
            PushResult::Pushed { commit, url, branch, onto } => {
                LandedChange::Pushed { commit, url: url.as_deref(), branch, onto: onto.as_deref() }
            }
            PushResult::Patch { why } => LandedChange::Patch { why },
            PushResult::Secret { why } => LandedChange::Refused { why },
            PushResult::There { commit, url, branch } => {
                LandedChange::Pushed { commit, url: url.as_deref(), branch, onto: None }
            }
            PushResult::Contained { .. } | PushResult::Nothing | PushResult::Stopped => {
                LandedChange::Nothing
            }
        }
    }
}

/// Pushes what may be published.
pub(super) async fn land(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    checkout: &Checkout,
    finished: &FinishedJob,
) -> Result<PushResult> {
    let Some(commit) =
        finished.judged.commit.filter(|_| publish::is_publishable(&finished.outcome))
    else {
        return Ok(PushResult::Nothing);
    };
    if run.config.dry_run {
        return Ok(PushResult::Patch { why: "nothing is pushed in a dry run".to_owned() });
    }
    if let Some(pushed) = landed::pushed(run, admitted) {
        return Ok(pushed);
    }
    run.environment.ui.say("publishing");
    let against = decorate::speaks_against(&finished.outcome);
    let pushing = recheck_and_push(run, admitted, pull, checkout, (commit, against));
    run.unless_interrupted(pushing).await
}

async fn recheck_and_push(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    checkout: &Checkout,
    (commit, against): (Oid, Option<&'static str>),
) -> Result<PushResult> {
    let target = match recheck(run, admitted, pull).await? {
        Ok(target) => target,
        Err(ended) => return Ok(ended),
    };
    if let Some(ended) = stop_merging(run, admitted, pull, against).await? {
        return Ok(ended);
    }
    let asked = asked_in(&fix::trailers(admitted));
    push(run, &target, checkout, commit, &asked).await
}

/// When something is `against` what is about to be pushed, GitHub must not merge it by itself. What that ends in, when
/// it cannot be kept from it.
async fn stop_merging(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    against: Option<&'static str>,
) -> Result<Option<PushResult>> {
    let Some(why) = against else { return Ok(None) };
    let (forge, repository) = (run.world.forge()?, &admitted.repository.id);
    match forge.stop_merging(repository, pull.number).await {
        Ok(was) => {
            let left = was.then_some(pull.number);
            if let Some(said) = decorate::left_to_people(left.as_slice(), why) {
                run.environment.ui.say(&said);
            }
            Ok(None)
        }
        // The forge would merge this by what was there before.
        Err(err) if is_refusal(&err) => Ok(Some(PushResult::Patch { why: err.to_string() })),
        Err(err) => Err(Failure::from(err).hint(run.files_hint())),
    }
}

/// Commits for the place of others.
pub(super) struct Replacement<'a> {
    pub(super) workspace: &'a Workspace,
    /// What the branch has to point to.
    pub(super) head: Oid,
    pub(super) commits: NewCommits,
    /// Why nobody but a person may merge them.
    pub(super) against: Option<&'static str>,
}

/// Puts them there.
pub(super) async fn replace(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    Replacement { workspace, head, commits, against }: Replacement<'_>,
) -> Result<PushResult> {
    let target = match recheck(run, admitted, pull).await? {
        Ok(target) => target,
        Err(ended) => return Ok(ended),
    };
    if let Some(base) = target.moved_to(pull) {
        return Ok(PushResult::Patch { why: said::goes_elsewhere(&pull.base_branch, base) });
    }
    let (forge, base) = (run.world.forge()?, workspace.base.to_string());
    // A commit that somebody has taken back would come back in with the branch.
    let id = &admitted.repository.id;
    let has_base = resumption::contains(forge.as_ref(), id, &pull.base_branch, &base).await;
    if !has_base.map_err(|failure| failure.hint(run.files_hint()))? {
        return Ok(PushResult::Patch { why: said::base_taken_back(&pull.base_branch, &base) });
    }
    if let Some(ended) = stop_merging(run, admitted, pull, against).await? {
        return Ok(ended);
    }
    if pull.is_fork {
        // The commits that they were put on have to be there, too.
        let (upstream, branch) = (&admitted.repository, &pull.base_branch);
        match forge.catch_up(upstream, &target.repository, branch, workspace.base).await {
            Ok(()) => {}
            Err(err) if is_refusal(&err) => return Ok(PushResult::Patch { why: err.to_string() }),
            Err(err) => return Err(Failure::from(err).hint(run.files_hint())),
        }
    }
    let signer = target.signer(run)?;
    let commits = match signer.signed(&target.repository, &workspace.repo, commits).await {
        Ok(commits) => commits,
        Err(err) if is_refusal(&err) => return Ok(PushResult::Patch { why: why_unsigned(err) }),
        Err(err) => return Err(Failure::from(err).hint(run.files_hint())),
    };
    intend(run, &target, commits.tip, head)?;
    let from = workspace.repo.path();
    match forge.push(&target.repository, from, commits, &target.branch, Some(head)).await {
        Ok(_) => {
            done(run, &target, commits.tip)?;
            signing::tell_doubt(run, &target.repository, commits.tip).await;
            Ok(pushed(&target, commits.tip, None))
        }
        Err(ForgeError::Moved { .. }) => {
            let tip = forge.branch_tip(&target.repository.id, &target.branch).await;
            let why = match tip {
                Ok(None) => format!("the branch `{}` is gone", target.branch),
                Ok(Some(_)) | Err(_) => {
                    said::pushed_meanwhile(&target.branch, &run.config.respond.mention)
                }
            };
            Ok(PushResult::Patch { why })
        }
        Err(err) if is_refusal(&err) => Ok(not_taken(&err)),
        Err(err) => Err(Failure::from(err).hint(run.files_hint())),
    }
}

/// What becomes of a change that the forge did not take.
fn not_taken(err: &ForgeError) -> PushResult {
    let why = err.to_string();
    match err {
        ForgeError::SecretFound { .. } => PushResult::Secret { why },
        _ => PushResult::Patch { why },
    }
}

/// What will not change by trying again.
fn is_refusal(err: &ForgeError) -> bool {
    matches!(
        err,
        ForgeError::Forbidden { .. }
            | ForgeError::Invalid { .. }
            | ForgeError::InTheWay { .. }
            | ForgeError::Unverified { .. }
            | ForgeError::SecretFound { .. }
            | ForgeError::NotFound { .. }
            | ForgeError::State { .. }
    )
}

/// Access and state may have changed meanwhile: where to push to, or why nothing is pushed.
async fn recheck(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<std::result::Result<Target, PushResult>> {
    let forge = run.world.forge()?.as_ref();
    let repository = &admitted.repository.id;
    let same = admit::must_be_same(forge, &admitted.repository).await;
    same.map_err(|failure| failure.hint(run.files_hint()))?;
    let now = forge.pull_request(repository, pull.number).await.map_err(Failure::from)?;
    must_be_open(&now).map_err(|failure| failure.hint(run.files_hint()))?;
    if !admitted.request.is_automatic() {
        admit::check_actor(forge, &run.config, repository, admitted.request.trigger.as_ref())
            .await?;
    }
    if stop::is_stopped(forge, repository, pull.number).await? {
        return Ok(Err(PushResult::Stopped));
    }
    let target = target(run, admitted, &now).await?;
    Ok(target.map_err(|why| PushResult::Patch { why }))
}

/// Why commits were not signed, or would not be verified, and what would change that.
fn why_unsigned(err: ForgeError) -> String {
    match err {
        ForgeError::Unverified { message, hint } => format!("{message}; {hint}"),
        err => err.to_string(),
    }
}

/// Pushes the commit, or the same change on top of what is on the branch by now.
async fn push(
    run: &Run<'_>,
    target: &Target,
    checkout: &Checkout,
    commit: Oid,
    asked: &[String],
) -> Result<PushResult> {
    let workspace = &checkout.workspace;
    let forge = run.world.forge()?;
    let mut proof = Proof::of(run, target.is_foreign);
    for _ in 0..ATTEMPTS {
        let tip = forge.branch_tip(&target.repository.id, &target.branch).await;
        let Some(tip) = tip.map_err(Failure::from)? else {
            return Ok(PushResult::Patch {
                why: format!("the branch `{}` is gone", target.branch),
            });
        };
        let onto = (tip != workspace.base).then_some(tip);
        let commit = match onto {
            None => commit,
            Some(tip) => {
                match rebased(run, target, workspace, (commit, asked), (tip, &proof)).await? {
                    RebaseResult::There(commit) => return Ok(pushed(target, commit, None)),
                    RebaseResult::OfAnother(commit) => return Ok(there(target, commit)),
                    RebaseResult::On(commit) => commit,
                    RebaseResult::Contained => {
                        return Ok(PushResult::Contained { branch: target.branch.clone() });
                    }
                    RebaseResult::Conflict => {
                        return Ok(PushResult::Patch {
                            why: format!(
                                "`{}` has moved to {} meanwhile, and the same lines were changed there",
                                target.branch,
                                tip.short()
                            ),
                        });
                    }
                }
            }
        };
        let signer = target.signer(run)?;
        let commit = match signer.signed(&target.repository, &workspace.repo, commit.into()).await {
            Ok(commits) => commits.tip,
            Err(err) if is_refusal(&err) => {
                return Ok(PushResult::Patch { why: why_unsigned(err) });
            }
            Err(err) => return Err(Failure::from(err).hint(run.files_hint())),
        };
        intend(run, target, commit, tip)?;
        proof.add(commit);
        let from = workspace.repo.path();
        match forge.push(&target.repository, from, commit.into(), &target.branch, Some(tip)).await {
            Ok(_) => {
                done(run, target, commit)?;
                signing::tell_doubt(run, &target.repository, commit).await;
                return Ok(pushed(target, commit, onto));
            }
            // Somebody was faster: look again.
            Err(ForgeError::Moved { .. }) => {}
            Err(err) if is_refusal(&err) => return Ok(not_taken(&err)),
            Err(err) => return Err(Failure::from(err).hint(run.files_hint())),
        }
    }
    Ok(PushResult::Patch { why: format!("`{}` keeps moving", target.branch) })
}

fn intend(run: &Run<'_>, target: &Target, commit: Oid, tip: Oid) -> Result<()> {
    let repository = target.repository.id.to_string();
    let detail = json!({ "repository": repository, "commit": commit, "expected": tip });
    run.folder.intends(EFFECT, &target.branch, detail)
}

fn done(run: &Run<'_>, target: &Target, commit: Oid) -> Result<()> {
    run.folder.did(EFFECT, &target.branch, json!({ "commit": commit }))
}

fn pushed(target: &Target, commit: Oid, onto: Option<Oid>) -> PushResult {
    PushResult::Pushed {
        commit: commit.to_string(),
        url: commit_url(&target.repository, &commit.to_string()),
        branch: target.branch.clone(),
        onto: onto.map(|onto| onto.to_string()),
    }
}

fn there(target: &Target, commit: Oid) -> PushResult {
    let commit = commit.to_string();
    let url = commit_url(&target.repository, &commit);
    PushResult::There { commit, url, branch: target.branch.clone() }
}

/// The page of a commit.
pub(super) fn commit_url(repository: &Repository, commit: &str) -> Option<String> {
    let page = repository.html_url.trim_end_matches('/');
    page.starts_with("http").then(|| format!("{page}/commit/{commit}"))
}

/// The change on a branch that has moved.
enum RebaseResult {
    /// An earlier attempt of this run has pushed it.
    There(Oid),
    /// Another run has answered the same comment.
    OfAnother(Oid),
    On(Oid),
    /// The branch is no different with the change than without.
    Contained,
    Conflict,
}

async fn rebased(
    run: &Run<'_>,
    target: &Target,
    workspace: &Workspace,
    (change, asked): (Oid, &[String]),
    (tip, proof): (Oid, &Proof),
) -> Result<RebaseResult> {
    let refs = [tip.to_string()];
    let fetched =
        run.world.forge()?.fetch(&target.repository, workspace.repo.path(), &refs, DEPTH).await;
    fetched.map_err(|err| Failure::from(err).hint(run.files_hint()))?;
    let line = format!("{RUN_TRAILER}{}", run.folder.id);
    let email = run.config.identity.committer_email();
    if let Some(there) = find_ours(workspace, email, (tip, &[line]), proof) {
        return Ok(RebaseResult::There(there));
    }
    if let Some(there) = find_ours(workspace, email, (tip, asked), proof) {
        return Ok(RebaseResult::OfAnother(there));
    }
    let (repo, base) = (workspace.repo.clone(), workspace.base);
    let (committer, time) = (identity(run), run.world.clock.now());
    let merged = blocking(move || {
        let made = commit::read(&repo, change)?;
        let (old, now) = (diff::tree_of(&repo, base)?, diff::tree_of(&repo, tip)?);
        let Some(tree) = merge::onto(&repo, old, now, made.tree)? else {
            return Ok(RebaseResult::Conflict);
        };
        if tree == now {
            return Ok(RebaseResult::Contained);
        }
        // As it is, with all of its trailers.
        commit::replay(&repo, change, tip, tree, (&committer, time), None).map(RebaseResult::On)
    });
    merged.await.map_err(|err| workspace::failure(err, "the change cannot be put on the branch"))
}

pub(super) fn identity(run: &Run<'_>) -> commit::Identity {
    authorship::committer(&run.config)
}

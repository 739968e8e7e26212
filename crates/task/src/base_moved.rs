//! The base branch may have moved while an agent worked: what it has by then need not be proposed, and people are
//! told of conflicts.

use super::publish::{Origin, is_publishable, is_worth_a_draft};
use super::run::{DEPTH, Run};
use super::workspace::{self, Workspace};
use super::{admit, resumption, salvage};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_forge::{ForgeError, Repository};
use patchwright_git::merge::{BaseComparison, compare_with_base};
use patchwright_git::{Oid, blocking};
use patchwright_policy::Violation;
use patchwright_report::rebase::CONFLICTS;
use patchwright_types::outcome::{Conclusion, Outcome};

/// Looks at the base branch again. Where it cannot be asked, the pull request shows the same.
///
/// # Errors
/// When the change would be proposed to a branch that is not there, or that lacks the commit on which it stands: other
/// commits would be proposed with it.
pub(crate) async fn look(
    run: &Run<'_>,
    origin: Origin<'_>,
    workspace: &mut Workspace,
    commit: Oid,
    outcome: &mut Outcome,
) -> Result<()> {
    if run.is_interrupted() || !(is_publishable(outcome) || is_worth_a_draft(outcome)) {
        return Ok(());
    }
    let branch = workspace.base_branch.clone();
    let unseen = |failure: Failure| {
        run.environment.ui.warn(&format!("`{branch}` was not looked at again: {failure}"));
    };
    let (now, tip) = match tip(run, origin.repository(), &branch).await {
        Ok(Some(found)) => found,
        Ok(None) => return Err(because(run, origin, gone(run, &branch)).await),
        Err(failure) => {
            unseen(failure);
            return Ok(());
        }
    };
    if tip == workspace.base {
        renamed(run, workspace, outcome, now);
        return Ok(());
    }
    let (forge, id) = (run.world.forge()?.as_ref(), &origin.repository().id);
    match resumption::contains(forge, id, &now, &workspace.base.to_string()).await {
        Ok(true) => renamed(run, workspace, outcome, now),
        Ok(false) => return Err(because(run, origin, replaced(run, workspace, &now)).await),
        Err(failure) => {
            unseen(failure);
            return Ok(());
        }
    }
    match compared(run, origin, workspace, commit, tip).await {
        Ok(found) => note(run, &workspace.base_branch, found, outcome),
        Err(failure) => unseen(failure),
    }
    Ok(())
}

/// A commit that somebody has taken back from the base branch would come back in with a branch that stands on it. Where
/// the forge does not say, nothing speaks against it.
///
/// # Errors
/// When the base branch lacks, by now, the commit that was worked on.
pub(super) async fn must_have_base(
    run: &Run<'_>,
    repository: &Repository,
    workspace: &Workspace,
) -> Result<()> {
    let (forge, branch) = (run.world.forge()?, &workspace.base_branch);
    let base = workspace.base.to_string();
    match resumption::contains(forge.as_ref(), &repository.id, branch, &base).await {
        Ok(false) => Err(replaced(run, workspace, branch)),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// The failure, or what explains it: that the branch is another repository's by now.
async fn because(run: &Run<'_>, origin: Origin<'_>, failure: Failure) -> Failure {
    let Ok(forge) = run.world.forge() else { return failure };
    match admit::must_be_same(forge.as_ref(), origin.repository()).await {
        Err(other) if other.kind == FailureKind::Refused => other.hint(run.change_kept()),
        Ok(()) | Err(_) => failure,
    }
}

/// What the branch points to. A default branch that was renamed is the default branch still.
///
/// # Errors
/// When the forge does not say.
pub(super) async fn tip(
    run: &Run<'_>,
    repository: &Repository,
    branch: &str,
) -> Result<Option<(String, Oid)>> {
    let (forge, id) = (run.world.forge()?, &repository.id);
    if let Some(tip) = forge.branch_tip(id, branch).await? {
        return Ok(Some((branch.to_owned(), tip)));
    }
    if branch != repository.default_branch {
        return Ok(None);
    }
    let now = forge.repository(id).await?.default_branch;
    let tip = if now == branch { None } else { forge.branch_tip(id, &now).await? };
    Ok(tip.map(|tip| (now, tip)))
}

/// The change is for the branch that is called `now`.
fn renamed(run: &Run<'_>, workspace: &mut Workspace, outcome: &mut Outcome, now: String) {
    if now != workspace.base_branch {
        let ui = run.environment.ui;
        ui.say(&format!(
            "`{}` is `{now}` by now, and the change is for that",
            workspace.base_branch
        ));
        outcome.provenance.base_branch.clone_from(&now);
        workspace.base_branch = now;
    }
}

fn gone(run: &Run<'_>, branch: &str) -> Failure {
    Failure::refused(format!(
        "the base branch `{branch}` was deleted or renamed while this was made, so nothing is published"
    ))
    .hint(restore(branch))
    .hint(run.change_kept())
}

/// A pull request could not be opened because its base branch is not there any more.
pub(super) fn without_base(err: ForgeError, branch: &str) -> Failure {
    let failure = Failure::from(err);
    let message = format!("the base branch `{branch}` was deleted or renamed: {}", failure.message);
    Failure { message, ..failure }.hint(restore(branch))
}

fn restore(branch: &str) -> String {
    format!(
        "restore `{branch}`, or name the branch that has its commits with `--base`, and run the command again: \
         the change is published without asking the model again"
    )
}

fn replaced(run: &Run<'_>, workspace: &Workspace, branch: &str) -> Failure {
    let base = workspace.base.to_string();
    Failure::refused(format!(
        "`{branch}` does not have the commit {} any more, on which the change stands, so nothing is published",
        resumption::short(&base)
    ))
    .hint("run the same command again: it begins anew on the branch as it is by then")
    .hint(run.change_kept())
}

/// What the comparison means for the outcome.
fn note(run: &Run<'_>, branch: &str, found: BaseComparison, outcome: &mut Outcome) {
    match found {
        BaseComparison::Same | BaseComparison::Clean => {}
        BaseComparison::Contained => {
            outcome.conclusion = Conclusion::NothingToDo;
            outcome.reason = Some(format!("`{branch}` has this change by now"));
            salvage::write_report(run, outcome, None);
        }
        BaseComparison::Conflicts => {
            let mention = &run.config.respond.mention;
            outcome.judgement.flags.push(Violation {
                rule: "base.moved".to_owned(),
                path: None,
                message: format!("`{branch}` {CONFLICTS}; `@{mention} rebase` puts both together"),
            });
        }
    }
}

async fn compared(
    run: &Run<'_>,
    origin: Origin<'_>,
    workspace: &Workspace,
    commit: Oid,
    tip: Oid,
) -> Result<BaseComparison> {
    let (forge, repository) = (run.world.forge()?, origin.repository());
    let refs = [tip.to_string()];
    forge.fetch(repository, workspace.repo.path(), &refs, DEPTH).await?;
    let (repo, base) = (workspace.repo.clone(), workspace.base);
    let compared = blocking(move || compare_with_base(&repo, base, tip, commit)).await;
    compared.map_err(|err| workspace::failure(err, "the base branch cannot be compared"))
}

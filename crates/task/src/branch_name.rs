//! The name of the branch that a change goes to, looked for before anything is paid for.

use super::failures;
use super::publish::Origin;
use super::resumption::recorded_base;
use super::run::Run;
use super::workspace::Workspace;
use crate::event::{OWN_BRANCHES, own_branch_beside};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::Repository;
use patchwright_git::clone::{collide, is_branch_name};

/// A name that is possible.
pub(super) struct BranchName {
    pub name: String,
    /// There is such a branch already.
    pub is_there: bool,
}

/// The name of the branch for this work: beside a branch `patchwright` there can be no `patchwright/issue-7`, and
/// `patchwright-issue-7` is used instead. Once that one is there, it stays the name.
///
/// # Errors
/// When nothing could be published under the name that is asked for, or into the base branch.
pub(super) async fn branch_for(
    run: &Run<'_>,
    origin: Origin<'_>,
    head: &Repository,
    workspace: &Workspace,
) -> Result<BranchName> {
    if !is_branch_name(&workspace.base_branch) {
        let base = &workspace.base_branch;
        return Err(Failure::usage(format!("`{base}` is no branch that could be merged into"))
            .hint("name a branch with `--base`"));
    }
    let found = possible(run, origin, head).await?;
    not_the_base(origin, workspace, head, &found.name)?;
    Ok(found)
}

/// A change is not pushed to the branch that it is to be merged into, nor to the default branch.
///
/// # Errors
/// When it would be.
pub(super) fn not_the_base(
    origin: Origin<'_>,
    workspace: &Workspace,
    head: &Repository,
    branch: &str,
) -> Result<()> {
    let is_base = head.id.is_same(&origin.repository().id) && branch == workspace.base_branch;
    if is_base || branch == head.default_branch {
        return Err(Failure::refused(format!("`{branch}` is the branch to merge into"))
            .hint("choose another name with `--branch`"));
    }
    Ok(())
}

/// The base of the open pull request of ours that the work goes into, where that is another one than `workspace` has.
/// Somebody has moved it there, so it stays there, and what is made has to stand on it. An operator who asks for a base
/// decides themselves, and a resumed run goes on where it began.
///
/// # Errors
/// When the forge does not say.
pub(super) async fn base_of_pull(
    run: &Run<'_>,
    origin: Origin<'_>,
    head: &Repository,
    branch: &BranchName,
    workspace: &Workspace,
) -> Result<Option<String>> {
    let has_begun = recorded_base(&run.folder.recorded).is_some();
    if !branch.is_there || has_begun || origin.asked_base(&run.config).is_some() {
        return Ok(None);
    }
    let (forge, id) = (run.world.forge()?, &origin.repository().id);
    let pulls = forge.pull_requests_from(id, &head.id, &branch.name).await;
    let pulls = pulls.map_err(|err| {
        failures::of_forge(format!("cannot look at the pull requests of `{}`", branch.name), err)
    })?;
    let Some(pull) = pulls.into_iter().find(|pull| pull.open) else { return Ok(None) };
    if pull.base_branch == workspace.base_branch {
        return Ok(None);
    }
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    let is_ours = viewer.is_none_or(|viewer| viewer.is_same(&pull.author));
    Ok(is_ours.then_some(pull.base_branch))
}

async fn possible(run: &Run<'_>, origin: Origin<'_>, head: &Repository) -> Result<BranchName> {
    match &run.config.publish.branch {
        Some(asked) if is_branch_name(asked) => choose(run, head, (asked.clone(), None)).await,
        Some(asked) => Err(impossible(asked)),
        None => own_branch(run, head, &origin.branch()).await,
    }
}

/// The name of a branch of ours for this purpose: below [`OWN_BRANCHES`], or beside a branch that is called like that.
///
/// # Errors
/// When there can be none, or the forge does not say.
pub(super) async fn own_branch(run: &Run<'_>, head: &Repository, name: &str) -> Result<BranchName> {
    let names = (format!("{OWN_BRANCHES}{name}"), Some(own_branch_beside(name)));
    choose(run, head, names).await
}

/// The usual name, or the other one where that is impossible or taken into use already.
async fn choose(
    run: &Run<'_>,
    head: &Repository,
    (usual, instead): (String, Option<String>),
) -> Result<BranchName> {
    let names: Vec<String> = [Some(usual.clone()), instead.clone()].into_iter().flatten().collect();
    let there = run
        .world
        .forge()?
        .branches_beside(head, &names)
        .await
        .map_err(|err| failures::of_forge("cannot look at the branches", err))?;
    let found = |name: String| BranchName { is_there: there.contains(&name), name };
    let in_the_way = |name: &str| there.iter().find(|branch| collide(branch, name));
    let Some(instead) = instead else {
        return match in_the_way(&usual) {
            Some(other) => Err(blocked(&usual, other)),
            None => Ok(found(usual)),
        };
    };
    if there.contains(&usual) || (!there.contains(&instead) && in_the_way(&usual).is_none()) {
        return Ok(found(usual));
    }
    if let Some(other) = in_the_way(&instead) {
        return Err(blocked(&instead, other));
    }
    if let Some(other) = in_the_way(&usual) {
        run.environment.ui.say(&format!(
            "no branch can be called `{usual}` beside the branch `{other}`, so it is `{instead}`"
        ));
    }
    Ok(found(instead))
}

fn impossible(asked: &str) -> Failure {
    let failure = Failure::usage(format!("no branch can be called `{asked}`"));
    match asked.strip_prefix("refs/heads/") {
        Some(name) => failure.hint(format!("say `--branch {name}`")),
        None => {
            failure.hint("choose another name with `--branch`, as `git check-ref-format` has them")
        }
    }
}

fn blocked(wanted: &str, other: &str) -> Failure {
    Failure::refused(format!("no branch can be called `{wanted}` beside the branch `{other}`"))
        .hint(format!("choose another name with `--branch`, or delete or rename `{other}`"))
}

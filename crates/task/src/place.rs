//! Where the work on a proposal begins and where it goes to: looked for before anything is paid for.

use super::earlier::{self, EarlierPull};
use super::publish::Origin;
use super::run::Run;
use super::workspace::Workspace;
use super::{admit, branch_name, fork};
use patchwright_base::error::Result;
use patchwright_forge::Repository;

/// The beginning and the end of the way of a change.
pub(super) struct Place {
    /// The repository at the base of the work.
    pub workspace: Workspace,
    /// Where its branch goes to, which is nowhere in a dry run.
    pub target: Option<Target>,
}

/// Where the branch of a change goes to.
pub(super) struct Target {
    /// The repository itself, or a fork of it.
    pub head: Repository,
    pub branch: String,
    /// The open pull requests that are there for the same.
    pub earlier: Vec<EarlierPull>,
}

/// Without a name for the branch nothing can be published, and without what reviewers said it would be lost.
///
/// # Errors
/// When the forge does not say, or nothing can be published.
pub(super) async fn find(run: &Run<'_>, origin: Origin<'_>) -> Result<Place> {
    let repository = origin.repository();
    let workspace = origin.open(run).await?;
    if run.config.dry_run {
        return Ok(Place { workspace, target: None });
    }
    let head = fork::head(run, repository, &workspace).await?;
    let branch = branch_name::branch_for(run, origin, &head, &workspace).await?;
    let base = branch_name::base_of_pull(run, origin, &head, &branch, &workspace).await?;
    let (workspace, head) = match base {
        Some(base) => on_base(run, origin, &base, (head, &branch.name)).await?,
        None => (workspace, head),
    };
    let earlier = if branch.is_there {
        earlier::find(run, origin, &head, &branch.name, &workspace).await?
    } else {
        Vec::new()
    };
    Ok(Place { workspace, target: Some(Target { head, branch: branch.name, earlier }) })
}

/// The repository at the base that the open pull request has.
async fn on_base(
    run: &Run<'_>,
    origin: Origin<'_>,
    base: &str,
    (head, branch): (Repository, &str),
) -> Result<(Workspace, Repository)> {
    let repository = origin.repository();
    run.environment.ui.say(&format!("the open pull request is for `{base}`, and so is the work"));
    let workspace = admit::at_base(run, repository, Some(base)).await?;
    branch_name::not_the_base(origin, &workspace, &head, branch)?;
    // A fork has to have this commit as well.
    let head = if head.id.is_same(&repository.id) {
        head
    } else {
        fork::head(run, repository, &workspace).await?
    };
    Ok((workspace, head))
}

//! Which repository a workspace is of, whatever was at its place before, and where work on one without a forge begins.

use std::path::{Path, PathBuf};

use super::run::DEPTH;
use super::workspace::{Workspace, failure};
use crate::world::World;
use patchwright_base::error::Result;
use patchwright_git::{Oid, blocking, source};
use patchwright_types::task::{EarlierWork, ExecRequest};

impl Workspace {
    /// The repository of `exec`, at what its base is now.
    pub(super) async fn of_exec(world: &World, request: &ExecRequest) -> Result<Workspace> {
        let ExecRequest { repository, base, .. } = request;
        let remote = world.remote(repository)?;
        Workspace::open_remote(&world.state, remote, repository, base.as_deref(), DEPTH).await
    }

    /// As [`Workspace::of_exec`], with what earlier runs of its session have left.
    ///
    /// # Errors
    /// For the user: it cannot be read.
    pub(super) async fn where_exec_begins(
        world: &World,
        request: &ExecRequest,
    ) -> Result<Workspace> {
        let opened = Workspace::of_exec(world, request).await?;
        let commit = request.after.as_ref().and_then(|it| opened.left_by(it));
        Ok(match commit {
            Some(commit) => opened.at(commit),
            None => opened,
        })
    }

    /// The commit of earlier work, where this is the commit that it was begun at, and it is still there.
    pub(super) fn left_by(&self, earlier: &EarlierWork) -> Option<Oid> {
        let is_same = self.base.to_string() == earlier.head;
        let commit = earlier.commit.parse::<Oid>().ok().filter(|_| is_same)?;
        self.has(commit).then_some(commit)
    }

    /// What tells the repository from every other one: its place among the clones below `state`, which
    /// is made of its host, owners and name. In a folder another one may have been before, so where it comes from counts
    /// as well.
    ///
    /// # Errors
    /// For the user: the history cannot be read.
    pub(super) async fn identity(&self, state: &Path) -> Result<String> {
        let path = self.repo.path();
        let place = path.strip_prefix(state).unwrap_or(path).display().to_string();
        let Some(folder) = self.folder.clone() else { return Ok(place) };
        let (repo, base) = (self.repo.clone(), self.base);
        let lineage = blocking(move || source::lineage(&repo, base, &folder)).await;
        let lineage = lineage.map_err(|error| failure(error, "cannot read the history"))?;
        Ok(format!("{place} {lineage}"))
    }

    /// Where it was fetched from a folder, all files that the sandbox gets are there.
    ///
    /// # Errors
    /// For the user: some are not.
    pub(super) async fn must_be_whole(&self) -> Result<()> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        let named = format!("cannot read the repository `{}`", folder.display());
        let (repo, commit) = (self.repo.clone(), self.seen());
        let whole = blocking(move || source::must_be_whole(&repo, commit, &folder)).await;
        whole.map_err(|error| failure(error, &named))
    }
}

/// The folder that a repository is fetched from, where it is on this machine.
pub(super) fn folder_of(url: &str) -> Option<PathBuf> {
    match url.strip_prefix("file://") {
        Some(path) => Some(PathBuf::from(path)),
        None => (!url.contains("://")).then(|| PathBuf::from(url)),
    }
}

//! The repository of one run: a mirror on the host, pinned to one commit. The tree goes into the
//! sandbox as a tar, what changed comes back as a [`Change`]; there is no checkout on the host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::authorship::trailer_lines;
use super::failures;
use super::lineage::folder_of;
use super::lock_files;
use super::run::{DEPTH, Run};
use crate::event::is_own_branch;
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::proxies;
use patchwright_config::Config;
use patchwright_forge::Repository;
use patchwright_git::clone::{Repo, fetch, is_commit_id, mirror, partial_mirror};
use patchwright_git::commit::{self, CommitFacts};
use patchwright_git::diff;
use patchwright_git::lfs::Pointer;
use patchwright_git::packed;
use patchwright_git::transport::Remote;
use patchwright_git::tree::{
    self, ArchiveOptions, Change, FetchedCommit, FolderEntry, FolderEntryKind,
};
use patchwright_git::{GitError, Oid, blocking};
use patchwright_sandbox::client::{Client, CollectLimits};
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{ContainerLimits, disk};
use patchwright_types::task::ExecRequest;

/// Most files that setup depends on.
const MAX_LOCK_FILES: usize = 20_000;

/// The branches of a review's sandbox: the pull request's, and what it is compared with. Ours, so that they
/// cannot have the same name.
const OF_THE_CHANGE: &str = "pull-request";
const BEFORE_THE_CHANGE: &str = "base";

/// A pinned repository.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Our bare repository.
    pub repo: Repo,
    /// The commit that the run works on, whatever happens to the branch meanwhile.
    pub base: Oid,
    pub base_branch: String,
    depth: u32,
    /// Where it was fetched from, when that is a URL.
    pub(super) address: Option<String>,
    /// Where it was fetched from, when that is a folder of this machine.
    pub(super) folder: Option<PathBuf>,
    /// The part of `base` that the sandbox has, as a commit of its own, where that is not all of it.
    pub(super) part: Option<Oid>,
    /// What `base` is compared with, in a review: a branch of its own in the sandbox.
    pub(super) compared_with: Option<Oid>,
    /// Another branch that the sandbox has: its name, and the commit that it is at.
    beside: Option<(String, Oid)>,
}

/// What stands in a sandbox beside the files of the commit.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Submodules that were fetched, by path.
    pub submodules: BTreeMap<String, FetchedCommit>,
    /// Contents of Git LFS, by the blob of the pointer.
    pub contents: BTreeMap<Oid, Pointer>,
}

/// What decides about a run: the tree from which configuration, checks and instructions are read, and in
/// which setup commands run. It is the base of the run, as a rule. Setup has a network and runs as root,
/// and what it leaves is what later runs start from, so what a model wrote does not decide: where the
/// base is a branch of ours, which nobody has merged, the default branch stands in.
///
/// Made by [`Workspace::rules`] and [`Checkout::of_exec`] alone, so that tree and configuration are always of
/// one commit.
#[derive(Clone, Debug)]
pub struct Rules(Workspace);

impl Rules {
    /// These rules with only these folders.
    pub(super) async fn sparse(&self, folders: &[String]) -> Result<Rules> {
        self.0.sparse(folders).await.map(Rules)
    }

    pub fn workspace(&self) -> &Workspace {
        &self.0
    }
}

/// What a run stands on.
#[derive(Clone, Debug)]
pub(super) struct Checkout {
    /// What is worked on.
    pub workspace: Workspace,
    pub rules: Rules,
}

impl Checkout {
    /// This checkout with only the folders that the configuration asks for.
    pub(super) async fn sparse(self, run: &Run<'_>) -> Result<Checkout> {
        let folders = &run.config.checkout.sparse;
        let (workspace, rules) =
            (self.workspace.sparse(folders).await?, self.rules.sparse(folders).await?);
        workspace.must_be_whole().await?;
        run.say_what_is_sparse(&workspace).await?;
        Ok(Checkout { workspace, rules })
    }

    /// The repository of `exec`, at the commit that was asked for. `HEAD` decides about a run on a branch of
    /// ours that it does not have, as the default branch does where there is a forge; without a base the operator has
    /// chosen `HEAD` themselves.
    ///
    /// # Errors
    /// For the user: it cannot be read.
    pub(super) async fn of_exec(run: &Run<'_>, request: &ExecRequest) -> Result<Checkout> {
        let ExecRequest { repository, base, .. } = request;
        let state = &run.world.state;
        let opened = Workspace::of_exec(run.world, request).await?;
        if let Some(commit) = request.after.as_ref().and_then(|it| opened.left_by(it)) {
            let (workspace, rules) = (run.pinned(opened.at(commit))?, Rules(opened));
            return Ok(Checkout { workspace, rules });
        }
        let workspace = run.pinned(opened)?;
        if base.is_none() || !workspace.may_be_unmerged(&run.config) {
            let rules = Rules(workspace.clone());
            return Ok(Checkout { workspace, rules });
        }
        let remote = run.world.remote(repository)?;
        let head = Workspace::open_remote(state, remote, repository, None, DEPTH).await?;
        // What is in the history of `HEAD` has been merged. What cannot be found there counts as not merged.
        let is_merged = commit::is_within(&head.repo, workspace.base, head.base).unwrap_or(false);
        let rules = Rules(if is_merged { workspace.clone() } else { head });
        Ok(Checkout { workspace, rules })
    }
}

impl Workspace {
    /// Fetches `base_branch` (or a commit id) `depth` commits deep and pins it.
    pub async fn open(
        world: &World,
        repository: &Repository,
        base_branch: &str,
        depth: u32,
    ) -> Result<Workspace> {
        Workspace::open_part(world, repository, (base_branch, depth), &[]).await
    }

    /// Opens a workspace with the files of these folders only, where there are any; see [`Workspace::sparse`].
    pub async fn open_part(
        world: &World,
        repository: &Repository,
        (base_branch, depth): (&str, u32),
        folders: &[String],
    ) -> Result<Workspace> {
        let failed = |error: GitError| failure(error, &format!("cannot fetch `{}`", repository.id));
        let (state, folders) = (world.state.clone(), folders.to_vec());
        let url = repository.clone_url.clone();
        let repo =
            blocking(move || partial_mirror(&state, &url, &folders)).await.map_err(failed)?;
        let refs = [base_branch.to_owned()];
        world.forge()?.fetch(repository, repo.path(), &refs, depth).await.map_err(|error| {
            failures::of_forge(format!("cannot fetch `{}`", repository.id), error)
        })?;
        let workspace = Workspace::pin(repo, base_branch, depth).await?;
        let url = &repository.clone_url;
        Ok(Workspace { address: Some(url.clone()), folder: folder_of(url), ..workspace })
    }

    /// Pins what has been fetched into `repo` already.
    pub async fn pin(repo: Repo, base_branch: &str, depth: u32) -> Result<Workspace> {
        let (from, name) = (repo.clone(), base_branch.to_owned());
        let base = blocking(move || from.resolve(&name))
            .await
            .map_err(|error| failure(error, &format!("cannot find `{base_branch}`")))?;
        let base_branch = base_branch.to_owned();
        Ok(Workspace {
            repo,
            base,
            base_branch,
            depth,
            address: None,
            folder: None,
            part: None,
            compared_with: None,
            beside: None,
        })
    }

    /// The tree and a fresh `.git`, as a sandbox takes them; no more than its workspace may hold.
    pub async fn pack(&self, limits: &ContainerLimits, additions: Additions) -> Result<Packed> {
        let Additions { submodules, contents } = additions;
        let (this, room) = (self.clone(), limits.workspace_bytes);
        let packed = blocking(move || {
            let usual = ArchiveOptions::new(this.branch(), this.depth);
            let beside = this.other_branch();
            let max_bytes = usual.max_bytes.min(room);
            let is_apart = this.part.is_some();
            let options =
                ArchiveOptions { max_bytes, beside, submodules, contents, is_apart, ..usual };
            let result = packed::whole(&this.repo, this.seen(), &options);
            if result.as_ref().is_err_and(GitError::is_corruption) {
                // The next run starts with a fresh clone instead of failing again.
                this.repo.set_aside()?;
            }
            result
        });
        packed.await.map_err(|error| failure(error, "cannot pack the repository for the sandbox"))
    }

    /// The repository as it decides about runs on this one: see [`Rules`].
    ///
    /// # Errors
    /// For the user: the default branch cannot be fetched.
    pub async fn rules(
        &self,
        world: &World,
        config: &Config,
        repository: &Repository,
    ) -> Result<Rules> {
        let default = &repository.default_branch;
        if self.base_branch == *default || !self.may_be_unmerged(config) {
            return Ok(Rules(self.clone()));
        }
        let folders = &config.checkout.sparse;
        let rules = Workspace::open_part(world, repository, (default, self.depth), folders);
        rules.await.map(Rules)
    }

    /// A model may have written what is here, and nobody has merged it: the branch is named as ours are, or
    /// its newest commit is ours. A commit that cannot be read counts as ours.
    fn may_be_unmerged(&self, config: &Config) -> bool {
        let name = self.base_branch.as_str();
        let is_named_ours = is_own_branch(name) || config.publish.branch.as_deref() == Some(name);
        let tip = commit::read(&self.repo, self.base);
        is_named_ours || tip.map_or(true, |tip| is_ours(&tip, config.identity.committer_email()))
    }

    /// Names of the files in the root folder.
    pub async fn root_files(&self) -> Result<Vec<String>> {
        let entries = self.list("").await?;
        let files = entries.into_iter().filter(|entry| entry.kind == FolderEntryKind::File);
        Ok(files.map(|entry| entry.name).collect())
    }

    /// The files that these commands of setup depend on, by path, with what tells their contents from others: lock
    /// files and manifests, and what the commands name.
    pub async fn lock_files(&self, commands: &[String]) -> Result<Vec<(String, Vec<u8>)>> {
        let (repo, base, scripts) = (self.repo.clone(), self.seen(), lock_files::named(commands));
        let decides = move |path: &str| lock_files::decides(path) || scripts.contains(path);
        let named = blocking(move || tree::blobs_at(&repo, base, MAX_LOCK_FILES, &decides));
        let named = named.await;
        let named =
            named.map_err(|error| failure(error, "cannot list the files of the base commit"))?;
        Ok(named.into_iter().map(|(path, blob)| (path, blob.to_string().into_bytes())).collect())
    }

    /// A regular file of the base commit.
    pub async fn file(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let (repo, base, name) = (self.repo.clone(), self.seen(), path.to_owned());
        blocking(move || tree::file_at(&repo, base, &name))
            .await
            .map_err(|error| failure(error, &format!("cannot read `{path}` of the base commit")))
    }

    /// A file of the base commit, at once: for readers that cannot wait. Unreadable counts as absent.
    pub fn file_now(&self, path: &str) -> Option<Vec<u8>> {
        tree::file_at(&self.repo, self.seen(), path).ok().flatten()
    }

    /// There is a regular file at this path.
    pub fn has_file(&self, path: &str) -> bool {
        tree::is_file_at(&self.repo, self.seen(), path)
    }

    /// What is in a folder of the base commit; the root is the empty path.
    pub async fn list(&self, path: &str) -> Result<Vec<FolderEntry>> {
        let (repo, base, name) = (self.repo.clone(), self.seen(), path.to_owned());
        blocking(move || tree::list_at(&repo, base, &name))
            .await
            .map_err(|error| failure(error, &format!("cannot list `{path}` of the base commit")))
    }

    /// Every regular file of the base commit, sorted; at most `most`.
    pub async fn paths(&self, most: usize) -> Result<Vec<String>> {
        let (repo, base) = (self.repo.clone(), self.seen());
        blocking(move || tree::paths_at(&repo, base, most))
            .await
            .map_err(|error| failure(error, "cannot list the files of the base commit"))
    }

    /// Fetches what changed in the sandbox and turns it into a tree on the base. Commands that still run
    /// in sessions are ended first: what they are in the middle of writing is no change.
    pub async fn collect(&self, client: &Client, limits: CollectLimits) -> Result<Change> {
        let failed = |error| {
            Failure::sandbox("cannot collect the changes from the sandbox").caused_by(error)
        };
        client.end_sessions().await.map_err(failed)?;
        let collected = client.collect(limits).await.map_err(failed)?;
        let (repo, base, seen) = (self.repo.clone(), self.base, self.seen());
        blocking(move || tree::build_of(&repo, base, seen, &collected))
            .await
            .map_err(|error| failure(error, "cannot store the changes"))
    }

    /// The repository of `exec`: a folder or a URL, without a forge.
    pub async fn open_remote(
        state: &Path,
        remote: Remote,
        url: &str,
        base: Option<&str>,
        depth: u32,
    ) -> Result<Workspace> {
        let failed =
            |error: GitError| failure(error, &format!("cannot read the repository `{url}`"));
        let asked = base.unwrap_or("HEAD").to_owned();
        let (state, key) = (state.to_owned(), url.to_owned());
        // Of a commit that another run has brought here, nobody has asked whether this one may read it.
        let remote = remote.asked_always();
        let (repo, reference) = blocking(move || {
            let repo = mirror(&state, &key)?;
            let fetched = fetch(&repo, &remote, std::slice::from_ref(&asked), depth);
            let tag = format!("refs/tags/{asked}");
            match fetched {
                Ok(()) => Ok((repo, asked)),
                // What is no branch may be a tag; when it is neither, the first answer names it.
                Err(GitError::NotFound(name)) => {
                    match fetch(&repo, &remote, std::slice::from_ref(&tag), depth) {
                        Ok(()) => Ok((repo, tag)),
                        Err(_) => Err(GitError::NotFound(name)),
                    }
                }
                Err(err) => Err(err),
            }
        })
        .await
        .map_err(failed)?;
        let workspace = Workspace::pin(repo, &reference, depth).await?;
        let address = url.contains("://").then(|| url.to_owned());
        Ok(Workspace { address, folder: folder_of(url), ..workspace })
    }

    /// Fetches the head of a pull request: by the pull request's own ref, which outlives a deleted
    /// fork, or by its id when the branch has moved on since `head` was read.
    pub async fn fetch_head(
        &self,
        world: &World,
        repository: &Repository,
        number: u64,
        head: &str,
    ) -> Result<Oid> {
        let forge = world.forge()?;
        let Ok(oid) = head.parse::<Oid>() else {
            return Err(Failure::forge(format!("`{head}` is no commit")));
        };
        let mut fetched = Ok(());
        for reference in [format!("refs/pull/{number}/head"), head.to_owned()] {
            fetched = forge.fetch(repository, self.repo.path(), &[reference], self.depth).await;
            if fetched.is_ok() && self.has(oid) {
                return Ok(oid);
            }
        }
        match fetched {
            Err(err) => {
                Err(failures::of_forge(format!("cannot fetch pull request #{number}"), err))
            }
            Ok(()) => Err(Failure::forge(format!(
                "commit {head} of pull request #{number} can no longer be fetched"
            ))),
        }
    }

    /// This repository pinned to another commit, which must be there.
    #[must_use]
    pub fn at(&self, commit: Oid) -> Workspace {
        Workspace { base: commit, part: None, beside: None, ..self.clone() }
    }

    /// This repository pinned to a pull request's head. In the sandbox it is the branch `pull-request`, and the commit
    /// before the change, with its history, the branch `base`.
    #[must_use]
    pub fn at_pull_request(&self, head: Oid, before: Oid) -> Workspace {
        Workspace { compared_with: Some(before), ..self.at(head) }
    }

    /// This workspace with another branch in the sandbox, unless that has a part of the repository only.
    #[must_use]
    pub(super) fn with_beside(self, branch: Option<(String, Oid)>) -> Workspace {
        let beside = branch.filter(|_| self.part.is_none());
        Workspace { beside, ..self }
    }

    /// The branch that the sandbox has besides the one that is worked on.
    pub(super) fn other_branch(&self) -> Option<(String, Oid)> {
        let before = self.compared_with.map(|base| (BEFORE_THE_CHANGE.to_owned(), base));
        before.or_else(|| self.beside.clone())
    }

    /// The sandbox has another branch, which a model may have written.
    pub(super) fn has_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// The commit whose files the sandbox has.
    pub(super) fn seen(&self) -> Oid {
        self.part.unwrap_or(self.base)
    }

    /// Whether a commit is in our repository with its tree.
    pub fn has(&self, commit: Oid) -> bool {
        diff::tree_of(&self.repo, commit).is_ok()
    }

    /// The tree of the base commit.
    pub fn base_tree(&self) -> Result<Oid> {
        diff::tree_of(&self.repo, self.base)
            .map_err(|error| failure(error, "cannot read the base commit"))
    }

    /// A file of the base commit as text.
    pub async fn text_file(&self, path: &str) -> Result<Option<String>> {
        Ok(self.file(path).await?.map(|content| String::from_utf8_lossy(&content).into_owned()))
    }

    /// The branch that `HEAD` is on in the sandbox.
    fn branch(&self) -> &str {
        if self.compared_with.is_some() {
            return OF_THE_CHANGE;
        }
        let name = self.base_branch.strip_prefix("refs/heads/").unwrap_or(&self.base_branch);
        let is_branch = name != "HEAD" && !name.starts_with("refs/") && !is_commit_id(name);
        if is_branch { name } else { "main" }
    }
}

/// The trailer of our commits; the run's id follows.
pub const RUN_TRAILER: &str = "Patchwright-Run: ";

/// The trailer of our commits that somebody has asked for in a comment on the pull request; the comment's id follows.
pub const ASKED_TRAILER: &str = "Patchwright-Asked-In: ";

/// We made it, and nobody has asked for it in particular: a later run on the whole task may replace it.
pub fn may_be_replaced(commit: &CommitFacts, email: &str) -> bool {
    is_ours(commit, email) && !was_asked_for(&commit.message)
}

/// A person has asked for this commit on the pull request that it is on.
fn was_asked_for(message: &str) -> bool {
    trailer_lines(message).any(|line| line.starts_with(ASKED_TRAILER))
}

/// We made it: our committer, or the forge that has committed and signed it for us, and the trailer that every
/// commit of ours ends with. What a person adds on top, or amends, is theirs.
pub fn is_ours(commit: &CommitFacts, email: &str) -> bool {
    let is_by_us = commit.committer_email == email
        || (commit.is_signed && is_email_of_forge(&commit.committer_email));
    is_by_us && has_trailer(&commit.message)
}

/// [`may_be_replaced`] of a commit that is not here, whose signature is therefore not known: before something is
/// replaced, [`may_be_replaced`] is asked.
pub fn is_said_ours(committer_email: &str, message: &str, email: &str) -> bool {
    (committer_email == email || is_email_of_forge(committer_email))
        && has_trailer(message)
        && !was_asked_for(message)
}

fn has_trailer(message: &str) -> bool {
    message.lines().any(|line| line.starts_with(RUN_TRAILER))
}

/// GitHub's own committer, on github.com and on Enterprise Server, or the account of an App.
pub(crate) fn is_email_of_forge(email: &str) -> bool {
    email.starts_with("noreply@") || email.ends_with("[bot]@users.noreply.github.com")
}

/// A git error as people read it.
pub fn failure(error: GitError, message: &str) -> Failure {
    let kind = match &error {
        GitError::Machine(_) => FailureKind::Machine,
        GitError::Unacceptable(_) => FailureKind::Refused,
        GitError::Empty => FailureKind::NothingToDo,
        GitError::Authentication { .. }
        | GitError::Forbidden { .. }
        | GitError::Rejected { .. }
        | GitError::TooLarge { .. }
        | GitError::Moved { .. }
        | GitError::Limited { .. }
        | GitError::NotFound(_)
        | GitError::Transport(_)
        | GitError::ProxyAway(_)
        | GitError::Other(_) => FailureKind::Forge,
    };
    let failure = Failure::new(kind, message);
    let failure = match &error {
        GitError::Authentication { .. } => failure.hint(
            "check that `GITHUB_TOKEN`, or the GitHub App's key, is set, valid and not expired",
        ),
        GitError::Forbidden { .. } => {
            failure.hint("give the token `contents: write` for this repository")
        }
        GitError::Machine(why) if why.contains("No space left") => failure.hint(disk::MAKE_ROOM),
        GitError::Machine(_) => {
            failure.hint("check free space and permissions of the state folder")
        }
        GitError::Empty => failure.hint("push a first commit"),
        GitError::ProxyAway(_) => failure.hint(proxies::AWAY),
        _ => failure,
    };
    failure.caused_by(error)
}

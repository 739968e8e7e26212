//! Commits that GitHub makes and signs, so that they are verified.
//!
//! GitHub signs what its web interface, an App or a mutation commits, and never what is pushed. There are two ways
//! to have it do so. An App (and the token of a workflow run, which is one) makes a tree and a commit of it over
//! REST and names no author: that expresses every mode, merges too, and no branch points to it. Everybody may use
//! the mutation `createCommitOnBranch`, which makes ordinary files only, on top of a branch; that branch is one of
//! our own, which is gone afterwards.
//!
//! Either way the commit then comes back into our repository, checked by its id, and is pushed as any other: with
//! the old value of the branch, which neither of the two can name for a branch that is to be replaced.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::graphql::GraphqlResponse;
use super::http::Call;
use super::rules::VerificationJson;
use super::staging::{self, CONTENTS_WRITE, in_path};
use super::token::Scope;
use super::{GitHubForge, route};
use crate::{ForgeError, RepositoryId, Requirement, Staged, staging_branch};
use patchwright_git::clone::Repo;
use patchwright_git::tree::{self, FileChange, Mode};
use patchwright_git::{GitError, Oid, blocking, commit, signing};

/// Bytes of one file, and of all in one request.
const LARGEST_FILE: usize = 40 << 20;
const LARGEST_REQUEST: usize = 30 << 20;
/// A text of at most so many bytes travels in the list of files, others by themselves.
const LONGEST_TEXT: usize = 256 << 10;
/// What is in here takes a permission of its own.
const WORKFLOWS: &str = ".github/workflows/";

const MUTATION: &str = "mutation($input: CreateCommitOnBranchInput!) {
  createCommitOnBranch(input: $input) { commit { oid } }
}";

/// A commit of ours, as it is to be made once more.
struct CommitToSign {
    tree: Oid,
    /// The tree of the first parent.
    base_tree: Oid,
    parents: Vec<Oid>,
    message: String,
    files: Vec<(FileChange, Vec<u8>)>,
}

#[derive(Deserialize)]
struct CommitJson {
    sha: String,
    #[serde(default)]
    verification: Option<VerificationJson>,
}

#[derive(Deserialize)]
struct Object {
    sha: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateCommitData {
    create_commit_on_branch: Option<CreateCommitPayload>,
}

#[derive(Deserialize)]
struct CreateCommitPayload {
    commit: Option<CommitOid>,
}

#[derive(Deserialize)]
struct CommitOid {
    oid: String,
}

/// Where a commit is made.
struct SigningRepository<'a> {
    forge: &'a GitHubForge,
    id: &'a RepositoryId,
    repo: Repo,
}

impl GitHubForge {
    /// Has GitHub make this commit once more; the new one is in the repository at `from`. `key` tells the work
    /// that it belongs to from other work.
    pub(super) async fn sign_commit(
        &self,
        id: &RepositoryId,
        from: &Path,
        commit: Oid,
        key: &str,
    ) -> Result<Staged<Oid>, ForgeError> {
        let repo = Repo::open(from).map_err(of_git)?;
        let wanted = read(repo.clone(), commit).await?;
        let place = SigningRepository { forge: self, id, repo };
        if self.own_account().await?.is_some_and(|us| us.is_machine())
            && let Some(signed) = place.over_rest(&wanted).await?
        {
            return Ok(Staged::gone(signed));
        }
        if let Some(why) = wanted.inexpressible() {
            return Err(ForgeError::Invalid {
                action: format!("having GitHub sign the commit for `{id}`"),
                message: format!(
                    "{why}, which it does for GitHub Apps only; be one, or sign with an SSH key"
                ),
            });
        }
        place.on_staging_branch(&wanted, key).await
    }
}

impl CommitToSign {
    /// What the mutation cannot make.
    fn inexpressible(&self) -> Option<String> {
        if self.parents.len() != 1 {
            return Some("it is a merge".to_owned());
        }
        let is_plain = |mode: Mode| mode == Mode::File;
        let odd = self.files.iter().map(|(file, _)| file).find(|file| {
            let old = file.old.map(|old| old.mode);
            match file.new {
                Some(new) => !is_plain(new.mode) || !old.is_none_or(is_plain),
                None => old == Some(Mode::Gitlink),
            }
        });
        if let Some(file) = odd {
            let path: String = file.path.chars().filter(|c| !c.is_control()).take(200).collect();
            return Some(format!("`{path}` is executable, a symlink or a submodule"));
        }
        let bytes: usize = self.files.iter().map(|(_, content)| content.len()).sum();
        (bytes / 3 * 4 > LARGEST_REQUEST).then(|| format!("its files have {bytes} bytes"))
    }

    /// A refusal to make it, with what it takes. GitHub names a permission that is not enough where workflow files are
    /// in it, or none.
    fn refusal(&self, err: ForgeError) -> ForgeError {
        if !self.files.iter().any(|(file, _)| file.path.starts_with(WORKFLOWS)) {
            return err;
        }
        let need = Some(Requirement::Workflows);
        match err {
            ForgeError::Forbidden { action, message, .. } => {
                ForgeError::Forbidden { action, message, need }
            }
            ForgeError::Invalid { action, message } if message.contains("update workflow") => {
                ForgeError::Forbidden { action, message, need }
            }
            err => err,
        }
    }

    /// Whether this commit is the one that was wanted, whoever its author is.
    fn is_met_by(&self, facts: &commit::CommitFacts) -> bool {
        facts.tree == self.tree
            && facts.parents == self.parents
            && facts.message.trim() == self.message.trim()
    }
}

impl SigningRepository<'_> {
    /// A tree and a commit; `None` where GitHub makes it and does not sign it.
    async fn over_rest(&self, wanted: &CommitToSign) -> Result<Option<Oid>, ForgeError> {
        let mut entries = Vec::new();
        for (file, content) in &wanted.files {
            entries.push(self.entry(file, content).await?);
        }
        let tree = json!({ "base_tree": wanted.base_tree.to_string(), "tree": entries });
        let tree: Result<Object, _> = self.make("git/trees", "a tree", tree).await;
        let tree = tree.map_err(|err| wanted.refusal(err))?;
        if tree.sha != wanted.tree.to_string() {
            return Err(self.other("files"));
        }
        let parents: Vec<String> = wanted.parents.iter().map(Oid::to_string).collect();
        let body = json!({ "message": wanted.message, "tree": tree.sha, "parents": parents });
        let made: Result<CommitJson, _> = self.make("git/commits", "a commit", body).await;
        let made = made.map_err(|err| wanted.refusal(err))?;
        if !made.verification.as_ref().is_some_and(|told| told.verified) {
            return Ok(None);
        }
        self.adopt(wanted, made).await.map(Some)
    }

    async fn entry(&self, file: &FileChange, content: &[u8]) -> Result<Value, ForgeError> {
        let Some(new) = file.new else {
            let mode = file.old.map_or(Mode::File, |old| old.mode);
            return Ok(
                json!({ "path": file.path, "mode": octal(mode), "type": kind(mode), "sha": null }),
            );
        };
        let mut entry =
            json!({ "path": file.path, "mode": octal(new.mode), "type": kind(new.mode) });
        let is_there = file.old.is_some_and(|old| old.oid == new.oid) || new.mode == Mode::Gitlink;
        match std::str::from_utf8(content) {
            _ if is_there => entry["sha"] = new.oid.to_string().into(),
            // A zero byte does not survive as text.
            Ok(text) if text.len() <= LONGEST_TEXT && !text.contains('\0') => {
                entry["content"] = text.into();
            }
            _ => {
                let content = BASE64_STANDARD.encode(content);
                let body = json!({ "content": content, "encoding": "base64" });
                let blob: Object = self.make("git/blobs", "a file", body).await?;
                entry["sha"] = blob.sha.into();
            }
        }
        Ok(entry)
    }

    /// An object that nothing points to, so that making it twice does no harm.
    async fn make<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        what: &str,
        body: Value,
    ) -> Result<T, ForgeError> {
        let api = &self.forge.api;
        let call =
            Call::write(Method::POST, route(self.id, path), format!("{what} of `{}`", self.id))
                .for_action(format!("write {what} of `{}`", self.id), CONTENTS_WRITE)
                .json(body);
        let (reply, _) = api.write_repeatable(&call).await?;
        let reply = api.good(&call, reply)?;
        api.parse(&call, &reply)
    }

    /// One commit on a branch of our own, which is taken away afterwards.
    async fn on_staging_branch(
        &self,
        wanted: &CommitToSign,
        key: &str,
    ) -> Result<Staged<Oid>, ForgeError> {
        let branch = staging_branch(key);
        let parent = wanted.parents[0];
        let signed = match self.stage(&branch, parent, wanted).await {
            Ok(Some(there)) => Ok(there),
            Ok(None) => {
                let made = self.commit_on(&branch, parent, wanted).await;
                made.map_err(|err| wanted.refusal(err))
            }
            Err(err) => Err(staging::refused(err)),
        };
        // When we may no longer write, whoever may takes it away.
        if matches!(signed, Err(ForgeError::Fenced { .. })) {
            return signed.map(Staged::gone);
        }
        let left = self.forge.take_away(self.id, &branch).await;
        signed.map(|made| Staged { made, left })
    }

    /// Points the branch to the parent. A killed attempt may have left it there, or the commit on it: then that
    /// is the result.
    async fn stage(
        &self,
        branch: &str,
        parent: Oid,
        wanted: &CommitToSign,
    ) -> Result<Option<Oid>, ForgeError> {
        let api = &self.forge.api;
        let action = format!("make the branch `{branch}` in `{}`", self.id);
        let name = format!("branch `{branch}` of `{}`", self.id);
        let body = json!({ "ref": format!("refs/heads/{branch}"), "sha": parent.to_string() });
        let call = Call::write(Method::POST, route(self.id, "git/refs"), name.clone())
            .for_action(&action, CONTENTS_WRITE)
            .json(body);
        let (reply, _) = api.write_repeatable(&call).await?;
        let Err(err) = api.good(&call, reply) else { return Ok(None) };
        let is_there = |message: &str| message.to_lowercase().contains("already exists");
        if !matches!(&err, ForgeError::Invalid { message, .. } if is_there(message)) {
            return Err(err);
        }
        match self.tip(branch).await? {
            None => return Err(err),
            Some(tip) if tip == parent => return Ok(None),
            Some(tip) => {
                if let Ok(signed) = self.take(wanted, tip).await {
                    return Ok(Some(signed));
                }
            }
        }
        let path = route(self.id, &format!("git/refs/heads/{}", in_path(branch)));
        let call = Call::write(Method::PATCH, path, name)
            .for_action(action, CONTENTS_WRITE)
            .json(json!({ "sha": parent.to_string(), "force": true }));
        let (reply, _) = api.write_repeatable(&call).await?;
        api.good(&call, reply).map(|_| None)
    }

    async fn commit_on(
        &self,
        branch: &str,
        parent: Oid,
        wanted: &CommitToSign,
    ) -> Result<Oid, ForgeError> {
        let api = &self.forge.api;
        let thing = format!("a commit of `{}`", self.id);
        let input = json!({ "input": self.input(branch, parent, wanted) });
        let call = api
            .graphql_call(MUTATION, &input, (Scope::of_repository(self.id), thing))
            .for_action(format!("commit to `{}`", self.id), CONTENTS_WRITE);
        // A second attempt after a lost answer finds the branch moved, by the first: looked up below.
        let err = match api.mutate::<CreateCommitData>(&call).await {
            Ok(GraphqlResponse { data, errors }) => {
                let made = data.and_then(|data| data.create_commit_on_branch?.commit);
                match made {
                    Some(made) if errors.is_empty() => {
                        return self.take(wanted, self.oid(&made.oid)?).await;
                    }
                    _ => api.refused(&call, &errors),
                }
            }
            Err(err @ ForgeError::Fenced { .. }) => return Err(err),
            Err(err) => err,
        };
        match self.tip(branch).await {
            Ok(Some(tip)) if tip != parent => self.take(wanted, tip).await.map_err(|_| err),
            _ => Err(err),
        }
    }

    fn input(&self, branch: &str, parent: Oid, wanted: &CommitToSign) -> Value {
        let (headline, body) = wanted.message.split_once('\n').unwrap_or((&wanted.message, ""));
        let (mut additions, mut deletions) = (Vec::new(), Vec::new());
        for (file, content) in &wanted.files {
            match file.new {
                Some(_) => additions.push(
                    json!({ "path": file.path, "contents": BASE64_STANDARD.encode(content) }),
                ),
                None => deletions.push(json!({ "path": file.path })),
            }
        }
        json!({
            "branch": { "repositoryNameWithOwner": self.id.to_string(), "branchName": branch },
            "message": { "headline": headline.trim(), "body": body.trim() },
            "fileChanges": { "additions": additions, "deletions": deletions },
            "expectedHeadOid": parent.to_string(),
        })
    }

    async fn tip(&self, branch: &str) -> Result<Option<Oid>, ForgeError> {
        crate::Forge::branch_tip(self.forge, self.id, branch).await
    }

    /// The commit that is there by now.
    async fn take(&self, wanted: &CommitToSign, oid: Oid) -> Result<Oid, ForgeError> {
        let path = route(self.id, &format!("git/commits/{oid}"));
        let call = Call::get(path, format!("a commit of `{}`", self.id));
        let made: CommitJson = self.forge.api.read_json(&call).await?;
        self.adopt(wanted, made).await
    }

    /// Writes it here. What is in it is known by its id, and must be what was wanted.
    async fn adopt(&self, wanted: &CommitToSign, made: CommitJson) -> Result<Oid, ForgeError> {
        let oid = self.oid(&made.sha)?;
        let told = made.verification.ok_or_else(|| self.unsigned("unsigned"))?;
        let (true, Some(payload), Some(signature)) =
            (told.verified, &told.payload, &told.signature)
        else {
            return Err(self.unsigned(told.to_verification().words()));
        };
        // What was made of other files is not here, so that it cannot even be written.
        if payload.lines().next() != Some(format!("tree {}", wanted.tree).as_str()) {
            return Err(self.other("commit"));
        }
        let (repo, payload, signature) = (self.repo.clone(), payload.clone(), signature.clone());
        let adopted = blocking(move || {
            let oid = signing::adopt(&repo, oid, &payload, &signature)?;
            Ok((oid, commit::read(&repo, oid)?))
        });
        let (oid, facts) = adopted.await.map_err(of_git)?;
        if wanted.is_met_by(&facts) { Ok(oid) } else { Err(self.other("commit")) }
    }

    fn oid(&self, sha: &str) -> Result<Oid, ForgeError> {
        sha.parse().map_err(|_| ForgeError::Malformed {
            host: self.forge.api.host(),
            message: "it has made a commit without an id".to_owned(),
        })
    }

    fn unsigned(&self, why: &str) -> ForgeError {
        ForgeError::Invalid {
            action: format!("having GitHub sign the commit for `{}`", self.id),
            message: format!("it has made the commit, but does not verify it: {why}"),
        }
    }

    fn other(&self, what: &str) -> ForgeError {
        ForgeError::Invalid {
            action: format!("having GitHub sign the commit for `{}`", self.id),
            message: format!("it made another {what} of what it was given"),
        }
    }
}

async fn read(repo: Repo, commit: Oid) -> Result<CommitToSign, ForgeError> {
    let wanted = blocking(move || {
        let facts = commit::read(&repo, commit)?;
        let Some(parent) = facts.parents.first().copied() else {
            return Err(GitError::Unacceptable("a first commit cannot be signed".to_owned()));
        };
        let change = tree::between(&repo, parent, facts.tree)?;
        let mut files = Vec::with_capacity(change.files.len());
        for file in change.files {
            let content = match file.new {
                Some(new) if new.mode != Mode::Gitlink => {
                    tree::read_blob(&repo, new.oid, LARGEST_FILE)?
                }
                _ => Vec::new(),
            };
            files.push((file, content));
        }
        let base_tree = commit::read(&repo, parent)?.tree;
        let commit::CommitFacts { tree, parents, message, .. } = facts;
        Ok(CommitToSign { tree, base_tree, parents, message, files })
    });
    wanted.await.map_err(of_git)
}

fn of_git(error: GitError) -> ForgeError {
    match error {
        GitError::Machine(message) => ForgeError::Machine { message },
        error => ForgeError::Git { message: error.to_string() },
    }
}

fn octal(mode: Mode) -> String {
    format!("{:06o}", mode.bits())
}

fn kind(mode: Mode) -> &'static str {
    if mode == Mode::Gitlink { "commit" } else { "blob" }
}

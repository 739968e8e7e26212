//! Forks: found or made, waited for, and brought to where the repository is that they were made from.
//!
//! GitHub makes a fork after it has answered, and an account has one fork in a network at most: who asks for a
//! second one is told of the first, whatever that is called and whichever member of the network it was made from.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::http::{Call, segment};
use super::{GitHubForge, route, wire};
use crate::{Account, Comparison, Forge, ForgeError, Repository, RepositoryId, StateProblem};
use patchwright_git::Oid;

/// What a token needs to make a fork, and to move its branches.
const ADMINISTRATION_WRITE: &str = "administration: write";
const CONTENTS_WRITE: &str = "contents: write";
/// Pauses between looks at a fork that is being made; GitHub says that five minutes are too long.
static LOOKS: [u64; 12] = [1, 2, 4, 8, 15, 30, 30, 30, 45, 45, 45, 45];

type PollDelays = std::slice::Iter<'static, u64>;

/// What becomes of a branch.
#[derive(Clone, Copy)]
enum Change {
    New,
    Forward,
}

/// The part of a repository that says what it was made from.
#[derive(Deserialize)]
struct ForkJson {
    #[serde(flatten)]
    repository: wire::Repository,
    /// The root of its network.
    #[serde(default)]
    source: Option<RepositoryName>,
    #[serde(default)]
    parent: Option<RepositoryName>,
}

#[derive(Deserialize)]
struct RepositoryName {
    #[serde(default, deserialize_with = "wire::lenient")]
    full_name: String,
}

impl ForkJson {
    /// The name of the repository that all of its network go back to.
    fn root(&self) -> &str {
        let named = self.source.as_ref().or(self.parent.as_ref());
        named.map_or(self.repository.full_name.as_str(), |named| named.full_name.as_str())
    }

    fn is_fork(&self) -> bool {
        self.source.is_some() || self.parent.is_some()
    }

    fn is_of(&self, network: &str) -> bool {
        self.is_fork() && self.root().eq_ignore_ascii_case(network)
    }
}

impl GitHubForge {
    /// The fork of a repository that belongs to `owner`, or to ourselves.
    pub(super) async fn fork_of(
        &self,
        upstream: &Repository,
        owner: Option<&str>,
        branch: &str,
    ) -> Result<Repository, ForgeError> {
        let us = self.own_account().await?;
        let owner = owner_of(us.as_ref(), owner)?;
        let network = self.kinship(&upstream.id).await?.root().to_owned();
        let usual = RepositoryId { owner: owner.clone(), name: upstream.id.name.clone() };
        let mut looks = LOOKS.iter();
        let found = match self.kinship(&usual).await {
            Ok(found) if found.is_of(&network) => found,
            Ok(_) | Err(ForgeError::NotFound { .. }) => {
                let is_ours = us.is_some_and(|us| us.has_login(&owner));
                self.make_fork(upstream, (&owner, is_ours), branch, &mut looks).await?
            }
            Err(err) => return Err(err),
        };
        // The rest of the run writes there and reads what is there, so it must be what was asked for.
        if !found.is_of(&network) {
            return Err(ForgeError::Malformed {
                host: self.api.host(),
                message: format!(
                    "asked for a fork of `{}`, it answered with `{}`, which is not a fork of it",
                    upstream.id, found.repository.full_name
                ),
            });
        }
        let fork = self.repository_from(found.repository)?;
        self.fits(upstream, &fork)?;
        self.appears(&fork, branch, &mut looks).await?;
        Ok(fork)
    }

    /// What is private stays so, and what cannot be pushed to is of no use.
    fn fits(&self, upstream: &Repository, fork: &Repository) -> Result<(), ForgeError> {
        if upstream.private && !fork.private {
            return Err(ForgeError::state(format!(
                "`{}` is private and its fork `{}` is not, so nothing is pushed there",
                upstream.id, fork.id
            )));
        }
        if fork.archived {
            return Err(ForgeError::State {
                what: StateProblem::Archived,
                message: format!("the fork `{}` is archived and read-only", fork.id),
            });
        }
        if fork.id.is_same(&upstream.id) {
            return Err(ForgeError::Malformed {
                host: self.api.host(),
                message: format!("it calls `{}` a fork of itself", fork.id),
            });
        }
        Ok(())
    }

    async fn kinship(&self, id: &RepositoryId) -> Result<ForkJson, ForgeError> {
        self.api.read_json(&Call::get(route(id, ""), format!("repository `{id}`"))).await
    }

    /// Asks for one, and returns when it is there. Asking again makes no second one.
    async fn make_fork(
        &self,
        upstream: &Repository,
        (owner, is_ours): (&str, bool),
        branch: &str,
        looks: &mut PollDelays,
    ) -> Result<ForkJson, ForgeError> {
        let mut body = json!({ "default_branch_only": branch == upstream.default_branch });
        if !is_ours {
            body["organization"] = owner.into();
        }
        let call = Call::write(
            Method::POST,
            route(&upstream.id, "forks"),
            format!("repository `{}`", upstream.id),
        )
        .for_action(format!("fork `{}` to `{owner}`", upstream.id), ADMINISTRATION_WRITE)
        .json(body);
        let (reply, _) = self.api.write_repeatable(&call).await?;
        let reply = self.api.good(&call, reply)?;
        let made: ForkJson = self.api.parse(&call, &reply)?;
        // The answer may be shorter than what the repository says of itself.
        let id = self.repository_from(made.repository)?.id;
        loop {
            match self.kinship(&id).await {
                Err(ForgeError::NotFound { .. }) => self.pause(&id, looks).await?,
                answer => return answer,
            }
        }
    }

    /// Returns when the fork has branches: the one that is asked for, or at least its default branch. One that has
    /// long been there need not have what was made since.
    async fn appears(
        &self,
        fork: &Repository,
        branch: &str,
        looks: &mut PollDelays,
    ) -> Result<(), ForgeError> {
        loop {
            for name in [branch, &fork.default_branch] {
                if self.branch_tip(&fork.id, name).await?.is_some() {
                    return Ok(());
                }
            }
            self.pause(&fork.id, looks).await?;
        }
    }

    /// Between two looks at a fork that is being made.
    async fn pause(&self, fork: &RepositoryId, looks: &mut PollDelays) -> Result<(), ForgeError> {
        let Some(seconds) = looks.next() else {
            return Err(ForgeError::state(format!(
                "the fork `{fork}` is not complete after five minutes; it may still be made"
            )));
        };
        self.api.limiter.sleep(Duration::from_secs(*seconds)).await;
        Ok(())
    }

    /// Has the fork's branch contain a commit of the same branch of a repository of its network. It is moved forward
    /// only: what somebody has committed to it stays as it is.
    pub(super) async fn bring_up(
        &self,
        upstream: &Repository,
        fork: &Repository,
        branch: &str,
        commit: Oid,
    ) -> Result<(), ForgeError> {
        let theirs = format!("{}:{branch}", fork.id.owner);
        match self.compare_commits(&upstream.id, &commit.to_string(), &theirs).await? {
            Comparison::Identical | Comparison::Ahead => return Ok(()),
            Comparison::Behind => {}
            // The branch was made after the fork.
            Comparison::Unknown if self.branch_tip(&fork.id, branch).await?.is_none() => {
                return self.point(upstream, fork, branch, (commit, Change::New)).await;
            }
            Comparison::Diverged | Comparison::Unknown => {
                return Err(ForgeError::state(format!(
                    "`{branch}` of the fork `{}` has commits of its own and lacks {} of `{}`; bring it up to date",
                    fork.id,
                    commit.short(),
                    upstream.id
                )));
            }
        }
        // GitHub's button brings what is in the parent, which need not be the repository that is worked on.
        let parent = self.kinship(&fork.id).await?.parent;
        if parent
            .is_some_and(|parent| parent.full_name.eq_ignore_ascii_case(&upstream.id.to_string()))
        {
            self.merge_upstream(fork, branch).await?;
            let now = self.compare_commits(&upstream.id, &commit.to_string(), &theirs).await?;
            if matches!(now, Comparison::Identical | Comparison::Ahead) {
                return Ok(());
            }
        }
        self.point(upstream, fork, branch, (commit, Change::Forward)).await
    }

    async fn merge_upstream(&self, fork: &Repository, branch: &str) -> Result<(), ForgeError> {
        let call = Call::write(
            Method::POST,
            route(&fork.id, "merge-upstream"),
            format!("branch `{branch}` of `{}`", fork.id),
        )
        .for_action(format!("bring `{branch}` of `{}` up to date", fork.id), CONTENTS_WRITE)
        .json(json!({ "branch": branch }));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        self.api.good(&call, reply).map(drop)
    }

    /// Points the fork's branch to a commit of its network, whose repositories share their objects on GitHub. Never
    /// by force.
    async fn point(
        &self,
        upstream: &Repository,
        fork: &Repository,
        branch: &str,
        (commit, change): (Oid, Change),
    ) -> Result<(), ForgeError> {
        let sha = commit.to_string();
        let (method, path, body) = match change {
            Change::New => {
                let body = json!({ "ref": format!("refs/heads/{branch}"), "sha": sha });
                (Method::POST, "git/refs".to_owned(), body)
            }
            Change::Forward => {
                let segments: Vec<String> = branch.split('/').map(segment).collect();
                let path = format!("git/refs/heads/{}", segments.join("/"));
                (Method::PATCH, path, json!({ "sha": sha, "force": false }))
            }
        };
        let thing = format!("branch `{branch}` of `{}`", fork.id);
        let call = Call::write(method, route(&fork.id, &path), thing)
            .for_action(format!("bring `{branch}` of `{}` up to date", fork.id), CONTENTS_WRITE)
            .json(body);
        let (reply, _) = self.api.write_repeatable(&call).await?;
        match self.api.good(&call, reply) {
            Ok(_) => Ok(()),
            // Somebody else may have done it meanwhile.
            Err(ForgeError::Invalid { .. })
                if self.branch_tip(&fork.id, branch).await? == Some(commit) =>
            {
                Ok(())
            }
            Err(ForgeError::Invalid { message, .. }) => Err(ForgeError::state(format!(
                "`{branch}` of the fork `{}` cannot be brought to {} of `{}`: {message}; bring it up to date",
                fork.id,
                commit.short(),
                upstream.id
            ))),
            Err(err) => Err(err),
        }
    }
}

/// Whose the fork is to be.
fn owner_of(us: Option<&Account>, owner: Option<&str>) -> Result<String, ForgeError> {
    if let Some(owner) = owner {
        return Ok(owner.to_owned());
    }
    match us {
        Some(us) if !us.is_machine() => Ok(us.login.clone()),
        // An app has no repositories of its own.
        Some(us) => Err(ForgeError::state(format!(
            "`{}` is an app and can have no fork of its own; name the owner of one",
            us.login
        ))),
        None => {
            Err(ForgeError::state("GitHub does not say whose token it is; name the fork's owner"))
        }
    }
}

/// The filter of a list of pull requests.
pub(super) fn filter_of(head: &RepositoryId, branch: &str) -> String {
    segment(&format!("{}:{branch}", head.owner))
}

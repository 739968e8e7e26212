//! What decides about a repository, asked over REST: where GraphQL does not say it.

use serde::Deserialize;

use super::discovery::{HeadFacts, PreflightQuery, RepositoryFacts};
use super::http::{Call, segment};
use super::preflight::is_fatal;
use super::preflight_pulls::pull_facts;
use super::wire::{Permissions, lenient};
use super::{GitHubForge, route};
use crate::{Forge, ForgeError, RepositoryId, StateProblem};

/// After this many consecutive repositories without an answer, the remaining ones are not asked.
const MOST_SILENT: usize = 3;

/// A repository over REST.
#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as GitHub tells them")]
struct RepositoryJson {
    full_name: String,
    #[serde(default, deserialize_with = "lenient")]
    node_id: String,
    #[serde(default, deserialize_with = "lenient")]
    default_branch: String,
    #[serde(default, deserialize_with = "lenient")]
    archived: bool,
    #[serde(default, deserialize_with = "lenient")]
    disabled: bool,
    #[serde(default, deserialize_with = "lenient")]
    fork: bool,
    #[serde(default, deserialize_with = "lenient")]
    is_template: bool,
    #[serde(default, deserialize_with = "lenient")]
    private: bool,
    #[serde(default, deserialize_with = "lenient")]
    topics: Vec<String>,
    #[serde(default)]
    permissions: Option<Permissions>,
}

#[derive(Deserialize)]
struct CommitJson {
    commit: GitCommitJson,
}

#[derive(Deserialize)]
struct GitCommitJson {
    #[serde(default, deserialize_with = "lenient")]
    message: String,
    #[serde(default)]
    committer: Option<CommitterJson>,
}

#[derive(Deserialize)]
struct CommitterJson {
    #[serde(default, deserialize_with = "lenient")]
    email: String,
}

impl GitHubForge {
    /// One repository, by several questions.
    pub(super) async fn facts_over_rest(
        &self,
        id: &RepositoryId,
        wanted: &PreflightQuery,
        silent: &mut usize,
    ) -> Result<RepositoryFacts, ForgeError> {
        let err = match self.read_facts(id, wanted).await {
            Ok(facts) => {
                *silent = 0;
                return Ok(facts);
            }
            Err(err) if is_fatal(&err) => return Err(err),
            Err(err) => err,
        };
        if matches!(err, ForgeError::Unavailable { .. }) {
            *silent += 1;
            if *silent >= MOST_SILENT {
                return Err(err);
            }
        } else {
            *silent = 0;
        }
        let name = id.to_string();
        let trouble = Some(err.to_string());
        Ok(RepositoryFacts {
            asked: name.clone(),
            repository: name,
            trouble,
            ..RepositoryFacts::default()
        })
    }

    async fn read_facts(
        &self,
        id: &RepositoryId,
        wanted: &PreflightQuery,
    ) -> Result<RepositoryFacts, ForgeError> {
        let call = Call::get(route(id, ""), format!("repository `{id}`"));
        let json: RepositoryJson = self.api.read_json(&call).await?;
        let now: RepositoryId = json.full_name.parse().map_err(|_| ForgeError::Malformed {
            host: self.api.host(),
            message: "a repository without a name".to_owned(),
        })?;
        let base_branch = wanted.base.clone().unwrap_or(json.default_branch);
        let mut facts = RepositoryFacts {
            asked: id.to_string(),
            repository: now.to_string(),
            node_id: json.node_id,
            archived: json.archived,
            disabled: json.disabled,
            fork: json.fork,
            template: json.is_template,
            private: json.private,
            can_push: json.permissions.map(|permissions| permissions.push),
            topics: json.topics,
            ..RepositoryFacts::default()
        };
        if !json.disabled && !base_branch.is_empty() {
            let tip = self.branch_tip(&now, &base_branch).await?;
            facts.base_sha = tip.map(|tip| tip.to_string());
        }
        facts.base_branch = base_branch;
        if facts.base_sha.is_none() || facts.archived {
            return Ok(facts);
        }
        for file in &wanted.files {
            if !self.has_file(&now, &facts.base_branch, file).await? {
                facts.missing_files.push(file.clone());
            }
        }
        facts.pulls = if wanted.open_pulls {
            self.open_pulls_of(&facts.repository).await?
        } else {
            let pulls = self.pulls_from(&now, &now, &wanted.head_branch, "all").await?;
            pulls.into_iter().map(pull_facts).collect()
        };
        if !wanted.open_pulls {
            facts.head = self.head_of(&now, &wanted.head_branch).await?;
        }
        Ok(facts)
    }

    /// The last commit of a branch.
    async fn head_of(
        &self,
        id: &RepositoryId,
        branch: &str,
    ) -> Result<Option<HeadFacts>, ForgeError> {
        let Some(tip) = self.branch_tip(id, branch).await? else { return Ok(None) };
        let call =
            Call::get(route(id, &format!("commits/{tip}")), format!("commit {tip} of `{id}`"));
        let json: CommitJson = self.api.read_json(&call).await?;
        Ok(Some(HeadFacts {
            sha: tip.to_string(),
            committer_email: json.commit.committer.map(|by| by.email).unwrap_or_default(),
            message: json.commit.message,
        }))
    }

    async fn has_file(
        &self,
        id: &RepositoryId,
        branch: &str,
        file: &str,
    ) -> Result<bool, ForgeError> {
        let path: Vec<String> = file.split('/').map(segment).collect();
        let rest = format!("contents/{}?ref={}", path.join("/"), segment(branch));
        let call = Call::get(route(id, &rest), format!("`{file}` of `{id}`"));
        match self.api.read(&call).await {
            // A file above 100 MB is refused, and there.
            Ok(_) | Err(ForgeError::State { what: StateProblem::TooLarge, .. }) => Ok(true),
            Err(ForgeError::NotFound { .. }) => Ok(false),
            Err(err) => Err(err),
        }
    }
}

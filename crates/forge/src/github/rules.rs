//! The rules that hold for a branch, and what GitHub thinks of a commit's signature.
//!
//! Rules are asked for before anything is paid for. They are GitHub's to enforce: where they cannot be read,
//! there are none as far as we know.

use serde::Deserialize;

use super::http::{Call, segment};
use super::wire::lenient;
use super::{GitHubForge, route};
use crate::{BranchRule, ForgeError, RepositoryId, RuleKind, TextRule, Verification};

/// Rules of one branch that are looked at.
const MOST_RULES: usize = 500;

#[derive(Deserialize)]
struct RuleJson {
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    kind: String,
    #[serde(default)]
    parameters: Option<Parameters>,
    #[serde(default, deserialize_with = "lenient")]
    ruleset_id: u64,
    #[serde(default, deserialize_with = "lenient")]
    ruleset_source: String,
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(default)]
    operator: Option<crate::Operator>,
    #[serde(default, deserialize_with = "lenient")]
    pattern: String,
    #[serde(default, deserialize_with = "lenient")]
    negate: bool,
}

#[derive(Deserialize)]
struct RulesetJson {
    #[serde(default, deserialize_with = "lenient")]
    current_user_can_bypass: String,
}

#[derive(Deserialize)]
struct CommitJson {
    commit: InnerCommit,
}

#[derive(Deserialize)]
struct InnerCommit {
    #[serde(default)]
    verification: Option<VerificationJson>,
}

#[derive(Deserialize)]
pub(super) struct VerificationJson {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) verified: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) signature: Option<String>,
    #[serde(default)]
    pub(super) payload: Option<String>,
}

impl VerificationJson {
    pub(super) fn to_verification(&self) -> Verification {
        Verification { verified: self.verified, reason: self.reason.clone() }
    }
}

impl GitHubForge {
    pub(super) async fn rules_of(
        &self,
        repository: &RepositoryId,
        branch: &str,
    ) -> Result<Vec<BranchRule>, ForgeError> {
        let name = segment(branch);
        let call = Call::get(
            route(repository, &format!("rules/branches/{name}?per_page=100")),
            format!("the rules of `{branch}` in `{repository}`"),
        );
        match self.api.list::<RuleJson>(&call, MOST_RULES).await {
            Ok(rules) => Ok(rules.into_iter().filter_map(rule).collect()),
            // Older servers have none, and some tokens may not read them.
            Err(
                ForgeError::NotFound { .. }
                | ForgeError::Forbidden { .. }
                | ForgeError::Invalid { .. }
                | ForgeError::Malformed { .. }
                | ForgeError::State { .. },
            ) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    /// Whether a rule set lets us do what it forbids others; what cannot be told counts as no.
    pub(super) async fn bypasses(
        &self,
        repository: &RepositoryId,
        ruleset: u64,
    ) -> Result<bool, ForgeError> {
        let call = Call::get(
            route(repository, &format!("rulesets/{ruleset}?includes_parents=true")),
            format!("a rule set of `{repository}`"),
        );
        match self.api.read_json::<RulesetJson>(&call).await {
            Ok(ruleset) => {
                Ok(["always", "exempt"].contains(&ruleset.current_user_can_bypass.as_str()))
            }
            Err(ForgeError::NotFound { .. } | ForgeError::Forbidden { .. }) => Ok(false),
            Err(err) => Err(err),
        }
    }

    pub(super) async fn verification_of(
        &self,
        repository: &RepositoryId,
        sha: &str,
    ) -> Result<Verification, ForgeError> {
        let call = Call::get(
            route(repository, &format!("commits/{}", segment(sha))),
            format!("a commit of `{repository}`"),
        );
        let commit: CommitJson = self.api.read_json(&call).await?;
        let unsigned = || Verification { verified: false, reason: "unsigned".to_owned() };
        Ok(commit
            .commit
            .verification
            .as_ref()
            .map_or_else(unsigned, VerificationJson::to_verification))
    }
}

fn rule(json: RuleJson) -> Option<BranchRule> {
    let text = || {
        let Parameters { operator, pattern, negate } = json.parameters?;
        Some(TextRule { operator: operator?, pattern, negate })
    };
    let kind = match json.kind.as_str() {
        "required_signatures" => RuleKind::SignedCommits,
        "creation" => RuleKind::Creation,
        "update" => RuleKind::Update,
        "non_fast_forward" => RuleKind::ForcePush,
        "branch_name_pattern" => RuleKind::BranchName(text()?),
        "commit_message_pattern" => RuleKind::Message(text()?),
        "commit_author_email_pattern" => RuleKind::AuthorEmail(text()?),
        "committer_email_pattern" => RuleKind::CommitterEmail(text()?),
        _ => return None,
    };
    Some(BranchRule { kind, ruleset: json.ruleset_id, source: json.ruleset_source })
}

//! Branches of our own that exist for a moment: GitHub signs on them, and says there what it thinks of a signature
//! before the commit that has it is put anywhere.
//!
//! What is shown to it for that is no work of anybody: a commit without files starts no workflows, and tells nothing.

use std::path::Path;

use http::Method;

use super::http::{Call, segment};
use super::{GitHubForge, route};
use crate::transfer::PushSpec;
use crate::{
    Forge, ForgeError, Repository, RepositoryId, STAGING, Staged, Verification, staging_branch,
};
use patchwright_git::Oid;

pub(super) const CONTENTS_WRITE: &str = "contents: write";

impl GitHubForge {
    /// What GitHub thinks of the signature of a commit that it has not got.
    pub(super) async fn try_signature(
        &self,
        repository: &Repository,
        from: &Path,
        commit: Oid,
        key: &str,
    ) -> Result<Staged<Verification>, ForgeError> {
        let branch = staging_branch(key);
        let expected = self.branch_tip(&repository.id, &branch).await?;
        let what = PushSpec { from, commits: commit.into(), branch: &branch, expected };
        let told = match self.push_patiently(repository, what).await {
            Ok(_) => self.verification_of(&repository.id, &commit.to_string()).await,
            // Where only verified commits are taken, this is the answer.
            Err(ForgeError::Invalid { message, .. }) if is_about_signatures(&message) => {
                Ok(Verification { verified: false, reason: message })
            }
            Err(err) => Err(refused(err)),
        };
        // When we may no longer write, whoever may takes it away.
        if matches!(told, Err(ForgeError::Fenced { .. })) {
            return told.map(Staged::gone);
        }
        let left = self.take_away(&repository.id, &branch).await;
        told.map(|made| Staged { made, left })
    }

    /// Removes a staging branch. Why it is still there: it is in nobody's way, and the next attempt takes it over.
    pub(super) async fn take_away(&self, id: &RepositoryId, branch: &str) -> Option<String> {
        let path = route(id, &format!("git/refs/heads/{}", in_path(branch)));
        let call = Call::write(Method::DELETE, path, format!("branch `{branch}` of `{id}`"))
            .for_action(format!("delete the branch `{branch}` of `{id}`"), CONTENTS_WRITE);
        let err = match self.api.write_repeatable(&call).await {
            Ok((reply, _)) => match self.api.good(&call, reply) {
                Ok(_) | Err(ForgeError::NotFound { .. }) => return None,
                Err(ForgeError::Invalid { message, .. })
                    if message.to_lowercase().contains("does not exist") =>
                {
                    return None;
                }
                Err(err) => err,
            },
            Err(err) => err,
        };
        tracing::warn!(%err, branch, "the branch is left");
        Some(format!("the branch `{branch}` of `{id}` is left; delete it by hand: {err}"))
    }
}

fn is_about_signatures(message: &str) -> bool {
    message.to_lowercase().contains("verified signatures")
}

/// A rule that refuses such a branch is answered with what can be done about it.
pub(super) fn refused(err: ForgeError) -> ForgeError {
    match err {
        ForgeError::Invalid { action, message } => ForgeError::Invalid {
            action,
            message: format!(
                "{message}; commits are signed and verified on branches below `{STAGING}`, so except these from \
                 the rule, or let the account of the token bypass it"
            ),
        },
        err => err,
    }
}

pub(super) fn in_path(branch: &str) -> String {
    branch.split('/').map(segment).collect::<Vec<_>>().join("/")
}

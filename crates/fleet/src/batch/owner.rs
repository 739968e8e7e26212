//! An organisation that vanished: deleted, renamed, or hidden from the token. That is no fault of each of its
//! repositories, so a campaign pauses for it, and nothing of it fails.

use super::campaign::Campaign;
use super::drive;
use super::fleet::Fleet;
use crate::store::StoreError;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{ForgeError, RepositoryId};
use patchwright_types::campaign::{CampaignState, Target};

/// Whose repository it is.
fn owner_of(repository: &str) -> &str {
    repository.split('/').next().unwrap_or_default()
}

/// Why a repository cannot be found, when it is not the only one: its owner is gone. Trouble with the question is
/// no answer.
pub(super) async fn vanished(fleet: &Fleet, repository: &str) -> Option<String> {
    let id: RepositoryId = repository.parse().ok()?;
    why_gone(fleet, &id.owner).await
}

async fn why_gone(fleet: &Fleet, owner: &str) -> Option<String> {
    match fleet.forge.has_owner(owner).await {
        Ok(true) => None,
        Ok(false) => Some(words(owner)),
        Err(err) if err.is_suspension() => Some(suspended(owner)),
        Err(err @ ForgeError::Forbidden { .. }) => Some(format!("{}: {err}", words(owner))),
        Err(err) => {
            tracing::debug!(%err, "the owner of a repository cannot be looked at");
            None
        }
    }
}

/// An App's installation that an owner of the account, or GitHub, has suspended.
fn suspended(owner: &str) -> String {
    format!(
        "the installation of the GitHub App at `{owner}` is suspended; an owner of it ends that in its settings on GitHub"
    )
}

fn words(owner: &str) -> String {
    format!("`{owner}` is gone, has another name, or is hidden from the token")
}

/// Refuses to go on without an owner that the campaign works for, and pauses it for everybody who works on it: what
/// it has begun there would be forgotten.
///
/// # Errors
/// When the campaign has something to do, or something open, in repositories of one of these owners.
pub(super) async fn check_vanished(
    fleet: &Fleet,
    campaign: &Campaign,
    owners: &[String],
) -> Result<()> {
    if owners.is_empty() {
        return Ok(());
    }
    let id = campaign.id();
    let view = match fleet.store.view(&id).await {
        Ok(view) => view,
        Err(StoreError::NotFound(_)) => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    for owner in owners {
        let is_of_it = |target: &&Target| {
            owner_of(&target.repository).eq_ignore_ascii_case(owner) && is_under_way(target)
        };
        let count = view.targets.iter().filter(is_of_it).count();
        if count == 0 {
            continue;
        }
        let why = why_gone(fleet, owner).await.unwrap_or_else(|| words(owner));
        if view.campaign.state == CampaignState::Running {
            drive::pause(fleet, &id, &why).await?;
        }
        let targets = if count == 1 { "1 repository" } else { &format!("{count} repositories") };
        return Err(Failure::forge(format!(
            "{why}; campaign `{}` has {targets} of it under way, and is paused",
            campaign.name
        ))
        .hint("nothing of it has failed or was published twice: run it again when it is back")
        .hint(format!(
            "to go on without, take `{owner}` out of `select.organizations` and its repositories out of \
             `select.repositories`"
        )));
    }
    Ok(())
}

/// It is not finished, or people are looking at it.
fn is_under_way(target: &Target) -> bool {
    use patchwright_types::campaign::TargetState::{Draft, Held, Open};
    !target.state.is_settled() || matches!(target.state, Held | Open | Draft)
}

//! How the open pull requests of a campaign stand on GitHub now, written down in the store.
//!
//! Called by `batch status --refresh`, before a wave opens, and when a limit on open pull requests
//! is reached. Reads only.

use std::collections::BTreeMap;

use super::fleet::Fleet;
use super::pace;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::github::{LimitedAccount, PullReference, PullState};
use patchwright_forge::{Forge, ForgeError};
use patchwright_types::campaign::{Millis, Target, TargetState};

/// Between two looks that nobody asked for.
const APART: Millis = 5 * 60_000;

/// Looks at all open pull requests; returns how many are in another state than was known.
///
/// # Errors
/// When GitHub or the store cannot be asked. What was found until then is kept.
pub async fn refresh(fleet: &Fleet, campaign: &str) -> Result<usize> {
    let view = fleet.store.view(campaign).await?;
    let is_open = |target: &&Target| matches!(target.state, TargetState::Open | TargetState::Draft);
    let open: Vec<(PullReference, &Target)> = view
        .targets
        .iter()
        .filter(is_open)
        .filter_map(|target| Some((place(target)?, target)))
        .collect();
    let mut accounts: BTreeMap<LimitedAccount, Vec<(PullReference, &Target)>> = BTreeMap::new();
    for (place, target) in open {
        let account = fleet.forge.limited_account(&place.0);
        accounts.entry(account).or_default().push((place, target));
    }
    let (mut changed, mut limit) = (0, None);
    for open in accounts.values() {
        match refresh_some(fleet, open).await {
            Ok(some) => changed += some,
            // The others are looked at all the same.
            Err(RefreshError::Limited(err)) => limit = Some(err),
            Err(RefreshError::Other(failure)) => return Err(failure),
        }
    }
    limit.map_or(Ok(changed), |limit| Err(limit.into()))
}

/// Why pull requests could not be looked at.
enum RefreshError {
    /// GitHub limits requests about this account.
    Limited(ForgeError),
    Other(Failure),
}

impl<T: Into<Failure>> From<T> for RefreshError {
    fn from(err: T) -> RefreshError {
        RefreshError::Other(err.into())
    }
}

/// Looks at the pull requests of one account.
async fn refresh_some(
    fleet: &Fleet,
    open: &[(PullReference, &Target)],
) -> Result<usize, RefreshError> {
    let mut changed = 0;
    // In parts, so that what was found is kept when a later part fails.
    for some in open.chunks(50) {
        let places: Vec<PullReference> = some.iter().map(|(place, _)| place.clone()).collect();
        let states = match fleet.forge.pull_states(&places).await {
            Ok(states) => states,
            Err(err @ ForgeError::RateLimited { .. }) => return Err(RefreshError::Limited(err)),
            Err(err @ ForgeError::Authentication { .. }) => return Err(err.into()),
            // A server without GraphQL, or one that finds the question too much.
            Err(_) => one_by_one(fleet, &places).await?,
        };
        for (place, target) in some {
            let Some(state) = states.get(place) else {
                changed += usize::from(is_gone(fleet, target).await? && gone(fleet, target).await?);
                continue;
            };
            if !is_of(state, target) {
                continue;
            }
            let now = state_of(state);
            if now != target.state {
                let reason = reason(target, now);
                let closed_at = state.closed_at.map(|at| at.timestamp_millis());
                let (store, reason) = (&fleet.store, reason.as_deref());
                let seen = store.observe_target(target.id, now, reason, closed_at).await?;
                changed += usize::from(seen);
            }
        }
    }
    Ok(changed)
}

/// The repository is there no more, for a token that is good for its owner: an owner that is hidden may come back
/// with all that it has.
async fn is_gone(fleet: &Fleet, target: &Target) -> Result<bool> {
    let Ok(repository) = target.repository.parse() else { return Ok(false) };
    match fleet.forge.repository(&repository).await {
        Err(ForgeError::NotFound { .. }) => {}
        // Renamed, or hidden for a moment.
        Ok(_) | Err(_) => return Ok(false),
    }
    Ok(fleet.forge.has_owner(&repository.owner).await.unwrap_or(false))
}

/// Nobody can merge or close its pull request any more, and nobody has rejected it.
async fn gone(fleet: &Fleet, target: &Target) -> Result<bool> {
    let reason = "its repository is gone, or the token may not see it any more";
    let state = TargetState::Superseded;
    Ok(fleet.store.observe_target(target.id, state, Some(reason), None).await?)
}

async fn one_by_one(
    fleet: &Fleet,
    places: &[PullReference],
) -> Result<std::collections::HashMap<PullReference, PullState>> {
    let mut states = std::collections::HashMap::new();
    for place in places {
        let (repository, number) = place;
        let repository_id = match fleet.forge.repository(repository).await {
            Ok(found) => found.node_id,
            Err(ForgeError::NotFound { .. } | ForgeError::Forbidden { .. }) => continue,
            Err(err) => return Err(Failure::from(err)),
        };
        let pull = match fleet.forge.pull_request(repository, *number).await {
            Ok(pull) => pull,
            // Gone, or no longer ours to see: the last known state stays.
            Err(ForgeError::NotFound { .. } | ForgeError::Forbidden { .. }) => continue,
            Err(err) => return Err(Failure::from(err)),
        };
        let (open, draft, merged, url) = (pull.open, pull.draft, pull.merged, pull.html_url);
        let state = PullState { open, draft, merged, url, closed_at: None, repository_id };
        states.insert(place.clone(), state);
    }
    Ok(states)
}

/// A repository that took over the name of another one has pull requests of the same numbers.
fn is_of(state: &PullState, target: &Target) -> bool {
    let known = target.repository_id.as_ref().filter(|_| !state.repository_id.is_empty());
    known.is_none_or(|known| *known == state.repository_id)
}

/// Looks at the pull requests unless that was done a short while ago; trouble is no matter.
pub(super) async fn refresh_if_stale(fleet: &Fleet, campaign: &str) {
    let name = format!("refreshed:{campaign}");
    let looked = async {
        let now = fleet.store.now().await?;
        let last = fleet.store.value(&name).await?.and_then(|last| last.parse::<Millis>().ok());
        let apart = pace::scaled_wait(fleet, APART);
        // A time that is still to come was written by a clock that was wrong. With one that cannot be
        // read it is as with none: they are looked at once too often.
        if last.is_some_and(|last| last <= now && now - last < apart) {
            return Ok(());
        }
        fleet.store.set_value(&name, &now.to_string()).await?;
        refresh(fleet, campaign).await.map(|_| ())
    };
    if let Err(failure) = looked.await {
        tracing::warn!(%failure, "the open pull requests could not be looked at");
    }
}

/// Where the pull request of a target is.
pub(super) fn place(target: &Target) -> Option<PullReference> {
    let number = u64::try_from(target.pull_request?).ok()?;
    Some((target.repository.parse().ok()?, number))
}

fn state_of(pull: &PullState) -> TargetState {
    match (pull.open, pull.merged, pull.draft) {
        (true, _, true) => TargetState::Draft,
        (true, _, false) => TargetState::Open,
        (false, true, _) => TargetState::Merged,
        (false, false, _) => TargetState::Closed,
    }
}

fn reason(target: &Target, now: TargetState) -> Option<String> {
    match now {
        TargetState::Closed => Some("its pull request was closed unmerged".to_owned()),
        TargetState::Draft | TargetState::Open => target.reason.clone(),
        _ => None,
    }
}

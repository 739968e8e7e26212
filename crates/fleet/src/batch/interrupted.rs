//! Which runs and publishings of a campaign nobody works on any more: a process that was killed says nothing, and its
//! targets stay `running` until somebody takes them over.

use std::collections::BTreeSet;

use super::fleet::has_ended;
use crate::store::{Store, StoreResult};
use patchwright_types::campaign::{CampaignView, JobKind, TargetState};

/// Looks who has the targets of a view that are worked on, and marks those that nobody has: the lease has run out, or
/// its process was one of this machine and has ended.
///
/// # Errors
/// When the store cannot be used.
pub async fn mark(store: &Store, view: &mut CampaignView) -> StoreResult<()> {
    let is_begun = |state| matches!(state, TargetState::Running | TargetState::Publishing);
    let begun = view.targets.iter().filter(|target| is_begun(target.state)).map(|target| target.id);
    let begun: BTreeSet<i64> = begun.collect();
    view.interrupted.clear();
    if begun.is_empty() {
        return Ok(());
    }
    let mut held = BTreeSet::new();
    for lease in store.held_leases().await? {
        let is_its = lease.kind != JobKind::Delivery
            && lease.campaign.as_ref() == Some(&view.campaign.id)
            && !has_ended(&lease.owner);
        held.extend(lease.subject.parse::<i64>().ok().filter(|_| is_its));
    }
    let mut interrupted = &begun - &held;
    // One that came to its end since the view was taken has no lease, either.
    for target in view.targets.iter().filter(|target| begun.contains(&target.id)) {
        if interrupted.contains(&target.id)
            && store.target(target.id).await?.updated_at != target.updated_at
        {
            interrupted.remove(&target.id);
        }
    }
    view.interrupted = interrupted;
    Ok(())
}

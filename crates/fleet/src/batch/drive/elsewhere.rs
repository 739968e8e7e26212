//! Pull requests of a campaign that another database has opened: this one was lost, or is another machine's.

use std::collections::HashSet;

use super::CampaignObserver;
use crate::batch::campaign::Campaign;
use crate::batch::fleet::Fleet;
use crate::batch::plan::PlannedTarget;
use patchwright_base::error::Result;

/// Repositories that are named.
const NAMED: usize = 20;

/// Repositories that are finished although this database knows nothing of them, each with what is known.
///
/// # Errors
/// When the store cannot be used.
pub(super) async fn finished(
    fleet: &Fleet,
    campaign: &Campaign,
    planned: &[PlannedTarget],
) -> Result<Vec<String>> {
    if planned.iter().all(|one| one.finished().is_none()) {
        return Ok(Vec::new());
    }
    let mut known = HashSet::new();
    for row in fleet.store.campaigns(Some(&campaign.name)).await? {
        let targets = fleet.store.view(&row.id).await?.targets;
        for target in targets {
            known.insert(target.repository.to_lowercase());
            // It may have another name by now.
            known.extend(target.repository_id);
        }
    }
    let unknown = planned.iter().filter_map(|one| {
        let why = one.finished()?;
        let has_id = one.repository_id.as_deref().is_some_and(|id| known.contains(id));
        let is_unknown = !has_id && !known.contains(&one.repository.to_lowercase());
        (is_unknown && fleet.scope.has(&one.repository))
            .then(|| format!("{} ({why})", one.repository))
    });
    Ok(unknown.collect())
}

/// Says that they are in no list.
pub(super) fn tell(elsewhere: &[String], watch: &mut dyn CampaignObserver) {
    if elsewhere.is_empty() {
        return;
    }
    let more = elsewhere.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = elsewhere.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let whose = if elsewhere.len() == 1 { "one repository is" } else { "some repositories are" };
    watch.say(&format!(
        "{whose} finished by what another database has opened, so that `batch status` and `batch close` know nothing of \
         it: {names}{more}"
    ));
}

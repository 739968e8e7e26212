//! Which repositories a campaign may touch. Looked up anew by each command that starts or resumes
//! one, and asked wherever something is about to happen to a repository that the database names: what is
//! in a database may come from another job, or from a cache.

use std::collections::BTreeSet;

use super::campaign::Campaign;
use super::fleet::Fleet;
use crate::store::{ID, SelectedNames, StoreError, StoreResult};

/// Repositories by name, in lower case, and by GitHub's ids of them, each after [`ID`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<String>);

impl Selection {
    /// Adds a repository, with its id where that is known.
    pub fn add(&mut self, repository: &str, id: Option<&str>) {
        self.0.insert(repository.to_lowercase());
        self.0.extend(id.map(|id| format!("{ID}{id}")));
    }

    /// Whether a repository is among them.
    pub fn has(&self, repository: &str) -> bool {
        self.0.contains(&repository.to_lowercase())
    }

    /// Why a repository is not worked on or published to; `None` when it is selected.
    pub fn refusal(&self, campaign: &Campaign, repository: &str) -> Option<String> {
        (!self.has(repository)).then(|| refused(campaign, repository))
    }
}

fn refused(campaign: &Campaign, repository: &str) -> String {
    let name = &campaign.name;
    format!("campaign `{name}` does not select `{repository}`, so nothing is done to it")
}

/// Keeps what the campaign selects now, for everybody who works on it.
pub async fn keep(fleet: &Fleet, campaign: &Campaign, selection: &Selection) -> StoreResult<()> {
    fleet.store.keep_selection(&campaign.id(), &selection.0).await
}

/// Why a repository is not worked on or published to; `None` when it is selected. It may be known by
/// two names: the one that was recorded, and the one that it has now. An id decides where ids are known: a
/// database that names a selected repository, and the id of another one, gets nothing done to that.
///
/// # Errors
/// When the store cannot be read.
pub async fn refusal(
    fleet: &Fleet,
    campaign: &Campaign,
    recorded: &str,
    now: Option<&str>,
    id: Option<&str>,
) -> StoreResult<Option<String>> {
    let names = [Some(recorded), now];
    let mut selected = fleet.store.selected(&campaign.id(), names, id).await?;
    if selected.is_none() && take_over(fleet, campaign).await? {
        selected = fleet.store.selected(&campaign.id(), names, id).await?;
    }
    let allowed = match selected {
        Some(SelectedNames { has_ids, found }) => match id {
            Some(id) if has_ids => found.contains(&format!("{ID}{id}")),
            _ => found.iter().any(|one| !one.starts_with(ID)),
        },
        None => names.iter().flatten().any(|name| may_be_selected(campaign, name)),
    };
    Ok((!allowed).then(|| refused(campaign, recorded)))
}

/// Versions before kept the whole list as one text, and the campaign may have been begun by one. False when there is
/// none.
async fn take_over(fleet: &Fleet, campaign: &Campaign) -> StoreResult<bool> {
    let kept = fleet.store.value(&format!("selection:{}", campaign.id())).await?;
    let Some(kept) = kept else { return Ok(false) };
    let names: BTreeSet<String> = serde_json::from_str(&kept).map_err(|err| {
        StoreError::Unusable(format!("the selection of `{}`: {err}", campaign.name))
    })?;
    keep(fleet, campaign, &Selection(names)).await?;
    Ok(true)
}

/// As far as the file alone says: nobody has looked yet.
fn may_be_selected(campaign: &Campaign, repository: &str) -> bool {
    let select = &campaign.select;
    let owner = repository.split('/').next().unwrap_or_default();
    select.search.is_some()
        || select.repositories.iter().any(|name| name.eq_ignore_ascii_case(repository))
        || select.organizations.iter().any(|name| name.eq_ignore_ascii_case(owner))
}

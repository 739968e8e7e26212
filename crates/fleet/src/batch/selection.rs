//! Which repositories a campaign may touch. Looked up anew by each command that starts or resumes
//! one, and asked wherever something is about to happen to a repository that the database names: what is
//! in a database may come from another job, or from a cache.

use std::collections::{BTreeMap, BTreeSet};

use super::campaign::Campaign;
use super::fleet::Fleet;
use crate::store::{ID, KnownRepository, SeenRepository, SelectedNames, StoreError, StoreResult};
use patchwright_types::campaign::{ErrorClass, Target};

/// Repositories by name, in lower case, and by GitHub's ids of them, each after [`ID`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    names: BTreeSet<String>,
    /// What each is called now, by its id; and its id, by its name in lower case. Empty where nobody asks.
    called: BTreeMap<String, String>,
    ids: BTreeMap<String, String>,
}

impl Selection {
    /// Adds a repository, with its id where that is known.
    pub fn add(&mut self, repository: &str, id: Option<&str>) {
        self.names.insert(repository.to_lowercase());
        self.names.extend(id.map(|id| format!("{ID}{id}")));
    }

    /// As [`Selection::add`], for whoever asks what a recorded repository is called now.
    pub fn add_called(&mut self, repository: &str, id: Option<&str>) {
        self.add(repository, id);
        if let Some(id) = id {
            self.called.insert(id.to_owned(), repository.to_owned());
            self.ids.insert(repository.to_lowercase(), id.to_owned());
        }
    }

    /// Whether a repository is among them.
    pub fn has(&self, repository: &str) -> bool {
        self.names.contains(&repository.to_lowercase())
    }

    /// The repository of a recorded target, as it is called now. An id says which it is; a name only where there is
    /// no id, as another repository may have taken it over.
    ///
    /// # Errors
    /// Why nothing is done to it: the campaign does not select it.
    pub fn known(&self, campaign: &Campaign, target: &Target) -> Result<KnownRepository, String> {
        let recorded = &target.repository;
        let by_id = target.repository_id.as_deref().filter(|_| !self.called.is_empty());
        let found = match by_id {
            Some(id) => {
                let called = self.called.get(id);
                called.map(|name| KnownRepository { id: Some(id.to_owned()), name: name.clone() })
            }
            None => self.has(recorded).then(|| KnownRepository {
                id: self.ids.get(&recorded.to_lowercase()).cloned(),
                name: recorded.clone(),
            }),
        };
        found.ok_or_else(|| refused(campaign, recorded))
    }

    /// What a recorded target does not say yet of its repository: its id, or that it is called otherwise now.
    pub(super) fn news(&self, target: &Target) -> Option<SeenRepository> {
        let recorded = &target.repository;
        let (id, name) = match &target.repository_id {
            Some(id) => (id, self.called.get(id).filter(|name| *name != recorded)?),
            None => (self.ids.get(&recorded.to_lowercase())?, recorded),
        };
        Some(SeenRepository { id: id.clone(), name: name.clone(), asked: recorded.clone() })
    }
}

/// It failed for nothing but that the campaign did not select it at that time.
pub(super) fn was_not_selected(campaign: &Campaign, target: &Target) -> bool {
    target.class == Some(ErrorClass::Policy)
        && target.reason.as_deref() == Some(refused(campaign, &target.repository).as_str())
}

fn refused(campaign: &Campaign, repository: &str) -> String {
    let name = &campaign.name;
    format!("campaign `{name}` does not select `{repository}`, so nothing is done to it")
}

/// Keeps what the campaign selects now, for everybody who works on it.
pub async fn keep(fleet: &Fleet, campaign: &Campaign, selection: &Selection) -> StoreResult<()> {
    fleet.store.keep_selection(&campaign.id(), &selection.names).await
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
    keep(fleet, campaign, &Selection { names, ..Selection::default() }).await?;
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

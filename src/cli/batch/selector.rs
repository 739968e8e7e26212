//! Which campaign a command is about: by its file, its name or its id.

use std::path::Path;

use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_fleet::batch::campaign::{self, Campaign};
use patchwright_fleet::batch::drive;
use patchwright_fleet::store::{Store, StoreError};
use patchwright_types::campaign::CampaignRow;

/// A campaign as the command line names it.
pub(super) enum CampaignSelector {
    /// A file, as it is now.
    File(Box<Campaign>),
    /// A name or an id.
    Name(String),
}

impl CampaignSelector {
    /// What is a file, or is written like one, is read.
    ///
    /// # Errors
    /// When it cannot be read as a campaign.
    pub(super) fn parse(text: &str) -> Result<CampaignSelector> {
        let path = Path::new(text);
        let is_named_so = path.extension().is_some_and(|end| end == "yml" || end == "yaml");
        if !(path.is_file() || is_named_so || text.contains('/')) {
            return Ok(CampaignSelector::Name(text.to_owned()));
        }
        Ok(CampaignSelector::File(Box::new(campaign::load(path)?)))
    }

    /// The campaign of the file as it is now, else the last one of its name.
    ///
    /// # Errors
    /// When there is none, or the database cannot be used.
    pub(super) async fn find(&self, store: &Store, ui: Ui) -> Result<CampaignRow> {
        let (name, id) = match self {
            CampaignSelector::File(campaign) => {
                let known = drive::recognized(store, (**campaign).clone()).await?;
                (&campaign.name, known.id())
            }
            CampaignSelector::Name(name) => (name, name.clone()),
        };
        let mut rows = store.campaigns(Some(name)).await?;
        if let Some(at) = rows.iter().position(|row| row.id == id) {
            return Ok(rows.swap_remove(at));
        }
        if rows.is_empty() {
            match store.campaign(&id).await {
                Err(StoreError::NotFound(_)) => {}
                row => return Ok(row?),
            }
        }
        let Some(row) = rows.into_iter().next() else {
            return Err(unknown(format!("no campaign `{name}` was run yet")));
        };
        if let CampaignSelector::File(_) = self {
            ui.say(&format!("the file has changed since its last run; this is `{}`", row.id));
        }
        Ok(row)
    }
}

pub(super) fn unknown(message: impl Into<String>) -> Failure {
    Failure::nothing_to_do(message).hint("`patchwright batch run FILE` begins a campaign")
}

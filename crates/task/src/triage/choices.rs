//! What the answer may choose from, decided before the model is asked. A run that is resumed keeps what its
//! conversation is about.

use serde::{Deserialize, Serialize};

use super::admit::AdmittedTriage;
use super::{candidates, labels};
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::Result;
use patchwright_forge::Label;

const OFFER_FILE: &str = "offer.json";

/// Labels and issues to choose from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TriageChoices {
    /// Digest of the text that all this was made for.
    pub digest: String,
    /// Name and description.
    pub labels: Vec<(String, String)>,
    pub candidates: Vec<Candidate>,
    /// For people: what could not be had.
    pub notes: Vec<String>,
}

/// Another issue of the repository, cut to what is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Candidate {
    pub number: u64,
    pub open: bool,
    pub title: String,
    pub body: String,
}

impl TriageChoices {
    pub(super) async fn of(
        run: &Run<'_>,
        admitted: &AdmittedTriage,
        rules: &Workspace,
    ) -> Result<TriageChoices> {
        let recorded = fs_err::read(run.folder.path.join(OFFER_FILE)).ok();
        let recorded = recorded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(offer) = recorded.filter(|_| !run.folder.recorded.is_empty()) {
            return Ok(offer);
        }
        let mut notes = Vec::new();
        let labels: Vec<Label> = labels::offered(run, admitted, rules, &mut notes).await?;
        let candidates = candidates::find(run, admitted, &mut notes).await;
        let offer = TriageChoices {
            digest: admitted.digest.clone(),
            labels: labels.into_iter().map(|label| (label.name, label.description)).collect(),
            candidates,
            notes,
        };
        for note in &offer.notes {
            run.environment.ui.say(&format!("note: {note}"));
        }
        run.folder.write(OFFER_FILE, &serde_json::to_vec(&offer).unwrap_or_default())?;
        Ok(offer)
    }
}

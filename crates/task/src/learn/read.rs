//! What was read without anything having been proposed, in the state folder: a model is not paid for reading it again.
//!
//! Only that is remembered here. What a proposal has read stands in its pull request. New remarks are read together with
//! the old ones, because a lesson may need two pull requests; only where nothing is new no model is asked.

use std::collections::BTreeSet;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::collect::Remark;
use crate::folder;
use crate::run::Run;

/// Where the files are, in the state folder.
pub(crate) const FOLDER: &str = "learned";

/// What a model has found no lesson in.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct EmptyResult {
    /// As the operator named it; another one may find something.
    model: String,
    pub at: DateTime<Utc>,
    /// Digests of what was said, with what it was said about.
    said: BTreeSet<String>,
}

impl EmptyResult {
    /// What was read last, where the same model would be asked about that again and about nothing else. What cannot be
    /// read is read anew.
    pub(super) fn covers(run: &Run<'_>, said: &[Remark]) -> Option<EmptyResult> {
        let text = fs_err::read(file(run)).ok()?;
        let known: EmptyResult = serde_json::from_slice(&text).ok()?;
        let is_all = said.iter().all(|said| known.said.contains(&digest(said)));
        (known.model == run.config.model && is_all).then_some(known)
    }

    /// Remembers that nothing came of this. Where it cannot be written, it is read again.
    pub(super) fn remember(run: &Run<'_>, said: &[Remark]) {
        let known = EmptyResult {
            model: run.config.model.clone(),
            at: run.world.clock.now(),
            said: said.iter().map(digest).collect(),
        };
        let written = serde_json::to_vec(&known)
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok(folder::write_privately(&file(run), &text)?));
        if let Err(err) = written {
            run.environment.ui.warn(&format!(
                "what was read is not remembered, and is read again by the next run: {err}"
            ));
        }
    }
}

fn file(run: &Run<'_>) -> PathBuf {
    run.world.state.join(FOLDER).join(folder::name_of(&run.task))
}

fn digest(said: &Remark) -> String {
    let mut digest = Sha256::new();
    for part in [&said.id, &said.about, &said.text] {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    hex::encode(&digest.finalize()[..16])
}

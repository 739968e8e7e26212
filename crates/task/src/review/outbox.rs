//! What posting needs of a run: where to write, as whom, and what was written already.
//!
//! A run that was killed is repeated with its journal: what it did is not done again, and what it
//! meant to do is looked for on the forge first.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::admit::AdmittedReview;
use crate::admit::is_us;
use crate::folder::RunFolder;
use crate::run::Run;
use patchwright_base::error::{Failure, Hint, Result};
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_forge::{Account, Forge, RepositoryId};
use patchwright_journal::Entry;

/// How far an effect came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effected {
    /// It may have happened.
    Intended,
    Done,
}

/// Where a review is written, and what it may use.
#[derive(Clone, Copy)]
pub struct Outbox<'a> {
    pub forge: &'a dyn Forge,
    pub config: &'a Config,
    pub redactor: &'a Redactor,
    pub ui: Ui,
    pub repository: &'a RepositoryId,
    pub number: u64,
    /// Our own account, when the forge tells.
    pub viewer: Option<&'a Account>,
    /// The run's journal; absent when a review of another run is posted.
    pub folder: Option<&'a RunFolder>,
}

impl<'a> Outbox<'a> {
    /// The outbox of a run.
    ///
    /// # Errors
    /// In a world without a forge.
    pub fn of(run: &'a Run<'_>, admitted: &'a AdmittedReview) -> Result<Outbox<'a>> {
        Ok(Outbox {
            forge: run.world.forge()?.as_ref(),
            config: &run.config,
            redactor: &run.world.redactor,
            ui: run.environment.ui,
            repository: &admitted.repository.id,
            number: admitted.pull.number,
            viewer: admitted.viewer.as_ref(),
            folder: Some(&run.folder),
        })
    }

    /// We wrote it; see [`is_us`].
    pub fn is_ours(&self, author: &Account) -> bool {
        is_us(self.viewer, author)
    }

    /// What an earlier attempt of this run recorded about an effect.
    ///
    /// # Errors
    /// When it cannot be read: whether the effect was had is known, but not what came of it, and it
    /// must not be had twice.
    pub fn recorded<T: DeserializeOwned>(&self, effect: &str) -> Result<Option<T>> {
        let Some(folder) = self.folder else { return Ok(None) };
        let detail = folder.find(|entry| match entry {
            Entry::EffectDone { effect: done, detail, .. } if done == effect => {
                Some(detail.clone())
            }
            _ => None,
        });
        detail.map(serde_json::from_value).transpose().map_err(|err| {
            Failure::machine(format!(
                "the journal of run `{}` says that `{effect}` was written, and not readably what",
                folder.id
            ))
            .caused_by(err)
            .hint(Hint::on_this_machine(format!(
                "move `{}` away to begin anew; the review is found on GitHub and not posted twice",
                folder.path.display()
            )))
        })
    }

    /// Whether this run, or an attempt before, has had an effect or meant to; where that cannot be read, it may have.
    pub fn may_have(run: &Run<'_>, effect: &str, how: Effected) -> bool {
        let is_it = |entry: &Entry| match (entry, how) {
            (Entry::EffectIntended { effect: other, .. }, Effected::Intended)
            | (Entry::EffectDone { effect: other, .. }, Effected::Done) => other == effect,
            _ => false,
        };
        match patchwright_journal::read(run.folder.journal.path()) {
            Ok(lines) => lines.iter().any(|line| is_it(&line.entry)),
            Err(_) => true,
        }
    }

    /// Says in the journal what is about to be written.
    pub fn intends(&self, effect: &str, detail: &impl Serialize) -> Result<()> {
        let Some(folder) = self.folder else { return Ok(()) };
        folder.intends(effect, &self.key(), json!(detail))
    }

    /// Says in the journal what has been written.
    pub fn did(&self, effect: &str, detail: &impl Serialize) -> Result<()> {
        let Some(folder) = self.folder else { return Ok(()) };
        folder.did(effect, &self.key(), json!(detail))
    }

    fn key(&self) -> String {
        format!("{}#{}", self.repository, self.number)
    }
}

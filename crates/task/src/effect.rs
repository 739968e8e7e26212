//! Effects: what a run changes outside of its sandbox. The journal says each before it is attempted and after it was
//! had; one that has only the first may have been had, and is looked up before it is attempted again.

use serde_json::Value;

use super::folder::RunFolder;
use patchwright_base::error::Result;
use patchwright_journal::Entry;

impl RunFolder {
    /// Says in the journal what is about to be done.
    ///
    /// # Errors
    /// When it cannot be written: then it must not be done.
    pub(super) fn intends(&self, effect: &str, key: &str, detail: Value) -> Result<()> {
        let (effect, key) = (effect.to_owned(), key.to_owned());
        self.journal.append(&Entry::EffectIntended { effect, key, detail }).map(drop)
    }

    /// Says in the journal what has been done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn did(&self, effect: &str, key: &str, detail: Value) -> Result<()> {
        let (effect, key) = (effect.to_owned(), key.to_owned());
        self.journal.append(&Entry::EffectDone { effect, key, detail }).map(drop)
    }
}

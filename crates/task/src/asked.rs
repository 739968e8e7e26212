//! The words of a person beside what an issue says, when they meet a run that had begun without them: it is resumed,
//! and its model is told them.

use std::path::{Path, PathBuf};

use super::brief::message;
use super::folder::attempt_folders;
use super::run::Run;
use patchwright_base::error::Result;
use patchwright_base::redact::Redactor;
use patchwright_journal::{self as journal, Entry, Line};
use patchwright_prompt as prompt;
use patchwright_provider::item::{Content, Item, Role};

/// The note in a journal that what was asked has changed. What was concluded before is not about the work as it is
/// asked for now.
const NOTE: &str = "asked in other words";
/// Comes before the words.
const MEANWHILE: &str = "This was asked after the work had begun. Where it differs from what was asked before, it \
                         counts; what is done already stays as far as it fits.";

/// What the model of a resumed run has to be told besides: the words with which it was asked for this time, where the
/// conversation on record does not have them.
///
/// # Errors
/// When they cannot be put into a message.
pub(super) fn untold(run: &Run<'_>, recorded: &[Line]) -> Result<Option<Item>> {
    let Some(words) = &run.environment.asked else { return Ok(None) };
    let words = prompt::asked(words)?;
    let is_untold = lacks(&run.world.redactor, recorded, &words);
    Ok(is_untold.then(|| message(Role::User, format!("{MEANWHILE}\n\n{words}"))))
}

/// The news for the model, after it is written down that it has other words from here on.
///
/// # Errors
/// When the journal cannot be written.
pub(super) fn noted(run: &Run<'_>, news: Option<Item>) -> Result<Option<Item>> {
    if news.is_some() {
        run.journal(&Entry::Note { text: NOTE.to_owned() })?;
    }
    Ok(news)
}

/// The part of a journal that is about the work as it was asked for last.
pub(super) fn since_told(recorded: &[Line]) -> &[Line] {
    let is_note = |line: &Line| matches!(&line.entry, Entry::Note { text } if text == NOTE);
    let last = recorded.iter().rposition(is_note);
    recorded.get(last.map_or(0, |at| at + 1)..).unwrap_or_default()
}

/// What an earlier process has left that still counts: nothing, where the model has to be told other words first.
pub(super) fn settled<'l>(run: &Run<'_>, recorded: &'l [Line]) -> &'l [Line] {
    match untold(run, recorded) {
        Ok(None) => since_told(recorded),
        Ok(Some(_)) | Err(_) => &[],
    }
}

/// A run has a conversation, its own or that of one of its attempts, that does not have these words.
///
/// # Errors
/// When they cannot be put into a message.
pub(super) fn is_unaware(
    redactor: &Redactor,
    folder: &Path,
    recorded: &[Line],
    words: &str,
) -> Result<bool> {
    let words = prompt::asked(words)?;
    let of_attempt = |attempt: PathBuf| {
        let (lines, _) = journal::read_until_damage(&attempt.join(journal::FILE));
        lacks(redactor, &lines, &words)
    };
    let mut attempts = attempt_folders(folder).into_iter();
    Ok(lacks(redactor, recorded, &words) || attempts.any(of_attempt))
}

/// A conversation was begun, and nothing said in it has these words. The journal has them without our secrets.
fn lacks(redactor: &Redactor, recorded: &[Line], words: &str) -> bool {
    let words = redactor.redact(words.trim());
    let has_words = |item: &Item| Content::texts(item.content()).contains(words.as_str());
    let is_said = |line: &Line| match &line.entry {
        Entry::Prompted { items, .. } | Entry::Added { items } => items.iter().any(has_words),
        _ => false,
    };
    let is_begun = |line: &Line| matches!(line.entry, Entry::Prompted { .. });
    recorded.iter().any(is_begun) && !recorded.iter().any(is_said)
}

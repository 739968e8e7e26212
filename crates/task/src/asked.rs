//! What people said when it meets a run that had begun without it: the words of a person beside what an issue says, and
//! what the issue and its pull request have by now. The run is resumed, and its model is told.

use std::path::{Path, PathBuf};

use super::admit::AdmittedIssue;
use super::brief::message;
use super::earlier::{Heard, since};
use super::folder::{RunFolder, attempt_folders};
use super::run::Run;
use patchwright_base::error::Result;
use patchwright_base::redact::Redactor;
use patchwright_journal::{self as journal, Entry, Line};
use patchwright_prompt as prompt;
use patchwright_provider::item::{Content, Item, Role};

/// Something that people said and the model was not told before it was cut off.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// For the model.
    pub text: String,
    /// A conversation that has this has the text.
    pub known_by: String,
}

/// The note in a journal that what was asked has changed. What was concluded before is not about the work as it is
/// asked for now.
const NOTE: &str = "asked in other words";
/// Comes before the words.
const MEANWHILE: &str = "This was asked after the work had begun. Where it differs from what was asked before, it \
                         counts; what is done already stays as far as it fits.";

/// What the model of a resumed run has to be told besides, where the conversation on record does not have it: what people
/// have said by now, and the words with which it was asked for this time.
///
/// # Errors
/// When they cannot be put into a message.
pub(super) fn untold(run: &Run<'_>, recorded: &[Line]) -> Result<Option<Item>> {
    let is_untold = |text: &str| lacks(&run.world.redactor, recorded, text);
    let words = run.environment.asked.as_deref().map(prompt::asked).transpose()?;
    let words = words.filter(|words| is_untold(words));
    let words = words.map(|words| format!("{MEANWHILE}\n\n{words}"));
    let news = run.news.iter().filter(|news| is_untold(&news.known_by));
    let texts: Vec<String> = news.map(|news| news.text.clone()).chain(words).collect();
    Ok((!texts.is_empty()).then(|| message(Role::User, texts.join("\n\n"))))
}

/// What the issue has by now that the model of this run was not told before the run was cut off.
///
/// # Errors
/// When it cannot be put into a message.
pub(super) fn since_cut_off(run: &Run<'_>, issue: &AdmittedIssue) -> Result<Vec<News>> {
    let RunFolder { path, recorded, .. } = &*run.folder;
    let text = match Heard::kept(path, recorded) {
        Some(heard) => since::text(&heard, issue, &run.config.respond.mention)?,
        None => None,
    };
    Ok(text.into_iter().map(|text| News { known_by: text.clone(), text }).collect())
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

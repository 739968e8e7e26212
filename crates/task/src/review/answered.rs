//! What of the difference counts as looked at: not what a prompt shows, but what a reply of the model came
//! after. A model that was never asked, or never answered, has looked at nothing.

use std::ops::Range;

use super::unheard::{self, UnheardFinding};
use crate::run::Run;
use patchwright_agent::state::State;
use patchwright_agent::{LAST_CALLS, REACHED};
use patchwright_base::error::Result;
use patchwright_journal::{Entry, Line};
use patchwright_provider::Reply;
use patchwright_provider::item::{Item, StopReason};
use patchwright_tools::review::ReviewContext;

/// What the model has answered to, by the journal.
#[derive(Debug, Default)]
pub(super) struct AnsweredLines {
    /// Lines that were shown before a reply, by the path of their file.
    answered: Vec<(String, Range<usize>)>,
    /// Lines that were shown since.
    unanswered: Vec<(String, Range<usize>)>,
    /// The model was told that a limit ends the review, so its next reply is the last one; and it has given that.
    is_wrapping_up: bool,
    has_wrapped_up: bool,
    /// Where in `answered` those begin that only the last reply came after.
    newest: usize,
    /// The last reply was words alone, so the model had come to an end, by itself or because it was asked to.
    pub(super) is_concluded: bool,
    /// Findings that the model reported in more calls than one reply may have.
    pub(super) unheard: Vec<UnheardFinding>,
}

impl AnsweredLines {
    /// Reads the journal, and keeps of what `review_context` has as shown only what was answered.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(super) fn keep(run: &Run<'_>, review_context: &ReviewContext<'_>) -> Result<AnsweredLines> {
        let lines = patchwright_journal::read(run.folder.journal.path())?;
        let answered = AnsweredLines::of(&lines);
        let known = answered.answered.iter();
        let known = known.filter_map(|(path, lines)| Some((review_context.find(path)?, lines)));
        review_context.set_shown(known.map(|(file, lines)| (file, lines.clone())));
        Ok(answered)
    }

    fn of(lines: &[Line]) -> AnsweredLines {
        let mut read = AnsweredLines::default();
        let mut state = State::default();
        for entry in lines.iter().map(|line| &line.entry) {
            // What comes then is about findings, not about the change as a whole.
            if matches!(entry, Entry::SecondLook { .. }) {
                break;
            }
            state.apply(entry);
            read.apply(entry);
        }
        read.is_concluded &= state.pending().is_empty();
        read.unheard = unheard::reported(lines);
        read
    }

    fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Shown { path, from, to } => self.unanswered.push((path.clone(), *from..*to)),
            Entry::Replied { reply, .. } => {
                self.has_wrapped_up = std::mem::take(&mut self.is_wrapping_up);
                self.is_concluded =
                    has_concluded(reply) || (self.has_wrapped_up && has_reported(reply));
                if says_something(reply) {
                    self.newest = self.answered.len();
                    self.answered.append(&mut self.unanswered);
                }
            }
            // The model that refused has read nothing.
            Entry::Switched { takes_back: true, .. } => {
                self.is_concluded = false;
                self.unanswered.extend(self.answered.drain(self.newest..));
            }
            // Without notes, what was shown last may have been cut away unread.
            Entry::Compacted { replies, .. } => {
                let has_notes =
                    matches!(replies.last(), Some(Some(reply)) if says_something(reply));
                if !has_notes {
                    self.unanswered.clear();
                }
            }
            Entry::Warned { limits, .. } => {
                self.is_wrapping_up = limits.iter().any(|(_, percent)| *percent >= REACHED);
            }
            // The last reply reports beside its words; nothing comes of it that the model would have to hear.
            Entry::CallStarted { .. } | Entry::CallEnded { .. } => {
                self.is_concluded &= self.has_wrapped_up;
            }
            _ => {}
        }
    }
}

/// A reply to what was asked: a call, or words that are no refusal.
fn says_something(reply: &Reply) -> bool {
    let has_call = reply.items.iter().any(|item| matches!(item, Item::Call(_)));
    let is_refused = matches!(reply.stop, StopReason::Refusal | StopReason::ContentFilter);
    !is_refused && (has_call || !reply.text().trim().is_empty())
}

/// The last words at a limit, with what was found and not reported before.
fn has_reported(reply: &Reply) -> bool {
    let is_report = |item: &Item| match item {
        Item::Call(call) => LAST_CALLS.contains(&call.name.as_str()),
        _ => true,
    };
    reply.stop == StopReason::EndTurn
        && !reply.text().trim().is_empty()
        && reply.items.iter().all(is_report)
}

fn has_concluded(reply: &Reply) -> bool {
    let has_call = reply.items.iter().any(|item| matches!(item, Item::Call(_)));
    says_something(reply) && !has_call && reply.stop == StopReason::EndTurn
}

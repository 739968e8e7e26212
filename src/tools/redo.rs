//! Recorded calls, made again for what they change: a run that goes on after a crash has a fresh sandbox.

use super::Effect;
use super::arguments;
use super::dispatch::{Asked, Broken, Dispatch};
use super::host::Redo;
use super::nested::Within;
use super::registry::{Known, Place};
use crate::agent::journal::Entry;
use crate::provider::item::ToolCall;

/// What a model is told of a call that is not made again, and of one that had made calls itself.
const LEFT: &str = "the run was interrupted during this call. Whether it was done is not known: find out \
                    before you make it again";
const LEFT_HALFWAY: &str = "the run was interrupted during this call. The calls that it had made and that had \
                            ended are kept, and the rest of it was not done. Of what was on its way out of the \
                            sandbox nobody knows whether it was done: find out before you do that again";

/// What a call that was run again did.
#[derive(Debug)]
pub struct Redone {
    pub success: bool,
    pub changed: Vec<String>,
}

impl Dispatch<'_> {
    /// The call acts outside of the sandbox, so that making it twice is not the same as making it once.
    pub fn acts_elsewhere(&self, call: &ToolCall) -> bool {
        self.asked(0, call).is_ok_and(|it| is_elsewhere(it.tool))
    }

    /// The same of a call that a call has made, by its name.
    pub fn is_elsewhere(&self, name: &str) -> bool {
        self.means.tools.find(name).is_ok_and(is_elsewhere)
    }

    /// The end of a call that was begun before the run was interrupted, and that must not be made twice.
    /// `nested` are the names of the calls that it had made.
    pub fn leave(&self, turn: u32, call: &ToolCall, nested: &[&str]) -> Entry {
        Entry::dropped(turn, call, if nested.is_empty() { LEFT } else { LEFT_HALFWAY })
    }

    /// A call under this name that is made again makes the calls that it made by itself. Otherwise they
    /// are made again one by one.
    pub fn redoes_whole(&self, name: &str) -> bool {
        self.means.tools.find(name).is_ok_and(|tool| redo_of(tool) == Some(Redo::Call))
    }

    /// Runs a recorded call that wrote again for its effect, with the arguments that it ran with; nothing
    /// is journalled and nobody is told. `None` when there is nothing that has to be done again.
    pub async fn redo(&self, call: &ToolCall) -> Result<Option<Redone>, Broken> {
        match self.asked(0, call) {
            Ok(asked) if redo_of(asked.tool) != Some(Redo::Call) => Ok(None),
            Ok(asked) => self.again(asked, call).await.map(Some),
            Err((Some(tool), _)) if redo_of(tool).is_none() => Ok(None),
            Err(_) => Ok(Some(Redone { success: false, changed: Vec::new() })),
        }
    }

    async fn again(&self, asked: Asked<'_>, call: &ToolCall) -> Result<Redone, Broken> {
        let Asked { tool, shown } = asked;
        let subject = self.subject(tool, call);
        let is_hooked = subject.is_hooked();
        let args = arguments::own(tool, shown.clone());
        let _pass = self.pass(tool, tool.effect_of(&args)).await;
        // What hooks say has been heard; what they do to the workspace is done again.
        if is_hooked {
            subject.before(&shown).await?;
        }
        let ran = self.execute(tool, &call.id, &Within::again(self, &call.id), args).await?;
        if is_hooked {
            subject.after(&shown, &ran.output).await?;
        }
        let success = ran.output.as_ref().is_ok_and(|output| output.success);
        Ok(Redone { success, changed: ran.output.map(|output| output.changed).unwrap_or_default() })
    }
}

/// What is done again for a call that wrote. `None` for a tool that writes nothing here: another one had
/// the name then (scripts and agents both have a `wait`).
fn redo_of(tool: &Known) -> Option<Redo> {
    match &tool.place {
        _ if tool.effect == Effect::Reads || is_elsewhere(tool) => None,
        Place::Host(host) => Some(host.redo()),
        Place::Guest | Place::Extra(_) => Some(Redo::Call),
    }
}

/// A tool whose work is done outside of the sandbox.
pub(super) fn is_elsewhere(tool: &Known) -> bool {
    matches!(&tool.place, Place::Extra(extra) if !extra.is_redone())
}

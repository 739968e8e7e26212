//! Recorded calls, made again for what they change: a run that goes on after a crash has a fresh sandbox.

use super::Effect;
use super::arguments;
use super::dispatch::{Asked, Broken, Dispatch};
use super::host::Redo;
use super::nested::{Again, Answered, Within};
use super::registry::Known;
use crate::agent::journal::Entry;
use crate::provider::item::ToolCall;

/// What a model is told of a call that is not made again, and of one that had made calls itself.
const LEFT: &str = "the run was interrupted during this call. Whether it was done is not known: find out \
                    before you make it again";
const LEFT_HALFWAY: &str = "the run was interrupted during this call. The calls that it had made and that had \
                            ended are kept, and the rest of it was not done. Of what was on its way out of the \
                            sandbox nobody knows whether it was done: find out before you do that again";

/// What a call that was run again did.
#[derive(Debug, Default)]
pub struct Redone {
    pub success: bool,
    pub changed: Vec<String>,
}

impl Dispatch<'_> {
    /// The call acts outside of the sandbox.
    pub fn acts_elsewhere(&self, call: &ToolCall) -> bool {
        self.asked(0, call).is_ok_and(|it| it.tool.acts_elsewhere())
    }

    /// The same of a call that a call has made, by its name.
    pub fn is_elsewhere(&self, name: &str) -> bool {
        self.means.tools.find(name).is_ok_and(Known::acts_elsewhere)
    }

    /// The end of a call that was begun before the run was interrupted, and that must not be made twice.
    /// `nested` are the names of the calls that it had made.
    pub fn leave(&self, turn: u32, call: &ToolCall, nested: &[&str]) -> Entry {
        Entry::dropped(turn, call, if nested.is_empty() { LEFT } else { LEFT_HALFWAY })
    }

    /// A call under this name that is made again makes the calls that it made by itself. Otherwise they
    /// are made again one by one.
    pub fn redoes_whole(&self, name: &str) -> bool {
        self.means.tools.find(name).is_ok_and(is_redone)
    }

    /// Runs a recorded call that wrote again for its effect, with the arguments that it ran with; nothing
    /// is journalled and nobody is told. `answers` is what it was answered by tools that are not asked
    /// twice. `None` when there is nothing that has to be done again.
    pub async fn redo(
        &self,
        call: &ToolCall,
        answers: &[Answered<'_>],
    ) -> Result<Option<Redone>, Broken> {
        match self.asked(0, call) {
            Ok(asked) if is_redone(asked.tool) => self.again(asked, call, answers).await.map(Some),
            Err((Some(tool), _)) if is_redone(tool) => Ok(Some(Redone::default())),
            Ok(_) | Err((Some(_), _)) => Ok(None),
            Err((None, _)) => Ok(Some(Redone::default())),
        }
    }

    async fn again(
        &self,
        asked: Asked<'_>,
        call: &ToolCall,
        answers: &[Answered<'_>],
    ) -> Result<Redone, Broken> {
        let Asked { tool, shown } = asked;
        let subject = self.subject(tool, call, &shown);
        let is_hooked = subject.is_hooked();
        let args = arguments::own(tool, shown.clone());
        let _pass = self.pass(tool, tool.effect_of(&args)).await;
        // What hooks say has been heard; what they do to the workspace is done again.
        if is_hooked {
            subject.before(&shown).await?;
        }
        let again = Again::new(answers);
        let ran =
            self.execute(tool, &call.id, &Within::again(self, &call.id, &again), args).await?;
        if is_hooked {
            subject.after(&shown, &ran.output).await?;
        }
        let success = ran.output.as_ref().is_ok_and(|output| output.success);
        Ok(Redone { success, changed: ran.output.map(|output| output.changed).unwrap_or_default() })
    }
}

/// A call that wrote is made again. Not where another tool had the name then, and this one writes nothing:
/// scripts and agents both have a `wait`.
fn is_redone(tool: &Known) -> bool {
    tool.effect == Effect::Writes && tool.redo() == Redo::Call
}

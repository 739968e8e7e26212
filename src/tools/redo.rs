//! Recorded calls, made again for what they change: a run that goes on after a crash has a fresh sandbox.

use super::arguments;
use super::dispatch::{Asked, Broken, Dispatch};
use super::host::Redo;
use super::nested::Within;
use super::registry::{Known, Place};
use crate::provider::item::ToolCall;

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

    /// Runs a recorded call again for its effect, with the arguments that it ran with; nothing is
    /// journalled and nobody is told. `nested` are the calls that it made. `None` when there is
    /// nothing that has to be done again.
    pub async fn redo(
        &self,
        call: &ToolCall,
        nested: &[ToolCall],
    ) -> Result<Option<Redone>, Broken> {
        let Ok(asked) = self.asked(0, call) else {
            return Ok(Some(Redone { success: false, changed: Vec::new() }));
        };
        match &asked.tool.place {
            Place::Extra(_) if is_elsewhere(asked.tool) => Ok(None),
            Place::Host(host) if host.redo() == Redo::Nested => {
                let mut changed = Vec::new();
                for call in nested {
                    if let Some(redone) = Box::pin(self.redo(call, &[])).await? {
                        changed.extend(redone.changed);
                    }
                }
                Ok((!nested.is_empty()).then_some(Redone { success: true, changed }))
            }
            Place::Guest | Place::Host(_) | Place::Extra(_) => {
                self.again(asked, call).await.map(Some)
            }
        }
    }

    async fn again(&self, asked: Asked<'_>, call: &ToolCall) -> Result<Redone, Broken> {
        let Asked { tool, shown } = asked;
        let subject = self.subject(tool, call, &shown);
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

/// A tool whose work is done outside of the sandbox.
pub(super) fn is_elsewhere(tool: &Known) -> bool {
    matches!(&tool.place, Place::Extra(extra) if !extra.is_redone())
}

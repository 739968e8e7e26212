//! Calls from inside a call (a script's, for example): the same steps as any other, journalled as part of
//! the outer one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::Value;

use super::dispatch::{Broken, Dispatch, Start};
use super::host::Nested;
use super::progress::Happening;
use super::redo::is_elsewhere;
use super::{Effect, ToolError, ToolOutput};
use crate::agent::journal::Entry;
use crate::provider::ToolDeclaration;
use crate::provider::item::{Payload, ToolCall};

/// The id of a call from inside another one; the same when the outer one is made again.
fn id_of(outer: &str, number: u32) -> String {
    format!("{outer}#{number}")
}

/// The id is one of a call from inside another one.
pub fn is_nested(id: &str) -> bool {
    id.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}

/// Most calls that one call makes.
const MAX_NESTED: u32 = 4_096;

/// The calls that one call makes.
pub(super) struct Within<'a> {
    dispatch: &'a Dispatch<'a>,
    /// The id of the call around them.
    outer: &'a str,
    /// The number of the nested call that makes them; `None` for the call around them all.
    by: Option<u32>,
    /// Calls that were made so far, by all that are inside the outer one.
    made: Arc<AtomicU32>,
    /// The outer call is run once more for its effect: nothing is journalled.
    is_again: bool,
}

impl<'a> Within<'a> {
    pub(super) fn new(dispatch: &'a Dispatch<'a>, outer: &'a str) -> Within<'a> {
        Within { dispatch, outer, by: None, made: Arc::default(), is_again: false }
    }

    pub(super) fn again(dispatch: &'a Dispatch<'a>, outer: &'a str) -> Within<'a> {
        Within { is_again: true, ..Within::new(dispatch, outer) }
    }

    /// For the calls that one of these makes in turn.
    fn inside(&self, number: u32) -> Within<'a> {
        Within { by: Some(number), made: Arc::clone(&self.made), ..*self }
    }

    fn journal(&self, entry: &Entry) -> Result<(), Broken> {
        if self.is_again {
            return Ok(());
        }
        self.dispatch.means.journal.append(entry).map_err(Broken::Journal)?;
        Ok(())
    }

    fn started(&self, number: u32, call: &ToolCall, start: &Start<'_>) -> Result<(), Broken> {
        if !self.is_again {
            self.dispatch.means.progress.happened(Happening::CallStarted { call });
        }
        self.journal(&Entry::NestedStarted {
            outer: self.outer.to_owned(),
            number,
            name: start.tool.name.clone().into_owned(),
            arguments: start.arguments.clone(),
            writes: start.effect == Effect::Writes,
            by: self.by,
        })
    }

    async fn run(
        &self,
        number: u32,
        call: &ToolCall,
    ) -> Result<Result<ToolOutput, String>, Broken> {
        let asked = match self.dispatch.asked(0, call) {
            Ok(asked) => asked,
            Err((_, refusal)) => return Ok(Err(refusal.message)),
        };
        if self.is_again && is_elsewhere(asked.tool) {
            return Ok(Err("made before the run was interrupted, and not made again".to_owned()));
        }
        let start = |start: Start<'_>| self.started(number, call, &start);
        let inside = self.inside(number);
        // Boxed: a nested call may nest calls.
        let ran = Box::pin(self.dispatch.pass_and_run(asked, call, &inside, &start)).await?;
        if ran.denied {
            return Ok(ran.output);
        }
        let output = ran.output.map(|mut output| {
            for note in &ran.notes {
                output.text = format!("{}\nNote: {note}", output.text);
            }
            output
        });
        self.journal(&Entry::NestedEnded {
            outer: self.outer.to_owned(),
            number,
            success: output.as_ref().is_ok_and(|output| output.success),
            duration_ms: u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX),
            bytes: size(&output),
        })?;
        Ok(output)
    }
}

fn size(output: &Result<ToolOutput, String>) -> u64 {
    match output {
        Err(message) => message.len() as u64,
        Ok(output) => {
            let commands = output.command.iter().chain(&output.commands);
            let printed: usize = commands.map(|command| command.output.len()).sum();
            (output.text.len() + printed) as u64
        }
    }
}

#[async_trait]
impl Nested for Within<'_> {
    async fn call(&self, name: &str, args: Value) -> Result<ToolOutput, ToolError> {
        let number = self.made.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if number > MAX_NESTED {
            return Err(ToolError::tell(format!("one call makes at most {MAX_NESTED} calls")));
        }
        let payload = Payload::Json(args.to_string());
        let (id, name) = (id_of(self.outer, number), name.to_owned());
        let call = ToolCall { id, name, payload, native: None };
        let output = self.run(number, &call).await.map_err(|broken| match broken {
            Broken::Sandbox(why) => ToolError::Broken(why),
            Broken::Journal(failure) => ToolError::Broken(failure.to_string()),
        })?;
        output.map_err(ToolError::Tell)
    }

    fn tools(&self) -> Vec<ToolDeclaration> {
        let tools = self.dispatch.means.tools;
        tools.callable().chain(tools.deferred()).cloned().collect()
    }

    fn deferred(&self) -> Vec<ToolDeclaration> {
        self.dispatch.means.tools.deferred().to_vec()
    }
}

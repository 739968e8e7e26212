//! Calls from inside a call (a script's, for example): the same steps as any other, journalled as part of
//! the outer one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::Value;

use super::dispatch::{Broken, Dispatch, Start};
use super::host::Nested;
use super::progress::AgentEvent;
use super::registry::ResolvedTool;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_journal::Entry;
use patchwright_provider::ToolDeclaration;
use patchwright_provider::item::{Payload, ToolCall};
use patchwright_types::calls::NestedAnswer;

/// The id of a call from inside another one; the same in a replay.
pub fn id_of(outer: &str, number: u32) -> String {
    format!("{outer}#{number}")
}

/// Most calls that one call makes.
const MAX_NESTED: u32 = 4_096;

/// Most bytes of answers that are kept of the calls that one call makes.
const MAX_KEPT: usize = 8 << 20;

/// What the calls have in common that are made inside of one call, by whatever.
#[derive(Default)]
struct Counts {
    made: AtomicU32,
    /// Bytes of answers that were kept.
    kept: AtomicUsize,
}

/// The calls that one call makes.
pub(super) struct Within<'a> {
    dispatch: &'a Dispatch<'a>,
    /// The id of the call around them.
    outer: &'a str,
    /// The number of the nested call that makes them; `None` for the call around them all.
    by: Option<u32>,
    counts: Arc<Counts>,
}

impl<'a> Within<'a> {
    pub(super) fn new(dispatch: &'a Dispatch<'a>, outer: &'a str) -> Within<'a> {
        Within { dispatch, outer, by: None, counts: Arc::default() }
    }

    /// For the calls that one of these makes in turn.
    fn inside(&self, number: u32) -> Within<'a> {
        Within { by: Some(number), counts: Arc::clone(&self.counts), ..*self }
    }

    /// What makes them is a nested call itself.
    pub(super) fn is_inside(&self) -> bool {
        self.by.is_some()
    }

    fn journal(&self, entry: &Entry) -> Result<(), Broken> {
        self.dispatch.context.journal.append(entry).map_err(Broken::Journal)?;
        Ok(())
    }

    fn started(&self, number: u32, call: &ToolCall, start: &Start<'_>) -> Result<(), Broken> {
        let started = AgentEvent::CallStarted { call, is_nested: true };
        self.dispatch.context.progress.happened(started);
        self.journal(&Entry::NestedStarted {
            outer: self.outer.to_owned(),
            number,
            name: start.tool.name.clone().into_owned(),
            arguments: start.arguments.clone(),
            writes: start.writes,
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
        let tool = asked.tool;
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
        let success = output.as_ref().is_ok_and(|output| output.success);
        self.dispatch.context.progress.happened(AgentEvent::CallEnded {
            call,
            is_nested: true,
            success,
            took: ran.took,
            output: &[],
        });
        self.journal(&Entry::NestedEnded {
            outer: self.outer.to_owned(),
            number,
            success,
            duration_ms: u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX),
            bytes: size(&output),
            answer: self.kept(tool, &output),
        })?;
        Ok(output)
    }

    /// The answer of a tool that a replay cannot ask again.
    fn kept(
        &self,
        tool: &ResolvedTool,
        output: &Result<ToolOutput, String>,
    ) -> Option<NestedAnswer> {
        if !tool.is_outside() {
            return None;
        }
        let answer = NestedAnswer::from_output(output);
        let size = serde_json::to_vec(&answer).map_or(usize::MAX, |json| json.len());
        let keep = |kept: usize| kept.checked_add(size).filter(|kept| *kept <= MAX_KEPT);
        let kept = self.counts.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, keep);
        kept.is_ok().then_some(answer)
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
        let number = self.counts.made.fetch_add(1, Ordering::Relaxed).saturating_add(1);
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
        let tools = self.dispatch.context.tools;
        tools.callable().chain(tools.deferred()).cloned().collect()
    }

    fn deferred(&self) -> Vec<ToolDeclaration> {
        self.dispatch.context.tools.deferred().to_vec()
    }
}

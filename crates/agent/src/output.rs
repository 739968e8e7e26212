//! The result of the work as JSON: the model is asked for it when it has finished, in the same conversation,
//! bound to a schema in the way that it can be. Whether the answer fits is the caller's to say.

use serde_json::Value;

use super::stop::{StopKind, Stopped};
use super::turn::Agent;
use patchwright_journal::Entry;
use patchwright_provider::catalogue::StructuredOutput;
use patchwright_provider::item::{CallOutput, Content, Item, ToolCall};
use patchwright_provider::output::as_sent;
use patchwright_provider::{OutputFormat, ToolChoice, ToolDeclaration, ToolForm};

/// The tool by which models give a result that cannot be bound to a schema otherwise.
const TOOL: &str = "give_result";
/// What providers call the form of the result.
const NAME: &str = "result";

/// What the model is asked for, instead of its next step.
pub(super) struct ResultRequest {
    schema: Value,
    tool: ToolDeclaration,
    /// The arguments of the tool.
    given: Option<String>,
    binding: ResultBinding,
}

/// How a model is held to the schema of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultBinding {
    /// In the best way that the model has.
    Best,
    /// By words alone: its provider takes no request with the schema.
    Words,
}

/// How one request asks for it.
pub(super) struct ResultOptions<'a> {
    pub(super) tools: Option<Vec<ToolDeclaration>>,
    pub(super) tool_choice: ToolChoice<'a>,
    pub(super) output: Option<OutputFormat<'a>>,
}

impl ResultRequest {
    fn new(schema: &Value, binding: ResultBinding) -> ResultRequest {
        let schema = as_sent(schema);
        let tool = ToolDeclaration {
            name: TOOL.to_owned(),
            description: "Gives the result of the work. Call it once, and nothing else.".to_owned(),
            form: ToolForm::Function { schema: schema.clone(), strict: false },
        };
        ResultRequest { schema, tool, given: None, binding }
    }
}

impl Agent<'_> {
    /// Asks for the result. What the model answers is in the second place, as text; the stop is that of the
    /// conversation.
    pub async fn give_result(
        &mut self,
        schema: &Value,
        binding: ResultBinding,
        question: Vec<Item>,
    ) -> (Stopped, String) {
        self.result = Some(ResultRequest::new(schema, binding));
        let stopped = self.continue_with(question).await;
        let given = self.result.take().and_then(|wanted| wanted.given);
        let answer = given.unwrap_or_else(|| stopped.final_message.clone());
        (stopped, answer)
    }

    /// Before a conversation is resumed whose last question was for the result: what it asks now, it asks in that way.
    pub fn expect_result(&mut self, schema: &Value) {
        self.result = Some(ResultRequest::new(schema, ResultBinding::Best));
    }

    /// Ends what [`Agent::expect_result`] began; the result where it was given by a call.
    pub fn expected_result(&mut self) -> Option<String> {
        self.result.take()?.given
    }

    /// The request for a result has its schema in it, so that the question need not repeat it.
    pub fn is_bound_to(&self, schema: &Value) -> bool {
        let has_tools = self.state.prompt.as_ref().is_some_and(|prompt| !prompt.tools.is_empty());
        match self.spec.model.output_mode(&as_sent(schema)) {
            StructuredOutput::Schema => true,
            StructuredOutput::Tool => has_tools,
            StructuredOutput::Words => false,
        }
    }

    /// How the next request asks for the result; `None` while the work goes on.
    pub(super) fn asking<'s>(&'s self, tools: &[ToolDeclaration]) -> Option<ResultOptions<'s>> {
        let wanted = self.result.as_ref()?;
        let words = ResultOptions { tools: None, tool_choice: ToolChoice::None, output: None };
        let mode = match wanted.binding {
            ResultBinding::Best => self.spec.model.output_mode(&wanted.schema),
            ResultBinding::Words => StructuredOutput::Words,
        };
        Some(match mode {
            StructuredOutput::Schema => {
                let output = OutputFormat { name: NAME, schema: &wanted.schema };
                ResultOptions { output: Some(output), ..words }
            }
            // What is declared already stays, so that prompt caches hit.
            StructuredOutput::Tool if !tools.is_empty() => ResultOptions {
                tools: Some([tools, std::slice::from_ref(&wanted.tool)].concat()),
                tool_choice: ToolChoice::Named(TOOL),
                output: None,
            },
            // A model without tool calls writes everything.
            StructuredOutput::Tool | StructuredOutput::Words => words,
        })
    }

    /// Takes a result that is given by a call. `false` when these are calls like any other.
    pub(super) fn takes_result(&mut self, calls: &[(usize, ToolCall)]) -> Result<bool, StopKind> {
        let Some(wanted) = &mut self.result else { return Ok(false) };
        let Some((_, call)) = calls.iter().find(|(_, call)| call.name == TOOL) else {
            return Ok(false);
        };
        wanted.given = Some(call.payload.as_str().to_owned());
        // Every call needs an answer; others beside this one come too late.
        for (_, call) in calls {
            let is_it = call.name == TOOL;
            let text = if is_it { "Received." } else { "Not run: the work is over." };
            let output = CallOutput {
                id: call.id.clone(),
                name: call.name.clone(),
                content: vec![Content::text(text)],
                success: is_it,
                ran: false,
                goes_on: false,
                form: call.output_form(),
            };
            let turn = self.state.spending.turns;
            let (fault, exit_code, denied) = (None, None, false);
            let ended = Entry::CallEnded { turn, output, duration_ms: 0, fault, exit_code, denied };
            self.record(&ended)?;
        }
        Ok(true)
    }
}

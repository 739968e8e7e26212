//! The lines of `--json`: what happens in a run or a campaign, one event a line. `docs/events.md` says when each
//! comes, and `docs/events.schema.json` is made from these types, so nothing can be printed that is not in it.
//!
//! Whoever drives a run from inside of this process (`patchwright acp`) is told the same events.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Value, json};

use crate::attempts::Attempts;
use crate::campaign;
use crate::evidence::Evidence;
use crate::outcome::{Conclusion, Provenance, Spending};
use crate::plan::{Plan, StepStatus};
use crate::publish_notes::PublishNotes;
use crate::published::{Published, PublishedReview};
use crate::reviewed::Reviewed;
use crate::triaged::Triaged;
use patchwright_base::error::FailureKind;
use patchwright_base::ui::StreamEvent;
use patchwright_forge::Operation;
use patchwright_policy::Judgement;
use patchwright_provider::item::Usage;

/// The form of the stream. It rises when a kind of event or a field goes, or means something else. What is new
/// does not raise it: readers pass over kinds and fields that they do not know.
pub const FORMAT: u32 = 1;

/// Something that happens in a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A run begins, or is resumed. The first event of a run.
    Run {
        /// Version of the stream's format; this document describes 1.
        format: u32,
        run: &'a str,
        /// Version of the program.
        version: &'a str,
        /// `issue`, `review`, `respond`, `exec`, `prompt`, `learn`, `triage`.
        task: &'static str,
        /// What it is about: `acme/web#7`, or the beginning of the prompt.
        subject: String,
        model: &'a str,
        /// It resumes a run that was cut short.
        resumed: bool,
        /// Where the files of the run are.
        folder: &'a Path,
    },
    /// A phase begins: cloning, preparing, checks, work, publishing.
    Phase {
        /// A sentence for people; it may change with any version.
        phase: &'a str,
    },
    /// A review has decided what it reads.
    Scope {
        /// Files to be read.
        files: usize,
        /// Those that the model is shown at once.
        shown: usize,
    },
    /// A check of the repository has ended.
    Check {
        when: When,
        command: &'a str,
        /// It ended in time with exit code 0, and none of its tests failed.
        passed: bool,
        /// Absent when it could not be run, or did not end.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        timed_out: bool,
        /// It failed, and passed when it was run once more.
        flaky: bool,
        duration_ms: u64,
        /// Why it could not be run.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'a str>,
    },
    /// The model is asked for its next turn.
    TurnStarted {
        turn: u32,
        model: &'a str,
        /// The sub-agent, where it is not the run's own agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// The model has thought: the summary that its provider gives of it.
    Reasoning {
        turn: u32,
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// The model has said something.
    Message {
        turn: u32,
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// The reply of the model is complete.
    Reply {
        turn: u32,
        /// Tokens of this reply.
        usage: Usage,
        #[serde(serialize_with = "crate::dollars::rounded")]
        cost_usd: f64,
        /// Calls of tools in it.
        calls: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// The calls of the reply, if any, have been answered.
    TurnEnded {
        turn: u32,
        /// All that the run has used, its sub-agents too.
        spent: Spent,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// A tool begins to run.
    CallStarted {
        /// Identifies the call, here and in `call_ended`. Unique in the run, or among the calls of one sub-agent.
        id: &'a str,
        /// The tool as the model calls it.
        tool: &'a str,
        /// As the model wrote them: JSON, or the free text of the tool; the first 4 KiB of them.
        arguments: String,
        /// It is made by a call, not by the model itself.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        nested: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// A call has been answered. One that was refused before it ran had no `call_started`.
    CallEnded {
        id: &'a str,
        tool: &'a str,
        success: bool,
        duration_ms: u64,
        /// What the model is told, the first 4 KiB of it.
        output: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        nested: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// The model has changed its plan.
    Plan {
        #[serde(skip_serializing_if = "Option::is_none")]
        explanation: Option<&'a str>,
        steps: Vec<PlanStep<'a>>,
    },
    /// The conversation was shortened.
    Compacted {
        /// Tokens before, as estimated.
        before: u64,
        after: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// Another model takes over.
    Model {
        model: &'a str,
        instead_of: &'a str,
        why: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// A request to the model is sent again.
    Retry {
        attempt: u32,
        wait_ms: u64,
        why: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    /// Something of the run is on the forge now.
    Published {
        object: Object,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<&'a str>,
        /// Number of the pull request or issue that it is, or stands on.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
        /// What was done to a pull request; absent for other objects.
        #[serde(skip_serializing_if = "Option::is_none")]
        operation: Option<Operation>,
    },
    /// What the run leaves on this machine. Comes once, before `result`.
    Files { folder: &'a Path, files: Vec<String> },
    /// The end of a run that made, or could have made, a change. Comes last.
    Result(Box<RunResult<'a>>),
    /// The end of a review. Comes last.
    #[serde(rename = "result")]
    ReviewResult(Box<ReviewResult<'a>>),
    /// The end of a command of a comment. Comes last.
    #[serde(rename = "result")]
    CommandResult(Box<CommandResult<'a>>),
    /// The end of a triage. Comes last.
    #[serde(rename = "result")]
    TriageResult(Box<TriageResult<'a>>),
    /// The command ended without a result. Comes last.
    Failure {
        /// The word for the exit code: `usage_error`, `forge_error`, `interrupted`, …
        conclusion: &'static str,
        exit_code: u8,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        /// Next steps.
        hints: Vec<String>,
    },
}

/// Something that happens in a campaign (`batch run`, `batch publish`, `batch close`).
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum CampaignEvent<'a> {
    /// Something that the store has written down of a campaign or of one of its targets.
    Event {
        /// When, as RFC 3339: `event.at` in words.
        at: String,
        event: &'a campaign::Event,
    },
    /// The result of a target has been published, or could not be.
    Published {
        campaign: &'a str,
        repository: &'a str,
        state: &'static str,
        pull_request: Option<u64>,
        url: Option<&'a str>,
        reason: Option<&'a str>,
    },
    /// A pull request of the campaign is being closed, or would be.
    Close { campaign: &'a str, repository: &'a str, pull_request: u64, url: &'a str, dry_run: bool },
    /// The end of `batch run`. Comes last.
    Result {
        campaign: &'a str,
        state: &'static str,
        reason: Option<&'a str>,
        /// How many targets are in each state.
        targets: BTreeMap<&'static str, usize>,
        #[serde(serialize_with = "crate::dollars::rounded")]
        cost_usd: f64,
        /// The campaign as a page.
        page: &'a Path,
        exit_code: u8,
    },
}

impl StreamEvent for Event<'_> {}
impl StreamEvent for CampaignEvent<'_> {}

/// Which tree a check ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before anything was changed.
    Base,
    /// On what the model had left, while it could still mend it.
    Loop,
    /// On the change that is handed over.
    Head,
}

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    PullRequest,
    Review,
    CheckRun,
    Comment,
}

/// What a run has used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spent {
    pub turns: u32,
    /// All tokens, input and output.
    pub tokens: u64,
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
}

impl From<&Spending> for Spent {
    fn from(spending: &Spending) -> Spent {
        let Spending { turns, usage, cost_usd, .. } = spending;
        Spent { turns: *turns, tokens: usage.total(), cost_usd: *cost_usd }
    }
}

/// A step of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanStep<'a> {
    pub step: &'a str,
    pub status: StepStatus,
}

impl<'a> Event<'a> {
    /// The plan as it is now.
    pub fn plan(plan: &'a Plan) -> Event<'a> {
        let steps = plan.steps.iter();
        let steps = steps.map(|it| PlanStep { step: &it.step, status: it.status }).collect();
        Event::Plan { explanation: plan.explanation.as_deref(), steps }
    }
}

/// How a run ended: as its work did, or with what failed after the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RunConclusion {
    Work(Conclusion),
    Failed(FailedConclusion),
}

/// What failed after the work: in `result.json` only, for the last line of `--json` is a `failure` then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailedConclusion {
    /// GitHub, or git to it; work kept.
    ForgeError,
    /// This machine; work kept.
    MachineError,
    /// Wrong arguments or configuration; work kept.
    UsageError,
    /// A defect in Patchwright; work kept.
    InternalError,
}

impl From<FailureKind> for RunConclusion {
    fn from(kind: FailureKind) -> RunConclusion {
        match kind {
            FailureKind::NothingToDo => RunConclusion::Work(Conclusion::NothingToDo),
            FailureKind::Partial => RunConclusion::Work(Conclusion::Partial),
            FailureKind::Refused => RunConclusion::Work(Conclusion::Refused),
            FailureKind::Budget => RunConclusion::Work(Conclusion::Budget),
            FailureKind::Provider => RunConclusion::Work(Conclusion::Provider),
            FailureKind::Sandbox => RunConclusion::Work(Conclusion::Sandbox),
            FailureKind::Signal(_) => RunConclusion::Work(Conclusion::Interrupted),
            FailureKind::Forge => RunConclusion::Failed(FailedConclusion::ForgeError),
            FailureKind::Machine => RunConclusion::Failed(FailedConclusion::MachineError),
            FailureKind::Usage => RunConclusion::Failed(FailedConclusion::UsageError),
            FailureKind::Internal => RunConclusion::Failed(FailedConclusion::InternalError),
        }
    }
}

/// A run in a form for programs: `result.json`, and the last line of `--json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult<'a> {
    pub run: &'a str,
    pub conclusion: RunConclusion,
    /// Why, in a sentence, when the conclusion is not `done`.
    pub reason: Option<&'a str>,
    /// What the checks say of the change, in a word.
    pub checks: &'static str,
    /// What the model said last, in its words.
    pub final_message: &'a str,
    /// The result as JSON, where one was asked for and fits its schema.
    pub output: Option<&'a Value>,
    /// Changed files.
    pub files: usize,
    pub plan: &'a Plan,
    pub evidence: &'a Evidence,
    pub judgement: &'a Judgement,
    pub spending: &'a Spending,
    pub provenance: &'a Provenance,
    pub published: Option<&'a Published>,
    pub folder: &'a Path,
    /// Where the run made several attempts at its work.
    #[serde(skip_serializing_if = "Attempts::is_empty")]
    pub attempts: &'a Attempts,
    /// What people should know of its pull request, beside what is in it.
    #[serde(skip_serializing_if = "PublishNotes::is_empty")]
    pub publish_notes: &'a PublishNotes,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentResult>,
}

/// A sub-agent that has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AgentResult {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub model: String,
    /// How, in a word.
    pub ended: &'static str,
    pub spending: Spending,
}

/// A review in a form for programs: `result.json`, and the last line of `--json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReviewResult<'a> {
    #[serde(flatten)]
    pub reviewed: Reviewed<RunConclusion>,
    pub published: Option<&'a PublishedReview>,
    pub folder: &'a Path,
}

/// A command of a comment, carried out: the last line of `--json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CommandResult<'a> {
    pub run: &'a str,
    pub conclusion: Conclusion,
    /// The answer, or what was done.
    pub message: &'a str,
    /// What the agent has used, where one worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spending: Option<&'a Spending>,
    pub folder: &'a Path,
}

/// A triage in a form for programs: `triage.json`, and the last line of `--json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TriageResult<'a> {
    #[serde(flatten)]
    pub triaged: &'a Triaged,
    /// The address of the comment, where one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment_url: Option<&'a str>,
    pub folder: &'a Path,
}

/// The JSON Schema of one line, as shipped in `docs/events.schema.json`.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let run = generator.subschema_for::<Event<'static>>();
    let campaign = generator.subschema_for::<CampaignEvent<'static>>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Patchwright event",
        "description": "One line of what `--json` prints. Pass over kinds and fields that are not here: later versions add some.",
        "anyOf": [run, campaign],
        "$defs": definitions,
    })
}

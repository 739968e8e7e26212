//! What the lines of a journal say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::not_recorded::NotRecorded;
use patchwright_provider::Reply;
use patchwright_provider::item::{CallOutput, Content, Item, ToolCall, Usage};
use patchwright_provider::scripted::RecordedOutcome;
use patchwright_review::finding::{Finding, Verdict};
use patchwright_sandbox::egress::ledger::HostUse;
use patchwright_types::attempts::{AttemptReport, Attempts};
use patchwright_types::calls::CompactionTrigger;
use patchwright_types::calls::Fault;
use patchwright_types::calls::NestedAnswer;
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::Outcome;
use patchwright_types::plan::Plan;
use patchwright_types::task::{Limits, Task};

/// What the sandboxes of a run are based on. A run that is resumed tells by it whether its own are like those before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxBasis {
    /// Digest of what was asked for: the kind of sandbox, its image, and setup.
    pub asked: String,
    /// Digest of what commands find and are held to: the image or the machine's programs, what setup left, limits, hosts
    /// and services.
    pub digest: String,
    /// The kind of sandbox.
    pub sandbox: String,
    /// The image, for people.
    pub image: String,
    /// A command of setup had failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_failed_setup: bool,
}

/// One line of the journal, without its sequence number and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Entry {
    /// First line.
    RunStarted {
        run: String,
        version: String,
        /// [`super::FORMAT`] of the program that wrote it.
        #[serde(default = "super::format::first")]
        format: u32,
        task: Task,
        /// The resolved configuration without secrets, for replay and for comparing on resume.
        config: Value,
    },
    /// The base commit, its branch, and the image were pinned.
    WorkspaceOpened {
        base: String,
        branch: String,
        image: String,
        /// Our bare repository that has the base commit.
        #[serde(default)]
        repository: String,
        /// The commits of other branches that the sandbox has.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        branches: BTreeMap<String, String>,
        /// What every command in the image gets besides: see `PreparedImage`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
        /// Setup ran in the image.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_set_up: bool,
        /// `None` in journals of before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        basis: Option<SandboxBasis>,
    },
    /// Setup ran again, in the tree as the model had changed it: the sandboxes from here on are made of this.
    /// The fields are those of [`Entry::WorkspaceOpened`].
    SetUpAgain {
        image: String,
        /// The image for people.
        description: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
    },
    /// Instructions and declared tools: what the first request is made of besides items. Once more,
    /// without items, when a run continues with another model or other tools.
    Prompted {
        instructions: String,
        tools: Value,
        items: Vec<Item>,
        /// The tool profile in which calls are understood from here on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// A reply arrived completely.
    Replied {
        turn: u32,
        reply: Reply,
        cost_usd: f64,
    },
    /// A request brought nothing that the conversation has, and is or may be billed: attempts at it that had begun to
    /// be answered, a request that was given up on the way, or an answer to the request for notes without any. Such
    /// an answer says in [`Entry::Compacted`] that it used nothing.
    Lost {
        usage: Usage,
        cost_usd: f64,
    },
    /// Another model has the conversation from here on: as the operator named it, what was sent as the names
    /// of both, and why.
    Switched {
        name: String,
        from: String,
        to: String,
        why: String,
        /// The last reply, a refusal, is left out of the conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        takes_back: bool,
    },
    /// A call is about to run.
    CallStarted {
        turn: u32,
        id: String,
        name: String,
        writes: bool,
        /// What it runs with, when a hook changed what the model wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// A call from inside another one is about to run.
    NestedStarted {
        /// The id of the call that makes it.
        outer: String,
        /// Counts the calls of that one, from 1.
        number: u32,
        name: String,
        arguments: Value,
        writes: bool,
        /// The number of the nested call that makes it, when that is not the outer one itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<u32>,
    },
    /// It has run; what it answered went to the call that made it.
    NestedEnded {
        outer: String,
        number: u32,
        success: bool,
        duration_ms: u64,
        /// Bytes that it answered.
        bytes: u64,
        /// The answer of a tool that a replay cannot ask again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<NestedAnswer>,
    },
    /// A call has run.
    CallEnded {
        turn: u32,
        output: CallOutput,
        duration_ms: u64,
        /// Why the call could not even be run; counted, so that a model that cannot form a call is
        /// stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
        /// How the command ended, of a tool that ran one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// A hook did not let it run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
    },
    /// The conversation was shortened: from here on it is `items`.
    Compacted {
        trigger: CompactionTrigger,
        /// Tokens before and after, as estimated.
        before: u64,
        after: u64,
        /// The answers to the requests for notes; `null` where the request was refused as too long.
        replies: Vec<Option<Reply>>,
        cost_usd: f64,
        items: Vec<Item>,
    },
    /// The provider refused a request because of its pictures, which are text now.
    PicturesRefused {
        /// What the provider said.
        why: String,
        /// What is in the conversation instead of each.
        text: String,
    },
    /// Items added by the harness (nudges, check failures).
    Added {
        items: Vec<Item>,
    },
    /// The model is told that a limit is near: which ones, and percent of them.
    Warned {
        limits: Vec<(String, u8)>,
        items: Vec<Item>,
    },
    PlanUpdated {
        plan: Plan,
    },
    /// The model reported a finding.
    Found {
        finding: Finding,
    },
    /// The model reported a finding anew, which has the number that it had, counted from 1.
    Replaced {
        number: usize,
        finding: Finding,
    },
    /// The model confirmed or withdrew a finding, named by its position among those reported, from 1.
    Judged {
        finding: usize,
        verdict: Verdict,
        reason: String,
        /// What was run to show it, when that was new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reproduction: Option<String>,
        /// Its replacement is not to be offered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        without_replacement: bool,
    },
    /// The model is about to be asked to look at these findings once more.
    SecondLook {
        findings: Vec<usize>,
        /// What it had said at the end of the review.
        summary: String,
    },
    /// The model reported a finding and was asked to report it again, with code that is there.
    SentBack {
        finding: Finding,
    },
    /// Lines of a changed file's difference were shown to the model; the first one is 0.
    Shown {
        path: String,
        from: usize,
        /// After the last one.
        to: usize,
    },
    /// A check ran; `when` is `base`, `loop` or `head`.
    Checked {
        when: String,
        run: CheckRun,
        /// Nothing was run: this is known of the same tree.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reused: bool,
    },
    /// The result as JSON that fits its schema, and what the model had said at the end of the work.
    Given {
        result: Value,
        words: String,
    },
    /// The agent stopped.
    Stopped {
        reason: String,
        final_message: String,
    },
    /// What the run has reached over the network by now, and what was refused, by host.
    Reached {
        hosts: Vec<HostUse>,
    },
    /// What was collected: the tree id and the path of the stored change.
    Collected {
        tree: String,
        files: usize,
        /// What the sandbox had enforced that the model worked in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        enforced: Vec<String>,
    },
    /// A write to the forge is about to happen: `push`, `pull_request`, `comment`, …
    EffectIntended {
        effect: String,
        key: String,
        detail: Value,
    },
    /// It happened; `detail` has ids and links.
    EffectDone {
        effect: String,
        key: String,
        detail: Value,
    },
    /// One of several attempts at the work begins, or is resumed. What it says and does is in a journal of its
    /// own, `attempts/N/journal.jsonl`.
    AttemptStarted {
        attempt: u32,
        /// As the operator named it.
        model: String,
    },
    /// It is over, however it ended.
    AttemptEnded {
        report: AttemptReport,
        /// What it has used.
        usage: Usage,
        cost_usd: f64,
    },
    /// The choice among the attempts, which is made once.
    Selected {
        attempts: Attempts,
        /// What the judge used.
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        cost_usd: f64,
    },
    /// Last line of a run that came to an end.
    RunEnded {
        outcome: Box<Outcome>,
    },
    /// An entry of a sub-agent. It is about that agent alone: its conversation, its calls, its plan.
    Lane {
        agent: String,
        entry: Box<Entry>,
    },
    /// In a lane, first: a call has started the agent.
    Spawned {
        /// Id of the call.
        call: String,
        /// As which kind of agent.
        kind: String,
        /// Its price per million tokens, as in the catalogue.
        model: String,
        /// Its own limits, inside the run's.
        limits: Limits,
        /// What it is to do.
        message: String,
        /// The tools that it can call, by their names in the registry.
        tools: Vec<String>,
    },
    /// In a lane: a call has sent a message, which waits until the agent can take it.
    Sent {
        call: String,
        text: String,
        /// What the agent is doing is given up for it.
        interrupt: bool,
    },
    /// In a lane: the agent has taken messages that were sent to it.
    Told {
        messages: usize,
        items: Vec<Item>,
    },
    /// A call was given up before it had ended: its agent was interrupted or closed, or the process was and
    /// the call must not be made twice. What calls that it had made itself and that had ended did stays.
    CallDropped {
        turn: u32,
        output: CallOutput,
    },
    /// In a lane: the agent takes no more messages until it is reopened.
    Closed,
    /// In a lane: it takes messages again.
    Reopened,
    /// The workspace was recorded as a git tree, which is on the disk. A result of a call that may have
    /// changed the workspace comes after the checkpoint that has what it did; when nothing differs from the
    /// last one, there is no new one.
    Checkpoint {
        tree: String,
        /// The call that had just run, after the sub-agent's id and `/` where one made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// What was running in sessions, as number and command.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sessions: Vec<String>,
        /// There was a shell that outlives its commands.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shell: bool,
        /// What was there and is not in the tree, because it can be part of no change.
        #[serde(default, skip_serializing_if = "NotRecorded::is_empty")]
        not_recorded: NotRecorded,
    },
    /// The workspace could not be recorded. What calls do is not kept until the next checkpoint.
    Unrecorded {
        why: String,
    },
    /// The run continues in a fresh sandbox with the workspace of a checkpoint. In a lane too, where results
    /// of its calls are lost.
    Restored {
        /// The line that has the checkpoint.
        checkpoint: u64,
        tree: String,
        /// Calls whose results had been written down, and do not hold any more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lost: Vec<String>,
        /// What replaces these results.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// Something worth keeping that nothing depends on.
    Note {
        text: String,
    },
}

impl Entry {
    /// The entry, and the sub-agent that it is about; `None` for the run itself.
    pub fn of_agent(&self) -> (Option<&str>, &Entry) {
        match self {
            Entry::Lane { agent, entry } => (Some(agent), entry),
            entry => (None, entry),
        }
    }

    /// Brings what it says of a finding that was reported before into the findings.
    pub fn correct(&self, findings: &mut [Finding]) {
        let (Entry::Replaced { number, .. } | Entry::Judged { finding: number, .. }) = self else {
            return;
        };
        let Some(known) = number.checked_sub(1).and_then(|at| findings.get_mut(at)) else { return };
        match self {
            Entry::Replaced { finding, .. } => known.clone_from(finding),
            Entry::Judged { verdict, reproduction, without_replacement, .. } => {
                known.judge(*verdict, reproduction.as_deref());
                known.replacement.take_if(|_| *without_replacement);
            }
            _ => {}
        }
    }

    /// A call was given up; `text` is what its model is told.
    pub fn dropped(turn: u32, call: &ToolCall, text: &str) -> Entry {
        let output = CallOutput {
            id: call.id.clone(),
            name: call.name.clone(),
            content: vec![Content::text(text)],
            success: false,
            ran: false,
            goes_on: false,
            form: call.output_form(),
        };
        Entry::CallDropped { turn, output }
    }

    /// What the run's own model had answered by this entry, in order; `None` for a request that was
    /// refused as too long, or for its pictures.
    pub fn replies(&self) -> Vec<Option<&Reply>> {
        match self {
            Entry::Replied { reply, .. } => vec![Some(reply)],
            Entry::PicturesRefused { .. } => vec![None],
            Entry::Compacted { trigger, replies, .. } => {
                let refused = (*trigger == CompactionTrigger::Overflow).then_some(None);
                refused.into_iter().chain(replies.iter().map(Option::as_ref)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What became of the requests that this entry tells of, for a replay.
    pub fn requests(&self) -> Vec<RecordedOutcome> {
        match self {
            // A refusal that was taken back has been told as a reply.
            Entry::Switched { takes_back: false, .. } => vec![RecordedOutcome::GivenUp],
            Entry::PicturesRefused { .. } => vec![RecordedOutcome::PicturesRefused],
            entry => {
                let recorded = |reply: Option<&Reply>| match reply {
                    Some(reply) => RecordedOutcome::Reply(Box::new(reply.clone())),
                    None => RecordedOutcome::TooLong,
                };
                entry.replies().into_iter().map(recorded).collect()
            }
        }
    }

    /// The entries that must be on the disk, not only with the operating system, before the next
    /// step: what costs money or is seen by others.
    pub(super) fn must_be_durable(&self) -> bool {
        matches!(
            self,
            Entry::Replied { .. }
                | Entry::Switched { .. }
                | Entry::Compacted { .. }
                | Entry::Lost { .. }
                | Entry::EffectIntended { .. }
                | Entry::EffectDone { .. }
                | Entry::Selected { .. }
                | Entry::RunEnded { .. }
        )
    }
}

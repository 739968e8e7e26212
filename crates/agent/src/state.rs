//! What a run has said and done so far, as a fold over its journal entries.
//!
//! The loop applies each entry when it has written it; resuming applies the recorded ones. What comes
//! next is a pure function of the state, so a run is resumed after a crash exactly as it would have
//! without. Nothing here waits, writes or reads.

mod length;
mod restored;
mod switch;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::switch::Switch;
use self::switch::declined;
use super::budget::{self, LimitKind};
use super::compact::{self, OpenFailure};
use super::doom_loop::{self, Verdict};
use super::history::{History, note};
use super::limits;
use super::reply::{AcceptedReply, accept};
use super::stop::StopKind;
use super::text_calls;
use super::unfinished;
use patchwright_journal::Entry;
use patchwright_provider::item::{CallOutput, Item, Role, StopReason, ToolCall, Usage};
use patchwright_provider::{Reply, ToolDeclaration};
use patchwright_review::finding::Finding;
use patchwright_types::calls::CompactionTrigger;
use patchwright_types::calls::Fault;
use patchwright_types::outcome::{ModelUse, Spending};
use patchwright_types::plan::Plan;

/// How often a cut reply is followed up before the run ends.
const CUTS: u32 = 3;
/// Empty replies in a row that end the run.
const EMPTY_REPLIES: u32 = 2;
/// How often a reply that ends the run too early is answered, and never twice in a row.
const FOLLOW_UPS: u32 = 3;
/// Refusals as too long, one soon after the other, after which shortening has not helped.
const OVERFLOWS: u32 = 3;
/// Replies without such a refusal after which the count starts again at zero.
const REPLIES_TO_RESET_OVERFLOWS: u32 = 10;
/// Turns in a row, with nothing but calls that could not be run for the same reason, that end the run.
const FAULTS: u32 = 3;

/// The texts with which the harness speaks to the model.
#[derive(Clone, Debug)]
pub struct Remarks {
    pub nudge: String,
    /// No edit fits.
    pub edits: String,
    pub empty: String,
    pub cut: String,
    /// The reply only says what will be done.
    pub unfinished: String,
    /// The model ends, and nothing was changed.
    pub unchanged: String,
    /// Which tools there are.
    pub tools: String,
}

/// What the first request is made of besides the history.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub instructions: String,
    pub tools: Vec<ToolDeclaration>,
    /// The tool profile, when it was recorded.
    pub profile: Option<String>,
}

/// The state of a run between two steps.
#[derive(Debug, Default)]
pub struct State {
    pub prompt: Option<Prompt>,
    pub history: History,
    pub plan: Plan,
    /// What a review has found.
    pub findings: Vec<Finding>,
    /// What this agent has used.
    pub spending: Spending,
    /// What its sub-agents have used.
    pub lanes: Spending,
    /// The last thing that the model said.
    pub final_message: String,
    /// Tokens that the next request's conversation has: the provider's count of the last one, and
    /// our estimate of what came since.
    pub context: u64,
    /// Models that were given up for another, in order.
    pub switches: Vec<Switch>,
    /// What the models were used for, in the order in which they were asked; the first has no name until it
    /// is given up.
    pub(super) uses: Vec<ModelUse>,
    /// Items of the history's beginning that compaction leaves alone.
    pub opening: usize,
    /// Commands whose last run failed, the latest last.
    pub failures: Vec<OpenFailure>,
    /// How the conversation was shortened after the last reply, if it was.
    pub compacted: Option<CompactionTrigger>,
    /// Tokens at which the provider refused a conversation as too long, as estimated.
    pub refused_at: Option<u64>,
    /// Refusals as too long with fewer than [`REPLIES_TO_RESET_OVERFLOWS`] replies in between.
    overflows: u32,
    /// Replies since the last of them.
    calm: u32,
    /// Why the declared tools of the record cannot be read. A run that went on without them would be one
    /// without tools.
    pub unreadable: Option<String>,
    /// Tokens of instructions and tools, as estimated.
    fixed: u64,
    /// The calls and outputs of a model without tool calls, which the history has only as text.
    written: History,
    last: Option<LastReply>,
    cuts: u32,
    empty_replies: u32,
    /// Percent of each limit that the model was told of.
    warned: BTreeMap<String, u8>,
    /// Replies without calls that were answered with a remark.
    follow_ups: u32,
    /// The last of them was, and nothing was done since.
    is_followed_up: bool,
    faults: Option<(Fault, u32)>,
}

/// The last reply and what has come of it.
#[derive(Debug)]
struct LastReply {
    reply: AcceptedReply,
    /// Outputs by position of their call.
    outputs: BTreeMap<usize, (CallOutput, Option<Fault>)>,
    /// Something was said to the model after it.
    is_remarked: bool,
    /// Results that it was made of were taken back since: the workspace does not have what they say.
    is_outdated: bool,
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    Ask,
    /// Calls to run, with their positions in the reply.
    Run(Vec<(usize, ToolCall)>),
    Add(Vec<Item>),
    Stop(StopKind),
}

impl State {
    /// Takes in one entry, written just now or recorded earlier.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Prompted { instructions, tools, items, profile } => {
                self.prompted(instructions, tools, items, profile.as_ref());
            }
            Entry::Replied { turn, reply, cost_usd } => self.answered(*turn, reply, *cost_usd),
            Entry::CallEnded { output, fault, exit_code, .. } => {
                self.context += compact::estimate_output(output);
                self.ended(output, *fault);
                self.command_ended(output, *exit_code);
            }
            Entry::CallDropped { output, .. } => {
                self.context += compact::estimate_output(output);
                self.ended(output, None);
            }
            Entry::Lane { entry, .. } => self.of_sub_agent(entry),
            Entry::Compacted { trigger, before, replies, cost_usd, items, .. } => {
                replies.iter().flatten().for_each(|reply| self.spent(reply.usage, 0.0));
                self.spent(Usage::default(), *cost_usd);
                self.shortened(*trigger, *before, items);
            }
            Entry::Added { items } | Entry::Told { items, .. } => self.append_items(items),
            Entry::Warned { limits, items } => self.warned_of(limits, items),
            // The second is what the judge of attempts has used.
            Entry::Lost { usage, cost_usd } | Entry::Selected { usage, cost_usd, .. } => {
                self.spent(*usage, *cost_usd);
            }
            Entry::Switched { .. } => self.switched(entry),
            Entry::PlanUpdated { plan } => self.plan.clone_from(plan),
            Entry::Found { finding } => self.findings.push(finding.clone()),
            Entry::Replaced { .. } | Entry::Judged { .. } => entry.correct(&mut self.findings),
            Entry::Restored { lost, text, .. } => self.lose(lost, text),
            Entry::Stopped { reason, .. } => self.stopped(reason),
            Entry::PicturesRefused { text, .. } => self.drop_pictures(text),
            Entry::RunStarted { .. }
            | Entry::WorkspaceOpened { .. }
            | Entry::SetUpAgain { .. }
            | Entry::CallStarted { .. }
            | Entry::NestedStarted { .. }
            | Entry::NestedEnded { .. }
            | Entry::SentBack { .. }
            | Entry::SecondLook { .. }
            | Entry::Shown { .. }
            | Entry::Checked { .. }
            | Entry::Given { .. }
            | Entry::Reached { .. }
            | Entry::Collected { .. }
            | Entry::EffectIntended { .. }
            | Entry::EffectDone { .. }
            | Entry::AttemptStarted { .. }
            | Entry::AttemptEnded { .. }
            | Entry::RunEnded { .. }
            | Entry::Spawned { .. }
            | Entry::Sent { .. }
            | Entry::Closed
            | Entry::Reopened
            | Entry::Checkpoint { .. }
            | Entry::Unrecorded { .. }
            | Entry::Note { .. } => {}
        }
    }

    fn drop_pictures(&mut self, instead: &str) {
        self.history.drop_pictures(instead);
        self.written.drop_pictures(instead);
    }

    fn warned_of(&mut self, limits: &[(String, u8)], items: &[Item]) {
        self.warned.extend(limits.iter().cloned());
        self.append_items(items);
    }

    /// Something was said to the model.
    fn append_items(&mut self, items: &[Item]) {
        self.context += compact::estimate(items);
        self.history.extend(items.iter().cloned());
        if self.has_no_tools() {
            self.written.extend(items.iter().cloned());
        }
        let Some(last) = &mut self.last else { return };
        let is_ours = |item: &Item| matches!(item, Item::Message(it) if it.role == Role::Developer);
        if !items.iter().all(is_ours) {
            self.is_followed_up = false;
        } else if !last.is_remarked && last.reply.is_words() {
            self.follow_ups += 1;
            self.is_followed_up = true;
        }
        last.is_remarked = true;
    }

    /// Percent of a limit that the model was told of last.
    pub fn warned(&self, which: LimitKind) -> u8 {
        self.warned.get(which.word()).copied().unwrap_or_default()
    }

    /// The limit that has ended the work: what came after are the last words.
    pub fn limit_reached(&self) -> Option<LimitKind> {
        let all = [LimitKind::Turns, LimitKind::Tokens, LimitKind::Dollars, LimitKind::Time];
        all.into_iter().find(|which| self.warned(*which) >= limits::REACHED)
    }

    /// A reply without calls may be answered with a remark: the next such reply is the end.
    pub fn may_follow_up(&self) -> bool {
        !self.is_followed_up && self.follow_ups < FOLLOW_UPS
    }

    /// What the agent has used, and all that work for it.
    pub fn total(&self) -> Spending {
        let mut total = self.spending.clone();
        budget::add(&mut total, &self.lanes);
        total
    }

    fn prompted(
        &mut self,
        instructions: &str,
        tools: &Value,
        items: &[Item],
        profile: Option<&String>,
    ) {
        let before = self.fixed;
        self.fixed =
            compact::estimate_text(instructions) + compact::estimate_text(&tools.to_string());
        self.context = (self.context + self.fixed).saturating_sub(before);
        self.context += compact::estimate(items);
        // The items of the first prompt are the opening. A later prompt may come without items.
        if self.prompt.is_none() {
            self.opening = items.len();
        }
        let tools = serde_json::from_value(tools.clone()).unwrap_or_else(|err| {
            self.unreadable = Some(err.to_string());
            Vec::new()
        });
        self.prompt = Some(Prompt {
            instructions: instructions.to_owned(),
            tools,
            profile: profile.cloned(),
        });
        self.history.extend(items.iter().cloned());
    }

    /// Nothing was declared to the model: what it wants done is in its text.
    fn has_no_tools(&self) -> bool {
        self.prompt.as_ref().is_some_and(|prompt| prompt.tools.is_empty())
    }

    /// Calls of the last reply that have no output yet.
    pub fn pending(&self) -> Vec<ToolCall> {
        let pending = self.last.iter().flat_map(LastReply::pending);
        pending.map(|(_, call)| call).collect()
    }

    /// The items that hold the calls and their outputs.
    fn calls(&self) -> &[Item] {
        if self.has_no_tools() { self.written.items() } else { self.history.items() }
    }

    /// What comes next.
    pub fn next(&self, remarks: &Remarks) -> Next {
        let Some(last) = &self.last else { return Next::Ask };
        if let Some(stop) = declined(&last.reply) {
            return Next::Stop(stop);
        }
        let pending = last.pending();
        if !pending.is_empty() {
            return Next::Run(pending);
        }
        // A model that had finished has finished what is gone.
        if last.is_remarked || last.is_outdated {
            return Next::Ask;
        }
        match self.remarks(&last.reply, remarks) {
            Err(stop) => Next::Stop(stop),
            Ok(items) if !items.is_empty() => Next::Add(items),
            Ok(_) if !last.reply.calls.is_empty() => Next::Ask,
            Ok(_) if last.reply.stop == StopReason::Pause => Next::Ask,
            Ok(_) => Next::Stop(StopKind::Finished),
        }
    }

    /// What the model has to be told after this reply and its outputs, or why there is no point.
    fn remarks(&self, reply: &AcceptedReply, remarks: &Remarks) -> Result<Vec<Item>, StopKind> {
        let mut items: Vec<Item> = if reply.is_text {
            text_calls::remarks(reply)
        } else {
            reply.remarks.iter().map(note).collect()
        };
        if reply.is_misnamed {
            items.push(note(&remarks.tools));
        }
        if self.faults.is_some_and(|(_, turns)| turns >= FAULTS) {
            return Err(StopKind::FormatErrors);
        }
        if reply.stop == StopReason::MaxOutput {
            if self.cuts > CUTS {
                return Err(StopKind::CutOff);
            }
            items.push(note(&remarks.cut));
        } else if reply.is_empty() && reply.stop == StopReason::EndTurn {
            if self.empty_replies >= EMPTY_REPLIES {
                return Err(StopKind::EmptyReply);
            }
            items.push(note(&remarks.empty));
        } else if reply.is_words() && self.may_follow_up() {
            let unfinished = unfinished::is_unfinished(reply).then_some(&remarks.unfinished);
            items.extend(reply.not_carried_out.as_ref().or(unfinished).map(note));
        }
        if !reply.calls.is_empty() {
            match doom_loop::verdict(self.calls(), &remarks.nudge) {
                Verdict::Fine => {}
                Verdict::Nudge => items.push(note(&remarks.nudge)),
                Verdict::Stop => return Err(StopKind::DoomLoop),
            }
            match doom_loop::failed_edits(self.calls(), &remarks.edits) {
                Verdict::Fine => {}
                Verdict::Nudge => items.push(note(&remarks.edits)),
                Verdict::Stop => return Err(StopKind::DoomLoop),
            }
        }
        Ok(items)
    }

    fn answered(&mut self, turn: u32, reply: &Reply, cost_usd: f64) {
        let accepted = if self.has_no_tools() {
            text_calls::accept(reply, turn, &self.history)
        } else {
            let tools = self.prompt.as_ref().map_or(&[][..], |prompt| &prompt.tools);
            accept(reply, &self.history, tools)
        };
        let id = reply.id.as_deref().filter(|_| accepted.is_whole(reply));
        self.spending.turns += 1;
        self.spent(reply.usage, cost_usd);
        self.model_in_use().turns += 1;
        self.context = reply.usage.total();
        self.replied(accepted);
        self.history.ends_with_reply(id);
    }

    fn shortened(&mut self, trigger: CompactionTrigger, before: u64, items: &[Item]) {
        if trigger == CompactionTrigger::Overflow {
            self.refused_at = Some(before);
            self.overflows += 1;
            self.calm = 0;
        }
        self.context = self.size_with(items);
        self.compacted = Some(trigger);
        self.history.replace(items.to_vec());
    }

    fn spent(&mut self, usage: Usage, cost_usd: f64) {
        self.model_in_use().add(&ModelUse { usage, cost_usd, ..ModelUse::default() });
        self.spending.usage += usage;
        self.spending.cost_usd += cost_usd;
        self.spending.cost_is_estimate |= usage.estimated;
    }

    fn replied(&mut self, reply: AcceptedReply) {
        self.compacted = None;
        self.calm = self.calm.saturating_add(1);
        if self.calm >= REPLIES_TO_RESET_OVERFLOWS {
            self.overflows = 0;
        }
        self.history.extend(reply.items.iter().cloned());
        if reply.is_text {
            self.written.extend(reply.calls.iter().cloned().map(Item::Call));
        }
        if let Some(text) = &reply.text {
            self.final_message.clone_from(text);
        }
        let is_cut = reply.stop == StopReason::MaxOutput;
        self.cuts = if is_cut { self.cuts + 1 } else { 0 };
        let is_empty = reply.is_empty() && reply.stop == StopReason::EndTurn;
        self.empty_replies = if is_empty { self.empty_replies + 1 } else { 0 };
        if reply.calls.is_empty() {
            self.count_faults(reply.fault);
        } else {
            self.is_followed_up = false;
        }
        self.last = Some(LastReply {
            reply,
            outputs: BTreeMap::new(),
            is_remarked: false,
            is_outdated: false,
        });
    }

    fn ended(&mut self, output: &CallOutput, fault: Option<Fault>) {
        let Some(last) = &mut self.last else { return };
        let position = last.reply.calls.iter().position(|call| call.id == output.id);
        let Some(position) = position else { return };
        last.outputs.insert(position, (output.clone(), fault));
        if last.outputs.len() < last.reply.calls.len() {
            return;
        }
        let outputs = last.outputs.values().map(|(output, _)| output);
        if last.reply.is_text {
            self.history.push(text_calls::results(&last.reply, outputs.clone()));
            self.written.answer(outputs.cloned());
        } else {
            self.history.answer(outputs.cloned());
        }
        // One call that could be run shows that the model knows how.
        let all_faulty = last.outputs.values().all(|(_, fault)| fault.is_some());
        let fault = last.outputs.values().next_back().and_then(|(_, fault)| *fault);
        self.count_faults(fault.filter(|_| all_faulty));
    }

    /// Keeps the commands that fail and forgets those that passed since.
    fn command_ended(&mut self, output: &CallOutput, exit_code: Option<i32>) {
        let Some(exit_code) = exit_code else { return };
        let calls = self.last.iter().flat_map(|last| &last.reply.calls);
        let Some(call) = calls.into_iter().find(|call| call.id == output.id) else { return };
        let command = compact::command(call);
        self.failures.retain(|failure| failure.command != command);
        if exit_code != 0 {
            self.failures.push(OpenFailure::new(command, exit_code, output));
            let surplus = self.failures.len().saturating_sub(compact::MAX_FAILURES);
            self.failures.drain(..surplus);
        }
    }

    fn count_faults(&mut self, fault: Option<Fault>) {
        self.faults = match (fault, self.faults) {
            (Some(fault), Some((earlier, turns))) if earlier == fault => Some((fault, turns + 1)),
            (Some(fault), _) => Some((fault, 1)),
            (None, _) => None,
        };
    }
}

impl LastReply {
    fn pending(&self) -> Vec<(usize, ToolCall)> {
        let calls = self.reply.calls.iter().cloned().enumerate();
        calls.filter(|(position, _)| !self.outputs.contains_key(position)).collect()
    }
}

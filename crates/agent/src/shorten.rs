//! Compaction, as far as it asks and waits: notes from the model, the list of changed files. What stays is
//! decided in [`super::compact`].

use super::budget;
use super::compact::{self, Handover};
use super::history;
use super::stop::StopKind;
use super::turn::Agent;
use super::{AgentEvent, ExpectedChange};
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_provider::item::{Item, Role, Usage};
use patchwright_provider::{Reply, ToolChoice, catalogue};
use patchwright_sandbox::client::CollectLimits;
use patchwright_types::calls::CompactionTrigger;

/// Steps that are told where there are no notes and little room.
const LAST_STEPS: usize = 5;

impl Agent<'_> {
    /// Shortens the conversation: the model writes notes for itself, and a message with them and with
    /// what the harness knows takes the place of the earlier turns.
    pub(super) async fn compact(&mut self, trigger: CompactionTrigger) -> Result<(), StopKind> {
        let (opening, before) = (self.state.opening, self.state.context);
        let limit = self.state.limit(self.spec.model).min(before);
        let items = self.state.history.items();
        let asked = match trigger {
            CompactionTrigger::Threshold => items.to_vec(),
            CompactionTrigger::Overflow => compact::cut(items, opening, before / 2),
        };
        // Nothing that can fail comes between the notes and their record: they have been paid for.
        let files = self.changed_files().await?;
        let (replies, notes) = self.notes(asked).await?;
        let cost = |reply: &Reply| catalogue::cost(self.spec.model, &reply.usage).0;
        let cost_usd = replies.iter().flatten().map(cost).sum();
        let shorter = self.shorter(notes.as_deref(), &files, limit)?;
        let (after, items) = if let Some(items) = shorter {
            let after = self.state.size_with(&items);
            self.spec.progress.happened(AgentEvent::Compacted { before, after });
            (after, items)
        } else {
            // What was asked for is counted all the same.
            (before, self.state.history.items().to_vec())
        };
        self.record(&Entry::Compacted { trigger, before, after, replies, cost_usd, items })
    }

    /// The conversation with a message in place of earlier turns, as short as `limit` asks for. Behind a long opening, what
    /// is handed over and what stays can be more than there was; then less of both is taken. `None` where that is no
    /// shorter either.
    fn shorter(
        &self,
        notes: Option<&str>,
        files: &[String],
        limit: u64,
    ) -> Result<Option<Vec<Item>>, StopKind> {
        let (items, opening) = (self.state.history.items(), self.state.opening);
        let behind = &items[opening.min(items.len())..];
        let trace = if notes.is_none() { compact::trace(behind) } else { Vec::new() };
        let sub_agents = self.sub_agents.as_ref();
        let agents = sub_agents.map(|sub_agents| sub_agents.overview()).unwrap_or_default();
        let (plan, failures) = (&self.plan.lock().clone(), &self.state.failures);
        let with = |notes, trace, limit| {
            let handover = Handover { plan, files, failures, agents: &agents, notes, trace };
            let handover = handover.message().map_err(StopKind::Machine)?;
            Ok(compact::compacted(items, opening, handover, limit))
        };
        let first = with(notes, &trace, limit)?;
        if self.state.size_with(&first) < limit {
            return Ok(Some(first));
        }
        let most = compact::estimate(behind);
        let notes = notes.map(|notes| compact::beginning(notes, most / 4));
        let second = with(notes, &trace[trace.len().saturating_sub(LAST_STEPS)..], most)?;
        let is_shorter = compact::estimate(&second) < compact::estimate(items);
        Ok(is_shorter.then_some(second))
    }

    /// Asks the model for notes, and once more when it answers with calls, whatever it says beside them;
    /// without any when not even that request fits.
    async fn notes(
        &mut self,
        mut asked: Vec<Item>,
    ) -> Result<(Vec<Option<Reply>>, Option<String>), StopKind> {
        let question = prompt::text("task/compact.md").map_err(StopKind::Machine)?;
        asked.push(history::message(Role::User, [question]));
        let mut replies = Vec::new();
        // Tools stay allowed at first: on some wires forbidding them costs the prompt cache.
        for choice in [ToolChoice::Auto, ToolChoice::None] {
            let mut reply = match self.request(&asked, choice, None).await {
                Ok(reply) => reply,
                Err(StopKind::ContextExhausted) => {
                    replies.push(None);
                    break;
                }
                Err(stop) => return Err(stop),
            };
            reply.usage = budget::plausible(reply.usage);
            let notes = compact::notes(&reply);
            if notes.is_some() {
                replies.push(Some(reply));
                return Ok((replies, notes));
            }
            // It is counted now: what comes next may not come to an end.
            // A recorded one says that it used nothing, for this has been counted in the record.
            let usage = std::mem::take(&mut reply.usage);
            if usage != Usage::default() {
                self.lost.lock().push(usage);
                self.count_lost()?;
            }
            replies.push(Some(reply));
        }
        Ok((replies, None))
    }

    /// Nothing else has ended the work of a model that says that it is done. One that changed nothing on a full disk may
    /// have tried.
    pub(super) async fn may_end(&self) -> Result<(), StopKind> {
        if let Some(which) = self.state.limit_reached() {
            return Err(StopKind::Budget(which));
        }
        let may_have_tried =
            self.spec.expects_change != ExpectedChange::None && self.touched.is_empty();
        if !may_have_tried {
            return Ok(());
        }
        match self.spec.services.checkpoints.full_disk(None) {
            Some(failure) if self.is_unchanged().await? => Err(StopKind::Machine(failure)),
            Some(_) | None => Ok(()),
        }
    }

    /// Nothing differs from the base commit, as far as the guest can say.
    pub(super) async fn is_unchanged(&self) -> Result<bool, StopKind> {
        Ok(match self.bounded(self.spec.client.collect(CollectLimits::default())).await? {
            Ok(tree) => tree.files.is_empty() && tree.listing.deleted.is_empty(),
            Err(_) => false,
        })
    }

    /// What differs from the base commit; what the tools reported when the guest cannot say.
    async fn changed_files(&self) -> Result<Vec<String>, StopKind> {
        match self.bounded(self.spec.client.collect(CollectLimits::default())).await? {
            Ok(tree) => {
                let deleted = tree.listing.deleted.into_iter();
                let deleted = deleted.map(|path| format!("{path} (deleted)"));
                Ok(tree.files.into_iter().map(|file| file.path).chain(deleted).collect())
            }
            Err(_) => Ok(self.touched.iter().cloned().collect()),
        }
    }
}

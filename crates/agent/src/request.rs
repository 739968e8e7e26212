//! One request of the loop, and the reply that goes into the journal.

use super::AgentEvent;
use super::budget::{self, LimitKind};
use super::in_flight::InFlightRequest;
use super::output::ResultOptions;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_base::error::Failure;
use patchwright_base::text;
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_provider::catalogue::{self, Model};
use patchwright_provider::item::Item;
use patchwright_provider::{Previous, Progress, ProviderError, Reply, Request, ToolChoice};
use patchwright_tools::dispatch::printable;

impl Agent<'_> {
    pub(super) async fn request(
        &self,
        history: &[Item],
        tool_choice: ToolChoice<'_>,
        previous: Option<Previous<'_>>,
    ) -> Result<Reply, StopKind> {
        let prompt = self.state.prompt.as_ref().ok_or_else(|| {
            StopKind::Machine(Failure::internal("the agent was started without a prompt"))
        })?;
        let asking = self.asking(&prompt.tools);
        let asking = asking.unwrap_or(ResultOptions { tools: None, tool_choice, output: None });
        let request = Request {
            model: self.spec.model,
            instructions: &prompt.instructions,
            tools: asking.tools.as_ref().unwrap_or(&prompt.tools),
            history,
            effort: self.spec.effort,
            tool_choice: asking.tool_choice,
            output: asking.output,
            cache_key: self.spec.run,
            previous,
            has_alternative: self.spec.fallbacks.is_left(),
        };
        let now = || self.spec.clock.instant();
        let unanswered = InFlightRequest::new(&self.lost, self.state.context, &now);
        let progress = |what: Progress<'_>| {
            unanswered.saw(&what);
            self.spec.progress.happened(AgentEvent::Model(what));
        };
        let reply = match self.bounded(self.spec.provider.reply(&request, &progress)).await {
            Err(StopKind::Budget(LimitKind::Time)) => return Err(self.out_of_time(&unanswered)),
            ended => ended?,
        };
        match &reply {
            Ok(_) => unanswered.was_answered(),
            Err(_) => unanswered.has_failed(),
        }
        reply.map_err(|err| match err {
            ProviderError::ContextOverflow { .. } => StopKind::ContextExhausted,
            ProviderError::Filtered { .. } => StopKind::Filtered,
            err => StopKind::Provider(err),
        })
    }

    pub(super) fn append_reply(&mut self, mut reply: Reply) -> Result<(), StopKind> {
        let model = self.spec.model;
        reply.usage = budget::plausible(reply.usage);
        if !reply.model.is_empty() && model.is_named() && !reply.model.contains(&model.slug) {
            reply.usage.estimated = true;
            let answered = printable(&reply.model);
            self.note(format!("`{}` was asked, and `{answered}` answered", model.slug));
        }
        let (cost_usd, _) = catalogue::cost(model, &reply.usage);
        if model.price.is_none() {
            self.budget.is_unpriced();
        }
        let turn = self.state.spending.turns + 1;
        let entry = Entry::Replied { turn, reply, cost_usd };
        self.record(&entry)?;
        if let Entry::Replied { reply, .. } = &entry {
            let spending = &self.budget.spent();
            self.spec.progress.happened(AgentEvent::Replied { turn, reply, cost_usd, spending });
        }
        Ok(())
    }

    /// The provider has refused a request because of its pictures: the next one goes without them.
    pub(super) fn leave_out_pictures(&mut self, said: &str) -> Result<(), StopKind> {
        let instead = prompt::text("task/picture_refused.md").map_err(StopKind::Machine)?;
        let why = text::line(said);
        self.note(format!("pictures are left out, for the model's API refused them: {why}"));
        self.record(&Entry::PicturesRefused { why, text: instead.trim().to_owned() })
    }

    /// The report says that the model's cost is unknown.
    pub(super) fn note_unpriced(&mut self) {
        self.note(unpriced(self.spec.model));
    }
}

/// What a report says of a model without a price.
pub fn unpriced(model: &Model) -> String {
    format!(
        "the price of `{}` is unknown, so its cost is not counted and `limits.max-cost-usd` does not end the \
         run; the limits on turns, tokens and time do",
        model.slug
    )
}

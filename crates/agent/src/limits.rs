//! What the model is told of its limits: warnings on the way, and at a limit one last turn for the words that go with
//! what was done. It is without tools, but for a reviewer, who reports in it what it has found.

use std::future::Future;

use super::budget::{self, Decision, LimitKind};
use super::history;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_provider::ToolChoice;
use patchwright_provider::catalogue;
use patchwright_provider::item::Usage;

/// Percent of a limit that has ended the work.
pub const REACHED: u8 = 100;
/// Tokens of the words at the end, as they are reckoned with beforehand.
const WORDS: u64 = 2000;
/// What a reviewer may call in its last turn: they decide about what is posted and read nothing.
pub const LAST_CALLS: [&str; 3] = ["report_finding", "withdraw_finding", "confirm_finding"];

impl Agent<'_> {
    /// Another request may be sent, and leaves enough for the last words.
    pub(super) fn check_budget(&mut self) -> Result<(), StopKind> {
        let remaining = self.deadline.saturating_duration_since(self.spec.clock.instant());
        let least = catalogue::least(self.spec.model, self.state.context) + self.kept_for_words();
        let own = budget::decide(self.spec.limits, &self.state.spending, least, remaining);
        for decision in [self.budget.decide(least, remaining), own] {
            if let Decision::Stop(which) = decision {
                self.budget.figures(which).into_iter().for_each(|figures| self.note(figures));
                return Err(StopKind::Budget(which));
            }
        }
        Ok(())
    }

    /// Every wait ends with the run's deadline, and when somebody wants to stop.
    pub(super) async fn bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, StopKind> {
        let deadline = tokio::time::Instant::from_std(self.deadline);
        tokio::select! {
            biased;
            () = self.spec.cancel.cancelled() => Err(StopKind::Cancelled),
            done = tokio::time::timeout_at(deadline, work) => {
                done.map_err(|_| StopKind::Budget(LimitKind::Time))
            }
        }
    }

    /// What is left of the run's time is for the last words.
    pub(super) fn use_all_time(&mut self) {
        self.deadline = self.spec.deadline;
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        self.spec.deadline.saturating_duration_since(self.spec.clock.instant()).is_zero()
    }

    /// The part of the run's time that has passed.
    pub(super) fn time_used(&self) -> f64 {
        let limit = self.spec.limits.timeout.as_secs_f64().max(f64::MIN_POSITIVE);
        let left = self.spec.deadline.saturating_duration_since(self.spec.clock.instant());
        1.0 - left.as_secs_f64() / limit
    }

    /// Says once that three quarters of a limit are used, and once that nine tenths are. It goes to the end of
    /// the conversation, so what providers keep of its beginning holds.
    pub(super) fn warn(&mut self) -> Result<(), StopKind> {
        if self.is_sub_agent() || self.state.spending.turns == 0 {
            return Ok(());
        }
        let time = self.time_used();
        let mut warned = Vec::new();
        let mut lines = Vec::new();
        for share in self.budget.shares(time, self.spec.model.price.is_some()) {
            let known = self.state.warned(share.which);
            let reached = budget::WARN_AT.iter().filter(|percent| share.is_beyond(**percent));
            let Some(percent) = reached.max().copied().filter(|percent| *percent > known) else {
                continue;
            };
            warned.push((share.which.word().to_owned(), percent));
            lines.push(share.sentence(percent));
        }
        if warned.is_empty() {
            return Ok(());
        }
        let name =
            if self.is_review() { "task/limit_near_review.md" } else { "task/limit_near.md" };
        let rest = prompt::text(name).map_err(StopKind::Machine)?;
        let items = vec![history::note(format!("{} {}", lines.join(" "), rest.trim()))];
        self.record(&Entry::Warned { limits: warned, items })
    }

    /// At a limit the model says once more what was done and what is left, where that is affordable. A reviewer reports
    /// what it has found and not reported yet: its words alone are on no lines. Nothing that goes wrong with it changes
    /// how the run ended.
    pub(super) async fn wrap_up(&mut self, which: LimitKind) -> Result<(), StopKind> {
        if self.is_sub_agent() || !self.can_wrap_up(which) {
            return Ok(());
        }
        self.use_all_time();
        self.give_up_calls()?;
        let (name, choice) = if self.is_review() {
            ("task/wrap_up_review.md", ToolChoice::Auto)
        } else {
            ("task/wrap_up.md", ToolChoice::None)
        };
        let text = prompt::text(name).map_err(StopKind::Machine)?;
        let sentence = StopKind::Budget(which).sentence();
        let items = vec![history::note(format!("This run ends now: {sentence}. {}", text.trim()))];
        self.record(&Entry::Warned { limits: vec![(which.word().to_owned(), REACHED)], items })?;
        self.tell_asked();
        let history = &self.state.history;
        let reply = self.request(history.items(), choice, history.previous()).await?;
        self.append_reply(reply)?;
        if self.is_review() {
            self.run_last_calls().await?;
        }
        self.tell_turn_ended();
        Ok(())
    }

    /// Takes what the last turn of a reviewer reports. Whatever else it calls is given up.
    async fn run_last_calls(&mut self) -> Result<(), StopKind> {
        let pending = self.state.pending().into_iter().enumerate();
        let calls = pending.filter(|(_, call)| LAST_CALLS.contains(&call.name.as_str())).collect();
        self.run_calls(calls).await?;
        self.give_up_calls()
    }

    /// Dollars that the last turn costs at least, which the work leaves over.
    pub(super) fn kept_for_words(&self) -> f64 {
        if self.is_sub_agent() || self.state.spending.turns == 0 {
            return 0.0;
        }
        let words = Usage { output: WORDS, ..Usage::default() };
        let model = self.spec.model;
        catalogue::least(model, self.state.context) + catalogue::cost(model, &words).0
    }

    /// There is work to speak of, and one more request stays within the limit on money, and near the others.
    fn can_wrap_up(&self, which: LimitKind) -> bool {
        let (model, limits, state) = (self.spec.model, self.spec.limits, &self.state);
        if state.spending.turns == 0 || state.is_too_long(model) {
            return false;
        }
        let is_cheap = self.budget.has_dollars(self.kept_for_words());
        let most = limits.max_tokens / 10;
        match which {
            LimitKind::Tokens => is_cheap && state.context.saturating_add(WORDS) <= most,
            LimitKind::Dollars | LimitKind::Turns => is_cheap,
            LimitKind::Time => is_cheap && !self.is_out_of_time(),
        }
    }
}

//! What the model is told of its limits: warnings on the way, and at a limit one last turn without tools, for
//! the words that go with what was done.

use super::budget::{self, Which};
use super::history;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_provider::ToolChoice;
use patchwright_provider::catalogue;
use patchwright_provider::item::Usage;

/// Percent of a limit that has ended the work.
pub(super) const REACHED: u8 = 100;
/// Tokens of the words at the end, as they are reckoned with beforehand.
const WORDS: u64 = 2000;
/// The last turn may cost so much of a limit that is reached already.
const OVERRUN: f64 = 0.1;

impl Agent<'_> {
    /// Says once that three quarters of a limit are used, and once that nine tenths are. It goes to the end of
    /// the conversation, so what providers keep of its beginning holds.
    pub(super) fn warn(&mut self) -> Result<(), StopKind> {
        if self.is_in_crew() || self.state.spending.turns == 0 {
            return Ok(());
        }
        let time = self.time_used();
        let mut warned = Vec::new();
        let mut lines = Vec::new();
        for share in self.purse.shares(time, self.spec.model.price.is_some()) {
            let known = self.state.warned(share.which);
            let reached = budget::WARN_AT.iter().filter(|percent| share.is_beyond(**percent));
            let Some(percent) = reached.max().copied().filter(|percent| *percent > known) else {
                continue;
            };
            warned.push((share.which.word().to_owned(), percent));
            lines.push(format!(
                "{} % of {} {} used.",
                percent,
                share.which.noun(),
                share.which.are()
            ));
        }
        if warned.is_empty() {
            return Ok(());
        }
        let rest = prompt::text("task/limit_near.md").map_err(StopKind::Machine)?;
        let items = vec![history::note(format!("{} {}", lines.join(" "), rest.trim()))];
        self.record(&Entry::Warned { limits: warned, items })
    }

    /// At a limit the model says once more what was done and what is left, without tools, where that is
    /// affordable. Nothing that goes wrong with it changes how the run ended.
    pub(super) async fn wrap_up(&mut self, which: Which) -> Result<(), StopKind> {
        if self.is_in_crew() || !self.can_wrap_up(which) {
            return Ok(());
        }
        self.use_all_time();
        self.give_up_calls()?;
        let text = prompt::text("task/wrap_up.md").map_err(StopKind::Machine)?;
        let sentence = StopKind::Budget(which).sentence();
        let items = vec![history::note(format!("This run ends now: {sentence}. {}", text.trim()))];
        self.record(&Entry::Warned { limits: vec![(which.word().to_owned(), REACHED)], items })?;
        let history = &self.state.history;
        let reply = self.request(history.items(), ToolChoice::None, history.previous()).await?;
        self.append_reply(reply)
    }

    /// There is work to speak of, and one more request stays near the limit.
    fn can_wrap_up(&self, which: Which) -> bool {
        let (model, limits, state) = (self.spec.model, self.spec.limits, &self.state);
        if state.spending.turns == 0 || state.is_too_long(model) {
            return false;
        }
        let words = Usage { output: WORDS, ..Usage::default() };
        let cost = catalogue::least(model, state.context) + catalogue::cost(model, &words).0;
        let spent = self.purse.spent();
        let is_cheap = spent.cost_usd + cost <= limits.max_cost_usd * (1.0 + OVERRUN);
        let most = limits.max_tokens / 10;
        match which {
            Which::Tokens => is_cheap && state.context.saturating_add(WORDS) <= most,
            Which::Dollars | Which::Turns => is_cheap,
            Which::Time => is_cheap && !self.is_out_of_time(),
        }
    }
}

//! What a run may use, and what it has used: numbers in, a decision out; the loop asks before each
//! request. What tokens cost is the catalogue's to say.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stop::StopKind;
use patchwright_journal::Entry;
use patchwright_provider::item::Usage;
use patchwright_types::outcome::Spending;
use patchwright_types::task::Limits;

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    Turns,
    Tokens,
    Dollars,
    Time,
}

impl LimitKind {
    /// The word for the journal.
    pub fn word(self) -> &'static str {
        match self {
            LimitKind::Turns => "turns",
            LimitKind::Tokens => "tokens",
            LimitKind::Dollars => "dollars",
            LimitKind::Time => "time",
        }
    }

    /// In a sentence: `75 % of the tokens are used`.
    fn noun(self) -> &'static str {
        match self {
            LimitKind::Turns => "the turns of this run",
            LimitKind::Tokens => "the tokens of this run",
            LimitKind::Dollars => "the money for this run",
            LimitKind::Time => "the time of this run",
        }
    }

    fn are(self) -> &'static str {
        match self {
            LimitKind::Turns | LimitKind::Tokens => "are",
            LimitKind::Dollars | LimitKind::Time => "is",
        }
    }
}

/// Percent of a limit at which the model is told.
pub const WARN_AT: [u8; 2] = [75, 90];

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub which: LimitKind,
    used: f64,
    /// Of what can be counted one by one, one is left.
    is_last: bool,
}

impl Share {
    /// With one turn left, three quarters are taken for used, however few there are.
    pub fn is_beyond(&self, percent: u8) -> bool {
        let is_used = self.used * 100.0 >= f64::from(percent);
        is_used || (self.is_last && percent == WARN_AT[0])
    }

    /// In a sentence: that `percent` are used.
    pub(super) fn sentence(&self, percent: u8) -> String {
        let (noun, are) = (self.which.noun(), self.which.are());
        if self.is_last && self.used * 100.0 < f64::from(percent) {
            return format!("All of {noun} but one {are} used.");
        }
        format!("{percent} % of {noun} {are} used.")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Go,
    Stop(LimitKind),
}

/// What a run and all its sub-agents have used, against the run's limits. Where several attempts are made at the
/// work, each has such a budget for its turns, inside the one that all of them share.
#[derive(Debug)]
pub struct SharedBudget {
    limits: Limits,
    spent: Mutex<Spending>,
    /// That of all attempts.
    all: Option<Arc<SharedBudget>>,
}

impl SharedBudget {
    pub fn new(limits: &Limits) -> SharedBudget {
        SharedBudget { limits: limits.clone(), spent: Mutex::default(), all: None }
    }

    /// That of one attempt, inside the one of all: turns are each attempt's own, money and tokens are not.
    pub fn within(limits: &Limits, all: &Arc<SharedBudget>) -> SharedBudget {
        SharedBudget { all: Some(Arc::clone(all)), ..SharedBudget::new(limits) }
    }

    /// What the killed attempt had used that this run resumes. The budget of all attempts knows it already.
    pub fn start_at(&self, spent: Spending) {
        *self.lock() = spent;
    }

    /// An entry is about to be taken in that says what was used.
    pub fn count(&self, entry: &Entry) {
        used(&mut self.lock(), entry);
        self.all.iter().for_each(|all| all.count(entry));
    }

    /// A model without a price was asked.
    pub fn is_unpriced(&self) {
        self.lock().price_is_unknown = true;
        self.all.iter().for_each(|all| all.is_unpriced());
    }

    /// So many more dollars stay within the limit.
    pub fn has_dollars(&self, more: f64) -> bool {
        self.lock().cost_usd + more <= self.limits.max_cost_usd
            && self.all.as_ref().is_none_or(|all| all.has_dollars(more))
    }

    /// What was used by all.
    pub fn spent(&self) -> Spending {
        self.lock().clone()
    }

    /// May another request be sent, whoever sends it? It costs `least` dollars or more.
    pub fn decide(&self, least: f64, remaining: Duration) -> Decision {
        match decide(&self.limits, &self.lock(), least, remaining) {
            Decision::Go => self.all.as_ref().map_or(Decision::Go, |all| {
                // Turns are each attempt's own.
                let limits = Limits { max_turns: u32::MAX, ..all.limits.clone() };
                decide(&limits, &all.lock(), least, remaining)
            }),
            stop @ Decision::Stop(_) => stop,
        }
    }

    /// How much of each limit is used; of the one on money only where it is known what is spent.
    pub fn shares(&self, time: f64, is_priced: bool) -> Vec<Share> {
        let mut shares = self.own_shares(time, is_priced);
        let all = self.all.iter().flat_map(|all| all.own_shares(time, is_priced));
        for of_all in all.filter(|share| share.which != LimitKind::Turns) {
            let own = shares.iter_mut().find(|share| share.which == of_all.which);
            if let Some(own) = own {
                own.used = own.used.max(of_all.used);
            }
        }
        shares
    }

    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    fn own_shares(&self, time: f64, is_priced: bool) -> Vec<Share> {
        let (limits, spent) = (&self.limits, self.lock());
        let part = |used: f64, limit: f64| if limit > 0.0 { used / limit } else { 0.0 };
        let tokens = part(spent.usage.counted() as f64, limits.max_tokens as f64);
        let mut shares = vec![
            Share {
                which: LimitKind::Turns,
                used: part(spent.turns.into(), limits.max_turns.into()),
                is_last: spent.turns.saturating_add(1) == limits.max_turns,
            },
            Share { which: LimitKind::Tokens, used: tokens, is_last: false },
            Share { which: LimitKind::Time, used: time, is_last: false },
        ];
        if is_priced {
            let used = part(spent.cost_usd, limits.max_cost_usd);
            shares.push(Share { which: LimitKind::Dollars, used, is_last: false });
        }
        shares
    }

    /// Which of the run's limits was reached, in figures, where the name of the limit does not say it.
    pub fn figures(&self, which: LimitKind) -> Option<String> {
        // Where attempts share it, theirs together are what has reached the limit.
        if let Some(all) = &self.all {
            return all.figures(which);
        }
        let (limits, spent) = (&self.limits, self.lock());
        match which {
            LimitKind::Tokens => Some(format!(
                "`limits.max-tokens` is {}, and {} tokens were used; {} more were read from the \
                 provider's cache and are not counted",
                limits.max_tokens,
                spent.usage.counted(),
                spent.usage.cached_input
            )),
            LimitKind::Dollars => Some(format!(
                "`limits.max-cost-usd` is {}, and ${:.4} were spent",
                limits.max_cost_usd, spent.cost_usd
            )),
            LimitKind::Turns | LimitKind::Time => None,
        }
    }

    /// Which of the run's limits ended the work, in a sentence for people.
    pub fn reached(&self, which: LimitKind) -> String {
        match &self.all {
            Some(all) => all.reached(which),
            None => reached(which, &self.limits, &self.lock()),
        }
    }

    /// The limits of one more agent: half of what is left of the run's, so that what starts it can go
    /// on when it fails, and less where `own` says so.
    pub fn share(&self, own: &BudgetShare) -> Limits {
        let spent = self.spent();
        let half = |all: u64, used: u64| (all.saturating_sub(used) / 2).max(1);
        let turns = half(self.limits.max_turns.into(), spent.turns.into());
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        let tokens = half(self.limits.max_tokens, spent.usage.counted());
        let cost = ((self.limits.max_cost_usd - spent.cost_usd) / 2.0).max(0.0);
        // Of what all attempts share, no more than they have left.
        let of_all = self.all.as_ref().map(|all| all.share(&BudgetShare::default()));
        let (all_tokens, all_cost) =
            of_all.map_or((tokens, cost), |of_all| (of_all.max_tokens, of_all.max_cost_usd));
        let (tokens, cost) = (tokens.min(all_tokens), cost.min(all_cost));
        Limits {
            max_turns: own.max_turns.map_or(turns, |most| most.min(turns)),
            max_tokens: own.max_tokens.map_or(tokens, |most| most.min(tokens)),
            max_cost_usd: own.max_cost_usd.map_or(cost, |most| most.min(cost)),
            ..self.limits.clone()
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Spending> {
        self.spent.lock()
    }
}

/// What an agent file says that its agent may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetShare {
    pub max_turns: Option<u32>,
    pub max_tokens: Option<u64>,
    pub max_cost_usd: Option<f64>,
}

/// Adds what an entry says was used.
pub fn used(spending: &mut Spending, entry: &Entry) {
    let mut count = |usage: Usage, cost_usd: f64| {
        spending.usage += usage;
        spending.cost_usd += cost_usd;
        spending.cost_is_estimate |= usage.estimated;
    };
    match entry {
        Entry::Replied { reply, cost_usd, .. } => {
            count(reply.usage, *cost_usd);
            spending.turns += 1;
        }
        // The second is the judge's; what attempts have used is in their own journals.
        Entry::Lost { usage, cost_usd } | Entry::Selected { usage, cost_usd, .. } => {
            count(*usage, *cost_usd);
        }
        Entry::Compacted { replies, cost_usd, .. } => {
            replies.iter().flatten().for_each(|reply| count(reply.usage, 0.0));
            count(Usage::default(), *cost_usd);
        }
        _ => {}
    }
}

/// Adds what somebody else has used; time that passes for both passes once.
pub fn add(spending: &mut Spending, other: &Spending) {
    spending.turns += other.turns;
    spending.usage += other.usage;
    spending.cost_usd += other.cost_usd;
    spending.cost_is_estimate |= other.cost_is_estimate;
    spending.price_is_unknown |= other.price_is_unknown;
}

/// May another request be sent? Every limit holds within one request: what a reply costs is only
/// known when it has arrived. Once the work has begun, a request that would go beyond the limit by its
/// input alone, which costs `least` dollars or more, is not sent.
pub fn decide(limits: &Limits, spending: &Spending, least: f64, remaining: Duration) -> Decision {
    let is_too_dear = spending.turns > 0 && spending.cost_usd + least > limits.max_cost_usd;
    if remaining.is_zero() {
        Decision::Stop(LimitKind::Time)
    } else if spending.turns >= limits.max_turns {
        Decision::Stop(LimitKind::Turns)
    } else if spending.usage.counted() >= limits.max_tokens {
        Decision::Stop(LimitKind::Tokens)
    } else if spending.cost_usd >= limits.max_cost_usd || is_too_dear {
        Decision::Stop(LimitKind::Dollars)
    } else {
        Decision::Go
    }
}

/// Which limit ended the work, in a sentence for people, and how far it was: whoever reads it decides by that how much the
/// next attempt gets.
pub fn reached(which: LimitKind, limits: &Limits, spent: &Spending) -> String {
    let sentence = StopKind::Budget(which).sentence();
    let (used, most) = (spent.cost_usd, limits.max_cost_usd);
    match which {
        LimitKind::Dollars if used < most => format!(
            "the next request and the last words do not fit into what is left of the limit on cost: \
             ${used:.4} of ${most} are used"
        ),
        LimitKind::Dollars => format!("{sentence}: ${used:.4} of ${most} are used"),
        LimitKind::Tokens => {
            format!("{sentence}: {} of {} are used", spent.usage.counted(), limits.max_tokens)
        }
        LimitKind::Turns | LimitKind::Time => sentence,
    }
}

/// A usage that can be counted with: no provider's figure can overflow a sum, or hide costs by
/// claiming more cached tokens than there were. Changed figures are marked as estimated.
pub fn plausible(usage: Usage) -> Usage {
    /// More than any model reads or writes in one reply.
    const MOST: u64 = 50_000_000;
    let input = usage.input.min(MOST);
    let output = usage.output.min(MOST);
    let cached_input = usage.cached_input.min(input);
    let cache_write = usage.cache_write.min(input - cached_input);
    let reasoning = usage.reasoning.min(output);
    let counted = Usage { input, cached_input, cache_write, output, reasoning, ..usage };
    Usage { estimated: usage.estimated || counted != usage, ..counted }
}

#[cfg(test)]
mod tests {
    use crate::budget::*;

    #[test]
    fn each_limit_stops_on_its_own() {
        let limits = Limits {
            max_turns: 3,
            max_tokens: 100,
            max_cost_usd: 1.0,
            timeout: Duration::from_mins(1),
            command_timeout: Duration::from_secs(1),
            verify_rounds: 0,
        };
        for (turns, input, cost_usd, remaining, expected) in [
            (0, 0, 0.0, 60, Decision::Go),
            (2, 99, 0.99, 1, Decision::Go),
            (3, 0, 0.0, 60, Decision::Stop(LimitKind::Turns)),
            (0, 100, 0.0, 60, Decision::Stop(LimitKind::Tokens)),
            (0, 0, 1.0, 60, Decision::Stop(LimitKind::Dollars)),
            (0, 0, 0.0, 0, Decision::Stop(LimitKind::Time)),
        ] {
            let usage = Usage { input, ..Usage::default() };
            let spending = Spending { turns, usage, cost_usd, ..Spending::default() };
            let decision = decide(&limits, &spending, 0.0, Duration::from_secs(remaining));
            assert_eq!(decision, expected, "{turns} {input} {cost_usd} {remaining}");
        }
    }

    fn limits(max_tokens: u64, max_cost_usd: f64) -> Limits {
        Limits {
            max_turns: 10,
            max_tokens,
            max_cost_usd,
            timeout: Duration::from_mins(1),
            command_timeout: Duration::from_secs(1),
            verify_rounds: 0,
        }
    }

    #[test]
    fn input_from_the_cache_does_not_use_up_the_limit_on_tokens() {
        let limits = limits(100, 1.0);
        for (input, cached_input, output, expected) in [
            (5_000, 4_950, 49, Decision::Go),
            (5_000, 4_950, 50, Decision::Stop(LimitKind::Tokens)),
            (100, 0, 0, Decision::Stop(LimitKind::Tokens)),
        ] {
            let usage = Usage { input, cached_input, output, ..Usage::default() };
            let spending = Spending { turns: 1, usage, ..Spending::default() };
            assert_eq!(decide(&limits, &spending, 0.0, Duration::from_mins(1)), expected);
        }
        let budget = SharedBudget::new(&limits);
        let usage = Usage { input: 5_000, cached_input: 4_950, output: 51, ..Usage::default() };
        budget.start_at(Spending { usage, ..Spending::default() });
        assert_eq!(
            budget.figures(LimitKind::Tokens).unwrap(),
            "`limits.max-tokens` is 100, and 101 tokens were used; 4950 more were read from the \
             provider's cache and are not counted"
        );
    }

    #[test]
    fn a_request_that_would_cost_too_much_by_its_input_is_not_sent() {
        let limits = limits(1_000, 1.0);
        for (turns, cost_usd, least, expected) in [
            (1, 0.9, 0.1, Decision::Go),
            (1, 0.9, 0.11, Decision::Stop(LimitKind::Dollars)),
            // A first request is always sent: its answer shows what a request of this run costs.
            (0, 0.0, 2.0, Decision::Go),
        ] {
            let spending = Spending { turns, cost_usd, ..Spending::default() };
            assert_eq!(decide(&limits, &spending, least, Duration::from_mins(1)), expected);
        }
    }

    #[test]
    fn an_agent_gets_half_of_what_is_left_or_less() {
        let limits = Limits {
            max_turns: 11,
            max_tokens: 100,
            max_cost_usd: 1.0,
            timeout: Duration::from_mins(1),
            command_timeout: Duration::from_secs(1),
            verify_rounds: 0,
        };
        let budget = SharedBudget::new(&limits);
        budget.start_at(Spending { turns: 1, cost_usd: 0.5, ..Spending::default() });
        let share = budget.share(&BudgetShare::default());
        assert_eq!((share.max_turns, share.max_tokens), (5, 50));
        assert!((share.max_cost_usd - 0.25).abs() < 1e-9);
        let own = BudgetShare { max_turns: Some(2), max_tokens: Some(1_000), max_cost_usd: None };
        assert_eq!((budget.share(&own).max_turns, budget.share(&own).max_tokens), (2, 50));
        budget.start_at(Spending { turns: 12, cost_usd: 5.0, ..Spending::default() });
        let share = budget.share(&BudgetShare::default());
        assert_eq!((share.max_turns, share.max_cost_usd.to_bits()), (1, 0.0_f64.to_bits()));
    }

    #[test]
    fn attempts_share_money_and_tokens_and_have_their_own_turns() {
        let limits = limits(100, 1.0);
        let all = Arc::new(SharedBudget::new(&limits));
        let (one, two) = (SharedBudget::within(&limits, &all), SharedBudget::within(&limits, &all));
        let lost =
            |input, cost_usd| Entry::Lost { usage: Usage { input, ..Usage::default() }, cost_usd };
        one.count(&lost(60, 0.6));
        assert_eq!(two.decide(0.0, Duration::from_mins(1)), Decision::Go);
        assert!(two.has_dollars(0.4) && !two.has_dollars(0.5));
        assert!((two.share(&BudgetShare::default()).max_cost_usd - 0.2).abs() < 1e-9);
        assert_eq!(two.share(&BudgetShare::default()).max_tokens, 20);
        assert!(
            two.shares(0.0, true)
                .iter()
                .any(|it| it.which == LimitKind::Dollars && it.is_beyond(60))
        );
        two.count(&lost(10, 0.4));
        for budget in [&one, &two] {
            let decision = budget.decide(0.0, Duration::from_mins(1));
            assert_eq!(decision, Decision::Stop(LimitKind::Dollars));
        }
        assert_eq!(
            two.figures(LimitKind::Dollars).unwrap(),
            "`limits.max-cost-usd` is 1, and $1.0000 were spent"
        );
        assert!((one.spent().cost_usd - 0.6).abs() < 1e-9, "what one has used is its own");
        // The turns of all together are no limit.
        all.start_at(Spending { turns: 50, ..Spending::default() });
        assert_eq!(one.decide(0.0, Duration::from_mins(1)), Decision::Go);
        one.start_at(Spending { turns: 10, ..Spending::default() });
        assert_eq!(one.decide(0.0, Duration::from_mins(1)), Decision::Stop(LimitKind::Turns));
    }

    #[test]
    fn absurd_usage_is_bounded_and_marked() {
        let honest = Usage { input: 10, cached_input: 8, output: 3, ..Usage::default() };
        assert_eq!(plausible(honest), honest);
        let absurd = Usage { input: u64::MAX, cached_input: u64::MAX, output: 5, ..honest };
        let expected = Usage {
            input: 50_000_000,
            cached_input: 50_000_000,
            output: 5,
            estimated: true,
            ..Usage::default()
        };
        assert_eq!(plausible(absurd), expected);
        let hidden = Usage { input: 10, cached_input: 20, ..Usage::default() };
        assert_eq!(plausible(hidden).cached_input, 10);
    }
}

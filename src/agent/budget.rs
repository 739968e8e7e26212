//! What a run may use, and what it has used. Pure: numbers in, a decision out; the loop asks before
//! each request. What tokens cost is the catalogue's to say.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::provider::item::Usage;
use crate::task::Limits;
use crate::task::outcome::Spending;

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    Turns,
    Tokens,
    Dollars,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Go,
    Stop(Which),
}

/// May another request be sent? Every limit holds within one request: what a reply costs is only
/// known when it has arrived.
pub fn decide(limits: &Limits, spending: &Spending, remaining: Duration) -> Decision {
    if remaining.is_zero() {
        Decision::Stop(Which::Time)
    } else if spending.turns >= limits.max_turns {
        Decision::Stop(Which::Turns)
    } else if spending.usage.total() >= limits.max_tokens {
        Decision::Stop(Which::Tokens)
    } else if spending.cost_usd >= limits.max_cost_usd {
        Decision::Stop(Which::Dollars)
    } else {
        Decision::Go
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
    use super::*;

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
            (3, 0, 0.0, 60, Decision::Stop(Which::Turns)),
            (0, 100, 0.0, 60, Decision::Stop(Which::Tokens)),
            (0, 0, 1.0, 60, Decision::Stop(Which::Dollars)),
            (0, 0, 0.0, 0, Decision::Stop(Which::Time)),
        ] {
            let usage = Usage { input, ..Usage::default() };
            let spending = Spending { turns, usage, cost_usd, ..Spending::default() };
            let decision = decide(&limits, &spending, Duration::from_secs(remaining));
            assert_eq!(decision, expected, "{turns} {input} {cost_usd} {remaining}");
        }
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

//! What a run may use, and what it has used. Pure: numbers in, a decision out; the loop asks before
//! each request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::provider::catalogue::Model;
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

/// Whether the dollar limit can be kept: without a price the cost stays unknown.
pub fn can_count_dollars(model: &Model) -> bool {
    model.price.is_some()
}

/// Dollars for one reply, `None` when the model's price is unknown. Where the price of a part is
/// unknown (cache writes), the dearer price is taken, so the sum is an upper bound.
pub fn cost_usd(model: &Model, usage: &Usage) -> Option<f64> {
    let price = model.price?;
    let cached = usage.cached_input.min(usage.input);
    let written = usage.cache_write.min(usage.input - cached);
    let fresh = usage.input - cached - written;
    let write_price = price.cache_write.unwrap_or(price.input);
    Some(
        (tokens(fresh) * price.input
            + tokens(cached) * price.cache_read
            + tokens(written) * write_price
            + tokens(usage.output) * price.output)
            / 1e6,
    )
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

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
fn tokens(count: u64) -> f64 {
    count as f64
}

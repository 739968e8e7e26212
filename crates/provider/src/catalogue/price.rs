//! What tokens cost: the price of a model, and its steps for long input. Asked after each reply, and before a
//! request by the budget.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::item::Usage;
use patchwright_base::error::{Failure, Result};

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: Option<f64>,
}

/// A request with more input tokens than this costs more, from its first token on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceStep {
    /// Input tokens, cached ones included, up to which the price before holds.
    pub tokens: u64,
    /// How many times as much input costs, cached or not.
    pub input: f64,
    /// How many times as much output costs.
    pub output: f64,
}

impl Price {
    pub(super) fn parse(slug: &str, numbers: &[f64]) -> Result<Price> {
        if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
            return Err(Failure::usage(format!("a number of `models.{slug}.price` is negative")));
        }
        match *numbers {
            [input, output, cache_read] => {
                Ok(Price { input, output, cache_read, cache_write: None })
            }
            [input, output, cache_read, write] => {
                Ok(Price { input, output, cache_read, cache_write: Some(write) })
            }
            _ => Err(Failure::usage(format!(
                "`models.{slug}.price` must be [input, output, cache read] or [input, output, cache read, cache write]"
            ))),
        }
    }

    /// The price of a request that is beyond a step.
    #[must_use]
    pub fn at(self, step: &PriceStep) -> Price {
        Price {
            input: self.input * step.input,
            output: self.output * step.output,
            cache_read: self.cache_read * step.input,
            cache_write: self.cache_write.map(|write| write * step.input),
        }
    }

    /// The price of a request with so much input, where the model has one.
    fn at_length(model: &Model, input: u64) -> Option<Price> {
        let price = model.price?;
        let reached = model.price_above.iter().filter(|step| input > step.tokens);
        Some(reached.max_by_key(|step| step.tokens).map_or(price, |step| price.at(step)))
    }
}

impl PriceStep {
    /// A step can be told from the price before, and no request is cheaper for being longer.
    pub(super) fn is_sound(&self) -> bool {
        let is_factor = |factor: f64| factor.is_finite() && factor >= 1.0;
        self.tokens > 0 && is_factor(self.input) && is_factor(self.output)
    }
}

/// What the tokens of one request cost in dollars, and whether that is an estimate, because a count is not
/// known; an estimate is on the high side. Nothing is made up for a model without a price: it counts as 0,
/// and whoever reports it says that the price is unknown.
pub fn cost(model: &Model, usage: &Usage) -> (f64, bool) {
    let Some(price) = Price::at_length(model, usage.input) else { return (0.0, usage.estimated) };
    let cached = usage.cached_input.min(usage.input);
    let written = usage.cache_write.min(usage.input - cached);
    let fresh = usage.input - cached - written;
    let dollars = tokens(fresh) * price.input
        + tokens(cached) * price.cache_read
        + tokens(written) * price.cache_write.unwrap_or(price.input)
        + tokens(usage.output) * price.output;
    (dollars / 1e6, usage.estimated)
}

/// What a request with so much input costs at the least, in dollars: all of it read from the cache, and
/// no word of a reply.
pub fn least(model: &Model, input: u64) -> f64 {
    Price::at_length(model, input).map_or(0.0, |price| tokens(input) * price.cache_read / 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
fn tokens(count: u64) -> f64 {
    count as f64
}

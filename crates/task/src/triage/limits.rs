//! What a triage may use: anybody can open an issue, so it is little unless the operator says otherwise.

use patchwright_config::{Config, Source};
use patchwright_types::task::Limits;

/// The lower of what the sections `limits` and `triage` say. A flag or an input is for this very run, and counts
/// alone.
pub(super) fn of(config: &Config) -> Limits {
    let (limits, triage) = (&config.limits, &config.triage);
    let is_given = |key: &str| config.sources.get(key) == Some(&Source::Flag);
    let max_turns = match is_given("limits.max-turns") {
        true => limits.max_turns,
        false => limits.max_turns.min(triage.max_turns),
    };
    let max_tokens = match is_given("limits.max-tokens") {
        true => limits.max_tokens,
        false => limits.max_tokens.min(triage.max_tokens),
    };
    let timeout = match is_given("limits.timeout") {
        true => limits.timeout,
        false => limits.timeout.min(triage.timeout),
    };
    let max_cost_usd = match is_given("limits.max-cost-usd") {
        true => limits.max_cost_usd,
        false => lower(limits.max_cost_usd, triage.max_cost_usd),
    };
    Limits { max_turns, max_tokens, max_cost_usd, timeout, ..limits.clone() }
}

/// Zero is no limit.
fn lower(a: f64, b: f64) -> f64 {
    match (a > 0.0, b > 0.0) {
        (true, true) => a.min(b),
        (true, false) => a,
        (false, _) => b,
    }
}

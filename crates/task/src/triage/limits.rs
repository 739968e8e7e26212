//! What a triage may use: anybody can open an issue, so it is little unless the operator says otherwise.

use patchwright_config::{Config, Source};
use patchwright_types::task::Limits;

/// The lower of what the sections `limits` and `triage` say. A flag or an input is for this very run, and counts
/// alone.
pub(super) fn of(config: &Config) -> Limits {
    let (mut limits, triage) = (config.limits.clone(), &config.triage);
    let is_open = |key: &str| config.sources.get(key) != Some(&Source::Flag);
    if is_open("limits.max-turns") {
        limits.max_turns = limits.max_turns.min(triage.max_turns);
    }
    if is_open("limits.max-tokens") {
        limits.max_tokens = limits.max_tokens.min(triage.max_tokens);
    }
    if is_open("limits.timeout") {
        limits.timeout = limits.timeout.min(triage.timeout);
    }
    if is_open("limits.max-cost-usd") {
        limits.max_cost_usd = limits.max_cost_usd.min(triage.max_cost_usd);
    }
    limits
}

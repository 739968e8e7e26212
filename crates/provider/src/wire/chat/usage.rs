//! Counted tokens, in the dialects of the servers that speak this protocol.
//!
//! Called by [`super::decode`] alone.

use serde::Deserialize;

use crate::item::Usage;
use crate::shape::TokenCounts;
use crate::wire::lenient;

/// No model writes more in one reply: a total that says so counts something else.
const MOST_BESIDE: u64 = 1 << 20;

/// `usage` of a chunk or a completion.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::some")]
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(deserialize_with = "lenient::count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot's.
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
    /// Mistral's.
    #[serde(deserialize_with = "lenient::count")]
    num_cached_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::some")]
    completion_tokens_details: Option<CompletionDetails>,
    #[serde(deserialize_with = "lenient::count")]
    total_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_write_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    #[serde(deserialize_with = "lenient::count")]
    reasoning_tokens: Option<u64>,
}

impl RawUsage {
    fn cached(&self) -> u64 {
        let detailed = self.prompt_tokens_details.as_ref().and_then(|it| it.cached_tokens);
        let names = [self.prompt_cache_hit_tokens, self.cached_tokens, self.num_cached_tokens];
        // Some fill in their own field alone, and the protocol's with a zero.
        names.into_iter().chain([detailed]).flatten().max().unwrap_or_default()
    }

    fn reasoning(&self) -> u64 {
        let details = self.completion_tokens_details.as_ref();
        details.and_then(|it| it.reasoning_tokens).unwrap_or_default()
    }

    /// Thoughts that are billed and are not among the completion's tokens: xAI and Google's endpoint for this
    /// protocol count them beside it, and in the total alone.
    fn beside(&self) -> u64 {
        let (Some(prompt), Some(completion)) = (self.prompt_tokens, self.completion_tokens) else {
            return 0;
        };
        let reasoning = self.reasoning();
        match self.total_tokens {
            Some(total) => {
                let beside = total.saturating_sub(prompt.saturating_add(completion));
                if beside > MOST_BESIDE { 0 } else { beside }
            }
            // Parts are not more than their whole, so they are none.
            None if reasoning > completion => reasoning,
            None => 0,
        }
    }
}

/// The tokens of a reply.
pub(super) fn usage(raw: Option<&RawUsage>) -> Usage {
    let Some(raw) = raw else { return Usage { estimated: true, ..Usage::default() } };
    let prompt = raw.prompt_tokens_details.as_ref();
    let counts = TokenCounts {
        input: raw.prompt_tokens,
        cached: raw.cached(),
        written: prompt.and_then(|it| it.cache_write_tokens).unwrap_or_default(),
        output: raw.completion_tokens.map(|words| words.saturating_add(raw.beside())),
        reasoning: raw.reasoning(),
    };
    counts.usage()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::item::Usage;
    use crate::wire::chat::usage::{RawUsage, usage};

    fn counted(usage_object: Value) -> Usage {
        let raw: RawUsage = serde_json::from_value(usage_object).unwrap();
        usage(Some(&raw))
    }

    #[test]
    fn thoughts_beside_the_completion_are_output() {
        let details = |tokens: u64| json!({"reasoning_tokens": tokens});
        let of = |prompt: u64, completion: u64, total: Option<u64>, thoughts: u64| {
            let usage = counted(json!({
                "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total,
                "completion_tokens_details": details(thoughts),
            }));
            (usage.output, usage.reasoning, usage.estimated)
        };
        // xAI, Google, and servers whose thoughts are a part of the completion.
        assert_eq!(of(12, 2, Some(354), 340), (342, 340, false));
        assert_eq!(of(35, 12, Some(109), 0), (74, 0, false));
        assert_eq!(of(12, 340, Some(352), 300), (340, 300, false));
        assert_eq!(of(12, 2, None, 340), (342, 340, false));
        // What cannot be is an estimate, and no reason to count more than anybody said.
        assert_eq!(of(43, 10, Some(53), 11), (10, 10, true));
        assert_eq!(of(43, 10, Some(u64::MAX), 0), (10, 0, false));
        assert_eq!(of(43, 10, Some(10), 0), (10, 0, false));
    }

    #[test]
    fn tokens_from_the_cache_have_many_names() {
        for (name, value) in [
            ("prompt_tokens_details", json!({"cached_tokens": 60})),
            ("prompt_cache_hit_tokens", json!(60)),
            ("cached_tokens", json!(60)),
            ("num_cached_tokens", json!(60)),
        ] {
            let usage = counted(json!({"prompt_tokens": 80, "completion_tokens": 5, name: value}));
            assert_eq!((usage.input, usage.cached_input), (80, 60), "{name}");
        }
    }
}

//! The model catalogue: what users write after `--model`, overrides, and cost.

use std::collections::BTreeMap;

use patchwright_provider::catalogue::{Catalogue, Fields, Price, cost};
use patchwright_provider::item::{Usage, Wire};
use serde_json::{Value, json};

use crate::providers::{catalogue, model};

#[test]
fn catalogue_resolves_what_users_write() {
    let catalogue = catalogue();
    let cases = [
        ("gpt-5.3-codex", None, "gpt-5.3-codex openai Responses codex known"),
        ("openai/gpt-5.3-codex", None, "gpt-5.3-codex openai Responses codex known"),
        ("gpt-5.5", Some(Wire::Chat), "gpt-5.5 openai Chat codex known"),
        ("gpt-5.9-codex", None, "gpt-5.9-codex openai Responses codex assumed"),
        ("gpt-5.3-codex-2026-01-01", None, "gpt-5.3-codex-2026-01-01 openai Responses codex known"),
        ("anthropic/claude-sonnet-5", None, "claude-sonnet-5 anthropic Messages claude known"),
        ("anthropic/claude-next", None, "claude-next anthropic Messages claude assumed"),
        ("gemini/gemini-2.5-pro", None, "gemini-2.5-pro google Gemini gemini known"),
        ("chat/qwen/qwen3-coder", None, "qwen/qwen3-coder chat Chat generic assumed"),
        ("chat/gpt-5.5", None, "gpt-5.5 chat Chat codex known"),
        ("scripted:replies.yml", None, "scripted:replies.yml scripted Responses codex known"),
    ];
    for (spec, wire, expected) in cases {
        let model = catalogue.resolve(spec, wire).unwrap();
        let assumed = if model.assumed { "assumed" } else { "known" };
        let seen = format!(
            "{} {} {:?} {} {assumed}",
            model.slug, model.provider, model.wire, model.profile
        );
        assert_eq!(seen, expected, "{spec}");
    }
    let failures = [
        ("gtp-5.3-codex", "did you mean `gpt-5.3-codex`?"),
        ("no-such-model", "write `chat/NAME`"),
        ("opnai/gpt-5.5", "did you mean `openai`?"),
        ("anthropic/gpt-5.5", "write `gpt-5.5` or `openai/gpt-5.5`"),
        ("openai/", "names no model"),
        ("scripted:", "needs a file"),
    ];
    for (spec, expected) in failures {
        let err = catalogue.resolve(spec, None).unwrap_err().to_string();
        assert!(err.contains(expected), "{spec}: {err}");
    }
    let err = catalogue.resolve("gpt-5.3-codex", Some(Wire::Chat)).unwrap_err().to_string();
    assert!(err.contains("only on the `responses` wire"), "{err}");
}

#[test]
fn catalogue_refuses_what_would_fail_at_the_first_request() {
    let cases = [
        ("gpt-5.3-codex", Some("high"), ""),
        ("gpt-5.3-codex", None, ""),
        ("gpt-5.9", Some("extreme"), ""),
        ("scripted:x.yml", None, ""),
        ("gpt-5.3-codex", Some("minimal"), "can be low, medium, high, xhigh"),
        ("gpt-4.1", Some("low"), "has no levels"),
    ];
    for (spec, effort, expected) in cases {
        let checked = catalogue().resolve(spec, None).unwrap().check(effort);
        let message = checked.err().map(|err| err.to_string()).unwrap_or_default();
        assert_eq!(message.is_empty(), expected.is_empty(), "{spec} {effort:?}: {message}");
        assert!(message.contains(expected), "{spec} {effort:?}: {message}");
    }
    let script = catalogue().resolve("scripted:x.yml", None).unwrap();
    assert_eq!(script.script(), Some(std::path::Path::new("x.yml")));
    assert_eq!(model().script(), None);
}

#[test]
fn catalogue_entries_are_whole() {
    let catalogue = catalogue();
    for slug in catalogue.slugs() {
        let model = catalogue.resolve(slug, None).unwrap();
        assert!(model.context_window >= 100_000 && model.max_output >= 16_000, "{slug}");
        let default = model.default_effort.as_ref();
        assert!(default.is_none_or(|level| model.efforts.contains(level)), "{slug}");
        if let Some(price) = model.price {
            assert!(price.cache_read <= price.input && price.input <= price.output, "{slug}");
        }
    }
}

#[test]
fn catalogue_takes_overrides() {
    let overrides: BTreeMap<String, Fields> = serde_json::from_value(json!({
        "gpt-5.3-codex": {"context": 1000, "price": [1, 2, 0.5]},
        "my-model": {"family": "chat", "price": [0, 0, 0], "profile": "text"},
    }))
    .unwrap();
    let catalogue = Catalogue::load(&overrides).unwrap();
    let model = catalogue.resolve("gpt-5.3-codex", None).unwrap();
    let price = Price { input: 1.0, output: 2.0, cache_read: 0.5, cache_write: None };
    assert_eq!(
        (model.context_window, model.price, model.wire),
        (1000, Some(price), Wire::Responses)
    );
    // A conversation is shortened before it fills a window that is smaller than the maker's.
    for slug in ["claude-sonnet-5-5", "gemini-3.6-flash"] {
        let whole = catalogue.resolve(slug, None).unwrap();
        let entry = |fields: Value| {
            let fields = serde_json::from_value(fields).unwrap();
            let catalogue = Catalogue::load(&BTreeMap::from([("mine".to_owned(), fields)]));
            catalogue.unwrap().resolve("mine", None).unwrap().compact_at()
        };
        assert_eq!(entry(json!({"like": slug, "context": 20_000})), 17_000);
        assert_eq!(entry(json!({"like": slug, "context": 900_000})), whole.compact_at());
        let chosen = json!({"like": slug, "context": 20_000, "compact-at": 18_000});
        assert_eq!(entry(chosen), 18_000);
    }
    // A price of one's own is multiplied like the one that it replaces.
    let cheap = BTreeMap::from([(
        "gpt-5.5".to_owned(),
        serde_json::from_value(json!({"price": [1, 2, 0.5]})).unwrap(),
    )]);
    let cheap = Catalogue::load(&cheap).unwrap().resolve("gpt-5.5", None).unwrap();
    let long = Usage { input: 300_000, output: 1_000, ..Usage::default() };
    assert!((cost(&cheap, &long).0 - (0.6 + 0.003)).abs() < 1e-9);
    let model = catalogue.resolve("my-model", None).unwrap();
    assert_eq!((model.provider.as_str(), model.profile.as_str()), ("chat", "text"));
    for (fields, expected) in [
        (json!({"family": "codexx"}), "did you mean `codex`?"),
        (json!({"price": [1]}), "must be [input, output, cache read]"),
        (json!({"price": [-1, 1, 1]}), "is negative"),
        (
            json!({"price-above": [{"tokens": 0, "input": 2, "output": 2}]}),
            "`models.gpt-5.5.price-above` needs",
        ),
        (
            json!({"price-above": [{"tokens": 9, "input": 0.5, "output": 2}]}),
            "`input` and `output` of 1 or more",
        ),
    ] {
        let fields: Fields = serde_json::from_value(fields).unwrap();
        let overrides = BTreeMap::from([("gpt-5.5".to_owned(), fields)]);
        let err = Catalogue::load(&overrides).unwrap_err().to_string();
        assert!(err.contains(expected), "{err}");
    }
}

#[test]
fn catalogue_cost_counts_each_kind_of_token_once() {
    let usage = |input, cached_input, cache_write, output| Usage {
        input,
        cached_input,
        cache_write,
        output,
        reasoning: 0,
        estimated: false,
    };
    let known = model();
    let astra = catalogue().resolve("gpt-6-astra", None).unwrap();
    let unknown = catalogue().resolve("chat/x", None).unwrap();
    let million = 1_000_000;
    let cases = [
        (&known, usage(million, 0, 0, 0), 1.75, false),
        (&known, usage(million, million, 0, million), 14.175, false),
        (&astra, usage(200_000, 100_000, 50_000, 10_000), 0.5 + 0.1 + 0.625 + 0.5, false),
        // Long input costs twice as much, and the output half as much again.
        (&astra, usage(million, 500_000, 250_000, 0), 5.0 + 1.0 + 6.25, false),
        (&astra, usage(272_001, 0, 0, 100_000), 5.44002 + 7.5, false),
        (&unknown, usage(272_000, 0, 0, 0), 0.0, false),
        (&known, Usage { estimated: true, ..usage(million, 0, 0, 0) }, 1.75, true),
        (&unknown, usage(million, million, 0, million), 0.0, false),
        (&known, usage(1, u64::MAX, 5, 0), 0.175e-6, false),
    ];
    for (model, usage, dollars, is_estimate) in cases {
        let (cost, estimate) = cost(model, &usage);
        assert!((cost - dollars).abs() < 1e-9, "{usage:?}: {cost}");
        assert_eq!(estimate, is_estimate);
    }
}

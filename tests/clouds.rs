//! Where models are asked: addresses, keys and bodies of the public services and of the clouds, as
//! their references give them.

use std::collections::BTreeMap;

use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_config::flags::Common;
use patchwright_config::{Config, merge};
use patchwright_provider::endpoint::Endpoint;
use patchwright_provider::item::Wire;
use serde_json::{Value, json};

use crate::providers::catalogue;

/// The endpoint of `model` with a base URL and an environment.
fn find(model: &str, wire: Option<Wire>, base: Option<&str>, env: &[(&str, &str)]) -> Found {
    let flags = Common {
        model: Some(model.to_owned()),
        base_url: base.map(str::to_owned),
        ..Common::default()
    };
    let config: Config = merge::resolve(None, &flags).unwrap();
    let resolved = catalogue().resolve(model, wire).unwrap();
    let env = Env::from_pairs(env.iter().copied());
    let endpoint = Endpoint::find(config.base_url.as_deref(), &resolved, &env);
    Found { endpoint, wire: resolved.wire, slug: resolved.slug }
}

struct Found {
    endpoint: Result<Endpoint>,
    wire: Wire,
    slug: String,
}

impl Found {
    /// Address and key header of a request; or the failure.
    fn request(&self) -> String {
        match &self.endpoint {
            Ok(endpoint) => {
                let url = endpoint.url(self.wire, &self.slug);
                let key =
                    endpoint.key_header(self.wire).map_or_else(String::new, |(name, value)| {
                        assert!(value.is_sensitive());
                        format!(" {name}: {}", value.to_str().unwrap())
                    });
                format!("{url}{key}")
            }
            Err(failure) => failure.to_string(),
        }
    }
}

#[test]
fn clouds_the_makers_own_services() {
    let cases = [
        (
            "gpt-5.5",
            None,
            "OPENAI_API_KEY",
            "https://api.openai.com/v1/responses authorization: Bearer k",
        ),
        (
            "gpt-5.5",
            Some(Wire::Chat),
            "OPENAI_API_KEY",
            "https://api.openai.com/v1/chat/completions authorization: Bearer k",
        ),
        (
            "claude-sonnet-5",
            None,
            "ANTHROPIC_API_KEY",
            "https://api.anthropic.com/v1/messages x-api-key: k",
        ),
        (
            "claude-sonnet-5",
            None,
            "ANTHROPIC_AUTH_TOKEN",
            "https://api.anthropic.com/v1/messages authorization: Bearer k",
        ),
        (
            "claude-sonnet-5",
            Some(Wire::Chat),
            "ANTHROPIC_API_KEY",
            "https://api.anthropic.com/v1/chat/completions authorization: Bearer k",
        ),
        (
            "gemini-2.5-pro",
            None,
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse x-goog-api-key: k",
        ),
        (
            "gemini-2.5-pro",
            None,
            "GOOGLE_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse x-goog-api-key: k",
        ),
        (
            "gemini-2.5-pro",
            Some(Wire::Chat),
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions authorization: Bearer k",
        ),
    ];
    for (model, wire, variable, expected) in cases {
        assert_eq!(find(model, wire, None, &[(variable, "k")]).request(), expected, "{model}");
    }
}

#[test]
fn clouds_servers_of_ones_own() {
    // A server of one's own is asked with the key of the protocol that it imitates.
    let local = find("chat/qwen3", None, Some("http://h:1/v1"), &[("OPENAI_API_KEY", "k")]);
    assert_eq!(local.request(), "http://h:1/v1/chat/completions authorization: Bearer k");
    let keys = [("OPENAI_API_KEY", "a"), ("OPENROUTER_API_KEY", "b")];
    let router = find("chat/x/y", None, Some("https://openrouter.ai/api/v1"), &keys);
    assert_eq!(
        router.request(),
        "https://openrouter.ai/api/v1/chat/completions authorization: Bearer b"
    );
    let keyless = find("chat/qwen3", None, Some("http://h:1/v1"), &[]);
    assert_eq!(keyless.request(), "http://h:1/v1/chat/completions");
}

#[test]
fn clouds_azure() {
    let host = ("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com/");
    let key = ("AZURE_OPENAI_API_KEY", "k");
    let v1 = "https://res.openai.azure.com/openai/v1/responses api-key: k";
    for endpoint in [
        "https://res.openai.azure.com",
        "https://res.openai.azure.com/openai/v1/",
        "https://res.openai.azure.com/openai",
    ] {
        let env = [("AZURE_OPENAI_ENDPOINT", endpoint), key];
        assert_eq!(find("azure/gpt-5.5", None, None, &env).request(), v1, "{endpoint}");
    }
    let chat = |version| {
        find("azure/gpt-5.5", Some(Wire::Chat), None, &[host, key, ("OPENAI_API_VERSION", version)])
            .request()
    };
    assert_eq!(chat("v1"), "https://res.openai.azure.com/openai/v1/chat/completions api-key: k");
    assert_eq!(
        chat("preview"),
        "https://res.openai.azure.com/openai/v1/chat/completions?api-version=preview api-key: k"
    );
    assert_eq!(
        chat("2024-10-21"),
        "https://res.openai.azure.com/openai/deployments/gpt-5.5/chat/completions?api-version=2024-10-21 api-key: k"
    );
    assert!(chat("latest-one").contains("`OPENAI_API_VERSION` is not a version"));
    let dated = [host, key, ("OPENAI_API_VERSION", "2025-04-01-preview")];
    assert_eq!(
        find("azure/gpt-5.5", None, None, &dated).request(),
        "https://res.openai.azure.com/openai/responses?api-version=2025-04-01-preview api-key: k"
    );
    let odd = find("azure/a b/../c", Some(Wire::Chat), None, &dated).request();
    assert!(odd.contains("/openai/deployments/a%20b%2F..%2Fc/chat/completions?"), "{odd}");
    let entra = [host, ("AZURE_OPENAI_AD_TOKEN", "eyJ0")];
    assert_eq!(
        find("azure/gpt-5.5", None, None, &entra).request(),
        "https://res.openai.azure.com/openai/v1/responses authorization: Bearer eyJ0"
    );
    let foundry = [("AZURE_OPENAI_ENDPOINT", "https://res.services.ai.azure.com"), key];
    assert_eq!(
        find("azure/claude-opus-5", None, None, &foundry).request(),
        "https://res.services.ai.azure.com/anthropic/v1/messages x-api-key: k"
    );
    let nameless = find("azure/gpt-5.5", None, None, &[key]).request();
    assert!(nameless.contains("set `AZURE_OPENAI_ENDPOINT`"), "{nameless}");
    let keyless = find("azure/gpt-5.5", None, None, &[host, ("OPENAI_API_KEY", "k")]).request();
    assert!(keyless.contains("hint: set `AZURE_OPENAI_API_KEY`"), "{keyless}");
    assert!(keyless.contains("`OPENAI_API_KEY` is set, which is for"), "{keyless}");
}

#[test]
fn clouds_bedrock() {
    let env = [("AWS_REGION", "eu-west-1"), ("AWS_BEARER_TOKEN_BEDROCK", "k")];
    let cases = [
        (
            "bedrock/openai.gpt-5.5",
            None,
            None,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/responses authorization: Bearer k",
        ),
        (
            "bedrock/openai.gpt-oss-120b-1:0",
            None,
            None,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/chat/completions authorization: Bearer k",
        ),
        (
            "bedrock/qwen.qwen3-coder-30b-a3b-v1:0",
            None,
            None,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/chat/completions authorization: Bearer k",
        ),
        (
            "bedrock/us.anthropic.claude-opus-5",
            None,
            None,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/anthropic/v1/messages x-api-key: k",
        ),
        (
            "bedrock/openai.gpt-5.5",
            None,
            Some("https://bedrock-mantle.us-east-2.api.aws"),
            "https://bedrock-mantle.us-east-2.api.aws/openai/v1/responses authorization: Bearer k",
        ),
        (
            "bedrock/openai.gpt-oss-120b",
            Some(Wire::Responses),
            Some("https://bedrock-mantle.us-east-2.api.aws/v1"),
            "https://bedrock-mantle.us-east-2.api.aws/v1/responses authorization: Bearer k",
        ),
        (
            "bedrock/anthropic.claude-opus-5",
            None,
            Some("https://bedrock-mantle.us-east-2.api.aws/anthropic"),
            "https://bedrock-mantle.us-east-2.api.aws/anthropic/v1/messages x-api-key: k",
        ),
    ];
    for (model, wire, base, expected) in cases {
        assert_eq!(find(model, wire, base, &env).request(), expected, "{model}");
    }
    let nowhere = find("bedrock/openai.gpt-5.5", None, None, &env[1..]).request();
    assert!(nowhere.contains("set `AWS_REGION`"), "{nowhere}");
    let hostile = [("AWS_REGION", "x.evil.example/"), env[1]];
    let hostile = find("bedrock/openai.gpt-5.5", None, None, &hostile).request();
    assert!(hostile.contains("`AWS_REGION` is not a region"), "{hostile}");
    let keyless = find("bedrock/openai.gpt-5.5", None, None, &env[..1]).request();
    assert!(keyless.contains("to a Bedrock API key"), "{keyless}");
    let gemini = find("bedrock/openai.gpt-5.5", Some(Wire::Gemini), None, &env).request();
    assert!(gemini.contains("cannot be asked on the `gemini` wire"), "{gemini}");
}

#[test]
fn clouds_vertex() {
    let project = ("GOOGLE_CLOUD_PROJECT", "my-project");
    let token = ("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.t");
    let at = |model: &str, wire, location| {
        find(model, wire, None, &[project, token, ("GOOGLE_CLOUD_LOCATION", location)]).request()
    };
    assert_eq!(
        at("vertex/gemini-3.6-flash", None, "us-central1"),
        "https://us-central1-aiplatform.googleapis.com/v1/projects/my-project/locations/us-central1/publishers/google/models/gemini-3.6-flash:streamGenerateContent?alt=sse authorization: Bearer ya29.t"
    );
    assert_eq!(
        at("vertex/claude-sonnet-4-5@20250929", None, "global"),
        "https://aiplatform.googleapis.com/v1/projects/my-project/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict authorization: Bearer ya29.t"
    );
    assert_eq!(
        at("vertex/claude-opus-5", None, "eu"),
        "https://aiplatform.eu.rep.googleapis.com/v1/projects/my-project/locations/eu/publishers/anthropic/models/claude-opus-5:streamRawPredict authorization: Bearer ya29.t"
    );
    assert_eq!(
        at("vertex/meta/llama-4", None, "global"),
        "https://aiplatform.googleapis.com/v1/projects/my-project/locations/global/endpoints/openapi/chat/completions authorization: Bearer ya29.t"
    );
    let other = [project, ("CLOUDSDK_AUTH_ACCESS_TOKEN", "t")];
    assert_eq!(
        find("vertex/claude-opus-5", None, Some("http://127.0.0.1:9"), &other).request(),
        "http://127.0.0.1:9/v1/projects/my-project/locations/global/publishers/anthropic/models/claude-opus-5:streamRawPredict authorization: Bearer t"
    );
    assert!(
        find("vertex/claude-opus-5", None, None, &[token])
            .request()
            .contains("set `GOOGLE_CLOUD_PROJECT`")
    );
    let keyless = find("vertex/claude-opus-5", None, None, &[project]).request();
    assert!(keyless.contains("gcloud auth print-access-token"), "{keyless}");
    assert!(
        at("vertex/gpt-5.5", None, "global").contains("cannot be asked on the `responses` wire")
    );
}

/// Claude on Vertex has the model in the path and the version in the body; everything else keeps its
/// bytes, so that what is cached by its beginning stays cached.
#[test]
fn clouds_vertex_changes_the_top_of_a_messages_body_and_nothing_else() {
    let env = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_OAUTH_ACCESS_TOKEN", "t")];
    let vertex = find("vertex/claude-opus-5", None, None, &env).endpoint.unwrap();
    let first = r#"{"model":"claude-opus-5","max_tokens":9,"tools":[{"name":"x","input_schema":{"b":1, "a":1.50}}],"system":"model \u2028","messages":[{"role":"user","content":"{\"model\":1}"}"#;
    let (one, two) = (format!("{first}]}}"), format!("{first},{{\"role\":\"assistant\"}}]}}"));
    let sent = |body: &str| String::from_utf8(vertex.body(Wire::Messages, body.into())).unwrap();
    assert_eq!(
        sent(&one),
        one.replace(r#""model":"claude-opus-5""#, r#""anthropic_version":"vertex-2023-10-16""#)
    );
    let prefix = sent(&one).trim_end_matches("]}").to_owned();
    assert!(sent(&two).starts_with(&prefix));
    let parsed: Value = serde_json::from_str(&sent(&two)).unwrap();
    assert_eq!((&parsed["model"], &parsed["max_tokens"]), (&Value::Null, &json!(9)));
    for (wire, endpoint) in [
        (Wire::Gemini, &vertex),
        (
            Wire::Messages,
            &find("claude-opus-5", None, None, &[("ANTHROPIC_API_KEY", "k")]).endpoint.unwrap(),
        ),
    ] {
        assert_eq!(endpoint.body(wire, one.clone().into_bytes()), one.as_bytes());
    }
    assert_eq!(sent("not JSON"), "not JSON");
}

/// A name on a cloud gets what is known about the model behind it.
#[test]
fn clouds_names_lead_to_the_models_behind_them() {
    let overrides = serde_json::from_value(json!({
        "azure/my-deployment": {"like": "gpt-5.5", "price": [1, 2, 0.5]},
        "shared": {"like": "claude-haiku-4-5"},
        "twice": {"like": "shared", "context": 100_000},
    }))
    .unwrap();
    let catalogue = patchwright_provider::catalogue::Catalogue::load(&overrides).unwrap();
    let cases = [
        ("azure/gpt-5.4-mini", "gpt-5.4-mini azure Responses 272000 known"),
        ("azure/my-deployment", "my-deployment azure Responses 1050000 known"),
        ("azure/shared", "shared azure Messages 200000 known"),
        ("twice", "twice anthropic Messages 100000 known"),
        ("azure/what", "what azure Responses 272000 assumed"),
        (
            "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
            "us.anthropic.claude-haiku-4-5-20251001-v1:0 bedrock Messages 200000 known",
        ),
        (
            "bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-5",
            "arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-5 bedrock Messages 1000000 known",
        ),
        ("bedrock/openai.gpt-5.6-sol", "openai.gpt-5.6-sol bedrock Responses 922000 known"),
        ("bedrock/deepseek.v3.2", "deepseek.v3.2 bedrock Chat 128000 assumed"),
        (
            "vertex/claude-sonnet-4-5@20250929",
            "claude-sonnet-4-5@20250929 vertex Messages 200000 known",
        ),
        ("vertex/gemini-9-flash", "gemini-9-flash vertex Gemini 1048576 assumed"),
    ];
    for (spec, expected) in cases {
        let model = catalogue.resolve(spec, None).unwrap();
        let known = if model.assumed { "assumed" } else { "known" };
        let seen = format!(
            "{} {} {:?} {} {known}",
            model.slug, model.provider, model.wire, model.context_window
        );
        assert_eq!(seen, expected, "{spec}");
    }
    let price = catalogue.resolve("azure/my-deployment", None).unwrap().price.unwrap();
    assert!((price.output - 2.0).abs() < 1e-9);
    let ring =
        serde_json::from_value(json!({"a": {"like": "gpt-5.5"}, "b": {"like": "a"}})).unwrap();
    assert!(patchwright_provider::catalogue::Catalogue::load(&ring).is_ok());
    let nothing: BTreeMap<_, _> =
        serde_json::from_value(json!({"a": {"like": "gpt-5.55"}})).unwrap();
    let err = patchwright_provider::catalogue::Catalogue::load(&nothing).unwrap_err().to_string();
    assert!(
        err.contains("`models.a.like` names an unknown model")
            && err.contains("did you mean `gpt-5.5`?"),
        "{err}"
    );
}

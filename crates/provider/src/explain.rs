//! What to change when an endpoint refuses a request: from what it said, and from what was sent where,
//! to the one setting that is meant.

use secrecy::ExposeSecret;

use super::catalogue::Model;
use super::endpoint::{Endpoint, KeyOwner, Route};
use super::item::Wire;
use super::retry;
use super::wire;
use super::wire::fault::{Fault, FaultKind};
use patchwright_base::{proxies, roots};

mod refusals;

/// The next step for a person; `None` where the kind of fault says it all.
pub(super) fn hint(at: &Endpoint, model: &Model, fault: &Fault) -> Option<String> {
    let said = fault.message.to_ascii_lowercase();
    match fault.kind {
        // The API answers in JSON. A page comes from something on the way to it.
        FaultKind::Authentication if said.contains(HTML_PAGE_IN_SMALL) => Some(BLOCKED.to_owned()),
        FaultKind::Authentication => Some(authentication(at, model)),
        FaultKind::SignIn => at.identity().map(|identity| identity.hint()),
        // Google answers 400 for an invalid key.
        FaultKind::Rejected(400) if said.contains("api key not valid") => {
            Some(authentication(at, model))
        }
        FaultKind::Untrusted => Some(roots::TRUST.to_owned()),
        FaultKind::Rejected(status) => {
            let known = || wrong_wire(model, &said).or_else(|| at_cloud(model, &said));
            known().or_else(|| refusals::setting(model, &said)).or_else(|| match status {
                404 | 405 => Some(not_found(at, model, &said)),
                400 | 422 => field(model, &said),
                _ => None,
            })
        }
        FaultKind::Malformed => base_mistake(at, model.wire),
        FaultKind::Unavailable => fault.wait.map(|wait| {
            let wait = retry::spoken(wait);
            format!("run it again in {wait}; the run continues where it stopped")
        }),
        FaultKind::ProxyUnreachable => Some(format!(
            "{}; then run it again, the run continues where it stopped",
            proxies::AWAY
        )),
        FaultKind::Unreachable if at.owner().is_none() => Some(format!(
            "check that a server runs at `{}`, or name another one with `--base-url`; then run it \
                 again, the run continues where it stopped",
            at.display_url()
        )),
        _ => None,
    }
}

/// [`wire::fault::HTML_PAGE`] as it is compared.
const HTML_PAGE_IN_SMALL: &str = "an html page";

const BLOCKED: &str = "a page is no answer of the API: a proxy or firewall on the way refuses the request; check \
     `HTTPS_PROXY`, what the network lets through, and the base URL";

/// 401 and 403: whose key was sent.
fn authentication(at: &Endpoint, model: &Model) -> String {
    let slug = &model.slug;
    if let Some(identity) = at.identity() {
        return format!("it was asked with {}: {}", identity.name(), identity.hint());
    }
    let Some(key) = at.key() else {
        return "no key was sent: set the provider's variable, or `PATCHWRIGHT_API_KEY`".to_owned();
    };
    let name = key.name;
    let maker = at.owner().or(match model.provider.as_str() {
        "openai" => Some(KeyOwner::OpenAi),
        "anthropic" => Some(KeyOwner::Anthropic),
        "google" => Some(KeyOwner::Google),
        _ => None,
    });
    match (KeyOwner::of_key(key.value.expose_secret()), maker) {
        (Some(issuer), Some(maker)) if issuer != maker => format!(
            "`{name}` holds a key of {}, and `{slug}` is a model of {}: set it to the right key",
            issuer.name(),
            maker.name()
        ),
        _ if at.route() == &Route::Publishers => format!(
            "make a new access token for `{name}`: they end after an hour; its account needs the role \
             Vertex AI User in the project"
        ),
        _ => format!(
            "check that `{name}` holds a key for this endpoint, that it is still valid, and that it may \
             use `{slug}`"
        ),
    }
}

/// A model that answers only on the Responses wire.
fn wrong_wire(model: &Model, said: &str) -> Option<String> {
    let is_about_chat = model.wire == Wire::Chat
        && ["only supported in v1/responses", "not a chat model", "use the responses api"]
            .iter()
            .any(|words| said.contains(words));
    is_about_chat.then(|| {
        let slug = &model.slug;
        format!("ask it on the `responses` wire: `--wire responses`, or `openai/{slug}` instead of `chat/{slug}`")
    })
}

/// What the clouds say about names that are not theirs.
fn at_cloud(model: &Model, said: &str) -> Option<String> {
    let slug = &model.slug;
    let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
    match model.provider.as_str() {
        "azure" if says(&["deployment", "resource not found"]) => Some(format!(
            "`{slug}` has to be the name of a deployment of the resource in `AZURE_OPENAI_ENDPOINT`; \
             `OPENAI_API_VERSION` is unset for the v1 API"
        )),
        "bedrock" if says(&["on-demand throughput", "inference profile"]) => Some(format!(
            "ask for an inference profile: `bedrock/us.{slug}` or `bedrock/global.{slug}`"
        )),
        "bedrock" if says(&["on this route"]) => Some(
            "name the model's route with `--base-url`: \
             `https://bedrock-mantle.REGION.api.aws/v1` or `…/openai/v1`"
                .to_owned(),
        ),
        "bedrock" if says(&["model identifier", "not supported", "model not found"]) => {
            Some(format!("check that `{slug}` is a model of the region in `AWS_REGION`"))
        }
        "vertex" if says(&["publisher model", "was not found"]) => Some(format!(
            "check that `{slug}` is offered in `GOOGLE_CLOUD_LOCATION` to the project in \
             `GOOGLE_CLOUD_PROJECT`"
        )),
        _ => None,
    }
}

/// 404: the model, or the address.
fn not_found(at: &Endpoint, model: &Model, said: &str) -> String {
    let slug = &model.slug;
    let is_the_model = said.contains(&slug.to_ascii_lowercase())
        || said.contains("model_not_found")
        || (said.contains("model") && said.contains("not exist"));
    if let Some(known) = &model.did_you_mean {
        return format!("did you mean `--model {known}`? `{slug}` is not in the catalogue");
    }
    if !is_the_model && let Some(mistake) = base_mistake(at, model.wire) {
        return mistake;
    }
    // In the words of Ollama, and of nobody else who is known.
    if said.contains(&format!("model '{}' not found", slug.to_ascii_lowercase())) {
        return format!("if the server is Ollama, `ollama pull {slug}` fetches the model");
    }
    if is_the_model {
        return match &model.ends {
            Some(ends) => format!("choose another `--model`: `{slug}` ends on {ends}"),
            None => format!("check `--model`: is `{slug}` offered there, and may the key use it?"),
        };
    }
    "check the base URL in `--base-url` and the model's name in `--model`".to_owned()
}

/// What is wrong with a base URL, by its looks.
fn base_mistake(at: &Endpoint, wire: Wire) -> Option<String> {
    if at.route() != &Route::Wire {
        return None;
    }
    let shown = at.display_url();
    let path = shown.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    let path = path.map(|(_, path)| path).unwrap_or_default();
    for tail in ["/responses", "/chat/completions", "/messages"] {
        if let Some(base) = shown.strip_suffix(tail) {
            return Some(format!("leave `{tail}` out of the base URL, it is added: `{base}`"));
        }
    }
    let segments: Vec<&str> = path.split('/').collect();
    if segments.windows(2).any(|pair| pair[0] == pair[1] && is_version(pair[0])) {
        let twice =
            segments.iter().find(|segment| is_version(segment)).copied().unwrap_or_default();
        let once = shown.replacen(&format!("/{twice}/{twice}"), &format!("/{twice}"), 1);
        return Some(format!("the base URL has `/{twice}` twice: write `{once}`"));
    }
    let version = segments.iter().rev().find(|segment| is_version(segment)).copied();
    match (wire, version) {
        (Wire::Responses | Wire::Chat, None) => {
            Some(format!("the base URL has no `/v1`: try `{shown}/v1`"))
        }
        (Wire::Messages | Wire::Gemini, Some(version)) if path.ends_with(version) => {
            let base = shown.strip_suffix(version).unwrap_or(&shown).trim_end_matches('/');
            let word = wire::word(wire);
            Some(format!(
                "the base URL of the `{word}` wire ends before the version: write `{base}`"
            ))
        }
        _ => None,
    }
}

/// `v1`, `v1beta`.
fn is_version(segment: &str) -> bool {
    let mut chars = segment.chars();
    chars.next() == Some('v') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Words of a refused field, and the setting that it comes from.
const FIELDS: &[(&[&str], &str)] = &[
    (&["effort", "thinking"], "change or leave out `--effort`"),
    (
        &["max_output_tokens", "max_completion_tokens", "max_tokens", "maxoutputtokens"],
        "set `models.NAME.max-output` in the configuration to what the model can do",
    ),
    (&["verbosity"], "set `models.NAME.verbosity` in the configuration"),
    (&["reasoning.summary"], "set `models.NAME.reasoning-summary` in the configuration"),
    (&["parallel_tool_calls"], "set `models.NAME.parallel-calls: false` in the configuration"),
    (
        &[
            "tools[",
            "tools.",
            "`tools",
            // Not `tool_` alone: the paths of Anthropic's `tool_result` and `tool_use` are of the conversation.
            "tool_choice",
            "tool_config",
            "function_declarations",
            "functiondeclarations",
            "schema for function",
        ],
        "a tool declaration is refused: `patchwright tools --model NAME` prints them, `--profile generic` \
         sends plain functions, and `models.NAME.strict: false` leaves out strict schemas",
    ),
    (&["`model`", "model:"], "check `--model`"),
];

fn field(model: &Model, said: &str) -> Option<String> {
    let (_, setting) =
        FIELDS.iter().find(|(words, _)| words.iter().any(|word| said.contains(word)))?;
    Some(setting.replace("NAME", &model.slug))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::catalogue::Catalogue;
    use crate::endpoint::{Endpoint, Route};
    use crate::explain::hint;
    use crate::wire::fault::{Fault, FaultKind, HTML_PAGE};

    fn told(kind: FaultKind, message: &str) -> String {
        let at = Endpoint::new("https://models.example/v1", Route::Wire, None).unwrap();
        let models = Catalogue::load(&BTreeMap::new()).unwrap();
        let model = models.resolve("claude-sonnet-5", None).unwrap();
        hint(&at, &model, &Fault::new(kind, message)).unwrap_or_default()
    }

    #[test]
    fn a_part_of_the_conversation_is_not_taken_for_a_declaration() {
        let declaration = "a tool declaration is refused";
        for message in
            ["tools.0.input_schema: no", "tool_choice: no", "Unknown name \"tool_config\""]
        {
            let hint = told(FaultKind::Rejected(400), message);
            assert!(hint.starts_with(declaration), "{message}: {hint}");
        }
        for message in
            ["messages.2.content.0.tool_result.content: no", "`tool_use` ids must be unique"]
        {
            assert_eq!(told(FaultKind::Rejected(400), message), "", "{message}");
        }
    }

    #[test]
    fn a_page_that_refuses_is_not_the_keys_fault() {
        let hint = told(FaultKind::Authentication, HTML_PAGE);
        assert!(hint.contains("a proxy or firewall") && !hint.contains("key"), "{hint}");
        assert!(told(FaultKind::Authentication, "no").contains("no key was sent"));
    }
}

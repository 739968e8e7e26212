//! Who offers models: the companies that make them, and the clouds that offer other companies' models
//! under names of their own.

use crate::item::Wire;

/// A word before the slash in `--model PROVIDER/NAME`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Provider {
    pub(super) name: &'static str,
    /// What an unknown name there is taken for.
    pub(super) family: &'static str,
    /// The wire when neither flag nor override says another; `None` for the model's own.
    pub(super) wire: Option<Wire>,
    /// It offers only models that it makes.
    pub(super) is_maker: bool,
}

const fn maker(name: &'static str, family: &'static str) -> Provider {
    Provider { name, family, wire: None, is_maker: true }
}

const fn cloud(name: &'static str, family: &'static str) -> Provider {
    Provider { name, family, wire: None, is_maker: false }
}

/// All of them.
pub(super) const PROVIDERS: &[Provider] = &[
    maker("openai", "gpt"),
    maker("anthropic", "claude"),
    maker("google", "gemini"),
    Provider { name: "chat", family: "chat", wire: Some(Wire::Chat), is_maker: false },
    cloud("azure", "gpt"),
    cloud("bedrock", "chat"),
    cloud("vertex", "chat"),
];

/// The provider by its word; `gemini` is another word for `google`.
pub(super) fn provider(word: &str) -> Option<&'static Provider> {
    let word = if word == "gemini" { "google" } else { word };
    PROVIDERS.iter().find(|provider| provider.name == word)
}

/// The maker's name of a model in a provider's name of it.
///
/// Bedrock: `us.anthropic.claude-opus-5`, `openai.gpt-oss-120b-1:0`, an ARN that ends in such a name.
/// Vertex: `claude-sonnet-4-5@20250929`. The names of the others are the makers', or are free.
pub(super) fn makers_name<'a>(provider: &str, name: &'a str) -> &'a str {
    match provider {
        "bedrock" => from_bedrock(name),
        "vertex" => name.split('@').next().unwrap_or(name),
        _ => name,
    }
}

/// Prefixes of inference profiles, which say where a request may be computed.
const PROFILES: &[&str] = &["us-gov.", "us.", "eu.", "apac.", "jp.", "au.", "ca.", "global."];

fn from_bedrock(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = PROFILES.iter().find_map(|profile| name.strip_prefix(profile)).unwrap_or(name);
    let makers = ["openai.", "anthropic."];
    let name = makers.iter().find_map(|maker| name.strip_prefix(maker)).unwrap_or(name);
    match name.rsplit_once('-') {
        Some((head, tail)) if is_version(tail) => head,
        _ => name,
    }
}

/// `v1`, `v1:0`, `1:0`.
fn is_version(tail: &str) -> bool {
    let digits = tail.strip_prefix('v').unwrap_or(tail);
    let mut parts = digits.split(':');
    let are_digits = parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    are_digits && (tail.starts_with('v') || tail.contains(':'))
}

/// A dated snapshot without its date: `gpt-5.5-2026-04-23`, `claude-haiku-4-5-20251001`. `None` for a
/// name without a date.
pub(super) fn without_date(name: &str) -> Option<&str> {
    let is_number =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    let (head, last) = name.rsplit_once('-')?;
    if is_number(last, 8) && last.starts_with("20") {
        return Some(head);
    }
    let (head, month) = head.rsplit_once('-')?;
    let (head, year) = head.rsplit_once('-')?;
    let is_date = is_number(last, 2) && is_number(month, 2) && is_number(year, 4);
    (is_date && year.starts_with("20")).then_some(head)
}

//! Keys of well-known services, whoever they belong to: they would have to be revoked the moment they are published.
//!
//! The formats are those that the vendors document for their secret scanning; what is made to be an
//! example (few different characters, `EXAMPLE`, `xxxx`) is not a key. The policy refuses a change with one
//! ([`find_keys`]); the forge replaces each in whatever is posted ([`without_keys`]). What a model sees, and what is
//! committed, is never changed here.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use memchr::memmem::Finder;
use regex::{Match, Regex};

use super::unescaped::Unescaped;

/// One key format.
#[derive(Clone, Copy, Debug)]
pub struct KeyFormat {
    /// The part of the rule id after `secret.`.
    pub id: &'static str,
    /// A literal that every match contains; texts without it are not searched.
    keyword: &'static str,
    /// The whole match, or its first group, is the key.
    pattern: &'static str,
}

const fn key(id: &'static str, keyword: &'static str, pattern: &'static str) -> KeyFormat {
    KeyFormat { id, keyword, pattern }
}

/// The known key formats.
pub const KEY_FORMATS: &[KeyFormat] = &[
    key("aws-access-key", "A", r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b"),
    key(
        "aws-secret-key",
        "aws",
        r#"(?i)aws[\w.-]{0,20}secret[\w.-]{0,20}['"]?\s*[:=]\s*['"]?([A-Za-z0-9/+]{40})\b"#,
    ),
    key("github-token", "gh", r"\b(gh[pousr]_[A-Za-z0-9]{36,251})\b"),
    key("github-pat", "github_pat_", r"\b(github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
    key("gitlab-token", "gl", r"\b(gl(?:pat|ptt|rt|dt|ft|soat|agent|cbt)-[A-Za-z0-9_.-]{20,})"),
    key("openai-key", "T3BlbkFJ", r"\b(sk-[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,})"),
    key("openai-project-key", "sk-", r"\b(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,})"),
    key("anthropic-key", "sk-ant-", r"\b(sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{80,})"),
    key("openrouter-key", "sk-or-", r"\b(sk-or-v1-[0-9a-f]{64})\b"),
    key("google-api-key", "AIza", r"\b(AIza[A-Za-z0-9_-]{35})"),
    key("google-oauth-secret", "GOCSPX-", r"\b(GOCSPX-[A-Za-z0-9_-]{28})"),
    key("google-oauth-token", "ya29.", r"\b(ya29\.[A-Za-z0-9_-]{30,})"),
    key("slack-token", "xox", r"\b(xox[abeprs]-(?:[0-9A-Za-z]+-){1,4}[A-Za-z0-9]{16,})\b"),
    key("slack-app-token", "xapp-", r"\b(xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{32,})\b"),
    key(
        "slack-webhook",
        "hooks.slack.com",
        r"(https://hooks\.slack\.com/(?:services|workflows)/T[A-Za-z0-9]+/[A-Za-z0-9/]{20,})",
    ),
    key(
        "discord-webhook",
        "/api/webhooks/",
        r"(https://discord(?:app)?\.com/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,})",
    ),
    key("telegram-token", ":AA", r"\b(\d{8,10}:AA[A-Za-z0-9_-]{33})\b"),
    key("stripe-key", "_live_", r"\b((?:sk|rk)_live_[A-Za-z0-9]{24,})\b"),
    key("stripe-webhook", "whsec_", r"\b(whsec_[A-Za-z0-9+/]{32,})"),
    key("npm-token", "npm_", r"\b(npm_[A-Za-z0-9]{36})\b"),
    key("pypi-token", "pypi-", r"\b(pypi-AgE[A-Za-z0-9_-]{60,})"),
    key("crates-token", "cio", r"\b(cio[A-Za-z0-9]{32})\b"),
    key("rubygems-token", "rubygems_", r"\b(rubygems_[0-9a-f]{48})\b"),
    key("docker-token", "dckr_", r"\b(dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,})"),
    key("sendgrid-key", "SG.", r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})"),
    key("mailgun-key", "key-", r"\b(key-[0-9a-f]{32})\b"),
    key("twilio-key", "SK", r"\b(SK[0-9a-f]{32})\b"),
    key("shopify-token", "shp", r"\b(shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32})\b"),
    key("digitalocean-token", "_v1_", r"\b(do[opr]_v1_[0-9a-f]{64})\b"),
    key("huggingface-token", "hf_", r"\b(hf_[A-Za-z0-9]{34,})\b"),
    key("databricks-token", "dapi", r"\b(dapi[0-9a-f]{32}(?:-\d)?)\b"),
    key("atlassian-token", "ATATT3", r"\b(ATATT3[A-Za-z0-9_=-]{180,})"),
    key("linear-key", "lin_api_", r"\b(lin_api_[A-Za-z0-9]{40})\b"),
    key("vault-token", "hvs.", r"\b(hvs\.[A-Za-z0-9_-]{90,})"),
    key("age-key", "AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})"),
    key("azure-storage-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    key("azure-client-secret", "Q~", r"\b([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})\b"),
    key(
        "google-service-account",
        "private_key",
        r#""private_key"\s*:\s*"-----BEGIN PRIVATE KEY-----(\\n[A-Za-z0-9+/=\\]{60,})"#,
    ),
    key(
        "private-key",
        "PRIVATE KEY",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\\n]+(?:[A-Za-z-]+: [^\n]*\n)*\s*([A-Za-z0-9+/=]{40,})",
    ),
    key("jwt", "eyJ", r"\b(eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{27,})"),
    key(
        "url-password",
        "://",
        r"\b(?:https?|ftp|postgres(?:ql)?|mysql|mongodb(?:\+srv)?|redis|amqps?)://[^\s:/@'\x22<>{}$]{1,64}:([^\s:/@'\x22<>{}$]{12,})@",
    ),
];

/// What stands in place of a key.
const REPLACED: &str = "***";
/// How a private key ends.
const END: &str = "-----END";

/// The first key of each format, with its offset.
pub fn find_keys(text: &str) -> Vec<(&'static KeyFormat, usize)> {
    let first = |format: &'static KeyFormat, regex: &Regex| {
        keys_in(regex, text).next().map(|key| (format, key.start()))
    };
    present(text).filter_map(|(format, regex)| first(format, regex)).collect()
}

/// The formats of the keys in a text, as it stands or, if there are none, as a reader of Markdown sees it.
pub fn formats_in(text: &str) -> Vec<&'static KeyFormat> {
    let formats = |found: Vec<(&'static KeyFormat, usize)>| {
        found.into_iter().map(|(format, _)| format).collect::<Vec<_>>()
    };
    match find_keys(text) {
        found if found.is_empty() => formats(find_keys(&Unescaped::words(text))),
        found => formats(found),
    }
}

/// Whether a key is in it.
pub fn has_keys(text: &str) -> bool {
    !formats_in(text).is_empty()
}

/// The text with `***` in place of every key, also of those that Markdown or HTML has escaped (`ghp\_…`) or that
/// stand in a quotation.
pub fn without_keys(text: &str) -> String {
    let mut found = spans(text);
    // Most texts have none, and need no list of places.
    if !find_keys(&Unescaped::words(text)).is_empty() {
        let unescaped = Unescaped::of(text);
        found.extend(spans(&unescaped.text).into_iter().map(|span| unescaped.source(&span)));
    }
    if found.is_empty() {
        return text.to_owned();
    }
    found.sort_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in found {
        if span.end <= done {
            continue;
        }
        if span.start >= done {
            out.push_str(text.get(done..span.start).unwrap_or_default());
            out.push_str(REPLACED);
        }
        done = span.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// The formats that may be in a text.
fn present(text: &str) -> impl Iterator<Item = (&'static KeyFormat, &'static Regex)> {
    static COMPILED: [OnceLock<Option<Regex>>; KEY_FORMATS.len()] =
        [const { OnceLock::new() }; KEY_FORMATS.len()];
    // A substring search, prepared once, is far cheaper than 40 regular expressions on each text.
    static KEYWORDS: LazyLock<Vec<Finder<'static>>> =
        LazyLock::new(|| KEY_FORMATS.iter().map(|format| Finder::new(format.keyword)).collect());
    let formats = KEY_FORMATS.iter().zip(&COMPILED).zip(&*KEYWORDS);
    let formats = formats.filter(|(_, keyword)| keyword.find(text.as_bytes()).is_some());
    formats.filter_map(|((format, compiled), _)| {
        let regex = compiled.get_or_init(|| Regex::new(format.pattern).ok()).as_ref()?;
        Some((format, regex))
    })
}

fn keys_in<'t>(regex: &'t Regex, text: &'t str) -> impl Iterator<Item = Match<'t>> {
    let keys = regex.captures_iter(text).filter_map(|captures| captures.get(1));
    keys.filter(|key| !is_placeholder(key.as_str()))
}

/// Where keys stand, each to its end.
fn spans(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (format, regex) in present(text) {
        let is_block = matches!(format.id, "private-key" | "google-service-account");
        found.extend(keys_in(regex, text).map(|key| {
            let more = if is_block { rest_of_block(&text[key.end()..]) } else { 0 };
            key.start()..key.end() + more
        }));
    }
    found
}

/// Bytes of a private key after its first line.
fn rest_of_block(rest: &str) -> usize {
    match rest.find(END) {
        Some(at) if !rest[..at].contains("-----BEGIN") => rest[..at].trim_end().len(),
        // Its end was cut off: what looks like lines of it.
        _ => {
            let is_part = |word: &&str| {
                let letters = |b: u8| b.is_ascii_alphanumeric() || b"+/=\\".contains(&b);
                (word.len() >= 40 || word.ends_with('=')) && word.bytes().all(letters)
            };
            let last = rest.split_whitespace().take_while(is_part).last();
            last.map_or(0, |word| word.as_ptr().addr() + word.len() - rest.as_ptr().addr())
        }
    }
}

/// Made to be shown: says so, repeats itself, or counts.
fn is_placeholder(key: &str) -> bool {
    const WORDS: &[&str] =
        &["example", "xxxx", "....", "placeholder", "redacted", "changeme", "your", "dummy"];
    const RUNS: &[&str] = &["0123456789", "1234567890", "abcdefghij", "ABCDEFGHIJ", "qwertyuiop"];
    let lower = key.to_ascii_lowercase();
    // The fixed prefix of a format would raise the entropy of `ghp_aaaa…`.
    let body = key.rsplit_once(['_', '-']).map_or(key, |(_, body)| body);
    let body = if body.len() < 12 { key } else { body };
    WORDS.iter().any(|word| lower.contains(word))
        || RUNS.iter().any(|run| key.contains(run))
        || entropy(body) < 2.5
}

/// Shannon entropy in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let part = |count: u32| f64::from(count) / total;
    counts.iter().filter(|c| **c > 0).map(|c| -part(*c) * part(*c).log2()).sum()
}

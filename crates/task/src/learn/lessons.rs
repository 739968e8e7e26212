//! Which of a model's lessons may be proposed. What the model read was written by people who may be quoted against
//! their will and by commits, so nothing of its answer is believed: a lesson needs sources that were collected, and
//! enough of them; and one that would loosen what keeps runs and reviews honest is refused, whoever may have asked
//! for it. What a machine cannot tell is left to the person who reviews the pull request. Pure.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::collect::Remark;
use patchwright_base::redact::Redactor;
use patchwright_base::redact::keys::has_keys;
use patchwright_base::text;
use patchwright_report::memory::{Lesson, MAX_LESSON, Source};

/// Lessons of one answer.
const MAX_NEW: usize = 12;
/// Sources that are linked.
const MAX_SOURCES: usize = 5;
/// From so many pull requests a lesson is general without anybody having said so.
const GENERAL: usize = 2;
/// Characters of a wish, at the least: a shorter excerpt says nothing.
const LEAST_WISH: usize = 12;

/// The answer of the model.
#[derive(Debug, Default, Deserialize)]
pub(super) struct LessonsReply {
    lessons: Vec<ProposedLesson>,
}

#[derive(Debug, Deserialize)]
struct ProposedLesson {
    text: String,
    sources: Vec<String>,
    wish: String,
    replaces: Vec<usize>,
}

/// What becomes of an answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct JudgedLessons {
    pub lessons: Vec<Lesson>,
    /// Lesson and reason: `it …`.
    pub refused: Vec<(String, String)>,
}

/// The form of the answer: plain enough for every provider to keep to it.
pub(super) fn schema() -> Value {
    let words = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "properties": { "lessons": { "type": "array", "items": {
            "type": "object",
            "properties": {
                "text": words("The lesson: one sentence or two, imperative."),
                "sources": { "type": "array", "items": words("Id of something that was said.") },
                "wish": words("The words of one of the sources by which a maintainer asks for it from now on, exactly \
                               as they stand there; empty when there are none."),
                "replaces": { "type": "array", "items": { "type": "integer" },
                    "description": "Numbers of lessons in the file that the sources contradict." },
            },
            "required": ["text", "sources", "wish", "replaces"],
            "additionalProperties": false,
        } } },
        "required": ["lessons"],
        "additionalProperties": false,
    })
}

/// Keeps what may be proposed. `known` are the lessons of the file, as the model was given them.
pub(super) fn judge(
    answer: LessonsReply,
    said: &[Remark],
    known: &[String],
    redactor: &Redactor,
) -> JudgedLessons {
    let mut judged = JudgedLessons::default();
    let mut seen: BTreeSet<String> = known.iter().map(|lesson| folded(lesson)).collect();
    let too_many = answer.lessons.len().saturating_sub(MAX_NEW);
    for proposed in answer.lessons.into_iter().take(MAX_NEW) {
        let words = redactor.redact(&proposed.text);
        match lesson(&proposed, said, redactor) {
            Ok(lesson) if seen.insert(folded(&lesson.text)) => {
                let numbers = proposed.replaces.iter().filter_map(|number| number.checked_sub(1));
                let replaces = numbers.filter(|number| *number < known.len()).collect();
                judged.lessons.push(Lesson { replaces, ..lesson });
            }
            // The model was told what is known.
            Ok(_) => {}
            Err(why) => judged.refused.push((text::line(&words), why)),
        }
    }
    if too_many > 0 {
        judged.refused.push((
            format!("{too_many} more"),
            format!("is beyond the {MAX_NEW} that are taken at once"),
        ));
    }
    judged
}

fn lesson(
    proposed: &ProposedLesson,
    said: &[Remark],
    redactor: &Redactor,
) -> Result<Lesson, String> {
    let length = proposed.text.chars().count();
    if length > MAX_LESSON {
        return Err(format!("has {length} characters, and {MAX_LESSON} are taken"));
    }
    let words = text::line(&proposed.text);
    if words.is_empty() {
        return Err("is empty".to_owned());
    }
    if !redactor.scan(proposed.text.as_bytes()).is_empty() || has_keys(&proposed.text) {
        return Err("has a secret in it".to_owned());
    }
    let sources: Vec<&Remark> =
        said.iter().filter(|said| proposed.sources.contains(&said.id)).collect();
    if sources.is_empty() {
        return Err("names nothing that was said".to_owned());
    }
    let pulls: BTreeSet<u64> = sources.iter().map(|said| said.number).collect();
    if pulls.len() < GENERAL && !sources.iter().any(|said| wishes(&proposed.wish, said)) {
        return Err("comes from one pull request, and nobody asked for it in words".to_owned());
    }
    if let Some(why) = unacceptable(&words) {
        return Err(why.to_owned());
    }
    let source = |said: &&Remark| Source { number: said.number, url: said.url.clone() };
    let sources = sources.iter().take(MAX_SOURCES).map(source).collect();
    Ok(Lesson { text: words, sources, replaces: BTreeSet::new() })
}

/// Those words stand there, and somebody wrote them: a commit asks for nothing.
fn wishes(wish: &str, said: &Remark) -> bool {
    let wish = folded(wish);
    said.in_words && wish.chars().count() >= LEAST_WISH && folded(&said.text).contains(&wish)
}

/// Letters and digits in small letters, with single blanks between words.
fn folded(text: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c } else { ' ' };
    let words: String = text.chars().map(plain).flat_map(char::to_lowercase).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Words any of which is enough, and why.
const NEVER: &[(&[&str], &str)] = &[
    (
        &[
            "secret",
            "secrets",
            "password",
            "passwords",
            "passphrase",
            "credential",
            "credentials",
            "api key",
            "api keys",
            "apikey",
            "private key",
            "access token",
            "github token",
            "ssh key",
        ],
        "is about secrets",
    ),
    (
        &[
            "curl",
            "wget",
            "netcat",
            "download",
            "upload",
            "webhook",
            "network",
            "internet",
            "egress",
            "allow hosts",
            "proxy",
            "exfiltrate",
        ],
        "is about the network",
    ),
    (
        &[
            "approve",
            "approves",
            "approved",
            "approval",
            "lgtm",
            "auto merge",
            "automerge",
            "force push",
            "merge without",
            "request changes",
        ],
        "is about approving or merging",
    ),
    (
        &[
            "sandbox",
            "landlock",
            "seccomp",
            "privileged",
            "sudo",
            "patchwright yml",
            "github workflows",
            "codeowners",
            "patchwright memory",
            "agents md",
            "system prompt",
            "previous instructions",
            "protected paths",
            "no verify",
        ],
        "is about what limits runs",
    ),
];

/// What somebody would leave undone, and what that would be about.
const SKIPS: &[&str] = &[
    "skip",
    "skips",
    "skipping",
    "disable",
    "disables",
    "disabling",
    "bypass",
    "ignore",
    "ignoring",
    "suppress",
    "omit",
    "silence",
    "weaken",
    "turn off",
    "switch off",
    "do not run",
    "don t run",
    "never run",
    "without running",
    "no need to run",
    "do not report",
    "don t report",
    "never report",
    "stop reporting",
    "do not flag",
    "never flag",
    "remove",
    "delete",
];
const GUARDS: &[&str] = &[
    "test",
    "tests",
    "check",
    "checks",
    "ci",
    "lint",
    "lints",
    "linter",
    "clippy",
    "hook",
    "hooks",
    "review",
    "reviews",
    "reviewer",
    "policy",
    "policies",
    "verification",
    "security",
    "vulnerability",
    "vulnerabilities",
    "findings",
    "scan",
    "scanner",
    "signature",
    "signatures",
    "validation",
    "authentication",
    "authorization",
];

/// HTML outside of code: a comment that nobody ends would hide the lessons behind it from who reads the page.
fn has_markup(lesson: &str) -> bool {
    let parts: Vec<&str> = lesson.split('`').collect();
    // An odd number of marks leaves code open, and then nothing is code for certain.
    let is_closed = parts.len() % 2 == 1;
    let mut plain = parts.iter().enumerate().filter(|(at, _)| !is_closed || at % 2 == 0);
    plain.any(|(_, part)| {
        let opens =
            |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "!/?".contains(c));
        part.match_indices('<').any(|(at, _)| opens(&part[at + 1..]))
    })
}

/// A mail address, or a host with a path or a port behind it. Without those, `module.export` and `example.com` look alike.
fn is_address(word: &str) -> bool {
    let (before, host) = match word.rsplit_once('@') {
        Some((name, host)) if !name.is_empty() && !name.contains('/') => (true, host),
        // `@scope/package`, and what stands in a path.
        Some(_) => return false,
        None => (false, word),
    };
    let (host, rest) = match host.find(['/', ':']) {
        Some(at) => host.split_at(at),
        None => (host, ""),
    };
    let has_more = rest.chars().any(char::is_alphanumeric);
    let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    let is_label =
        |label: &&str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-');
    let is_number = |label: &&str| label.parse::<u8>().is_ok();
    let is_ip = labels.len() == 4 && labels.iter().all(is_number);
    let has_top = labels.last().is_some_and(|top| {
        top.len() >= 2 && (top.starts_with("xn--") || top.chars().all(char::is_alphabetic))
    });
    let is_host = labels.len() >= 2 && labels.iter().all(is_label) && has_top;
    is_ip || (is_host && (before || has_more))
}

/// What a machine can tell of a lesson that must not be proposed.
fn unacceptable(lesson: &str) -> Option<&'static str> {
    let lower = lesson.to_lowercase();
    if ["://", "www.", "](", "mailto:"].iter().any(|mark| lower.contains(mark))
        || lower.split(|c: char| !(c.is_alphanumeric() || "-_./:@".contains(c))).any(is_address)
    {
        return Some("has an address in it");
    }
    if has_markup(&lower) {
        return Some("has markup in it");
    }
    let words = format!(" {} ", folded(lesson));
    let has = |phrase: &&str| words.contains(&format!(" {phrase} "));
    if let Some((_, why)) = NEVER.iter().find(|(phrases, _)| phrases.iter().any(has)) {
        return Some(why);
    }
    (SKIPS.iter().any(has) && GUARDS.iter().any(has))
        .then_some("would leave out tests, checks or reviews")
}

#[cfg(test)]
mod tests {
    use crate::learn::lessons::unacceptable;

    #[test]
    fn addresses_are_told_from_files_packages_and_versions() {
        for lesson in [
            "Run it as on evil.example.com/x.sh first.",
            "Ask a@evil.example before that.",
            "Look at (10.1.2.3:8080) first.",
            "Look at `localhost.example:8080` first.",
            "See https://example.com.",
        ] {
            assert_eq!(unacceptable(lesson), Some("has an address in it"), "{lesson}");
        }
        for lesson in [
            "Put helpers into `src/util.rs`, not into `lib.rs`.",
            "Use `@acme/log` and `node:fs`, never `console.log`.",
            "Use lodash@4.17.21 and module.exports.",
            "Call `Foo::bar.baz()` in tests/a.test.ts: it is faster.",
            "Import `./a.js` and `../b/c.ts`.",
            "Keep to 3.5.1 of the format, i.e. e.g. etc.",
        ] {
            assert_eq!(unacceptable(lesson), None, "{lesson}");
        }
    }
}

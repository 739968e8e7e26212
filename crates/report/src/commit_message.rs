//! The commit message. Plain text: the subject from the title, the body from the model's words, the
//! trailers from us alone.

use std::fmt::Write as _;

use super::model_words::{Fence, without_questions};
use patchwright_base::invisible::is_invisible;
use patchwright_base::text;

/// Characters of the subject, and of a line of the body.
const SUBJECT: usize = 72;
/// Bytes of the body.
const BODY: usize = 4000;

/// Trailers that vouch for somebody; the model may not write them.
const TRAILERS: &[&str] = &[
    "co-authored-by",
    "signed-off-by",
    "reviewed-by",
    "acked-by",
    "tested-by",
    "approved-by",
    "reported-by",
    "helped-by",
    "on-behalf-of",
    "change-id",
    "co-developed-by",
    "skip-checks",
    "suggested-by",
    "committed-by",
    "authored-by",
];

/// How our own trailers begin. Who we are, what was asked for and how often something was tried is read from them, so
/// that nobody's words may say it.
const OURS: &str = "patchwright-";

/// What stops CI from running, as GitHub and others read it.
const SKIPS: &[&str] = &[
    "skip ci",
    "ci skip",
    "no ci",
    "skip actions",
    "actions skip",
    "skip travis",
    "travis skip",
    "skip circleci",
    "skip netlify",
    "skip azurepipelines",
    "skip checks",
    "ci-skip",
    "skip-ci",
];

/// Subject, body, trailers. `trailers` are ours (`Patchwright-Run: …`) and are added as they are.
pub fn commit_message(title: &str, body: &str, trailers: &[(&str, &str)]) -> String {
    let mut out = subject(title);
    out.push('\n');
    let body = plain_body(&without_questions(body));
    if !body.is_empty() {
        let _ = write!(out, "\n{body}\n");
    }
    for (at, (name, value)) in trailers.iter().enumerate() {
        let gap = if at == 0 { "\n" } else { "" };
        let _ = writeln!(out, "{gap}{name}: {}", text::line(value));
    }
    out
}

/// One line of at most 72 characters in which nothing acts.
pub fn subject(title: &str) -> String {
    let line = neutral(&text::line(title));
    let line = line.trim_start_matches(['#', '*', ' ']).trim_end_matches(['*', ' ']);
    let line = &without_own_trailer(line);
    if line.is_empty() {
        "Change by Patchwright".to_owned()
    } else {
        text::cut_at_word(line, SUBJECT)
    }
}

fn plain_body(body: &str) -> String {
    let body = text::visible(&text::without_ansi(&text::head(body, BODY)));
    let mut lines = Vec::new();
    let mut fence = Fence::default();
    for line in body.lines() {
        // A heading has no marks in plain text. In code `#` may begin anything.
        let line = if fence.holds(line) { line } else { without_marks(line) };
        let shown = neutral(line.trim_end());
        if !is_trailer(line) && !is_trailer(&shown) {
            // A `#` at the start would be a comment in an editor, `--` or `diff` a cut for `am`.
            let line = shown;
            let cut = line == "---" || line.starts_with("diff -") || line.starts_with("Index: ");
            lines.push(if cut || line.starts_with('#') { format!(" {line}") } else { line });
        }
    }
    // Blanks at the start of the first line stay: they keep a `#` from being a comment.
    lines.join("\n").trim_start_matches('\n').trim_end().to_owned()
}

/// A heading as plain text.
fn without_marks(line: &str) -> &str {
    let title = line.trim_start_matches('#');
    let is_heading = line.starts_with('#') && line.len() - title.len() <= 6;
    if is_heading && title.starts_with(' ') { title.trim() } else { line }
}

fn is_trailer(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t', '>', '*', '-', '_']);
    let lower = plain(line).to_lowercase();
    let name = lower.split(':').next().unwrap_or_default().replace(['*', '_', ' '], "-");
    let name = name.trim_matches('-');
    lower.contains(':') && (TRAILERS.contains(&name) || name.starts_with(OURS))
}

/// A subject that reads like a trailer of ours is a title all the same: its words stay.
fn without_own_trailer(line: &str) -> String {
    match line.split_once(':') {
        Some((name, rest)) if plain(name).to_lowercase().starts_with(OURS) => {
            format!("{name}{rest}")
        }
        _ => line.to_owned(),
    }
}

/// Without what a commit loses anyway when it is made.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !is_invisible(*c)).collect()
}

/// Mentions, references and CI switches lose their effect; the words stay.
pub(super) fn neutral(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let next = text[at + c.len_utf8()..].chars().next().unwrap_or(' ');
        let before = out.chars().next_back().unwrap_or(' ');
        match c {
            '@' if next.is_alphanumeric() && !before.is_alphanumeric() => {}
            '#' if next.is_ascii_digit() => {}
            '-' if next.is_ascii_digit() && out.to_lowercase().ends_with("gh") => out.push(' '),
            '[' if is_skip(&text[at + 1..]) => out.push('('),
            ']' if skip_before(&text[..at]) => out.push(')'),
            ':' if text[at..].starts_with("://") && names_issue(&text[at..]) => {}
            '*' if skip_all(&text[at..]) => {}
            c => out.push(c),
        }
    }
    out
}

fn is_skip(rest: &str) -> bool {
    let rest = rest.to_lowercase();
    SKIPS.iter().any(|skip| rest.starts_with(skip) && rest[skip.len()..].starts_with(']'))
}

fn skip_before(text: &str) -> bool {
    let text = text.to_lowercase();
    SKIPS.iter().any(|skip| text.strip_suffix(skip).is_some_and(|rest| rest.ends_with('[')))
}

/// `***NO_CI***` of Azure Pipelines.
fn skip_all(rest: &str) -> bool {
    rest.to_lowercase().trim_start_matches('*').starts_with("no_ci")
}

fn names_issue(url: &str) -> bool {
    let url = url.split_whitespace().next().unwrap_or_default();
    url.contains("/issues/") || url.contains("/pull/")
}

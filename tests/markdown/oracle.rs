//! GitHub's own parser as a judge: what does a text do when `cmark-gfm` has made a page of it?
//!
//! `fuzz/targets/markdown.rs` has this file too, so it uses nothing of the test binary.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// The page that GitHub's parser makes, raw HTML included. Missing, it is a failure and no reason to
/// skip anything.
#[expect(clippy::disallowed_methods, reason = "starts the judge")]
pub(crate) fn page(markdown: &str) -> String {
    let mut command = Command::new("cmark-gfm");
    command.arg("--unsafe");
    for extension in ["autolink", "table", "strikethrough", "tasklist", "footnotes"] {
        command.args(["-e", extension]);
    }
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.expect("cmark-gfm must be there: apt-get install cmark-gfm");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = markdown.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("cmark-gfm runs");
    writer.join().expect("the writer ends").expect("cmark-gfm reads");
    assert!(output.status.success(), "cmark-gfm failed");
    String::from_utf8(output.stdout).expect("a page is UTF-8")
}

/// Between texts that are judged together. A text that does not end leaves it inside.
fn separator(at: usize) -> String {
    format!("QSEPARATORQ{at}Q")
}

/// Which of the texts do something, and what. They are parsed by one process; when that shows
/// anything, each is parsed alone to tell which it was.
pub(crate) fn judge(texts: &[String]) -> Vec<(usize, String)> {
    let mut whole = String::new();
    for (at, text) in texts.iter().enumerate() {
        whole.push_str(text);
        whole.push_str(&format!("\n\n{}\n\n", separator(at)));
    }
    let page = page(&whole);
    let is_whole = (0..texts.len()).all(|at| page.contains(&format!("<p>{}</p>", separator(at))));
    if is_whole && acts(&page).is_none() && !texts.iter().any(|text| has_marker(text)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        if let Some(what) = judge_one(text) {
            found.push((at, what));
        }
    }
    assert!(!found.is_empty(), "together they act, alone they do not: {page}");
    found
}

/// What one text does.
pub(crate) fn judge_one(text: &str) -> Option<String> {
    if has_marker(text) {
        return Some("a marker of ours".to_owned());
    }
    let page = page(&format!("{text}\n\n{}\n", separator(0)));
    if !page.trim_end().ends_with(&format!("<p>{}</p>", separator(0))) {
        return Some(format!("it does not end: {page}"));
    }
    acts(&page)
}

fn has_marker(text: &str) -> bool {
    let text = text.to_lowercase();
    ["<!-- patchwright", "<!--patchwright", "[//]: # (patchwright"]
        .iter()
        .any(|it| text.contains(it))
}

/// Tags that a passage may have, as `cmark-gfm` spells them.
const TAGS: &[&str] = &[
    "p",
    "/p",
    "strong",
    "/strong",
    "em",
    "/em",
    "del",
    "/del",
    "code",
    "/code",
    "pre",
    "/pre",
    "ul",
    "/ul",
    "ol",
    "/ol",
    "li",
    "/li",
    "blockquote",
    "/blockquote",
    "hr /",
    "br /",
    "table",
    "/table",
    "thead",
    "/thead",
    "tbody",
    "/tbody",
    "tr",
    "/tr",
    "th",
    "/th",
    "td",
    "/td",
    "/a",
    "input type=\"checkbox\" disabled=\"\" /",
    "input type=\"checkbox\" checked=\"\" disabled=\"\" /",
];

/// The first thing on a page that a passage must not do.
fn acts(page: &str) -> Option<String> {
    let mut code = 0usize;
    let mut rest = page;
    while let Some(open) = rest.find('<') {
        let (text, from) = rest.split_at(open);
        if code == 0
            && let Some(what) = notifies(text)
        {
            return Some(what);
        }
        let Some(end) = from.find('>') else { return Some("an open tag".to_owned()) };
        let tag = &from[1..end];
        match tag {
            "pre" | "code" => code += 1,
            "/pre" | "/code" => code = code.checked_sub(1)?,
            _ => {}
        }
        if let Some(language) = value(tag, "code class=\"language-") {
            code += 1;
            let drawn = ["math", "mermaid", "geojson", "topojson", "stl", "suggestion"];
            if drawn.contains(&language.to_lowercase().as_str()) || language.contains(' ') {
                return Some(format!("a drawn block: {language}"));
            }
        } else if let Some(href) = value(tag, "a href=\"") {
            if let Some(what) = link(href) {
                return Some(what);
            }
        } else if !is_plain(tag) {
            return Some(format!("<{tag}>"));
        }
        rest = &from[end + 1..];
    }
    notifies(rest)
}

fn is_plain(tag: &str) -> bool {
    let aligned = tag.split_once(" align=\"").map_or(tag, |(name, _)| name);
    let numbered = value(tag, "ol start=\"").is_some_and(|n| n.parse::<u64>().is_ok());
    TAGS.contains(&tag) || (["th", "td"].contains(&aligned)) || numbered
}

fn value<'a>(tag: &'a str, before: &str) -> Option<&'a str> {
    tag.strip_prefix(before)?.strip_suffix('"')
}

fn link(href: &str) -> Option<String> {
    let lower = href.to_lowercase();
    let lower = lower.replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    let scheme = lower.split(['/', '#', '?']).next().unwrap_or_default();
    let foreign = scheme.contains(':') && !["http:", "https:"].contains(&scheme);
    if foreign || lower.starts_with("//") {
        return Some(format!("a link to {href}"));
    }
    leads_to_thread(&lower).then(|| format!("a reference by {href}"))
}

fn leads_to_thread(url: &str) -> bool {
    ["issues/", "pull/", "discussions/"].iter().any(|part| {
        url.match_indices(part)
            .any(|(at, _)| url[at + part.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// What GitHub looks for in the text of a page, outside of code.
fn notifies(text: &str) -> Option<String> {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let text = text.replace("&amp;", "&");
    let follows = |mark: &str, is: fn(char) -> bool| {
        text.match_indices(mark).any(|(at, _)| text[at + mark.len()..].starts_with(is))
    };
    let digit = |c: char| c.is_ascii_digit();
    let leads = |mark: &str, is_one: fn(&str) -> bool| {
        text.match_indices(mark)
            .any(|(at, _)| is_one(&text[..at]) && leads_to_thread(word(&text[at..])))
    };
    let found = if follows("@", char::is_alphanumeric) {
        "a mention"
    } else if follows("#", digit) || follows("GH-", digit) || follows("gh-", digit) {
        "a reference"
    } else if leads("://", |before| before.ends_with(char::is_alphanumeric))
        || leads("www.", |_| true)
    {
        "an address of a thread"
    } else {
        return None;
    };
    Some(format!("{found} in {text:?}"))
}

fn word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

//! A passage that somebody else wrote in Markdown, fit to stand in a report of ours: its lists,
//! emphasis, code and links stay; what would act on people, issues or browsers does not.
//!
//! HTML becomes text, pictures are not loaded, mentions and references notify nobody, headings are
//! bold lines (a passage cannot imitate our sections), code blocks are closed. The last line always
//! ends.

use super::text;

/// The passage, safe in a report, at most `most` bytes.
pub fn passage(markdown: &str, most: usize) -> String {
    let markdown = text::visible(&text::without_ansi(&text::head(markdown, most)));
    let mut out = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((mark, length, info)) = fence_opening(line) else {
            prose(line, &mut out);
            out.push('\n');
            continue;
        };
        let mut body = String::new();
        for line in lines.by_ref() {
            let end = line.trim();
            if end.len() >= length && end.chars().all(|c| c == mark) {
                break;
            }
            body.push_str(line);
            body.push('\n');
        }
        // At column 0 after a blank line a fence is a fence, whatever stood around it.
        out.push('\n');
        out.push_str(&text::fence(&body, &info));
    }
    out
}

/// A sentence of our own that names things, in one line: its code spans are code, and the rest is text
/// without any effect.
pub fn sentence(text: &str) -> String {
    let line = text::line(text);
    let (mut out, mut rest) = (String::new(), line.as_str());
    while let Some(at) = rest.find('`') {
        out.push_str(&text::escape(&rest[..at]));
        rest = &rest[at..];
        let length = if let Some(length) = code_span(rest) {
            out.push_str(&rest[..length]);
            length
        } else {
            let run = rest.len() - rest.trim_start_matches('`').len();
            out.push_str(&"\\`".repeat(run));
            run
        };
        rest = &rest[length..];
    }
    out + &text::escape(rest)
}

/// Backticks or tildes, however far in, behind quote and list marks.
fn fence_opening(line: &str) -> Option<(char, usize, String)> {
    let line = line.trim_start_matches([' ', '\t', '>']);
    let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line);
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    if length < 3 || (mark == '`' && info.contains('`')) {
        return None;
    }
    let is_word = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#');
    let info: String = info.trim().chars().take_while(is_word).take(20).collect();
    // These would be drawn, not shown.
    let drawn = ["math", "mermaid", "geojson", "topojson", "stl", "suggestion"];
    let info = if drawn.contains(&info.to_lowercase().as_str()) { String::new() } else { info };
    Some((mark, length, info))
}

fn prose(line: &str, out: &mut String) {
    let content = line.trim_start();
    let indent = &line[..line.len() - content.len()];
    out.push_str(indent);
    let heading = content.trim_start_matches('#');
    let marks = content.len() - heading.len();
    if (1..=6).contains(&marks) && (heading.is_empty() || heading.starts_with([' ', '\t'])) {
        let words = heading.trim().trim_end_matches('#').trim().replace("**", "");
        if !words.is_empty() {
            out.push_str("**");
            inline(&words, out);
            out.push_str("**");
        }
        return;
    }
    let underlines = |c: char| !content.is_empty() && content.trim_end().chars().all(|d| d == c);
    let defines = content.starts_with('[') && content.contains("]:");
    if underlines('=') || underlines('-') || defines {
        out.push('\\');
    }
    inline(content, out);
}

/// Text inside a line. Code spans that close stay as they are.
fn inline(line: &str, out: &mut String) {
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        let c = rest.chars().next().unwrap_or(' ');
        let next = rest[c.len_utf8()..].chars().next().unwrap_or(' ');
        at += c.len_utf8();
        match c {
            '`' => {
                let run = rest.len() - rest.trim_start_matches('`').len();
                if let Some(length) = code_span(rest) {
                    out.push_str(&rest[..length]);
                    at += length - 1;
                } else {
                    out.push_str(&"\\`".repeat(run));
                    at += run - 1;
                }
            }
            '\\' if next.is_ascii_punctuation() => match next {
                // Escapes of what we escape ourselves are taken apart, so none can be undone.
                '<' | '>' | '&' | '@' | '#' | '$' | '[' | ']' | '!' | '`' => out.push_str("\\\\"),
                _ => out.push('\\'),
            },
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '>' if !line[..at].trim_start_matches([' ', '>']).is_empty() => out.push_str("&gt;"),
            '$' => out.push_str("\\$"),
            '~' if rest.starts_with("~~~") => out.push_str("\\~"),
            '!' if next == '[' => out.push_str("!\\"),
            '@' if next.is_alphanumeric() => out.push_str("@&#8203;"),
            '#' if next.is_ascii_digit() => out.push_str("#&#8203;"),
            '-' if next.is_ascii_digit() && line[..at - 1].to_lowercase().ends_with("gh") => {
                out.push_str("&#8203;-");
            }
            ':' if rest.starts_with("://") && names_thread(rest) => out.push_str("&#8203;:"),
            ']' if next == '(' => {
                out.push(']');
                if !is_harmless(&rest[2..]) {
                    out.push('\\');
                }
            }
            c => out.push(c),
        }
    }
}

/// Length of a code span at the start of `rest`, if it closes.
fn code_span(rest: &str) -> Option<usize> {
    let run = rest.len() - rest.trim_start_matches('`').len();
    let mut at = run;
    while let Some(next) = rest[at..].find('`') {
        let start = at + next;
        let length = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        at = start + length;
        if length == run {
            return Some(at);
        }
    }
    None
}

/// A link's target that may be clicked: http(s) or relative, and not an issue or pull request, which
/// the link would notify or, behind `fixes`, close.
fn is_harmless(target: &str) -> bool {
    let target = target.split([')', ' ']).next().unwrap_or_default();
    let target = target.trim_start_matches('<');
    let scheme = target.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let known = match scheme.as_deref() {
        None => !target.starts_with("//"),
        Some("http" | "https") => true,
        Some(other) => other.contains(['/', '#', '?']),
    };
    // An entity in a target is decoded by the browser.
    known && !names_thread(target) && !target.contains('&')
}

/// The rest of a URL leads to an issue, a pull request or a discussion.
fn names_thread(url: &str) -> bool {
    let url = url.split([' ', ')', '>']).next().unwrap_or_default().to_ascii_lowercase();
    ["/issues/", "/pull/", "/discussions/"].iter().any(|part| {
        url.split_once(part).is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

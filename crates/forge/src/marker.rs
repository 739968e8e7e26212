//! Marker lines: `<!-- patchwright:<purpose> run=<id> v=1 -->` on a line of its own finds what we
//! wrote again.
//!
//! A marker counts where we put it and nowhere else. In a comment that is the end: only marker lines
//! and empty ones may follow it ([`ending`]). In the description of an issue or pull request, which
//! people go on writing, it is a line of its own between paragraphs ([`standing`]). What stands in
//! code, in a quotation, in a list, in a folded part or in another HTML comment is text that somebody
//! shows, and no marker. A parser of GitHub's Markdown says which is which.
//!
//! Who wrote a comment is a second question, which [`super::seal`] answers.
//!
//! A comment that exists once per conversation (the progress comment) is found by its purpose, whichever
//! run wrote it ([`carries`]). What a run writes once (a review, an answer) is found by the whole
//! marker ([`carries_exactly`]). GitHub takes HTML comments out of the bodies of submitted reviews, so
//! those carry the marker a second time as a link reference that renders as nothing:
//! `[//]: # (patchwright:<purpose> run=<id> v=1)`.
//!
//! Every text of ours passes through here before it is posted, so this is where keys of well-known services are taken
//! out of it, whoever they belong to.

use comrak::Arena;
use comrak::nodes::NodeValue;

use patchwright_base::gfm;
use patchwright_base::redact::keys::without_keys;

/// The marker lines that a comment ends with, in their order.
pub fn ending(body: &str) -> Vec<&str> {
    let lines: Vec<&str> = body.lines().collect();
    let is_part = |line: &&&str| line.trim().is_empty() || is_any(line);
    let tail = lines.iter().rev().take_while(is_part).count();
    let last = lines.len() - tail;
    // Most comments have none, and need no parser.
    if lines[last..].iter().all(|line| line.trim().is_empty()) {
        return Vec::new();
    }
    let shown = RenderedBlocks::of(&lines);
    let marks = (last..lines.len()).rev().filter(|at| is_any(lines[*at]));
    let mut found: Vec<&str> =
        marks.take_while(|at| shown.is_alone(*at, &lines)).map(|at| lines[at]).collect();
    found.reverse();
    found
}

/// The marker lines of a description, wherever they stand by themselves.
pub fn standing(body: &str) -> Vec<&str> {
    let lines: Vec<&str> = body.lines().collect();
    if !lines.iter().any(|line| is_any(line)) {
        return Vec::new();
    }
    let shown = RenderedBlocks::of(&lines);
    let marks = (0..lines.len()).filter(|at| is_any(lines[*at]));
    marks.filter(|at| shown.is_alone(*at, &lines)).map(|at| lines[at]).collect()
}

/// What a reader of the page has before them, as far as it matters here.
struct RenderedBlocks {
    /// First and last line of each block of the page, and the text when it is HTML.
    blocks: Vec<(usize, usize, Option<String>)>,
    /// Lines at which a part that is folded begins (1) or ends (-1).
    folds: Vec<(usize, isize)>,
}

impl RenderedBlocks {
    fn of(lines: &[&str]) -> RenderedBlocks {
        // A lone CR ends a line for Markdown, and not for us.
        let text: Vec<String> = lines.iter().map(|line| line.replace('\r', " ")).collect();
        let arena = Arena::new();
        let Some(root) = gfm::parse(&arena, &text.join("\n")) else {
            // Nobody knows what GitHub makes of a text that takes too long: one block, in which nothing is alone.
            return RenderedBlocks { blocks: vec![(0, usize::MAX, None)], folds: Vec::new() };
        };
        let mut shown = RenderedBlocks { blocks: Vec::new(), folds: Vec::new() };
        for block in root.children() {
            let data = block.data();
            let html = match &data.value {
                NodeValue::HtmlBlock(html) => Some(html.literal.clone()),
                _ => None,
            };
            let place = data.sourcepos;
            shown.blocks.push((place.start.line, place.end.line, html));
        }
        for node in root.descendants() {
            let data = node.data();
            let html = match &data.value {
                NodeValue::HtmlBlock(html) => html.literal.as_str(),
                NodeValue::HtmlInline(html) => html.as_str(),
                _ => continue,
            };
            let html = html.trim_start().to_ascii_lowercase();
            if !html.starts_with("<!--") {
                let begun = html.matches("<details").count().cast_signed();
                let ended = html.matches("</details").count().cast_signed();
                shown.folds.push((data.sourcepos.start.line, begun - ended));
            }
        }
        shown
    }

    /// The marker line at this place is a block of the page by itself, and not folded away.
    fn is_alone(&self, at: usize, lines: &[&str]) -> bool {
        let number = at + 1;
        let within =
            |block: &&(usize, usize, Option<String>)| (block.0..=block.1).contains(&number);
        let stands = match self.blocks.iter().find(within) {
            Some((first, _, Some(html))) => *first == number && html.trim() == lines[at].trim(),
            Some((_, _, None)) => false,
            // The page does not show link references.
            None => !lines[at].trim_start().starts_with('<'),
        };
        let before = self.folds.iter().filter(|(line, _)| *line < number);
        stands && before.fold(0, |depth: isize, (_, change)| (depth + change).max(0)) == 0
    }
}

fn is_any(line: &str) -> bool {
    !words(line).is_empty()
}

/// A comment ends with the marker, or with one of the same purpose from another run.
pub(super) fn carries(body: &str, marker: &str) -> bool {
    ending(body).iter().any(|line| is_marker(line, marker))
}

/// A comment ends with this marker of this run, in either form.
pub fn carries_exactly(body: &str, marker: &str) -> bool {
    let wanted = words(marker);
    !wanted.is_empty() && ending(body).iter().any(|line| words(line) == wanted)
}

/// A description has the marker, or one of the same purpose.
pub(super) fn stands(body: &str, marker: &str) -> bool {
    standing(body).iter().any(|line| is_marker(line, marker))
}

/// A description has this marker.
pub(super) fn stands_exactly(body: &str, marker: &str) -> bool {
    let wanted = words(marker);
    !wanted.is_empty() && standing(body).iter().any(|line| words(line) == wanted)
}

/// A description has a marker of this purpose, of whatever run.
pub(super) fn has_purpose(body: &str, wanted: &str) -> bool {
    standing(body).iter().any(|line| purpose(line) == Some(wanted))
}

/// The line is `marker`, or one of the same purpose.
pub(super) fn is_marker(line: &str, marker: &str) -> bool {
    let (line, marker) = (line.trim(), marker.trim());
    line == marker || (purpose(line).is_some() && purpose(line) == purpose(marker))
}

/// The word after `patchwright:`; `None` when the line is no marker.
pub fn purpose(line: &str) -> Option<&str> {
    words(line).first().copied()
}

/// What the marker says, without `patchwright:`; empty when the line is no marker in either form.
pub fn words(line: &str) -> Vec<&str> {
    let line = line.trim();
    let comment = || line.strip_prefix("<!--")?.strip_suffix("-->");
    let reference = || {
        let (label, rest) = line.strip_prefix('[')?.split_once("]:")?;
        let title = rest.trim_start().strip_prefix('#')?.trim();
        let mut inside = title.chars();
        let ends = (inside.next()?, inside.next_back()?);
        let is_title = matches!(ends, ('(', ')') | ('"', '"') | ('\'', '\''));
        (is_title && !label.contains(']')).then_some(inside.as_str())
    };
    let inside = comment().or_else(reference).map(str::trim);
    let text = inside.and_then(|inside| inside.strip_prefix("patchwright:"));
    text.unwrap_or_default().split_whitespace().collect()
}

/// A marker as a link reference; the marker itself when it is in neither form.
pub fn as_reference(marker: &str) -> String {
    let words = words(marker);
    if words.is_empty() {
        return marker.trim().to_owned();
    }
    format!("[//]: # (patchwright:{})", words.join(" "))
}

/// A comment with the marker at its end.
pub(super) fn marked(body: &str, marker: &str) -> String {
    let body = without_keys(body);
    if carries(&body, marker) {
        body
    } else {
        format!("{}\n\n{}", closed(&body, marker).trim_end(), marker.trim())
    }
}

/// A description with the marker in it.
pub(super) fn described(body: &str, marker: &str) -> String {
    let body = without_keys(body);
    if stands(&body, marker) {
        body
    } else {
        format!("{}\n\n{}", closed(&body, marker), marker.trim())
    }
}

/// The body with this run's marker in both forms at its end.
pub(super) fn marked_twice(body: &str, marker: &str) -> String {
    let body = &without_keys(body);
    let there = ending(body);
    let forms = [marker.trim().to_owned(), as_reference(marker)];
    if forms.iter().all(|form| there.iter().any(|line| line.trim() == form)) {
        return body.trim_end().to_owned();
    }
    let mut whole = closed(body.trim_end(), marker);
    for form in forms {
        if !there.iter().any(|line| line.trim() == form) {
            whole.push_str("\n\n");
            whole.push_str(&form);
        }
    }
    whole
}

/// The text, with what it leaves open (code, an HTML comment, folded parts) closed, so that a marker
/// behind it is one. A text that cannot be closed is given up: the marker is worth more.
pub(super) fn closed(text: &str, marker: &str) -> String {
    let is_closed = |text: &str| carries(&format!("{text}\n\n{}", marker.trim()), marker);
    // If the marker itself is invalid, no text can carry it.
    if is_closed(text) || !is_closed("") {
        return text.to_owned();
    }
    let run = |of: char| {
        let longest = text.split(|c| c != of).map(str::len).max().unwrap_or(0);
        of.to_string().repeat(longest.max(3))
    };
    let folds = "</details>\n\n".repeat(text.matches("<details").count().min(50));
    for end in [run('`'), run('~'), "-->".to_owned(), "</pre>".to_owned()] {
        for folds in ["", folds.trim_end()] {
            for end in [end.as_str(), ""] {
                let whole = format!("{text}\n{end}\n\n{folds}");
                if is_closed(&whole) {
                    return whole.trim_end().to_owned();
                }
            }
        }
    }
    String::new()
}

/// The body says something to people, beside markers.
pub(super) fn has_visible_text(body: &str) -> bool {
    body.lines().any(|line| !line.trim().is_empty() && words(line).is_empty())
}

#[cfg(test)]
mod tests {
    use crate::marker::{
        as_reference, carries, carries_exactly, closed, described, has_purpose, has_visible_text,
        marked, marked_twice, standing, stands, stands_exactly, words,
    };

    const MARKER: &str = "<!-- patchwright:progress run=b v=1 -->";

    #[test]
    fn a_marker_of_another_run_is_found_and_a_quoted_or_foreign_one_is_not() {
        for (body, found, exactly) in [
            ("x\n\n<!-- patchwright:progress run=a v=1 -->\n", true, false),
            ("x\n<!-- patchwright:progress run=a v=1 -->", true, false),
            ("  <!-- patchwright:progress run=b v=1 -->  ", true, true),
            ("x\r\n<!-- patchwright:progress run=b v=1 -->\r\n", true, true),
            ("[//]: # (patchwright:progress run=b v=1)", true, true),
            ("[patchwright]: # \"patchwright:progress run=b v=1\"", true, true),
            ("[//]: # 'patchwright:progress run=a v=1'", true, false),
            ("[//]: # (patchwright:progress run=b v=1\"", false, false),
            ("> [//]: # (patchwright:progress run=b v=1)", false, false),
            ("[//]: #", false, false),
            ("[//]: # (", false, false),
            ("<!-- patchwright:pull-request run=b v=1 -->", false, false),
            ("> <!-- patchwright:progress run=b v=1 -->", false, false),
            ("<!-- patchwright:progress run=b v=1", false, false),
            ("<!---->", false, false),
            ("<!-->", false, false),
            ("", false, false),
        ] {
            assert_eq!(carries(body, MARKER), found, "{body}");
            assert_eq!(carries_exactly(body, MARKER), exactly, "{body}");
        }
        assert!(!carries_exactly("", "") && !carries_exactly("x", "x"));
    }

    #[test]
    fn a_marker_counts_only_at_the_end_and_outside_of_what_is_shown() {
        let reference = as_reference(MARKER);
        for (about, body, counts) in [
            ("the end", format!("x\n\n{MARKER}"), true),
            (
                "before another",
                format!("x\n\n{MARKER}\n\n<!-- patchwright:seal n=1 v=1 -->\n \n"),
                true,
            ),
            ("both forms", format!("x\n\n{MARKER}\n\n{reference}\n"), true),
            ("after a list", format!("- a\n- b\n\n{reference}\n\n{MARKER}"), true),
            ("after a list, at once", format!("- a\n- b\n{MARKER}"), true),
            ("after code that ends", format!("```\nx\n```\n{MARKER}"), true),
            ("after a fold that ends", format!("<details>\n\nx\n\n</details>\n\n{MARKER}"), true),
            ("after a table", format!("| a |\n|---|\n| b |\n\n{reference}"), true),
            ("words behind it", format!("{MARKER}\n\nx"), false),
            ("a fence", format!("```\n{MARKER}\n```"), false),
            ("a fence that does not end", format!("```\nx\n{MARKER}"), false),
            ("a tilde fence that does not end", format!("~~~~\n```\n\n{MARKER}"), false),
            ("a fence in a list", format!("- ```\n  {MARKER}"), false),
            ("indented code", format!("x\n\n    {MARKER}"), false),
            ("a quotation", format!("> x\n> {MARKER}"), false),
            ("a list", format!("- x\n\n  {MARKER}"), false),
            ("a fold", format!("<details>\n<summary>x</summary>\n\n{MARKER}\n\n</details>"), false),
            ("a fold that does not end", format!("<details>\n\nx\n\n{MARKER}"), false),
            ("a fold in a paragraph", format!("x <details> y\n\n{MARKER}"), false),
            ("an HTML block", format!("<div>\n{MARKER}"), false),
            ("an HTML comment", format!("<!--\n{MARKER}"), false),
            ("an old listing", format!("<pre>\n\n{MARKER}"), false),
            ("a paragraph", format!("x\n{reference}"), false),
            ("a table row", format!("| a |\n|---|\n{reference}"), false),
            ("a lone CR", format!("```\r\r{MARKER}\nx"), false),
            ("a lone CR in it", format!("x\n\n{}", MARKER.replace(" v=1", "\rv=1")), false),
            ("a footnote", "x[^1]\n\n[^1]: # (patchwright:progress run=b v=1)".to_owned(), false),
        ] {
            assert_eq!(carries(&body, MARKER), counts, "{about}: {body}");
            assert_eq!(
                carries(&body.replace('\n', "\r\n"), MARKER),
                counts,
                "{about}, CRLF: {body}"
            );
        }
        // People write on below a description's marker.
        assert_eq!(standing(&format!("x\n\n{MARKER}\n\ny")), [MARKER]);
        assert_eq!(standing(&format!("```\n{MARKER}\n```\ny")), Vec::<&str>::new());
    }

    #[test]
    fn a_marker_is_one_behind_whatever_is_left_open() {
        for open in [
            "x",
            "```\ncut",
            "x\n````text\n```\ncut",
            "~~~\ncut",
            "<details><summary>x</summary>\n\n```\ncut",
            "<details>\n\n<details>\n\ncut",
            "<!-- cut",
            "<pre>cut",
            "",
        ] {
            let whole = marked(open, MARKER);
            assert!(carries(&whole, MARKER) && whole.starts_with(open), "{whole}");
            assert_eq!(marked(&whole, MARKER), whole);
            assert!(carries(&marked_twice(open, MARKER), MARKER), "{open}");
        }
        assert_eq!(closed("```\nx", "no marker"), "```\nx");
        assert_eq!(closed("```\ncut", MARKER), "```\ncut\n```", "no more than it takes");
    }

    #[test]
    fn a_review_body_has_both_forms_once_and_is_otherwise_left_alone() {
        let whole = marked_twice("Fine.", MARKER);
        let expected = "Fine.\n\n<!-- patchwright:progress run=b v=1 -->\n\n\
                        [//]: # (patchwright:progress run=b v=1)";
        assert_eq!(whole, expected);
        assert_eq!(marked_twice(&whole, MARKER), whole);
        assert_eq!(as_reference(&as_reference(MARKER)), as_reference(MARKER));
        assert!(has_visible_text(&whole) && !has_visible_text(&marked_twice("", MARKER)));
    }

    #[test]
    fn a_review_body_gets_the_form_that_it_lacks() {
        for (there, missing) in
            [(MARKER.to_owned(), as_reference(MARKER)), (as_reference(MARKER), MARKER.to_owned())]
        {
            let body = format!("Fine.\n\n{there}");
            assert_eq!(marked_twice(&body, MARKER), format!("{body}\n\n{missing}"));
            let with_another = format!("Fine.\n\n<!-- patchwright:state v=1 -->\n\n{there}");
            let expected = format!("{with_another}\n\n{missing}");
            assert_eq!(marked_twice(&with_another, MARKER), expected);
        }
    }

    #[test]
    fn a_description_has_its_marker_anywhere_and_gets_it_once() {
        let other = MARKER.replace("run=b", "run=a");
        for (body, found, exactly) in [
            (format!("x\n\n{MARKER}\n\ny"), true, true),
            (format!("x\n\n{other}\n\ny"), true, false),
            (format!("{other}\n\n{MARKER}"), true, true),
            ("<!-- patchwright:pull-request run=b v=1 -->".to_owned(), false, false),
            (format!("```\n{MARKER}\n```\n\ny"), false, false),
            ("x".to_owned(), false, false),
            (String::new(), false, false),
        ] {
            assert_eq!(stands(&body, MARKER), found, "{body}");
            assert_eq!(stands_exactly(&body, MARKER), exactly, "{body}");
            assert_eq!(has_purpose(&body, "progress"), found, "{body}");
            let marked = described(&body, MARKER);
            let expected = if found { body.clone() } else { format!("{body}\n\n{MARKER}") };
            assert_eq!(marked, expected);
        }
        // What is no marker stands nowhere, whatever else does.
        assert!(!stands_exactly("x", "x") && !stands_exactly("", ""));
        assert!(!stands_exactly(MARKER, "no marker") && !has_purpose(MARKER, "pull-request"));
    }

    #[test]
    fn words_are_those_of_a_whole_comment_or_of_a_whole_reference() {
        assert_eq!(words(MARKER), ["progress", "run=b", "v=1"]);
        assert_eq!(words(&as_reference(MARKER)), words(MARKER));
        for line in [
            "[a]b]: # (patchwright:progress run=b v=1)",
            "[//]: # (patchwright:progress run=b v=1\"",
            "[//]: # patchwright:progress run=b v=1",
            "<!-- progress run=b v=1 -->",
        ] {
            assert_eq!(words(line), Vec::<&str>::new(), "{line}");
        }
    }
}

//! Replacements that a person can accept with a click: from what the model wrote to lines that may
//! replace the quoted ones, and the block around them.

use super::code::{IndentShift, MatchQuality, indentation};
use super::quote::{QuoteVariant, is_blank, is_numbered};

/// Longer replacements are not offered, bytes.
const MAX_BYTES: usize = 16 << 10;

/// The block that GitHub turns into a button; its fence is longer than any run of backticks inside, so
/// that nothing in it can end it. Ends with a newline.
pub fn block(replacement: &str) -> String {
    let fence = "`".repeat(longest_run(replacement).max(2) + 1);
    let end = if replacement.is_empty() || replacement.ends_with('\n') { "" } else { "\n" };
    format!("{fence}suggestion\n{replacement}{end}{fence}\n")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Whether changes of this file may be offered: never of workflows, which run with the repository's
/// own permissions.
pub fn is_allowed(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    !path.starts_with(".github/workflows/")
}

/// What stands before the number of a line that the model is shown: added, deleted, added since the last
/// review.
const SIGNS: [char; 3] = ['+', '-', '*'];

/// Lines that a replacement is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetLines<'c> {
    pub(super) path: &'c str,
    pub(super) lines: &'c [&'c str],
}

/// Endings of files in which fences and signs at the beginning of a line are content.
const TEXTS: &[&str] =
    &["md", "markdown", "mdx", "qmd", "rmd", "rst", "txt", "text", "adoc", "asciidoc", "org"];

impl TargetLines<'_> {
    fn is_text(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        ending.is_some_and(|ending| TEXTS.contains(&ending.as_str()))
    }
}

/// The lines that may take the place of `code`, indented like it; `None` when they would change
/// nothing, delete everything, or are no text.
pub(super) fn fitted(
    replacement: &str,
    reading: &QuoteVariant<'_>,
    fit: &MatchQuality,
    code: TargetLines<'_>,
) -> Option<String> {
    if replacement.len() > MAX_BYTES || replacement.contains('\0') || !fit.is_whole_lines() {
        return None;
    }
    let replaced = if code.is_text() {
        as_it_is(replacement, reading)?
    } else {
        plain(replacement, reading, code)?
    };
    let TargetLines { path, lines: code } = code;
    // Pages of the difference have numbers before their lines, which are no code.
    let has_page_line = |lines: &[&str]| lines.iter().any(|line| is_page_line(line));
    if has_page_line(&replaced.lines) && !has_page_line(code) {
        return None;
    }
    let is_text = TargetLines { path, lines: code }.is_text();
    let shifted: Vec<String> = match fit {
        MatchQuality::Exact | MatchQuality::Ends if !is_text => indented(&replaced.lines, code)?,
        _ => shift(&replaced.lines, fit),
    };
    if shifted == code {
        return None;
    }
    Some(shifted.join("\n"))
}

/// A replacement in code, without what models put around it.
fn plain<'r>(
    replacement: &'r str,
    reading: &QuoteVariant<'_>,
    code: TargetLines<'_>,
) -> Option<QuoteVariant<'r>> {
    let replaced = QuoteVariant::new(replacement);
    let unwrapped = replaced
        .peeled()
        .filter(|inner| (reading.is_fenced || !is_fence(code.lines)) && inner.is_fenced);
    let replaced = unwrapped.unwrap_or(replaced);
    if reading.number.is_some() && has_numbers(&replaced) {
        return unnumbered(replaced, reading.is_signed);
    }
    let is_added = replaced.lines.iter().all(|line| line.starts_with('+') || is_blank(line));
    let unsigned =
        replaced.peeled().filter(|inner| reading.is_signed && is_added && inner.is_signed);
    let replaced = unsigned.unwrap_or(replaced);
    (!replaced.is_empty() && !replaced.is_cut).then_some(replaced)
}

/// A replacement in a text. A fence around it may be what the model means: it stays, and where the quote
/// had one as well nobody can tell, so nothing is offered.
fn as_it_is<'r>(replacement: &'r str, reading: &QuoteVariant<'_>) -> Option<QuoteVariant<'r>> {
    let replaced = QuoteVariant::new(replacement);
    let is_wrapped = replaced.peeled().is_some_and(|inner| {
        (reading.is_fenced && inner.is_fenced) || (reading.is_signed && inner.is_signed)
    });
    let is_wrapped = is_wrapped || (reading.number.is_some() && has_numbers(&replaced));
    (!replaced.is_empty() && !is_wrapped).then_some(replaced)
}

/// A replacement without the line numbers, and the signs beside them, that its quote has as well; `None`
/// when only some of its lines have them, or when some are deleted ones.
fn unnumbered(replaced: QuoteVariant<'_>, is_signed: bool) -> Option<QuoteVariant<'_>> {
    let mut inner = replaced;
    while inner.number.is_none() || (is_signed && !inner.is_signed) {
        if inner.lines.iter().any(|line| line.trim_start().starts_with('-')) {
            return None;
        }
        match inner.peeled().filter(|next| inner.number.is_none() || next.is_signed) {
            Some(next) => inner = next,
            None => break,
        }
    }
    (inner.number.is_some() && !inner.is_empty() && !inner.is_cut).then_some(inner)
}

/// Some line begins with a number, perhaps behind a sign.
fn has_numbers(replaced: &QuoteVariant<'_>) -> bool {
    let unsigned = |line: &&str| {
        let line = line.trim_start();
        line.strip_prefix(SIGNS).unwrap_or(line).to_owned()
    };
    replaced.lines.iter().any(|line| is_numbered(&unsigned(line)))
}

/// `12|code`, `+ 12|code`: a line as the model is shown it.
fn is_page_line(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix(SIGNS).unwrap_or(line).trim_start();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with('|')
}

fn is_fence(code: &[&str]) -> bool {
    code.iter()
        .any(|line| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~"))
}

/// A replacement whose quote has the indentation of the code. One that has none of it is moved as a whole; of one that
/// begins without and goes on with it nobody can tell how its lines are meant.
fn indented(lines: &[&str], code: &[&str]) -> Option<Vec<String>> {
    let filled = |lines: &[&str]| -> Vec<String> {
        let filled = lines.iter().filter(|line| !is_blank(line));
        filled.map(|line| indentation(line).to_owned()).collect()
    };
    let least = filled(code).into_iter().min_by_key(String::len).unwrap_or_default();
    let own = filled(lines);
    // What is for a preprocessor stands at the margin.
    let is_for_margin = lines.iter().find(|line| !is_blank(line))?.starts_with('#');
    if least.is_empty() || is_for_margin || own.first().is_none_or(|first| !first.is_empty()) {
        return Some(lines.iter().map(|line| (*line).to_owned()).collect());
    }
    let is_moved = own.iter().all(|indentation| indentation.len() < least.len());
    let moved = |line: &&str| {
        if is_blank(line) { (*line).to_owned() } else { format!("{least}{line}") }
    };
    is_moved.then(|| lines.iter().map(moved).collect())
}

fn shift(lines: &[&str], fit: &MatchQuality) -> Vec<String> {
    let filled =
        |line: &str, shifted: String| if is_blank(line) { line.to_owned() } else { shifted };
    let MatchQuality::Shifted(shift) = fit else {
        return lines.iter().map(|line| (*line).to_owned()).collect();
    };
    lines
        .iter()
        .enumerate()
        .map(|(at, line)| match shift {
            IndentShift::Add(more) => filled(line, format!("{more}{line}")),
            IndentShift::Remove(less) => {
                line.strip_prefix(less.as_str()).unwrap_or(line).to_owned()
            }
            // The model left out the indentation of the first line; it may have written it here.
            IndentShift::AddToFirst(more) if at == 0 && indentation(line).is_empty() => {
                format!("{more}{line}")
            }
            IndentShift::AddToFirst(_) => (*line).to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::suggestion::*;

    fn check(code: &[&str], quote: &str, replacement: &str, expected: Option<&str>) {
        check_in("src/a.rs", code, quote, replacement, expected);
    }

    fn check_in(path: &str, code: &[&str], quote: &str, replacement: &str, expected: Option<&str>) {
        // As anchoring does: the first reading that is there.
        let mut reading = QuoteVariant::new(quote);
        while let Some(inner) = reading.peeled().filter(|_| reading.lines.first() != code.first()) {
            reading = inner;
        }
        let fit = MatchQuality::compare(code, &reading.lines);
        let fitted = fitted(replacement, &reading, &fit, TargetLines { path, lines: code });
        assert_eq!(fitted.as_deref(), expected, "{quote:?} -> {replacement:?}");
    }

    #[test]
    fn replacements_are_indented_like_the_code() {
        let code = ["    a();", "    b();"];
        check(&code, "    a();\n    b();", "    c();", Some("    c();"));
        check(&code, "    a();\n    b();", "c();", Some("    c();"));
        check(&code, "    a();\n    b();", "if x:\n  c()\n", Some("    if x:\n      c()"));
        check(&code, "    a();\n    b();", "c();\n    d();", None);
        check(&code, "    a();\n    b();", "    c();\n}", Some("    c();\n}"));
        check(&code, "    a();\n    b();", "#if X\n    c();", Some("#if X\n    c();"));
        check_in("list.md", &["  - a"], "  - a", "- b", Some("- b"));
        check(
            &code,
            "a();\nb();",
            "if x {\n    c();\n\n}",
            Some("    if x {\n        c();\n\n    }"),
        );
        check(&code, "      a();\n      b();", "      c();", Some("    c();"));
        check(&code, "a();\n    b();", "c();\n    d();", Some("    c();\n    d();"));
        check(&code, "a();\n    b();", "    c();", Some("    c();"));
        check(&code, "+    a();\n+    b();", "+    c();", Some("    c();"));
        check(&code, "    a();\n    b();", "```rust\n    c();\n```\n", Some("    c();"));
    }

    #[test]
    fn numbers_and_signs_that_the_quote_has_as_well_are_no_code() {
        let code = ["bad = 1", "line 6"];
        let good = Some("good = 1\nline 6");
        check(&code, "+ 5|bad = 1\n  6|line 6", "+ 5|good = 1\n  6|line 6", good);
        check(&code, "5|bad = 1\n6|line 6", "5|good = 1\n6|line 6", good);
        check(&code, "5: bad = 1\n6: line 6", "5: good = 1\n6: line 6", good);
        check(&code, "5 | +bad = 1\n6 |  line 6", "5 | +good = 1\n6 |  line 6", good);
        check(&code, "+ 5|bad = 1\n  6|line 6", "5|good = 1\n6|line 6", good);
        check(&code, "5|bad = 1\n6|line 6", "good = 1\nline 6", good);
        check(&code, "5|bad = 1\n6|line 6", "5|good = 1\nline 6", None);
        check(&code, "+ 5|bad = 1\n  6|line 6", "- 5|bad = 1\n+ 5|good = 1\n  6|line 6", None);
        // Whatever was quoted.
        check(&code, "bad = 1\nline 6", "+ 5|good = 1\n  6|line 6", None);
        check(&code, "bad = 1\nline 6", "5|good = 1", None);
        check(&code, "bad = 1\nline 6", "* 5|good = 1\n  6|line 6", None);
        check_in("notes.txt", &code, "5|bad = 1\n6|line 6", "5|good = 1\n6|line 6", None);
        check_in("notes.txt", &code, "bad = 1\nline 6", "+ 5|good = 1", None);
        check_in("notes.txt", &code, "5|bad = 1\n6|line 6", "good = 1\nline 6", good);
        let table = ["1|one", "2|two"];
        check_in("table.txt", &table, "1|one\n2|two", "1|one\n2|TWO", Some("1|one\n2|TWO"));
    }

    #[test]
    fn in_texts_a_replacement_is_offered_as_it_is_or_not_at_all() {
        let code = ["Run it:"];
        let block = "```console\n$ run\n```";
        for path in ["README.md", "docs/a.RST", "notes.txt"] {
            check_in(path, &code, "Run it:", block, Some(block));
            check_in(path, &code, "Run it:", "Run this:", Some("Run this:"));
            check_in(path, &code, "```\nRun it:\n```", block, None);
            check_in(path, &code, "Run it:", "```\n", Some("```"));
        }
        check(&code, "Run it:", block, Some("$ run"));
    }

    #[test]
    fn nothing_is_offered_that_changes_nothing_or_is_not_whole_lines() {
        let code = ["    a();"];
        check(&code, "a();", "a();", None);
        check(&code, "    a();", "", None);
        check(&code, "    a();", "\n", None);
        check(&code, "    a();", "x\0", None);
        check(&code, "    a( );", "b();", None);
        check(&code, "    a();", &"x".repeat(MAX_BYTES + 1), None);
    }

    #[test]
    fn nothing_inside_ends_the_block() {
        assert_eq!(block("a"), "```suggestion\na\n```\n");
        assert_eq!(block("```\ncode\n```\n"), "````suggestion\n```\ncode\n```\n````\n");
        assert_eq!(block("a ````` b\n~~~"), "``````suggestion\na ````` b\n~~~\n``````\n");
        assert_eq!(block(""), "```suggestion\n```\n");
    }

    #[test]
    fn workflows_are_left_alone() {
        assert!(!is_allowed(".github/workflows/ci.yml"));
        assert!(!is_allowed(".GitHub/Workflows/ci.yml"));
        assert!(is_allowed(".github/dependabot.yml"));
        assert!(is_allowed("src/main.rs"));
    }
}

//! Untrusted text in reports: cleaned, escaped, bounded. Every report uses these and nothing else
//! to print what a model, a repository or a person wrote.
//!
//! For Markdown there are three places a text can go: [`inline`] (part of a line), [`code`] (a code
//! span) and [`fence`] (a code block). `patchwright_report::markdown` has the fourth: a whole passage whose own
//! formatting is kept.

use crate::invisible::is_invisible;

/// Removes terminal escape sequences: CSI, OSC, DCS and the rest, 7-bit and 8-bit.
pub fn without_ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = match c {
            '\u{1b}' => match chars.next() {
                Some(next) => next,
                None => break,
            },
            '\u{9b}' => '[',
            '\u{9d}' => ']',
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => 'P',
            other => {
                out.push(other);
                continue;
            }
        };
        match kind {
            '[' => {
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            ']' | 'P' | 'X' | '^' | '_' => {
                // Up to its terminator, but never across a line: an unfinished sequence must not
                // swallow the log.
                while let Some(c) = chars.next_if(|c| *c != '\n') {
                    if c == '\u{7}' || c == '\u{9c}' {
                        break;
                    }
                    if c == '\u{1b}' {
                        chars.next_if_eq(&'\\');
                        break;
                    }
                }
            }
            ' '..='/' => {
                chars.next();
            }
            _ => {}
        }
    }
    out
}

/// Makes every character visible: line ends become `\n`, tabs stay, and control, bidi, zero-width
/// and tag characters become `\u{…}`.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if is_deceptive(c) => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

/// What [`visible`] has made of one line, as it was; `None` where nothing in it was escaped.
pub fn unescaped(line: &str) -> Option<String> {
    let (mut out, mut rest, mut is_other) = (String::with_capacity(line.len()), line, false);
    while let Some(at) = rest.find("\\u{") {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let hidden = escape.get(3..).and_then(|inner| {
            let (digits, behind) = inner.split_once('}')?;
            let hidden = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            // As it is written by us and nobody else.
            let is_ours = hidden.escape_unicode().to_string() == escape[..digits.len() + 4];
            (is_ours && is_deceptive(hidden) && !"\r\n\t".contains(hidden))
                .then_some((hidden, behind))
        });
        if let Some((hidden, behind)) = hidden {
            out.push(hidden);
            rest = behind;
            is_other = true;
        } else {
            out.push_str(&escape[..3]);
            rest = &escape[3..];
        }
    }
    out.push_str(rest);
    is_other.then_some(out)
}

/// Cannot be seen, or changes how its neighbours are seen. What joins letters and emoji stays: people's
/// languages need it.
pub fn is_deceptive(c: char) -> bool {
    let joins = matches!(c, '\u{200c}' | '\u{200d}');
    c.is_control() || (!joins && is_invisible(c))
}

/// Characters of one line.
const MAX_LINE: usize = 300;

/// One line of plain text: visible, white space folded, at most 300 characters.
pub fn line(text: &str) -> String {
    cut(&folded(text), MAX_LINE)
}

fn folded(text: &str) -> String {
    let clean = visible(&without_ansi(text));
    let words: Vec<&str> = clean.split_whitespace().collect();
    words.join(" ")
}

/// A command on one line of at most 300 characters.
pub fn one_line(command: &str) -> String {
    short_command(command, MAX_LINE)
}

/// A command on one line of at most `most` characters: a line end, which separates commands as a space does not, shows
/// as `⏎`. What is too long loses the variables that it sets first, then its middle: commands of one script begin alike.
pub fn short_command(command: &str, most: usize) -> String {
    let whole = joined(command.lines());
    if whole.chars().count() <= most {
        return whole;
    }
    let short = joined(command.lines().map(without_export).filter(|line| !line.is_empty()));
    let count = short.chars().count();
    if count <= most {
        return short;
    }
    let head = most.saturating_sub(1) / 3;
    let tail = most.saturating_sub(1) - head;
    let at = |index: usize| short.char_indices().nth(index).map_or(short.len(), |(at, _)| at);
    format!("{}…{}", short[..at(head)].trim_end(), short[at(count - tail)..].trim_start())
}

/// A line of a script, without the variable that it sets and does nothing else.
fn without_export(line: &str) -> &str {
    let Some((before, set)) = line.split_once("export ") else { return line };
    let begins = before.trim_end().is_empty() || before.trim_end().ends_with(['(', '{']);
    if begins && !set.contains([';', '&', '|', '\\']) { before.trim_end() } else { line }
}

fn joined<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let lines: Vec<&str> = lines.collect();
    let text = lines.join("\n");
    folded(&text.trim().replace("\\\n", " ").replace('\n', " ⏎ "))
}

/// At most `most` characters; what is cut shows as `…`.
pub fn cut(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let end = text.char_indices().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    format!("{}…", text[..end].trim_end())
}

/// At most `most` characters, cut between two words where no more than half is lost by it; what is cut shows as `…`.
pub fn cut_at_word(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most.saturating_sub(1)) else {
        return text.to_owned();
    };
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let ends_a_word = text[end..].starts_with(char::is_whitespace);
    let blank = text[..end].rfind(char::is_whitespace).filter(|at| *at > end / 2 && !ends_a_word);
    format!("{}…", text[..blank.unwrap_or(end)].trim_end())
}

/// Text that is shown as it is, in which nothing can pass for a marker of ours: those get a space that
/// they must not have.
pub fn without_markers(text: &str) -> String {
    const NAME: &str = "patchwright:";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(NAME) {
        let before = rest[..at].trim_end();
        // Both forms of our markers: an HTML comment, and a link definition for places where
        // comments are removed.
        let opens = before.ends_with("<!--")
            || before
                .strip_suffix(['(', '"', '\''])
                .is_some_and(|before| before.trim_end().ends_with('#'));
        let end = at + NAME.len();
        out.push_str(&rest[..end - 1]);
        out.push_str(if opens { " :" } else { ":" });
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Part of a Markdown line: formatting, HTML, mentions and references have no effect.
pub fn inline(text: &str) -> String {
    escape(&line(text))
}

/// Escapes what Markdown or GitHub would act on. Keeps line ends.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = '\n';
    for (at, c) in text.char_indices() {
        let next = text[at + c.len_utf8()..].chars().next().unwrap_or(' ');
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '@' if next.is_alphanumeric() => out.push_str("@&#8203;"),
            '#' if next.is_ascii_digit() => out.push_str("#&#8203;"),
            '#' | '+' | '-' | '=' if before == '\n' => {
                out.push('\\');
                out.push(c);
            }
            // GitHub links `GH-1`, `http:` and `www.` by themselves.
            '-' if next.is_ascii_digit() && ends_with_word(&out, "gh") => out.push_str("&#8203;-"),
            ':' if text[at..].starts_with("://") => out.push_str("&#8203;:"),
            '.' if ends_with_word(&out, "www") => out.push_str("&#8203;."),
            '.' | ')' if before.is_ascii_digit() && next == ' ' && is_list_number(&out) => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let Some(start) = text.len().checked_sub(word.len()) else { return false };
    text.is_char_boundary(start) && text[start..].eq_ignore_ascii_case(word)
}

fn is_list_number(text: &str) -> bool {
    text.rsplit('\n').next().unwrap_or(text).chars().all(|c| c.is_ascii_digit() || c == ' ')
}

/// A code span; its fence is longer than any run of backticks inside.
pub fn code(text: &str) -> String {
    let text = without_markers(&line(text));
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(&text, '`') + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A code span in a table cell, where a `|` would end the cell.
pub fn code_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A code block, closed for certain, with a final line end.
pub fn fence(text: &str, info: &str) -> String {
    let text = without_markers(&visible(&without_ansi(text)));
    let fence = "`".repeat((longest_run(&text, '`') + 1).max(3));
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{info}\n{text}{end}{fence}\n")
}

/// Whoever copies the text out of such a block has it as it is here: no character was taken away or shown by other ones.
pub fn is_whole_in_fence(text: &str) -> bool {
    without_markers(&visible(&without_ansi(text))) == text
}

pub fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0) / of.len_utf8()
}

/// The beginning of a text, cut at a line end where possible, with a notice of what is missing.
/// The result has at most `most` bytes (when `most` is at least 100).
pub fn head(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most.saturating_sub(60);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // A line end in the first half would throw away too much.
    if let Some(line) = text[..end].rfind('\n').filter(|line| *line > end / 2) {
        end = line;
    }
    format!("{}\n… {} more bytes left out\n", &text[..end], text.len() - end)
}

/// Makes untrusted text safe for a log that a runner reads. Terminal escapes go, invisible
/// characters become visible, and no line is a workflow command: the runner takes `::` after white
/// space at the start of a line, and `##[` anywhere in it.
pub fn safe_log(untrusted: &str) -> String {
    let clean = visible(&without_ansi(untrusted));
    let mut out = String::with_capacity(clean.len());
    for (at, line) in clean.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        // The runner reads a command only at the start of a line.
        if line.trim_start().starts_with("::") {
            out.push_str("| ");
        }
        out.push_str(&line.replace("##[", "# #[").replace("##vso[", "# #vso["));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_two_long_commands_apart_is_shown() {
        assert_eq!(
            one_line("export LEVEL=high\nmake \\\n  test\n"),
            "export LEVEL=high ⏎ make test"
        );
        let variables: Vec<_> = (0..20).map(|i| format!("export VARIABLE_{i}=value\n")).collect();
        let variables = variables.concat();
        let script =
            |test: &str| format!("( {variables}cargo build\n) && {{ {variables}{test}\n}}");
        assert_eq!(
            one_line(&script("cargo test --all")),
            "( ⏎ cargo build ⏎ ) && { ⏎ cargo test --all ⏎ }"
        );
        let long =
            short_command(&format!("./configure {} && make check", "--with-it ".repeat(90)), 40);
        assert_eq!(long, "./configure -…it --with-it && make check");
        // What does something else as well is part of the command.
        let set = format!("{variables}export A=1; make\n");
        assert_eq!(one_line(&set), "export A=1; make");
    }
}

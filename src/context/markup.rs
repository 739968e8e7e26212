//! One pass over Markdown that leaves out what GitHub does not show.
//!
//! The order in which GitHub reads matters: a comment that begins outside of code hides everything
//! up to its end, fences included, and a fence that begins outside of a comment shows everything in
//! it. So the text is walked from left to right, and what begins first wins. Where our reading and
//! GitHub's could differ, fences are *not* recognised: then too much is removed, never too little.

use super::hidden::{Cleaned, Counts};
use super::lines::{Lists, fence_opening, indent, info_length, without_quotes};
use super::tags::{self, At};

/// Removes hidden markup once. Removing may uncover more: [`super::hidden::clean`] repeats it.
pub(super) fn strip(text: &str) -> Cleaned {
    let mut walk = Walk {
        text,
        lower: text.to_lowercase(),
        at: 0,
        out: String::with_capacity(text.len()),
        removed: Counts::new(),
        html: Html::Outside,
        lists: Lists::default(),
    };
    while walk.at < text.len() {
        let starts_line = walk.at == 0 || text.as_bytes()[walk.at - 1] == b'\n';
        if !(starts_line && walk.block()) {
            walk.inline();
        }
    }
    Cleaned { text: walk.out, removed: walk.removed }
}

/// Whether Markdown is read, or HTML as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Html {
    Outside,
    /// Up to the next blank line.
    Block,
    /// Up to `</pre>`.
    Pre,
}

struct Walk<'a> {
    text: &'a str,
    lower: String,
    at: usize,
    out: String,
    removed: Counts,
    html: Html,
    lists: Lists,
}

impl<'a> Walk<'a> {
    fn count(&mut self, kind: &'static str) {
        *self.removed.entry(kind).or_default() += 1;
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes `length` bytes over as they are.
    fn keep(&mut self, length: usize) {
        self.out.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// What is decided at the beginning of a line. True when it was dealt with.
    fn block(&mut self) -> bool {
        let line = self.rest().split('\n').next().unwrap_or_default();
        if line.trim_matches([' ', '\t', '>']).is_empty() {
            if self.html == Html::Block {
                self.html = Html::Outside;
            }
            self.lists.maybe.clone_from(&self.lists.surely);
            return false;
        }
        if self.html != Html::Outside {
            return false;
        }
        let line = self.lists.enter(line);
        let column = self.lists.surely.last().copied().unwrap_or(0);
        if let Some((mark, length, info)) = fence_opening(&line, column) {
            self.fence(mark, length, line.quotes, info);
            return true;
        }
        if line.rest.starts_with('[') && line.indent <= column + 3 && self.definition(line.rest) {
            return true;
        }
        if line.rest.starts_with('<') && tags::tag(line.rest) != At::Nothing {
            let pre = matches!(tags::tag(line.rest), At::Tag(tag) if tag.is("pre") && !tag.closing);
            self.html = if pre { Html::Pre } else { Html::Block };
        }
        false
    }

    /// Copies a fenced block. Its info string is not shown, so only a word of it stays.
    fn fence(&mut self, mark: char, length: usize, quotes: usize, info: &str) {
        let column = self.lists.maybe.last().copied().unwrap_or(0);
        let line = self.rest().split('\n').next().unwrap_or_default();
        let label: String = info
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '.' | '_'))
            .take(20)
            .collect();
        if label.len() < info.len() {
            self.count("code fence label");
        }
        let shown = line.len() - info_length(line);
        self.keep(shown);
        self.out.push_str(&label);
        self.at += line.len() - shown;
        let is_formula = label == "math";
        let end_of_opening = self.out.len();
        while self.at < self.text.len() {
            self.keep(1);
            let line = self.rest().split('\n').next().unwrap_or_default();
            let Some(content) = without_quotes(line, quotes) else { break };
            let indent = indent(content);
            let blank = content.trim().is_empty();
            if !blank && indent < column {
                break;
            }
            if label == "mermaid" && content.trim_start().starts_with("%%") {
                self.count("diagram comment");
                self.at += line.len();
                continue;
            }
            self.keep(line.len());
            let content = content.trim();
            let closes = content.len() >= length && content.chars().all(|c| c == mark);
            if closes && indent <= column + 3 {
                break;
            }
        }
        if is_formula && hides_formula(&self.out[end_of_opening..]) {
            self.out.truncate(end_of_opening);
            let fence = String::from(mark).repeat(length);
            self.out.extend([
                "
", &fence, "
",
            ]);
            self.count("invisible formula");
        }
    }

    /// A link or footnote definition is not shown. Kept when something refers to it.
    fn definition(&mut self, line: &str) -> bool {
        let Some((label, _)) = line[1..].split_once("]:") else { return false };
        if label.is_empty() || label.len() > 999 || label.contains(['[', ']']) {
            return false;
        }
        let prefix = self.rest().find('[').unwrap_or(0);
        let from = self.at + prefix + label.len() + 3;
        let used = self.lower.matches(&format!("[{}]", label.to_lowercase())).nth(1).is_some();
        if label.starts_with('^') {
            if used {
                return false;
            }
            self.count("unused footnote");
            self.at += paragraph_end(self.rest());
            return true;
        }
        let Some((target, mut length)) = tags::destination(&self.text[from..]) else {
            return false;
        };
        let ends =
            |at: usize| self.text[at..].split('\n').next().is_some_and(|l| l.trim().is_empty());
        let mut titled = false;
        let gap = self.text[from + length..].len() - self.text[from + length..].trim_start().len();
        if let Some((_, title)) = tags::quoted(&self.text[from + length + gap..])
            && ends(from + length + gap + title)
            && gap > 0
        {
            length += gap + title;
            titled = true;
        }
        let empty = target.is_empty() && !self.text[from..].trim_start().starts_with("<>");
        if empty || !ends(from + length) {
            return false;
        }
        if used {
            let kept = format!("{}[{label}]: {target}", &self.rest()[..prefix]);
            self.out.push_str(&kept);
        } else {
            self.count("unused link definition");
        }
        if titled {
            self.count("link title");
        }
        self.at = from + length;
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        true
    }

    /// One step inside a line.
    fn inline(&mut self) {
        let rest = self.rest();
        let markdown = self.html == Html::Outside;
        match rest.as_bytes()[0] {
            b'<' => self.angle(rest),
            b'&' => match tags::entity(rest) {
                Some((text, length)) => {
                    self.out.push_str(&text);
                    self.at += length;
                }
                None => self.keep(1),
            },
            b'\\' if markdown => {
                let next = rest[1..].chars().next().filter(char::is_ascii_punctuation);
                // `\<` shows a `<` on GitHub; here it stays dangerous, so it is looked at.
                self.keep(1 + next.filter(|c| !matches!(c, '<' | '&')).map_or(0, char::len_utf8));
            }
            b'`' if markdown => self.code_span(rest),
            b'!' if rest.starts_with("![") => self.image(rest),
            b']' if rest.starts_with("](") => match tags::link_target(&rest[2..]) {
                Some((target, title, length)) => {
                    self.out.extend(["](", target, ")"]);
                    if title.is_some_and(|title| !title.is_empty()) {
                        self.count("link title");
                    }
                    self.at += 2 + length;
                }
                None => self.keep(1),
            },
            b'$' => self.formula(rest),
            _ => {
                let stops = |c: char| matches!(c, '<' | '&' | '\\' | '`' | '!' | ']' | '$' | '\n');
                let first = rest.chars().next().map_or(1, char::len_utf8);
                let length = match rest[first..].find(stops) {
                    _ if rest.starts_with('\n') => 1,
                    Some(at) => first + at,
                    None => rest.len(),
                };
                self.keep(length);
            }
        }
    }

    /// A code span that closes on the same line stays; otherwise the backticks are characters.
    fn code_span(&mut self, rest: &str) {
        let run = rest.len() - rest.trim_start_matches('`').len();
        let line = rest.split('\n').next().unwrap_or_default();
        let mut at = run;
        while let Some(next) = line[at..].find('`') {
            let start = at + next;
            let length = line[start..].len() - line[start..].trim_start_matches('`').len();
            at = start + length;
            if length == run {
                self.keep(at);
                return;
            }
        }
        self.keep(run);
    }

    fn image(&mut self, rest: &str) {
        let mut depth = 0usize;
        for (at, c) in rest.char_indices().skip(1).take(4000) {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                '\n' if rest[at + 1..].starts_with('\n') => break,
                _ => {}
            }
            if depth == 0 {
                let alt = &rest[2..at];
                if rest[at + 1..].starts_with(['(', '[']) || alt.len() > 40 {
                    if !tags::is_label(alt) {
                        self.count("image alt text");
                    }
                    self.out.push_str("![");
                    self.at += at;
                    return;
                }
                break;
            }
        }
        self.keep(2);
    }

    fn formula(&mut self, rest: &str) {
        let open = if rest.starts_with("$$") { "$$" } else { "$" };
        let body = &rest[open.len()..];
        let end = body.find(open).filter(|end| *end < 4000);
        if let Some(end) = end.filter(|end| hides_formula(&body[..*end])) {
            self.count("invisible formula");
            self.at += end + 2 * open.len();
            return;
        }
        self.keep(open.len());
    }

    /// Comments, declarations and tags.
    fn angle(&mut self, rest: &'a str) {
        if rest.starts_with("<!--") {
            return self.comment(rest);
        }
        let declaration = [("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")];
        if let Some((open, close)) = declaration.iter().find(|(open, _)| rest.starts_with(open)) {
            let named = rest[open.len()..].starts_with(|c: char| c.is_ascii_alphabetic());
            let end = rest.find(close).filter(|_| *open != "<!" || named);
            match end {
                Some(end) => {
                    self.count("markup declaration");
                    self.at += end + close.len();
                }
                None => self.keep(1),
            }
            return;
        }
        match tags::tag(rest) {
            At::Nothing => self.keep(1),
            At::Unfinished if self.html == Html::Outside => self.keep(1),
            At::Unfinished => {
                self.count("unfinished tag");
                self.at += paragraph_end(rest);
            }
            At::Tag(tag) => self.tag(rest, &tag),
        }
    }

    fn comment(&mut self, rest: &str) {
        let body = &rest[4..];
        let end = if body.starts_with('>') {
            Some(1)
        } else if body.starts_with("->") {
            Some(2)
        } else {
            let ends = [("-->", 3), ("--!>", 4)];
            ends.iter().filter_map(|(end, n)| Some(body.find(end)? + n)).min()
        };
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        let starts_line = line.trim_matches([' ', '\t', '>', '-', '*', '+']).is_empty();
        match end {
            Some(end) => {
                self.count("HTML comment");
                self.at += 4 + end;
            }
            None if starts_line || self.html != Html::Outside => {
                self.count("unclosed HTML comment");
                self.at = self.text.len();
            }
            None => self.keep(4),
        }
    }

    fn tag(&mut self, rest: &str, tag: &tags::Tag<'_>) {
        if tag.closing && tag.is("pre") && self.html == Html::Pre {
            self.html = Html::Block;
        }
        if tag.hides_content() {
            let void = ["img", "br", "hr", "input", "source", "wbr"].iter().any(|n| tag.is(n));
            self.count("hidden element");
            self.at += if void { tag.length } else { element_end(rest, tag) };
            return;
        }
        for _ in 0..tag.worded_attributes() {
            self.count("HTML attribute");
        }
        self.out.push_str(&tag.bare());
        self.at += tag.length;
    }
}

/// Length of an element with its content; up to the end of the paragraph when it is not closed.
fn element_end(rest: &str, open: &tags::Tag<'_>) -> usize {
    let mut depth = 1usize;
    let mut at = open.length;
    while let Some(next) = rest[at..].find('<') {
        at += next;
        if let At::Tag(tag) = tags::tag(&rest[at..]) {
            at += tag.length;
            if tag.is(open.name) {
                depth = if tag.closing { depth - 1 } else { depth + 1 };
            }
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    paragraph_end(rest).max(open.length)
}

fn paragraph_end(rest: &str) -> usize {
    rest.find("\n\n").unwrap_or(rest.len())
}

fn hides_formula(formula: &str) -> bool {
    let formula: String = formula.split_whitespace().collect();
    ["phantom{", "color{white", "color{transparent", "color{#fff", "\\tiny"]
        .iter()
        .any(|mark| formula.contains(mark))
}

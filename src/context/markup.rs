//! One pass over Markdown that leaves out what GitHub does not show.
//!
//! The order in which GitHub reads matters: a comment that begins outside of code hides everything
//! up to its end, fences included, and a fence that begins outside of a comment shows everything in
//! it. So the text is walked from left to right, and what begins first wins. Where our reading and
//! GitHub's could differ, fences are *not* recognised: then too much is removed, never too little.

use super::ahead::Ahead;
use super::formulas;
use super::hidden::{Cleaned, Counts};
use super::lines::{Lists, fence_opening, indent, info_length, without_quotes};
use super::tables::Tables;
use super::tags::{self, At};

/// Removes hidden markup once. Removing may uncover more: [`super::hidden::clean`] repeats it.
pub(super) fn strip(text: &str) -> Cleaned {
    let mut walk = Walk {
        text,
        ahead: Ahead::new(text),
        at: 0,
        out: String::with_capacity(text.len()),
        removed: Counts::new(),
        html: Html::Outside,
        lists: Lists::default(),
        tables: Tables::default(),
        surplus: None,
    };
    while walk.at < text.len() {
        let starts_line = walk.at == 0 || text.as_bytes()[walk.at - 1] == b'\n';
        let is_done = starts_line && walk.block() || walk.surplus_cells();
        if !is_done {
            walk.inline();
        }
    }
    Cleaned { text: walk.out, removed: walk.removed }
}

/// Fences whose content GitHub draws.
const DRAWN: &[&str] = &["mermaid", "geojson", "topojson", "stl"];

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
    ahead: Ahead<'a>,
    at: usize,
    out: String,
    removed: Counts,
    html: Html,
    lists: Lists,
    tables: Tables,
    /// Where cells begin in this line that are not shown.
    surplus: Option<usize>,
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
        let line = self.ahead.line(self.at);
        self.surplus = None;
        if line.trim_matches([' ', '\t', '>']).is_empty() {
            self.tables.end();
            if self.html == Html::Block {
                self.html = Html::Outside;
            }
            self.lists.maybe.clone_from(&self.lists.surely);
            return false;
        }
        if self.html != Html::Outside {
            return false;
        }
        let whole = line;
        let line = self.lists.enter(line);
        let column = self.lists.surely.last().copied().unwrap_or(0);
        if let Some((mark, length, info)) = fence_opening(&line, column) {
            self.tables.end();
            self.fence(mark, length, line.quotes, info);
            return true;
        }
        if line.rest.len() < whole.len() && line.opens_item {
            self.tables.end();
        }
        let surplus = self.tables.enter(line.rest);
        self.surplus = surplus.map(|at| self.at + whole.len() - line.rest.len() + at);
        if line.rest.starts_with('[') && line.indent <= column + 3 && self.definition(line.rest) {
            return true;
        }
        if line.rest.starts_with('<') && tags::tag(line.rest) != At::Nothing {
            let pre = matches!(tags::tag(line.rest), At::Tag(tag) if tag.is("pre") && !tag.closing);
            self.html = if pre { Html::Pre } else { Html::Block };
        }
        false
    }

    /// Cells that a table does not show are left out.
    fn surplus_cells(&mut self) -> bool {
        if self.surplus.is_none_or(|at| self.at < at) {
            return false;
        }
        self.surplus = None;
        self.at += self.ahead.line(self.at).len();
        self.count("surplus table cell");
        true
    }

    /// What begins here with this length would reach into cells that are not shown.
    fn is_cut(&self, length: usize) -> bool {
        self.surplus.is_some_and(|at| self.at < at && at < self.at + length)
    }

    /// Copies a fenced block. Its info string is not shown, so only a word of it stays. What GitHub draws
    /// from a block is not its text, so a note stands in its place.
    fn fence(&mut self, mark: char, length: usize, quotes: usize, info: &str) {
        let column = self.lists.maybe.last().copied().unwrap_or(0);
        let line = self.ahead.line(self.at);
        let label: String = info
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '.' | '_'))
            .take(20)
            .collect();
        if label.len() < info.len() {
            self.count("code fence label");
        }
        let shown = line.len() - info_length(line);
        let marks = line[..shown].trim_end_matches([mark, ' ', '\t']).len();
        let start = self.out.len() + marks;
        self.keep(shown);
        self.out.push_str(&label);
        self.at += line.len() - shown;
        let content = self.out.len();
        while self.at < self.text.len() {
            self.keep(1);
            let line = self.ahead.line(self.at);
            let Some(content) = without_quotes(line, quotes) else { break };
            let indent = indent(content);
            if !content.trim().is_empty() && indent < column {
                break;
            }
            self.keep(line.len());
            let content = content.trim();
            let closes = content.len() >= length && content.chars().all(|c| c == mark);
            if closes && indent <= column + 3 {
                break;
            }
        }
        let label = label.to_ascii_lowercase();
        let body = &self.out[content..];
        if DRAWN.contains(&label.as_str()) {
            self.left_out(start, "[a drawing was left out]", "drawing");
        } else if label == "math" && (formulas::hides(body) || formulas::comments(body)) {
            self.left_out(start, "[a formula was left out]", "invisible formula");
        }
    }

    fn left_out(&mut self, start: usize, note: &str, kind: &'static str) {
        let ends_line = self.out.ends_with('\n');
        self.out.truncate(start);
        if !self.out.is_empty() && !self.out.ends_with([' ', '\n', '\t']) {
            self.out.push(' ');
        }
        self.out.push_str(note);
        if ends_line {
            self.out.push('\n');
        }
        self.count(kind);
    }

    /// A link or footnote definition is not shown. Kept when something refers to it.
    fn definition(&mut self, line: &str) -> bool {
        let Some((label, _)) = line[1..].split_once("]:") else { return false };
        if label.is_empty() || label.len() > 999 || label.contains(['[', ']']) {
            return false;
        }
        let prefix = self.rest().find('[').unwrap_or(0);
        let from = self.at + prefix + label.len() + 3;
        let (times, seen) = self.ahead.uses(label);
        // Where it stands behind a text in brackets only, the label itself is not shown.
        let used = times > 1 && (seen > 1 || tags::is_label(label));
        if label.starts_with('^') {
            if used {
                return false;
            }
            self.count("unused footnote");
            self.at = self.paragraph_end();
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
            let shown = self.address(target);
            let kept = format!("{}[{label}]: {shown}", &self.rest()[..prefix]);
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

    /// A link's address, when it is no place to hide words in.
    fn address<'t>(&mut self, target: &'t str) -> &'t str {
        if tags::is_address(target) {
            return target;
        }
        self.count("link address");
        "link"
    }

    /// The end of the paragraph that goes on here.
    fn paragraph_end(&mut self) -> usize {
        self.ahead.find("\n\n", self.at).unwrap_or(self.text.len())
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
            b']' if rest.starts_with("][") && self.hidden_label() => {}
            b']' if rest.starts_with("](") => match tags::link_target(&rest[2..]) {
                Some((target, title, length)) if !self.is_cut(length + 2) => {
                    let shown = if target.is_empty() { target } else { self.address(target) };
                    self.out.extend(["](", shown, ")"]);
                    if title.is_some_and(|title| !title.is_empty()) {
                        self.count("link title");
                    }
                    self.at += 2 + length;
                }
                _ => self.keep(1),
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
                let most = self.surplus.map_or(usize::MAX, |at| at.saturating_sub(self.at));
                self.keep(length.min(most.max(1)));
            }
        }
    }

    /// A code span that closes on the same line stays; otherwise the backticks are characters.
    fn code_span(&mut self, rest: &str) {
        let run = rest.len() - rest.trim_start_matches('`').len();
        let line = self.ahead.line(self.at);
        let mut at = run;
        while let Some(next) = line[at..].find('`') {
            let start = at + next;
            let length = line[start..].len() - line[start..].trim_start_matches('`').len();
            at = start + length;
            if length == run && !self.is_cut(at) {
                self.keep(at);
                return;
            }
        }
        self.keep(run);
    }

    /// `[text][label]` shows no label. True when it was left out.
    fn hidden_label(&mut self) -> bool {
        let open = self.at + 1;
        let Some(end) = self.ahead.closing_bracket(open) else { return false };
        let label = &self.text[open + 1..end];
        if label.len() > 999 || tags::is_label(label) || !self.ahead.is_defined(label) {
            return false;
        }
        self.count("link label");
        self.out.push(']');
        self.at = end + 1;
        true
    }

    /// Leaves out the alternative text; what is behind it comes next.
    fn image(&mut self, rest: &str) {
        if let Some(end) = self.ahead.closing_bracket(self.at + 1) {
            let length = end - self.at;
            let alt = &rest[2..length];
            if rest[length + 1..].starts_with(['(', '[']) || alt.len() > 40 {
                if !tags::is_label(alt) {
                    self.count("image alt text");
                }
                self.out.push_str("![");
                self.at = end;
                return;
            }
        }
        self.keep(2);
    }

    fn formula(&mut self, rest: &str) {
        let open = if rest.starts_with("$$") { "$$" } else { "$" };
        let from = self.at + open.len();
        if let Some(end) = self.ahead.find(open, from) {
            let (body, after) = (&self.text[from..end], &self.text[end + open.len()..]);
            let is_formula = open == "$$" || formulas::is_formula(body, after);
            if formulas::hides(body) || (is_formula && formulas::comments(body)) {
                self.count("invisible formula");
                self.at = end + open.len();
                return;
            }
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
            let end = self.ahead.find(close, self.at).filter(|_| *open != "<!" || named);
            match end {
                Some(end) => {
                    self.count("markup declaration");
                    self.at = end + close.len();
                }
                None => self.keep(1),
            }
            return;
        }
        match tags::tag(rest) {
            At::Nothing => self.keep(1),
            At::TooLong if self.ahead.find(">", self.at).is_some() => {
                self.count("HTML attribute");
                self.at = self.ahead.find(">", self.at).map_or(self.text.len(), |end| end + 1);
            }
            At::TooLong | At::Unfinished if self.html == Html::Outside => self.keep(1),
            At::TooLong | At::Unfinished => {
                self.count("unfinished tag");
                self.at = self.paragraph_end();
            }
            At::Tag(tag) => self.tag(&tag),
        }
    }

    fn comment(&mut self, rest: &str) {
        let body = &rest[4..];
        let end = if body.starts_with('>') {
            Some(1)
        } else if body.starts_with("->") {
            Some(2)
        } else {
            let from = self.at + 4;
            let ends = [("-->", 3), ("--!>", 4)];
            ends.iter().filter_map(|(end, n)| Some(self.ahead.find(end, from)? + n - from)).min()
        };
        // Far enough back: a line that begins with more marks than that is not for reading.
        let marks = |c: &char| matches!(c, ' ' | '\t' | '>' | '-' | '*' | '+');
        let mut before = self.out.chars().rev().take(200).skip_while(marks);
        let starts_line = before.next().is_none_or(|c| c == '\n');
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

    fn tag(&mut self, tag: &tags::Tag<'_>) {
        if tag.closing && tag.is("pre") && self.html == Html::Pre {
            self.html = Html::Block;
        }
        if tag.hides_content() {
            let void = ["img", "br", "hr", "input", "source", "wbr"].iter().any(|n| tag.is(n));
            self.count("hidden element");
            self.at = match self.ahead.element_end(self.at).filter(|_| !void) {
                _ if void => self.at + tag.length,
                Some(end) => end,
                None => self.paragraph_end().max(self.at + tag.length),
            };
            return;
        }
        for _ in 0..tag.worded_attributes() {
            self.count("HTML attribute");
        }
        if tag.hides_words_in_address() {
            self.count("link address");
        }
        self.out.push_str(&tag.bare());
        self.at += tag.length;
    }
}

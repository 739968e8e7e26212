//! Which bytes of a comment are plain words of the one who wrote it.
//!
//! Reads Markdown as GitHub shows it, as far as that question needs it: quotations, code, HTML comments,
//! links and markup are not plain words. Where our reading could differ from GitHub's, text counts as
//! not plain. One pass over the lines; the time grows with the length, whatever the text is.

use super::spans;

/// For each byte of `text`, whether it is plain.
pub(super) fn shown(text: &str) -> Vec<bool> {
    let mut page = Page {
        text,
        plain: vec![false; text.len()],
        columns: Vec::new(),
        fence: None,
        chunk: None,
        quoted: false,
    };
    let mut at = 0;
    while at < text.len() {
        at = page.line(at, page.line_end(at));
    }
    page.finish();
    page.plain
}

/// Lists in lists that begin on one line.
const DEEPEST: usize = 16;

/// An open fence.
#[derive(Clone, Copy)]
struct Fence {
    mark: u8,
    length: usize,
    /// Where the text of the list item that holds it begins.
    column: usize,
}

/// A paragraph, or HTML up to the next blank line.
#[derive(Clone, Copy)]
struct Chunk {
    from: usize,
    to: usize,
    html: bool,
}

struct Page<'a> {
    text: &'a str,
    plain: Vec<bool>,
    /// Where the texts of the open list items begin, the innermost last.
    columns: Vec<usize>,
    fence: Option<Fence>,
    chunk: Option<Chunk>,
    /// The last line was a quotation's paragraph, which the next line may go on with.
    quoted: bool,
}

/// What a line turns out to be.
enum Kind {
    /// Dealt with; the next line begins here.
    Done(usize),
    /// Text from this offset of the line on.
    Text(usize),
}

impl Page<'_> {
    /// Reads one line (with its end) and returns where to go on.
    fn line(&mut self, at: usize, end: usize) -> usize {
        let line = &self.text[at..end];
        let blank = line.trim().is_empty();
        let (indent, bytes) = lead(line, 0);
        if let Some(fence) = self.fence {
            if blank || indent >= fence.column {
                if closes(fence, indent, line.trim()) {
                    self.fence = None;
                }
                return end;
            }
            self.fence = None;
        }
        if blank {
            self.finish();
            self.quoted = false;
            return end;
        }
        if let Some(chunk) = self.chunk.as_mut().filter(|chunk| chunk.html) {
            chunk.to = end;
            return end;
        }
        while self.columns.last().is_some_and(|column| *column > indent) {
            self.columns.pop();
        }
        match self.block(at, end, indent, bytes) {
            Kind::Done(next) => next,
            Kind::Text(_) if self.quoted => end,
            Kind::Text(offset) => {
                self.chunk.get_or_insert(Chunk { from: at + offset, to: end, html: false }).to =
                    end;
                end
            }
        }
    }

    /// What the line begins: list items first, then what is in them.
    fn block(&mut self, at: usize, end: usize, mut column: usize, mut offset: usize) -> Kind {
        let line = &self.text[at..end];
        for _ in 0..DEEPEST {
            let rest = &line[offset..];
            let base = self.columns.last().copied().unwrap_or(0);
            if column >= base + 4 {
                // Behind a paragraph this goes on with it; otherwise it is code.
                let open = self.chunk.is_some() || self.quoted;
                return if open { Kind::Text(offset) } else { Kind::Done(end) };
            }
            if let Some(content) = rest.strip_prefix('>') {
                self.finish();
                self.quoted = is_paragraph(content);
                return Kind::Done(end);
            }
            if let Some((mark, length)) = fence(rest) {
                self.begin();
                self.fence = Some(Fence { mark, length, column: base });
                return Kind::Done(end);
            }
            if is_rule(rest) {
                self.begin();
                return Kind::Done(end);
            }
            if let Some(width) = list_marker(rest) {
                self.begin();
                let (after, bytes) = lead(&rest[width..], column + width);
                let text = offset + width + bytes;
                let gap = after - (column + width);
                let empty = line[text..].trim().is_empty();
                self.columns.push(column + width + if empty || gap > 4 { 1 } else { gap });
                if empty {
                    return Kind::Done(end);
                }
                (column, offset) = (after, text);
                continue;
            }
            if rest.starts_with('<')
                && let Some(next) = self.html(at + offset, end)
            {
                return Kind::Done(next);
            }
            if rest.starts_with('#') {
                self.begin();
                self.chunk = Some(Chunk { from: at + offset, to: end, html: false });
                self.finish();
                return Kind::Done(end);
            }
            return Kind::Text(offset);
        }
        // Deeper than anybody writes: not looked at.
        self.begin();
        Kind::Done(end)
    }

    /// HTML that begins a line: comments, elements whose content is not plain, other blocks.
    fn html(&mut self, from: usize, end: usize) -> Option<usize> {
        let rest = &self.text[from..];
        let hidden_to = if rest.starts_with("<!--") {
            Some(rest[2..].find("-->").map(|found| from + 2 + found + 3))
        } else {
            let name = spans::tag_name(rest)?;
            let hides = ["pre", "script", "style", "textarea", "blockquote"];
            if hides.contains(&name.as_str()) {
                Some(element_end(rest, &name).map(|length| from + length))
            } else if BLOCKS.contains(&name.as_str()) {
                None
            } else {
                return None;
            }
        };
        self.begin();
        match hidden_to {
            // Not closed: it hides everything below it.
            Some(None) => Some(self.text.len()),
            Some(Some(to)) => {
                let end = self.line_end(to);
                self.chunk = Some(Chunk { from: to, to: end, html: true });
                self.finish();
                Some(end)
            }
            None => {
                self.chunk = Some(Chunk { from, to: end, html: true });
                Some(end)
            }
        }
    }

    /// Behind the end of the line that `at` is in.
    fn line_end(&self, at: usize) -> usize {
        // What ended behind its own line end has no more of it.
        let rest = self.text.get(at..).unwrap_or_default();
        rest.find('\n').map_or(self.text.len(), |end| at + end + 1)
    }

    /// A new block begins.
    fn begin(&mut self) {
        self.finish();
        self.quoted = false;
    }

    /// The paragraph is complete: now its spans can be told apart.
    fn finish(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            let (text, plain) = (&self.text[chunk.from..chunk.to], &mut self.plain);
            if let Some(plain) = plain.get_mut(chunk.from..chunk.to) {
                spans::mark(text, chunk.html, plain);
            }
        }
    }
}

/// Elements that begin a block of HTML, which ends with the next blank line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "body",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "legend",
    "li",
    "link",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "search",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "ul",
];

/// The column behind the white space at the beginning of `text`, which begins at `column`, and the
/// bytes of that white space. A tab goes to the next multiple of four.
fn lead(text: &str, mut column: usize) -> (usize, usize) {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => return (column, at),
        }
    }
    (column, text.len())
}

/// Mark and length of a fence that opens here.
fn fence(rest: &str) -> Option<(u8, usize)> {
    let mark = rest.bytes().next().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = rest.bytes().take_while(|byte| *byte == mark).count();
    let info = &rest[length..];
    (length >= 3 && (mark == b'~' || !info.contains('`'))).then_some((mark, length))
}

fn closes(fence: Fence, indent: usize, line: &str) -> bool {
    line.len() >= fence.length
        && line.bytes().all(|byte| byte == fence.mark)
        && indent <= fence.column + 3
}

/// A line across the page: `---`, `* * *`.
fn is_rule(rest: &str) -> bool {
    let mut marks = rest.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let Some(mark) = marks.next().filter(|mark| matches!(mark, b'-' | b'*' | b'_')) else {
        return false;
    };
    let mut count = 1;
    for byte in marks {
        if byte != mark {
            return false;
        }
        count += 1;
    }
    count >= 3
}

/// Bytes of `-`, `*`, `+`, `1.` or `1)` when white space follows.
fn list_marker(rest: &str) -> Option<usize> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let width = match rest.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => 1,
        b'.' | b')' if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    rest.as_bytes().get(width).is_none_or(u8::is_ascii_whitespace).then_some(width)
}

/// Whether a quoted line is text that the next line could go on with.
fn is_paragraph(content: &str) -> bool {
    let content = content.trim_start_matches(['>', ' ', '\t']).trim_end();
    !content.is_empty() && !content.starts_with('#') && fence(content).is_none()
}

/// Length of the element `name` at the beginning of `text`, with those of its kind inside it.
fn element_end(text: &str, name: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(found) = text[at..].find('<') {
        at += found;
        let rest = &text[at..];
        if let Some(closing) = rest.strip_prefix("</") {
            if starts_with_name(closing, name) {
                depth = depth.saturating_sub(1);
            }
            if depth == 0 {
                return Some(rest.find('>').map_or(text.len(), |end| at + end + 1));
            }
        } else if starts_with_name(&rest[1..], name) {
            depth += 1;
        }
        at += 1;
    }
    None
}

fn starts_with_name(text: &str, name: &str) -> bool {
    let is = text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    is && !text[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-')
}

//! HTML as text that can be read: titles, headings, paragraphs, lists, code, tables and links. Scripts,
//! styles and what a browser would not show are left out. Nothing is executed or loaded, and any bytes
//! give some text: html5gum finds the tags as the HTML standard says, and since no tree is built of them,
//! tags that are never closed or nested wrongly cost no more than their length.

use std::fmt::Write as _;

use html5gum::{DefaultEmitter, StartTag, State, StringReader, Token, Tokenizer};
use url::Url;

use super::tags::{is_hidden, utf8, value};

/// Elements whose content is no text of the page.
const SKIPPED: &[&str] = &[
    "audio", "canvas", "datalist", "embed", "iframe", "math", "noembed", "noframes", "object",
    "script", "select", "style", "svg", "template", "textarea", "video",
];

/// Elements of other languages, which may be closed where they are opened.
const FOREIGN: &[&str] = &["math", "svg"];

/// Elements without content.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Elements that begin and end a paragraph.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "html",
    "legend",
    "main",
    "nav",
    "p",
    "search",
    "section",
    "summary",
    "tbody",
    "tfoot",
    "thead",
];

/// Deepest list that is indented.
const MAX_INDENT: usize = 8;

/// Longest address of a link that is shown.
const MAX_LINK: usize = 500;

/// Makes the text of a page. `base` is where it came from.
pub fn text(html: &str, base: &Url) -> String {
    let mut page = Page::new(base.clone());
    let mut tokens = Tokenizer::new_with_emitter(html, DefaultEmitter::default());
    while let Some(Ok(token)) = tokens.next() {
        match token {
            Token::StartTag(tag) => page.start(&tag, &mut tokens),
            Token::EndTag(tag) => page.close(&utf8(&tag.name)),
            Token::String(text) => page.words(&utf8(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    page.finish()
}

type Tokens<'a> = Tokenizer<StringReader<'a>, DefaultEmitter>;

/// How the content of an element is read that runs to its closing tag, whatever stands in it. `noscript`
/// is not among them: no script runs here, so its content is shown.
fn content_state(name: &str) -> Option<State> {
    match name {
        "textarea" | "title" => Some(State::RcData),
        "iframe" | "noembed" | "noframes" | "style" | "xmp" => Some(State::RawText),
        "script" => Some(State::ScriptData),
        "plaintext" => Some(State::PlainText),
        _ => None,
    }
}

struct Page {
    base: Url,
    out: String,
    title: Option<String>,
    /// Text belongs to the title.
    in_title: bool,
    /// What is left out until this element has been closed as often as it was opened.
    hidden: Option<(String, usize)>,
    /// Open lists: the next number of an ordered one.
    lists: Vec<Option<u32>>,
    /// Depth of `pre`.
    verbatim: usize,
    /// Links that are open: where the text began, and where they lead.
    link: Option<(usize, Option<String>)>,
    /// Line ends that are due before the next word.
    breaks: usize,
    space: bool,
    /// A cell of a table was written in this row.
    cells: usize,
}

impl Page {
    fn new(base: Url) -> Page {
        Page {
            base,
            out: String::new(),
            title: None,
            in_title: false,
            hidden: None,
            lists: Vec::new(),
            verbatim: 0,
            link: None,
            breaks: 0,
            space: false,
            cells: 0,
        }
    }

    /// Takes a start tag, and has its content read as its element wants it.
    fn start(&mut self, tag: &StartTag<()>, tokens: &mut Tokens<'_>) {
        let name = utf8(&tag.name);
        if let Some(state) = content_state(&name) {
            tokens.set_state(state);
        }
        if name == "title" && self.title.is_none() && self.hidden.is_none() {
            self.title = Some(String::new());
            self.in_title = true;
            return;
        }
        self.open(&name, tag);
    }

    fn open(&mut self, name: &str, tag: &StartTag<()>) {
        let is_void = VOID.contains(&name);
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name && !is_void {
                *depth += 1;
            }
            return;
        }
        if !is_void && (SKIPPED.contains(&name) || is_hidden(tag)) {
            // In the drawings of SVG and MathML a tag can close itself; elsewhere HTML reads over the `/`.
            if !(tag.self_closing && FOREIGN.contains(&name)) {
                self.hidden = Some((name.to_owned(), 1));
            }
            return;
        }
        match name {
            "br" => self.due(1),
            "hr" => {
                self.due(2);
                self.put("---");
                self.due(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(name),
            "ul" | "menu" => self.list(None),
            "ol" => self.list(Some(value(tag, "start").and_then(|n| n.parse().ok()).unwrap_or(1))),
            "li" => self.item(),
            "pre" | "listing" => {
                self.due(2);
                self.put("```\n");
                self.verbatim += 1;
            }
            "code" | "kbd" | "samp" | "tt" if self.verbatim == 0 => self.mark(),
            "table" => self.due(2),
            "tr" => {
                self.due(1);
                self.cells = 0;
            }
            "td" | "th" => {
                if self.cells > 0 {
                    self.put(" | ");
                }
                self.cells += 1;
            }
            "a" => {
                let target = value(tag, "href").and_then(|href| self.target(&href));
                self.flush();
                self.link = Some((self.out.len(), target));
            }
            "img" => self.picture(tag),
            _ if BLOCKS.contains(&name) => self.due(2),
            _ => {}
        }
    }

    fn heading(&mut self, name: &str) {
        self.due(2);
        let level = name.as_bytes().get(1).map_or(1, |digit| usize::from(digit - b'0'));
        self.put(&format!("{} ", "#".repeat(level)));
    }

    fn picture(&mut self, tag: &StartTag<()>) {
        let alternative = value(tag, "alt").map(|alt| one_line(&alt));
        if let Some(alternative) = alternative.filter(|alternative| !alternative.is_empty()) {
            self.words(&format!(" [picture: {alternative}] "));
        }
    }

    fn close(&mut self, name: &str) {
        if self.in_title {
            self.in_title = name != "title";
            return;
        }
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name {
                *depth -= 1;
                if *depth == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "table" => self.due(2),
            "ul" | "ol" | "menu" => {
                self.lists.pop();
                self.due(if self.lists.is_empty() { 2 } else { 1 });
            }
            "li" | "tr" => self.due(1),
            "pre" | "listing" if self.verbatim > 0 => {
                self.verbatim -= 1;
                if !self.out.ends_with('\n') {
                    self.out.push('\n');
                }
                self.out.push_str("```");
                self.due(2);
            }
            "code" | "kbd" | "samp" | "tt" if self.verbatim == 0 => self.mark(),
            "a" => self.link(),
            _ if BLOCKS.contains(&name) => self.due(2),
            _ => {}
        }
    }

    fn list(&mut self, first: Option<u32>) {
        self.due(if self.lists.is_empty() { 2 } else { 1 });
        // Deeper ones are not told apart any more.
        if self.lists.len() < 1000 {
            self.lists.push(first);
        }
    }

    fn item(&mut self) {
        self.due(1);
        self.flush();
        let depth = self.lists.len().saturating_sub(1).min(MAX_INDENT);
        self.out.push_str(&"  ".repeat(depth));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let _ = write!(self.out, "{number}. ");
                *number = number.saturating_add(1);
            }
            _ => self.out.push_str("- "),
        }
    }

    /// The end of a link: its target stands behind its text.
    fn link(&mut self) {
        let Some((from, Some(target))) = self.link.take() else { return };
        let text = self.out.get(from..).unwrap_or_default().trim();
        if text.is_empty() || text == target || text.contains("](") {
            return;
        }
        let _ = write!(self.out, " ({target})");
    }

    /// Where a link leads, when it leads to another page.
    fn target(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let text = url.as_str();
        (matches!(url.scheme(), "http" | "https") && text.len() <= MAX_LINK)
            .then(|| text.to_owned())
    }

    fn mark(&mut self) {
        self.flush();
        self.out.push('`');
    }

    /// At least so many line ends before what comes next.
    fn due(&mut self, breaks: usize) {
        if self.verbatim == 0 {
            self.breaks = self.breaks.max(breaks);
        }
    }

    /// Writes the line ends and the space that are due.
    fn flush(&mut self) {
        let breaks = std::mem::take(&mut self.breaks);
        let space = std::mem::take(&mut self.space);
        if breaks > 0 {
            let trimmed = self.out.trim_end_matches(' ').len();
            self.out.truncate(trimmed);
            if !self.out.is_empty() {
                let there = self.out.bytes().rev().take_while(|byte| *byte == b'\n').count();
                self.out.push_str(&"\n".repeat(breaks.saturating_sub(there)));
            }
        } else if space && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    /// Writes as it is.
    fn put(&mut self, text: &str) {
        self.flush();
        self.out.push_str(text);
    }

    /// Writes text of the page, with white space made one space.
    fn words(&mut self, text: &str) {
        if self.in_title {
            self.title.get_or_insert_default().push_str(text);
            return;
        }
        if self.hidden.is_some() || text.is_empty() {
            return;
        }
        if self.verbatim > 0 {
            self.put(text);
            return;
        }
        let is_space = |c: char| c.is_ascii_whitespace();
        self.space |= text.starts_with(is_space);
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            self.flush();
            self.out.push_str(word);
            self.space = true;
        }
        self.space = text.ends_with(is_space);
    }

    fn finish(self) -> String {
        let body = self.out.trim_end();
        let title = self.title.as_deref().map(one_line);
        match title.filter(|title| !title.is_empty()) {
            Some(title) if !body.starts_with(&format!("# {title}")) => format!("{title}\n\n{body}"),
            _ => body.to_owned(),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

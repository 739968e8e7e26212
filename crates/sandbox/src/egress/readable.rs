//! HTML as text that can be read: titles, headings, paragraphs, lists, code, tables and links. Scripts,
//! styles and what a browser would not show are left out. Nothing is executed or loaded, and any bytes
//! give some text: tags that are never closed or nested wrongly cost no more than their length.

use std::fmt::Write as _;

use url::Url;

use super::entities::decoded;
use super::tags::{Tag, until_closed};

/// Elements whose content is no text of the page.
const SKIPPED: &[&str] = &[
    "audio", "canvas", "datalist", "embed", "iframe", "math", "noembed", "noframes", "object",
    "script", "select", "style", "svg", "template", "textarea", "video",
];

/// Elements whose content runs to their closing tag, whatever stands in it.
const RAW: &[&str] =
    &["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

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
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (before, after) = rest.split_at(at);
        page.words(before);
        rest = page.markup(after);
    }
    page.words(rest);
    page.finish()
}

struct Page {
    base: Url,
    out: String,
    title: Option<String>,
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
            hidden: None,
            lists: Vec::new(),
            verbatim: 0,
            link: None,
            breaks: 0,
            space: false,
            cells: 0,
        }
    }

    /// Takes what stands at a `<`; returns what comes behind.
    fn markup<'a>(&mut self, rest: &'a str) -> &'a str {
        if let Some(comment) = rest.strip_prefix("<!--") {
            return comment.split_once("-->").map_or("", |(_, behind)| behind);
        }
        if rest.starts_with("<!") || rest.starts_with("<?") {
            return rest.split_once('>').map_or("", |(_, behind)| behind);
        }
        let Some(tag) = Tag::parse(rest) else {
            self.words("<");
            return rest.get(1..).unwrap_or_default();
        };
        let behind = rest.get(tag.length..).unwrap_or_default();
        if tag.closing {
            self.close(&tag.name);
            return behind;
        }
        self.open(&tag);
        if !RAW.contains(&tag.name.as_str()) {
            return behind;
        }
        let (content, behind) = until_closed(behind, &tag.name);
        match tag.name.as_str() {
            "title" if self.title.is_none() && self.hidden.is_none() => {
                self.title = Some(one_line(&decoded(content)));
            }
            "xmp" => self.words(content),
            _ => {}
        }
        behind
    }

    fn open(&mut self, tag: &Tag) {
        let name = tag.name.as_str();
        let is_void = VOID.contains(&name);
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name && !is_void && !tag.is_closed {
                *depth += 1;
            }
            return;
        }
        if !is_void && (SKIPPED.contains(&name) || tag.is_hidden()) {
            // The content of raw elements is taken with them.
            if !tag.is_closed && !RAW.contains(&name) {
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
            "ol" => self.list(Some(tag.value("start").and_then(|n| n.parse().ok()).unwrap_or(1))),
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
                let target = tag.value("href").and_then(|href| self.target(href));
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

    fn picture(&mut self, tag: &Tag) {
        let alternative = tag.value("alt").map(|alt| one_line(&decoded(alt)));
        if let Some(alternative) = alternative.filter(|alternative| !alternative.is_empty()) {
            self.words(&format!(" [picture: {alternative}] "));
        }
    }

    fn close(&mut self, name: &str) {
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
        let href = decoded(href);
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

    /// Writes text of the page: entities decoded, white space made one space.
    fn words(&mut self, text: &str) {
        if self.hidden.is_some() || text.is_empty() {
            return;
        }
        let text = decoded(text);
        if self.verbatim > 0 {
            self.put(&text);
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
        match self.title.filter(|title| !title.is_empty()) {
            Some(title) if !body.starts_with(&format!("# {title}")) => format!("{title}\n\n{body}"),
            _ => body.to_owned(),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

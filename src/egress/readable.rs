//! HTML as text that can be read: titles, headings, paragraphs, lists, code, tables and links. Scripts,
//! styles and what a browser would not show are left out. Nothing is executed or loaded, and any bytes
//! give some text: tags that are never closed or nested wrongly cost no more than their length.

use std::fmt::Write as _;

use url::Url;

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
    links: Vec<(usize, Option<String>)>,
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
            links: Vec::new(),
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
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.due(2);
                let level = name.bytes().nth(1).map_or(1, |digit| usize::from(digit - b'0'));
                self.put(&format!("{} ", "#".repeat(level)));
            }
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
                self.links.push((self.out.len(), target));
            }
            "img" => {
                let alternative = tag.value("alt").map(|alt| one_line(&decoded(alt)));
                if let Some(alternative) = alternative.filter(|alternative| !alternative.is_empty())
                {
                    self.words(&format!(" [picture: {alternative}] "));
                }
            }
            _ if BLOCKS.contains(&name) => self.due(2),
            _ => {}
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
        let Some((from, target)) = self.links.pop() else { return };
        let Some(target) = target else { return };
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

/// A tag.
struct Tag {
    name: String,
    closing: bool,
    /// It closes itself: `<br/>`.
    is_closed: bool,
    attributes: Vec<(String, String)>,
    /// Bytes from `<` to `>`.
    length: usize,
}

/// Attributes of one tag that are looked at.
const MAX_ATTRIBUTES: usize = 100;

impl Tag {
    /// The tag at the start; `None` when there is none. One that never closes goes to the end.
    fn parse(text: &str) -> Option<Tag> {
        let closing = text.starts_with("</");
        let mut at = if closing { 2 } else { 1 };
        let rest = text.get(at..)?;
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>' | '<'));
        let name = rest.get(..end.unwrap_or(rest.len()))?.to_ascii_lowercase();
        at += end.unwrap_or(rest.len());
        let mut tag =
            Tag { name, closing, is_closed: false, attributes: Vec::new(), length: text.len() };
        loop {
            let rest = text.get(at..)?;
            let skipped =
                rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/').len();
            tag.is_closed = rest.get(..skipped)?.ends_with('/');
            at += skipped;
            let rest = text.get(at..)?;
            if rest.is_empty() {
                return Some(tag);
            }
            if rest.starts_with('>') {
                tag.length = at + 1;
                return Some(tag);
            }
            let (name, value, length) = attribute(rest);
            if tag.attributes.len() < MAX_ATTRIBUTES {
                tag.attributes.push((name.to_ascii_lowercase(), value.to_owned()));
            }
            at += length.max(1);
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// A browser would not show it.
    fn is_hidden(&self) -> bool {
        let style = self.value("style").unwrap_or_default();
        let style: String =
            style.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
        let conceals = |rule: &str| {
            let value = rule
                .split_once(':')
                .map(|(name, value)| (name, value.trim_end_matches("!important")));
            matches!(
                value,
                Some(
                    ("display", "none")
                        | ("visibility", "hidden" | "collapse")
                        | ("opacity", "0" | "0.0" | "0%")
                        | ("font-size", "0" | "0px" | "0em" | "0pt" | "0rem" | "0%")
                )
            )
        };
        self.value("hidden").is_some()
            || self.value("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || style.split(';').any(conceals)
    }
}

/// Name, value and length of an attribute.
fn attribute(text: &str) -> (&str, &str, usize) {
    let ends = |c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/');
    let end = text.find(ends).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let after = rest.trim_start();
    let Some(value) = after.strip_prefix('=').map(str::trim_start) else {
        return (name, "", end);
    };
    let before = text.len() - value.len();
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            let length = quoted.find(quote).unwrap_or(quoted.len());
            let (value, _) = quoted.split_at(length);
            return (name, value, (before + length + 2).min(text.len()));
        }
    }
    let length = value.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(value.len());
    (name, value.split_at(length).0, before + length)
}

/// The content of an element that only its closing tag ends, and what is behind that.
fn until_closed<'a>(text: &'a str, name: &str) -> (&'a str, &'a str) {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("</")) {
        let at = from + at;
        let after = text.get(at + 2..).unwrap_or_default();
        let is_it = after.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name))
            && after.get(name.len()..).is_none_or(|rest| {
                rest.starts_with(|c: char| c.is_whitespace() || matches!(c, '/' | '>'))
                    || rest.is_empty()
            });
        if is_it {
            let behind = after.split_once('>').map_or("", |(_, behind)| behind);
            return (text.get(..at).unwrap_or_default(), behind);
        }
        from = at + 2;
    }
    (text, "")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Named entities that pages use; others stay as they are written. Source: the HTML standard.
const ENTITIES: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("shy", ""),
    ("zwj", ""),
    ("zwnj", ""),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
    ("middot", "·"),
    ("bull", "•"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("sbquo", "‚"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bdquo", "„"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("lsaquo", "‹"),
    ("rsaquo", "›"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("deg", "°"),
    ("para", "¶"),
    ("sect", "§"),
    ("times", "×"),
    ("divide", "÷"),
    ("plusmn", "±"),
    ("minus", "−"),
    ("le", "≤"),
    ("ge", "≥"),
    ("ne", "≠"),
    ("asymp", "≈"),
    ("infin", "∞"),
    ("larr", "←"),
    ("rarr", "→"),
    ("uarr", "↑"),
    ("darr", "↓"),
    ("harr", "↔"),
    ("rArr", "⇒"),
    ("lArr", "⇐"),
    ("check", "✓"),
    ("euro", "€"),
    ("pound", "£"),
    ("yen", "¥"),
    ("cent", "¢"),
    ("micro", "µ"),
    ("frac12", "½"),
    ("frac14", "¼"),
    ("frac34", "¾"),
    ("sup2", "²"),
    ("sup3", "³"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("Auml", "Ä"),
    ("Ouml", "Ö"),
    ("Uuml", "Ü"),
    ("szlig", "ß"),
    ("eacute", "é"),
    ("egrave", "è"),
    ("ecirc", "ê"),
    ("agrave", "à"),
    ("aacute", "á"),
    ("acirc", "â"),
    ("ccedil", "ç"),
    ("iacute", "í"),
    ("oacute", "ó"),
    ("ocirc", "ô"),
    ("uacute", "ú"),
    ("ntilde", "ñ"),
    ("aring", "å"),
    ("oslash", "ø"),
    ("aelig", "æ"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("lambda", "λ"),
    ("mu", "μ"),
    ("pi", "π"),
    ("sigma", "σ"),
    ("lbrace", "{"),
    ("rbrace", "}"),
    ("lbrack", "["),
    ("rbrack", "]"),
    ("lpar", "("),
    ("rpar", ")"),
    ("num", "#"),
    ("colon", ":"),
    ("comma", ","),
    ("period", "."),
    ("sol", "/"),
    ("bsol", "\\"),
    ("lowbar", "_"),
    ("grave", "`"),
    ("vert", "|"),
    ("excl", "!"),
    ("quest", "?"),
    ("equals", "="),
    ("plus", "+"),
    ("ast", "*"),
    ("percnt", "%"),
    ("dollar", "$"),
    ("commat", "@"),
    ("semi", ";"),
    ("Tab", "\t"),
    ("NewLine", "\n"),
];

/// Text with its entities decoded.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let end = after.find(|c: char| c != '&' && c != '#' && !c.is_ascii_alphanumeric());
        let end = end.filter(|end| *end <= 32 && after[*end..].starts_with(';'));
        let meant = end.and_then(|end| entity(after.get(1..end)?));
        match (meant, end) {
            (Some(meant), Some(end)) => {
                out.push_str(&meant);
                rest = after.get(end + 1..).unwrap_or_default();
            }
            _ => {
                out.push('&');
                rest = after.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<String> {
    let Some(number) = name.strip_prefix('#') else {
        return ENTITIES.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    let c = char::from_u32(code).filter(|c| *c == '\n' || *c == '\t' || !c.is_control());
    Some(c.unwrap_or(char::REPLACEMENT_CHARACTER).to_string())
}

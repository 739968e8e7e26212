//! What the tree leaves as it is in the text: tags of HTML with their attributes, character references,
//! and how a link's target is written. Pure functions from the rest of a text to what stands there and
//! how long it is.

/// Longest tag that is parsed, in bytes. A longer one is cut off here.
const MAX_TAG: usize = 16 << 10;

/// Most attributes that are read of a tag.
const MAX_ATTRIBUTES: usize = 100;

/// Longest address of a link or picture that the model reads. Nobody sees an address, and a long one has
/// room for sentences.
const MAX_ADDRESS: usize = 120;

/// An opening or closing tag.
#[derive(Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    pub name: &'a str,
    pub closing: bool,
    /// Names in lower case, values as written.
    pub attributes: Vec<(String, &'a str)>,
    /// Bytes from `<` to `>`.
    pub length: usize,
}

/// What stands at a `<`.
#[derive(Debug, PartialEq, Eq)]
pub enum At<'a> {
    Tag(Tag<'a>),
    /// The beginning of a tag whose `>` is missing.
    Unfinished,
    /// The beginning of a tag in which a quotation mark opens and none closes.
    Quoted,
    /// The beginning of a tag that has no end within reason.
    TooLong,
    /// Just a character.
    Nothing,
}

/// Parses a tag at the start of `rest` as browsers do: whatever follows `<` and a letter is one.
pub fn tag(rest: &str) -> At<'_> {
    let closing = rest.starts_with("</");
    let from = if closing { 2 } else { 1 };
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '>');
    let length = rest[from..].find(ends).unwrap_or(rest.len() - from);
    let name = &rest[from..from + length];
    let mut at = from + length;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return At::Nothing;
    }
    let mut attributes = Vec::new();
    loop {
        at += rest[at..].find(|c: char| !c.is_whitespace() && c != '/').unwrap_or(rest.len() - at);
        match rest[at..].chars().next() {
            // A browser reads on without a limit. Stopping bounds the time for a text of many `<a`
            // without `>`.
            _ if at > MAX_TAG || attributes.len() > MAX_ATTRIBUTES => return At::TooLong,
            None => return At::Unfinished,
            Some('>') => return At::Tag(Tag { name, closing, attributes, length: at + 1 }),
            Some(_) => match attribute(&rest[at..]) {
                Some((name, value, length)) => {
                    attributes.push((name.to_ascii_lowercase(), value));
                    at += length;
                }
                None => return At::Quoted,
            },
        }
    }
}

/// Name, value and length of an attribute; `None` when its quote never closes.
fn attribute(rest: &str) -> Option<(&str, &str, usize)> {
    let ends_name = |c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/');
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let name_end = rest[first..].find(ends_name).map_or(rest.len(), |at| at + first);
    let name = &rest[..name_end];
    let skip =
        |at: usize| at + rest[at..].find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - at);
    let equals = skip(name_end);
    if !rest[equals..].starts_with('=') {
        return Some((name, "", name_end));
    }
    let value = skip(equals + 1);
    if let Some(quote @ ('"' | '\'')) = rest[value..].chars().next() {
        let length = rest[value + 1..].find(quote)?;
        return Some((name, &rest[value + 1..value + 1 + length], value + length + 2));
    }
    let ends = |c: char| c.is_whitespace() || c == '>';
    let length = rest[value..].find(ends).unwrap_or(rest.len() - value);
    Some((name, &rest[value..value + length], value + length))
}

/// Elements whose content a browser does not show as text, or GitHub removes.
const NOT_SHOWN: &[&str] = &[
    "script",
    "style",
    "template",
    "title",
    "textarea",
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "xmp",
    "plaintext",
    "svg",
    "math",
    "head",
    "audio",
    "video",
    "canvas",
];

/// Attributes that are left out without a word: layout, not text.
const LAYOUT: &[&str] = &[
    "href",
    "src",
    "width",
    "height",
    "align",
    "valign",
    "open",
    "class",
    "id",
    "name",
    "type",
    "target",
    "rel",
    "colspan",
    "rowspan",
    "start",
    "dir",
    "border",
    "cellpadding",
    "cellspacing",
    "srcset",
    "media",
    "loading",
    "lang",
];

impl Tag<'_> {
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Its content is not shown.
    pub fn hides_content(&self) -> bool {
        !self.closing
            && (NOT_SHOWN.iter().any(|name| self.is(name))
                || self.attributes.iter().any(|(name, value)| hides(name, value)))
    }

    /// Attributes that carry text which nobody sees.
    pub fn worded_attributes(&self) -> usize {
        let worded = |(name, value): &&(String, &str)| {
            !LAYOUT.contains(&name.as_str()) && !is_label(value) && name != "hidden"
        };
        self.attributes.iter().filter(worded).count()
    }

    /// The tag as the model sees it: bare, with the target of links and pictures.
    pub fn bare(&self) -> String {
        let slash = if self.closing { "/" } else { "" };
        // An unknown element shows nothing, but its name could be a sentence to a model.
        if self.has_odd_name() {
            return String::new();
        }
        let wanted = match self.name.to_ascii_lowercase().as_str() {
            "a" => "href",
            "img" => "src",
            "details"
                if !self.closing && self.attributes.iter().any(|(name, _)| name == "open") =>
            {
                return format!("<{} open>", self.name);
            }
            _ => return format!("<{slash}{}>", self.name),
        };
        let target =
            self.attributes.iter().find(|(name, value)| name == wanted && is_target(value));
        match target {
            Some((name, value)) => format!("<{} {name}=\"{value}\">", self.name),
            None => format!("<{slash}{}>", self.name),
        }
    }

    /// No element has this name, so it may be words.
    pub fn has_odd_name(&self) -> bool {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || c == '-';
        self.name.len() > 40 || !self.name.chars().all(is_usual)
    }

    /// The target of a link or picture that [`Self::bare`] leaves out.
    pub fn hides_words_in_address(&self) -> bool {
        let wanted = |name: &str| ["href", "src"].contains(&name);
        self.attributes.iter().any(|(name, value)| {
            wanted(name)
                && !value.is_empty()
                && (!is_target(value) || !(self.is("a") || self.is("img")))
        })
    }
}

fn is_target(value: &str) -> bool {
    !value.is_empty() && !value.contains(['"', '<', '>']) && is_address(value)
}

/// An address without room for a sentence: short, without blanks however they are spelled.
pub fn is_address(target: &str) -> bool {
    let lower = target.to_ascii_lowercase();
    let blanks = [
        "%20", "%09", "%0a", "%0d", "%c2%a0", "&#", "&nbsp", "&tab", "&newline", "&ensp", "&emsp",
        "&thinsp",
    ];
    target.len() <= MAX_ADDRESS
        && !target.contains(char::is_whitespace)
        && !blanks.iter().any(|blank| lower.contains(blank))
}

/// A word such as `image` or a file name, set by tools: removed without being counted.
pub fn is_label(value: &str) -> bool {
    value.len() <= 40 && !value.trim().contains(char::is_whitespace)
}

fn hides(name: &str, value: &str) -> bool {
    // CSS ignores case and most white space.
    let value: String = value.to_ascii_lowercase().split_whitespace().collect();
    let white = |v: &str| {
        matches!(
            v,
            "white"
                | "#fff"
                | "#ffff"
                | "#ffffff"
                | "#ffffffff"
                | "transparent"
                | "rgb(255,255,255)"
                | "snow"
                | "ghostwhite"
                | "ivory"
        )
    };
    match name {
        "hidden" => true,
        "aria-hidden" => value == "true",
        "color" => white(&value),
        "style" => value.split(';').any(|rule| match rule.split_once(':') {
            Some(("display", v)) => v.starts_with("none"),
            Some(("visibility", v)) => v.starts_with("hidden") || v.starts_with("collapse"),
            Some((
                "opacity" | "font-size" | "height" | "width" | "max-height" | "line-height",
                v,
            )) => {
                // `0`, `0.0px` and `.0em` are all zero.
                v.trim_start_matches(['0', '.'])
                    .trim_end_matches("!important")
                    .chars()
                    .all(|c| c.is_ascii_alphabetic() || c == '%')
                    && v.starts_with(['0', '.'])
            }
            Some(("color", v)) => white(v.trim_end_matches("!important")),
            Some(("position", v)) => v.starts_with("absolute") || v.starts_with("fixed"),
            Some(("clip" | "clip-path" | "text-indent", _)) => true,
            _ => false,
        }),
        _ => false,
    }
}

/// The character or characters of an entity and its length.
pub fn entity(rest: &str) -> Option<(String, usize)> {
    let end = rest.char_indices().take(33).find(|(_, c)| *c == ';')?.0;
    let name = &rest[1..end];
    let text = match name.strip_prefix('#') {
        Some(digits) => {
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)?.to_string()
        }
        None => match name {
            "lt" | "LT" => "<",
            "gt" | "GT" => ">",
            "amp" | "AMP" => "&",
            "quot" | "QUOT" => "\"",
            "apos" => "'",
            "nbsp" => " ",
            "excl" => "!",
            "hyphen" | "dash" => "-",
            "NewLine" => "\n",
            "Tab" => "\t",
            "grave" | "DiacriticalGrave" => "`",
            "shy" => "\u{ad}",
            "lrm" => "\u{200e}",
            "rlm" => "\u{200f}",
            "zwj" => "\u{200d}",
            "zwnj" => "\u{200c}",
            "NoBreak"
            | "ApplyFunction"
            | "af"
            | "InvisibleTimes"
            | "it"
            | "InvisibleComma"
            | "ic"
            | "ZeroWidthSpace"
            | "NegativeThinSpace"
            | "NegativeVeryThinSpace"
            | "NegativeMediumSpace"
            | "NegativeThickSpace" => "\u{2060}",
            _ => return None,
        }
        .to_owned(),
    };
    Some((text, end + 1))
}

/// Target and title of a link, from behind the `(`; length up to and with the `)`.
pub fn link_target(rest: &str) -> Option<(&str, Option<&str>, usize)> {
    let (target, mut at) = destination(rest)?;
    let gap = blank(&rest[at..]);
    at += gap;
    let mut title = None;
    if gap > 0 && !rest[at..].starts_with(')') {
        let (text, length) = quoted(&rest[at..])?;
        title = Some(text);
        at += length;
        at += blank(&rest[at..]);
    }
    rest[at..].starts_with(')').then_some((target, title, at + 1))
}

/// Parentheses inside each other in a target, as many as GitHub reads.
const MAX_DEPTH: usize = 32;

/// `<…>` or characters up to a space or the closing parenthesis, and the length with what is before.
pub fn destination(rest: &str) -> Option<(&str, usize)> {
    let start = blank(rest);
    let mut escaped = false;
    if let Some(inner) = rest[start..].strip_prefix('<') {
        for (at, c) in inner.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '>' => return Some((&inner[..at], start + at + 2)),
                '<' | '\n' => return None,
                _ => {}
            }
        }
        return None;
    }
    let mut depth = 0usize;
    for (at, c) in rest[start..].char_indices() {
        match c {
            _ if escaped && !c.is_whitespace() => escaped = false,
            '\\' => escaped = true,
            '(' if depth == MAX_DEPTH => return None,
            '(' => depth += 1,
            ')' if depth == 0 => return Some((&rest[start..start + at], start + at)),
            ')' => depth -= 1,
            c if c.is_whitespace() => return Some((&rest[start..start + at], start + at)),
            _ => {}
        }
    }
    Some((&rest[start..], rest.len()))
}

/// A text in `"…"`, `'…'` or `(…)` without a blank line in it.
pub fn quoted(rest: &str) -> Option<(&str, usize)> {
    let close = match rest.chars().next()? {
        '"' => '"',
        '\'' => '\'',
        // CommonMark: a title in parentheses contains no unescaped parenthesis.
        '(' => ')',
        _ => return None,
    };
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if rest[at + 1..].starts_with('\n') => return None,
            c if c == close => return Some((&rest[1..at], at + 1)),
            '(' if close == ')' => return None,
            _ => {}
        }
    }
    None
}

/// Length of spaces, tabs and at most one line end.
fn blank(rest: &str) -> usize {
    let mut lines = 0;
    let stays = |c: char| {
        lines += usize::from(c == '\n');
        c.is_whitespace() && lines < 2
    };
    rest.len() - rest.trim_start_matches(stays).len()
}

//! Tags of HTML as they come, well formed or not.

/// A tag.
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) closing: bool,
    /// It closes itself: `<br/>`.
    pub(super) is_closed: bool,
    attributes: Vec<(String, String)>,
    /// Bytes from `<` to `>`.
    pub(super) length: usize,
}

/// Attributes of one tag that are looked at.
const MAX_ATTRIBUTES: usize = 100;

impl Tag {
    /// The tag at the start; `None` when there is none. One that never closes goes to the end.
    pub(super) fn parse(text: &str) -> Option<Tag> {
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

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// A browser would not show it.
    pub(super) fn is_hidden(&self) -> bool {
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
pub(super) fn until_closed<'a>(text: &'a str, name: &str) -> (&'a str, &'a str) {
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

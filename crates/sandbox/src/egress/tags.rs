//! What is read of a tag of HTML.

use std::borrow::Cow;

use html5gum::StartTag;

/// Names and values as text: they are pieces of a text.
pub(super) fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The value of an attribute, its character references read.
pub(super) fn value<'a>(tag: &'a StartTag<()>, name: &str) -> Option<Cow<'a, str>> {
    tag.attributes.get(name.as_bytes()).map(|value| utf8(value))
}

/// A browser would not show it.
pub(super) fn is_hidden(tag: &StartTag<()>) -> bool {
    let style = value(tag, "style").unwrap_or_default();
    let style: String =
        style.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let conceals = |rule: &str| {
        let value =
            rule.split_once(':').map(|(name, value)| (name, value.trim_end_matches("!important")));
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
    value(tag, "hidden").is_some()
        || value(tag, "aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || style.split(';').any(conceals)
}

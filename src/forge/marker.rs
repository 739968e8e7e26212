//! Marker lines: `<!-- patchwright:<purpose> run=<id> v=1 -->` on a line of its own finds what we
//! wrote again.
//!
//! What there is one of per conversation (the progress comment) is found by its purpose, whichever
//! run wrote it ([`carries`]). What a run writes once (a review, an answer) is found by the whole
//! marker ([`carries_exactly`]). GitHub takes HTML comments out of the bodies of submitted reviews, so
//! those carry the marker a second time as a link reference that renders as nothing:
//! `[//]: # (patchwright:<purpose> run=<id> v=1)`.

/// A line of `body` is the marker, or one of the same purpose from another run.
pub(super) fn carries(body: &str, marker: &str) -> bool {
    body.lines().any(|line| is_marker(line, marker))
}

/// A line of `body` is a marker of this purpose, of whatever run.
pub(super) fn carries_purpose(body: &str, wanted: &str) -> bool {
    body.lines().any(|line| purpose(line) == Some(wanted))
}

/// A line of `body` is this marker of this run, in either form.
pub fn carries_exactly(body: &str, marker: &str) -> bool {
    let wanted = words(marker);
    !wanted.is_empty() && body.lines().any(|line| words(line) == wanted)
}

/// The line is `marker`, or one of the same purpose.
pub(super) fn is_marker(line: &str, marker: &str) -> bool {
    let (line, marker) = (line.trim(), marker.trim());
    line == marker || (purpose(line).is_some() && purpose(line) == purpose(marker))
}

/// The word after `patchwright:`; `None` when the line is no marker.
fn purpose(line: &str) -> Option<&str> {
    words(line).first().copied()
}

/// What the marker says, without `patchwright:`; empty when the line is no marker in either form.
fn words(line: &str) -> Vec<&str> {
    let line = line.trim();
    let comment = || line.strip_prefix("<!--")?.strip_suffix("-->");
    let reference = || {
        let (label, rest) = line.strip_prefix('[')?.split_once("]:")?;
        let title = rest.trim_start().strip_prefix('#')?.trim();
        let mut inside = title.chars();
        let ends = (inside.next()?, inside.next_back()?);
        let is_title = matches!(ends, ('(', ')') | ('"', '"') | ('\'', '\''));
        (is_title && !label.contains(']')).then_some(inside.as_str())
    };
    let inside = comment().or_else(reference).map(str::trim);
    let text = inside.and_then(|inside| inside.strip_prefix("patchwright:"));
    text.unwrap_or_default().split_whitespace().collect()
}

/// The same marker as a link reference; the marker itself when it is in neither form.
pub fn as_reference(marker: &str) -> String {
    let words = words(marker);
    if words.is_empty() {
        return marker.trim().to_owned();
    }
    format!("[//]: # (patchwright:{})", words.join(" "))
}

/// The body with the marker in it.
pub(super) fn marked(body: &str, marker: &str) -> String {
    if carries(body, marker) { body.to_owned() } else { format!("{body}\n\n{marker}") }
}

/// The body with this run's marker in both forms.
pub(super) fn marked_twice(body: &str, marker: &str) -> String {
    let mut whole = body.trim_end().to_owned();
    for form in [marker.trim().to_owned(), as_reference(marker)] {
        if !body.lines().any(|line| line.trim() == form) {
            whole.push_str("\n\n");
            whole.push_str(&form);
        }
    }
    whole
}

/// The body says something to people, beside markers.
pub(super) fn says_something(body: &str) -> bool {
    body.lines().any(|line| !line.trim().is_empty() && words(line).is_empty())
}

#[cfg(test)]
mod tests {
    use super::{as_reference, carries, carries_exactly, marked_twice, says_something};

    const MARKER: &str = "<!-- patchwright:progress run=b v=1 -->";

    #[test]
    fn a_marker_of_another_run_is_found_and_a_quoted_or_foreign_one_is_not() {
        for (body, found, exactly) in [
            ("x\n<!-- patchwright:progress run=a v=1 -->\ny", true, false),
            ("  <!-- patchwright:progress run=b v=1 -->  ", true, true),
            ("x\r\n<!-- patchwright:progress run=b v=1 -->\r\n", true, true),
            ("[//]: # (patchwright:progress run=b v=1)", true, true),
            ("[patchwright]: # \"patchwright:progress run=b v=1\"", true, true),
            ("[//]: # 'patchwright:progress run=a v=1'", true, false),
            ("[//]: # (patchwright:progress run=b v=1\"", false, false),
            ("> [//]: # (patchwright:progress run=b v=1)", false, false),
            ("[//]: #", false, false),
            ("[//]: # (", false, false),
            ("<!-- patchwright:pull-request run=b v=1 -->", false, false),
            ("> <!-- patchwright:progress run=b v=1 -->", false, false),
            ("<!-- patchwright:progress run=b v=1", false, false),
            ("<!---->", false, false),
            ("<!-->", false, false),
            ("", false, false),
        ] {
            assert_eq!(carries(body, MARKER), found, "{body}");
            assert_eq!(carries_exactly(body, MARKER), exactly, "{body}");
        }
        assert!(!carries_exactly("", "") && !carries_exactly("x", "x"));
    }

    #[test]
    fn a_review_body_has_both_forms_once_and_is_otherwise_left_alone() {
        let whole = marked_twice("Fine.", MARKER);
        let expected = "Fine.\n\n<!-- patchwright:progress run=b v=1 -->\n\n\
                        [//]: # (patchwright:progress run=b v=1)";
        assert_eq!(whole, expected);
        assert_eq!(marked_twice(&whole, MARKER), whole);
        assert_eq!(as_reference(&as_reference(MARKER)), as_reference(MARKER));
        assert!(says_something(&whole) && !says_something(&marked_twice("", MARKER)));
    }
}

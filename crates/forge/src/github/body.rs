//! Bodies that fit: marker lines, and GitHub's limits on comments, pull requests and titles.
//!
//! Pure functions, called before anything is written.

use super::super::marker::{as_reference, closed, described, is_marker, marked, marked_twice};
use super::super::{edits, seal};
use patchwright_base::redact::keys::without_keys;

/// Characters in the body of a comment, issue or pull request.
pub(super) const LONGEST_BODY: usize = 65_536;
const LONGEST_TITLE: usize = 256;
const CUT_NOTICE: &str = "\n\n*(cut: GitHub takes no more than 65,536 characters)*";

/// Two texts are one, as far as GitHub keeps them: line ends and outer white space do not count.
pub(super) fn same(one: &str, other: &str) -> bool {
    let lines = |text: &str| text.replace("\r\n", "\n").trim().to_owned();
    one.len().abs_diff(other.len()) < LONGEST_BODY && lines(one) == lines(other)
}

/// A description with the marker in it, cut so that the digests of what we wrote fit behind it. A cut keeps the
/// marker, because without it the text would not be found again.
pub(super) fn fit(body: &str, marker: &str) -> String {
    cut(described(body, marker), LONGEST_BODY - edits::ROOM, marker, marker.trim())
}

/// A comment with the marker at its end, cut so that a seal fits behind it.
pub(super) fn fit_comment(body: &str, marker: &str) -> String {
    cut(marked(body, marker), LONGEST_BODY - seal::ROOM, marker, marker.trim())
}

/// The body of a review with the marker in both forms, cut so that a seal fits behind it.
pub(super) fn fit_review(body: &str, marker: &str) -> String {
    let end = format!("{}\n\n{}", marker.trim(), as_reference(marker));
    cut(marked_twice(body, marker), LONGEST_BODY - seal::ROOM, marker, &end)
}

fn cut(whole: String, most: usize, marker: &str, end: &str) -> String {
    if whole.chars().count() <= most {
        return whole;
    }
    let tail = format!("{CUT_NOTICE}\n\n{end}");
    // A marker further up is taken out, so that there is exactly one.
    let rest: Vec<&str> = whole.lines().filter(|line| !is_marker(line, marker)).collect();
    let text = rest.join("\n");
    let mut room = most.saturating_sub(tail.chars().count());
    loop {
        let cut: String = text.chars().take(room).collect();
        let cut = closed(&cut, marker);
        let over = (cut.chars().count() + tail.chars().count()).saturating_sub(most);
        if over == 0 || room == 0 {
            return format!("{cut}{tail}");
        }
        // What closes it takes room as well.
        room = room.saturating_sub(over);
    }
}

/// At most `most` characters, with a sign that something was cut.
pub(super) fn fit_text(text: &str, most: usize) -> String {
    let text = &without_keys(text);
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// One line, at most 256 characters.
pub(super) fn fit_title(title: &str) -> String {
    let line = without_keys(title).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_TITLE {
        return line;
    }
    let cut: String = line.chars().take(LONGEST_TITLE - 1).collect();
    format!("{}…", cut.trim_end())
}

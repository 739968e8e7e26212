//! Bodies that fit: marker lines, and GitHub's limits on comments, pull requests and titles.
//!
//! Pure functions, called before anything is written.

use super::super::marker::{as_reference, is_marker, marked, marked_twice};

/// Characters in the body of a comment, issue or pull request.
pub(super) const LONGEST_BODY: usize = 65_536;
const LONGEST_TITLE: usize = 256;
const CUT_NOTICE: &str = "\n\n*(cut: GitHub takes no more than 65,536 characters)*";

/// The same text, as far as GitHub keeps it: line ends and outer white space do not count.
pub(super) fn same(one: &str, other: &str) -> bool {
    let lines = |text: &str| text.replace("\r\n", "\n").trim().to_owned();
    one.len().abs_diff(other.len()) < LONGEST_BODY && lines(one) == lines(other)
}

/// The body with the marker in it, cut to what GitHub takes. A cut keeps the marker, because without
/// it the text would not be found again.
pub(super) fn fit(body: &str, marker: &str) -> String {
    let whole = marked(body, marker);
    if whole.chars().count() <= LONGEST_BODY {
        return whole;
    }
    let tail = format!("{CUT_NOTICE}\n\n{marker}");
    let room = LONGEST_BODY.saturating_sub(tail.chars().count());
    // A marker further up is taken out, so that there is exactly one.
    let rest: Vec<&str> = whole.lines().filter(|line| !is_marker(line, marker)).collect();
    let cut: String = rest.join("\n").chars().take(room).collect();
    format!("{cut}{tail}")
}

/// The body of a review with the marker in both forms, cut to what GitHub takes.
pub(super) fn fit_review(body: &str, marker: &str) -> String {
    let whole = marked_twice(body, marker);
    if whole.chars().count() <= LONGEST_BODY {
        return whole;
    }
    let tail = format!("{CUT_NOTICE}\n\n{}\n\n{}", marker.trim(), as_reference(marker));
    let room = LONGEST_BODY.saturating_sub(tail.chars().count());
    let rest: Vec<&str> = whole.lines().filter(|line| !is_marker(line, marker)).collect();
    let cut: String = rest.join("\n").chars().take(room).collect();
    format!("{cut}{tail}")
}

/// At most `most` characters, with a sign that something was cut.
pub(super) fn fit_text(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// One line, at most 256 characters.
pub(super) fn fit_title(title: &str) -> String {
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_TITLE {
        return line;
    }
    let cut: String = line.chars().take(LONGEST_TITLE - 1).collect();
    format!("{}…", cut.trim_end())
}

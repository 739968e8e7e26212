//! Untrusted text on its way onto the page: visible, bounded, and all of it together no longer than a
//! browser draws at once. The template engine escapes it.

use chrono::{DateTime, Utc};
use maud::{Markup, html};

use patchwright_base::text;

/// Least that a text keeps when there are too many of them, in bytes.
const LEAST: usize = 100;
/// No text takes more than this on the page, in bytes; longer ones need not be weighed to their end.
const MAX_WEIGHED: usize = 64 << 10;

/// Visible, and at most about `most` bytes on the page.
pub(super) fn visible(untrusted: &str, most: usize) -> String {
    let clean = text::visible(&text::without_ansi(&text::head(untrusted, most.max(100))));
    let mut room = most;
    let over = clean.char_indices().find(|(_, c)| match room.checked_sub(width(*c)) {
        Some(left) => {
            room = left;
            false
        }
        None => true,
    });
    match over {
        // Too little for a notice of what is missing.
        Some((end, _)) if end < 100 => format!("{}…", &clean[..end]),
        Some((end, _)) => text::head(&clean, end),
        None => clean,
    }
}

/// Bytes that a text takes on the page, where `<` is written `&lt;`.
pub(super) fn weight(text: &str) -> usize {
    text[..text.floor_char_boundary(MAX_WEIGHED)].chars().map(width).sum()
}

/// One line that takes at most `most` bytes on the page.
pub(super) fn line(untrusted: &str, most: usize) -> String {
    let line = text::line(&untrusted[..untrusted.floor_char_boundary(4 * most)]);
    let mut room = most;
    let mut fits = |c: char| {
        let left = room.checked_sub(width(c));
        room = left.unwrap_or(0);
        left.is_some()
    };
    text::cut(&line, line.chars().take_while(|c| fits(*c)).count())
}

fn width(c: char) -> usize {
    match c {
        '<' | '>' => 4,
        '&' => 5,
        '"' => 6,
        '\n' | '\t' => 1,
        c if c.is_ascii() && !c.is_ascii_control() => 1,
        // `\u{202e}`.
        c if text::is_deceptive(c) => 8,
        c => c.len_utf8(),
    }
}

/// The most that each of these texts may take so that all fit into `room`: short ones stay whole, the
/// longest are cut.
pub(super) fn fair_share(mut weights: Vec<usize>, room: usize) -> usize {
    weights.sort_unstable();
    let mut left = room;
    let count = weights.len();
    for (at, weight) in weights.into_iter().enumerate() {
        let share = left / (count - at);
        if weight > share {
            return share.max(LEAST);
        }
        left -= weight;
    }
    usize::MAX
}

/// A link to a web page; only the text when the address is not a web address. The linked page does not learn
/// the address of the report.
pub(super) fn link(address: Option<&str>, words: &Markup) -> Markup {
    let is_web = |address: &&str| address.starts_with("https://") || address.starts_with("http://");
    html! {
        @if let Some(address) = address.filter(is_web) {
            a href=(text::line(address)) rel="noreferrer" { (words) }
        } @else { (words) }
    }
}

/// `+00:42`, `+1:02:03`: how far into the run. Absent when a clock went backwards.
pub(crate) fn elapsed(from: DateTime<Utc>, at: DateTime<Utc>) -> Option<String> {
    let seconds = u64::try_from((at - from).num_seconds()).ok()?;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(match hours {
        0 => format!("+{minutes:02}:{rest:02}"),
        _ => format!("+{hours}:{minutes:02}:{rest:02}"),
    })
}

/// `950`, `12.3k`, `3.4M`.
pub(super) fn count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number / 100 % 10),
        _ => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
    }
}

/// `1 turn`, `3 turns`.
pub(super) fn plural(number: usize, of: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {of}{end}")
}

/// The beginning of a commit's id.
pub(super) fn short(sha: &str) -> String {
    text::line(sha).chars().take(7).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_whole_and_the_longest_are_cut() {
        assert_eq!(fair_share(vec![10, 20, 30], 100), usize::MAX);
        assert_eq!(fair_share(vec![10, 900, 900], 1_010), 500);
        assert_eq!(fair_share(vec![1_000; 100], 100), LEAST);
        assert_eq!(fair_share(Vec::new(), 0), usize::MAX);
    }

    #[test]
    fn what_grows_when_it_is_escaped_is_cut_sooner() {
        for text in ["<".repeat(5_000), "\u{202e}".repeat(5_000), "é\"&".repeat(3_000)] {
            let shown = visible(&text, 1_000);
            assert!(weight(&shown) < 1_400, "{}", weight(&shown));
        }
        assert_eq!(visible("a\u{1b}[31mb\r\nc\u{200b}", 1_000), "ab\nc\\u{200b}");
    }

    #[test]
    fn numbers_read_easily() {
        assert_eq!([count(999), count(12_345), count(3_400_000)], ["999", "12.3k", "3.4M"]);
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        assert_eq!(elapsed(at(0), at(42)).unwrap(), "+00:42");
        assert_eq!(elapsed(at(0), at(3_723)).unwrap(), "+1:02:03");
        assert_eq!(elapsed(at(1), at(0)), None);
    }
}

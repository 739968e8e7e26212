//! Names that are close to what was written: the `did you mean` of messages.

use crate::error::Failure;
use crate::text;

/// Most bytes of what was written that are compared.
const MAX_GIVEN: usize = 100;

/// Adds `did you mean` when something known is close.
#[must_use]
pub fn suggest<'a>(failure: Failure, given: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    match nearest(given, known) {
        Some(name) => failure.hint(format!("did you mean `{name}`?")),
        None => failure,
    }
}

/// The known name that is meant, where no more than a third of its letters are others. Capitals, and which of `-`, `_`
/// and a blank joins its words, count for nothing.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    closest(given, known, |name| name.len() / 3)
}

/// The known name that a slip of one or two letters turns into the given one.
pub fn slip<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    closest(given, known, |name| (name.len() / 4).min(2))
}

fn closest<'a>(
    given: &str,
    known: impl Iterator<Item = &'a str>,
    most: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', ' '], "-");
    let given = plain(given);
    known
        .map(|name| (distance(&given, &plain(name)), name.len().abs_diff(given.len()), name))
        .filter(|(distance, _, name)| *distance <= most(name))
        .min()
        .map(|(_, _, name)| name)
}

/// How many letters have to be put in, taken out, replaced or swapped with the next to make one name of the other.
pub fn distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(&text::cut(one, MAX_GIVEN), other)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_that_is_almost_right_is_answered_with_the_right_one() {
        const KEYS: &[&str] = &["model", "base-url", "max-turns", "max-cost-usd", "mcp", "mode"];
        let rows = [
            ("base_url", Some("base-url")),
            ("Max Turns", Some("max-turns")),
            ("max-turn", Some("max-turns")),
            ("modle", Some("model")),
            ("colour", None),
        ];
        for (given, expected) in rows {
            assert_eq!(nearest(given, KEYS.iter().copied()), expected, "{given}");
        }
    }
}

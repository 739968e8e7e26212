//! Names that are close to what was written: the `did you mean` of messages.

use patchwright_base::error::Failure;

/// Adds `did you mean` when something known is close.
#[must_use]
pub fn suggest<'a>(failure: Failure, given: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    match closest(given, known, |name| name.len() / 3) {
        Some(name) => failure.hint(format!("did you mean `{name}`?")),
        None => failure,
    }
}

/// The known name that a slip of one or two letters turns into the given one.
pub(super) fn slip<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    closest(given, known, |name| (name.len() / 4).min(2))
}

/// True when two names differ in more than digits, so that one is not just another version of the
/// other.
pub(super) fn differs_in_letters(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect()
    };
    letters(one) != letters(other)
}

fn closest<'a>(
    given: &str,
    known: impl Iterator<Item = &'a str>,
    most: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    known
        .map(|name| (distance(&given, name), name))
        .filter(|(distance, name)| *distance <= most(name))
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein distance in bytes: how far apart two names are.
pub fn distance(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.bytes().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 1..row.len() {
            let substitution = diagonal + usize::from(byte != other[column - 1]);
            diagonal = row[column];
            row[column] = substitution.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

//! What a reviewer says of a change as a whole: the line `Verdict: …` of its final message.

/// The two words that a reviewer is asked to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverallVerdict {
    Correct,
    NeedsWork,
}

/// How people and models say no in other words. `incorrect` is that of Codex's reviewer.
const NO: &[&str] = &[
    "needs work",
    "need work",
    "needs-work",
    "needs_work",
    "incorrect",
    "not correct",
    "not ready",
    "do not merge",
    "don't merge",
    "changes requested",
    "request changes",
    "reject",
];
/// What stands where a reviewer says that the change is correct, and what is open says that it is not.
const OF_GRAVE: &str = "Verdict: needs work, because a finding of priority 0 or 1 is open. The model itself said `correct`.";
/// The whole verdict has to be one of these: `correct but for line 3` is not a yes.
const YES: &[&str] = &["correct", "patch is correct"];

/// The verdict of a message: that of its last line that has one. `None` without such a line, and when its words are
/// neither a plain yes nor a no.
pub fn said(message: &str) -> Option<OverallVerdict> {
    let words = message.lines().rev().find_map(words)?;
    let words = words.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    if NO.iter().any(|no| words.contains(no)) {
        return Some(OverallVerdict::NeedsWork);
    }
    YES.contains(&words.as_str()).then_some(OverallVerdict::Correct)
}

/// The message of a review with an open finding of priority 0 or 1: what it says may be `correct`, and then another verdict
/// stands there, which says whose it is.
pub fn of_grave(message: &str) -> String {
    if said(message) != Some(OverallVerdict::Correct) {
        return message.to_owned();
    }
    let lines: Vec<&str> = message.lines().collect();
    let last = lines.iter().rposition(|line| words(line).is_some());
    let with =
        lines.iter().enumerate().map(|(at, line)| if Some(at) == last { OF_GRAVE } else { line });
    with.collect::<Vec<_>>().join("\n")
}

/// Whether a message has a verdict, whatever its words are.
pub fn is_said(message: &str) -> bool {
    message.lines().any(|line| words(line).is_some())
}

/// What stands behind `Verdict:` in a line that begins with it, with or without marks of Markdown.
fn words(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(['*', '#', '_', '>', '-', '`', ' ', '\t']);
    let (label, rest) = line.split_at_checked("verdict".len())?;
    let rest = rest.trim_start_matches(['*', '_', ' ']);
    if label.eq_ignore_ascii_case("verdict") { rest.strip_prefix(':') } else { None }
}

#[cfg(test)]
mod tests {
    use crate::overall::{OF_GRAVE, OverallVerdict::*, is_said, of_grave, said};

    #[test]
    fn the_last_line_with_a_verdict_counts_and_only_a_plain_yes_is_one() {
        for (message, expected) in [
            ("Adds it.\n\nVerdict: correct", Some(Correct)),
            ("**Verdict:** correct.", Some(Correct)),
            ("**Verdict**: Correct", Some(Correct)),
            ("## verdict: `correct`", Some(Correct)),
            ("Verdict: patch is correct", Some(Correct)),
            ("Verdict: needs work", Some(NeedsWork)),
            ("> **Verdict: Needs work** (the link is wrong)", Some(NeedsWork)),
            ("Verdict: patch is incorrect", Some(NeedsWork)),
            ("Verdict: correct\n\nVerdict: needs work", Some(NeedsWork)),
            ("Verdict: correct, but needs work in line 3", Some(NeedsWork)),
            ("Verdict: correct but for line 3", None),
            ("Verdict: fine", None),
            ("The verdict: correct", None),
            ("", None),
        ] {
            assert_eq!(said(message), expected, "{message}");
        }
        for (message, expected) in [
            ("Adds it.\n\n**Verdict: correct**", format!("Adds it.\n\n{OF_GRAVE}")),
            ("Verdict: needs work", "Verdict: needs work".to_owned()),
            ("Adds it.", "Adds it.".to_owned()),
        ] {
            assert_eq!(of_grave(message), expected);
        }
        assert_eq!(said(OF_GRAVE), Some(NeedsWork));
        assert!(is_said("Verdict: fine") && !is_said("Verdicts differ.") && !is_said("Ünd"));
    }
}

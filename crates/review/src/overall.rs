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
    use crate::overall::{OverallVerdict::*, is_said, said};

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
        assert!(is_said("Verdict: fine") && !is_said("Verdicts differ.") && !is_said("Ünd"));
    }
}

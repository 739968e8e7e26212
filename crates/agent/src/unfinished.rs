//! Whether a reply without calls is the end that it would be. Pure, and about the words alone: whether the
//! working tree has changed is the loop's to find out.

use super::ExpectedChange;
use super::reply::AcceptedReply;
use super::stop::needs_input;
use super::written_calls;
use patchwright_guest::edit_format::fence::without_thoughts;

/// Characters of the last sentence that are looked at.
const SENTENCE: usize = 300;
/// Most words of a reply that is nothing but `Reading the files.`
const ACTIVITY: usize = 10;

/// How sentences begin that say what comes next.
const ANNOUNCEMENTS: &[&str] = &[
    "let me ",
    "let's ",
    "i'll ",
    "i will ",
    "i'm going to ",
    "i am going to ",
    "i need to ",
    "now i'll ",
    "now i will ",
    "now i need to ",
    "now, i'll ",
    "now let me ",
    "now, let me ",
    "first, i'll ",
    "first, let me ",
    "first i'll ",
    "next, i'll ",
    "next i'll ",
    "next, let me ",
    "then i'll ",
    "next step: ",
];

/// How sentences go on that only sound so.
const COURTESIES: &[&str] =
    &["let me know", "i'll be happy", "i will be happy", "i'll leave", "i will leave"];

/// What a model is busy with when it says no more.
const ACTIVITIES: &[&str] = &[
    "analysing",
    "analyzing",
    "checking",
    "editing",
    "examining",
    "exploring",
    "finding",
    "fixing",
    "gathering",
    "implementing",
    "inspecting",
    "investigating",
    "looking",
    "opening",
    "reading",
    "reproducing",
    "reviewing",
    "running",
    "searching",
    "starting",
    "testing",
    "trying",
    "updating",
    "viewing",
    "working",
    "writing",
];

/// The reply says what will be done, or writes it down, and does nothing.
pub(super) fn is_unfinished(reply: &AcceptedReply) -> bool {
    let Some(text) = &reply.text else { return false };
    if needs_input(text).is_some() {
        return false;
    }
    reply.is_commentary || written_calls::is_attempt(text) || announces(without_thoughts(text))
}

/// The text ends in an announcement, or in a script behind one.
fn announces(text: &str) -> bool {
    let text = text.trim();
    match before_script(text) {
        Some(before) => before.is_empty() || ends_in_announcement(before),
        None => ends_in_announcement(text) || text.ends_with(':'),
    }
}

/// What stands before the shell script that ends a text.
fn before_script(text: &str) -> Option<&str> {
    let inner = text.strip_suffix("```")?;
    let open = inner.rfind("```")?;
    let (language, _) = inner[open + 3..].split_once('\n')?;
    let is_script = matches!(language.trim(), "bash" | "sh" | "shell" | "console" | "zsh");
    is_script.then(|| text[..open].trim())
}

/// Whether a change is missed where these are the last words.
pub(super) fn misses(expected: ExpectedChange, words: &str) -> bool {
    match expected {
        ExpectedChange::None => false,
        ExpectedChange::Possible => asks(words),
        ExpectedChange::UnlessSaid => asks(words) || !says_nothing_to_change(words),
        ExpectedChange::Required => true,
    }
}

/// The text says that there is nothing to change, and shows no code that might be meant as the change.
fn says_nothing_to_change(text: &str) -> bool {
    const SAID: &[&str] = &[
        "nothing was changed",
        "nothing to change",
        "nothing to do",
        "changed nothing",
        "no change",
        "not from this branch",
        "cannot come from this branch",
        "not caused by",
        "already",
        "does not apply",
        "doesn't apply",
        "not applicable",
        "unchanged",
    ];
    let text = without_thoughts(text).replace('’', "'").to_lowercase();
    !text.contains("```") && SAID.iter().any(|said| text.contains(said))
}

/// The text ends in a question to somebody, who is not there to answer.
pub(super) fn asks(text: &str) -> bool {
    let text = without_thoughts(text).trim().trim_end_matches(['*', '_', '`', ')']).to_lowercase();
    let Some(rest) = text.strip_suffix('?') else { return false };
    let sentence = rest.rsplit(['.', '!', '?', ':', '\n']).next().unwrap_or_default();
    let mut words = sentence.split(|c: char| !c.is_alphanumeric());
    words.any(|word| matches!(word, "you" | "your" | "i" | "we"))
}

fn ends_in_announcement(text: &str) -> bool {
    let text = text.replace('’', "'").to_lowercase();
    let last = text.lines().next_back().unwrap_or_default();
    let last: &str = &last[last.ceil_char_boundary(last.len().saturating_sub(SENTENCE))..];
    let last = last.trim_end_matches(['.', ':', '…', ' ', '!', '*', '_']);
    // A full stop inside of a name is no end.
    let sentence = [". ", "! ", "? "]
        .iter()
        .fold(last, |sentence, end| sentence.rsplit(end).next().unwrap_or(sentence));
    let sentence = sentence.trim_start_matches(|c: char| !c.is_alphabetic());
    let begins_with = |beginnings: &[&str]| beginnings.iter().any(|it| sentence.starts_with(it));
    !begins_with(COURTESIES) && (begins_with(ANNOUNCEMENTS) || is_activity(text.trim()))
}

/// A few words about what is being done, and nothing else.
fn is_activity(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default().trim_matches(|c: char| !c.is_alphabetic());
    // The subject of a commit has no full stop.
    let is_sentence = text.ends_with(['.', '…', ':']);
    ACTIVITIES.contains(&first)
        && is_sentence
        && words.count() < ACTIVITY
        && text.lines().count() == 1
}

#[cfg(test)]
mod tests {
    use crate::unfinished::*;

    #[test]
    fn questions_to_somebody_are_told_from_ends() {
        for text in [
            "Change `a` to `b`:\n\n```py\nb\n```\n\nWould you like me to apply it?",
            "Which platform and which build options do you use?",
            "The test is wrong. **Shall I change it?**",
        ] {
            assert!(asks(text), "{text}");
        }
        for text in [
            "Done.",
            "Would you like me to apply it? I did, in `a.py`.",
            "It answers the question: is the list empty?",
            "You ask whether it can fail. It cannot.",
        ] {
            assert!(!asks(text), "{text}");
        }
    }

    #[test]
    fn what_says_that_nothing_has_to_be_changed_is_told_from_a_change_in_words() {
        assert!(says_nothing_to_change("`SECURITY.md` is there already, so nothing was changed."));
        assert!(says_nothing_to_change("The task doesn’t apply: there is no workflow."));
        assert!(!says_nothing_to_change("Add SECURITY.md"));
        assert!(!says_nothing_to_change(
            "README.md is there already. Add:\n\n```md\n# Security\n```"
        ));
    }

    #[test]
    fn announcements_are_told_from_ends() {
        for text in [
            "I'll inspect the failing test and then patch the parser.",
            "I’ll start with the tests.",
            "The sum is wrong. Let me look at it.",
            "Reading.",
            "Reading the files now...",
            "Now the tests:",
            "Let me run the tests:\n\n```bash\nmake test\n```",
            "```bash\nls\n```",
            "# Plan\n\n1. Find it.\n2. Next, I'll fix it.",
        ] {
            assert!(announces(text), "{text}");
        }
        for text in [
            "Fix median for even lists\n\nThe middle was taken once.",
            "Done.",
            "Reading a file twice no longer fails",
            "It adds `b` instead of subtracting it. Let me know if that is not what you want.",
            "Add a page\n\nTry it with\n\n```bash\nmake serve\n```",
            "The name is `a.let me b`.",
            "The function reads the file. I did not run the tests.",
            "",
        ] {
            assert!(!announces(text), "{text}");
        }
    }
}

//! The model's last message as it becomes part of a pull request and of a commit: without the line that links the issue,
//! which the report has itself, and without what only somebody in a chat could answer.

use patchwright_review::overall;

/// Words that link an issue, as GitHub reads them and as people write them.
const LINKING: &[&str] = &[
    "fix",
    "fixes",
    "fixed",
    "close",
    "closes",
    "closed",
    "resolve",
    "resolves",
    "resolved",
    "ref",
    "refs",
    "references",
    "addresses",
];

/// How offers and courtesies begin. A question that a person has to decide is not one of them.
const COURTESIES: &[&str] = &[
    "let me know if you'd like",
    "let me know if you would like",
    "let me know if you want",
    "let me know if you need",
    "let me know if you have any",
    "let me know if there's anything",
    "let me know if there is anything",
    "feel free to ask",
    "feel free to reach out",
    "feel free to let me know",
    "i hope this helps",
    "hope this helps",
    "i'm happy to help",
    "happy to help",
    "would you like me to",
    "do you want me to",
    "should i also",
    "shall i also",
    "if you have any questions",
    "if you have any other questions",
];

/// What a review says before its first word, or after its last, to somebody in a chat: whole sentences.
const ASIDES: &[&str] = &[
    "done",
    "all done",
    "review complete",
    "review done",
    "here is my review",
    "here's my review",
    "here is the review",
    "here's the review",
];

/// Sentences at the end that are looked at.
const MAX_COURTESIES: usize = 4;

/// The message without the lines that do nothing but link this very issue.
pub fn without_link(message: &str, issue: u64) -> String {
    let (mut fence, mut kept) = (Fence::default(), Vec::new());
    for line in message.lines() {
        if fence.holds(line) || !links(line, issue) {
            kept.push(line);
        } else if kept.last().is_some_and(|before| before.trim().is_empty()) {
            // One of the blank lines around it is enough.
            kept.pop();
        }
    }
    kept.join("\n")
}

/// `Fixes #7.`, `- **Closes: #7**`.
fn links(line: &str, issue: u64) -> bool {
    let bare = line.trim().trim_start_matches(['-', '*', '_', '>', ' ']);
    let bare = bare.trim_end_matches(['.', '*', '_', ' ']).replace(['*', '_', ':'], " ");
    let mut words = bare.split_whitespace();
    let (Some(verb), Some(number), None) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let digits = number.strip_prefix('#').or_else(|| number.strip_prefix("GH-"));
    LINKING.contains(&verb.to_lowercase().as_str())
        && digits.and_then(|digits| digits.parse().ok()) == Some(issue)
}

/// The message without the offers and courtesies that it ends with.
pub fn without_courtesies(message: &str) -> String {
    let mut out = message.trim_end().to_owned();
    for _ in 0..MAX_COURTESIES {
        let Some(start) = last_sentence(&out) else { break };
        let sentence = out[start..].trim_start_matches(['*', '_', '>', '-', ' ']);
        let sentence = sentence.replace('’', "'").to_lowercase();
        let sentence = sentence.strip_prefix("please ").unwrap_or(&sentence);
        if !COURTESIES.iter().any(|courtesy| sentence.starts_with(courtesy)) {
            break;
        }
        let kept = out[..start].trim_end().len();
        out.truncate(kept);
    }
    out
}

/// The words of a review without what is for a chat: a first or last sentence such as `Done.`, and offers at the end, also
/// above the line with the verdict.
pub fn of_review(message: &str) -> String {
    let message = without_courtesies(message);
    let lines: Vec<&str> = message.lines().collect();
    let verdict = lines.iter().rposition(|line| overall::is_said(line));
    // Where more than the verdict follows, the end is the end.
    let verdict = verdict.filter(|at| lines[*at..].iter().skip(1).all(|it| it.trim().is_empty()));
    let (above, verdict) = lines.split_at(verdict.unwrap_or(lines.len()));
    let mut words = without_courtesies(&above.join("\n"));
    if let Some(start) = last_sentence(&words).filter(|start| is_aside(&words[*start..])) {
        let kept = words[..start].trim_end().len();
        words.truncate(kept);
    }
    let words = without_first_aside(words.trim_start());
    match verdict.first() {
        Some(verdict) if words.is_empty() => (*verdict).to_owned(),
        Some(verdict) => format!("{words}\n\n{verdict}"),
        None if words.is_empty() => message,
        None => words.to_owned(),
    }
}

fn without_first_aside(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    let ends = [". ", "! ", "** "].iter().filter_map(|end| Some(line.find(end)? + end.len()));
    let end = ends.min().unwrap_or(line.len());
    let rest = message[end..].trim_start();
    if is_aside(&message[..end]) && !rest.is_empty() { rest } else { message }
}

fn is_aside(sentence: &str) -> bool {
    let bare = sentence.trim_matches(['*', '_', '.', '!', ' ']).replace('’', "'").to_lowercase();
    // What follows `Done:` is what was done.
    let bare = bare.strip_suffix(':').filter(|it| it.ends_with("review")).unwrap_or(&bare);
    ASIDES.contains(&bare)
}

/// The message without the questions that it ends with: nobody answers what a commit asks.
pub(super) fn without_questions(message: &str) -> String {
    let mut out = message.trim_end().to_owned();
    for _ in 0..MAX_COURTESIES {
        if !out.trim_end_matches(['*', '_']).ends_with('?') {
            break;
        }
        let Some(start) = last_sentence(&out) else { break };
        let kept = out[..start].trim_end().len();
        out.truncate(kept);
    }
    out
}

/// Where the last sentence begins; `None` within a block of code.
fn last_sentence(message: &str) -> Option<usize> {
    let mut fence = Fence::default();
    if message.lines().fold(false, |_, line| fence.holds(line)) {
        return None;
    }
    let line = message.rfind('\n').map_or(0, |at| at + 1);
    let end = message.len() - message.trim_end_matches(['.', '!', '?', '*', '_', ' ']).len();
    let body = &message[line..message.len() - end];
    let ends = [". ", "! ", "? "].iter().filter_map(|end| body.rfind(end));
    Some(ends.max().map_or(line, |at| line + at + 2))
}

/// Whether lines belong to a block of code, its fences included.
#[derive(Default)]
pub(super) struct Fence {
    open: Option<String>,
}

impl Fence {
    /// Takes the next line.
    pub(super) fn holds(&mut self, line: &str) -> bool {
        let line = line.trim();
        let run = |mark: char| line.len() - line.trim_start_matches(mark).len();
        if let Some(fence) = &self.open {
            let mark = fence.chars().next().unwrap_or('`');
            if run(mark) >= fence.len() && line.trim_start_matches(mark).is_empty() {
                self.open = None;
            }
            return true;
        }
        let mark = if run('~') >= 3 { '~' } else { '`' };
        if run(mark) >= 3 {
            self.open = Some(mark.to_string().repeat(run(mark)));
        }
        self.open.is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::model_words::*;

    #[test]
    fn only_the_line_that_links_this_issue_goes() {
        for line in ["Fixes #7", "- **Closes: #7**.", "resolves GH-7", "> Refs #7"] {
            assert_eq!(without_link(&format!("One.\n{line}\nTwo."), 7), "One.\nTwo.", "{line}");
        }
        assert_eq!(without_link("One.\n\nFixes #7\n\nTwo.", 7), "One.\n\nTwo.");
        for kept in
            ["Fixes #8", "Fixes 7", "Fixes #7 and #8", "The fix of #7", "```\nFixes #7\n```"]
        {
            assert_eq!(without_link(kept, 7), kept);
        }
    }

    #[test]
    fn a_commit_asks_nothing() {
        for (message, kept) in [
            ("Adds one.\n\nShould `human(0)` also be tested?", "Adds one."),
            ("Adds one. Is 1024 right? **Or 1000?**", "Adds one."),
            ("Why? Because it was wrong.", "Why? Because it was wrong."),
            ("```\nreally?\n```", "```\nreally?\n```"),
            ("Really?", ""),
        ] {
            assert_eq!(without_questions(message), kept);
        }
    }

    #[test]
    fn a_review_is_no_chat() {
        let bare = "It looks at the wrong path.\n\nVerdict: needs work";
        for said in [
            bare,
            "Done. It looks at the wrong path.\nShould I also propose a test for it?\nVerdict: needs work",
            "Here is my review:\n\nIt looks at the wrong path.\n\nVerdict: needs work\n\nLet me know if you need more.",
            "It looks at the wrong path. Done.\n\nVerdict: needs work",
            "**Done!** It looks at the wrong path.\n\nDone.\n\nVerdict: needs work",
        ] {
            assert_eq!(of_review(said), bare, "{said}");
        }
        for kept in [
            "Done: all.",
            "Done.",
            "Verdict: correct",
            "",
            "Is the order meant? It was the other way round.\n\nVerdict: needs work",
            "Verdict: correct\n\nThe rest was not read.",
            "It says `Done.` too early.",
            "```\nDone.\n```\n\nVerdict: correct",
        ] {
            assert_eq!(of_review(kept), kept);
        }
        assert_eq!(of_review("Done.\n\nVerdict: correct"), "Verdict: correct");
    }

    #[test]
    fn offers_at_the_end_go_and_questions_stay() {
        for (said, kept) in [
            ("Done. Let me know if you'd like more!", "Done."),
            ("Done.\n\nLet me know if you’d like anything else!", "Done."),
            ("Done.\n\nI hope this helps! Feel free to ask.", "Done."),
            ("Done. Please let me know if you have any questions.", "Done."),
            (
                "Let me know if you need it. Then I ran `make`.",
                "Let me know if you need it. Then I ran `make`.",
            ),
            ("Should the default change as well?", "Should the default change as well?"),
            ("```\nHope this helps\n```", "```\nHope this helps\n```"),
            ("Would you like me to add a test?", ""),
        ] {
            assert_eq!(without_courtesies(said), kept, "{said}");
        }
    }
}

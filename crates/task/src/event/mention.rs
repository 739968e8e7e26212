//! What a comment asks us to do: `@patchwright fix the typo`.
//!
//! Pure. A mention counts when it stands alone among the plain words of a comment: not in a quotation,
//! not in code, not in a link, not as part of a longer name. `/patchwright` at the beginning of a line
//! does the same. The first mention wins, and what follows it are the words, as they were written:
//! whoever shows them to a model cleans them first.

use super::plain_words::plain_bytes;
use patchwright_types::command::Command;

/// What is read of a comment, and kept of its words, in bytes. GitHub's comments are shorter.
const LONGEST: usize = 256 << 10;
const LONGEST_WORDS: usize = 32 << 10;
/// How far on each side of a mention its angle brackets are looked for.
const LONGEST_TAG: usize = 500;

/// What `body` asks of the account `mention` (a name, with or without `@`); `None` when it asks nothing:
/// no mention, a thank-you, or an `ignore` in the middle of a line, which [`dismisses`] takes for no word against a
/// finding.
pub fn parse(body: &str, mention: &str) -> Option<Command> {
    let name = mention.trim().trim_start_matches('@');
    if name.is_empty() {
        return None;
    }
    let body = &body[..body.floor_char_boundary(LONGEST)];
    let (from, to) = find(body, name)?;
    command(&body[..from], &body[to..])
}

/// A line of `body` begins with the mention and `ignore` or `dismiss`: somebody does not want the finding
/// that they answer.
pub fn dismisses(body: &str, mention: &str) -> bool {
    let name = mention.trim().trim_start_matches('@');
    let body = &body[..body.floor_char_boundary(LONGEST)];
    let plain = plain_bytes(body);
    let mut at = 0;
    body.split_inclusive('\n').any(|line| {
        let from = at + line.len() - line.trim_start().len();
        at += line.len();
        let Some(rest) = line.trim_start().strip_prefix(['@', '/']) else { return false };
        let is_us = rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        let all_plain = |bytes: &[bool]| bytes.iter().all(|plain| *plain);
        let counts = plain.get(from..from + 1 + name.len()).is_some_and(all_plain);
        let after = rest.get(name.len()..).unwrap_or_default();
        let spoken =
            after.trim_start_matches(|c: char| c.is_whitespace() || PUNCTUATION.contains(&c));
        let (word, _) = first_word(without_please(spoken));
        is_us && counts && ends(after) && matches!(word.as_str(), "ignore" | "dismiss")
    })
}

/// The command of a workflow's input, which may begin with the mention as a comment would; `None` when it asks nothing.
pub fn command_of_input(words: &str, mention: &str) -> Option<Command> {
    let is_mention = words.trim_start().starts_with(['@', '/']);
    let of_comment = || parse(words.trim_start(), mention);
    is_mention.then(of_comment).flatten().or_else(|| command_of(words))
}

/// The command in words without a mention; `None` when they ask nothing.
pub fn command_of(words: &str) -> Option<Command> {
    command("", &words[..words.floor_char_boundary(LONGEST)])
}

/// Where the first mention that counts is.
fn find(body: &str, name: &str) -> Option<(usize, usize)> {
    // Most comments have none, and need not be read as Markdown.
    let is_name = |at: usize| {
        let found = body.get(at + 1..at + 1 + name.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(name))
    };
    let mut places = body.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'@' | b'/'));
    let mut places = places.by_ref().filter(|(at, _)| is_name(*at)).peekable();
    places.peek()?;
    let plain = plain_bytes(body);
    places
        .map(|(at, sign)| (at, at + 1 + name.len(), sign))
        .find(|(from, to, sign)| {
            let (before, after) = (&body[..*from], &body[*to..]);
            let alone = if *sign == b'@' { opens(before) } else { begins_line(before) };
            alone
                && ends(after)
                && !is_in_angles(before, after)
                && plain.get(*from..*to).is_some_and(|plain| plain.iter().all(|plain| *plain))
        })
        .map(|(from, to, _)| (from, to))
}

/// Whether a mention may follow: nothing that could be the beginning of a name or an address, and no
/// quotation mark.
fn opens(before: &str) -> bool {
    let before = before.trim_end_matches(['*', '_', '~']);
    let Some(last) = before.chars().next_back() else { return true };
    last.is_whitespace() || is_east_asian(last) || "(,;:.!?>|–—…".contains(last)
}

/// Between `<` and `>`, as in an address that a blank made none.
fn is_in_angles(before: &str, after: &str) -> bool {
    let tail = &before[before.ceil_char_boundary(before.len().saturating_sub(LONGEST_TAG))..];
    let Some((_, inside)) = tail.rsplit_once('<') else { return false };
    let head = &after[..after.floor_char_boundary(LONGEST_TAG)];
    let begins = inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    begins
        && !inside.contains(['>', '\n'])
        && head.find('>') < head.find('\n').or(Some(usize::MAX))
        && head.contains('>')
}

fn begins_line(before: &str) -> bool {
    // Only the last characters, whatever the length of the line.
    let tail = &before[before.floor_char_boundary(before.len().saturating_sub(4))..];
    let (line, whole) = match tail.rfind('\n') {
        Some(end) => (&tail[end + 1..], true),
        None => (tail, tail.len() == before.len()),
    };
    whole && line.len() <= 3 && line.trim().is_empty()
}

/// Whether the mention is the first thing that its line says, as [`dismisses`] wants it.
fn opens_line(before: &str) -> bool {
    before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty())
}

/// Whether the name ends here: `@patchwright-next`, `@patchwright/team`, `@patchwright.dev`,
/// `@patchwright[bot]` (which is how authors are named) and `@patchwright's` are something else.
fn ends(after: &str) -> bool {
    let mut chars = after.chars();
    let Some(first) = chars.next() else { return true };
    let second = chars.next();
    let word_follows = second.is_some_and(|c| c.is_alphanumeric() || "_@/-".contains(c));
    match first {
        '.' | '_' | '-' | '*' | '~' => !word_follows,
        ',' | ':' | ';' | '!' | '?' | ')' | '<' | '|' | '–' | '—' | '…' => true,
        other => other.is_whitespace() || is_east_asian(other),
    }
}

/// Scripts written without spaces, with their punctuation.
fn is_east_asian(c: char) -> bool {
    matches!(c,
        '\u{3000}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff0f}'
        | '\u{ff1a}'..='\u{ff1f}')
}

const PUNCTUATION: &[char] =
    &[',', ':', ';', '.', '!', '?', '-', '–', '—', '*', '_', '~', ')', '|'];

/// The command in what stands around the mention.
fn command(before: &str, after: &str) -> Option<Command> {
    let after = after.trim_start_matches(|c: char| c.is_whitespace() || PUNCTUATION.contains(&c));
    let after = without_courtesy(after);
    let (first, rest) = first_word(after);
    // Commands without words of their own end with their line.
    let (_, line) = first_word(after.trim_start().lines().next().unwrap_or_default());
    // The words of a command are what follows it, or else what was said before.
    let words = || bounded(if rest.is_empty() { said(before) } else { rest });
    match first.as_str() {
        "fix" if is_ci(line) => Some(Command::FixCi),
        "fix" | "resolve" | "solve" if is_about_conflicts(line) => {
            Some(Command::Rebase { onto: None })
        }
        // `fix the review comments` says what is to be done as it stands.
        "fix" if rest.is_empty() => Some(Command::Fix { words: bounded(said(before)) }),
        "fix" => Some(Command::Fix { words: bounded(after.trim()) }),
        verb if VERBS.contains(&verb) && !rest.is_empty() => {
            Some(Command::Fix { words: bounded(after.trim()) })
        }
        "fix-ci" | "fixci" => Some(Command::FixCi),
        "plan" => Some(Command::Plan { words: words() }),
        "approve" => approve(line).or_else(|| ask(before, after)),
        "review" | "re-review" if is_about_the_change(line) => {
            Some(Command::Review { full: is_full(line) })
        }
        "describe" if is_about_the_change(line) => Some(Command::Describe { words: bounded(rest) }),
        "rebase" => rebase(line).or_else(|| ask(before, after)),
        "full" if first_word(line).0 == "review" => Some(Command::Review { full: true }),
        "stop" => Some(Command::Stop),
        "help" if line.is_empty() => Some(Command::Help),
        "ask" if !rest.is_empty() => Some(Command::Ask { words: bounded(rest) }),
        "ask" => ask(before, ""),
        "ignore" | "dismiss" => opens_line(before).then_some(Command::Ignore),
        _ => ask(before, after),
    }
}

/// Verbs that ask for a change, where something follows them. What else may be meant is a question.
const VERBS: [&str; 33] = [
    "add",
    "address",
    "adjust",
    "apply",
    "bump",
    "change",
    "convert",
    "correct",
    "create",
    "delete",
    "document",
    "drop",
    "extract",
    "implement",
    "improve",
    "inline",
    "move",
    "port",
    "refactor",
    "remove",
    "rename",
    "replace",
    "resolve",
    "revert",
    "rewrite",
    "simplify",
    "split",
    "undo",
    "update",
    "upgrade",
    "write",
    "make",
    "handle",
];

/// Without `please` in front, and without `can you` where a command follows.
fn without_courtesy(text: &str) -> &str {
    let plain = without_please(text);
    let (first, rest) = first_word(plain);
    let (second, asked) = first_word(rest);
    if matches!(first.as_str(), "can" | "could" | "would" | "will") && second == "you" {
        let asked = without_please(asked);
        let verb = first_word(asked).0;
        let is_command = matches!(
            verb.as_str(),
            "fix" | "plan" | "review" | "re-review" | "describe" | "rebase" | "stop"
        );
        if is_command || VERBS.contains(&verb.as_str()) {
            return asked;
        }
    }
    plain
}

fn without_please(mut text: &str) -> &str {
    for _ in 0..4 {
        let (word, rest) = first_word(text);
        if !matches!(word.as_str(), "please" | "pls" | "kindly" | "now" | "also" | "just") {
            break;
        }
        text = rest;
    }
    text
}

/// The first word in lower case, without punctuation around it, and what follows it.
fn first_word(text: &str) -> (String, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let around = |c: char| c == '`' || PUNCTUATION.contains(&c);
    let (word, rest) = text.split_at(end);
    let word: String = word.trim_matches(around).chars().take(80).collect();
    let rest = rest.trim();
    let empty = rest.chars().all(|c| c.is_whitespace() || around(c));
    (word.to_lowercase(), if empty { "" } else { rest })
}

/// `ci` and nothing that would be another task.
fn is_ci(rest: &str) -> bool {
    let mut words = words_of(rest);
    words.next().as_deref() == Some("ci") && words.all(|word| word == "please")
}

/// A hash, or nothing; `None` when something else is to be approved.
fn approve(rest: &str) -> Option<Command> {
    let (word, _) = first_word(rest);
    let is_hash = (6..=64).contains(&word.len()) && word.chars().all(|c| c.is_ascii_hexdigit());
    (is_hash || word.is_empty()).then_some(Command::Approve { hash: word })
}

/// `rebase`, `rebase this branch`, `rebase onto main`. With other words it is not a command.
fn rebase(rest: &str) -> Option<Command> {
    let (preposition, named) = first_word(rest);
    if !matches!(preposition.as_str(), "on" | "onto" | "to") {
        return is_about_the_change(rest).then_some(Command::Rebase { onto: None });
    }
    let plain = |word: &&str| !matches!(*word, "the" | "latest" | "newest" | "current");
    let mut words = named.split_whitespace().filter(plain);
    let name = words.next()?.trim_matches(|c: char| c == '`' || PUNCTUATION.contains(&c));
    let onto = (!matches!(name, "base" | "target")).then(|| bounded(name));
    let ends =
        |word: &str| words_of(word).all(|it| matches!(it.as_str(), "branch" | "now" | "please"));
    words.all(ends).then_some(Command::Rebase { onto })
}

/// `the merge conflicts`.
fn is_about_conflicts(rest: &str) -> bool {
    let mut is_said = false;
    let plain = "the this these all any merge git please now here";
    let all = words_of(rest).all(|word| {
        let conflicts = matches!(word.as_str(), "conflict" | "conflicts");
        is_said |= conflicts;
        conflicts || plain.split(' ').any(|plain| plain == word)
    });
    all && is_said
}

/// `review` takes words that say nothing new; with others it is not a command.
fn is_about_the_change(rest: &str) -> bool {
    let plain = "the this it my our pr pull request change changes diff branch code commit commits \
                 latest new again now please thanks once more from scratch full fully all \
                 everything completely";
    words_of(rest).all(|word| plain.split(' ').any(|plain| plain == word))
}

fn is_full(rest: &str) -> bool {
    let full = ["full", "fully", "all", "everything", "completely", "scratch"];
    words_of(rest).any(|word| full.contains(&word.as_str()))
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// A question, in what stands before and behind the mention together.
fn ask(before: &str, after: &str) -> Option<Command> {
    let (said, after) = (said(before), after.trim());
    let words = match (said.is_empty(), after.is_empty()) {
        (true, true) => return Some(Command::Help),
        (true, false) => after.to_owned(),
        (false, true) => said.to_owned(),
        (false, false) if before.trim_end_matches([' ', '\t']).ends_with('\n') => {
            format!("{said}\n\n{after}")
        }
        (false, false) => format!("{said} {after}"),
    };
    (!is_courtesy(&words)).then(|| Command::Ask { words: bounded(&words) })
}

/// What was said before a mention, without the markup that belongs to it.
fn said(before: &str) -> &str {
    let text = before.trim().trim_end_matches(['*', '_', '~', '(']).trim_end();
    if text.chars().any(char::is_alphanumeric) { text } else { "" }
}

/// Thanks and copies, to which there is nothing to answer.
fn is_courtesy(words: &str) -> bool {
    let polite = "cc fyi thanks thank thx ty you so much very many great good nice awesome amazing \
                  excellent perfect cool lovely job work catch point one again for the it all done \
                  lgtm well and a hi hello hey";
    words.len() <= 200
        && words_of(words).next().is_some()
        && words_of(words).all(|word| polite.split(' ').any(|polite| polite == word))
}

fn bounded(words: &str) -> String {
    words[..words.floor_char_boundary(LONGEST_WORDS)].trim_end().to_owned()
}

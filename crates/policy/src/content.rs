//! What a reviewer could miss in the added lines: text that shows something else than it says,
//! tests that went away, checks that were switched off. All of it flags, none of it violations.
//!
//! *Added* means: the line does not stand in the old file. That is found by counting lines, not by
//! aligning them, so it is linear and a moved line is not an added one.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::Violation;
use super::paths::folded;
use super::removed_tests::name_of;
use patchwright_base::text::code;
use patchwright_git::tree::{FileChange, Mode};

/// How the lines of two blobs differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedLines {
    /// The lines that the old blob does not have, with their numbers from 1.
    pub lines: Vec<(usize, String)>,
    /// The lines that the new blob no longer has.
    pub removed: Vec<String>,
}

impl AddedLines {
    pub fn between(old: &[u8], new: &[u8]) -> AddedLines {
        // Counting is linear and bounded. An alignment of two large files made by a stranger can
        // take quadratic time.
        let mut left: HashMap<&[u8], usize> = HashMap::new();
        for line in old.split(|b| *b == b'\n') {
            *left.entry(line).or_default() += 1;
        }
        let mut lines = Vec::new();
        for (index, line) in new.split(|b| *b == b'\n').enumerate() {
            match left.get_mut(line) {
                Some(count) if *count > 0 => *count -= 1,
                _ => lines.push((index + 1, String::from_utf8_lossy(line).into_owned())),
            }
        }
        let mut removed = Vec::new();
        for line in old.split(|b| *b == b'\n') {
            if let Some(count) = left.get_mut(line).filter(|count| **count > 0) {
                *count -= 1;
                removed.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        AddedLines { lines, removed }
    }
}

/// Git's own rule: a zero byte near the beginning.
pub(super) fn is_binary(blob: &[u8]) -> bool {
    blob.iter().take(8000).any(|b| *b == 0)
}

/// A phrase whose appearance in an added line is worth a flag.
struct Phrase {
    rule: &'static str,
    text: &'static str,
    /// Endings of the files in which it means that; empty for all.
    endings: &'static [&'static str],
    says: &'static str,
}

const SKIP: &str = "skips a test";
const LINT: &str = "switches a check off";
const JS: &[&str] = &[".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"];
const PY: &[&str] = &[".py", ".pyi"];
const RS: &[&str] = &[".rs"];
const JVM: &[&str] = &[".java", ".kt", ".kts", ".groovy", ".scala", ".cs"];
const CI: &[&str] = &[".yml", ".yaml"];

const fn skip(text: &'static str, endings: &'static [&'static str]) -> Phrase {
    Phrase { rule: "tests.skipped", text, endings, says: SKIP }
}

const fn lint(text: &'static str, endings: &'static [&'static str]) -> Phrase {
    Phrase { rule: "checks.disabled", text, endings, says: LINT }
}

const PHRASES: &[Phrase] = &[
    skip("#[ignore", RS),
    skip("pytest.mark.skip", PY),
    skip("pytest.mark.xfail", PY),
    skip("pytest.skip(", PY),
    skip("unittest.skip", PY),
    skip("self.skipTest(", PY),
    skip("it.skip(", JS),
    skip("it.only(", JS),
    skip("test.skip(", JS),
    skip("test.only(", JS),
    skip("test.todo(", JS),
    skip("describe.skip(", JS),
    skip("describe.only(", JS),
    skip("xit(", JS),
    skip("xdescribe(", JS),
    skip("xtest(", JS),
    skip("t.Skip(", &[".go"]),
    skip("t.SkipNow(", &[".go"]),
    skip("@Ignore", JVM),
    skip("@Disabled", JVM),
    skip("[Ignore", &[".cs"]),
    skip("markTestSkipped(", &[".php"]),
    skip("--passWithNoTests", &[]),
    skip("-DskipTests", &[]),
    skip("-Dmaven.test.skip", &[]),
    lint("#[allow(", RS),
    lint("#![allow(", RS),
    lint("eslint-disable", JS),
    lint("biome-ignore", JS),
    lint("@ts-ignore", JS),
    lint("@ts-nocheck", JS),
    lint("# noqa", PY),
    lint("# type: ignore", PY),
    lint("# pylint: disable", PY),
    lint("# pyright: ignore", PY),
    lint("# nosec", PY),
    lint("# pragma: no cover", PY),
    lint("nolint", &[".go"]),
    lint("@SuppressWarnings", JVM),
    lint("rubocop:disable", &[".rb"]),
    lint("phpcs:ignore", &[".php"]),
    lint("@phpstan-ignore", &[".php"]),
    lint("NOLINT", &[".c", ".cc", ".cpp", ".h", ".hpp"]),
    lint("shellcheck disable", &[".sh", ".bash"]),
    lint("continue-on-error: true", CI),
    lint("allow_failure: true", CI),
    lint("|| true", CI),
    lint("--no-verify", &[]),
];

/// Line numbers with the matched text.
type Hits<'a> = Vec<(usize, &'a str)>;

/// Flags for a text file.
pub(super) fn check(file: &FileChange, added: &AddedLines, flags: &mut Vec<Violation>) {
    let path = folded(&file.path);
    let flag = |rule: &str, message| Violation::new(rule, Some(file.path.clone()), message);
    let mut by_rule: Vec<(&str, &str, Hits<'_>)> = Vec::new();
    for phrase in PHRASES {
        let applies =
            phrase.endings.is_empty() || phrase.endings.iter().any(|ending| path.ends_with(ending));
        if !applies {
            continue;
        }
        let hits = added.lines.iter().filter(|(_, line)| contains_word(line, phrase.text));
        for (number, _) in hits {
            match by_rule.iter_mut().find(|(rule, ..)| *rule == phrase.rule) {
                Some((_, _, lines)) => lines.push((*number, phrase.text)),
                None => by_rule.push((phrase.rule, phrase.says, vec![(*number, phrase.text)])),
            }
        }
    }
    for (rule, says, lines) in by_rule {
        flags.push(flag(rule, format!("{says}: {}", first_three(&lines))));
    }
    if let Some(message) = fewer_tests(&path, added) {
        flags.push(flag("tests.removed", message));
    } else if is_test(&path) {
        let gone = added.removed.iter().filter(|line| says_something(line)).count();
        if gone > 0 {
            let message =
                format!("{gone} line(s) of a test that was there before are changed or gone");
            flags.push(flag("tests.changed", message));
        }
    }
    for (rule, says, of) in DECEPTIONS {
        let hits = added.lines.iter().filter_map(|(number, line)| Some((*number, of(line)?)));
        let hits: Vec<(usize, String)> = hits.collect();
        if !hits.is_empty() {
            let shown: Hits<'_> = hits.iter().map(|(n, t)| (*n, t.as_str())).collect();
            flags.push(flag(rule, format!("{says}: {}", first_three(&shown))));
        }
    }
}

/// Whether a test can say less without this line: blank lines, comments, imports and lone brackets say nothing.
pub(super) fn says_something(line: &str) -> bool {
    let line = line.trim();
    let is_import = ["import ", "from ", "use ", "#", "//", "/*", "*", "package ", "--"]
        .iter()
        .any(|start| line.starts_with(start));
    !is_import && line.chars().any(char::is_alphanumeric)
}

/// `xit(` must not be found in `exit(`.
fn contains_word(line: &str, phrase: &str) -> bool {
    let starts_word = phrase.starts_with(|c: char| c.is_ascii_alphanumeric());
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        // A dot counts as part of the word, so `exit.it(` of another object is no test.
        !starts_word || !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
    })
}

fn first_three(lines: &[(usize, &str)]) -> String {
    let shown: Vec<String> =
        lines.iter().take(3).map(|(number, what)| format!("line {number}: {what}")).collect();
    match lines.len() {
        0..=3 => shown.join("; "),
        more => format!("{}; and {} more", shown.join("; "), more - 3),
    }
}

/// A flag for a file that nobody can read in a diff and that could be read before, or is new.
pub(super) fn check_binary(file: &FileChange, old: &[u8], new: &[u8], flags: &mut Vec<Violation>) {
    let is_link = file.new.is_some_and(|new| new.mode == Mode::Symlink);
    if is_link || !is_binary(new) || is_binary(old) {
        return;
    }
    let what = if file.old.is_none() { "binary file added" } else { "is a binary file now" };
    let message = format!("{what} ({} bytes)", new.len());
    flags.push(Violation::new("content.binary", Some(file.path.clone()), message));
}

/// Flags for a file that is gone.
pub(super) fn check_deleted(file: &FileChange, flags: &mut Vec<Violation>) {
    let was_text = file.old.is_some_and(|old| old.mode != Mode::Gitlink);
    if file.new.is_none() && was_text && is_test(&folded(&file.path)) {
        let message = "a test file is deleted";
        flags.push(Violation::new("tests.deleted", Some(file.path.clone()), message));
    }
}

/// Whether a (folded) path is one where tests usually are.
pub fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let in_folder = path.split('/').rev().skip(1).any(|s| {
        matches!(s, "test" | "tests" | "spec" | "specs" | "__tests__" | "testing" | "e2e")
            // Projects of .NET: `Calc.Tests`.
            || ends_in(s, &[".test", ".tests"])
    });
    let marked = name.contains(".test.") || name.contains(".spec.");
    in_folder
        || marked
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || matches!(stem, "test" | "tests")
        || ((stem.ends_with("test") || stem.ends_with("tests"))
            && JVM.iter().chain(&[".php", ".swift", ".fs", ".vb"]).any(|it| name.ends_with(it)))
}

/// Whether a folded name has one of these endings.
pub(super) fn ends_in(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

/// How a test begins, by file ending.
const TEST_STARTS: &[(&[&str], &[&str])] = &[
    (RS, &["#[test]", "#[tokio::test"]),
    (PY, &["def test_", "async def test_"]),
    (JS, &["it(", "test("]),
    (&[".go"], &["func Test"]),
    (JVM, &["@Test", "[Fact]", "[Test]"]),
    (&[".rb"], &["it '", "it \"", "def test_", "test '", "test \""]),
];

/// What is to be said of tests that are no longer there: more went than came, or names are gone.
fn fewer_tests(path: &str, added: &AddedLines) -> Option<String> {
    let starts = TEST_STARTS.iter().find(|(e, _)| e.iter().any(|e| path.ends_with(e)))?.1;
    let is_start = |line: &str| starts.iter().any(|start| line.trim_start().starts_with(start));
    let gone = added.removed.iter().filter(|line| is_start(line)).count();
    let came = added.lines.iter().filter(|(_, line)| is_start(line)).count();
    let lines = |removed: &String| name_of(path, removed);
    let new: HashSet<String> =
        added.lines.iter().filter_map(|(_, line)| name_of(path, line)).collect();
    let names: Vec<String> = added.removed.iter().filter_map(lines).collect();
    let names: Vec<String> = names.into_iter().filter(|name| !new.contains(name)).collect();
    if gone <= came && names.is_empty() {
        return None;
    }
    let mut message = format!("{} test(s) removed or renamed, {came} added", gone.max(names.len()));
    let shown: Vec<String> = names.iter().take(3).map(|name| code(name)).collect();
    if !shown.is_empty() {
        let _ = write!(message, ": {}", shown.join(", "));
    }
    if names.len() > shown.len() {
        let _ = write!(message, " and {} more", names.len() - shown.len());
    }
    Some(message)
}

type DeceptionRule = (&'static str, &'static str, fn(&str) -> Option<String>);

const DECEPTIONS: &[DeceptionRule] = &[
    ("content.bidi", "text direction is overridden", bidi),
    ("content.invisible", "has characters that cannot be seen", invisible),
    ("content.homoglyph", "mixes look-alike letters of two scripts", homoglyph),
];

fn named(chars: impl Iterator<Item = char>) -> Option<String> {
    let mut seen: Vec<char> = Vec::new();
    for c in chars {
        if !seen.contains(&c) && seen.len() < 5 {
            seen.push(c);
        }
    }
    let names: Vec<String> = seen.iter().map(|c| format!("U+{:04X}", u32::from(*c))).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

fn bidi(line: &str) -> Option<String> {
    let is = |c: &char| {
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{200e}' | '\u{200f}' | '\u{61c}')
    };
    named(line.chars().filter(is))
}

fn invisible(line: &str) -> Option<String> {
    // A byte order mark at the start of a file is usual on Windows.
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let mut before = ' ';
    let mut found = Vec::new();
    for c in line.chars() {
        // A zero-width joiner or variation selector after an emoji is part of that emoji.
        let joins_emoji = matches!(c, '\u{200d}' | '\u{fe0f}') && before > '\u{203b}';
        let hidden = matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
            | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'
            | '\u{180e}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{0}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}');
        if hidden && !joins_emoji {
            found.push(c);
        }
        before = c;
    }
    named(found.into_iter())
}

/// A word with letters of Latin and of a script whose letters look like Latin ones.
fn homoglyph(line: &str) -> Option<String> {
    if line.is_ascii() {
        return None;
    }
    // Greek, Cyrillic, Armenian, Cherokee, full-width and mathematical letters have look-alikes of
    // Latin ones.
    let foreign = |c: &char| {
        matches!(c, '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}' | '\u{531}'..='\u{58f}'
            | '\u{13a0}'..='\u{13ff}' | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
    };
    let mixed = |word: &&str| {
        word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(|c| foreign(&c))
    };
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    // A single Greek letter beside Latin ones is mathematics (`Δt`, `μs`), not disguise.
    let science = |word: &&str| {
        let count = word.chars().filter(foreign).count();
        count == 1 && word.chars().any(|c| matches!(c, 'Α'..='ω') && !"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο".contains(c))
    };
    named(words.filter(mixed).filter(|w| !science(w)).flat_map(str::chars).filter(foreign))
}

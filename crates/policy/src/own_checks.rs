//! A change to what judges it: a file that a check's own command runs. Who makes it say less, or end early, decides what
//! the check says, so a pass of it is no evidence until a person has looked. Who only adds to it, as a test is added to a
//! script of tests, does not.

use super::content::{AddedLines, is_test, says_something};
use super::paths::folded;
use super::{Blobs, Violation};
use patchwright_git::tree::FileChange;

/// The flag's rule. It makes the pull request a draft, as every flag about paths does.
pub const RULE: &str = "path.check";

/// Shells: a file that one of these runs is a script.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ksh", "zsh", ".", "source"];
/// Interpreters: a file that one of these runs may be the program under test.
const INTERPRETERS: &[&str] = &["python", "python3", "node", "ruby", "perl", "php", "bun", "lua"];
/// Words that may stand in front of the program of a command.
const WRAPPERS: &[&str] =
    &["env", "exec", "time", "timeout", "nice", "sudo", "!", "if", "then", "do"];
/// Words in the paths of files that check something.
const CHECKING: &[&str] = &["test", "check", "verify", "lint", "ci", "spec"];
/// Endings of scripts; a test in any other language is edited with the code that it tests.
const SCRIPTS: &[&str] = &["sh", "bash", "zsh", "ps1", "bat", "cmd"];

/// One flag for each of `files` that one of the `commands` runs and that says less than before.
pub fn flags<'a>(
    files: &[FileChange],
    commands: &(impl Iterator<Item = &'a str> + Clone),
    blobs: &dyn Blobs,
) -> Vec<Violation> {
    let mut flags = Vec::new();
    let judges = files.iter().filter(|file| is_judge(&file.path) && may_say_less(file, blobs));
    for file in judges {
        if let Some(command) = commands.clone().find(|command| runs(command, &file.path)) {
            let what = if file.new.is_some() { "is run" } else { "was run" };
            let command = patchwright_base::text::code(command);
            let message =
                format!("{what} by the check {command}, so the change decides what that says");
            flags.push(Violation::new(RULE, Some(file.path.clone()), message));
        }
    }
    flags
}

/// Whether the change takes lines from the file, or adds some that can end it early; true when it cannot be read.
fn may_say_less(file: &FileChange, blobs: &dyn Blobs) -> bool {
    let Some(old) = file.old else { return false };
    let (Some(old), Some(new)) =
        (blobs.read(old.oid), file.new.and_then(|new| blobs.read(new.oid)))
    else {
        return true;
    };
    let between = AddedLines::between(&old, &new);
    between.removed.iter().any(|line| says_something(line))
        || between.lines.iter().any(|(_, line)| ends_early(line))
}

/// Whether a line can end a script, or hides that something failed.
fn ends_early(line: &str) -> bool {
    const ENDING: &[&str] =
        &["exit", "return", "exec", "trap", "quit", "sys.exit", "os._exit", "process.exit"];
    const HIDING: &[&str] = &["|| true", "||true", "|| :", "||:", "set +e", "set +o errexit"];
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut words = line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).peekable();
    let mut ends = false;
    while let Some(word) = words.next() {
        // With another code than 0 it ends in a failure.
        let fails =
            words.peek().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code > 0);
        ends |= ENDING.contains(&word) && !fails;
    }
    ends || HIDING.iter().any(|hiding| line.contains(hiding))
}

/// Tests of a language are excepted: `pytest tests/test_sums.py` names one, and its lines are looked at by themselves.
fn is_judge(path: &str) -> bool {
    let path = folded(path);
    let name = path.rsplit('/').next().unwrap_or(&path);
    let is_script = name.rsplit_once('.').is_none_or(|(_, ending)| SCRIPTS.contains(&ending));
    is_script || !is_test(&path)
}

/// Whether a command of a shell runs this file, from the root of the repository or from a folder that it changes into.
/// Files that it names otherwise are not what decides: sources to compile, manifests, what a linter looks at.
fn runs(command: &str, path: &str) -> bool {
    let mut folder = String::new();
    command.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`']).any(|simple| {
        let words = simple.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let mut words = words.skip_while(|word| is_before_program(word));
        let Some(program) = words.next() else { return false };
        let mut arguments = words.filter(|word| !word.starts_with('-'));
        let is_it = |word: &str| {
            let word = word.strip_prefix("./").unwrap_or(word);
            word == path || path.strip_prefix(folder.as_str()) == Some(word) && !folder.is_empty()
        };
        if SHELLS.contains(&program) {
            return arguments.next().is_some_and(is_it);
        }
        if INTERPRETERS.contains(&program) {
            return arguments.next().is_some_and(is_it) && checks_something(path);
        }
        let is_program = is_it(program);
        if program == "cd" {
            let into = arguments.next().unwrap_or_default();
            folder = format!("{}/", into.trim_start_matches("./").trim_end_matches('/'));
        }
        is_program
    })
}

/// `CI=1`, `env`, `timeout 60`, `-k`.
fn is_before_program(word: &str) -> bool {
    let is_variable = word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    is_variable || is_number || word.starts_with('-') || WRAPPERS.contains(&word)
}

fn checks_something(path: &str) -> bool {
    let path = folded(path);
    let mut words = path.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        CHECKING.iter().any(|part| word == *part || word.strip_suffix('s') == Some(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_however_the_command_runs_it() {
        for (command, path) in [
            ("sh ./test.sh", "test.sh"),
            ("./test.sh", "test.sh"),
            ("bash -eu test.sh --all", "test.sh"),
            ("cd tools && ./test.sh; true", "tools/test.sh"),
            // It may have come back before.
            ("cd build && make && cd .. && ./test.sh", "test.sh"),
            ("CI=1 timeout 60 'script/cibuild' || exit 1", "script/cibuild"),
            ("make && . ci/env.sh", "ci/env.sh"),
            ("python3 -u ci/run.py", "ci/run.py"),
            ("node scripts/run-tests.js", "scripts/run-tests.js"),
        ] {
            assert!(runs(command, path), "{command}");
        }
    }

    #[test]
    fn what_a_command_only_names_is_what_it_is_about() {
        for (command, path) in [
            ("npm test", "test"),
            ("sh ./latest.sh", "test.sh"),
            ("cat tests/test.sh", "tests/test.sh"),
            ("cc -o t calc.c && ./t", "calc.c"),
            ("cargo test --manifest-path Cargo.toml", "Cargo.toml"),
            ("shellcheck calc.sh", "calc.sh"),
            ("node server.js", "server.js"),
            ("tsc -p tsconfig.json", "tsconfig.json"),
        ] {
            assert!(!runs(command, path), "{command}");
        }
    }

    #[test]
    fn who_only_adds_to_a_check_does_not_decide_what_it_says() {
        for line in
            ["exit 0", "check 4 IV || true", "  set +e", "sys.exit(0)", "trap 'exit 0' EXIT"]
        {
            assert!(ends_early(line), "{line}");
        }
        for line in
            ["check 4 IV", "echo exits", "[ \"$(add 2 3)\" = 5 ] || { echo wrong; exit 1; }"]
        {
            assert!(!ends_early(line), "{line}");
        }
    }

    #[test]
    fn tests_in_a_language_judge_their_code_and_scripts_judge_the_change() {
        for path in ["test.sh", "scripts/check", "ci/run.py", "tests/all.SH"] {
            assert!(is_judge(path), "{path}");
        }
        for path in ["tests/test_sums.py", "src/sums.test.ts", "sums_test.go"] {
            assert!(!is_judge(path), "{path}");
        }
    }
}

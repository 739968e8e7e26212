//! Whether the words of a test command of CI are about a part of the tests.

use crate::ci::{self, StepPurpose};

/// Every test command of a step names the part of the tests that it runs.
pub(super) fn is_part(command: &str) -> bool {
    let joined = command.replace("\\\n", " ");
    let parts = joined.lines().flat_map(|line| line.split("&&"));
    let mut tests = parts.filter(|part| ci::purpose(part) == StepPurpose::Test).peekable();
    tests.peek().is_some() && tests.all(names_part)
}

fn names_part(test: &str) -> bool {
    let words: Vec<&str> = test.split_whitespace().collect();
    let has = |program: &str| words.contains(&program);
    let places = words.iter().skip(1).filter(|word| !word.starts_with('-'));
    places.clone().any(|word| is_below_tests(word) || is_file_of_tests(word))
        || (has("cargo") && is_part_of_crates(&words))
        || (has("go") && is_one_package(&words))
        || (has("unittest") && starts_beside_tests(&words))
}

/// `tests/unit`: a folder or a file among the tests.
fn is_below_tests(word: &str) -> bool {
    let word = word.trim_start_matches("./");
    ["tests/", "test/", "spec/"].iter().any(|it| word.starts_with(it))
        && word.trim_end_matches('/').contains('/')
}

/// `tools/test_names.py`, `tests/test_a.py::test_b`.
fn is_file_of_tests(word: &str) -> bool {
    let file = word.split("::").next().unwrap_or(word);
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.strip_suffix(".py").unwrap_or_default();
    stem.starts_with("test_") || stem.ends_with("_test")
}

/// What of `cargo test` has no value behind it: what follows any other option may be its value.
const FLAGS: &[&str] = &["test", "run", "-v", "--verbose", "--release", "--workspace", "--all"];

/// Documents, one file of tests, the library alone, or one package.
fn is_part_of_crates(words: &[&str]) -> bool {
    let before: Vec<&str> = words.iter().copied().take_while(|word| *word != "--").collect();
    let has = |option: &str| {
        before.iter().any(|word| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    let mut followed = before.iter().zip(before.iter().skip(1));
    let names_tests = followed.any(|(first, word)| {
        FLAGS.contains(first) && !word.starts_with('-') && !FLAGS.contains(word)
    });
    let is_library = has("--lib") && !has("--tests");
    names_tests
        || is_library
        || ["--doc", "--test", "-p", "--package"].iter().any(|option| has(option))
}

/// `go test ./server/...`, and nothing beside it.
fn is_one_package(words: &[&str]) -> bool {
    let mut places = words.iter().filter(|word| word.starts_with("./"));
    places.next().is_some_and(|place| *place != "./..." && *place != "./")
        && places.next().is_none()
}

/// `unittest discover -s tools`: from a folder that is not the one of the tests.
fn starts_beside_tests(words: &[&str]) -> bool {
    let mut words = words.iter().skip_while(|word| !["-s", "--start-directory"].contains(*word));
    let start = words.nth(1).map(|word| word.trim_start_matches("./").trim_end_matches('/'));
    start.is_some_and(|start| !["", ".", "test", "tests", "src", "src/tests"].contains(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_by_what_a_test_command_names() {
        let rows = [
            ("cargo test", false),
            ("cargo test --workspace --all-features", false),
            ("cargo test --doc --all-features", true),
            ("cargo test --test integration", true),
            ("cargo test --tests", false),
            ("cargo test pass", true),
            ("cargo nextest run --release server", true),
            ("cargo test --features full", false),
            ("cargo nextest run", false),
            ("cargo test --verbose -p core", true),
            ("cargo test --package=core", true),
            ("cargo test --lib", true),
            ("cargo test --lib --tests --bins", false),
            ("cargo test -- --test-threads 1", false),
            ("cargo nextest run --workspace\ncargo test --doc", false),
            ("cargo test -p core && cargo test -p util", true),
            ("go test ./...", false),
            ("go test -race ./server/...", true),
            ("go test ./server/... ./client/...", false),
            ("pytest tests/unit", true),
            ("pytest tests", false),
            ("pytest -v tools/test_names.py", true),
            ("python -m pytest tests/test_a.py::test_b", true),
            ("python3 -m unittest discover -s tools/report -p 'test_*.py'", true),
            ("python -m unittest discover -s tests", false),
            ("npm test", false),
            ("echo cargo test -p core", false),
        ];
        for (command, expected) in rows {
            assert_eq!(is_part(command), expected, "{command}");
        }
    }
}

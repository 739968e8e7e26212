//! Runners that end at a failure, by the command that starts them.

use super::{regex, report};

/// The command of a check with what makes its runner go on behind a failure, as others do by themselves: `cargo test` runs
/// no binary behind one that failed, and nobody would know whether its tests failed before. `None` for other runners, for
/// commands of several parts that do more than build or go to a folder first, and where the command says itself what is
/// to be done.
pub fn command_that_goes_on(command: &str) -> Option<String> {
    let (folder, rest) = match command.split_once(" && ") {
        Some((folder, rest)) if is_plain_cd(folder) => (format!("{folder} && "), rest),
        _ => (String::new(), command),
    };
    let (before, last) = report::plain(rest)?;
    let words = ["fail-fast", "--no-ff", "--ff", "--max-fail", "--no-run"];
    if words.iter().any(|word| last.contains(word)) {
        return None;
    }
    let cargo = regex!(
        r"(?:^|\s)cargo\s+(?:\+\S+\s+)?(?:--?[\w-]+(?:=\S+)?\s+)*(test|nextest\s+run)(?:\s|$)"
    );
    let at = cargo.captures(last)?.get(1)?.end();
    Some(format!("{folder}{before}{} --no-fail-fast{}", &last[..at], &last[at..]))
}

fn is_plain_cd(command: &str) -> bool {
    command.starts_with("cd ") && !command.contains(['\n', ';', '|', '&', '\'', '"', '`', '('])
}

/// The command says that its runner is to end at a failure. Not every runner says then that it did.
pub fn is_told_to_stop(command: &str) -> bool {
    regex!(r"\s(--bail|--exitfirst|--maxfail|--fail-?fast|-failfast|--stop-on-(failure|error|defect))(=\S+|\s|$)")
        .is_match(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_to_go_on_behind_a_failure() {
        let rows = [
            ("cargo test", Some("cargo test --no-fail-fast")),
            (
                "cargo +stable --locked test --all -- --test-threads=1",
                Some("cargo +stable --locked test --no-fail-fast --all -- --test-threads=1"),
            ),
            (
                "cd core && RUST_LOG=warn cargo test --doc",
                Some("cd core && RUST_LOG=warn cargo test --no-fail-fast --doc"),
            ),
            ("cargo nextest run --workspace", Some("cargo nextest run --no-fail-fast --workspace")),
            ("cargo nextest run --max-fail 3", None),
            ("cargo test --no-fail-fast", None),
            ("cargo test --no-run", None),
            ("cargo test-all", None),
            ("cargo test --lib && cargo test --doc", None),
            ("cargo test | tee log", None),
            ("make test", None),
        ];
        for (command, expected) in rows {
            assert_eq!(command_that_goes_on(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn a_command_that_is_to_stop_is_known() {
        for command in
            ["vitest run --bail=1", "phpunit --stop-on-failure", "go test -failfast ./..."]
        {
            assert!(is_told_to_stop(command), "{command}");
        }
        for command in ["pytest", "cargo test --no-fail-fast", "sh -x test", "jest --bailiff"] {
            assert!(!is_told_to_stop(command), "{command}");
        }
    }
}

//! Why a test command of CI is no check here, where it could run on the forge: it installs, makes an environment of its
//! own, asks what differs from another commit, or is about something else than the tests. And which can never fail.

use super::{StepPurpose, classify};

/// A command that installs, makes its own environment, or is about more than the tests of the code.
pub(crate) fn needs_more(command: &str) -> bool {
    what_more(command).is_some()
}

/// Why a command is no check here, where it could run on the forge.
pub(crate) fn what_more(command: &str) -> Option<&'static str> {
    const INSTALLS: &[&str] = &[
        " install ",
        " install\n",
        "npm ci",
        " sync",
        "wget ",
        "curl ",
        "git clone ",
        "sudo ",
        "rustup ",
    ];
    const ELSE: &[&str] = &[
        "e2e",
        "end-to-end",
        "playwright",
        "cypress",
        "bench",
        "codecov",
        "test-browser",
        "test:browser",
        "xvfb-run",
        "docker",
        "--watch",
        // For a machine that is not this one.
        "-Dtarget=",
    ];
    let has = |words: &[&str]| words.iter().any(|word| command.contains(word));
    match () {
        () if has(&["tox", "nox"]) || makes_environment(command) => {
            Some("makes an environment of its own")
        }
        () if has(INSTALLS) || command.trim_end().ends_with(" install") || adds(command) => {
            Some("installs, and checks have no network")
        }
        () if compares(command) => {
            Some("compares with another commit, from which the change differs")
        }
        () if needs_toolchain(command) => Some("needs another toolchain than the newest release"),
        () if has(ELSE) || is_measure(command) => Some("is about more than the tests of the code"),
        () => None,
    }
}

/// The commands of a script, each without the variables that are set for it alone.
fn commands(script: &str) -> impl Iterator<Item = Vec<&str>> {
    let is_before = |word: &&str| *word == "env" || *word == "exec" || word.contains('=');
    let parts = script.split(['\n', ';', '&', '|', '(', ')']);
    parts.map(move |part| part.split_whitespace().skip_while(is_before).collect())
}

/// `pnpm add react@18`: a package that setup did not install.
fn adds(command: &str) -> bool {
    const ADDS: &[(&str, &[&str])] = &[
        ("npm", &["i", "add", "update"]),
        ("pnpm", &["i", "add", "update", "up", "dlx"]),
        ("yarn", &["add", "up", "upgrade", "dlx"]),
        ("bun", &["i", "add", "update"]),
        ("uv", &["add"]),
        ("poetry", &["add", "update"]),
        ("pdm", &["add", "update"]),
        ("cargo", &["add"]),
        ("go", &["get"]),
        ("composer", &["require", "update"]),
        ("dotnet", &["add"]),
    ];
    commands(command).any(|words| {
        let row = ADDS.iter().find(|(program, _)| words.first() == Some(program));
        let first = words.iter().skip(1).find(|word| !word.starts_with('-'));
        row.is_some_and(|(_, adds)| first.is_some_and(|word| adds.contains(word)))
    })
}

/// hatch, and uv where it is told to take another interpreter or other packages than are there.
fn makes_environment(command: &str) -> bool {
    const OTHER: &[&str] = &["--isolated", "--python", "--with", "--with-requirements", "-p"];
    commands(command).any(|words| match words.as_slice() {
        ["hatch", rest @ ..] => {
            let is_value = |at: usize| at.checked_sub(1).is_some_and(|at| rest[at] == "-e");
            let first =
                rest.iter().enumerate().find(|(at, it)| !it.starts_with('-') && !is_value(*at));
            matches!(first, Some((_, &("test" | "run"))))
        }
        ["uvx", ..] | ["pipx", "run", ..] => true,
        // What comes after the program is for that one.
        ["uv", "run", rest @ ..] => {
            let options = rest.iter().take_while(|word| word.starts_with('-') && **word != "--");
            let mut names = options.map(|word| word.split('=').next().unwrap_or(word));
            names.any(|name| OTHER.contains(&name))
        }
        _ => false,
    })
}

/// A test of speed, or one that tries inputs for a while.
fn is_measure(command: &str) -> bool {
    let is_named = |word: &str| {
        let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
        let is_test = word.contains("test") || word.contains(':');
        is_test && parts.any(|part| matches!(part, "perf" | "performance" | "fuzz" | "fuzztest"))
    };
    commands(command).any(|words| {
        let is_go = words.first() == Some(&"go");
        let tries = |word: &str| is_go && (word.starts_with("-fuzz") || word.starts_with("--fuzz"));
        let own = |word: &str| !word.starts_with('-') && !word.contains('=') && is_named(word);
        words.iter().any(|word| tries(word) || own(word))
    })
}

/// A script goes on whatever its tests say: `cargo test || true`.
pub(super) fn never_fails(command: &str) -> bool {
    let is_goes_on = |rest: &str| {
        let rest = rest.trim();
        matches!(rest, "true" | ":" | "/bin/true" | "exit 0")
            || (rest.starts_with("echo ") && !rest.contains(['&', ';', '|']))
    };
    let joined = command.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let mut tests = lines.filter(|line| classify::purpose(line) == StepPurpose::Test).peekable();
    tests.peek().is_some()
        && tests.all(|line| line.rsplit_once("||").is_some_and(|(_, rest)| is_goes_on(rest)))
}

/// A command asks what differs from a commit: from the last one, where the tree has to be as it was committed, or from the
/// base, for the packages that a change concerns.
pub(super) fn compares(command: &str) -> bool {
    const WORDS: &[&str] = &[
        "git diff --exit-code",
        "git diff --quiet",
        "git status --porcelain",
        "git diff-index",
        "nx affected",
        " --affected",
        "[origin/",
    ];
    WORDS.iter().any(|words| command.contains(words))
}

/// A test command without what it asks at its end of the tree: whether it is as it was committed. With the change in it, it is
/// not.
pub(super) fn without_comparison(command: &str) -> &str {
    let mut rest = command.trim_end();
    loop {
        let (before, last) = match (rest.rsplit_once('\n'), rest.rsplit_once("&&")) {
            (Some(line), Some(part)) if line.0.len() < part.0.len() => part,
            (Some(line), _) => line,
            (None, Some(part)) => part,
            (None, None) => return rest,
        };
        let is_it =
            last.trim_start().starts_with("git ") && compares(last) && !before.ends_with('\\');
        if !is_it || before.trim().is_empty() {
            return rest;
        }
        rest = before.trim_end();
    }
}

/// `cargo +nightly test`, `cargo +1.80 test`, and options that only a nightly compiler takes.
fn needs_toolchain(command: &str) -> bool {
    let words = || command.split(|c: char| c.is_whitespace() || c == '=' || c == '\'');
    let is_named = words().any(|word| word.starts_with('+') && word.len() > 1 && word != "+stable");
    let is_cargo = words().any(|word| word == "cargo");
    is_cargo && (is_named || has_target(command) || words().any(|word| word.starts_with("-Z")))
}

/// `--target wasm32-wasip1`: for a machine that is not this one.
fn has_target(command: &str) -> bool {
    const OWN: &[&str] = &["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
    let mut words = command.split(|c: char| c.is_whitespace() || c == '=');
    let target = words.by_ref().find(|word| *word == "--target").and_then(|_| words.next());
    target.is_some_and(|target| !OWN.contains(&target.trim_matches(['"', '\''])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_whether_the_tree_is_as_committed_is_cut_off() {
        let rows = [
            ("make check\ngit diff --exit-code\n", "make check"),
            ("make check && git diff --exit-code -- a", "make check"),
            ("make\nmake check\ngit status --porcelain\ngit diff --quiet", "make\nmake check"),
            ("git diff --exit-code", "git diff --exit-code"),
            ("make check\ngit diff", "make check\ngit diff"),
            ("git diff --exit-code\nmake check", "git diff --exit-code\nmake check"),
            ("make check \\\n  git diff --exit-code", "make check \\\n  git diff --exit-code"),
        ];
        for (command, expected) in rows {
            assert_eq!(without_comparison(command), expected, "{command}");
        }
        assert!(needs_more("git diff --exit-code\nmake check"));
        assert!(needs_more("pnpm nx affected --target=test"));
    }
    #[test]
    fn what_a_check_cannot_do_here_is_told_by_its_words() {
        let environment = Some("makes an environment of its own");
        let installs = Some("installs, and checks have no network");
        let aside = Some("is about more than the tests of the code");
        let rows = [
            ("uv run pytest -p no:sugar", None),
            ("uv run --frozen --group test -- pytest -p no:sugar", None),
            ("uv run --python=3.14 pytest", environment),
            ("uv run --isolated --group test -- pytest", environment),
            ("COLUMNS=80 uv run --with numpy pytest", environment),
            ("hatch test --cover", environment),
            ("hatch -v run +py=3.12 test:all", environment),
            ("hatch -e lint run all", environment),
            ("hatch build && pytest", None),
            ("pnpm add -D left@1\npnpm test", installs),
            ("CI=1 npm i left && npm test", installs),
            ("go get ./... && go test ./...", installs),
            ("npm test -- add", None),
            ("yarn test:perf", aside),
            ("make perf-test", aside),
            ("go test ./src -fuzz=FuzzOne -fuzztime=5s", aside),
            ("cargo test --features perf-literal", None),
            ("go test ./perf/...", None),
            ("npm run test:unit", None),
        ];
        for (command, expected) in rows {
            assert_eq!(what_more(command), expected, "{command}");
        }
    }

    #[test]
    fn what_goes_on_whatever_its_tests_say_never_fails() {
        let rows = [
            ("cargo test || true", true),
            ("make test || echo 'some failed'", true),
            ("npm run build\nnpm test \\\n  --all || :", true),
            ("cargo test || true\ncargo test --doc", false),
            ("cargo test || exit 1", false),
            ("cargo test || (cat log; false)", false),
            ("npm install || true\nnpm test", false),
            ("true", false),
        ];
        for (command, expected) in rows {
            assert_eq!(never_fails(command), expected, "{command}");
        }
    }
}

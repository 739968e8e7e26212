//! What a command is for, by its words.

use std::sync::LazyLock;

use regex::Regex;

use super::StepPurpose;

#[expect(clippy::expect_used, reason = "constants, and a test compiles every one")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

const UPLOADS: &str = "uploads a report";

/// Why a command cannot be used here.
static UNUSABLE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\b(docker|podman)(-compose)?\s+(push|login)\b|\b(npm|yarn|pnpm|cargo|poetry|uv|flit|hatch|bun)\s+publish\b|\btwine\s+upload\b|\bgem\s+push\b|\bmvn\b.*\bdeploy\b|\bgradlew?\b.*\bpublish|\bgoreleaser\b|\bsemantic-release\b|\bdotnet\s+nuget\s+push\b", "publishes"),
        (r"\b(terraform|kubectl|helm|aws|gcloud|az|heroku|flyctl|vercel|netlify|serverless)\s+\w|\bmkdocs\s+gh-deploy\b|\bgh-pages\b|\b(ssh|scp|rsync)\s", "deploys"),
        (r"\bgit\s+(push|tag|commit)\b|\bgh\s+(release|pr|issue|api|workflow)\b", "changes the repository"),
        (r"\b(docker|podman)(-compose)?\s+(compose\s+)?(run|up|build|exec|pull)\b", "needs Docker"),
        (r"\bcodecov\b|\bcoveralls\b|\bcc-test-reporter\b|\bsonar-scanner\b", UPLOADS),
        (r"GITHUB_(TOKEN|OUTPUT|STEP_SUMMARY)|\bACTIONS_\w+TOKEN|\bCI_JOB_TOKEN\b", "is about the run on the forge"),
        (r"\bbrew\s+install\b|\bchoco\s+install\b|\b(pwsh|powershell)\b", "is for another system"),
    ]
    .map(|(text, why)| (pattern(text), why))
    .into()
});

static USES: LazyLock<Vec<(Regex, StepPurpose)>> = LazyLock::new(|| {
    [
        (r"\b(pytest|py\.test|unittest|tox|nox|nosetests|trial)\b|\bpython\S*\s+(\S*/)?(run_?tests?|tests?)[^\s/]*\.py\b|\bpython\S*\s+(\S*/)?tests?/(run|main|all|suite)[^\s/]*\.py\b|\bmanage\.py\s+test\b", StepPurpose::Test),
        (r"\b(cargo|go|dotnet|mix|deno|swift|zig|dart|flutter|stack|cabal|lein|sbt|bazel|meson|hatch)\s+(\+\S+\s+|run\s+)?(nextest|tests?|llvm-cov)\b|\bcargo\s+hack\s+test\b", StepPurpose::Test),
        (r"\bhatch\s+(-\S+\s+)*run\s+([+-]\S+\s+)*(\S+:)?tests?\b|\bzig\s+build\s+(\S+\s+)*test\b", StepPurpose::Test),
        (r"\b(npm|pnpm|yarn|bun)\s+(-\S+\s+|run\s+|run-script\s+|-r\s+)*(test|t|tests|unit)\b(:\S+)?|\bnode\s+--test\b|\b(npx|pnpm|yarn|bunx)\s+(jest|vitest|mocha|ava|tap|karma)\b", StepPurpose::Test),
        (r"\b(jest|vitest|mocha|rspec|phpunit|pest|ctest|prove|bats|busted)\b|\brake\s+(test|spec)\b|\brails\s+test\b|\bcomposer\s+(run(-script)?\s+)?test\b", StepPurpose::Test),
        (r"\b(mvnw?|gradlew?)\s(.*[\s:])?(test|allTests|verify|check)(\s|$)|\b(make|just|task|ninja|cmake)\s(.*[\s:\x22'-])?(tests?(_\w+)?(/[\w-]+|\.\w+)?|check|unit-?tests?)([\s:;&|)\x22'-]|$)|(^|\s)(\./|bash |sh )?\S*(run-?_?tests?|test)\.sh\b|(^|\s)\./(\S*/)?run[-_]?tests?(\s|$)|(^|\s)(\./)?scripts?/tests?(\s|$)|\bmage\s+(-\S+\s+)*(test|check)\b|(^|\s)(\./Build|dzil|minil|scons|(\./)?waf)\s+(test|check)\b", StepPurpose::Test),
        (r"\b(pip3?|pipx|gem|bundle|composer|opam|cpanm|apt-get|apt|apk|dnf|yum|corepack|rustup)\s+.*\b(install|add|update|enable|fetch|component|target)\b|\b(npm|pnpm|yarn|bun)\s+(-\S+\s+)*(ci|install|i|add)\b|^\s*yarn\s*$|\byarn\s+--(frozen|immutable)", StepPurpose::Install),
        (r"\b(uv|poetry|pdm|pipenv|hatch)\s+(sync|install|pip|venv|env|lock)\b|\bcargo\s+(fetch|install)\b|\bgo\s+(mod\s+download|install|get)\b|\bdotnet\s+(restore|tool)\b|\bmix\s+(deps\.get|local)|\bpython\S*\s+-m\s+(pip|venv|ensurepip)\b|\bmake\s+(\S*deps|\S*install\S*|bootstrap|setup)\b|\bconda\s+(install|env)\b|\bgit\s+submodule\b", StepPurpose::Install),
        (r"\b(flake8|ruff|black|isort|mypy|pyright|pylint|bandit|eslint|prettier|biome|stylelint|tsc|rubocop|standardrb|phpstan|psalm|php-cs-fixer|golangci-lint|staticcheck|shellcheck|hadolint|yamllint|markdownlint|actionlint|clang-format|clang-tidy|ktlint|detekt|checkstyle|spotless\w*|pre-commit|typos|codespell|credo|dialyzer)\b|\bcargo\s+(\+\S+\s+)?(fmt|clippy|deny|audit|machete|doc|check)\b|\bgo\s+(vet|fmt)\b|\bgofmt\b|\bdotnet\s+format\b|\bmix\s+format\b|\b(npm|pnpm|yarn|bun)\s+(run\s+)?(lint|format|typecheck|type-check|fmt)\b|\b(make|just|task)\s+(lint|fmt|format|typecheck|style)\b", StepPurpose::Lint),
        // A package that its own tests use by name.
        (r"^\s*yarn\s+link\b", StepPurpose::Build),
        (r"\b(cargo|go|npm\b.*\brun|pnpm|yarn|bun|dotnet|mvnw?|gradlew?|mix)\b.*\b(build|compile|package|assemble)\b|\bmake\b|\bcmake\b|\./configure\b|\bsetup\.py\s+build", StepPurpose::Build),
        (r"\b(npm|pnpm|yarn|bun)\b.*\b(codegen|generate|bundle|transpile|prepare|prepack)\b|\bprisma\s+generate\b|\b(turbo|nx|lerna|rush|vite|bazel|meson|just|task|hatch|zig|swift|stack|cabal)\b.*\b(build|compile|setup)\b|\b(tsc|webpack|rollup|esbuild|tsup|babel|swc|ninja|autoreconf|protoc)\b", StepPurpose::Build),
        // What makes the files that `make` reads, and what builds instead of it.
        (r"\bperl\s+(-\S+\s+)*(\./)?(Makefile|Build)\.PL\b|(^|&&\s*)(\./Build(\s+build)?\s*$|((sh|bash)\s+|\./)\S*\b(autogen|bootstrap|buildconf)(\.sh)?(\s|$)|(\./(Configure|config)|qmake\S*|phpize|autoconf|automake|aclocal|libtoolize|autopoint|scons)(\s|$)|(\./)?waf\s+(configure|build)\b)", StepPurpose::Build),
        (r"(^|\s)((python\S*|node|ruby|php|perl|sh|bash)\s+|\./)\S*\b(gen|generate|codegen|build|compile|prepare)\S*\.(py|[cm]?js|ts|rb|php|pl|sh)\b", StepPurpose::Build),
    ]
    .map(|(text, is_for)| (pattern(text), is_for))
    .into()
});

/// What the lines of a command are for: a test counts over everything else, then what installs.
pub(super) fn is_for(command: &str) -> StepPurpose {
    let uses: Vec<StepPurpose> = lines(command).map(purpose).collect();
    let order = [StepPurpose::Test, StepPurpose::Install, StepPurpose::Lint, StepPurpose::Build];
    order.into_iter().find(|wanted| uses.contains(wanted)).unwrap_or(StepPurpose::Other)
}

/// What one line is for.
pub(crate) fn purpose(line: &str) -> StepPurpose {
    let installs =
        |row: &&(Regex, StepPurpose)| row.1 == StepPurpose::Install && row.0.is_match(line);
    match USES.iter().find(installs) {
        // `pip install pytest` is no test, and `echo "run the tests"` is nothing.
        Some(_) if !line.contains("&&") && !line.contains(';') => StepPurpose::Install,
        _ if is_about_files(line) => StepPurpose::Other,
        _ => {
            let found = USES.iter().find(|(it, _)| it.is_match(line));
            match found.map_or(StepPurpose::Other, |row| row.1) {
                // The compiler writes what it checks, unless it is told not to.
                // `gradlew check` without what tests.
                StepPurpose::Test if line.contains(" -x test") => StepPurpose::Lint,
                StepPurpose::Test if is_about_text(line) => StepPurpose::Lint,
                StepPurpose::Test if runs_no_test(line) => StepPurpose::Other,
                StepPurpose::Lint if is_compiler(line) => StepPurpose::Build,
                other => other,
            }
        }
    }
}

/// `make check-format`: a target that reads the code and runs none of it.
fn is_about_text(line: &str) -> bool {
    const RUNNERS: &[&str] = &["make", "gmake", "just", "task", "ninja", "cmake"];
    const TESTS: &[&str] = &["test", "tests", "check", "unit"];
    const TEXT: &[&str] = &[
        "lint",
        "fmt",
        "format",
        "formatted",
        "formatting",
        "style",
        "spelling",
        "links",
        "license",
        "licenses",
        "copyright",
        "headers",
        "whitespace",
        "crlf",
        "fixme",
        "size",
    ];
    let has = |word: &str, names: &[&str]| {
        word.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| names.contains(&part))
    };
    let mut words = line.split_whitespace();
    let is_runner = words.next().is_some_and(|program| RUNNERS.contains(&program));
    let named = words.filter(|word| !word.starts_with('-') && !word.contains('='));
    let tests: Vec<&str> = named.filter(|word| has(word, TESTS)).collect();
    is_runner && !tests.is_empty() && tests.iter().all(|word| has(word, TEXT))
}

/// The program of the tests is only compiled, or only says which tests there are.
fn runs_no_test(line: &str) -> bool {
    const OPTIONS: &[&str] =
        &["--collect-only", "--no-run", "--list-tests", "-DskipTests", "-Dmaven.test.skip"];
    let is_one = |word: &str| OPTIONS.iter().any(|option| word.starts_with(option));
    // A name that no test has loads all of them and runs none.
    let is_filtered = line.contains("--filter NO_TEST") || line.contains("--filter=NO_TEST");
    !line.contains("&&") && (is_filtered || line.split_whitespace().any(is_one))
}

/// A command about files, whatever they are called, and nothing else.
fn is_about_files(line: &str) -> bool {
    const PROGRAMS: &[&str] =
        &["echo", "cat", "ls", "rm", "cp", "mv", "mkdir", "touch", "chmod", "head", "tail", "sed"];
    let first = line.split_whitespace().next().unwrap_or_default();
    first == "echo" || (PROGRAMS.contains(&first) && !line.contains(['&', ';', '|']))
}

fn is_compiler(line: &str) -> bool {
    let is_tsc = line.split_whitespace().take(3).any(|word| word == "tsc");
    is_tsc && !line.contains("--noEmit")
}

/// A command makes the files by which others build, by a script that looks much the same in every repository.
pub(super) fn configures(command: &str) -> bool {
    let program = command.split_whitespace().find(|word| !matches!(*word, "sh" | "bash"));
    let name = program.map(|program| program.rsplit('/').next().unwrap_or(program));
    matches!(
        name,
        Some(
            "configure"
                | "Configure"
                | "config"
                | "autogen.sh"
                | "autogen"
                | "buildconf"
                | "buildconf.sh"
        )
    )
}

/// The parts of a command that build, before its first test, with what goes to a folder or sets a variable for them,
/// joined with `&&`. A command that is not a plain list is taken as a whole, where it builds and does nothing else.
pub(super) fn builds(command: &str) -> Option<String> {
    let command = command.replace("\\\n", " ");
    if !is_plain(&command) {
        return (is_for(&command) == StepPurpose::Build).then(|| command.trim_end().to_owned());
    }
    let parts = lines(&command).flat_map(|line| line.split("&&")).map(str::trim);
    let is_context = |part: &str| {
        let first = part.split_whitespace().next().unwrap_or_default();
        ["cd", "export", "set"].contains(&first) || (first == part && first.contains('='))
    };
    let (mut found, mut has_build) = (Vec::new(), false);
    for part in parts {
        match purpose(part) {
            StepPurpose::Test => break,
            StepPurpose::Build => has_build = true,
            _ if is_context(part) => {}
            _ => continue,
        }
        found.push(part);
    }
    has_build.then(|| found.join(" && "))
}

/// A command builds, and does nothing else but go to folders.
pub(crate) fn only_builds(command: &str) -> bool {
    let is_build = |part: &str| purpose(part) == StepPurpose::Build;
    let command = command.replace(['(', ')'], "");
    let mut parts = command.split("&&").map(str::trim);
    is_plain(&command)
        && parts.clone().any(is_build)
        && parts.all(|part| part.starts_with("cd ") || is_build(part))
}

/// A command is a list of commands each of which has to succeed, one a line or joined with `&&`.
pub(super) fn is_plain(command: &str) -> bool {
    const WORDS: &[&str] = &["if", "for", "while", "until", "case", "function", "then", "do", "!"];
    let is_list = !command.contains([';', '|', '(', ')', '{', '}', '<', '`', '\\', '\'', '"'])
        && !command.replace("&&", "").contains('&');
    is_list && !command.split_whitespace().any(|word| WORDS.contains(&word))
}

pub(super) fn unusable(command: &str) -> Option<&'static str> {
    let mut all = lines(command);
    all.find_map(|line| UNUSABLE.iter().find(|(it, _)| it.is_match(line)).map(|row| row.1))
}

/// A line sends a report of the tests to a service.
pub(super) fn uploads(command: &str) -> bool {
    let is_one = |line| UNUSABLE.iter().any(|(it, why)| *why == UPLOADS && it.is_match(line));
    lines(command).any(is_one)
}

/// Lines that are commands, with continued ones whole enough to be judged.
fn lines(command: &str) -> impl Iterator<Item = &str> {
    let lines = command.lines().map(str::trim).take(400);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The packages that `apt-get install` lines of a command name, when the words are plain names.
pub(crate) fn system_packages(command: &str) -> Vec<String> {
    let joined = command.replace("\\\n", " ");
    let mut found = Vec::new();
    for part in joined.split(['\n', ';', '&', '|']) {
        let code = part.split_whitespace().take_while(|word| !word.starts_with('#'));
        let mut words = code.skip_while(|word| *word == "sudo" || word.contains('='));
        if !matches!(words.next(), Some("apt-get" | "apt")) {
            continue;
        }
        let mut words = words.skip_while(|word| *word != "install");
        if words.next().is_none() {
            continue;
        }
        let is_name = |word: &str| {
            let mut chars = word.chars();
            chars.next().is_some_and(|c| c.is_ascii_alphanumeric())
                && chars.all(|c| c.is_ascii_alphanumeric() || "+.-:".contains(c))
        };
        found.extend(words.filter(|word| is_name(word)).map(str::to_owned));
    }
    found
}

/// Every line of the command is about packages of the distribution.
pub(crate) fn is_system_only(command: &str) -> bool {
    let joined = command.replace("\\\n", " ");
    let mut parts =
        joined.split(['\n', ';', '&', '|']).map(str::trim).filter(|part| !part.is_empty());
    parts.all(|part| {
        let words: Vec<&str> = part
            .split_whitespace()
            .skip_while(|word| *word == "sudo" || word.contains('='))
            .collect();
        matches!(words.first(), Some(&"apt-get" | &"apt"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart() {
        let rows = [
            ("pip install -r requirements.txt pytest", StepPurpose::Install),
            ("python -m pytest -q", StepPurpose::Test),
            ("pip install -e . && pytest", StepPurpose::Test),
            ("cargo test --workspace", StepPurpose::Test),
            ("cargo nextest run", StepPurpose::Test),
            ("cargo clippy -- -D warnings", StepPurpose::Lint),
            ("npm ci", StepPurpose::Install),
            ("npm run test:unit", StepPurpose::Test),
            ("yarn", StepPurpose::Install),
            ("go test ./...", StepPurpose::Test),
            ("mvn -B verify", StepPurpose::Test),
            ("./gradlew check", StepPurpose::Test),
            ("echo run the tests", StepPurpose::Other),
            ("ruff check .", StepPurpose::Lint),
            ("make", StepPurpose::Build),
            ("make test", StepPurpose::Test),
            ("make test_unit", StepPurpose::Test),
            ("./Build test", StepPurpose::Test),
            ("perl Makefile.PL && make && make test", StepPurpose::Test),
            ("perl Makefile.PL INSTALL_BASE=/tmp/x", StepPurpose::Build),
            ("sudo apt-get update\nsudo apt-get install -y libpq-dev", StepPurpose::Install),
            ("bundle exec rspec", StepPurpose::Test),
            ("python tests/run.py", StepPurpose::Test),
            ("python test_all.py -v", StepPurpose::Test),
            ("python tests/fixtures/packages/write.py", StepPurpose::Other),
            ("./gradlew -Pjava.test.version=21 build --scan", StepPurpose::Build),
            ("./gradlew :core:test", StepPurpose::Test),
            ("./runtest --verbose", StepPurpose::Test),
            ("script/test", StepPurpose::Test),
            ("bash scripts/test", StepPurpose::Test),
            ("mage -v check", StepPurpose::Test),
            ("cat pytest.ini", StepPurpose::Other),
            ("rm -f tests/man.test", StepPurpose::Other),
            ("./gradlew check -x test", StepPurpose::Lint),
            ("./scripts/run-tests", StepPurpose::Test),
            ("make test/unit", StepPurpose::Test),
            ("make -C lib check-all", StepPurpose::Test),
            ("cmake --build build --target unit-tests", StepPurpose::Test),
            ("make man.1 tests/man.test", StepPurpose::Build),
            ("hatch run +py=3.12 test:with-coverage", StepPurpose::Test),
            ("hatch run lint:all", StepPurpose::Other),
            ("zig build check test --summary all", StepPurpose::Test),
            ("zig build release", StepPurpose::Build),
            ("yarn link acme --frozen-lockfile", StepPurpose::Build),
            ("make check-format", StepPurpose::Lint),
            ("make check-binary-size", StepPurpose::Lint),
            ("make test_formatted", StepPurpose::Lint),
            ("make test-docs-links", StepPurpose::Lint),
            ("cargo check --all-targets", StepPurpose::Lint),
            ("cargo test --no-run", StepPurpose::Other),
            ("cargo test --no-run && cargo test", StepPurpose::Test),
            ("pytest --collect-only -q", StepPurpose::Other),
            ("vendor/bin/phpunit --filter NO_TEST_JUST_LOAD", StepPurpose::Other),
            ("mvn verify -DskipTests", StepPurpose::Other),
        ];
        for (command, expected) in rows {
            assert_eq!(is_for(command), expected, "{command}");
        }
    }

    #[test]
    fn what_builds_before_a_test_is_told_from_the_rest() {
        let rows = [
            ("npm run build", Some("npm run build")),
            ("npm ci\nnpm run build\nnpm test", Some("npm run build")),
            (
                "npm ci && npm run build --if-present && npm test && npm run compile",
                Some("npm run build --if-present"),
            ),
            ("cd web\nnpm i\nyarn build", Some("cd web && yarn build")),
            ("npx tsc -p .", Some("npx tsc -p .")),
            ("npx tsc --noEmit", None),
            ("npm run lint\nnpm ci", None),
            ("if [ -f x ]; then make; fi", Some("if [ -f x ]; then make; fi")),
            ("npm ci; npm run build", None),
            (
                "cmake -B build \\\n  -G Ninja\ncmake --build build",
                Some("cmake -B build    -G Ninja && cmake --build build"),
            ),
            ("npx prisma generate", Some("npx prisma generate")),
            ("npm test", None),
            ("python3 tools/gen.py", Some("python3 tools/gen.py")),
            ("./build.sh", Some("./build.sh")),
            ("perl Makefile.PL\nmake\nprove -lr t", Some("perl Makefile.PL && make")),
            ("perl Build.PL\n./Build\n./Build test", Some("perl Build.PL && ./Build")),
            ("./autogen.sh --no-check", Some("./autogen.sh --no-check")),
            ("sh autogen.sh && ./configure", Some("sh autogen.sh && ./configure")),
            ("./bootstrap", Some("./bootstrap")),
            ("sh tools/bootstrap.sh", Some("sh tools/bootstrap.sh")),
            ("phpize\n./configure\nmake", Some("phpize && ./configure && make")),
            ("npm install bootstrap", None),
            ("python3 tools/report.py", None),
            ("echo build", None),
        ];
        for (command, expected) in rows {
            assert_eq!(builds(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn what_publishes_deploys_or_needs_docker_is_unusable() {
        let rows = [
            ("npm publish", Some("publishes")),
            ("docker push x/y", Some("publishes")),
            ("docker compose up -d", Some("needs Docker")),
            ("git push origin main", Some("changes the repository")),
            ("kubectl apply -f x", Some("deploys")),
            ("npm test", None),
            ("cargo build --release", None),
        ];
        for (command, expected) in rows {
            assert_eq!(unusable(command), expected, "{command}");
        }
    }

    #[test]
    fn packages_of_the_distribution_are_names_only() {
        let command = "sudo apt-get update && sudo apt-get install -y --no-install-recommends \\\n  libpq-dev g++ $(evil) a;rm -rf /\napt install jq # install it for all";
        assert_eq!(system_packages(command), ["libpq-dev", "g++", "a", "jq"]);
        assert!(is_system_only("sudo apt-get update\nsudo apt-get install -y jq"));
        assert!(!is_system_only("apt-get update && pip install x"));
    }
}

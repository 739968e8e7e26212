//! The repository's own checks, before and after. The rows of the evidence table come from here:
//! exit codes that the harness recorded, never what a model says about them.
//!
//! [`detect`] guesses the commands from the repository's kind when nobody configured them, [`run`]
//! runs them in a sandbox, [`compare`] puts base and head side by side. Nothing here decides what a
//! failing check means for the outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use patchwright_base::text;
use patchwright_guest::protocol::Exec;
use patchwright_sandbox::client::{Client, GuestError};
use patchwright_types::evidence::CheckRun;
use patchwright_types::evidence::Evidence;
use patchwright_types::evidence::EvidenceRow;

/// Bytes of a check's output that are kept, and lines.
const TAIL_BYTES: usize = 6 << 10;
const TAIL_LINES: usize = 80;
/// What the shell says when there is no such program.
const COMMAND_NOT_FOUND: i32 = 127;

/// Names in the root of the tree, and a reader for the files among them.
struct Root<'a> {
    names: &'a [String],
    read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

impl Root<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|other| other.trim_end_matches('/') == name)
    }

    fn text(&self, name: &str) -> Option<String> {
        let bytes = self.has(name).then(|| (self.read)(name)).flatten()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

type Row = fn(&Root<'_>) -> Option<String>;

/// One row per kind of project. All that match are checks: a repository may be of several kinds.
const KINDS: &[Row] = &[cargo, npm, python, go, maven, gradle, elixir, ruby, dotnet, deno];
/// Asked when no kind matched: the repository says itself how it is tested.
const GENERIC: &[Row] = &[make, script];

/// The check commands of a repository, from the names in its root folder, files and folders. Empty when
/// unknown. `read` gives the content of a file.
pub fn detect(names: &[String], read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Vec<String> {
    let root = Root { names, read };
    let kinds: Vec<String> = KINDS.iter().filter_map(|row| row(&root)).collect();
    if !kinds.is_empty() {
        return kinds;
    }
    GENERIC.iter().find_map(|row| row(&root)).into_iter().collect()
}

fn cargo(root: &Root<'_>) -> Option<String> {
    root.has("Cargo.toml").then(|| "cargo test".to_owned())
}

fn npm(root: &Root<'_>) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(&root.text("package.json")?).ok()?;
    let script = json.get("scripts")?.get("test")?.as_str()?;
    if script.trim().is_empty() || script.contains("no test specified") {
        return None;
    }
    let by_lock = [
        ("pnpm-lock.yaml", "pnpm test"),
        ("yarn.lock", "yarn test"),
        ("bun.lock", "bun run test"),
        ("bun.lockb", "bun run test"),
    ];
    let command = by_lock.iter().find(|(lock, _)| root.has(lock)).map_or("npm test", |row| row.1);
    Some(command.to_owned())
}

fn python(root: &Root<'_>) -> Option<String> {
    let text = |name: &str| root.text(name).unwrap_or_default();
    let marks = [
        root.has("pytest.ini") || root.has("conftest.py"),
        text("pyproject.toml").contains("pytest"),
        text("setup.cfg").contains("[tool:pytest]") || text("setup.cfg").contains("pytest"),
        text("tox.ini").contains("pytest"),
        text("setup.py").contains("pytest"),
        root.names.iter().any(|n| n.contains("requirements") && text(n).contains("pytest")),
    ];
    if marks.contains(&true) {
        return Some("python -m pytest -q".to_owned());
    }
    let is_python = ["pyproject.toml", "setup.py", "setup.cfg"].iter().any(|n| root.has(n));
    let tests = root.has("tests") || root.has("test");
    let source = |name: &&String| name.rsplit_once('.').is_some_and(|(_, ending)| ending == "py");
    let loose = root.names.iter().filter(source).any(|name| name.starts_with("test_"));
    let sources = root.names.iter().any(|name| source(&name));
    if !loose && !(tests && (is_python || sources)) {
        return None;
    }
    // A repository without pytest's configuration may well be tested with the standard library; the
    // command finds out which of the two the image can run.
    let folder = match () {
        () if !root.has("tests") => "",
        // From the top where the folder is a package; a folder that is none cannot be imported from there.
        () if (root.read)("tests/__init__.py").is_some() => " -s tests -t .",
        () => " -s tests",
    };
    Some(format!(
        "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; \
         else python -m unittest discover{folder}; fi"
    ))
}

fn go(root: &Root<'_>) -> Option<String> {
    root.has("go.mod").then(|| "go test ./...".to_owned())
}

fn maven(root: &Root<'_>) -> Option<String> {
    if !root.has("pom.xml") {
        return None;
    }
    let program = if root.has("mvnw") { "./mvnw" } else { "mvn" };
    Some(format!("{program} -q -B test"))
}

fn gradle(root: &Root<'_>) -> Option<String> {
    let builds = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    if !builds.iter().any(|name| root.has(name)) {
        return None;
    }
    let program = if root.has("gradlew") { "./gradlew" } else { "gradle" };
    Some(format!("{program} test --console=plain"))
}

fn elixir(root: &Root<'_>) -> Option<String> {
    root.has("mix.exs").then(|| "mix test".to_owned())
}

fn ruby(root: &Root<'_>) -> Option<String> {
    if !root.has("Gemfile") {
        return None;
    }
    if root.has("spec") {
        return Some("bundle exec rspec".to_owned());
    }
    root.has("Rakefile").then(|| "bundle exec rake test".to_owned())
}

fn dotnet(root: &Root<'_>) -> Option<String> {
    let project = |name: &String| [".sln", ".slnx", ".csproj"].iter().any(|e| name.ends_with(e));
    root.names.iter().any(project).then(|| "dotnet test --nologo".to_owned())
}

fn deno(root: &Root<'_>) -> Option<String> {
    let config = root.has("deno.json") || root.has("deno.jsonc");
    (config && !root.has("package.json")).then(|| "deno test".to_owned())
}

fn make(root: &Root<'_>) -> Option<String> {
    let text = ["GNUmakefile", "Makefile", "makefile"].iter().find_map(|name| root.text(name))?;
    let has = |target: &str| {
        text.lines().any(|line| {
            line.split_once(':').is_some_and(|(targets, rest)| {
                !rest.starts_with('=') && targets.split(' ').any(|word| word == target)
            })
        })
    };
    ["test", "check"].iter().find(|target| has(target)).map(|target| format!("make {target}"))
}

fn script(root: &Root<'_>) -> Option<String> {
    const NAMES: &[&str] = &["test.sh", "run_tests.sh", "run-tests.sh", "runtests.sh", "test"];
    NAMES.iter().find_map(|name| {
        let text = root.text(name)?;
        let shebang = text.lines().next().filter(|line| line.starts_with("#!"));
        match shebang {
            Some(line) if line.contains("bash") => Some(format!("bash ./{name}")),
            Some(line) if line.ends_with("sh") => Some(format!("sh ./{name}")),
            Some(_) => Some(format!("./{name}")),
            None => name.strip_suffix(".sh").map(|_| format!("sh ./{name}")),
        }
    })
}

/// Runs the commands one after the other with `sh -lc`, each at most `timeout` long. A command that
/// cannot be run, or a sandbox that dies, is a row with a note, not an error.
pub async fn run(client: &Client, commands: &[String], timeout: Duration) -> Vec<CheckRun> {
    let mut runs = Vec::new();
    let mut gone = None;
    for command in commands {
        if let Some(why) = &gone {
            runs.push(CheckRun::not_run(command, why));
            continue;
        }
        match client.exec(exec(command, timeout)).await {
            Ok(output) => runs.push(CheckRun {
                command: command.clone(),
                exit_code: Some(output.exit_code),
                timed_out: output.timed_out,
                duration_ms: output.duration_ms,
                tail: tail(&output.output),
                note: note(output.exit_code, output.timed_out, timeout),
            }),
            Err(error) => {
                let why = text::line(&error.to_string());
                if matches!(error, GuestError::Gone(_) | GuestError::Protocol(_)) {
                    gone = Some(format!("not run: {why}"));
                }
                runs.push(CheckRun::not_run(command, why));
            }
        }
    }
    runs
}

fn exec(command: &str, timeout: Duration) -> Exec {
    Exec {
        argv: vec!["sh".to_owned(), "-lc".to_owned(), command.to_owned()],
        cwd: None,
        env: BTreeMap::from([("CI".to_owned(), "true".to_owned())]),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        output_cap: 64 << 10,
    }
}

fn note(exit_code: i32, timed_out: bool, timeout: Duration) -> Option<String> {
    match exit_code {
        _ if timed_out => Some(format!("stopped after {} s", timeout.as_secs())),
        COMMAND_NOT_FOUND => Some("command not found in the image".to_owned()),
        126 => Some("not executable".to_owned()),
        137 => Some("killed, perhaps for want of memory".to_owned()),
        _ => None,
    }
}

/// The end of an output: colours removed, control characters visible, bounded.
pub fn tail(output: &str) -> String {
    let clean = text::visible(&text::without_ansi(output));
    let clean = clean.trim_end();
    let start = clean.rmatch_indices('\n').nth(TAIL_LINES - 1).map_or(0, |(at, _)| at + 1);
    let mut from = start.max(clean.len().saturating_sub(TAIL_BYTES));
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    match from {
        0 => clean.to_owned(),
        cut => format!("[{} earlier bytes left out]\n{}", cut, &clean[cut..]),
    }
}

/// Base and head side by side, in the order of head; what ran only on base comes last.
pub fn compare(base: Vec<CheckRun>, head: Vec<CheckRun>, source: impl Into<String>) -> Evidence {
    let mut base: Vec<Option<CheckRun>> = base.into_iter().map(Some).collect();
    let mut rows = Vec::new();
    for run in head {
        let same = |slot: &&mut Option<CheckRun>| {
            slot.as_ref().is_some_and(|before| before.command == run.command)
        };
        let before = base.iter_mut().find(same).and_then(Option::take);
        rows.push(EvidenceRow { command: run.command.clone(), base: before, head: Some(run) });
    }
    for run in base.into_iter().flatten() {
        rows.push(EvidenceRow { command: run.command.clone(), base: Some(run), head: None });
    }
    Evidence { rows, source: source.into() }
}

/// The checks that failed before and still do, as far as a change can help: not those whose program is
/// missing, or that never end.
pub fn still_failing(evidence: &Evidence) -> Vec<&EvidenceRow> {
    let failed = |run: &CheckRun| {
        let code = run.exit_code.filter(|code| *code != 0 && *code != COMMAND_NOT_FOUND);
        code.is_some() && !run.timed_out
    };
    let still = |row: &&EvidenceRow| {
        row.head.as_ref().is_some_and(failed) && row.base.as_ref().is_some_and(failed)
    };
    evidence.rows.iter().filter(still).collect()
}

//! Python: uv, poetry, pdm and pipenv by their lock files, each into `.venv` of its folder; everything
//! else with pip into the interpreter of the image, so that `python -m pytest` finds it.

use std::collections::BTreeSet;

use super::{Package, Step, tox};
use crate::files::quote;
use crate::read;
use crate::registries::Ecosystem;

/// pip of whatever interpreter there is. Where the distribution keeps its own packages apart (PEP 668),
/// it is told that this container is ours; a user who may not write there gets `--user` from pip itself.
const PIP: &str = "export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore\n\
py=$(command -v python3 || command -v python) || { echo 'no Python in the image' >&2; exit 127; }\n\
\"$py\" -m pip --version >/dev/null 2>&1 || \"$py\" -m ensurepip >/dev/null 2>&1 || { [ \"$(id -u)\" = 0 ] && apt-get update -q && apt-get install -q -y --no-install-recommends python3-pip python3-venv; }\n";

/// Extras, groups and files with these names are what tests need.
const TEST_NAMES: &[&str] = &["test", "tests", "testing", "dev", "develop", "development"];

/// Lock file, program, and the command; uv's is made by [`uv_sync`].
const LOCKS: &[(&str, &str, &str)] = &[
    ("uv.lock", "uv", ""),
    (
        "poetry.lock",
        "poetry",
        "export POETRY_VIRTUALENVS_IN_PROJECT=true\n\
         poetry install --no-interaction --all-extras || poetry install --no-interaction",
    ),
    ("pdm.lock", "pdm", "export PDM_CHECK_UPDATE=false\npdm sync -G :all || pdm sync"),
    (
        "Pipfile.lock",
        "pipenv",
        "export PIPENV_VENV_IN_PROJECT=1\npipenv sync --dev || pipenv install --dev --skip-lock",
    ),
];

/// Whether what is installed is in `.venv`.
pub(super) fn makes_venv(package: &Package<'_>) -> bool {
    LOCKS.iter().any(|(lock, ..)| package.has(lock))
}

pub(super) fn steps(package: &Package<'_>) -> Vec<Step> {
    let step = |file: &str, rule: &str, command: String| {
        package.step(Ecosystem::Python, file, rule, command)
    };
    if let Some((lock, program, command)) = LOCKS.iter().find(|(lock, ..)| package.has(lock)) {
        let made = (*program == "uv").then(|| uv_sync(package));
        let command = made.as_deref().unwrap_or(command);
        let get = format!(
            "command -v {program} >/dev/null || \"$py\" -m pip install -q {program} || exit\nexport PATH=\"$HOME/.local/bin:$PATH\"\n"
        );
        return vec![step(
            lock,
            program,
            format!("{PIP}{get}{command}{}", runner_in(package, program)),
        )];
    }
    let mut declared = String::new();
    let mut steps: Vec<Step> = Vec::new();
    let pip = |arguments: &str| format!("{PIP}\"$py\" -m pip install {arguments}");
    for file in requirements(package) {
        declared.push_str(&package.text(&file).unwrap_or_default());
        steps.push(step(&file, "pip install -r", pip(&format!("-r {}", quote(&file)))));
    }
    let has_test_file = steps.len() > usize::from(package.has("requirements.txt"));
    let mut groups = Vec::new();
    if let Some((file, extras)) = project(package, &mut declared, &mut groups) {
        let extras =
            if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
        let target = quote(&format!(".{extras}"));
        steps.push(step(
            &file,
            "pip install -e",
            format!("{} || \"$py\" -m pip install -e .", pip(&format!("-e {target}"))),
        ));
    }
    if !groups.is_empty() {
        declared.push_str(&groups.join("\n"));
        let words: Vec<String> = groups.iter().map(|group| quote(group)).collect();
        steps.push(step("pyproject.toml", "dependency-groups", pip(&words.join(" "))));
    }
    if !has_test_file && !declared.contains("pytest") {
        for (file, words) in tool_requirements(package) {
            declared.push_str(&words.join(" "));
            steps.push(step(file, "test dependencies", pip(&words.join(" "))));
        }
    }
    if !declared.contains("pytest")
        && let Some(file) = imports_pytest(package)
    {
        steps.push(step(&file, "pytest is imported", pip("pytest")));
    }
    steps
}

/// Everything at once, then less of it. Of groups and extras that the project declares to exclude each other one is
/// taken, and where the host of a dependency that is a git repository is not allowed to setup, the others are installed.
fn uv_sync(package: &Package<'_>) -> String {
    let project = package.text("pyproject.toml").and_then(|text| read::toml(&text).ok());
    let less = project.map(|table| excluded(&table)).unwrap_or_default();
    let extras = format!("--all-extras{}", less.extras);
    let groups = format!("--all-groups{}", less.groups);
    let mut command = format!(
        "uv sync --locked {extras} {groups} || uv sync --frozen {extras} {groups} || uv sync --frozen {groups}"
    );
    let of_git = from_git(&package.text("uv.lock").unwrap_or_default());
    if !of_git.is_empty() {
        let without = of_git.iter().map(|name| format!(" --no-install-package {}", quote(name)));
        command += &format!(" || uv sync --frozen {groups}{}", without.collect::<String>());
    }
    command + " || uv sync --frozen"
}

/// Options that leave out what excludes something else.
#[derive(Default)]
struct ExcludedOptions {
    extras: String,
    groups: String,
}

/// Of each set in `tool.uv.conflicts` one stays: what tests need, or the first. Source: uv's documentation of conflicting
/// dependencies.
fn excluded(project: &toml::Table) -> ExcludedOptions {
    let mut options = ExcludedOptions::default();
    let conflicts = project.get("tool").and_then(|tool| tool.get("uv")?.get("conflicts"));
    let sets = conflicts.and_then(toml::Value::as_array).into_iter().flatten();
    for set in sets.filter_map(toml::Value::as_array).take(20) {
        let named = |kind: &'static str| {
            let of_kind = set.iter().filter(|it| it.get("package").is_none());
            of_kind.filter_map(move |it| Some((kind, it.get(kind)?.as_str()?)))
        };
        let all: Vec<(&str, &str)> = named("group").chain(named("extra")).collect();
        let kept = all.iter().position(|(_, name)| TEST_NAMES.contains(name)).unwrap_or(0);
        let others = all.into_iter().enumerate().filter(|(at, _)| *at != kept);
        for (kind, name) in others.map(|(_, other)| other) {
            let options = if kind == "group" { &mut options.groups } else { &mut options.extras };
            let option = format!(" --no-{kind} {}", quote(name));
            if !options.contains(&option) {
                options.push_str(&option);
            }
        }
    }
    options
}

/// Names of packages that a `uv.lock` takes from git repositories.
fn from_git(lock: &str) -> Vec<String> {
    let (mut name, mut found) = ("", Vec::new());
    for line in lock.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim().trim_matches('"');
        } else if line.starts_with("source = { git = ") && found.len() < 20 {
            found.push(name.to_owned());
        }
    }
    found
}

/// Tests that import a pytest which nobody declared get one.
fn runner_in(package: &Package<'_>, program: &str) -> String {
    let names = ["pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock"];
    let is_declared =
        names.iter().any(|name| package.text(name).is_some_and(|text| text.contains("pytest")));
    if is_declared || imports_pytest(package).is_none() {
        return String::new();
    }
    match program {
        "uv" => "\nuv pip install pytest".to_owned(),
        "poetry" | "pipenv" => format!("\n{program} run pip install pytest"),
        _ => "\n.venv/bin/python -m ensurepip && .venv/bin/python -m pip install pytest".to_owned(),
    }
}

/// Files of requirements, plain ones first: in the folder itself and in `requirements/`.
fn requirements(package: &Package<'_>) -> Vec<String> {
    let is_for_tests = |stem: &str| {
        let mut words = stem.split(['-', '_', '.']).filter(|word| *word != "requirements");
        words.next().is_some_and(|word| TEST_NAMES.contains(&word)) && words.next().is_none()
    };
    let mut found: Vec<String> = Vec::new();
    if package.has("requirements.txt") {
        found.push("requirements.txt".to_owned());
    }
    for name in package.files.files(package.folder) {
        let stem = name.strip_suffix(".txt").unwrap_or_default();
        if stem.contains("requirements") && is_for_tests(stem) {
            found.push(name);
        }
    }
    for name in package.files.files(&package.path("requirements")) {
        let Some(stem) = name.strip_suffix(".txt") else { continue };
        let is_base = found.is_empty() && ["base", "main", "requirements"].contains(&stem);
        if is_base || is_for_tests(stem) {
            found.push(format!("requirements/{name}"));
        }
    }
    found.truncate(6);
    found
}

/// The file that makes the folder an installable project, and the extras that tests want. Requirements of
/// dependency groups go to `groups`, the texts of what is declared to `declared`.
fn project(
    package: &Package<'_>,
    declared: &mut String,
    groups: &mut Vec<String>,
) -> Option<(String, Vec<String>)> {
    let mut extras: BTreeSet<String> = BTreeSet::new();
    let mut file = None;
    if let Some(text) = package.text("pyproject.toml") {
        match read::toml(&text) {
            Ok(table) => {
                let is_project =
                    table.contains_key("project") || table.contains_key("build-system");
                file = is_project.then(|| "pyproject.toml".to_owned());
                let project = table.get("project").and_then(toml::Value::as_table);
                if let Some(project) = project {
                    let text = |key| project.get(key).map(ToString::to_string).unwrap_or_default();
                    declared.push_str(&text("dependencies"));
                    let optional =
                        project.get("optional-dependencies").and_then(toml::Value::as_table);
                    for (name, value) in optional.into_iter().flatten() {
                        if TEST_NAMES.contains(&name.as_str()) {
                            extras.insert(name.clone());
                            declared.push_str(&value.to_string());
                        }
                    }
                }
                if let Some(table) = table.get("dependency-groups").and_then(toml::Value::as_table)
                {
                    for name in TEST_NAMES.iter().filter(|name| table.contains_key(**name)) {
                        group(table, name, groups, 0);
                    }
                }
            }
            Err(why) => package.note("pyproject.toml", why),
        }
    }
    for name in ["setup.cfg", "setup.py"] {
        let Some(text) = package.text(name) else { continue };
        if name == "setup.py" || text.contains("[metadata]") {
            file.get_or_insert_with(|| name.to_owned());
        }
        for extra in TEST_NAMES.iter().filter(|extra| names_extra(&text, name, extra)) {
            extras.insert((*extra).to_owned());
            declared.push_str(&text);
        }
    }
    file.map(|file| (file, extras.into_iter().collect()))
}

/// PEP 735: a group is a list of requirements and of other groups.
fn group(table: &toml::Table, name: &str, found: &mut Vec<String>, depth: usize) {
    let items = table.get(name).and_then(toml::Value::as_array);
    for item in items.into_iter().flatten().take(200) {
        if let Some(requirement) = item.as_str() {
            let is_new = !found.iter().any(|known| known == requirement);
            if is_new && !requirement.starts_with('-') && found.len() < 200 {
                found.push(requirement.to_owned());
            }
        } else if let Some(other) = item.get("include-group").and_then(toml::Value::as_str)
            && depth < 8
        {
            group(table, other, found, depth + 1);
        }
    }
}

/// Whether `setup.cfg` or `setup.py` has an extra of this name, without running either.
fn names_extra(text: &str, file: &str, extra: &str) -> bool {
    let Some(at) = text.find("extras_require") else { return false };
    let rest: String = text[at..].chars().take(4_000).collect();
    match file {
        "setup.cfg" => rest.lines().any(|line| {
            line.split_once('=')
                .is_some_and(|(name, _)| name.trim() == extra && !line.starts_with(' '))
        }),
        _ => [format!("\"{extra}\":"), format!("'{extra}':"), format!("{extra}=[")]
            .iter()
            .any(|it| rest.replace(' ', "").contains(it)),
    }
}

/// What tox and nox install before they run tests: words that are plain requirements.
fn tool_requirements(package: &Package<'_>) -> Vec<(&'static str, Vec<String>)> {
    let mut found = Vec::new();
    if let Some(text) = package.text("tox.ini") {
        let words = tox::dependencies(&text);
        if !words.is_empty() {
            found.push(("tox.ini", words));
        }
    }
    if let Some(text) = package.text("noxfile.py").filter(|_| found.is_empty()) {
        let words = nox(&text);
        if !words.is_empty() {
            found.push(("noxfile.py", words));
        }
    }
    found
}

/// `session.install("pytest", "hypothesis")`: literal strings only.
fn nox(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for call in text.split("session.install(").skip(1).take(20) {
        let arguments = call.split(')').next().unwrap_or_default();
        let literals: Vec<&str> = arguments.split(['"', '\'']).skip(1).step_by(2).collect();
        let is_option = literals.first().is_some_and(|first| first.starts_with('-'));
        if is_option || literals.iter().any(|word| word.starts_with('.')) {
            continue;
        }
        for word in literals.into_iter().filter(|word| !word.is_empty() && !word.starts_with('-')) {
            let word = quote(word);
            if !words.contains(&word) && words.len() < 60 {
                words.push(word);
            }
        }
    }
    words
}

/// The first file that shows that tests need pytest.
fn imports_pytest(package: &Package<'_>) -> Option<String> {
    if package.has("pytest.ini") {
        return Some("pytest.ini".to_owned());
    }
    let mut left = 40;
    for folder in ["", "tests", "test"] {
        let at = if folder.is_empty() { package.folder.to_owned() } else { package.path(folder) };
        for name in package.files.files(&at) {
            let is_test =
                name.starts_with("test_") || name.ends_with("_test.py") || name == "conftest.py";
            if !is_test || !name.to_ascii_lowercase().ends_with(".py") || left == 0 {
                continue;
            }
            left -= 1;
            let path = crate::files::join(folder, &name);
            let text = package.text(&path).unwrap_or_default();
            let is_import =
                |line: &str| line.starts_with("import pytest") || line.starts_with("from pytest");
            if text.lines().any(|line| is_import(line.trim_start())) {
                return Some(path);
            }
        }
    }
    None
}

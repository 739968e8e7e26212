//! Which command tests a folder, by what is in it: one row a kind of project.

use crate::files::join;
use crate::packages;

/// Names in a folder, and a reader for the files among them, by paths from there.
pub(super) struct Root<'a> {
    pub names: &'a [String],
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// What is in a folder, by its path from there.
    pub list: &'a dyn Fn(&str) -> Vec<String>,
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

/// A kind of project.
pub(super) struct Kind {
    /// As in reports.
    pub name: &'static str,
    /// The manifest by which a workspace above covers what is below; empty for none.
    pub manifest: &'static str,
    /// One check at the root tests the folders below, as a rule.
    pub covers_below: bool,
    /// Programs that test it, as CI calls them.
    pub programs: &'static [&'static str],
    pub command: fn(&Root<'_>) -> Option<String>,
}

macro_rules! kind {
    ($name:ident, $manifest:literal, $covers:literal, $programs:expr) => {
        Kind {
            name: stringify!($name),
            manifest: $manifest,
            covers_below: $covers,
            programs: &$programs,
            command: $name,
        }
    };
}

/// One row per kind of project. All that match are checks: a repository may be of several kinds.
pub(super) const KINDS: &[Kind] = &[
    kind!(cargo, "Cargo.toml", false, ["cargo"]),
    kind!(
        npm,
        "package.json",
        false,
        ["npm", "pnpm", "yarn", "bun", "npx", "node", "jest", "vitest", "mocha"]
    ),
    kind!(
        python,
        "pyproject.toml",
        true,
        ["pytest", "unittest", "python", "python3", "py.test", "uv", "poetry", "pdm", "pipenv"]
    ),
    kind!(go, "go.mod", false, ["go"]),
    kind!(maven, "pom.xml", false, ["mvn", "./mvnw"]),
    kind!(gradle, "build.gradle", false, ["gradle", "./gradlew"]),
    kind!(elixir, "mix.exs", false, ["mix"]),
    kind!(ruby, "", false, ["bundle", "rspec", "rake", "bin/rails", "bin/rspec"]),
    kind!(
        php,
        "",
        false,
        ["composer", "vendor/bin/phpunit", "./vendor/bin/phpunit", "vendor/bin/pest", "phpunit"]
    ),
    kind!(dotnet, "", true, ["dotnet"]),
    kind!(deno, "deno.json", false, ["deno"]),
];
/// The command that runs a repository's tests by convention.
type Convention = fn(&Root<'_>) -> Option<String>;

/// Asked when no kind matched: what the repository says itself, and kinds that would not be told apart from what CI
/// does with them.
const GENERIC: &[(&str, Convention)] = &[
    (OWN_TARGET, make),
    (OWN_TARGET, script),
    ("cmake", cmake),
    ("perl", perl),
    ("phpunit", phpunit),
    ("rake", rake),
];
pub(super) const OWN_TARGET: &str = "the repository's own target";
/// PHPUnit's configuration.
const PHPUNIT: &[&str] = &["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"];

/// What the repository has instead of a kind: how it was found, and the command.
pub(super) fn generic(root: &Root<'_>) -> Option<(&'static str, String)> {
    GENERIC.iter().find_map(|(rule, row)| Some((*rule, row(root)?)))
}

fn cargo(root: &Root<'_>) -> Option<String> {
    let text = root.text("Cargo.toml").filter(|text| !packages::is_fuzzed(text))?;
    // Alone it would test the package at the root and none of the others.
    let is_both = text.contains("[workspace]") && text.contains("[package]");
    Some(if is_both { "cargo test --workspace" } else { "cargo test" }.to_owned())
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
        return Some(format!("{}python -m pytest -q", venv(root)));
    }
    let is_python = ["pyproject.toml", "setup.py", "setup.cfg"].iter().any(|n| root.has(n));
    let source = |name: &&String| name.rsplit_once('.').is_some_and(|(_, ending)| ending == "py");
    let has_sources = |folder: &str| {
        let names = (root.list)(folder);
        let below = || {
            names.iter().any(|name| (root.list)(&join(folder, name)).iter().any(|it| source(&it)))
        };
        names.iter().any(|it| source(&it)) || below()
    };
    // They may be tests of something else that is here.
    let tests = has_sources("tests") || has_sources("test");
    let loose = root.names.iter().filter(source).any(|name| name.starts_with("test_"));
    let sources = root.names.iter().any(|name| source(&name));
    if !loose && !(tests && (is_python || sources)) {
        return None;
    }
    // A repository without pytest's configuration may well be tested with the standard library; the
    // command finds out which of the two the image can run.
    let folder = match () {
        () if !root.has("tests") => "",
        // From the top if the folder is a package; otherwise it cannot be imported from there.
        () if (root.read)("tests/__init__.py").is_some() => " -s tests -t .",
        () => " -s tests",
    };
    Some(format!(
        "{}if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; \
         else python -m unittest discover{folder}; fi",
        venv(root)
    ))
}

/// What uv, poetry, pdm and pipenv install is in an environment of its own.
fn venv(root: &Root<'_>) -> &'static str {
    let locks = ["uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"];
    match locks.iter().any(|lock| root.has(lock)) {
        true => "export PATH=\"$PWD/.venv/bin:$PATH\"; ",
        false => "",
    }
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
    let has_script = root.has("gradlew");
    let is_for_android =
        || builds.iter().filter_map(|name| root.text(name)).any(|it| packages::is_for_android(&it));
    if !has_script && is_for_android() {
        return None;
    }
    let program = if has_script { "./gradlew" } else { "gradle" };
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
    // A task that does not exist would fail before and after every change.
    let rakefile = root.text("Rakefile").filter(|_| root.has("Rakefile"))?;
    let is_tested = root.has("test")
        || ["TestTask", ":test", "task test", "task \"test\"", "task 'test'", "load_tasks"]
            .iter()
            .any(|sign| rakefile.contains(sign));
    let has_spec = || rakefile.contains("RSpec::Core::RakeTask");
    match () {
        () if is_tested => Some("bundle exec rake test".to_owned()),
        () => has_spec().then(|| "bundle exec rake spec".to_owned()),
    }
}

fn php(root: &Root<'_>) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(&root.text("composer.json")?).ok()?;
    if json.get("scripts").and_then(|scripts| scripts.get("test")).is_some() {
        return Some("composer test".to_owned());
    }
    let is_configured = PHPUNIT.iter().any(|name| root.has(name));
    is_configured.then(|| "vendor/bin/phpunit".to_owned())
}

fn dotnet(root: &Root<'_>) -> Option<String> {
    let is_solution = |name: &str| {
        packages::is_solution(name) && root.text(name).is_some_and(|it| packages::is_of_dotnet(&it))
    };
    let is_project = |name: &String| name.ends_with(".csproj") || is_solution(name);
    root.names.iter().any(is_project).then(|| "dotnet test --nologo".to_owned())
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

/// Where the list at the top says that there are tests, and neither asks the network for anything nor needs libraries that
/// an image may not have: then a failure is one of the code.
fn cmake(root: &Root<'_>) -> Option<String> {
    const FETCHES: &[&str] =
        &["fetchcontent_", "externalproject_add", "cpmaddpackage", "conan", "vcpkg"];
    let text = root.text("CMakeLists.txt")?.to_ascii_lowercase();
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text: String = code.flat_map(|line| [line, "\n"]).collect();
    let has_tests = text.contains("enable_testing(") || text.contains("include(ctest)");
    let needs = |call: &str| {
        let arguments = call.split(')').next().unwrap_or_default();
        arguments.contains("required") && !arguments.trim_start().starts_with("threads")
    };
    let is_alone = !FETCHES.iter().any(|word| text.contains(word))
        && !text.split("find_package(").skip(1).any(needs);
    let folder = if root.has("build") { "cmake-build" } else { "build" };
    (has_tests && is_alone).then(|| {
        format!(
            "cmake -S . -B {folder} && cmake --build {folder} --parallel 2 && \
             ctest --test-dir {folder} --output-on-failure"
        )
    })
}

fn perl(root: &Root<'_>) -> Option<String> {
    let command = match () {
        () if !root.has("t") => return None,
        () if root.has("Build.PL") => "perl Build.PL && ./Build && ./Build test verbose=1",
        () if root.has("Makefile.PL") => "perl Makefile.PL && make && make test TEST_VERBOSE=1",
        () if root.has("cpanfile") && root.has("lib") => "prove -lvr t",
        () => return None,
    };
    Some(command.to_owned())
}

/// Without a `composer.json` it is the program of the machine or of the image.
fn phpunit(root: &Root<'_>) -> Option<String> {
    let is_configured = PHPUNIT.iter().any(|name| root.has(name));
    (is_configured && !root.has("composer.json")).then(|| "phpunit".to_owned())
}

/// Without a `Gemfile` there is nothing that bundler would start.
fn rake(root: &Root<'_>) -> Option<String> {
    if root.has("Gemfile") {
        return None;
    }
    let text = root.text("Rakefile").unwrap_or_default();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match () {
        () if has(&["TestTask", "task :test", "task test:"]) => Some("rake test".to_owned()),
        () if has(&["RSpec::Core::RakeTask"]) => Some("rake spec".to_owned()),
        () => (root.has(".rspec") && root.has("spec")).then(|| "rspec".to_owned()),
    }
}

//! Trees in memory, and what setting them up means.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

/// Files, and the steps that follow from them.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

/// Folder and rule of every step.
fn rules(files: &[(&str, &str)]) -> Vec<String> {
    let plan = detect(&tree(files));
    plan.steps.iter().map(|step| format!("{}: {}", step.why.file, step.why.rule)).collect()
}

#[test]
fn lock_files_and_manifests_name_the_command() {
    let rows: [Row<'_>; 19] = [
        (&[("README.md", "")], &[]),
        (&[("uv.lock", ""), ("pyproject.toml", "[project]")], &["uv.lock: uv"]),
        (&[("poetry.lock", ""), ("pyproject.toml", "")], &["poetry.lock: poetry"]),
        (&[("pdm.lock", ""), ("pyproject.toml", "")], &["pdm.lock: pdm"]),
        (&[("Pipfile.lock", ""), ("Pipfile", "")], &["Pipfile.lock: pipenv"]),
        (
            &[
                ("requirements.txt", ""),
                ("requirements-dev.txt", "pytest"),
                ("requirements-docs.txt", ""),
            ],
            &["requirements.txt: pip install -r", "requirements-dev.txt: pip install -r"],
        ),
        (&[("package.json", "{}"), ("pnpm-lock.yaml", "")], &["pnpm-lock.yaml: pnpm install"]),
        (&[("package.json", "{}"), ("yarn.lock", "")], &["yarn.lock: yarn install"]),
        (&[("package.json", "{}"), ("bun.lock", "")], &["bun.lock: bun install"]),
        (&[("package.json", r#"{"dependencies": {"a": "1"}}"#)], &["package.json: npm install"]),
        (&[("Cargo.toml", ""), ("Cargo.lock", "")], &["Cargo.lock: cargo fetch"]),
        (&[("go.mod", "module x")], &["go.mod: go mod download"]),
        (&[("Gemfile", ""), ("Gemfile.lock", "")], &["Gemfile.lock: bundle install"]),
        (&[("composer.json", "{}")], &["composer.json: composer install"]),
        (&[("pom.xml", "")], &["pom.xml: dependency:go-offline"]),
        (&[("build.gradle.kts", ""), ("gradlew", "")], &["build.gradle.kts: gradle testClasses"]),
        (&[("Shop.sln", ""), ("Shop/Shop.csproj", "")], &["Shop.sln: dotnet restore"]),
        (&[("mix.exs", ""), ("mix.lock", "")], &["mix.lock: mix deps.get"]),
        (&[("deno.json", "{}")], &["deno.json: deno install"]),
    ];
    for (files, expected) in rows {
        assert_eq!(rules(files), expected, "{files:?}");
    }
}

#[test]
fn what_tests_only_read_is_not_installed() {
    let project = "[project]\nname = \"x\"\n";
    let fuzzed = "[package.metadata]\ncargo-fuzz = true\n";
    let workflow = |run: &str| {
        format!(
            "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: {run}\n"
        )
    };
    let root = "pyproject.toml: pip install -e";
    let rows = [
        ("pytest", vec![root]),
        ("npm install --prefix tests/site", vec![root, "tests/site/package.json: npm install"]),
    ];
    for (run, expected) in rows {
        let workflow = workflow(run);
        let files = [
            (".github/workflows/ci.yml", workflow.as_str()),
            ("pyproject.toml", project),
            ("tests/site/package.json", r#"{"dependencies": {"a": "1"}}"#),
            ("tests/test_data/fake/setup.py", ""),
            ("example-plugin/setup.py", ""),
            ("test cases/1 basic/Cargo.toml", "[package]"),
            ("fuzz/Cargo.toml", fuzzed),
            ("support/build.gradle", "apply plugin: 'com.android.library'"),
            ("windows/one.sln", "one.vcxproj"),
        ];
        assert_eq!(rules(&files), expected, "{run}");
    }
    // Where nothing else is there, it may be all that there is.
    assert_eq!(rules(&[("tests/go.mod", "")]), ["tests/go.mod: go mod download"]);
    let deno = r#"{"workspace": ["./one"]}"#;
    let files = [("deno.json", deno), ("one/deno.json", "{}")];
    assert_eq!(rules(&files), ["deno.json: deno install"]);
}

#[test]
fn only_jobs_that_give_a_check_have_their_install_steps_run() {
    let job = |name: &str, more: &str, runs: &[&str]| {
        let steps: String = runs.iter().map(|run| format!("      - run: {run}\n")).collect();
        format!("  {name}:\n    runs-on: ubuntu-latest\n{more}    steps:\n{steps}")
    };
    let commands = |jobs: &[String]| -> Vec<String> {
        let workflow = format!("on: pull_request\njobs:\n{}", jobs.concat());
        let plan = detect(&tree(&[(".github/workflows/ci.yml", &workflow)]));
        plan.steps.into_iter().map(|step| step.command).collect()
    };
    let site = job("site", "", &["gem install jekyll", "jekyll build"]);
    let test = job("test", "", &["pip install pytest", "python -m pytest"]);
    assert_eq!(commands(&[site.clone(), test]), ["pip install pytest"]);
    // None has tests that can be run here: whatever is installed may be what the convention's check needs.
    let lint = job("lint", "", &["pip install ruff", "ruff check ."]);
    assert_eq!(commands(&[site, lint]), ["gem install jekyll", "pip install ruff"]);
}

#[test]
fn uv_is_asked_for_what_goes_together_and_can_be_had() {
    let project = "[project]\nname = 'x'\n[tool.uv]\nconflicts = [[{group = 'old'}, {group = 'dev'}], \
                   [{extra = 'cpu'}, {extra = 'gpu'}], [{package = 'y', extra = 'a'}]]\n";
    let lock = "[[package]]\nname = \"h2\"\nsource = { registry = \"https://pypi.org/simple\" }\n\n\
                [[package]]\nname = \"hypercorn\"\nsource = { git = \"https://github.com/a/b\" }\n";
    let plan = detect(&tree(&[("pyproject.toml", project), ("uv.lock", lock)]));
    let syncs: Vec<&str> = plan.steps[0].command.split("||").map(str::trim).collect();
    let groups = "--all-groups --no-group old";
    let last = syncs.iter().position(|it| {
        it.ends_with("--locked --all-extras --no-extra gpu --all-groups --no-group old")
    });
    assert_eq!(
        syncs[last.unwrap() + 1..],
        [
            format!("uv sync --frozen --all-extras --no-extra gpu {groups}"),
            format!("uv sync --frozen {groups}"),
            format!("uv sync --frozen {groups} --no-install-package hypercorn"),
            "uv sync --frozen".to_owned(),
        ]
    );
}

#[test]
fn python_projects_get_what_their_tests_need() {
    let project = "[build-system]\n[project]\nname = 'x'\n[project.optional-dependencies]\ntest = ['hypothesis']\ndocs = ['sphinx']\n[dependency-groups]\nmore = ['coverage']\ndev = ['ruff>=0.5; python_version > \"3\"', {include-group = 'more'}, {include-group = 'dev'}]\n";
    let files = [("pyproject.toml", project), ("tests/test_a.py", "import pytest\n")];
    let plan = detect(&tree(&files));
    let last = |at: usize| plan.steps[at].command.lines().last().unwrap().to_owned();
    assert_eq!(plan.steps.len(), 3);
    assert_eq!(last(0), "\"$py\" -m pip install -e '.[test]' || \"$py\" -m pip install -e .");
    assert_eq!(last(1), "\"$py\" -m pip install 'ruff>=0.5; python_version > \"3\"' coverage");
    assert_eq!(last(2), "\"$py\" -m pip install pytest");
    assert!(plan.artefacts.contains("*.egg-info/"));
    let setup = "from setuptools import setup\nsetup(extras_require={'test': ['pytest']})\n";
    let plan = detect(&tree(&[("setup.py", setup)]));
    assert!(plan.steps[0].command.ends_with("-e '.[test]' || \"$py\" -m pip install -e ."));
    let tox = "[tox]\nenvlist = py\n[testenv]\ndeps =\n    pytest>=8\n    -r req.txt\n    py27: mock\ncommands = pytest\n";
    let plan = detect(&tree(&[("setup.py", ""), ("tox.ini", tox)]));
    assert!(
        plan.steps[1].command.ends_with("install 'pytest>=8' -r req.txt"),
        "{:?}",
        plan.steps[1]
    );
    let nox = "session.install('-e', '.')\nsession.install(\"pytest\", 'x; rm')\n";
    let plan = detect(&tree(&[("setup.py", ""), ("noxfile.py", nox)]));
    assert!(plan.steps[1].command.ends_with("install pytest 'x; rm'"), "{:?}", plan.steps[1]);
}

#[test]
fn npm_ci_runs_only_where_lock_file_and_manifest_agree() {
    let lock = r#"{"packages": {"": {"dependencies": {"a": "^1"}}}}"#;
    let agrees = r#"{"dependencies": {"a": "^1"}}"#;
    let lies = r#"{"dependencies": {"a": "^2"}}"#;
    let plan = detect(&tree(&[("package.json", agrees), ("package-lock.json", lock)]));
    assert!(plan.steps[0].command.starts_with("npm ci ") && plan.notes.is_empty());
    let plan = detect(&tree(&[("package.json", lies), ("package-lock.json", lock)]));
    assert!(plan.steps[0].command.starts_with("npm install --no-package-lock "));
    assert!(plan.notes[0].text.contains("does not agree with `package.json` on `a`"));
    let plan = detect(&tree(&[("package.json", agrees), ("package-lock.json", "{")]));
    assert_eq!(plan.notes[0].text, "is not valid JSON; installed from `package.json` instead");
}

#[test]
fn copilot_setup_steps_come_first_and_rules_fill_the_gaps() {
    let steps = "on: workflow_dispatch\njobs:\n  copilot-setup-steps:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v5\n      - uses: actions/setup-node@v5\n        with:\n          node-version: 22\n      - run: npm ci --ignore-scripts\n";
    let files = [
        (".github/workflows/copilot-setup-steps.yml", steps),
        ("package.json", r#"{"dependencies": {"a": "1"}}"#),
        ("go.mod", "module x\n\ngo 1.24\n"),
    ];
    let plan = detect(&tree(&files));
    let commands: Vec<&str> = plan.steps.iter().map(|step| step.command.as_str()).collect();
    assert_eq!(commands, ["npm ci --ignore-scripts", "go mod download"]);
    assert_eq!(plan.versions["node"].value, "22");
    assert_eq!(
        (plan.versions["go"].value.as_str(), plan.versions["go"].why.line),
        ("1.24", Some(3))
    );
}

#[test]
fn a_package_manager_that_an_action_would_have_installed_is_there_for_written_steps() {
    let with = |steps: &str| {
        let head = "on: workflow_dispatch\njobs:\n  copilot-setup-steps:\n    steps:\n      - uses: pnpm/action-setup@v4\n";
        let files = format!("{head}{steps}");
        let files = [
            (".github/workflows/copilot-setup-steps.yml", files.as_str()),
            ("package.json", r#"{"dependencies": {"a": "1"}, "packageManager": "pnpm@9.1.0"}"#),
            ("pnpm-lock.yaml", ""),
        ];
        detect(&tree(&files)).steps.into_iter().map(|step| step.command).collect::<Vec<_>>()
    };
    let found = with("      - run: pnpm install\n");
    assert!(found[0].ends_with("npm install --global --force pnpm@9.1.0 || exit"), "{found:?}");
    assert_eq!(found[1..], ["pnpm install"]);
    // What is written installs it itself, or has nothing to do with it.
    let found = with("      - run: corepack enable && pnpm install\n");
    assert_eq!(found, ["corepack enable && pnpm install"]);
    let found = with("      - run: npm ci\n");
    assert_eq!(found, ["npm ci"]);
}

#[test]
fn packages_that_one_above_replaces_are_not_installed_by_themselves() {
    let files = [
        ("composer.json", r#"{"name": "x/all", "replace": {"x/log": "self.version"}}"#),
        ("src/Log/composer.json", r#"{"name": "x/log"}"#),
        ("src/Other/composer.json", r#"{"name": "x/other"}"#),
    ];
    let plan = detect(&tree(&files));
    let folders: Vec<&str> = plan.steps.iter().map(|step| step.folder.as_str()).collect();
    assert_eq!(folders, ["", "src/Other"]);
}

#[test]
fn ci_names_packages_of_the_distribution() {
    let workflow = "on: [push]\njobs:\n  t:\n    runs-on: ubuntu-latest\n    steps:\n      - run: |\n          sudo apt-get update\n          sudo apt-get install -y libpq-dev\n      - run: ./bootstrap.sh && pip install -r r.txt\n";
    let plan = detect(&tree(&[(".github/workflows/ci.yml", workflow), ("go.mod", "module x")]));
    assert!(plan.steps[0].command.ends_with("--no-install-recommends libpq-dev"));
    assert_eq!(plan.steps[0].hosts()[0], "deb.debian.org");
    assert_eq!(plan.steps.len(), 2, "{:?}", plan.steps);
    // Those of jobs with tests only, and each by itself where one is not there.
    let more = "  test:\n    steps:\n      - run: apt-get install -y jq libpq-dev\n      - run: go test ./...\n";
    let both = format!("{workflow}{more}");
    let plan =
        detect(&tree(&[(".github/workflows/ci.yml", both.as_str()), ("go.mod", "module x")]));
    let all = plan.steps[0].command.lines().last().unwrap();
    assert_eq!(
        all,
        "apt-get update -q && { apt-get install -q -y --no-install-recommends jq libpq-dev || for package in jq libpq-dev; do apt-get install -q -y --no-install-recommends \"$package\" || echo \"$package is left out\" >&2; done; }"
    );
    let other = both.replace("libpq-dev\n      - run: ./", "libfoo\n      - run: ./");
    let plan =
        detect(&tree(&[(".github/workflows/ci.yml", other.as_str()), ("go.mod", "module x")]));
    assert!(!plan.steps[0].command.contains("libfoo"));
    // Without any rule CI's own steps are used.
    let plan = detect(&tree(&[(".github/workflows/ci.yml", workflow)]));
    assert_eq!(plan.steps[1].command, "./bootstrap.sh && pip install -r r.txt");
}

#[test]
fn dev_containers_prepare_what_nothing_else_does() {
    let file = "{\n // image\n \"image\": \"mcr.microsoft.com/devcontainers/base\", \"features\": {\"x/y\": {}},\n \"postCreateCommand\": {\"a\": \"make deps\", \"b\": [\"sh\", \"-c\", \"echo a b\"]},\n}";
    let plan = detect(&tree(&[(".devcontainer/devcontainer.json", file)]));
    let commands: Vec<&str> = plan.steps.iter().map(|step| step.command.as_str()).collect();
    assert_eq!(commands, ["make deps", "sh -c 'echo a b'"]);
    assert_eq!(plan.notes[0].text, "features are not installed: x/y");
}

#[test]
fn nested_packages_are_set_up_where_no_workspace_does_it() {
    let files = [
        ("package.json", r#"{"workspaces": ["a"], "dependencies": {"x": "1"}}"#),
        ("a/package.json", r#"{"dependencies": {"x": "1"}}"#),
        ("api/go.mod", "module x"),
    ];
    let plan = detect(&tree(&files));
    let lines: Vec<String> = plan.steps.iter().map(Step::line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[1], "cd api && { go mod download\n}");
    let many: Vec<String> = (0..50).map(|n| format!("m{n:02}/go.mod")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "module x")).collect();
    let plan = detect(&tree(&many));
    assert_eq!(plan.steps.len(), MAX_NESTED);
    assert!(
        plan.notes[0].text.starts_with("38 more packages are not set up: m12, m13"),
        "{:?}",
        plan.notes
    );
}

#[test]
fn versions_come_from_the_most_exact_file() {
    let files = [
        (".python-version", "3.12\n"),
        (".tool-versions", "nodejs 22.1.0 # lts\npython 3.9\nruby 3.4.1\n"),
        ("pyproject.toml", "[project]\nrequires-python = '>=3.10'\n"),
        (
            "package.json",
            r#"{"packageManager": "pnpm@9.1.0+sha512.abc", "engines": {"node": ">=20"}}"#,
        ),
        ("rust-toolchain.toml", "[toolchain]\nchannel = '1.90'\n"),
        ("global.json", r#"{"sdk": {"version": "9.0.100"}}"#),
        (".ruby-version", "$(rm -rf /)\n"),
    ];
    let plan = detect(&tree(&files));
    let found: Vec<String> =
        plan.versions.iter().map(|(tool, version)| format!("{tool} {}", version.value)).collect();
    assert_eq!(
        found,
        ["dotnet 9.0.100", "node 22.1.0", "pnpm 9.1.0", "python 3.12", "ruby 3.4.1", "rust 1.90"]
    );
}

/// `.python-version` holds what pyenv calls an environment, too, and every tool has words of its own for versions.
#[test]
fn a_version_is_a_number_or_a_word_for_one() {
    for (file, content, expected) in [
        (".python-version", "sqlparse\n", None),
        (".python-version", "sqlparse-3.12\n", None),
        (".python-version", "system\n", None),
        (".python-version", "stable\n", None),
        (".python-version", "3.13-dev\n", Some("python 3.13-dev")),
        (".python-version", "pypy3.10-7.3.12\n", Some("python pypy3.10-7.3.12")),
        (".nvmrc", "v20\n", Some("node v20")),
        (".nvmrc", "lts/*\n", Some("node lts/*")),
        (".node-version", "vogon\n", None),
        (".ruby-version", "ruby-3.4.1\n", Some("ruby 3.4.1")),
        (".ruby-version", "jruby-9.4\n", Some("ruby jruby-9.4")),
        (".java-version", "temurin-21\n", Some("java temurin-21")),
        (".tool-versions", "elixir 1.18-otp-27\n", Some("elixir 1.18-otp-27")),
        (".tool-versions", "terraform latest\n", Some("terraform latest")),
        (".tool-versions", "python system\n", None),
        ("rust-toolchain", "nightly-2026-01-01\n", Some("rust nightly-2026-01-01")),
        ("rust-toolchain", "own\n", None),
        ("Cargo.toml", "[package]\nrust-version = '1.90'\n", Some("rust >=1.90")),
        ("package.json", r#"{"engines": {"node": "^20 || >= 22"}}"#, Some("node ^20 || >= 22")),
        ("pyproject.toml", "[project]\nrequires-python = '~= 3.10'\n", Some("python ~= 3.10")),
    ] {
        let plan = detect(&tree(&[(file, content)]));
        let found: Vec<String> =
            plan.versions.iter().map(|(tool, it)| format!("{tool} {}", it.value)).collect();
        assert_eq!(found.first().map(String::as_str), expected, "{file}: {content}");
    }
    // A name is not in the way of the version that another file has.
    let files = [
        (".python-version", "sqlparse\n"),
        ("pyproject.toml", "[project]\nrequires-python = '>=3.8'\n"),
    ];
    assert_eq!(detect(&tree(&files)).versions["python"].value, ">=3.8");
}

#[test]
fn the_matrix_is_one_entry_and_other_systems_are_left_out() {
    let workflow = "on:\n  push:\n    branches: [main]\nenv:\n  MODE: fast\njobs:\n  test:\n    strategy:\n      matrix:\n        os: [windows-latest, ubuntu-latest]\n        python-version: ['3.9', '3.13', '3.10']\n    runs-on: ${{ matrix.os }}\n    defaults:\n      run:\n        working-directory: ./lib\n    steps:\n      - uses: actions/setup-python@v6\n        with:\n          python-version: ${{ matrix.python-version }}\n      - run: pytest -k ${{ env.MODE }}\n      - run: deploy ${{ secrets.KEY }}\n  mac:\n    runs-on: macos-latest\n    steps:\n      - run: pytest\n  release:\n    if: startsWith(github.ref, 'refs/tags/')\n    runs-on: ubuntu-latest\n    steps:\n      - run: npm publish\n";
    let plan = crate::ci::detect(&tree(&[(".github/workflows/a.yml", workflow)]));
    assert_eq!(plan.jobs.len(), 1, "{:?}", plan.jobs);
    assert_eq!(plan.versions["python"].value, "3.13");
    let step = &plan.jobs[0].steps[0];
    assert_eq!((step.command.as_str(), step.folder.as_str()), ("pytest -k fast", "lib"));
    assert_eq!(step.with_environment(), "export MODE=fast\npytest -k fast");
    assert_eq!(plan.jobs[0].steps[1].unusable.as_deref(), Some("uses a secret"));
}

#[test]
fn gitlab_and_travis_are_read() {
    let gitlab = "image: python:3\nbefore_script:\n  - pip install -r r.txt\ntest:\n  services: [postgres:16]\n  script:\n    - pytest\ndeploy:\n  stage: deploy\n  script: [./deploy]\n";
    let travis = "language: ruby\nruby: [3.1, 3.4]\nscript: bundle exec rspec\n";
    let plan = crate::ci::detect(&tree(&[(".gitlab-ci.yml", gitlab), (".travis.yml", travis)]));
    let found: Vec<(&str, usize)> =
        plan.jobs.iter().map(|job| (job.name.as_str(), job.tests().count())).collect();
    assert_eq!(found, [("test", 1), ("script", 1)]);
    assert_eq!(plan.jobs[0].services["postgres"].image, "postgres:16");
    assert_eq!(plan.versions["ruby"].value, "3.4");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_file_makes_it_fail(text in "\\PC{0,300}|([a-z\\[\\]{}:=\"'\\-, \n$.#]{0,300})") {
        let names = [
            "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "noxfile.py", "package.json", "package-lock.json",
            "Cargo.toml", "go.mod", "global.json", ".tool-versions", ".python-version", "rust-toolchain", "Makefile",
            "justfile", "Taskfile.yml", ".gitlab-ci.yml", ".travis.yml", ".devcontainer.json", "composer.json",
            ".github/workflows/ci.yml", ".github/workflows/copilot-setup-steps.yml", "requirements.txt", "a/package.json",
        ];
        let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, text.as_str())).collect();
        let tree = tree(&files);
        prop_assert!(detect(&tree).steps.len() <= MAX_STEPS);
        crate::checks::detect(&tree, &["a/x".to_owned()], true);
    }
}

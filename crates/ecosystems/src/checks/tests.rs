//! Trees in memory, and the checks that are found in them.

use std::collections::BTreeMap;

use super::detect;
use crate::results::Runner;

pub(super) fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

pub(super) fn found(files: &[(&str, &str)], touched: &[&str]) -> Vec<String> {
    let touched: Vec<String> = touched.iter().map(|path| (*path).to_owned()).collect();
    detect(&tree(files), &touched, true).commands()
}

/// Files, and what is found in them.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

pub(super) const NPM: &str = r#"{"scripts": {"test": "vitest run"}}"#;

#[test]
fn folders_count_as_folders() {
    let files = [("setup.py", ""), ("tests/__init__.py", ""), ("tests/test_a.py", "")];
    assert_eq!(
        found(&files, &[]),
        [
            "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; else python -m unittest discover -s tests -t .; fi"
        ]
    );
    assert_eq!(found(&[("Gemfile", ""), ("spec/a_spec.rb", "")], &[]), ["bundle exec rspec"]);
}

#[test]
fn conventions_follow_lock_files_and_workspaces() {
    let rows: [Row<'_>; 23] = [
        (
            &[("pyproject.toml", "pytest"), ("uv.lock", "")],
            &["export PATH=\"$PWD/.venv/bin:$PATH\"; python -m pytest -q"],
        ),
        (&[("Cargo.toml", "[package]\n[workspace]\n")], &["cargo test --workspace"]),
        (&[("Cargo.toml", "[workspace]\n"), ("a/Cargo.toml", "[package]\n")], &["cargo test"]),
        (&[("composer.json", "{}"), ("phpunit.xml.dist", "")], &["vendor/bin/phpunit"]),
        (&[("justfile", "test *args:\n    ./x\n")], &["just test"]),
        (&[("README.md", "")], &[]),
        (
            &[("CMakeLists.txt", "project(x)\nenable_testing()\nfind_package(Threads REQUIRED)\n")],
            &[
                "cmake -S . -B build && cmake --build build --parallel 2 && ctest --test-dir build --output-on-failure",
            ],
        ),
        (
            &[("CMakeLists.txt", "include(CTest)\n"), ("build/x.sh", "")],
            &[
                "cmake -S . -B cmake-build && cmake --build cmake-build --parallel 2 && ctest --test-dir cmake-build --output-on-failure",
            ],
        ),
        (&[("CMakeLists.txt", "project(x)\n")], &[]),
        (
            &[(
                "CMakeLists.txt",
                "include(FetchContent)\nFetchContent_Declare(a)\nenable_testing()\n",
            )],
            &[],
        ),
        (&[("CMakeLists.txt", "find_package(Boost 1.80 REQUIRED)\nenable_testing()\n")], &[]),
        (
            &[("Makefile.PL", ""), ("t/a.t", "")],
            &["perl Makefile.PL && make && make test TEST_VERBOSE=1"],
        ),
        (
            &[("Build.PL", ""), ("t/a.t", "")],
            &["perl Build.PL && ./Build && ./Build test verbose=1"],
        ),
        (&[("cpanfile", ""), ("lib/A.pm", ""), ("t/a.t", "")], &["prove -lvr t"]),
        (&[("t/a.t", "")], &[]),
        (&[("phpunit.xml.dist", "")], &["phpunit"]),
        (&[("Rakefile", "Rake::TestTask.new\n")], &["rake test"]),
        (&[("Rakefile", "RSpec::Core::RakeTask.new(:spec)\n")], &["rake spec"]),
        (&[("Rakefile", "task :build\n")], &[]),
        (&[("Gemfile", ""), ("Rakefile", "task :release_all\n")], &[]),
        (
            &[("Gemfile", ""), ("Rakefile", "Rails.application.load_tasks\n")],
            &["bundle exec rake test"],
        ),
        (
            &[("Gemfile", ""), ("Rakefile", "RSpec::Core::RakeTask.new\n")],
            &["bundle exec rake spec"],
        ),
        (&[(".rspec", ""), ("spec/a_spec.rb", "")], &["rspec"]),
    ];
    for (files, expected) in rows {
        assert_eq!(found(files, &[]), expected, "{files:?}");
    }
}

#[test]
fn ci_knows_better_than_convention() {
    let workflow = "on: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: pip install -e .[dev]\n      - run: python -m unittest discover -s tests\n        env:\n          LEVEL: high\n";
    let files =
        [(".github/workflows/ci.yml", workflow), ("pyproject.toml", ""), ("tests/test_a.py", "")];
    let plan = detect(&tree(&files), &[], true);
    assert_eq!(plan.commands(), ["export LEVEL=high\npython -m unittest discover -s tests"]);
    assert_eq!(plan.checks[0].why.line, Some(7));
    assert_eq!(plan.checks[0].runner, Some(Runner::Unittest));
    assert_eq!(plan.source(), "found in the repository's CI files");
}

#[test]
fn ci_commands_that_cannot_run_here_are_left_alone() {
    let rows = [
        "      - run: tox -e py\n",
        "      - run: pip install x && pytest\n",
        "      - run: pytest --token ${{ secrets.TOKEN }}\n",
        "      - run: pytest\n        env:\n          TOKEN: ${{ secrets.TOKEN }}\n",
        "      - run: pytest tests/e2e\n",
        "      - run: pytest\n        if: github.event_name == 'schedule'\n",
        "      - run: pytest\n        shell: pwsh\n",
        "      - run: pytest\n    services:\n      db:\n        image: postgres\n        credentials: {}\n",
    ];
    for steps in rows {
        let workflow =
            format!("on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n{steps}");
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("pytest.ini", "")];
        assert_eq!(found(&files, &[]), ["python -m pytest -q"], "{steps}");
    }
}

#[test]
fn tests_beside_services_are_taken_where_services_can_be_had() {
    let services = "    services:\n      db:\n        image: postgres:16\n        ports: ['5432:5432']\n        options: >-\n          --health-cmd pg_isready\n";
    let steps =
        "    steps:\n      - run: pytest --db=localhost:${{ job.services.db.ports[5432] }}\n";
    let with = format!("on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n{services}{steps}");
    let files = [(".github/workflows/ci.yml", with.as_str()), ("pytest.ini", "")];
    let plan = detect(&tree(&files), &[], true);
    assert_eq!(plan.commands(), ["pytest --db=localhost:5432"]);
    assert_eq!(plan.services["db"].image, "postgres:16");
    assert_eq!(plan.services["db"].health.as_deref(), Some("pg_isready"));
    let plan = detect(&tree(&files), &[], false);
    assert_eq!((plan.commands(), plan.services.len()), (vec!["python -m pytest -q".to_owned()], 0));
    // A job without services is enough.
    let both = format!("{with}  unit:\n    steps:\n      - run: pytest tests/unit\n");
    let files = [(".github/workflows/ci.yml", both.as_str()), ("pytest.ini", "")];
    let plan = detect(&tree(&files), &[], true);
    assert_eq!((plan.commands(), plan.services.len()), (vec!["pytest tests/unit".to_owned()], 0));
}

/// Nor is it run without them as if nothing were known about it.
#[test]
fn a_job_without_its_services_is_said() {
    let with = |steps: &str| {
        let services = "    services: { db: { image: 'postgres:16', ports: ['5432:5432'] } }\n";
        job(steps) + services
    };
    let rows = [
        ("      - run: sh ./run_tests.sh\n", "run_tests.sh", &[][..]),
        ("      - run: ./run_tests.sh\n", "run_tests.sh", &[]),
        ("      - run: make test\n", "Makefile", &[]),
        ("      - run: make test-db\n", "Makefile", &["make test"]),
    ];
    for (steps, name, expected) in rows {
        let workflow = with(steps);
        let files = [(".github/workflows/ci.yml", workflow.as_str()), (name, "test:\n\tx\n")];
        let plan = detect(&tree(&files), &[], false);
        assert_eq!(plan.commands(), expected, "{steps}");
        let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
        let said = "the tests of job test are left out: service db is not there: services need containers (`--sandbox docker`) \
                    and that `services` is not empty";
        assert_eq!(notes, [said], "{steps}");
        assert_eq!(detect(&tree(&files), &[], true).checks.len(), 1, "{steps}");
    }
}

/// GitHub's starter for CMake on several platforms.
const MULTI_PLATFORM: &str = r#"on: push
jobs:
  build:
    runs-on: ${{ matrix.os }}
    strategy:
      matrix:
        os: [ubuntu-latest, windows-latest]
        build_type: [Release]
        c_compiler: [gcc, clang, cl]
        include:
          - { os: windows-latest, c_compiler: cl, cpp_compiler: cl }
          - { os: ubuntu-latest, c_compiler: gcc, cpp_compiler: g++ }
          - { os: ubuntu-latest, c_compiler: clang, cpp_compiler: clang++ }
    steps:
      - id: strings
        shell: bash
        run: |
          echo "build-output-dir=${{ github.workspace }}/build" >> "$GITHUB_OUTPUT"
      - run: >
          cmake -B ${{ steps.strings.outputs.build-output-dir }}
          -DCMAKE_CXX_COMPILER=${{ matrix.cpp_compiler }}
          -S ${{ github.workspace }}
      - run: cmake --build ${{ steps.strings.outputs.build-output-dir }} --config ${{ matrix.build_type }}
      - working-directory: ${{ steps.strings.outputs.build-output-dir }}
        run: ctest --build-config ${{ matrix.build_type }}
"#;

#[test]
fn what_a_step_says_to_later_ones_is_known_where_it_is_plain() {
    let files = [(".github/workflows/ci.yml", MULTI_PLATFORM), ("CMakeLists.txt", "")];
    let expected = "cmake -B ./build -DCMAKE_CXX_COMPILER=g++ -S . && cmake --build ./build --config Release && \
                    cd build && ctest --build-config Release";
    assert_eq!(found(&files, &[]), [expected]);
    // Where it is not, the step is no check, and that is said.
    let unknown = MULTI_PLATFORM.replace("${{ github.workspace }}/build", "$(mktemp -d)");
    let files = [(".github/workflows/ci.yml", unknown.as_str()), ("CMakeLists.txt", "")];
    let plan = detect(&tree(&files), &[], true);
    assert_eq!(plan.commands(), [""; 0]);
    let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    let said = "the test step `ctest --build-config Release` of job build is left out: it depends on \
                `steps.strings.outputs.build-output-dir`";
    assert_eq!(notes, [said]);
}

#[test]
fn unknown_kinds_are_tested_as_ci_does() {
    let workflow = "on: pull_request\njobs:\n  a:\n    steps:\n      - run: make && make check\n";
    let files = [(".github/workflows/ci.yml", workflow), ("Makefile", "test:\n\tx\n")];
    assert_eq!(found(&files, &[]), ["make && make check"]);
    assert_eq!(found(&files[1..], &[]), ["make test"]);
}

/// A workflow with one job of these steps.
pub(super) fn job(steps: &str) -> String {
    format!("on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n{steps}")
}

#[test]
fn what_ci_starts_by_another_program_is_run_beside_the_kinds() {
    let workflow = job(
        "      - run: make test\n      - run: cd backend && python3 -m unittest -v\n      - run: ./scripts/run_tests.sh --all\n",
    );
    let files = [
        (".github/workflows/ci.yml", workflow.as_str()),
        ("Makefile", "test: build\n\tpython3 -m pytest && ./integration\nbuild:\n\ttrue\n"),
        ("scripts/run_tests.sh", "#!/bin/sh\nctest\n"),
        ("backend/pyproject.toml", ""),
        ("backend/tests/test_a.py", ""),
        ("package.json", NPM),
    ];
    let expected = [
        "npm test",
        "cd backend && python3 -m unittest -v",
        "make test",
        "./scripts/run_tests.sh --all",
    ];
    assert_eq!(found(&files, &[]), expected);
    let plan = detect(&tree(&files), &[], true);
    assert_eq!(plan.checks[2].why.line, Some(6));
}

#[test]
fn what_only_sounds_like_a_test_is_not_run_beside_the_kinds() {
    let rows = [
        ("make check", "check:\n\truff check .\n"),
        ("make test", "test: venv\n\t.venv/bin/pytest\nvenv:\n\tpip install -e .\n"),
        ("make test", "test:\n\ttox\n"),
        ("make lint-check", ""),
        ("make test-deploy", ""),
        ("make release test", ""),
        ("make install check", ""),
        ("make test", "test: all\nall:\n\tpytest\n\ttwine upload dist/*\n"),
        ("./run_tests.sh", ""),
    ];
    for (command, makefile) in rows {
        let workflow = job(&format!("      - run: {command}\n"));
        let files = [
            (".github/workflows/ci.yml", workflow.as_str()),
            ("Makefile", makefile),
            ("run_tests.sh", "docker compose up -d\n./t\n"),
            ("go.mod", "module x\n"),
        ];
        assert_eq!(found(&files, &[]), ["go test ./..."], "{command}: {makefile}");
    }
}

#[test]
fn the_shell_of_a_step_decides_what_fails() {
    let rows = [
        ("      - run: pytest | tee log\n", "sh -e -c 'pytest | tee log'"),
        (
            "      - run: pytest | tee log\n        shell: bash\n",
            "bash -eo pipefail -c 'pytest | tee log'",
        ),
        (
            "      - run: |\n          pytest\n          echo done\n",
            "bash -e -c 'pytest\necho done'",
        ),
        (
            "      - run: |\n          pytest\n          echo done\n    defaults:\n      run:\n        shell: sh\n",
            "sh -e -c 'pytest\necho done'",
        ),
        (
            "      - run: pytest\n        shell: bash -el {0}\n        env:\n          MODE: on\n          LEVEL: 010\n",
            "export LEVEL=10\nexport MODE=on\nbash -el -c pytest",
        ),
    ];
    for (steps, expected) in rows {
        let workflow = job(steps);
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("pytest.ini", "")];
        assert_eq!(found(&files, &[]), [expected], "{steps}");
    }
    let workflow =
        format!("defaults: {{ run: {{ shell: sh }} }}\n{}", job("      - run: pytest; ls\n"));
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("pytest.ini", "")];
    assert_eq!(found(&files, &[]), ["sh -e -c 'pytest; ls'"]);
}

#[test]
fn the_items_of_gitlabs_script_are_lines_of_one_shell() {
    let script = "before_script:\n  - cd app && pip install -r r.txt\n  - export LEVEL=high\ntest:\n  script:\n    - |\n      pytest\n      echo done\n    - pytest --slow\n    - cd $HOME\n    - pytest --away\n";
    let files = [(".gitlab-ci.yml", script), ("app/pytest.ini", ""), ("app/setup.py", "")];
    assert_eq!(
        found(&files, &[]),
        [
            "cd app && { sh -e -c 'export LEVEL=high\npytest\necho done'\n}",
            "cd app && { sh -e -c 'export LEVEL=high\npytest --slow'\n}"
        ]
    );
}

#[test]
fn of_many_packages_only_those_that_are_touched_are_tested() {
    let names: Vec<String> = (0..8).map(|n| format!("packages/p{n}/package.json")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), NPM)).collect();
    files.push(("package.json", r#"{"workspaces": ["packages/*"]}"#));
    files.push(("server/go.mod", "module x\n"));
    assert_eq!(
        found(&files, &["packages/p3/src/a.ts", "server/main.go", "README.md"]),
        ["cd server && go test ./...", "cd packages/p3 && npm test"]
    );
    assert_eq!(found(&files, &[]).len(), 9);
    // A root that tests its members speaks for them.
    files.retain(|(name, _)| *name != "package.json");
    files.push((
        "package.json",
        r#"{"workspaces": ["packages/*"], "scripts": {"test": "turbo test"}}"#,
    ));
    assert_eq!(found(&files, &[]), ["npm test", "cd server && go test ./..."]);
    assert_eq!(found(&[("node_modules/x/package.json", NPM), ("vendor/go.mod", "")], &[]), [""; 0]);
}

#[test]
fn bad_ci_files_are_said_and_the_rest_counts() {
    let files = [
        (".github/workflows/ci.yml", "a: [b"),
        (".github/workflows/x.yml", "[]"),
        ("go.mod", "module x\n"),
    ];
    let plan = detect(&tree(&files), &[], true);
    assert_eq!(plan.commands(), ["go test ./..."]);
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].text.starts_with("is not valid YAML"), "{:?}", plan.notes);
}

/// Files, and the checks that are found in them.
type Kind = (Vec<(&'static str, String)>, &'static [&'static str]);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn one_folder_is_tested_by_its_kind() {
    let package = |test: &str| format!(r#"{{"scripts": {{"test": "{test}"}}}}"#);
    let rows: Vec<Kind> = vec![
        (vec![], &[]),
        (vec![("README.md", String::new())], &[]),
        (vec![("Cargo.toml", String::new())], &["cargo test"]),
        (vec![("package.json", package("jest"))], &["npm test"]),
        (
            vec![("package.json", package("jest")), ("pnpm-lock.yaml", String::new())],
            &["pnpm test"],
        ),
        (vec![("package.json", package("jest")), ("yarn.lock", String::new())], &["yarn test"]),
        (vec![("package.json", package("echo \\\"Error: no test specified\\\" && exit 1"))], &[]),
        (vec![("package.json", "not json".to_owned())], &[]),
        (
            vec![("pyproject.toml", "[tool.pytest.ini_options]".to_owned())],
            &["python -m pytest -q"],
        ),
        (vec![("setup.cfg", "[tool:pytest]".to_owned())], &["python -m pytest -q"]),
        (vec![("requirements-dev.txt", "pytest>=8".to_owned())], &["python -m pytest -q"]),
        (
            vec![("setup.py", String::new()), ("tests/test_a.py", String::new())],
            &[
                "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; else python -m unittest discover -s tests; fi",
            ],
        ),
        (
            vec![("setup.py", String::new()), ("tests/__init__.py", String::new())],
            &[
                "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; else python -m unittest discover -s tests -t .; fi",
            ],
        ),
        (
            vec![("app.py", String::new()), ("test_app.py", String::new())],
            &[
                "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; else python -m unittest discover; fi",
            ],
        ),
        (
            vec![("go.mod", String::new()), ("Makefile", "test:\n\tgo test".to_owned())],
            &["go test ./..."],
        ),
        (vec![("Makefile", "all: build\ntest: all\n\t./t\n".to_owned())], &["make test"]),
        (vec![("Makefile", "lint check:\n\t./t\n".to_owned())], &["make check"]),
        (vec![("Makefile", "test := no\nTEST: x\n".to_owned())], &[]),
        (vec![("pom.xml", String::new())], &["mvn -q -B test"]),
        (
            vec![("build.gradle.kts", String::new()), ("gradlew", String::new())],
            &["./gradlew test --console=plain"],
        ),
        (vec![("run_tests.sh", "#!/bin/bash\n".to_owned())], &["bash ./run_tests.sh"]),
        (vec![("test", "#!/usr/bin/env python3\n".to_owned())], &["./test"]),
        (
            vec![("Cargo.toml", String::new()), ("package.json", package("vitest"))],
            &["cargo test", "npm test"],
        ),
    ];
    for (files, expected) in rows {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(found(&files, &[]), expected, "{files:?}");
    }
}

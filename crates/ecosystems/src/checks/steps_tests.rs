//! What CI's steps come to as checks, and which checks a change concerns, in trees in memory.

use std::collections::BTreeMap;

use super::detect;
use super::tests::{NPM, found, job, tree};

const PACKAGE: &str = r#"{"scripts": {"test": "x", "build:all": "docker build ."}}"#;

#[test]
fn what_ci_builds_is_part_of_the_check() {
    let starter =
        "      - run: npm ci\n      - run: npm run build --if-present\n      - run: npm test\n";
    let rows = [
        (starter, "npm run build --if-present && npm test"),
        (
            "      - run: npm run build\n        env: { MODE: ci }\n      - run: npm test\n",
            "( export MODE=ci\nnpm run build\n) && npm test",
        ),
        (
            "      - run: npm run build\n        working-directory: lib\n      - run: npm test\n",
            "(cd lib && npm run build) && npm test",
        ),
        (
            "      - run: npm run build\n        continue-on-error: true\n      - run: npm test\n",
            "( { npm run build\n} || true\n) && npm test",
        ),
        (
            "      - run: npm run build && npm run lint\n      - run: npm test\n",
            "npm run build && npm test",
        ),
        // These are for others.
        ("      - run: npm run build:docs\n      - run: npm test\n", "npm test"),
        (
            "      - run: npm run build\n        env: { T: '${{ secrets.T }}' }\n      - run: npm test\n",
            "npm test",
        ),
        ("      - run: npm run build:image\n      - run: npm test\n", "npm test"),
        ("      - run: npm run build-all && npm publish\n      - run: npm test\n", "npm test"),
        (
            "      - run: npm run start\n      - run: npm test\n      - run: npm run build\n",
            "npm test",
        ),
        ("      - run: make dev\n      - run: npm test\n", "npm test"),
        (
            "      - run: make -j4 build-ext\n      - run: npm test\n",
            "make -j4 build-ext && npm test",
        ),
        ("      - run: cargo build --release\n      - run: npm test\n", "npm test"),
        ("      - run: npm run build:all\n      - run: npm test\n", "npm test"),
    ];
    for (steps, expected) in rows {
        let workflow = job(steps);
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", PACKAGE)];
        assert_eq!(found(&files, &[]), [expected], "{steps}");
    }
}

#[test]
fn what_another_job_or_step_builds_is_part_of_the_check() {
    // By a job whose files it takes over.
    let jobs = "on: push\njobs:\n  build:\n    steps:\n      - run: npm run build\n  test:\n    needs: build\n    steps:\n      - uses: actions/download-artifact@v4\n      - run: npm test\n";
    let files = [(".github/workflows/ci.yml", jobs), ("package.json", PACKAGE)];
    assert_eq!(found(&files, &[]), ["npm run build && npm test"]);
    // In a folder, by a convention, and where no kind is known.
    let workflow =
        job("      - run: yarn build && yarn test:e2e\n        working-directory: web\n");
    let files = [
        (".github/workflows/ci.yml", workflow.as_str()),
        ("web/package.json", PACKAGE),
        ("web/yarn.lock", ""),
    ];
    assert_eq!(found(&files, &[]), ["cd web && yarn build && yarn test"]);
    let workflow = job(
        "      - run: cmake -B build\n      - run: cmake --build build\n      - run: ctest --test-dir build\n",
    );
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("CMakeLists.txt", "")];
    let expected = "cmake -B build && cmake --build build && ctest --test-dir build";
    assert_eq!(found(&files, &[]), [expected]);
}

/// Without the step that makes the `Makefile`, those that need it could only fail.
#[test]
fn what_makes_the_files_of_make_is_part_of_the_check() {
    let rows = [
        (
            &["perl Makefile.PL", "make", "prove -lr t"][..],
            "perl Makefile.PL && make && prove -lr t",
        ),
        (&["perl Build.PL", "./Build", "./Build test"], "perl Build.PL && ./Build && ./Build test"),
        (
            &["./autogen.sh", "./configure", "make && make check"],
            "./autogen.sh && ./configure && { make && make check\n}",
        ),
        (
            &["sh ./bootstrap", "./configure", "make check"],
            "sh ./bootstrap && ./configure && make check",
        ),
        // This one fetches what it needs.
        (&["./tools/bootstrap.sh", "make check"], "make check"),
    ];
    for (steps, expected) in rows {
        let steps: Vec<String> = steps.iter().map(|it| format!("      - run: {it}\n")).collect();
        let workflow = job(&steps.concat());
        let says =
            "command -v autoconf || echo 'apt-get install autoconf first, see https://curl.se'\n";
        let files = [
            (".github/workflows/ci.yml", workflow.as_str()),
            ("Makefile.PL", ""),
            ("autogen.sh", says),
            ("configure", says),
            ("bootstrap", "autoreconf -i\n"),
            ("tools/bootstrap.sh", "curl -O https://example.com/x\n"),
        ];
        assert_eq!(found(&files, &[]), [expected], "{steps:?}");
    }
}

#[test]
fn what_a_test_command_builds_by_itself_is_not_built_before_it() {
    let rows = [
        ("go.mod", "go build -v ./...", "go test -v ./...", "go test -v ./..."),
        (
            "go.mod",
            "go build -o bin/x ./cmd",
            "go test ./...",
            "go build -o bin/x ./cmd && go test ./...",
        ),
        ("Cargo.toml", "cargo build --verbose", "cargo test --verbose", "cargo test --verbose"),
        (
            "a.csproj",
            "dotnet build",
            "dotnet test --no-build",
            "dotnet build && dotnet test --no-build",
        ),
    ];
    for (manifest, build, test, expected) in rows {
        let workflow = job(&format!("      - run: {build}\n      - run: {test}\n"));
        let files = [(".github/workflows/ci.yml", workflow.as_str()), (manifest, "")];
        assert_eq!(found(&files, &[]), [expected], "{build}");
    }
}

#[test]
fn what_may_fail_is_no_check() {
    let optional = "        continue-on-error: true\n";
    let rows = [
        (format!("      - run: npm test\n{optional}"), &[][..]),
        (
            format!("      - run: npm test\n{optional}      - run: npm run test:unit\n"),
            &["npm run test:unit"],
        ),
        // Not all that the convention runs.
        (format!("      - run: npm run test:next\n{optional}"), &["npm test"]),
        (
            "      - run: npm test\n        continue-on-error: ${{ matrix.next }}\n".to_owned(),
            &["npm test"],
        ),
        ("      - run: npm test\n    continue-on-error: true\n".to_owned(), &[]),
    ];
    for (steps, expected) in rows {
        let workflow = job(&steps);
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
        let plan = detect(&tree(&files), &[], true);
        assert_eq!(plan.commands(), expected, "{steps}");
        assert_eq!(plan.notes.len(), usize::from(expected.is_empty()), "{steps}");
    }
    let gitlab = "test:\n  allow_failure: true\n  script: [make test]\n";
    let files = [(".gitlab-ci.yml", gitlab), ("Makefile", "test:\n\ttrue\n")];
    assert_eq!(found(&files, &[]), [""; 0]);
}

#[test]
fn of_many_packages_those_are_tested_that_a_change_concerns() {
    let manifest = |name: &str, uses: &str| {
        format!(
            r#"{{"name": "{name}", "dependencies": {{"{uses}": "*"}}, "scripts": {{"test": "x"}}}}"#
        )
    };
    let mut files: BTreeMap<String, String> = (0..6)
        .map(|n| (format!("p/{n}/package.json"), manifest(&format!("p{n}"), "other")))
        .collect();
    files.insert("p/lib/package.json".to_owned(), r#"{"name": "lib"}"#.to_owned());
    files.insert("p/1/package.json".to_owned(), manifest("p1", "lib"));
    files.insert("p/2/package.json".to_owned(), manifest("p2", "p1"));
    let found = |files: &BTreeMap<String, String>, path: &str| {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(it, text)| (it.as_str(), text.as_str())).collect();
        detect(&tree(&files), &[path.to_owned()], true)
    };
    let of = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("cd p/{name} && npm test")).collect()
    };
    // Of a package without a check, those that use it.
    assert_eq!(found(&files, "p/lib/a.js").commands(), of(&["1", "2"]));
    assert_eq!(found(&files, "p/2/a.js").commands(), of(&["2"]));
    let all = found(&files, "tsconfig.base.json");
    assert_eq!((all.commands().len(), all.left_out), (6, 0));
    let none = found(&files, ".github/ISSUE_TEMPLATE/bug.yml");
    assert_eq!((none.commands().len(), none.left_out), (0, 6));
    // A root that is a package is tested with each of them, and its files are its own.
    files.insert("go.mod".to_owned(), "module x\n".to_owned());
    let root = found(&files, "main.go");
    assert_eq!((root.commands(), root.left_out), (vec!["go test ./...".to_owned()], 6));
    assert_eq!(found(&files, "p/2/a.js").commands()[0], "go test ./...");
}

const GITLAB: &str = ".gitlab-ci.yml";

/// Jobs of GitLab, with `rest` in that of the tests.
fn gitlab(rest: &str) -> String {
    format!(
        "stages: [prepare, build, test]\n\
         site:\n  stage: test\n  script: npm run build:site\n  artifacts: {{paths: [site]}}\n\
         unit:\n  stage: test\n  script: npm test\n{rest}\
         build:\n  stage: build\n  script: npm run build\n  artifacts: {{paths: [dist]}}\n\
         generate:\n  stage: prepare\n  script: npm run generate\n  artifacts: {{paths: [gen]}}\n\
         check:\n  stage: build\n  script: npm run build:check\n"
    )
}

#[test]
fn what_earlier_stages_of_gitlab_build_is_part_of_the_check() {
    let rows = [
        ("", "npm run generate && npm run build && npm test"),
        ("  dependencies: []\n", "npm test"),
        ("  needs: []\n", "npm test"),
        ("  dependencies: [build]\n", "npm run build && npm test"),
        ("  needs: [generate, build]\n  dependencies: [build]\n", "npm run build && npm test"),
        (
            "  needs: [{job: build}, {job: generate, artifacts: false}]\n",
            "npm run build && npm test",
        ),
    ];
    for (rest, expected) in rows {
        let ci = gitlab(rest);
        let files = [(GITLAB, ci.as_str()), ("package.json", PACKAGE)];
        assert_eq!(found(&files, &[]), [expected], "{rest}");
    }
    // Without `stages` they are GitLab's own, and a job is of the stage `test`.
    let ci = "unit:\n  script: npm test\ndist:\n  stage: build\n  script: npm run build\n  artifacts:\n    paths: [dist]\n";
    let files = [(GITLAB, ci), ("package.json", PACKAGE)];
    assert_eq!(found(&files, &[]), ["npm run build && npm test"]);
}

#[test]
fn a_command_by_convention_without_the_services_of_ci_is_said() {
    let workflow = "on: push\njobs:\n  db:\n    services:\n      postgres: {image: 'postgres:16'}\n    steps:\n      - run: npm test\n";
    let files = [(".github/workflows/ci.yml", workflow), ("package.json", PACKAGE)];
    let plan = detect(&tree(&files), &[], false);
    assert_eq!(plan.commands(), ["npm test"]);
    let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(
        notes[0].starts_with("the tests of job db are left out: service postgres"),
        "{notes:?}"
    );
    let expected = "`npm test` runs without the services of job db: tests that need them fail before and after the change";
    assert_eq!(notes[1..], [expected]);
    // Where they are there, nothing is said.
    assert_eq!(detect(&tree(&files), &[], true).notes, []);
}

#[test]
fn what_editors_of_windows_add_changes_nothing() {
    let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let workflow = job(
        "      - run: |\n          npm run build\n          npm test\n      - run: make test\n",
    );
    let rows: [&[(&str, &str)]; 5] = [
        &[
            (".github/workflows/ci.yml", &workflow),
            ("package.json", PACKAGE),
            ("Makefile", "test:\n\t./x\n"),
        ],
        &[
            (GITLAB, "unit:\n  script:\n    - |\n      cd a\n      npm test\n"),
            ("a/package.json", PACKAGE),
        ],
        &[("Makefile", "all: x\ntest: all\n\t./x\n")],
        &[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("requirements.txt", "pytest\n")],
        &[("test.sh", "#!/bin/bash\ntrue\n"), (".travis.yml", "script:\n  - ./test.sh\n")],
    ];
    for files in rows {
        let saved: Vec<(&str, String)> =
            files.iter().map(|(path, text)| (*path, windows(text))).collect();
        let saved: Vec<(&str, &str)> =
            saved.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let plain = found(files, &[]);
        assert!(!plain.is_empty());
        assert_eq!(found(&saved, &[]), plain);
    }
}

#[test]
fn tests_that_need_a_browser_are_left_to_ci() {
    const SCRIPTS: &str = r#"{"scripts": {"test": "npm run unit", "unit": "vitest run", "pages": "npm run in:browser",
        "in:browser": "playwright test --project=chromium"}}"#;
    let workflow = job("      - run: npm run test:pages\n      - run: npm test\n");
    let scripts = SCRIPTS.replace("\"pages\"", "\"test:pages\"");
    let files =
        [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", scripts.as_str())];
    assert_eq!(detect(&tree(&files), &[], false).commands(), ["npm test"]);
}

#[test]
fn what_ci_tests_in_parts_only_is_tested_by_convention_as_well() {
    let workflow = job("      - run: vendor/bin/phpunit tests/Integration/Sqlite\n");
    let files = [
        (".github/workflows/ci.yml", workflow.as_str()),
        ("composer.json", "{}"),
        ("phpunit.xml", ""),
    ];
    let parts = ["vendor/bin/phpunit tests/Integration/Sqlite", "vendor/bin/phpunit"];
    assert_eq!(detect(&tree(&files), &[], false).commands(), parts);
    let whole = workflow.replace("tests/Integration/Sqlite", "tests/");
    let files = [(".github/workflows/ci.yml", whole.as_str()), files[1], files[2]];
    assert_eq!(detect(&tree(&files), &[], false).commands(), ["vendor/bin/phpunit tests/"]);
}

#[test]
fn steps_for_another_compiler_are_left_to_ci() {
    let steps = [
        "cargo +nightly test",
        "cargo +1.80 test",
        "cargo test -Zbuild-std",
        "cargo test --target wasm32-wasip1",
        "git clone https://example.com/x && cargo test",
    ];
    let steps: String = steps.iter().map(|it| format!("      - run: {it}\n")).collect();
    let with = "      - run: cargo test --doc\n        env: {RUSTFLAGS: -Zsanitizer=address}\n";
    let workflow = job(&format!("{steps}{with}      - run: cargo +stable test --all\n"));
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("Cargo.toml", "[package]\n")];
    assert_eq!(detect(&tree(&files), &[], false).commands(), ["cargo +stable test --all"]);
}

#[test]
fn cases_of_tests_are_no_packages_beside_a_root() {
    let one = r#"{"scripts": {"test": "x"}}"#;
    let files = [("package.json", one), ("test/esm/package.json", one)];
    assert_eq!(detect(&tree(&files), &[], false).commands(), ["npm test"]);
    let workflow = job("      - run: npm test\n        working-directory: test/esm\n");
    let with = [files.as_slice(), &[(".github/workflows/ci.yml", workflow.as_str())]].concat();
    let both = ["npm test", "cd test/esm && npm test"];
    assert_eq!(detect(&tree(&with), &[], false).commands(), both);
    assert_eq!(detect(&tree(&files[1..]), &[], false).commands(), both[1..]);
}

#[test]
fn what_is_no_test_by_its_target_or_compares_with_a_commit_is_no_check() {
    let makefile = "check-%:\n\tcargo check ${_FEATURES} --all-targets\ntest-%:\n\tcargo test\n";
    let rows = [
        ("make check-full", &["cargo test"][..]),
        ("make test-full", &["cargo test", "make test-full"]),
        ("make test-full && git diff --exit-code", &["cargo test", "make test-full"]),
        ("cargo test --no-run", &["cargo test"]),
        ("make test-full | tee log; git diff --quiet", &["cargo test"]),
    ];
    for (command, expected) in rows {
        let workflow = job(&format!("      - run: {command}\n"));
        let files = [
            (".github/workflows/ci.yml", workflow.as_str()),
            ("Makefile", makefile),
            ("Cargo.toml", "[package]\n"),
        ];
        assert_eq!(found(&files, &[]), expected, "{command}");
    }
    // Where nothing else is known, what checks the text of the code is no test either.
    let workflow = job(
        "      - run: make check-format\n      - run: make check\n      - run: make check-full\n",
    );
    let makefile =
        "check: style\n\t./t\nstyle:\n\truff check\ncheck-%:\n\techo check\n\tcargo check\n";
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("Makefile", makefile)];
    assert_eq!(found(&files, &[]), ["make check"]);
    // A script which asks for the packages that differ from the base.
    let workflow = job("      - run: npm run test:pr\n");
    let scripts =
        r#"{"scripts": {"test": "nx run-many -t test", "test:pr": "nx affected -t test"}}"#;
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", scripts)];
    assert_eq!(found(&files, &[]), ["npm test"]);
}

#[test]
fn what_an_action_runs_again_until_it_succeeds_is_a_step() {
    let steps = "      - uses: nick-fields/retry@v3\n        env: {LEVEL: high}\n        with:\n          max_attempts: 3\n          command: npm run test:all\n    defaults: {run: {working-directory: web}}\n";
    let workflow = job(steps);
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
    let plan = detect(&tree(&files), &[], false);
    assert_eq!(plan.commands(), ["export LEVEL=high\nnpm run test:all"]);
    assert_eq!(plan.checks[0].why.line, Some(10));
    let optional = workflow.replace("max_attempts: 3", "continue_on_error: true");
    let files = [(".github/workflows/ci.yml", optional.as_str()), ("package.json", NPM)];
    assert_eq!(detect(&tree(&files), &[], false).commands(), ["npm test"]);
    let secret = workflow.replace("test:all", "test:all -- ${{ secrets.KEY }}");
    let files = [(".github/workflows/ci.yml", secret.as_str()), ("package.json", NPM)];
    assert_eq!(detect(&tree(&files), &[], false).commands(), ["npm test"]);
}

#[test]
fn a_step_that_sets_a_variable_itself_does_not_need_that_of_the_job() {
    let steps = "      - run: npm test -- $MODE\n        env: {MODE: plain}\n    env: {MODE: '${{ secrets.MODE }}'}\n";
    let workflow = job(steps);
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
    let plan = detect(&tree(&files), &[], false);
    assert_eq!(plan.commands(), ["export MODE=plain\nnpm test -- $MODE"]);
}

#[test]
fn a_solution_tests_the_projects_below_it() {
    let mut files = vec![
        ("src/All.sln", ""),
        ("src/App/App.csproj", ""),
        ("src/App.Tests/App.Tests.csproj", ""),
        ("tools/Gen/Gen.csproj", ""),
    ];
    let solution = "cd src && dotnet test --nologo";
    assert_eq!(found(&files, &[]), [solution, "cd tools/Gen && dotnet test --nologo"]);
    // Among many packages, a change of a project concerns its solution.
    let names: Vec<String> = (0..5).map(|n| format!("web/{n}/package.json")).collect();
    files.extend(names.iter().map(|name| (name.as_str(), NPM)));
    assert_eq!(found(&files, &["src/App/Program.cs"]), [solution]);
    assert_eq!(found(&files, &["web/3/a.js"]), ["cd web/3 && npm test"]);
}

/// A workflow with one job that runs a command for each entry of a matrix.
fn with_matrix(matrix: &str, command: &str) -> String {
    format!(
        "on: push\njobs:\n  test:\n    strategy: {{matrix: {matrix}}}\n    steps:\n      - run: {command}\n"
    )
}

#[test]
fn all_parts_of_the_tests_that_a_matrix_names_are_one_check() {
    let both = |one: &str, other: &str| {
        format!("status=0\n( {one}\n) || status=$?\n( {other}\n) || status=$?\n( exit $status )")
    };
    let two = "npm run test:${{ matrix.part }}";
    let rows = [
        ("{part: [interfaces, unit]}", two, both("npm run test:interfaces", "npm run test:unit")),
        (
            "{shard: [1, 2], node: [20, 22]}",
            "npx jest --shard=${{ matrix.shard }}/2",
            both("npx jest --shard=1/2", "npx jest --shard=2/2"),
        ),
        (
            "{test: [{name: a, script: npm run test:a}, {name: b, script: npm test}]}",
            "${{ matrix.test.script }} -- ${{ matrix.test.name }}",
            both("npm run test:a -- a", "npm test -- b"),
        ),
        (
            "{include: [{suite: a, node: 22}, {suite: b, node: 22}, {suite: b, node: 20}]}",
            "npm test -- ${{ matrix.suite }}",
            both("npm test -- a", "npm test -- b"),
        ),
        ("{part: [a, b, c], exclude: [{part: c}]}", two, both("npm run test:a", "npm run test:b")),
        // What is no part of the tests of the code, and what cannot be run here.
        ("{part: [lint, unit, docs, e2e]}", two, "npm run test:unit".to_owned()),
        // Neither versions nor systems.
        ("{node: [20, 22]}", "npm test -- ${{ matrix.node }}", "npm test -- 22".to_owned()),
        (
            "{os: [ubuntu-latest, ubuntu-24.04]}",
            "npm test -- ${{ matrix.os }}",
            "npm test -- ubuntu-latest".to_owned(),
        ),
        (
            "{package-manager: [npm, yarn]}",
            "${{ matrix.package-manager }} test",
            "npm test".to_owned(),
        ),
        ("{test-tags: [a, b]}", "npm test -- ${{ matrix.test-tags }}", "npm test -- a".to_owned()),
        // A list that says nothing to the tests.
        ("{group: [a, b]}", "npm test", "npm test".to_owned()),
    ];
    for (matrix, command, expected) in rows {
        let workflow = with_matrix(matrix, command);
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
        assert_eq!(found(&files, &[]), [expected], "{matrix}");
    }
    // Of very many parts the first ones.
    let many: Vec<String> = (0..50).map(|n| format!("p{n}")).collect();
    let workflow = with_matrix(&format!("{{part: [{}]}}", many.join(", ")), two);
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
    let commands = found(&files, &[]);
    assert_eq!((commands.len(), commands[0].matches("npm run").count()), (1, 12));
}

#[test]
fn a_workflow_that_is_called_for_each_part_of_the_tests_is_one_check() {
    let calls = "on: push\njobs:\n  test:\n    strategy: {matrix: {test-part: [a, unit]}}\n    uses: ./.github/workflows/run.yml\n    with: {script: 'test:${{ matrix.test-part }}'}\n";
    let called = "on:\n  workflow_call:\n    inputs: {script: {type: string}}\njobs:\n  run:\n    steps:\n      - run: npm run ${{ inputs.script }}\n";
    let files = [
        (".github/workflows/ci.yml", calls),
        (".github/workflows/run.yml", called),
        ("package.json", NPM),
    ];
    let expected = "status=0\n( npm run test:a\n) || status=$?\n( npm run test:unit\n) || status=$?\n( exit $status )";
    assert_eq!(found(&files, &[]), [expected]);
    // Another job that calls it for the same parts is nothing new.
    let other = "  other:\n    uses: ./.github/workflows/run.yml\n    strategy: {matrix: {test-part: [unit, a]}}\n    with: {script: 'test:${{ matrix.test-part }}', coverage: true}\n";
    let twice = format!("{calls}{other}");
    let files = [(".github/workflows/ci.yml", twice.as_str()), files[1], files[2]];
    assert_eq!(found(&files, &[]), [expected]);
}

#[test]
fn what_ci_tests_aside_only_is_tested_by_convention_as_well() {
    let scripts = r#"{"scripts": {"test": "jest", "test:leak": "jest -i --color a core utils", "test:ci": "jest --ci --color src",
        "test:one": "npx jest e2e/one.test.ts"}}"#;
    let rows = [
        ("npm run test:integration", &["npm run test:integration", "npm test"][..]),
        ("npm run test:leak", &["npm run test:leak", "npm test"]),
        ("npm run test:one", &["npm run test:one", "npm test"]),
        ("npm run test:ci", &["npm run test:ci"]),
        ("npm run test:ci -- --exclude examples", &["npm run test:ci -- --exclude examples"]),
        ("npm run test:unit", &["npm run test:unit"]),
    ];
    for (command, expected) in rows {
        let workflow = job(&format!("      - run: {command}\n"));
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", scripts)];
        assert_eq!(found(&files, &[]), expected, "{command}");
    }
}

#[test]
fn what_ci_starts_before_its_tests_is_started_in_the_check() {
    let rows = [
        (
            "      - run: ./server --daemonize yes\n      - run: npm test -- --port 1\n",
            "./server --daemonize yes && npm test -- --port 1",
        ),
        (
            "      - run: npm run build\n      - run: node server.js &\n      - run: ./fill\n      - run: npm test -- -x\n",
            "npm run build && ( node server.js &\nsleep 2\n) && ./fill && npm test -- -x",
        ),
        // A test that ends what it starts, and what waits for its parts.
        ("      - run: node server.js & npm test -- -x\n", "node server.js & npm test -- -x"),
        (
            "      - run: |\n          a &\n          wait\n      - run: npm test -- -x\n",
            "npm test -- -x",
        ),
        ("      - run: npm test -- -x\n      - run: node server.js &\n", "npm test -- -x"),
        // What cannot be started here.
        ("      - run: docker compose up -d\n      - run: npm test -- -x\n", "npm test"),
        ("      - run: sudo service mysql start\n      - run: npm test -- -x\n", "npm test"),
        (
            "      - run: ./server &\n      - run: curl localhost\n      - run: npm test -- -x\n",
            "npm test",
        ),
        (
            "      - run: ./server --key ${{ secrets.KEY }} &\n      - run: npm test -- -x\n",
            "npm test",
        ),
    ];
    for (steps, expected) in rows {
        let workflow = job(steps);
        let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
        assert_eq!(found(&files, &[]), [expected], "{steps}");
    }
    // Where no kind is known, that is said.
    let workflow =
        job("      - run: sudo systemctl start redis\n      - run: ./run_tests.sh --all\n");
    let files = tree(&[(".github/workflows/ci.yml", workflow.as_str())]);
    let plan = detect(&files, &[], true);
    assert_eq!(plan.commands(), [""; 0]);
    let said = "the test step `./run_tests.sh --all` of job test is left out: it needs what an earlier step starts, and that cannot be \
                started here";
    assert_eq!(plan.notes[0].text, said);
    let gitlab = "unit:\n  script:\n    - ./server &\n    - npm test -- -x\n";
    let files = [(GITLAB, gitlab), ("package.json", NPM)];
    assert_eq!(found(&files, &[]), ["( ./server &\nsleep 2\n) && npm test -- -x"]);
}

//! Parts of the tests, servers of earlier steps, and steps of CI that are no tests, in trees in memory.

use super::detect;
use super::tests::{NPM, found, job, tree};

const GITLAB: &str = ".gitlab-ci.yml";

/// Names and contents.
type Files<'a> = &'a [(&'a str, &'a str)];

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
fn where_ci_runs_parts_of_the_tests_alone_all_of_them_are_run_as_well() {
    let rows: &[(&str, &str, &[&str])] = &[
        // Of what may fail there, and of what is made with the network, nothing is a check.
        ("cargo test -p one || true", "Cargo.toml", &["cargo test"]),
        ("cargo test --doc", "Cargo.toml", &["cargo test --doc", "cargo test"]),
        ("cargo test -p one", "Cargo.toml", &["cargo test -p one", "cargo test"]),
        ("cargo test --all-features", "Cargo.toml", &["cargo test --all-features"]),
        (
            "cargo hack test --each-feature",
            "Cargo.toml",
            &["cargo hack test --each-feature", "cargo test"],
        ),
        ("go test ./src -fuzz=FuzzOne", "go.mod", &["go test ./..."]),
        ("npm add left && npm test", "package.json", &["npm test"]),
        ("npm run test:perf", "package.json", &["npm test"]),
        ("hatch test --python 3.14", "pytest.ini", &["python -m pytest -q"]),
        ("uv run --isolated pytest", "pytest.ini", &["python -m pytest -q"]),
        (
            "python -m unittest discover -s tools/report",
            "pytest.ini",
            &["python -m unittest discover -s tools/report", "python -m pytest -q"],
        ),
    ];
    for (command, manifest, expected) in rows {
        let workflow = job(&format!("      - run: {command}\n"));
        let text = if *manifest == "package.json" { NPM } else { "" };
        let files = [(".github/workflows/ci.yml", workflow.as_str()), (*manifest, text)];
        assert_eq!(found(&files, &[]), *expected, "{command}");
    }
}

#[test]
fn a_step_that_goes_to_the_checkout_of_another_repository_is_left_out() {
    let steps = "      - uses: actions/checkout@v4\n        with: {repository: acme/other, path: other}\n      - run: |\n          tool version\n          cd other\n          pytest\n";
    let workflow = job(steps);
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("pytest.ini", "")];
    assert_eq!(found(&files, &[]), ["python -m pytest -q"]);
}

#[test]
fn what_looks_like_a_package_and_has_no_tests_of_its_own_is_no_check() {
    let cpp = "Project(\"{8BC9}\") = \"one\", \"one.vcxproj\"";
    let both = "\"one.vcxproj\"\n\"two.csproj\"";
    let fuzzed = "[package]\nname = \"fuzz\"\n[package.metadata]\ncargo-fuzz = true\n";
    let android = "plugins { id 'com.android.library' }";
    let workspace = r#"{"workspace": ["./one", "./two"]}"#;
    let rows: &[(Files<'_>, &[&str])] = &[
        (&[("contrib/one.sln", cpp), ("go.mod", "")], &["go test ./..."]),
        (&[("one.sln", both)], &["dotnet test --nologo"]),
        (&[("Cargo.toml", "[package]\n"), ("fuzz/Cargo.toml", fuzzed)], &["cargo test"]),
        (&[("go.mod", ""), ("support/build.gradle", android)], &["go test ./..."]),
        (&[("gradlew", ""), ("build.gradle", android)], &["./gradlew test --console=plain"]),
        (&[("deno.json", workspace), ("one/deno.json", "{}")], &["deno test"]),
        (&[("pyproject.toml", ""), ("tests/one.rs", ""), ("go.mod", "")], &["go test ./..."]),
        (
            &[("pyproject.toml", ""), ("tests/unit/test_one.py", "")],
            &["if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; \
               else python -m unittest discover -s tests; fi"],
        ),
        (&[("go.mod", ""), ("test cases/1 basic/go.mod", "")], &["go test ./..."]),
    ];
    for (files, expected) in rows {
        assert_eq!(found(files, &[]), *expected, "{files:?}");
    }
}

#[test]
fn what_ci_tests_from_the_root_by_its_path_has_no_second_check() {
    let workflow = job("      - run: deno test -A -c ./run/deno.json run\n");
    let files = [
        (".github/workflows/ci.yml", workflow.as_str()),
        ("package.json", NPM),
        ("run/deno.json", "{}"),
        ("other/deno.json", "{}"),
    ];
    let expected = ["npm test", "cd other && deno test", "deno test -A -c ./run/deno.json run"];
    assert_eq!(found(&files, &[]), expected);
}

#[test]
fn a_file_of_travis_counts_where_no_other_forge_has_tests() {
    let travis = "script:\n  - npm test\n  - npm run test:coverage\n";
    let scripts =
        r#"{"scripts": {"test": "x", "test:ci": "x", "test:coverage": "cat a | coveralls"}}"#;
    let workflow = job("      - run: npm run test:ci\n");
    let lint = job("      - run: npm run lint\n");
    for (workflow, expected) in [(&workflow, "npm run test:ci"), (&lint, "npm test")] {
        let files = [
            (".github/workflows/ci.yml", workflow.as_str()),
            (".travis.yml", travis),
            ("package.json", scripts),
        ];
        assert_eq!(found(&files, &[]), [expected]);
    }
}

#[test]
fn what_ci_tries_out_with_other_tools_is_tested_once() {
    let steps =
        "      - run: npm run test:ci\n  pnpm:\n    steps:\n      - run: pnpm run test:all\n";
    let workflow = job(steps);
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("package.json", NPM)];
    assert_eq!(found(&files, &[]), ["npm run test:ci"]);
    let steps = "      - run: ./configure --fast\n      - run: make check\n  plain:\n    steps:\n      - run: ./configure\n      - run: make check\n";
    let workflow = job(steps);
    let files = [(".github/workflows/ci.yml", workflow.as_str()), ("Makefile", "check:\n\t./t\n")];
    assert_eq!(found(&files, &[]), ["./configure --fast && make check"]);
}

#[test]
fn gitlab_takes_the_last_of_two_jobs_with_one_name() {
    let text = "test:\n  script: go test ./old\ntest:\n  script: go test -race ./...\n";
    assert_eq!(found(&[(GITLAB, text), ("go.mod", "")], &[]), ["go test -race ./..."]);
    let windows = text.replace("./...", "./...\n  variables: {MSYSTEM: MINGW64}");
    assert_eq!(found(&[(GITLAB, &windows), ("go.mod", "")], &[]), ["go test ./..."]);
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
    // How the tests are compiled leaves none of them out.
    let release = job("      - run: cargo test --release --features serde\n");
    let files = [(".github/workflows/ci.yml", release.as_str()), ("Cargo.toml", "[package]\n")];
    assert_eq!(found(&files, &[]), ["cargo test --release --features serde"]);
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

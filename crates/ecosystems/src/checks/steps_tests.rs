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
        // The first line that fails ends a step, also one that is written differently here.
        (
            "      - run: |\n          npm run build \\\n            --all\n          npm run compile -- \"$(nproc)\"\n      - run: npm test\n",
            "( bash -e -c 'npm run build    --all\nnpm run compile -- \"$(nproc)\"'\n) && npm test",
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

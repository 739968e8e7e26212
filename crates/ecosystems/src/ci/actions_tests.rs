//! Workflows of GitHub, with the actions and workflows that they use, as jobs and steps.

use std::collections::BTreeMap;

use crate::ci::{CiPlan, StepPurpose, detect};

fn read(files: &[(&str, &str)]) -> CiPlan {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    detect(&files.collect::<BTreeMap<_, _>>())
}

/// Each step as `FILE:LINE FOLDER$ COMMAND`, with why it cannot be used.
fn steps(plan: &CiPlan) -> Vec<String> {
    let one = |step: &crate::ci::CiStep| {
        let why = step.unusable.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let file = step.why.file.trim_start_matches(".github/");
        format!("{file}:{} {}$ {}{why}", step.why.line.unwrap_or(0), step.folder, step.command)
    };
    plan.steps().map(one).collect()
}

const COMPOSITE: &str = "name: Set up
inputs:
  python-version:
    default: '3.12'
  extras:
    description: what to install
    required: false
    default: test
outputs:
  python:
    value: ${{ steps.find.outputs.name }}
runs:
  using: composite
  steps:
    - uses: actions/setup-python@v6
      with:
        python-version: ${{ inputs.python-version }}
    - run: pip install -e .[${{ inputs.extras }}]
      shell: bash
    - id: find
      run: |
        echo \"name=py-${{ inputs.python-version }}\" >> \"$GITHUB_OUTPUT\"
        echo \"MODE=quick\" >> \"$GITHUB_ENV\"
      shell: bash
    - if: inputs.extras == 'docs'
      run: make html
      shell: bash
    - if: inputs.compile == 'true'
      run: python -m compileall lib
      shell: bash
    - uses: ./.github/actions/inner
";

const INNER: &str = "runs:
  using: composite
  steps:
    - run: python -m compileall src
      working-directory: ${{ github.action_path }}
      shell: sh
";

#[test]
fn the_steps_of_a_composite_action_are_those_of_the_job() {
    let workflow = "on: pull_request
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ['3.11', '3.13']
    steps:
      - uses: actions/checkout@v5
      - id: setup
        uses: ./.github/actions/setup
        with:
          python-version: ${{ matrix.python }}
          compile: true
      - run: pytest -m ${{ steps.setup.outputs.python }} --mode $MODE
";
    let plan = read(&[
        (".github/workflows/ci.yml", workflow),
        (".github/actions/setup/action.yml", COMPOSITE),
        (".github/actions/inner/action.yaml", INNER),
    ]);
    let found = steps(&plan);
    assert_eq!(found[0], "actions/setup/action.yml:18 $ pip install -e .[test]");
    assert!(found[2].ends_with("$ python -m compileall lib"), "{found:#?}");
    assert_eq!(
        found[3],
        "actions/inner/action.yaml:4 .github/actions/inner$ python -m compileall src"
    );
    assert_eq!(found[4], "workflows/ci.yml:15 $ pytest -m py-3.13 --mode $MODE");
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(plan.versions["python"].value, "3.13");
    let test = plan.steps().last().unwrap();
    assert_eq!((test.is_for, test.environment["MODE"].as_str()), (StepPurpose::Test, "quick"));
}

#[test]
fn actions_that_use_themselves_or_lie_elsewhere_end() {
    let workflow = "on: pull_request
jobs:
  test:
    steps:
      - uses: ./.github/actions/loop
      - uses: ./../outside
      - uses: ./.github/actions/missing
      - uses: ./.github/actions/script
      - run: pytest
";
    let looped = "runs:\n  using: composite\n  steps:\n    - uses: ./.github/actions/loop\n    - run: echo again\n      shell: bash\n";
    let plan = read(&[
        (".github/workflows/ci.yml", workflow),
        (".github/actions/loop/action.yml", looped),
        (".github/actions/script/action.yml", "runs:\n  using: node24\n  main: index.js\n"),
    ]);
    let found = steps(&plan);
    // Five levels of sixty actions each would be a million.
    let many =
        format!("runs:\n  using: composite\n  steps:\n{}", "    - uses: ./many\n".repeat(60));
    let files = [
        (
            ".github/workflows/ci.yml",
            "on: push\njobs:\n  a:\n    steps:\n      - uses: ./many\n      - run: pytest\n",
        ),
        ("many/action.yml", many.as_str()),
    ];
    assert_eq!(steps(&read(&files)), ["workflows/ci.yml:6 $ pytest"]);
    assert!(found.len() < 10 && found.last().unwrap().ends_with("$ pytest"), "{found:#?}");
}

const CALLED: &str = "on:
  workflow_call:
    inputs:
      suite: {type: string, default: all}
      node: {type: string, required: true}
      browsers: {type: boolean, default: false}
jobs:
  run:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/setup-node@v5
        with:
          node-version: ${{ inputs.node }}
      - run: npm test -- --suite ${{ inputs.suite }}
      - if: inputs.browsers
        run: npm run test:browser
";

#[test]
fn a_workflow_is_read_with_what_its_caller_gives() {
    let ci = "on: [push, pull_request]
jobs:
  unit:
    uses: ./.github/workflows/called.yml
    with:
      suite: unit
      node: 22
";
    let release = "on: release\njobs:\n  test:\n    uses: ./.github/workflows/called.yml\n    with: {suite: release, node: 18}\n";
    let reusable = (".github/workflows/called.yml", CALLED);
    let with = |files: &[(&str, &str)]| read(&[&[reusable], files].concat());

    let plan =
        with(&[(".github/workflows/ci.yml", ci), (".github/workflows/release.yml", release)]);
    assert_eq!(steps(&plan), ["workflows/called.yml:14 $ npm test -- --suite unit"]);
    assert_eq!(plan.versions["node"].value, "22");
    // A release alone says nothing about a change.
    assert!(with(&[(".github/workflows/release.yml", release)]).jobs.is_empty());
    // Nobody here calls it: others do.
    let alone = with(&[]);
    assert_eq!(steps(&alone), ["workflows/called.yml:14 $ npm test -- --suite all"]);
    assert!(alone.versions.is_empty(), "{:?}", alone.versions);
    // Each call is read with what it gives.
    let twice = format!(
        "{ci}  types:\n    uses: ./.github/workflows/called.yml\n    with: {{suite: types, node: 22}}\n"
    );
    let found = steps(&with(&[(".github/workflows/ci.yml", &twice)]));
    assert!(found[0].ends_with("--suite unit") && found[1].ends_with("--suite types"), "{found:?}");
    // A call that does not happen for a change.
    let pushed = ci.replace("unit:\n", "unit:\n    if: github.ref == 'refs/heads/main'\n");
    assert!(with(&[(".github/workflows/ci.yml", &pushed)]).jobs.is_empty());
    // Workflows that call each other.
    let both = "on: {pull_request: , workflow_call: }\njobs:\n  a:\n    uses: ./.github/workflows/ci.yml\n  b:\n    steps:\n      - run: pytest\n";
    assert_eq!(
        steps(&read(&[(".github/workflows/ci.yml", both)])),
        ["workflows/ci.yml:7 $ pytest"]
    );
}

#[test]
fn a_job_that_waits_for_a_list_of_changed_paths_is_read() {
    let workflow = "on: pull_request
jobs:
  changes:
    runs-on: ubuntu-latest
    outputs:
      code: ${{ steps.filter.outputs.code }}
    steps:
      - uses: dorny/paths-filter@v3
        id: filter
  test:
    needs: changes
    if: needs.changes.outputs.code == 'true' && !contains(github.event.pull_request.labels.*.name, 'skip')
    runs-on: ubuntu-latest
    steps:
      - run: cargo test
  publish:
    if: github.event_name == 'push' && github.ref == 'refs/heads/main'
    steps:
      - run: cargo test --release
  published:
    needs: [test, publish]
    steps:
      - run: cargo test --doc
  after-that:
    needs: published
    steps:
      - run: cargo test --benches
  in-any-case:
    needs: publish
    if: ${{ !failure() }}
    steps:
      - run: cargo test --examples
";
    let plan = read(&[(".github/workflows/ci.yml", workflow)]);
    let found = ["workflows/ci.yml:15 $ cargo test", "workflows/ci.yml:32 $ cargo test --examples"];
    assert_eq!(steps(&plan), found);
}

#[test]
fn what_is_about_another_repository_or_a_folder_that_is_not_there_is_left_out() {
    let workflow = "on: pull_request
jobs:
  plugin:
    steps:
      - uses: actions/checkout@v5
        with: {path: app}
      - uses: actions/checkout@v5
        with: {repository: example/plugin, path: plugin}
      - uses: ./app/.github/actions/setup
      - run: pytest
        working-directory: plugin
      - run: pytest
        working-directory: app/lib
      - run: pytest
  cloned:
    steps:
      - run: git clone https://example.com/other.git
      - run: cd other && cargo test
      - run: cmake -B build && cmake --build build
      - run: ctest
        working-directory: build
      - run: |
          source $VENV
          pytest
";
    let action =
        "runs:\n  using: composite\n  steps:\n    - run: pip install -e .\n      shell: bash\n";
    let plan = read(&[
        (".github/workflows/ci.yml", workflow),
        (".github/actions/setup/action.yml", action),
        ("lib/test_a.py", ""),
    ]);
    let found: Vec<(&str, Option<&str>)> = plan
        .steps()
        .filter(|it| it.is_for == StepPurpose::Test)
        .map(|it| (it.folder.as_str(), it.unusable.as_deref()))
        .collect();
    let expected = [
        ("", Some("is about another repository")),
        ("lib", None),
        ("", Some("runs beside the repository")),
        ("other", Some("runs in a folder that is not in the tree")),
        ("build", None),
        ("", Some("reads the file `$VENV`, which something else makes")),
    ];
    assert_eq!(found, expected);
    assert!(steps(&plan)[0].starts_with("actions/setup/action.yml:4 $ pip install -e ."));
}

#[test]
fn of_a_matrix_an_entry_for_another_machine_is_not_taken() {
    let workflow = |matrix: &str| {
        format!(
            "on: push\njobs:\n  test:\n    strategy: {{matrix: {matrix}}}\n    steps:\n      - run: go test ${{{{ matrix.name }}}}${{{{ matrix.os }}}}\n"
        )
    };
    let rows = [
        (
            "{include: [{name: plain, go: '1.26'}, {name: small, go: '1.26', arch: 386}, {name: arm, go: '1.26', os: ubuntu-24.04-arm}]}",
            "go test plain",
        ),
        ("{os: [ubuntu-24.04-arm, ubuntu-24.04, macos-15]}", "go test ubuntu-24.04"),
        ("{os: [ubuntu-24.04-arm]}", "go test ubuntu-24.04-arm"),
    ];
    for (matrix, expected) in rows {
        let plan = read(&[(".github/workflows/ci.yml", &workflow(matrix))]);
        assert!(steps(&plan)[0].ends_with(&format!("$ {expected}")), "{:?}", steps(&plan));
    }
}

#[test]
fn versions_are_those_of_the_jobs_with_tests_and_the_newest() {
    let scan = "on: push\njobs:\n  scan:\n    steps:\n      - uses: actions/setup-python@v6\n        with: {python-version: '3.8'}\n      - run: scan --all\n";
    let test = "on: push
jobs:
  test:
    strategy:
      matrix:
        include:
          - {name: old, python: '3.9'}
          - {name: new, python: '3.13'}
          - {name: next, python: '3.15', experimental: true}
          - {name: windows, python: '3.14', os: windows-latest}
    steps:
      - uses: actions/setup-python@v6
        with: {python-version: '${{ matrix.python }}'}
      - run: pytest --name ${{ matrix.name }}
";
    let older = test.replace("'3.13'", "'3.10'").replace("- {name: windows", "- {name: mac");
    let plan = read(&[
        (".github/workflows/a.yml", scan),
        (".github/workflows/b.yml", &older),
        (".github/workflows/c.yml", test),
    ]);
    assert_eq!(plan.versions["python"].value, "3.13");
    assert!(steps(&plan).last().unwrap().ends_with("$ pytest --name new"));
}

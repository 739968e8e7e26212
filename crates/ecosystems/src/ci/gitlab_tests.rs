//! Files of GitLab, with what they include, extend and refer to, as jobs and steps.

use std::collections::BTreeMap;

use crate::ci::{CiPlan, detect};

fn read(files: &[(&str, &str)]) -> CiPlan {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    detect(&files.collect::<BTreeMap<_, _>>())
}

/// Each step as `FILE:LINE JOB$ COMMAND`.
fn steps(files: &[(&str, &str)]) -> Vec<String> {
    let plan = read(files);
    let of = |job: &crate::ci::Job| -> Vec<String> {
        let one = |step: &crate::ci::CiStep| {
            let line = step.why.line.unwrap_or(0);
            format!("{}:{line} {}$ {}", step.why.file, job.name, step.command)
        };
        job.steps.iter().map(one).collect()
    };
    plan.jobs.iter().flat_map(of).collect()
}

const PATH: &str = ".gitlab-ci.yml";

#[test]
fn jobs_have_what_they_extend_include_and_refer_to() {
    let main = "include:
  - local: /ci/base.yml
  - https://example.com/other.yml
.tests:
  extends: .base
  variables: {LEVEL: high}
  script:
    - pytest -q
unit:
  extends: .tests
unit2:
  extends: [.base, .tests]
  variables: {MODE: quick}
  script:
    - !reference [.setup, script]
    - pytest tests/two
own:
  script: !reference [.base, before_script]
";
    let base = "include: [/ci/../ci/base.yml, ../../outside.yml]
.base:
  before_script: [pip install -e .]
  variables: {LEVEL: low, KEY: a}
.setup:
  script:
    - !reference [.deep, script]
    - python setup.py build
.deep: {script: [make gen]}
";
    let files = [(PATH, main), ("ci/base.yml", base)];
    let expected = [
        "ci/base.yml:3 unit$ pip install -e .",
        ".gitlab-ci.yml:8 unit$ pytest -q",
        "ci/base.yml:3 unit2$ pip install -e .",
        "ci/base.yml:9 unit2$ make gen",
        "ci/base.yml:8 unit2$ python setup.py build",
        ".gitlab-ci.yml:16 unit2$ pytest tests/two",
        "ci/base.yml:3 own$ pip install -e .",
    ];
    assert_eq!(steps(&files), expected);
    let plan = read(&files);
    let job = plan.jobs.iter().find(|job| job.name == "unit2").unwrap();
    let environment = &job.steps[0].environment;
    let found: Vec<(&str, &str)> =
        environment.iter().map(|(name, it)| (name.as_str(), it.as_str())).collect();
    assert_eq!(found, [("KEY", "a"), ("LEVEL", "high"), ("MODE", "quick")]);
}

#[test]
fn only_jobs_that_run_for_a_change_by_themselves_are_read() {
    let rows = [
        ("rules: [{when: never}]", false),
        ("rules: [{when: manual}]", false),
        ("rules: [{if: $CI_COMMIT_TAG}]", false),
        ("rules: [{if: $CI_COMMIT_TAG, when: never}, {when: on_success}]", true),
        ("rules: [{if: '$CI_PIPELINE_SOURCE == \"merge_request_event\"'}]", true),
        ("rules: [{if: \"$CI_PIPELINE_SOURCE == 'schedule'\"}]", false),
        ("rules: [{if: '$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH'}]", false),
        ("rules: [{if: '$CI_COMMIT_BRANCH != $CI_DEFAULT_BRANCH'}]", true),
        ("rules: [{if: '$CI_MERGE_REQUEST_IID', when: never}, {if: $CI_COMMIT_BRANCH}]", true),
        ("rules: [{if: '$CI_COMMIT_TAG && $WITH_TESTS'}]", false),
        ("rules: [{if: '$CI_COMMIT_TAG || $WITH_TESTS'}]", true),
        ("rules: [{if: '$CI_COMMIT_TAG =~ /^v/'}]", false),
        ("rules: [{if: '$CI_COMMIT_TITLE =~ /skip (all)/', when: never}, {when: always}]", true),
        ("rules: [{changes: [docs/**], when: never}, {when: always}]", true),
        ("rules: [{changes: [src/**]}]", true),
        ("rules: [!reference [.rules, rules]]", false),
        ("when: manual", false),
        ("only: [tags]", false),
        ("only: {refs: [schedules, web]}", false),
        ("only: [tags, branches]", true),
        ("tags: [saas-windows-medium-amd64]", false),
        ("tags: [docker]", true),
        ("stage: deploy", false),
    ];
    for (rest, is_read) in rows {
        let file =
            format!(".rules: {{rules: [{{when: never}}]}}\ntest:\n  script: pytest\n  {rest}\n");
        assert_eq!(steps(&[(PATH, &file)]).len(), usize::from(is_read), "{rest}");
    }
}

#[test]
fn variables_of_parallel_jobs_are_those_of_the_first() {
    let file = "test:\n  parallel:\n    matrix:\n      - PYTHON: ['3.9', '3.13', '3.10']\n        DB: sqlite\n      - DB: mysql\n  script: pytest\n";
    let plan = read(&[(PATH, file)]);
    let environment = &plan.jobs[0].steps[0].environment;
    assert_eq!((environment["PYTHON"].as_str(), environment["DB"].as_str()), ("3.13", "sqlite"));
}

#[test]
fn circles_and_very_many_parts_end() {
    let circle = "a:\n  extends: [a, b]\n  script: [!reference [b, script], pytest]\nb:\n  extends: [b, a, a]\n  script: [!reference [a, script], !reference [a, script], !reference [b, script]]\n";
    let found = steps(&[(PATH, circle)]);
    assert!(found.iter().any(|step| step.ends_with("pytest")), "{found:?}");
    // Each refers to the one before many times.
    let mut many = "t0: {script: [x]}\n".to_owned();
    for n in 1..30 {
        let reference = format!("!reference [t{}, script]", n - 1);
        many.push_str(&format!("t{n}: {{script: [{}]}}\n", vec![reference; 30].join(", ")));
    }
    assert!(read(&[(PATH, &many)]).steps().count() < 3_000);
    // Each extends eleven others, in a circle.
    let each = |n: usize| {
        let others: Vec<String> = (1..12).map(|m| format!("e{}", (n + m) % 150)).collect();
        let others = others.join(", ");
        format!("e{n}:\n  extends: [{others}]\n  variables: {{V{n}: a}}\n  script: [pytest]\n")
    };
    let file: String = (0..150).map(each).collect();
    let plan = read(&[(PATH, &file)]);
    assert_eq!(plan.jobs.len(), 40);
    // A large list that many refer to.
    let list = vec!["x"; 10_000].join(", ");
    let references = vec!["!reference [.a, script]"; 60].join(", ");
    let plan =
        read(&[(PATH, &format!(".a: {{script: [{list}]}}\nt: {{script: [{references}]}}\n"))]);
    let said = "has too many parts that extend or refer to each other; not all are read";
    assert_eq!(plan.notes[0].text, said);
    let includes = "include: [a.yml, b.yml, .gitlab-ci.yml]\ntest: {script: pytest}\n";
    let files = [(PATH, includes), ("a.yml", includes), ("b.yml", "a: [")];
    assert_eq!(steps(&files).len(), 1);
}

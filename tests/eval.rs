//! `patchwright eval`: instances of a history, models at work on them, judgement by tests that they have not seen.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::git_repo::git;
use crate::support::model::{Turn, fail, say};
use crate::support::world::{TestWorld, github, write};

const ROMAN: &str = "n=$1 out=\nfor pair in 10:X 5:V 1:I; do\n  while [ $n -ge ${pair%%:*} ]; do out=$out${pair##*:} n=$((n - ${pair%%:*})); done\ndone\necho $out\n";
const TESTS: &str = "#!/bin/sh\n# Test Anything Protocol\nok() { [ \"$(sh roman.sh $2)\" = $3 ] && echo \"ok $1 - $2\" || { echo \"not ok $1 - $2\"; bad=1; }; }\n";
const SUBTRACTIVE: &str = "10:X 9:IX 5:V 4:IV 1:I";

/// A project in which people solved one task by code and tests together, in its second commit of four.
fn project(world: &TestWorld) -> PathBuf {
    let path = world.path("project");
    fs_err::create_dir(&path).unwrap();
    git(&path, &["init", "--quiet", "--initial-branch", "main"]);
    let tests =
        |count: u32, rows: &str| format!("{TESTS}echo 1..{count}\n{rows}exit ${{bad:-0}}\n");
    save(&path, &[("roman.sh", ROMAN), ("Makefile", "test:\n\tsh tests/test.sh\n")], "First");
    let before = tests(1, "ok 1 3 III\n");
    save(&path, &[("tests/test.sh", &before)], "Test what is there");
    let solved = ROMAN.replace("10:X 5:V 1:I", SUBTRACTIVE);
    let after = tests(3, "ok 1 3 III\nok 2 4 IV\nok 3 9 IX\n");
    let message = "Write 4 and 9 as subtractive pairs (#12)\n\n4 came out as IIII.\n\nSigned-off-by: A <a@example.org>";
    save(&path, &[("roman.sh", &solved), ("tests/test.sh", &after)], message);
    save(&path, &[("README.md", "# roman\n")], "Say what it is");
    path
}

pub(crate) fn save(path: &Path, files: &[(&str, &str)], message: &str) {
    for (name, content) in files {
        let file = path.join(name);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, content).unwrap();
    }
    git(path, &["add", "."]);
    git(path, &["commit", "--quiet", "--message", message]);
}

/// What solves it, and what breaks a test that passed, and nothing.
fn right() -> Vec<Turn> {
    write("roman.sh", &ROMAN.replace("10:X 5:V 1:I", SUBTRACTIVE), "Written as pairs.")
}

/// It breaks a check that the model sees, which goes back to it.
fn wrong() -> Vec<Turn> {
    let left = [say("It is left as it is."), say("It is left as it is.")];
    write("roman.sh", "echo IV", "It is four.").into_iter().chain(left).collect()
}

fn mined(world: &TestWorld) -> Vec<Value> {
    let mine = ["eval", "mine", "--repo", "project", "--verify", "sh tests/test.sh"];
    world.run(&mine).expect(0);
    lines(&world.path("instances.jsonl"))
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_commit_with_code_and_tests_becomes_an_instance_that_its_own_tests_decide() {
    let world = TestWorld::local(Vec::new());
    let project = project(&world);
    let mine = ["eval", "mine", "--repo", "project", "--verify", "sh tests/test.sh"];
    let output = world.run(&mine).expect(0);
    assert_eq!(output.stdout, "instances.jsonl: 1 instance\n");
    let instances = lines(&world.path("instances.jsonl"));
    let instance = &instances[0];
    assert_eq!(instance["instance_id"], "local__project-12");
    assert_eq!(instance["base_commit"], git(&project, &["rev-parse", "HEAD~2"]).trim());
    assert_eq!(instance["commit"], git(&project, &["rev-parse", "HEAD~1"]).trim());
    let statement = "Write 4 and 9 as subtractive pairs (#12)\n\n4 came out as IIII.";
    assert_eq!(instance["problem_statement"], statement);
    assert_eq!(instance["FAIL_TO_PASS"], json!(["4", "9"]));
    assert_eq!(instance["PASS_TO_PASS"], json!(["3"]));
    let (patch, tests) =
        (instance["patch"].as_str().unwrap(), instance["test_patch"].as_str().unwrap());
    assert!(patch.contains("roman.sh") && !patch.contains("tests/"), "{patch}");
    assert!(tests.contains("tests/test.sh") && !tests.contains("a/roman.sh"), "{tests}");
    // The two are what the commit is.
    git(&project, &["checkout", "--quiet", "HEAD~2"]);
    for part in [patch, tests] {
        fs_err::write(world.path("part.patch"), part).unwrap();
        git(&project, &["apply", "--index", &world.path("part.patch").display().to_string()]);
    }
    let tree = git(&project, &["write-tree"]);
    assert_eq!(tree, git(&project, &["rev-parse", "main~1^{tree}"]));
    let skipped = lines(&world.path("instances.skipped.jsonl"));
    let reasons: Vec<&str> = skipped.iter().map(|it| it["why"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        ["it adds no test and changes none", "it changes no code", "it has no parent"]
    );
    // Nothing is tried twice.
    let again = world.run(&mine).expect(0);
    assert!(!again.stderr.contains("trying"), "{}", again.text());
    assert_eq!(lines(&world.path("instances.jsonl")).len(), 1);
}

#[test]
fn models_are_judged_by_tests_that_they_do_not_see_and_compared() {
    let world = TestWorld::local([right(), wrong()].concat());
    project(&world);
    mined(&world);
    let run =
        ["eval", "run", "instances.jsonl", "--repo", "project", "--verify", "sh tests/test.sh"];
    let models = ["--models", "gpt-5.3-codex,gpt-5.2"];
    let output = world.run(&[&run[..], &models[..]].concat()).expect(0);
    let table = &output.stdout;
    assert!(table.contains("gpt-5.3-codex    1 of 1"), "{table}");
    assert!(table.contains("gpt-5.2          0 of 1"), "{table}");
    assert!(
        table.contains(
            "on 1 instance: 1 only by the first, 0 only by the second, p = 1.000: may be chance"
        ),
        "{table}"
    );
    let first = String::from_utf8(world.model.requests().remove(0).raw.clone()).unwrap();
    assert!(first.contains("4 came out as IIII"), "{first}");
    for hidden in ["ok 2 4 IV", "9:IX 5:V"] {
        assert!(!first.contains(hidden), "the model was shown {hidden}");
    }
    let rows = lines(&world.path("evaluation/results.jsonl"));
    assert_eq!(rows[0]["verdict"], "resolved");
    assert_eq!(rows[1]["verdict"], "unresolved");
    assert_eq!(rows[1]["not_passed"], json!(["9", "3"]));
    assert_eq!(rows[1]["fail_to_pass"], json!({"passed": 1, "of": 2}));
    assert!(rows[0]["cost_usd"].as_f64().unwrap() > 0.0);
    let report: Value = serde_json::from_str(
        &fs_err::read_to_string(world.path("evaluation/swe-bench/gpt-5.3-codex.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(report["resolved_ids"], json!(["local__project-12"]));
    let page = fs_err::read_to_string(world.path("evaluation/report.html")).unwrap();
    assert!(page.contains("runs/gpt-5.3-codex/local__project-12.1/report.html"), "{page}");
    // Everything has a result: nobody is asked again.
    let asked = world.model.requests().len();
    world.run(&[&run[..], &models[..]].concat()).expect(0);
    assert_eq!(world.model.requests().len(), asked);
    // What was written can be judged elsewhere, and comes to the same.
    let predictions = "evaluation/predictions/gpt-5.2.jsonl";
    let judge = ["eval", "judge", "instances.jsonl", predictions, "--repo", "project"];
    let judged = world.run(&[&judge[..], &["--out", "judged"]].concat()).expect(0);
    assert!(judged.stdout.contains("gpt-5.2    0 of 1"), "{}", judged.text());
    assert_eq!(world.model.requests().len(), asked);
    // Two folders with results of one model stand beside each other by the names of the folders.
    let both =
        world.run(&["eval", "report", "evaluation", "judged", "--out", "both.html"]).expect(0);
    assert!(both.stdout.contains("gpt-5.2 (evaluation)"), "{}", both.text());
    assert!(both.stdout.contains("gpt-5.2 (judged)"), "{}", both.text());
    // What others have spent is not known.
    assert!(both.stdout.contains("0 % to 79 %      –             –      –\n"), "{}", both.text());
    // Folders of one name are told apart by their paths, and one folder is not two.
    world.run(&[&judge[..], &["--out", "other/evaluation"]].concat()).expect(0);
    let same = world.run(&["eval", "report", "evaluation", "other/evaluation"]).expect(0);
    assert!(same.stdout.contains("gpt-5.2 (other/evaluation)    0 of 1"), "{}", same.text());
    let twice = world.run(&["eval", "report", "evaluation", "evaluation/"]).expect(2);
    assert!(twice.stderr.contains("is named twice"), "{}", twice.text());
}

#[test]
fn what_a_model_makes_of_the_tests_decides_nothing() {
    let cheat =
        write("tests/test.sh", "echo 1..3; for n in 3 4 9; do echo ok - $n; done", "All pass.");
    let world = TestWorld::local(cheat);
    project(&world);
    mined(&world);
    let run = ["eval", "run", "instances.jsonl", "--repo", "project", "--json"];
    let output = world.run(&run).expect(0);
    let summary: Value = serde_json::from_str(output.stdout.trim()).unwrap();
    assert_eq!(summary["models"][0]["resolved"], 0.0);
    let rows = lines(&world.path("evaluation/results.jsonl"));
    assert_eq!(rows[0]["not_passed"], json!(["4", "9"]));
}

#[test]
fn a_change_to_what_the_checks_depend_on_is_named_with_the_result() {
    let solve = right().remove(0);
    let turns = write("Makefile", "test:\n\ttrue\n", "Tests are faster now.");
    // It is asked why its own check runs no test any more.
    let left = vec![say("It is left as it is."), say("It is left as it is.")];
    let world = TestWorld::local([vec![solve], turns, left].concat());
    project(&world);
    mined(&world);
    let output = world.run(&["eval", "run", "instances.jsonl", "--repo", "project"]).expect(0);
    let named = "resolved, with changes to what the checks depend on: `Makefile`";
    assert!(
        output.stderr.contains(&format!("look at local__project-12 by gpt-5.3-codex: {named}"))
    );
    let row = &lines(&world.path("evaluation/results.jsonl"))[0];
    assert_eq!((&row["verdict"], &row["touched"]), (&json!("resolved"), &json!(["Makefile"])));
    let page = fs_err::read_to_string(world.path("evaluation/report.html")).unwrap();
    assert!(page.contains("✓?"), "{page}");
}

#[test]
fn a_model_that_does_not_answer_has_no_result_and_is_asked_again() {
    let world = TestWorld::local([fail(401, "invalid_api_key", "no")]);
    project(&world);
    mined(&world);
    let run = ["eval", "run", "instances.jsonl", "--repo", "project"];
    let output = world.run(&run).expect(20);
    assert!(output.stderr.contains("no result: local__project-12 by"), "{}", output.text());
    world.model.replace(right());
    let output = world.run(&run).expect(0);
    assert!(output.stdout.contains("1 of 1"), "{}", output.text());
}

#[test]
fn failures_one_after_the_other_end_an_evaluation_that_still_reports_what_it_has() {
    let refusals = [(); 3].map(|()| fail(401, "invalid_api_key", "no"));
    let world = TestWorld::local(right().into_iter().chain(refusals));
    project(&world);
    mined(&world);
    let run = ["eval", "run", "instances.jsonl", "--repo", "project", "--trials", "5"];
    let output = world.run(&run).expect(20);
    assert!(output.stdout.contains("1 of 1"), "{}", output.text());
    assert!(output.stderr.contains("by gpt-5.3-codex, trial 2 has no result"), "{}", output.text());
    assert!(output.stderr.contains("1 run not begun"), "{}", output.text());
    assert!(world.path("evaluation/report.html").is_file());
}

#[test]
fn the_budget_counts_what_failed_runs_have_cost() {
    let call = right().remove(0);
    let world = TestWorld::local([call, fail(401, "invalid_api_key", "no")]);
    project(&world);
    mined(&world);
    let run = ["eval", "run", "instances.jsonl", "--repo", "project"];
    let run = [&run[..], &["--trials", "2", "--budget-usd", "0.000001"]].concat();
    let output = world.run(&run).expect(20);
    assert!(output.stderr.contains("1 run not begun"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 2);
}

#[test]
fn a_killed_evaluation_judges_what_it_has_paid_for() {
    let world = TestWorld::local(right());
    project(&world);
    mined(&world);
    let run = ["eval", "run", "instances.jsonl", "--repo", "project"];
    world.run(&run).expect(0);
    let asked = world.model.requests().len();
    // As if it had been killed between the work and its judgement.
    fs_err::write(world.path("evaluation/results.jsonl"), "{\"instance_id\":").unwrap();
    let output = world.run(&run).expect(0);
    assert!(output.stdout.contains("1 of 1"), "{}", output.text());
    assert_eq!(world.model.requests().len(), asked);
    // As if it had been killed at the very end of the work.
    fs_err::write(world.path("evaluation/results.jsonl"), "").unwrap();
    fs_err::write(world.path("evaluation/proposals.jsonl"), "").unwrap();
    let output = world.run(&run).expect(0);
    assert!(output.stdout.contains("1 of 1"), "{}", output.text());
    assert_eq!(world.model.requests().len(), asked);
    assert!(lines(&world.path("evaluation/results.jsonl"))[0]["cost_usd"].as_f64().unwrap() > 0.0);
    // The budget counts what is there.
    let more = ["--trials", "2", "--budget-usd", "0.000001"];
    let output = world.run(&[&run[..], &more[..]].concat()).expect(20);
    assert!(output.stderr.contains("1 run not begun"), "{}", output.text());
}

#[test]
fn patches_that_change_nothing_or_do_not_apply_are_told_apart() {
    let world = TestWorld::local(Vec::new());
    project(&world);
    let id = mined(&world)[0]["instance_id"].clone();
    let predictions = [
        json!({"instance_id": id, "model_name_or_path": "empty", "model_patch": null}),
        json!({"instance_id": id, "model_name_or_path": "stale", "model_patch":
            "diff --git a/roman.sh b/roman.sh\n--- a/roman.sh\n+++ b/roman.sh\n@@ -1 +1 @@\n-nowhere\n+here\n"}),
    ];
    fs_err::write(world.path("predictions.json"), json!(predictions).to_string()).unwrap();
    let judge = ["eval", "judge", "instances.jsonl", "predictions.json", "--repo", "project"];
    world.run(&judge).expect(0);
    let rows = lines(&world.path("evaluation/results.jsonl"));
    assert_eq!(rows[0]["verdict"], "empty_patch");
    assert_eq!(rows[1]["verdict"], "not_applicable");
    let report = fs_err::read_to_string(world.path("evaluation/swe-bench/stale.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["error_ids"], json!([id]));
}

#[test]
fn an_instance_that_nobody_can_judge_is_not_paid_for() {
    let world = TestWorld::local(Vec::new());
    project(&world);
    let mut instance = mined(&world).remove(0);
    instance["test_patch"] = json!("no patch");
    fs_err::write(world.path("instances.jsonl"), instance.to_string()).unwrap();
    let output = world.run(&["eval", "run", "instances.jsonl", "--repo", "project"]).expect(20);
    assert!(output.stderr.contains("the `test_patch` of `local__project-12`"), "{}", output.text());
    assert!(world.model.requests().is_empty());
}

#[test]
fn what_is_wrong_is_said_before_anything_is_paid() {
    let world = TestWorld::local(Vec::new());
    project(&world);
    mined(&world);
    let run = ["eval", "run", "instances.jsonl", "--repo", "project"];
    for (more, said) in [
        (&["--models", "gpt-5.3-codex,no-such-model"][..], "no-such-model"),
        (&["--models", "gpt-5.2,gpt-5.2"][..], "names `gpt-5.2` twice"),
        (&["--only", "other"][..], "there is no instance `other`"),
        (&["--repo", "a,b"][..], "names two repositories"),
    ] {
        let output = world.run(&[&run[..], more].concat()).expect(2);
        assert!(output.stderr.contains(said), "{}", output.text());
    }
    let output = world.run(&["eval", "run", "project/Makefile"]).expect(2);
    assert!(output.stderr.contains("line 1 of the instances"), "{}", output.text());
    assert!(world.model.requests().is_empty());
}

#[test]
fn tasks_are_the_issues_that_pull_requests_closed_without_what_is_hidden_in_them() {
    let github = github().issue(
        "acme/app",
        11,
        "4 comes out as IIII",
        "It should be IV.<!-- the solution is 4:IV -->",
    );
    let world = TestWorld::new(github, Vec::new());
    let path = project(&world);
    git(&path, &["commit", "--quiet", "--amend", "--message", "Say what it is"]);
    // The commit says which issue it closes.
    git(&path, &["checkout", "--quiet", "-b", "closing", "HEAD~1"]);
    git(&path, &["commit", "--quiet", "--amend", "--message", "Write pairs\n\nFixes #11"]);
    let mine = ["eval", "mine", "--repo", "project", "--base", "closing", "--issues", "acme/app"];
    world.run(&[&mine[..], &["--verify", "sh tests/test.sh"]].concat()).expect(0);
    let instance = &lines(&world.path("instances.jsonl"))[0];
    assert_eq!(instance["problem_statement"], "4 comes out as IIII\n\nIt should be IV.");
    assert_eq!((&instance["statement"], &instance["repo"]), (&json!("issue"), &json!("acme/app")));
}

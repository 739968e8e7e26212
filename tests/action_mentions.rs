//! What the job of a mention is told: the same outputs and the same summary as any other run.

use expect_test::{Expect, expect};
use patchwright_forge::Role;
use serde_json::json;

use crate::action::outputs;
use crate::action_pulls::told;
use crate::support::github::{Event, GitHub};
use crate::support::model::{Turn, call, say};
use crate::support::world::{FILES, TestWorld, fix};

const PULL: u64 = 8;
const DIVIDE: &str = "divide() {\n  echo $(($1 / $2))\n}\n";

fn project() -> GitHub {
    GitHub::new().repository("acme/app", FILES).user("ann", Role::Write)
}

fn with_pull() -> GitHub {
    project().pull(PULL, "Add divide", "divide", &[("divide.sh", DIVIDE)]).by("ann")
}

/// The job of a comment: its outputs, and its summary.
fn job_of(world: TestWorld, number: u64, words: &str) -> (TestWorld, String) {
    let comment = world.github.post_comment(number, "ann", words);
    let event = world.github.issue_comment_event(comment);
    let world = job(world, &event);
    let summary = summary(&world);
    (world, summary)
}

fn job(world: TestWorld, event: &Event) -> TestWorld {
    let _ = fs_err::remove_file(world.path("summary"));
    let world = told(world, event);
    world.run(&["action"]).expect(0);
    world
}

fn summary(world: &TestWorld) -> String {
    world.tidy(&fs_err::read_to_string(world.path("summary")).unwrap())
}

#[track_caller]
fn check(world: &TestWorld, expected: &Expect) {
    expected.assert_eq(&outputs(world));
}

#[track_caller]
fn has(summary: &str, parts: &[&str]) {
    for part in parts {
        assert!(summary.contains(part), "{part}: {summary}");
    }
}

#[test]
fn a_fix_has_all_outputs_of_a_run_and_its_summary() {
    let (world, summary) =
        job_of(TestWorld::new(with_pull(), fix()), PULL, "@patchwright fix the sign in calc.sh");
    check(
        &world,
        &expect![[r#"
        conclusion = done
        checks = passed
        final-message = Add instead of subtracting⏎⏎The sign in `calc.sh` was wrong.⏎⏎pushed SHA to divide
        pull-request-number = 8
        pull-request-url = GITHUB/acme/app/pull/8
        pull-request-operation = updated
        pull-request-head-sha = SHA
        branch = divide
        plan-file = DIR/state/runs/RUN/plan.md
        patch-file = DIR/state/runs/RUN/change.patch
        journal-file = DIR/state/runs/RUN/journal.jsonl
        report-file = DIR/state/runs/RUN/report.html
        cost-usd = 0.0075
    "#]],
    );
    let head = world.github.head_of(PULL);
    let text = fs_err::read_to_string(world.path("outputs")).unwrap();
    assert!(text.contains(&head), "{head}: {text}");
    has(
        &summary,
        &[
            "## Patchwright: acme/app#&#8203;8 — done\n",
            "Pull request: GITHUB/acme/app/pull/8\n",
            "Answer: GITHUB/acme/app/issues/8#issuecomment-",
            "### Evidence\n\n| Command | Before | After |",
            "### The model says",
            "### Cost\n\n< $0.01 · 5 turns",
        ],
    );
}

#[test]
fn a_fix_that_an_issue_asks_for_has_the_outputs_of_its_pull_request() {
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("ann");
    let (world, summary) = job_of(TestWorld::new(github, fix()), 7, "@patchwright fix it");
    check(
        &world,
        &expect![[r#"
        conclusion = done
        checks = passed
        final-message = Add instead of subtracting⏎⏎The sign in `calc.sh` was wrong.
        pull-request-number = 8
        pull-request-url = GITHUB/acme/app/pull/8
        pull-request-operation = created
        pull-request-head-sha = SHA
        branch = patchwright/issue-7
        plan-file = DIR/state/runs/RUN/plan.md
        patch-file = DIR/state/runs/RUN/change.patch
        journal-file = DIR/state/runs/RUN/journal.jsonl
        report-file = DIR/state/runs/RUN/report.html
        cost-usd = 0.0075
    "#]],
    );
    has(
        &summary,
        &["Pull request: GITHUB/acme/app/pull/", "Answer: GITHUB/acme/app/", "### Evidence"],
    );
}

#[test]
fn an_answer_has_no_pull_request_and_says_what_it_cost() {
    let world = TestWorld::new(with_pull(), vec![say("Because it _subtracts_.")]);
    let (world, summary) = job_of(world, PULL, "@patchwright why?");
    check(
        &world,
        &expect![[r#"
        conclusion = done
        checks = none
        final-message = Because it _subtracts_.
        plan-file = DIR/state/runs/RUN/plan.md
        journal-file = DIR/state/runs/RUN/journal.jsonl
        report-file = DIR/state/runs/RUN/report.html
        cost-usd = 0.0015
    "#]],
    );
    assert!(!summary.contains("No checks ran"), "nothing was changed: {summary}");
    has(
        &summary,
        &["Answer: GITHUB/acme/app/issues/8#issuecomment-", "*subtracts*", "### Cost\n\n"],
    );
}

#[test]
fn a_question_that_becomes_a_change_has_the_outputs_and_the_cost_of_both() {
    let turns: Vec<Turn> = [say("NEEDS CHANGE")].into_iter().chain(fix()).collect();
    let world = TestWorld::new(with_pull(), turns);
    let (world, summary) = job_of(world, PULL, "@patchwright the sign in calc.sh is wrong");
    let said = outputs(&world);
    for line in ["checks = passed", "branch = divide", "pull-request-number = 8"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    has(&summary, &["Pull request: GITHUB/acme/app/pull/8\n", "### Cost\n\n< $0.01 · 6 turns"]);
}

#[test]
fn a_rebase_without_a_model_has_the_commit_that_was_pushed() {
    let github = project().issue("acme/app", 7, "add subtracts", "It prints 0.").by("ann");
    let world = TestWorld::new(github, fix());
    world.run(&["issue", "acme/app#7"]).expect(0);
    world.github.push("main", &[("README.md", "# calc\n\nIt adds.\n")]);
    let (world, summary) = job_of(world, PULL, "@patchwright rebase");
    let said = outputs(&world);
    for line in [
        "conclusion = done\nchecks = none\nfinal-message = **Rebased `patchwright/issue-7` onto",
        "pull-request-url = GITHUB/acme/app/pull/8\npull-request-operation = updated\n",
        "pull-request-head-sha = SHA\nbranch = patchwright/issue-7\njournal-file = DIR/state/",
        "cost-usd = 0.0000",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let text = fs_err::read_to_string(world.path("outputs")).unwrap();
    assert!(text.contains(&world.github.head_of(PULL)), "{text}");
    has(
        &summary,
        &[
            "Pull request: GITHUB/acme/app/pull/8\n",
            "Answer: GITHUB/acme/app/issues/8#issuecomment-",
            "**Rebased `patchwright/issue-7` onto `main` at `",
        ],
    );
    assert!(!summary.contains("### Cost") && !summary.contains("The model says"), "{summary}");
    // Once more there is nothing to push.
    let (world, summary) = job_of(world, PULL, "@patchwright rebase");
    let said = outputs(&world);
    assert!(said.contains("conclusion = nothing_to_do") && !said.contains("\nbranch = "), "{said}");
    has(&summary, &["## Patchwright: acme/app#&#8203;8 — nothing to change\n\nAnswer: GITHUB/"]);
}

#[test]
fn repaired_checks_have_all_outputs_too() {
    let github = project()
        .pull(PULL, "Say more", "patchwright/issue-7", &[("README.md", "# calc\n\nMore.\n")])
        .by("patchwright-bot")
        .failing_check("test", "2026-11-21T10:00:01.0000000Z wrong\n");
    let world = TestWorld::new(github, fix());
    let event = world.github.workflow_run_event(PULL, "CI", "failure");
    let world = job(world, &event);
    let said = outputs(&world);
    for line in
        ["checks = passed", "branch = patchwright/issue-7", "pull-request-operation = updated"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
    has(&summary(&world), &["Pull request: GITHUB/acme/app/pull/8\n", "### Evidence"]);
}

#[test]
fn a_review_that_a_comment_asks_for_is_told_as_any_other() {
    let finding = json!({
        "path": "divide.sh", "quote": "  echo $(($1 / $2))", "title": "Division by zero",
        "body": "`divide 1 0` fails.", "priority": 1, "confidence": 0.9, "category": "bug",
    });
    let turns = vec![call("report_finding", finding), say("Adds `divide`, which fails for zero.")];
    let world = TestWorld::new(with_pull(), turns);
    let (world, summary) = job_of(world, PULL, "@patchwright review");
    let said = outputs(&world);
    for line in ["conclusion = done", "findings = 1", "coverage = 100", "checks = failed"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    has(&summary, &["## Patchwright: review of acme/app", "Division by zero"]);
}

#[test]
fn help_says_in_the_summary_what_it_answered() {
    let (world, summary) =
        job_of(TestWorld::new(with_pull(), Vec::new()), PULL, "@patchwright help");
    let said = outputs(&world);
    assert!(
        said.contains("conclusion = done\nchecks = none\nfinal-message = What can be"),
        "{said}"
    );
    has(&summary, &["Answer: GITHUB/acme/app/issues/8#issuecomment-", "`@patchwright fix …`"]);
}

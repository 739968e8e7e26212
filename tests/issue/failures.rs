//! Budgets, providers and GitHub that fail in the middle: what is kept, and resuming from there.

use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use super::{check, state};
use crate::resume::{meanwhile, wait_for};
use crate::support::git_repo::git;
use crate::support::github::{Fault, Kind};
use crate::support::model::{Turn, call, custom, fail, limited, say};
use crate::support::world::{PATCH, TestWorld, fix, github};

#[test]
#[expect(clippy::too_many_lines, reason = "whole texts")]
fn a_used_up_budget_opens_a_draft_that_the_next_run_completes() {
    let mut turns: Vec<Turn> = fix().into_iter().take(2).collect();
    turns.push(say("Add instead of subtracting\n\nLeft: a test of its own."));
    let world = TestWorld::new(github(), turns);
    let output = world.run(&["issue", "acme/app#7", "--max-turns", "2"]).expect(40);
    check(
        &output.text(),
        &expect![[r#"
            exit 40
            --- stdout
            Add instead of subtracting

            Left: a test of its own.
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
            · shell_command {"command":"sh test.sh"}
            · apply_patch calc.sh
            running the repository's checks on the change
            check on head: `sh ./test.sh` passed
            publishing
            pull request #8: GITHUB/acme/app/pull/8 (created)
            error: the limit on turns was reached

            hint: raise the limit, or split the work into smaller issues
            hint: the files of the run so far are in DIR/state/runs/RUN
        "#]],
    );
    check(
        &state(&world),
        &expect![[r#"
            pull request #8: Add instead of subtracting (patchwright/issue-7 → main, draft) by patchwright-bot
            comment by patchwright-bot:
            **Patchwright: stopped by a limit**

            Pull request: #8 (draft: 1 check passes)

            the limit on turns was reached

            - [ ] Find the bug *(in progress)*
            - [ ] Fix it

            < $0.01 · 3 turns · 3000 tokens in (1800 cached), 150 out · TIME

            <!-- patchwright:progress run=RUN v=1 -->

            <!-- patchwright:seal SEAL -->
            reaction eyes by patchwright-bot
            branch main
            branch patchwright/issue-7
        "#]],
    );
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
    assert!(world.result("plan.md").contains("Find the bug"));
    assert!(world.result("report.html").contains("calc.sh"));
    assert_eq!(world.model.requests().len(), 3);
    let [draft] = &world.github.pulls()[..] else { panic!("one draft") };
    assert!(draft.draft, "{draft:?}");
    for part in ["Refs #7", "stopped by a limit", "Left: a test of its own", "passed"] {
        assert!(draft.body.contains(part), "{part}: {}", draft.body);
    }
    assert!(!draft.body.contains("Fixes #7"), "{}", draft.body);
    world.model.add(fix());
    world.issue().expect(0);
    let [pull] = &world.github.pulls()[..] else { panic!("the same one") };
    assert_eq!((pull.number, pull.draft), (draft.number, false), "{pull:?}");
    assert!(pull.body.contains("Fixes #7") && !pull.body.contains("Refs #7"), "{}", pull.body);
    assert_eq!(world.runs().len(), 2);
}

#[test]
fn a_draft_that_a_person_made_stays_one() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let [pull] = &world.github.pulls()[..] else { panic!("one pull request") };
    world.github.set_draft(pull.number, true);
    let turns = [custom("apply_patch", PATCH), say("Add and say so\n\nThe sign was wrong.")];
    world.model.add(turns);
    world.issue().expect(0);
    let [again] = &world.github.pulls()[..] else { panic!("the same one") };
    assert!(again.draft && again.title == "Add and say so", "{again:?}");
}

#[test]
fn a_used_up_budget_without_a_change_publishes_nothing() {
    let turns = [fix().remove(0), say("Nothing was changed yet")];
    let world = TestWorld::new(github(), turns);
    world.run(&["issue", "acme/app#7", "--max-turns", "1"]).expect(40);
    assert_eq!(world.github.pulls(), []);
    let comments = world.github.comments(7);
    assert!(comments[0].body.contains("Nothing had been changed by then."), "{comments:?}");
}

#[test]
fn refused_requests_to_the_model_are_sent_once() {
    for (status, code) in [(401, "invalid_api_key"), (400, "invalid_request_error")] {
        let world = TestWorld::new(github(), [fail(status, code, "no such luck")]);
        let output = world.issue().expect(50);
        assert!(output.stderr.contains("no such luck"), "{}", output.text());
        assert_eq!(world.model.requests().len(), 1, "{status}");
        assert_eq!(world.github.pulls(), []);
        world.model.add(fix());
        world.issue().expect(0);
        assert_eq!(world.runs().len(), 1, "the same run was resumed");
        assert_eq!(world.github.comments(7).len(), 1);
    }
}

#[test]
fn a_provider_that_stays_down_ends_the_run_which_can_go_on() {
    let mut turns: Vec<Turn> = fix().into_iter().take(2).collect();
    turns.extend((0..8).map(|_| fail(500, "server_error", "down")));
    let world = TestWorld::new(github(), turns);
    let output = world.issue().expect(50);
    check(
        &output.text(),
        &expect![[r#"
            exit 50
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
            · shell_command {"command":"sh test.sh"}
            · apply_patch calc.sh
            retry 2 in TIME: down
            retry 3 in TIME: down
            retry 4 in TIME: down
            retry 5 in TIME: down
            retry 6 in TIME: down
            retry 7 in TIME: down
            retry 8 in TIME: down
            running the repository's checks on the change
            check on head: `sh ./test.sh` passed
            publishing
            pull request #8: GITHUB/acme/app/pull/8 (created)
            error: MODEL is unavailable: down

            hint: run it again later; the run continues where it stopped
            hint: the files of the run so far are in DIR/state/runs/RUN
        "#]],
    );
    let drafts = world.github.pulls();
    assert!(
        drafts.len() == 1 && drafts[0].draft && drafts[0].body.contains("Refs #7"),
        "{drafts:?}"
    );
    world.model.add(fix().into_iter().skip(2));
    world.issue().expect(0);
    assert_eq!(world.model.unused(), 0);
    assert_eq!((world.runs().len(), world.github.pulls().len()), (1, 1));
    assert!(!world.github.pulls()[0].draft);
    assert_eq!(world.github.comments(7).len(), 1);
}

#[test]
fn a_forbidden_pull_request_names_the_link_and_the_next_run_asks_no_model() {
    let world = TestWorld::new(
        github().token_of("github-actions[bot]").with(|repository| {
            repository.actions_may_open_pulls = false;
        }),
        fix(),
    );
    let output = world.issue().expect(60);
    check(
        &output.text(),
        &expect![[r#"
            exit 60
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
            · shell_command {"command":"sh test.sh"}
            · apply_patch calc.sh
            · shell_command {"command":"sh test.sh"}
            · update_plan {"plan":[{"step":"Find the bug","status":"completed"},{"step":"Fix it","status":"completed"}]}
            running the repository's checks on the change
            check on head: `sh ./test.sh` passed
            publishing
            error: not allowed to open a pull request in `acme/app`: GitHub Actions is not permitted to create or approve pull requests.

            hint: turn on the repository setting “Allow GitHub Actions to create and approve pull requests” (Settings, Actions, General)
            hint: the branch is pushed; open it by hand: GITHUB/acme/app/compare/main...patchwright/issue-7?expand=1
            hint: the work is done and kept: once that is put right, run the same command again, and it is published without asking the model again
        "#]],
    );
    check(
        &state(&world),
        &expect![[r#"
            comment by github-actions[bot]:
            **Patchwright could not do this**

            ```
            not allowed to open a pull request in `acme/app`: GitHub Actions is not permitted to create or approve pull requests.
            ```

            - turn on the repository setting “Allow GitHub Actions to create and approve pull requests” (Settings, Actions, General)
            - the branch is pushed; open it by hand: [GITHUB/acme/app/compare/main...patchwright/issue-7?expand=1](GITHUB/acme/app/compare/main...patchwright/issue-7?expand=1)
            - the work is done and kept: once that is put right, run the same command again, and it is published without asking the model again

            <!-- patchwright:progress run=RUN v=1 -->

            <!-- patchwright:seal SEAL -->
            reaction eyes by github-actions[bot]
            branch main
            branch patchwright/issue-7
        "#]],
    );
    world.github.change(|repository| repository.actions_may_open_pulls = true);
    world.issue().expect(0);
    assert_eq!(world.model.requests().len(), 5, "the change was there already");
    assert_eq!((world.github.pulls().len(), world.github.comments(7).len()), (1, 1));
}

#[test]
fn a_pull_request_whose_answer_was_lost_is_not_opened_twice() {
    for kind in [Kind::ErrorAfter(502), Kind::CutAfter] {
        let world = TestWorld::new(github().fault(Fault::once("POST", "/pulls", kind)), fix());
        world.issue().expect(0);
        assert_eq!(world.github.pulls().len(), 1);
    }
}

#[test]
fn github_that_stays_down_at_the_end_is_asked_again_by_the_next_run() {
    let down = Fault::once("POST", "/pulls", Kind::ErrorBefore(503)).times(100);
    let world = TestWorld::new(github().fault(down), fix());
    world.issue().expect(60);
    assert_eq!(world.github.pulls(), []);
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
    assert!(world.result("report.html").contains("calc.sh"));
    world.github.world().faults.clear();
    world.issue().expect(0);
    assert_eq!((world.model.requests().len(), world.github.pulls().len()), (5, 1));
}

/// A proxy before the API takes no more.
#[test]
fn what_is_too_large_for_the_api_is_told_as_that() {
    let large = Fault::once("POST", "/pulls", Kind::ErrorBefore(413));
    let output = TestWorld::new(github().fault(large), fix()).issue().expect(60);
    for part in
        ["cannot open a pull request in `acme/app`", "(status 413)", "`client_max_body_size`"]
    {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
}

#[test]
fn a_comment_that_may_not_be_written_ends_the_run_before_anything_is_spent() {
    let world = TestWorld::new(github().token_lacks("issues"), fix());
    let output = world.issue().expect(60);
    check(
        &output.text(),
        &expect![[r#"
        exit 60
        --- stderr
        run RUN
        no reaction: not allowed to react to `acme/app#7`: Resource not accessible by personal access token
        error: not allowed to comment on `acme/app#7`: Resource not accessible by personal access token

        hint: give the token `issues: write`
    "#]],
    );
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn an_issue_that_was_closed_meanwhile_gets_no_pull_request() {
    let world = TestWorld::new(github(), slow_fix());
    let output = meanwhile(&world, &["issue", "acme/app#7"], || {
        world.github.change(|repository| repository.issues.get_mut(&7).unwrap().open = false);
    });
    assert_eq!(output.code, 10, "{}", output.text());
    assert!(output.stderr.contains("was closed while it was worked on"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
}

#[test]
fn what_was_made_for_a_repository_is_not_given_to_another_one_that_took_its_name() {
    for has_the_base in [false, true] {
        let world = TestWorld::new(github(), slow_fix());
        let output = meanwhile(&world, &["issue", "acme/app#7"], || {
            world.github.rename("app2");
            world.github.take_over("acme/app");
            if has_the_base {
                let (ours, theirs) = (world.github.of("acme/app2"), world.github.of("acme/app"));
                git(&ours.path(), &["push", "--quiet", theirs.path().to_str().unwrap(), "main"]);
            }
        });
        assert_eq!(output.code, 30, "{}", output.text());
        let said = "another repository has taken the name `acme/app` since the work began";
        assert!(output.stderr.contains(said), "{}", output.text());
        for name in ["acme/app", "acme/app2"] {
            let of = world.github.of(name);
            assert!(of.pulls().is_empty() && of.branches().len() <= 1, "{name}");
        }
        assert!(world.github.of("acme/app").comments(7).is_empty(), "nor a comment");
        assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
    }
}

#[test]
fn an_issue_that_was_locked_before_or_meanwhile_gets_no_pull_request() {
    let world = TestWorld::new(github().locked(), Vec::new());
    let output = world.issue().expect(10);
    assert!(output.stderr.contains("issue acme/app#7 is locked"), "{}", output.text());
    assert_eq!((world.model.requests().len(), world.github.writes().len()), (0, 0));

    let world = TestWorld::new(github(), slow_fix());
    let output =
        meanwhile(&world, &["issue", "acme/app#7"], || world.github.set_locked(7, true)).expect(10);
    assert!(output.stderr.contains("was locked while it was worked on"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
}

/// The repair, after a command that takes a second.
fn slow_fix() -> Vec<Turn> {
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 1"})));
    turns
}

/// The comment must not say for good that the run is starting.
#[test]
fn a_run_that_ends_right_after_its_comment_was_posted_says_so_there() {
    // Late enough for the next request to be refused.
    let late = Fault::once("POST", "/issues/7/comments", Kind::Delay(Duration::from_secs(2)));
    let world = TestWorld::new(github().fault(late), fix());
    let child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| !world.github.comments(7).is_empty());
    world.github.fault(Fault::once("GET", "/issues/7/comments", Kind::ErrorBefore(404)));
    let output = world.wait(child);
    assert_eq!(output.code, 60, "{}", output.text());
    let comments = world.github.comments(7);
    assert_eq!(comments.len(), 1);
    assert!(comments[0].body.contains("could not do this"), "{}", comments[0].body);
    assert!(world.model.requests().is_empty(), "{}", output.text());
}

#[test]
fn an_issue_that_is_deleted_or_moved_is_nothing_to_do() {
    let deleted = github().with_issue(|issue| issue.deleted = true);
    let world = TestWorld::new(deleted, fix());
    let output = world.issue().expect(10);
    let said =
        "error: cannot read issue `acme/app#7`: it was deleted, or issues are turned off there";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(!output.stderr.contains("check the number"), "{}", output.text());
    let other = github().repository("acme/other", &[("a", "b")]);
    let world = TestWorld::new(other.issue("acme/other", 1, "Moved", "Here."), fix());
    let id = world.github.world().repositories[1].id;
    world.github.change(|here| here.issues.get_mut(&7).unwrap().transferred_to = Some((id, 1)));
    let output = world.issue().expect(10);
    for part in
        ["was transferred to `acme/other#1`", "hint: run the same command for `acme/other#1`"]
    {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert_eq!(world.github.writes(), Vec::<String>::new());
}

#[test]
fn what_is_made_for_an_issue_that_is_deleted_meanwhile_is_kept_and_not_published() {
    let mut turns = fix();
    turns.insert(0, limited(2));
    let world = TestWorld::new(github(), turns);
    let child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| !world.model.requests().is_empty());
    world.github.change(|here| here.issues.get_mut(&7).unwrap().deleted = true);
    let output = world.wait(child).expect(10);
    assert!(output.stderr.contains("was deleted, or issues are turned off"), "{}", output.text());
    assert!(world.github.pulls().is_empty());
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
}

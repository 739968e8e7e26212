//! `plan` and `approve`: exactly what was approved is done, or nothing.

use expect_test::expect;

use super::{PULL, answers, check, comment_on, project, say_on_pull, with_pull};
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{TestWorld, fix};

const PLAN: &str = "Add in `add`\n\n1. In `calc.sh`, change the sign. PLAN-STEP\n2. Run `test.sh`.";

fn issue() -> GitHub {
    project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita")
}

/// The hash in the newest plan.
fn hash(world: &TestWorld, number: u64) -> String {
    let comments = world.github.comments(number);
    let body = comments.iter().rev().find(|said| said.body.contains("patchwright:plan ")).unwrap();
    let (_, rest) = body.body.split_once("hash=").unwrap();
    rest[..12].to_owned()
}

#[test]
fn a_plan_is_posted_with_its_hash_and_carried_out_when_approved() {
    let world = TestWorld::new(issue(), vec![say(PLAN)]);
    comment_on(&world, 7, "rita", "@patchwright plan").expect(0);
    let hash = hash(&world, 7);
    check(
        &answers(&world, 7)[0].replace(&hash, "HASH"),
        &expect![[r#"
            **Plan `HASH`**, made from `main` at `caa6df6a58`

            <!-- patchwright:plan-begins v=1 -->

            Add in `add`

            1. In `calc.sh`, change the sign. PLAN-STEP
            2. Run `test.sh`.

            <!-- patchwright:plan-ends v=1 -->

            To have exactly this done, write `@patchwright approve HASH` in a comment. If the description or the code changes before that, ask for a new plan.

            <sub>< $0.01 · 1 turn · 1000 tokens in (600 cached), 50 out · TIME</sub>

            <!-- patchwright:plan hash=HASH text=85bd110800aa commit=SHA v=1 -->

            <!-- patchwright:answer-comment-1008 v=1 -->

            <!-- patchwright:seal SEAL -->
        "#]],
    );
    assert_eq!(world.github.branches().len(), 1);
    world.model.add(fix());
    comment_on(&world, 7, "rita", &format!("@patchwright approve {hash}")).expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    let opening = String::from_utf8_lossy(&world.model.requests()[1].raw).into_owned();
    assert!(opening.contains("Carry out exactly this plan"), "{opening}");
    assert!(opening.contains("PLAN-STEP"), "{opening}");
}

#[test]
fn an_approved_plan_on_a_pull_request_becomes_a_commit_on_its_branch() {
    let world = TestWorld::new(with_pull(), vec![say(PLAN)]);
    say_on_pull(&world, "@patchwright plan the repair").expect(0);
    let before = world.github.head_of(PULL);
    world.model.add(fix());
    let hash = hash(&world, PULL);
    say_on_pull(&world, &format!("@patchwright approve {}", &hash[..7])).expect(0);
    assert_ne!(world.github.head_of(PULL), before);
    assert_eq!(world.github.pulls().len(), 1);
    // A second approval comes too late: the branch has moved.
    let output = say_on_pull(&world, &format!("@patchwright approve {hash}")).expect(30);
    assert!(output.stdout.contains("was not carried out"), "{}", output.text());
}

#[test]
fn a_plan_for_something_that_has_changed_is_not_carried_out() {
    type Change = fn(&TestWorld);
    let cases: [(Change, &str); 3] = [
        (
            |world| {
                world.github.change(|repository| {
                    repository.issues.get_mut(&7).unwrap().body = Some("Delete it all.".to_owned());
                });
            },
            "the title or description of the issue",
        ),
        (
            |world| {
                world.github.push("main", &[("NEWS.md", "new\n")]);
            },
            "the branch main, which is at",
        ),
        (
            |world| {
                let comment = world.github.comments(7).pop().unwrap();
                world.github.edit_comment(comment.id, &comment.body.replace("sign", "file"));
            },
            "the text of the plan itself",
        ),
    ];
    for (change, what) in cases {
        let world = TestWorld::new(issue(), vec![say(PLAN)]);
        comment_on(&world, 7, "rita", "@patchwright plan").expect(0);
        let hash = hash(&world, 7);
        change(&world);
        comment_on(&world, 7, "rita", &format!("@patchwright approve {hash}")).expect(30);
        assert_eq!(world.model.requests().len(), 1, "{what}");
        assert_eq!(world.github.pulls().len(), 0, "{what}");
        let said = answers(&world, 7).pop().unwrap();
        assert!(said.contains(what) && said.contains("`@patchwright plan`"), "{what}: {said}");
    }
}

#[test]
fn a_plan_that_somebody_else_posted_in_our_shape_is_not_believed() {
    let world = TestWorld::new(issue(), vec![say(PLAN)]);
    comment_on(&world, 7, "rita", "@patchwright plan").expect(0);
    let hash = hash(&world, 7);
    let ours = world.github.comments(7).pop().unwrap();
    world.github.delete_comment(ours.id);
    world.github.post_comment(7, "mallory", &ours.body);
    comment_on(&world, 7, "rita", &format!("@patchwright approve {hash}")).expect(10);
    assert_eq!((world.model.requests().len(), world.github.pulls().len()), (1, 0));
    assert!(answers(&world, 7).pop().unwrap().contains("There is no plan of mine here"));
}

#[test]
fn unknown_and_missing_hashes_are_answered_with_the_plans_there_are() {
    let world = TestWorld::new(issue(), vec![say(PLAN)]);
    comment_on(&world, 7, "rita", "@patchwright plan").expect(0);
    let hash = hash(&world, 7);
    for words in ["@patchwright approve 0123456789ab", "@patchwright approve"] {
        comment_on(&world, 7, "rita", words).expect(10);
        let said = answers(&world, 7).pop().unwrap();
        assert!(said.contains(&hash), "{words}: {said}");
    }
    assert_eq!(world.model.requests().len(), 1);
}

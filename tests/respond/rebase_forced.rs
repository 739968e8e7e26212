//! `rebase` where pushes by force are the matter: the base branch was pushed to by force, or the branch of the pull request
//! may not be.

use super::rebase::{BOTH, BRANCH, MOVED, on_branch, resolves, tip};
use super::{PULL, answers, project, say_on_pull};
use crate::support::git_http::git;
use crate::support::github::GitHub;
use crate::support::world::{TestWorld, fix};

fn with_issue() -> GitHub {
    project().issue("acme/app", 7, "add subtracts", "It prints 0.").by("rita")
}

fn has(world: &TestWorld, branch: &str, path: &str) -> bool {
    let path_of = world.github.repository_path();
    !git(&path_of, &["ls-tree", "--name-only", branch, "--", path]).is_empty()
}

/// A pull request of ours on top of a commit that `main` has taken back since. Returns that commit.
fn on_what_was_taken_back() -> (TestWorld, String) {
    let world = TestWorld::new(with_issue(), fix());
    let before = tip(&world, "main");
    let taken_back = world.github.push("main", &[("keys.txt", "should not be here\n")]);
    world.run(&["issue", "acme/app#7"]).expect(0);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), taken_back);
    git(&world.github.repository_path(), &["update-ref", "refs/heads/main", &before]);
    (world, taken_back)
}

#[test]
fn what_the_base_branch_has_taken_back_does_not_stay_on_the_branch() {
    let said = "`main` had these commits when the pull request was made, and has them no more";
    // Nothing has come in its place: the branch is above the base, and not where it should be.
    let (world, taken_back) = on_what_was_taken_back();
    let asked = world.model.requests().len();
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), tip(&world, "main"));
    assert!(!has(&world, BRANCH, "keys.txt"));
    assert!(on_branch(&world, "calc.sh").contains("$1 + $2"));
    assert_eq!(world.model.requests().len(), asked);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains(said) && answer.contains(&taken_back[..10]), "{answer}");
    // Another commit has, which conflicts with ours.
    let (world, _) = on_what_was_taken_back();
    world.github.push("main", &[("calc.sh", MOVED)]);
    world.model.add(resolves(BOTH, "Keep the remark\n\nBoth."));
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), tip(&world, "main"));
    assert!(!has(&world, BRANCH, "keys.txt"));
    assert_eq!(on_branch(&world, "calc.sh"), BOTH);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains(said), "{answer}");
}

/// They may be of the branch that the pull request went to before it went to `main`: nobody can tell.
#[test]
fn what_is_not_known_to_have_been_on_the_base_branch_stays_and_is_named() {
    let (world, foreign) = on_what_was_taken_back();
    let main = tip(&world, "main");
    world.github.change_pull(PULL, |pull| pull.base_sha.clone_from(&main));
    let head = world.github.head_of(PULL);
    say_on_pull(&world, "@patchwright rebase").expect(10);
    assert_eq!(world.github.head_of(PULL), head);
    let answer = answers(&world, PULL).pop().unwrap();
    let command = format!("`git rebase --onto main {} {BRANCH}`", &foreign[..10]);
    for text in ["which I did not make and `main` does not have", &foreign[..10], &command] {
        assert!(answer.contains(text), "{text}: {answer}");
    }
    // What others have committed on top is not made again, so what is below it stays as well.
    let (world, _) = on_what_was_taken_back();
    let theirs = world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    world.github.push("main", &[("other.txt", "x\n")]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), theirs);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains("They stay on the branch"), "{answer}");
}

#[test]
fn where_the_branch_may_not_be_rewritten_no_model_is_paid_for_a_conflict() {
    let world = TestWorld::new(with_issue().rule("non_fast_forward", None), fix());
    world.run(&["issue", "acme/app#7"]).expect(0);
    let (asked, head) = (world.model.requests().len(), world.github.head_of(PULL));
    world.github.push("main", &[("calc.sh", MOVED)]);
    let output = say_on_pull(&world, "@patchwright rebase");
    let said = format!("a rule of `acme` does not let the branch `{BRANCH}` be rewritten");
    assert!(output.text().contains(&said), "{}", output.text());
    assert!(output.text().contains("merge the base branch into this one"), "{}", output.text());
    assert_eq!((world.model.requests().len(), world.github.head_of(PULL)), (asked, head));
    // The base branch merged into it is a push like any other.
    let theirs = world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    world.model.add(resolves(BOTH, "Keep the remark\n\nBoth."));
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), theirs);
    assert_eq!(on_branch(&world, "calc.sh"), BOTH);
}

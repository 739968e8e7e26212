//! Approvals: what the model's verdict has to be for one, and what takes one back.

use super::{adds, github, ours, reviewer, sticky, table, verdicts};
use crate::support::git_repo::{file, git};
use crate::support::github::GitHub;
use crate::support::model::{Turn, refuse, say};
use crate::support::world::{Output, TestWorld};

fn correct() -> Vec<Turn> {
    vec![say("It adds functions.\n\nVerdict: correct")]
}

fn needs_work() -> Turn {
    say("It adds functions; line 3 has a typo.\n\nVerdict: needs work")
}

fn world(github: GitHub, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let world = TestWorld::new(github, turns);
    let rules = "review:\n  event: approve\n  skip-labels: [wip]\n";
    fs_err::write(world.path("config.yml"), rules).unwrap();
    world
}

fn review(world: &TestWorld, args: &[&str]) -> Output {
    let config = world.path("config.yml").display().to_string();
    world.run(&[&["review", "acme/app#3", "--config", &config], args].concat())
}

fn states(world: &TestWorld) -> Vec<String> {
    ours(world).into_iter().map(|review| review.state).collect()
}

/// A pull request that we have approved, and what the model says in later reviews.
fn approved(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let world = world(github(), correct().into_iter().chain(turns));
    review(&world, &[]).expect(0);
    assert_eq!(states(&world), ["APPROVED"]);
    world
}

#[test]
fn a_verdict_without_findings_is_asked_about_once_and_is_no_approval() {
    let world = world(github(), [needs_work(), needs_work()]);
    let output = review(&world, &[]).expect(0);
    assert!(world.told().contains("nothing that you have reported is open"), "{}", world.told());
    assert_eq!(world.model.requests().len(), 2);
    assert_eq!(states(&world), [""; 0]);
    // Between success and failure.
    assert_eq!(verdicts(&world), ["pending"]);
    let sticky = sticky(&world);
    let heading =
        "### Patchwright review: no open findings, but the model says that it needs work\n";
    assert!(sticky.starts_with(heading), "{sticky}");
    assert!(output.stdout.contains("Verdict: needs work"), "{}", output.stdout);
}

#[test]
fn a_check_says_so_too_and_is_neutral() {
    let world = world(github().actions_token(), [needs_work(), needs_work()]);
    review(&world, &[]).expect(0);
    let check = world.github.check_runs().pop().unwrap();
    assert_eq!(check.conclusion.as_deref(), Some("neutral"));
    let title = "No findings, but the model says that it needs work";
    assert_eq!(check.title.as_deref(), Some(title));
}

#[test]
fn what_needs_work_is_reported_when_it_is_asked_for() {
    let turns = [vec![needs_work()], reviewer([adds(3, 2)])].concat();
    let world = world(github(), turns);
    review(&world, &[]).expect(0);
    assert_eq!(table(&world), ["new: Adds 3"]);
    // The words that came then have no verdict.
    assert!(sticky(&world).contains("line 3 has a typo"), "{}", sticky(&world));
    assert_eq!(states(&world), ["COMMENTED"]);
}

#[test]
fn a_missing_verdict_is_asked_for_before_an_approval_and_only_then() {
    let without = || say("It adds functions.");
    let asked = world(github(), [vec![without()], correct()].concat());
    review(&asked, &[]).expect(0);
    assert!(asked.told().contains("has no line `Verdict: correct`"), "{}", asked.told());
    assert_eq!(states(&asked), ["APPROVED"]);
    let never = world(github(), [without(), say("Verdict: fine")]);
    review(&never, &[]).expect(0);
    assert_eq!(states(&never), [""; 0]);
    assert_eq!(verdicts(&never), ["success"]);
    let comments = TestWorld::new(github(), [without()]);
    comments.run(&["review", "acme/app#3"]).expect(0);
    assert_eq!(comments.model.requests().len(), 1);
}

#[test]
fn an_approval_is_taken_back_when_something_is_found_and_given_again_when_it_is_fixed() {
    let world = approved([reviewer([adds(3, 2)]), correct()].concat());
    // At the same commit.
    review(&world, &["--full"]).expect(0);
    assert_eq!(states(&world), ["DISMISSED", "COMMENTED"]);
    let fixed = "def f3(x):\n    return 3 + x\n";
    world.github.push_to_pull(3, &[("calc.py", fixed)]);
    review(&world, &[]).expect(0);
    assert_eq!(states(&world), ["DISMISSED", "COMMENTED", "APPROVED"]);
}

#[test]
fn an_approval_does_not_stand_over_what_was_not_read() {
    let world = approved(correct());
    let large = "a line\n".repeat(21_000);
    world.github.push_to_pull(3, &[("evil.py", &large), ("calc.py", "import evil\n")]);
    let output = review(&world, &[]).expect(20);
    // It is not shown, and the model knows where to look.
    assert!(world.told().contains("evil.py: not under review, too large to be shown"));
    assert!(output.stderr.contains("is taken back: not all of it was read"), "{}", output.stderr);
    assert_eq!(states(&world), ["DISMISSED"]);
}

#[test]
fn nor_over_a_commit_whose_review_fails_or_is_kept_away() {
    let failed = approved([refuse("No.")]);
    failed.github.push_to_pull(3, &[("calc.py", "import evil\n")]);
    assert_ne!(review(&failed, &[]).code, 0);
    assert_eq!(states(&failed), ["DISMISSED"]);
    let labelled = approved([]);
    review(&labelled, &[]).expect(10);
    assert_eq!(states(&labelled), ["APPROVED"], "nothing is new");
    labelled.github.push_to_pull(3, &[("calc.py", "import evil\n")]);
    labelled.github.change(|it| it.issues.get_mut(&3).unwrap().labels.push("wip".to_owned()));
    review(&labelled, &[]).expect(10);
    assert_eq!(states(&labelled), ["DISMISSED"]);
}

#[test]
fn an_approval_outlives_a_merge_of_the_base_branch_but_no_file_that_nobody_can_read() {
    let world = approved([]);
    world.github.push("main", &[("more.txt", "more\n")]);
    let path = world.github.repository_path();
    let tree = git(&path, &["merge-tree", "--write-tree", "feature", "main"]);
    let args = ["commit-tree", tree.trim(), "-m", "Merge", "-p", "feature", "-p", "main"];
    world.github.reset_pull_to(3, git(&path, &args).trim());
    review(&world, &[]).expect(10);
    assert_eq!(states(&world), ["APPROVED"]);
    world.github.push_entries_to_pull(3, &[file("tool.bin", vec![0, 1, 2, 3, 0xff])]);
    review(&world, &[]).expect(10);
    assert_eq!(states(&world), ["DISMISSED"]);
}

//! What a pull request of a campaign gets beside its text: the people, the milestone and the merge that one of a single
//! issue gets, whatever GitHub says to them.

use std::time::Duration;

use patchwright_forge::Role;
use patchwright_types::campaign::{Target, TargetState};

use super::{Bench, REPOSITORY, campaign};
use crate::batch_run::{batch, repositories, within, write};
use crate::support::git_http::git;
use crate::support::github::{Fault, GitHub, Kind};

const OWNERS: &str = "* @nobody\n/README.md @reader @ann @acme/docs @bea @cleo\n";
const WANTS: &str = "publish:
  code-owners: 3
  assignees: ['@ann', stranger]
  milestone: spring
";

fn owned() -> GitHub {
    let files = [("README.md", "teh\n"), (".github/CODEOWNERS", OWNERS)];
    GitHub::new()
        .repository(REPOSITORY, &files)
        .user("rita", Role::Write)
        .user("reader", Role::Read)
        .user("ann", Role::Write)
        .user("bea", Role::Maintain)
        .user("cleo", Role::Admin)
        .milestone(3, "Spring")
}

fn reviewers(bench: &Bench) -> Vec<String> {
    let mut names = bench.github.pulls()[0].reviewers.clone();
    names.sort();
    names
}

async fn until_settled(bench: &Bench, id: i64) -> Target {
    loop {
        bench.publish_all().await;
        let target = bench.fleet.store.target(id).await.unwrap();
        if target.state.is_settled() {
            return target;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn owners_assignees_and_the_milestone_are_those_of_the_campaign() {
    let github = owned().with(|it| it.governance.teams.extend(["acme/docs".to_owned()]));
    let bench = Bench::new(github).await;
    let target = bench.ready(&campaign(WANTS), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
    // Nobody who may not write, and no more owners than the campaign says.
    assert_eq!(reviewers(&bench), ["acme/docs", "ann", "bea", "rita"]);
    let governance = bench.github.governance();
    assert_eq!(governance.assignees[&1], ["ann"]);
    assert_eq!(governance.milestone_of[&1], 3);
    assert_eq!(target.reason.as_deref(), Some("could not be assigned: stranger"));
    // Each is a write at the token's pace: push, pull request, label, reviewers, assignees, milestone.
    assert_eq!(target.writes, 6);
}

#[tokio::test]
async fn what_github_refuses_is_said_and_the_pull_request_is_good_without_it() {
    // The team may not look, and the milestone was closed.
    let github = owned().with(|it| it.governance.milestones.clear());
    let bench = Bench::new(github).await;
    let wants = format!("{WANTS}  auto-merge: true\n");
    let target = bench.ready(&campaign(&wants), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open);
    assert_eq!(reviewers(&bench), ["ann", "bea", "rita"]);
    let reason = target.reason.unwrap();
    for said in [
        "could not be asked for a review: acme/docs",
        "could not be assigned: stranger",
        "there is no open milestone `spring`",
        "auto-merge was left off: nothing says how its checks went",
    ] {
        assert!(reason.contains(said), "{reason}");
    }
    assert!(bench.github.governance().auto_merge.is_empty());
}

#[tokio::test]
async fn an_attempt_that_ended_after_the_pull_request_was_opened_is_completed() {
    for path in ["/labels", "/requested_reviewers", "/assignees"] {
        let bench = Bench::new(owned()).await;
        let target = bench.ready(&campaign(WANTS), "the\n").await;
        let limit = Kind::Primary { reset_in: 3_000, window: Duration::from_secs(1) };
        bench.github.fault(Fault::once("POST", path, limit));
        let limited = bench.publish(&target).await;
        assert_eq!(limited.state, TargetState::Ready, "{path}");
        assert_eq!(bench.github.pulls().len(), 1, "{path}: it was opened");
        let target = until_settled(&bench, target.id).await;
        assert_eq!((target.state, bench.github.pulls().len()), (TargetState::Open, 1), "{path}");
        assert_eq!(bench.github.pulls()[0].labels, ["typo"], "{path}");
        assert_eq!(reviewers(&bench), ["ann", "bea", "rita"], "{path}");
        let governance = bench.github.governance();
        assert_eq!(governance.assignees[&1], ["ann"], "{path}");
        assert_eq!(governance.milestone_of[&1], 3, "{path}");
    }
}

const MERGES: &str = "name: sums
select:
  organizations: [acme]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
publish:
  labels: [bug]
  auto-merge: true
  merge-method: squash
";

#[test]
fn github_merges_what_has_passed_its_checks_where_it_may() {
    // What GitHub was asked for, the commit on the branch, and what was said.
    let merges = |github: GitHub, verify: &str| {
        let world = within(github, Vec::new());
        write(&world, &format!("{MERGES}{verify}"));
        let output = batch(&world, &["run"]).expect(0);
        let repository =
            world.github.change(|it| (it.path.clone(), it.governance.auto_merge.clone()));
        let (path, merges) = repository;
        let tip = git(&path, &["rev-parse", "patchwright/sums"]).trim().to_owned();
        (merges.get(&1).cloned(), tip, output.text())
    };
    let checked = "verify: [sh test.sh]\n";
    let (merge, tip, said) = merges(repositories(1), checked);
    assert_eq!(merge, Some(("SQUASH".to_owned(), tip)), "{said}");
    let draft = format!("  published: [{{repositories: '*/*', as: draft}}]\n{checked}");
    let (merge, _, said) = merges(repositories(1), &draft);
    assert!(merge.is_none() && said.contains("left off: it is a draft"), "{said}");
    let forbidden = repositories(1).with(|it| it.governance.no_auto_merge = true);
    let (merge, _, said) = merges(forbidden, checked);
    assert!(merge.is_none() && said.contains("does not allow auto-merge"), "{said}");
}

#[tokio::test]
async fn a_file_of_owners_that_is_too_large_to_be_read_fails_nothing() {
    let large = "# nobody\n".repeat((65 << 20) / 9);
    let github = owned().with(|it| it.governance.teams.clear());
    let bench = Bench::new(github).await;
    bench.github.push("main", &[(".github/CODEOWNERS", &large)]);
    let target = bench.ready(&campaign(WANTS), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
    assert_eq!(reviewers(&bench), ["rita"]);
}

#[tokio::test]
async fn what_is_brought_up_to_date_for_people_to_look_at_is_not_merged_by_github() {
    let bench = Bench::new(owned()).await;
    let wants = format!("{WANTS}  auto-merge: true\n");
    let target = bench.ready(&campaign(&wants), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
    // As an earlier run of the same campaign had it, whose checks had passed.
    let head = bench.github.pulls()[0].head_sha.clone();
    let before = head.clone();
    bench.github.change(|it| it.governance.auto_merge.insert(1, ("SQUASH".to_owned(), head)));
    let again = bench.ready(&campaign(&format!("verify: [make]\n{wants}")), "The\n").await;
    let again = bench.publish(&again).await;
    assert_eq!(again.state, TargetState::Open, "{:?}", again.reason);
    assert_eq!(bench.github.pulls().len(), 1);
    let governance = bench.github.governance();
    assert!(governance.auto_merge.is_empty());
    // It was off before the new commit was there.
    assert_eq!(governance.merges_left, [(1, before)]);
}

#[test]
fn a_plan_says_what_each_pull_request_will_get() {
    let world = within(repositories(2), Vec::new());
    let wants = "  code-owners: 2\n  reviewers: [rita]\n  assignees: [ann]\n  milestone: Spring\n";
    write(&world, &format!("{MERGES}{wants}"));
    let output = world.run(&["batch", "plan", "campaign.yml"]).expect(0);
    let said = "each pull request: label bug; reviews by rita and up to 2 owners of the changed files; \
                assigned to ann; milestone Spring; merged by GitHub (squash) once its checks have passed";
    assert!(output.stdout.contains(said), "{}", output.text());
    assert!(
        world.github.writes().iter().all(|write| write.contains("/graphql")),
        "nothing was written"
    );
}

//! What is there already: branches and pull requests, ours and other people's, before and after.

use patchwright_types::campaign::{ErrorClass, JobKind, Target, TargetState};

use super::{BRANCH, Bench, campaign, world};
use crate::support::git_http::git;
use crate::support::github::{Fault, Kind};

/// State, class, number of pull requests, whether the branch is ours, and the reason.
async fn said(bench: &Bench, target: &Target) -> String {
    let class = target.class.map(|class| format!(" {}", class.word())).unwrap_or_default();
    let ours = bench.fleet.store.changeset(target.id).await.unwrap().unwrap().commit;
    let branch = match bench.tip(BRANCH) {
        None => "no branch",
        Some(tip) if tip == ours => "our commit",
        Some(_) => "another commit",
    };
    let pulls: Vec<String> = bench
        .github
        .pulls()
        .into_iter()
        .filter(|pull| pull.head == BRANCH)
        .map(|pull| format!("#{}{}", pull.number, if pull.open { "" } else { " closed" }))
        .collect();
    format!("{}{class}, {branch}, pulls {pulls:?}", target.state.word())
}

#[tokio::test]
async fn a_stored_change_becomes_one_pull_request() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(said(&bench, &target).await, "open, our commit, pulls [\"#1\"]");
    assert_eq!((target.pull_request, target.cost_usd, target.tokens), (Some(1), 0.25, 1_000));
    let pull = &bench.github.pulls()[0];
    assert_eq!(
        target.url.as_deref(),
        Some(&*format!("{}/acme/app/pull/1", bench.github.server_url()))
    );
    assert_eq!((&*pull.title, &*pull.base, pull.draft), ("Fix a typo", "main", false));
    assert_eq!(
        (&*pull.labels, &*pull.reviewers),
        (&["typo".to_owned()][..], &["rita".to_owned()][..])
    );
    // The job is over: nothing is left to claim.
    assert!(bench.claim(JobKind::Publish).await.is_none());
}

#[tokio::test]
async fn a_change_that_waited_says_which_base_it_was_checked_on() {
    let changed = [("other.txt", "moved\n"), ("README.md", "tea\n")];
    for (moved, says_so, conflicts) in
        [(&[][..], false, false), (&changed[..1], true, false), (&changed[1..], true, true)]
    {
        let bench = Bench::new(world()).await;
        let target = bench.ready(&campaign(""), "the\n").await;
        if !moved.is_empty() {
            bench.github.push("main", moved);
        }
        let target = bench.publish(&target).await;
        assert_eq!(target.state, TargetState::Open, "{moved:?}: {:?}", target.reason);
        let body = bench.github.pulls()[0].body.clone();
        let (base, tip) = (&target.base_sha[..10], &bench.tip("main").unwrap()[..10]);
        let said = format!("was made on `main` at {base}, and `main` is at {tip} by now");
        assert_eq!(body.contains(&said), says_so, "{moved:?}: {body}");
        assert_eq!(body.contains("conflicts with it"), conflicts, "{moved:?}: {body}");
        assert_eq!(body.contains("was not checked"), says_so && !conflicts, "{body}");
    }
}

#[tokio::test]
async fn our_own_branch_is_replaced_or_left_as_the_campaign_says() {
    for (more, wanted) in [
        ("", "open, our commit, pulls [\"#1\"]"),
        ("publish:\n  conflict: skip\n", "skipped, another commit, pulls []"),
    ] {
        let bench = Bench::new(world()).await;
        let base = bench.tip("main").unwrap();
        let first = bench.our_commit(BRANCH, &base, "th\n");
        bench.our_commit(BRANCH, &first, "thee\n");
        let target = bench.ready(&campaign(more), "the\n").await;
        let target = bench.publish(&target).await;
        assert_eq!(said(&bench, &target).await, wanted, "{more}");
    }
}

#[tokio::test]
async fn our_branch_on_an_older_base_is_replaced() {
    let bench = Bench::new(world()).await;
    let base = bench.tip("main").unwrap();
    bench.our_commit(BRANCH, &base, "th\n");
    bench.github.push("main", &[("other.txt", "moved\n")]);
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(said(&bench, &target).await, "open, our commit, pulls [\"#1\"]");
}

/// A rule takes nothing but what is added: so the new change is added, and the base where it has moved.
#[tokio::test]
async fn our_branch_that_may_not_be_rewritten_is_added_to() {
    let bench = Bench::new(world()).await;
    let first = bench.ready(&campaign(""), "the\n").await;
    bench.publish(&first).await;
    bench.github.git().hook("acme/app", "pre-receive", NO_REWRITING);
    let path = bench.github.repository_path();
    let parents = |commit: &str| {
        let listed = git(&path, &["rev-list", "--parents", "-n", "1", commit]);
        listed.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    for (content, moves, more) in
        [("then\n", false, "verify: [make]\n"), ("they\n", true, "verify: [make, test]\n")]
    {
        let before = bench.tip(BRANCH).unwrap();
        if moves {
            bench.github.push("main", &[("other.txt", "new\n")]);
        }
        let target = bench.ready(&campaign(more), content).await;
        let target = bench.publish(&target).await;
        assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
        let tip = bench.tip(BRANCH).unwrap();
        assert_eq!(git(&path, &["show", &format!("{tip}:README.md")]), content);
        let main = git(&path, &["rev-parse", "main"]).trim().to_owned();
        let wanted = if moves { vec![before, main] } else { vec![before] };
        assert_eq!(parents(&tip), wanted);
        assert_eq!(git(&path, &["diff", "--name-only", &format!("main...{tip}")]), "README.md\n");
    }
    assert_eq!(bench.github.pulls().len(), 1);
}

const NO_REWRITING: &str = "#!/bin/sh\nwhile read old new ref; do\n\
    case \"$old\" in 0000000*) continue;; esac\n\
    git merge-base --is-ancestor \"$old\" \"$new\" && continue\n\
    echo \"error: GH013: Repository rule violations found for $ref.\" >&2\n\
    echo '- Cannot force-push to this branch' >&2\n\
    exit 1\ndone\n";

#[tokio::test]
async fn a_branch_with_a_persons_commit_anywhere_is_never_touched() {
    for on_top in [false, true] {
        let bench = Bench::new(world()).await;
        let base = bench.tip("main").unwrap();
        if on_top {
            bench.our_commit(BRANCH, &base, "th\n");
            bench.github.push(BRANCH, &[("README.md", "mine\n")]);
        } else {
            // Ours is the last one: looking at the tip alone would not do.
            bench.our_commit(BRANCH, &base, "th\n");
            let person = bench.github.push(BRANCH, &[("mine.txt", "mine\n")]);
            bench.our_commit(BRANCH, &person, "thee\n");
        }
        let before = bench.tip(BRANCH);
        let target = bench.ready(&campaign(""), "the\n").await;
        let target = bench.publish(&target).await;
        assert_eq!(said(&bench, &target).await, "failed conflict, another commit, pulls []");
        assert_eq!(bench.tip(BRANCH), before);
        assert!(target.reason.unwrap().contains("commits of other people"));
    }
}

#[tokio::test]
async fn a_pull_request_of_somebody_else_from_the_branch_is_left_alone() {
    let github = world().pull(3, "Mine", BRANCH, &[("README.md", "mine\n")]).by("rita");
    let bench = Bench::new(github).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(said(&bench, &target).await, "failed conflict, another commit, pulls [\"#3\"]");
    assert_eq!(bench.github.pulls()[0].title, "Mine");
}

#[tokio::test]
async fn a_pull_request_that_was_closed_unmerged_is_not_opened_again() {
    let bench = Bench::new(world()).await;
    let campaign = campaign("schedule:\n  cron: '0 3 * * *'\n");
    let target = bench.ready(&campaign, "the\n").await;
    bench.publish(&target).await;
    let id = "acme/app".parse().unwrap();
    bench.fleet.forge.close_pull(&id, 1).await.unwrap();
    // The base has moved, the same campaign works on it again, and another change comes of it.
    bench.github.push("main", &[("other.txt", "moved\n")]);
    let again = bench.ready(&campaign, "the!\n").await;
    assert_ne!(again.id, target.id);
    let again = bench.publish(&again).await;
    assert_eq!(said(&bench, &again).await, "closed, another commit, pulls [\"#1 closed\"]");
    assert_eq!(again.pull_request, Some(1));
    assert!(again.reason.unwrap().contains("not opened again"));
}

#[tokio::test]
async fn a_new_specification_brings_the_same_pull_request_up_to_date() {
    let bench = Bench::new(world()).await;
    let old = campaign("");
    let target = bench.ready(&old, "the\n").await;
    bench.publish(&target).await;
    let new = campaign("verify: [make]\n");
    assert_ne!(old.id(), new.id());
    let again = bench.ready(&new, "The\n").await;
    let again = bench.publish(&again).await;
    assert_eq!(said(&bench, &again).await, "open, our commit, pulls [\"#1\"]");
    let older = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!(older.state, TargetState::Superseded);
    // After somebody has closed it, another specification may propose something else.
    bench.fleet.forge.close_pull(&"acme/app".parse().unwrap(), 1).await.unwrap();
    let newest = bench.ready(&campaign("verify: [make, test]\n"), "THE\n").await;
    let newest = bench.publish(&newest).await;
    assert_eq!(said(&bench, &newest).await, "open, our commit, pulls [\"#1 closed\", \"#2\"]");
}

#[tokio::test]
async fn the_same_change_in_another_campaign_is_not_proposed_twice() {
    for close in [false, true] {
        let bench = Bench::new(world()).await;
        let target = bench.ready(&campaign(""), "the\n").await;
        bench.publish(&target).await;
        if close {
            bench.fleet.forge.close_pull(&"acme/app".parse().unwrap(), 1).await.unwrap();
        }
        let mut other = campaign("");
        other.name = "spelling".to_owned();
        let target = bench.ready(&other, "the\n").await;
        let target = bench.publish(&target).await;
        assert_eq!(target.state, TargetState::Skipped);
        assert_eq!(target.pull_request, Some(1));
        let reason = target.reason.unwrap();
        assert!(reason.contains("campaign `typos`"), "{reason}");
        assert_eq!(reason.contains("closed unmerged"), close, "{reason}");
        assert_eq!(bench.github.pulls().len(), 1);
        assert_eq!(bench.tip("patchwright/spelling"), None);
    }
}

#[tokio::test]
async fn a_base_that_moved_is_said_when_it_conflicts_and_a_change_that_is_there_is_not_proposed() {
    for (readme, state, words) in [
        ("TEH\n", "open, our commit, pulls [\"#1\"]", Some("conflicts with the change")),
        ("the\n", "unchanged, no branch, pulls []", Some("has this change already")),
    ] {
        let bench = Bench::new(world()).await;
        let target = bench.ready(&campaign(""), "the\n").await;
        bench.github.push("main", &[("README.md", readme)]);
        let target = bench.publish(&target).await;
        assert_eq!(said(&bench, &target).await, state);
        let reason = target.reason.unwrap_or_default();
        assert!(reason.contains(words.unwrap_or_default()), "{reason}");
    }
    // No conflict, no words.
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    bench.github.push("main", &[("other.txt", "moved\n")]);
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.reason), (TargetState::Open, None));
}

#[tokio::test]
async fn a_renamed_base_branch_is_followed_unless_it_was_asked_for() {
    for (more, state, class) in [
        ("", TargetState::Open, None),
        ("publish:\n  base: main\n", TargetState::Failed, Some(ErrorClass::Publish)),
    ] {
        let bench = Bench::new(world()).await;
        let target = bench.ready(&campaign(more), "the\n").await;
        let git = bench.git();
        git.find_branch("main", git2::BranchType::Local).unwrap().rename("trunk", true).unwrap();
        bench.github.change(|here| "trunk".clone_into(&mut here.default_branch));
        let target = bench.publish(&target).await;
        assert_eq!((target.state, target.class), (state, class), "{:?}", target.reason);
        assert!(target.reason.unwrap().contains("is gone"));
        if state == TargetState::Open {
            assert_eq!(bench.github.pulls()[0].base, "trunk");
        }
    }
}

#[tokio::test]
async fn repositories_that_cannot_be_written_are_told_apart() {
    // Archived.
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    bench.github.change(|here| here.archived = true);
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Access)));
    assert!(target.reason.unwrap().contains("archived"));

    // Renamed: followed.
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    bench.github.rename("app2");
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
    assert!(target.reason.unwrap().contains("is called `acme/app2` now"));

    // Gone, or hidden from us.
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let gone = Kind::Answer(
        404,
        serde_json::json!({"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}),
    );
    bench.github.fault(Fault::once("GET", "repos/acme/app", gone));
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Access)));

    // A rule of the repository refuses the push, in its own words.
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    bench.github.git().refuse(
        "acme/app",
        "refs/heads/patchwright/*",
        "GH006: Protected branch update failed",
    );
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Publish)));
    let reason = target.reason.unwrap();
    assert!(reason.contains("GH006"), "{reason}");
    assert_eq!(bench.github.pulls().len(), 0);
}

#[tokio::test]
async fn more_pull_requests_than_may_be_open_wait() {
    let github = world().repository("acme/two", &[("README.md", "teh\n")]);
    let bench = Bench::new(github).await;
    let mut limited = campaign("limits:\n  max-open-pull-requests: 1\n");
    limited.select.repositories.push("acme/two".to_owned());
    let first = bench.ready(&limited, "the\n").await;
    let first = bench.publish(&first).await;
    assert_eq!(first.state, TargetState::Open);
    let second = bench.ready_in(&limited, "acme/two", "the\n").await;
    let waiting = bench.publish(&second).await;
    assert_eq!(waiting.state, TargetState::Ready);
    assert!(waiting.reason.unwrap().contains("`max-open-pull-requests` is 1"));
    // An update of the open one is no second one.
    bench.github.push("main", &[("other.txt", "moved\n")]);
    let update = bench.ready(&limited, "The\n").await;
    bench.publish_all().await;
    let update = bench.fleet.store.target(update.id).await.unwrap();
    assert_eq!(update.state, TargetState::Open, "{:?}", update.reason);
    // Merged or closed, it makes room; the publisher finds out by itself.
    bench.fleet.forge.close_pull(&"acme/app".parse().unwrap(), 1).await.unwrap();
    let mut second = second;
    for _ in 0..200 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        bench.publish_all().await;
        second = bench.fleet.store.target(second.id).await.unwrap();
        if second.state != TargetState::Ready {
            break;
        }
    }
    assert_eq!(second.state, TargetState::Open);
    assert_eq!(bench.fleet.store.target(update.id).await.unwrap().state, TargetState::Closed);
}

#[tokio::test]
async fn nothing_is_published_outside_the_windows() {
    let mut bench = Bench::new(world()).await;
    // A Friday.
    bench.fleet.clock.fixed = Some("2026-11-20T12:00:00Z".parse().unwrap());
    let nights = "windows:\n  - {days: [fri], from: '22:00', to: '06:00'}\n";
    let target = bench.ready(&campaign(nights), "the\n").await;
    let before = bench.github.requests().len();
    let waiting = bench.publish(&target).await;
    assert_eq!(waiting.state, TargetState::Ready);
    assert!(waiting.reason.unwrap().contains("opens at 2026-11-20 22:00 UTC"));
    assert_eq!(bench.github.requests().len(), before, "nothing is asked either");
    // It does not use up the attempts.
    bench.fleet.clock.fixed = Some("2026-11-20T23:00:00Z".parse().unwrap());
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let (job, _) = bench.claim(JobKind::Publish).await.expect("its time has come");
    assert_eq!(job.attempt, 1);
}

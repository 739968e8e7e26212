//! What goes wrong on the way: lost answers, outages, limits, refusals, and two that publish at once.

use std::sync::Arc;
use std::time::Duration;

use patchwright_fleet::batch::lease::HeldJob;
use patchwright_fleet::batch::publish;
use patchwright_forge::{Forge, ForgeError};
use patchwright_types::campaign::{CampaignState, ErrorClass, JobKind, TargetState};

use super::{BRANCH, Bench, campaign, fleet, world};
use crate::support::git_http;
use crate::support::github::{Fault, Kind};

/// Publishes again and again, as a worker would, until it is settled.
async fn until_settled(bench: &Bench, id: i64) -> patchwright_types::campaign::Target {
    for _ in 0..200 {
        bench.publish_all().await;
        let target = bench.fleet.store.target(id).await.unwrap();
        if target.state.is_settled() {
            return target;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", bench.fleet.store.target(id).await.unwrap());
}

#[tokio::test]
async fn an_answer_that_is_lost_after_success_makes_no_second_pull_request() {
    for (method, path) in
        [("POST", "/pulls"), ("POST", "/labels"), ("POST", "/requested_reviewers")]
    {
        for kind in [Kind::ErrorAfter(502), Kind::CutAfter] {
            let bench = Bench::new(world().fault(Fault::once(method, path, kind.clone()))).await;
            let target = bench.ready(&campaign(""), "the\n").await;
            let target = until_settled(&bench, target.id).await;
            assert_eq!(target.state, TargetState::Open, "{path} {kind:?}: {:?}", target.reason);
            assert_eq!(bench.github.pulls().len(), 1, "{path} {kind:?}");
            assert_eq!(bench.github.pulls()[0].labels, ["typo"]);
        }
    }
}

#[tokio::test]
async fn an_outage_is_waited_for_and_costs_the_model_nothing() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let down = Fault::once("GET", "repos/acme/app", Kind::ErrorBefore(503));
    bench.github.fault(down.times(12));
    let first = bench.publish(&target).await;
    assert_eq!((first.state, first.class), (TargetState::Ready, None));
    assert!(first.reason.unwrap().contains("is unavailable"));
    let target = until_settled(&bench, target.id).await;
    assert_eq!((target.state, target.attempts), (TargetState::Open, 1));
    assert_eq!(bench.github.pulls().len(), 1);
}

#[tokio::test]
async fn an_outage_that_does_not_end_is_a_failure_that_keeps_the_change() {
    let bench = Bench::new(world()).await;
    let campaign = campaign("");
    let target = bench.ready(&campaign, "the\n").await;
    bench.github.fault(Fault::once("GET", "repos/acme/app", Kind::ErrorBefore(503)).times(10_000));
    let target = until_settled(&bench, target.id).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Forge)));
    // Tried again later, only the publishing is repeated.
    bench.github.world().faults.clear();
    let unused = |_: &_| unreachable!("the run is not repeated");
    let publish_of = |target: &_| publish::job(&bench.fleet, target);
    let count = bench.fleet.store.retry_targets(&campaign.id(), &[], &unused, &publish_of).await;
    assert_eq!(count.unwrap(), 1);
    // It was over with its last target; `batch retry` has it go on.
    let running = CampaignState::Running;
    bench.fleet.store.set_campaign_state(&campaign.id(), running, None).await.unwrap();
    let target = until_settled(&bench, target.id).await;
    assert_eq!(target.state, TargetState::Open);
}

#[tokio::test]
async fn a_limit_puts_the_change_back_without_counting_an_attempt() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    // Longer than anybody waits.
    let kind = Kind::Primary { reset_in: 3_000, window: Duration::from_secs(1) };
    bench.github.fault(Fault::once("POST", "/pulls", kind));
    let limited = bench.publish(&target).await;
    assert_eq!(limited.state, TargetState::Ready);
    assert!(limited.reason.unwrap().contains("rate limit"));
    assert!(bench.fleet.store.pace_closed_for("token").await.unwrap() > 0, "everybody knows");
    // The server complains when it is dropped if anybody asked in the meantime.
    let target = until_settled(&bench, target.id).await;
    assert_eq!(target.state, TargetState::Open);
    assert_eq!(bench.github.pulls().len(), 1);
}

#[tokio::test]
async fn a_wrong_token_stops_the_campaign_and_loses_nothing() {
    let bench = Bench::new(world()).await;
    let campaign = campaign("");
    let target = bench.ready(&campaign, "the\n").await;
    let body = serde_json::json!({"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest", "status": "401"});
    bench.github.fault(Fault::once("GET", "repos/acme/app", Kind::Answer(401, body)));
    let stopped = bench.publish(&target).await;
    assert_eq!(stopped.state, TargetState::Ready);
    let row = bench.fleet.store.campaign(&campaign.id()).await.unwrap();
    assert_eq!(row.state, CampaignState::Paused);
    assert!(row.reason.unwrap().contains("token"));
    assert!(bench.claim(JobKind::Publish).await.is_none(), "a paused campaign publishes nothing");
    let store = &bench.fleet.store;
    store.set_campaign_state(&campaign.id(), CampaignState::Running, None).await.unwrap();
    let target = until_settled(&bench, target.id).await;
    assert_eq!(target.state, TargetState::Open);
}

#[tokio::test]
async fn a_refused_workflow_file_is_said_with_what_it_takes() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let words = "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without `workflows` permission";
    bench.github.git().refuse("acme/app", "refs/heads/patchwright/*", words);
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Policy)));
    let reason = target.reason.unwrap();
    assert!(reason.contains("workflow files"), "{reason}");
    assert_eq!(bench.github.pulls().len(), 0);
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_happened_once() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    bench.github.git().fault(git_http::Step::Push, git_http::Fault::CutAfter(0));
    let target = until_settled(&bench, target.id).await;
    assert_eq!((target.state, bench.github.pulls().len()), (TargetState::Open, 1));
}

#[tokio::test]
async fn a_zombie_and_its_successor_make_one_pull_request_and_the_zombie_writes_nothing() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let zombie_fleet = fleet(&bench.github, bench.folder.path()).await;
    // The zombie's lease runs out while it stands still.
    let (job, lease) = zombie_fleet
        .store
        .claim(&zombie_fleet.owner, &[JobKind::Publish], 1)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (next, next_lease) = bench.claim(JobKind::Publish).await.expect("taken over");
    assert_eq!(next.id, job.id);
    let zombie = Arc::new(HeldJob::new(&zombie_fleet, job, lease));
    // Before its successor has done anything: nothing of the zombie arrives.
    let writes = |bench: &Bench| {
        let pushes = bench.github.git().requests().len();
        (bench.github.writes().len(), bench.tip(BRANCH), pushes)
    };
    let before = (bench.github.writes().len(), bench.tip(BRANCH));
    publish::work(&zombie_fleet, Arc::clone(&zombie)).await.unwrap();
    assert_eq!((bench.github.writes().len(), bench.tip(BRANCH)), before, "{:?}", writes(&bench));
    // Its successor does it, and the zombie wakes up once more afterwards.
    publish::work(&bench.fleet, Arc::new(HeldJob::new(&bench.fleet, next, next_lease)))
        .await
        .unwrap();
    let after = bench.github.writes().len();
    publish::work(&zombie_fleet, zombie).await.unwrap();
    assert_eq!(bench.github.writes().len(), after);
    let target = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!((target.state, bench.github.pulls().len()), (TargetState::Open, 1));
}

#[tokio::test]
async fn a_forge_with_a_lost_lease_writes_nothing_at_all() {
    let bench = Bench::new(world().issue("acme/app", 1, "Typo", "It says teh.")).await;
    bench.ready(&campaign(""), "the\n").await;
    let (job, lease) =
        bench.fleet.store.claim("gone", &[JobKind::Publish], 1).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    bench.claim(JobKind::Publish).await.expect("taken over");
    let held = Arc::new(HeldJob::new(&bench.fleet, job, lease));
    let limits = patchwright_fleet::batch::pace::limits(&bench.fleet, None);
    let gate =
        patchwright_fleet::batch::pace::gate(&bench.fleet.store, "token", limits, Some(held));
    let forge = bench.fleet.forge.gated(gate);
    let id = "acme/app".parse().unwrap();
    let is_fenced = |err: ForgeError| matches!(err, ForgeError::Fenced { .. });
    assert!(is_fenced(forge.add_labels(&id, 1, &["bug".to_owned()]).await.unwrap_err()));
    assert!(is_fenced(forge.react(&id, 1, "eyes").await.unwrap_err()));
    assert!(is_fenced(forge.close_pull(&id, 1).await.unwrap_err()));
    let marker = "<!-- patchwright:progress run=r1 v=1 -->";
    assert!(is_fenced(forge.upsert_comment(&id, 1, marker, None, "Hello").await.unwrap_err()));
    let repository = forge.repository(&id).await.unwrap();
    let (repo, base) = {
        let dir = bench.folder.path().join("clone.git");
        let repo = patchwright_git::clone::Repo::create(&dir).unwrap();
        forge.fetch(&repository, repo.path(), &["main".to_owned()], 1).await.unwrap();
        let base = repo.resolve("main").unwrap();
        (repo, base)
    };
    let commit = patchwright_git::commit::create(
        &repo,
        base,
        patchwright_git::diff::tree_of(&repo, base).unwrap(),
        &super::spec("r"),
    )
    .unwrap();
    let pushed = forge.push(&repository, repo.path(), commit.into(), "patchwright/x", None).await;
    assert!(is_fenced(pushed.unwrap_err()));
    assert_eq!(bench.github.writes(), Vec::<String>::new());
    assert_eq!(bench.tip("patchwright/x"), None);
}

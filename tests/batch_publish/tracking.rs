//! The tracking issue, and how open pull requests stand.

use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::{refresh, track};
use patchwright_forge::Role;
use patchwright_types::campaign::{JobEnd, JobKind, TargetState};

use super::{Bench, campaign, world};
use crate::support::github::{Fault, Kind};

const TRACKED: &str = "tracking-issue: acme/app\n";

/// Number, title and body of every issue that is no pull request.
fn issues(bench: &Bench) -> Vec<(u64, String, String)> {
    let issues = bench.github.of("acme/app").issues().into_iter();
    issues.map(|issue| (issue.number, issue.title, issue.body.unwrap_or_default())).collect()
}

#[tokio::test]
async fn there_is_one_tracking_issue_however_often_and_wherever_it_is_written() {
    let bench = Bench::new(world()).await;
    let tracked = campaign(TRACKED);
    let target = bench.ready(&tracked, "the\n").await;
    bench.publish(&target).await;
    bench.github.fault(Fault::once("POST", "/issues", Kind::ErrorAfter(502)));
    track::update(&bench.fleet, &tracked.id(), track::UpdateTiming::Due).await.unwrap();
    let first = issues(&bench);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1, "Campaign typos");
    assert!(first[0].2.contains("acme/app"), "{}", first[0].2);
    let row = bench.fleet.store.campaign(&tracked.id()).await.unwrap();
    assert_eq!(row.tracking_issue, Some(format!("acme/app#{}", first[0].0)));
    // Too soon for another edit; at the end it is written all the same.
    let writes = bench.github.writes().len();
    bench.fleet.store.observe_target(target.id, TargetState::Merged, None, None).await.unwrap();
    let env = bench.fleet.env.clone().with("PATCHWRIGHT_TIME_SCALE", "1");
    let slow = Fleet { env, ..bench.fleet.clone() };
    track::update(&slow, &tracked.id(), track::UpdateTiming::Due).await.unwrap();
    assert_eq!(bench.github.writes().len(), writes);
    track::update(&bench.fleet, &tracked.id(), track::UpdateTiming::AtTheEnd).await.unwrap();
    assert!(issues(&bench)[0].2.contains("merged"));
    // A database that has lost everything finds it again.
    let folder = tempfile::tempdir().unwrap();
    let fleet = super::fleet(&bench.github, folder.path()).await;
    fleet.store.put_campaign(&super::row_of(&tracked)).await.unwrap();
    track::update(&fleet, &tracked.id(), track::UpdateTiming::AtTheEnd).await.unwrap();
    assert_eq!(issues(&bench).len(), 1);
}

#[tokio::test]
async fn ticked_boxes_count_when_somebody_who_may_write_ticked_them() {
    for (login, counts) in [("rita", true), ("eve", false)] {
        let github = world().user("eve", Role::Read);
        let bench = Bench::new(github).await;
        let tracked = campaign(TRACKED);
        let target = bench.ready(&tracked, "the\n").await;
        let gone = Kind::Answer(
            404,
            serde_json::json!({"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}),
        );
        bench.github.fault(Fault::once("GET", "repos/acme/app", gone));
        let failed = bench.publish(&target).await;
        assert_eq!(failed.state, TargetState::Failed);
        track::update(&bench.fleet, &tracked.id(), track::UpdateTiming::AtTheEnd).await.unwrap();
        let number = issues(&bench)[0].0;
        bench.github.change(|here| {
            let issue = here.issues.get_mut(&number).unwrap();
            issue.body = issue.body.as_ref().map(|body| body.replace("- [ ] retry", "- [x] retry"));
            issue.editor = Some(login.to_owned());
        });
        track::update(&bench.fleet, &tracked.id(), track::UpdateTiming::AtTheEnd).await.unwrap();
        let claimed = bench.claim(JobKind::Publish).await;
        assert_eq!(claimed.is_some(), counts, "{login}");
        if let Some((_, lease)) = claimed {
            bench.fleet.store.end_job(&lease, &JobEnd::Released).await.unwrap();
            bench.publish_all().await;
            let target = bench.fleet.store.target(target.id).await.unwrap();
            assert_eq!(target.state, TargetState::Open);
        }
        // The box is empty again either way, or gone.
        assert!(!issues(&bench)[0].2.contains("[x]"));
    }
}

#[tokio::test]
async fn a_pull_request_of_a_repository_that_was_deleted_is_open_no_more() {
    let bench = Bench::new(world().organization("acme")).await;
    let campaign = campaign("");
    let target = bench.ready(&campaign, "the\n").await;
    bench.publish(&target).await;
    bench.github.of("acme/app").delete();
    assert_eq!(refresh::refresh(&bench.fleet, &campaign.id()).await.unwrap(), 1);
    let target = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!(target.state, TargetState::Superseded, "nobody has rejected it");
    assert!(target.reason.unwrap().contains("its repository is gone"));
    assert_eq!(refresh::refresh(&bench.fleet, &campaign.id()).await.unwrap(), 0);
}

#[tokio::test]
async fn pull_requests_are_looked_at_in_one_question() {
    let bench = Bench::new(world()).await;
    let campaign = campaign("");
    let target = bench.ready(&campaign, "the\n").await;
    bench.publish(&target).await;
    assert_eq!(refresh::refresh(&bench.fleet, &campaign.id()).await.unwrap(), 0);
    bench.fleet.forge.close_pull(&"acme/app".parse().unwrap(), 1).await.unwrap();
    let before = bench.github.requests().len();
    assert_eq!(refresh::refresh(&bench.fleet, &campaign.id()).await.unwrap(), 1);
    assert_eq!(bench.github.requests().len(), before + 1);
    let target = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!(target.state, TargetState::Closed);
    assert_eq!(refresh::refresh(&bench.fleet, &campaign.id()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_tracking_issue_that_was_moved_is_said_and_no_other_one_made() {
    let bench = Bench::new(world().repository("acme/ops", &[("a", "b")])).await;
    let tracked = campaign(TRACKED);
    bench.ready(&tracked, "the\n").await;
    let id = tracked.id();
    let update = || track::update(&bench.fleet, &id, track::UpdateTiming::AtTheEnd);
    update().await.unwrap();
    let number = issues(&bench)[0].0;
    let other = bench.github.world().repositories.iter().find(|it| it.name == "ops").unwrap().id;
    bench.github.change(|here| {
        here.issues.get_mut(&number).unwrap().transferred_to = Some((other, 5));
    });
    let failure = update().await.unwrap_err();
    for part in ["was transferred to", "`tracking-issue: "] {
        assert!(failure.to_string().contains(part), "{failure}");
    }
    assert_eq!(issues(&bench).len(), 1);
}

//! `batch close`: what is ours is ended, what is not is left.

use patchwright_fleet::batch::close::{self, Options, Summary};
use patchwright_types::campaign::{CampaignState, NewTarget, TargetState};

use super::{BRANCH, Bench, campaign, world};
use crate::support::github::{Fault, Kind};

async fn open() -> (Bench, patchwright_types::campaign::Target) {
    let bench = Bench::new(world().repository("acme/two", &[("README.md", "teh\n")])).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open);
    (bench, target)
}

#[tokio::test]
async fn open_pull_requests_are_closed_with_a_word_and_their_branches_removed() {
    let (bench, target) = open().await;
    let waiting = bench.ready_in(&campaign(""), "acme/two", "the\n").await;
    let options = Options { comment: Some("Sorry.".to_owned()), ..Options::default() };
    let dry = Options { dry_run: true, ..options.clone() };
    let would = close::close(&bench.fleet, "typos", &dry).await.unwrap();
    assert_eq!(would, Summary { cancelled: 1, closed: 1, removed: 1, ..Summary::default() });
    assert!(bench.github.pulls()[0].open && bench.tip(BRANCH).is_some());

    let summary = close::close(&bench.fleet, "typos", &options).await.unwrap();
    assert_eq!(summary, would);
    assert!(!bench.github.pulls()[0].open);
    assert_eq!(bench.tip(BRANCH), None);
    let comments = bench.github.comments(1);
    assert_eq!(comments.len(), 1);
    assert!(comments[0].body.starts_with("Campaign `typos` has ended"), "{}", comments[0].body);
    assert!(comments[0].body.contains("Sorry."));
    let store = &bench.fleet.store;
    assert_eq!(store.target(target.id).await.unwrap().state, TargetState::Superseded);
    assert_eq!(store.target(waiting.id).await.unwrap().state, TargetState::Superseded);
    let row = store.campaign(&campaign("").id()).await.unwrap();
    assert_eq!(row.state, CampaignState::Closed);
    // Again: there is nothing left to do, and nothing is written.
    let writes = bench.github.writes().len();
    let again = close::close(&bench.fleet, "typos", &options).await.unwrap();
    assert_eq!(again, Summary::default());
    assert_eq!(bench.github.writes().len(), writes);
}

#[tokio::test]
async fn an_interrupted_close_is_gone_on_with() {
    for (method, path, kind) in [
        ("POST", "/comments", Kind::CutAfter),
        ("PATCH", "/pulls/1", Kind::ErrorAfter(502)),
        ("DELETE", "/git/refs", Kind::ErrorAfter(502)),
    ] {
        let (bench, _) = open().await;
        bench.github.fault(Fault::once(method, path, kind));
        let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
        assert_eq!((summary.closed, summary.removed, summary.left), (1, 1, 0), "{path}");
        assert_eq!((bench.github.comments(1).len(), bench.tip(BRANCH)), (1, None), "{path}");
    }
    // Closed, but the word about it never reached the store.
    let (bench, _) = open().await;
    bench.fleet.forge.close_pull(&"acme/app".parse().unwrap(), 1).await.unwrap();
    let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    assert_eq!((summary.closed, summary.removed), (0, 1));
}

#[tokio::test]
async fn what_people_pushed_to_or_wrote_themselves_stays() {
    let (bench, _) = open().await;
    let theirs = bench.github.push(BRANCH, &[("mine.txt", "mine\n")]);
    let dry = Options { dry_run: true, ..Options::default() };
    let would = close::close(&bench.fleet, "typos", &dry).await.unwrap();
    assert_eq!((would.closed, would.removed, would.of_others), (1, 0, 1));
    let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    assert_eq!((summary.closed, summary.removed), (1, 0));
    assert_eq!(bench.tip(BRANCH).as_deref(), Some(&*theirs));

    let (bench, target) = open().await;
    bench.github.change(|here| {
        here.issues.get_mut(&1).unwrap().author = Some("rita".to_owned());
    });
    let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    assert_eq!((summary.closed, summary.left), (0, 1));
    assert!(bench.github.pulls()[0].open && bench.tip(BRANCH).is_some());
    assert_eq!(bench.fleet.store.target(target.id).await.unwrap().state, TargetState::Open);
}

#[tokio::test]
async fn a_successor_is_named_and_may_propose_again() {
    let (bench, _) = open().await;
    let options = Options {
        superseded_by: Some("spelling".to_owned()),
        keep_branches: true,
        ..Options::default()
    };
    close::close(&bench.fleet, "typos", &options).await.unwrap();
    assert!(bench.github.comments(1)[0].body.contains("`spelling` has taken over"));
    assert!(bench.tip(BRANCH).is_some());
    // A new specification of the same name opens a new one, with the very same change.
    let target = bench.ready(&campaign("verify: [make]\n"), "the\n").await;
    let target = bench.publish(&target).await;
    assert_eq!(
        (target.state, target.pull_request),
        (TargetState::Open, Some(2)),
        "{:?}",
        target.reason
    );
    let missing = close::close(&bench.fleet, "nothing", &options).await.unwrap_err();
    assert!(missing.message.contains("there is no campaign `nothing`"));
}

#[tokio::test]
async fn a_row_that_was_skipped_hides_no_pull_request() {
    // Left by a version that took a repository, which it could not read once, for another one.
    let (bench, target) = open().await;
    let skipped = NewTarget {
        repository: "acme/app".to_owned(),
        repository_id: None,
        number: None,
        base_branch: String::new(),
        base_sha: String::new(),
        wave: 0,
        skipped: Some("127.0.0.1 is unavailable: 502".to_owned()),
    };
    let (store, id) = (&bench.fleet.store, campaign("").id());
    store.add_targets(&id, &[skipped]).await.unwrap();
    let view = store.view(&id).await.unwrap();
    let seen: Vec<_> = view.targets.iter().map(|one| (one.id, one.state)).collect();
    assert_eq!(seen, [(target.id, TargetState::Open)]);
    let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    assert_eq!((summary.closed, summary.left), (1, 0));
}

#[tokio::test]
async fn what_is_archived_is_said_and_keeps_no_close_from_its_end() {
    let (bench, target) = open().await;
    bench.github.change(|here| here.archived = true);
    let dry = Options { dry_run: true, ..Options::default() };
    for options in [dry, Options::default(), Options::default()] {
        let summary = close::close(&bench.fleet, "typos", &options).await.unwrap();
        assert_eq!(summary, Summary { archived: 1, ..Summary::default() });
    }
    assert_eq!(bench.fleet.store.target(target.id).await.unwrap().state, TargetState::Open);
}

//! Repositories that are renamed, moved and replaced by others of their names; branches of people.

use patchwright_fleet::batch::close::{self, Options};
use patchwright_fleet::batch::{plan, refresh};
use patchwright_fleet::store::SeenRepository;
use patchwright_types::campaign::{ErrorClass, Target, TargetState};

use super::{BRANCH, Bench, campaign, world};
use crate::support::github::{Fault, Kind};

fn node_id(bench: &Bench, name: &str) -> String {
    let github = bench.github.world();
    let found = github.repositories.iter().find(|one| one.full_name() == name).unwrap();
    format!("R_{}", found.id)
}

/// A target that has been looked at, with its id.
async fn seen(bench: &Bench, target: &Target) -> Target {
    let id = node_id(bench, &target.repository);
    let name = target.repository.clone();
    let seen = SeenRepository { id, asked: name.clone(), name };
    bench.fleet.store.see_repositories(&target.campaign, &[seen]).await.unwrap();
    bench.fleet.store.target(target.id).await.unwrap()
}

fn taken_over(bench: &Bench) {
    bench.github.of("acme/app").rename("app2");
    bench.github.of("acme/other").rename("app");
}

async fn with_another() -> Bench {
    Bench::new(world().repository("acme/other", &[("README.md", "teh\n"), ("x", "x\n")])).await
}

#[tokio::test]
async fn a_change_goes_to_its_repository_and_not_to_the_one_that_took_over_the_name() {
    let bench = with_another().await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = seen(&bench, &target).await;
    taken_over(&bench);
    let target = bench.publish(&target).await;
    assert_eq!(target.state, TargetState::Open, "{:?}", target.reason);
    assert_eq!(target.repository, "acme/app2", "the target follows its repository");
    assert_eq!(bench.github.of("acme/app2").pulls().len(), 1);
    assert_eq!(bench.github.of("acme/app").pulls().len(), 0, "another one");

    // Its pull request is looked at where it is, too.
    bench.github.of("acme/app2").merge(1);
    refresh::refresh(&bench.fleet, &target.campaign).await.unwrap();
    let target = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!(target.state, TargetState::Merged);
    assert!(target.closed_at.is_some() && target.ended_at < target.published_at);
}

#[tokio::test]
async fn a_pull_request_of_the_same_number_elsewhere_says_nothing() {
    let bench = with_another().await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = seen(&bench, &target).await;
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.pull_request), (TargetState::Open, Some(1)));
    bench.github.of("acme/other").push("mine", &[("mine.txt", "mine\n")]);
    bench.github.of("acme/other").open_pull(1, "Mine", "mine", "rita");
    bench.github.of("acme/other").close(1);
    taken_over(&bench);
    refresh::refresh(&bench.fleet, &target.campaign).await.unwrap();
    let state = bench.fleet.store.target(target.id).await.unwrap().state;
    assert_eq!(state, TargetState::Open, "`acme/app#1` is another pull request now");
}

#[tokio::test]
async fn a_repository_that_is_gone_is_not_replaced_by_the_next_one_of_its_name() {
    let bench = with_another().await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = seen(&bench, &target).await;
    bench.github.of("acme/app").delete();
    bench.github.of("acme/other").rename("app");
    let target = bench.publish(&target).await;
    assert_eq!((target.state, target.class), (TargetState::Failed, Some(ErrorClass::Access)));
    let reason = target.reason.unwrap();
    assert!(reason.contains("another repository is called `acme/app` now"), "{reason}");
    assert_eq!(bench.github.of("acme/app").pulls().len(), 0);
}

#[tokio::test]
async fn a_branch_with_a_persons_commits_is_seen_before_anything_is_paid_for() {
    let bench = Bench::new(world()).await;
    let campaign = campaign("");
    let said = async || {
        let plan = plan::make(&bench.fleet, &campaign).await.unwrap();
        plan.targets[0].skipped().unwrap_or_default().to_owned()
    };
    assert_eq!(said().await, "");
    // An empty branch, and one that the base has overtaken, are nobody's work.
    let main = bench.tip("main").unwrap();
    bench
        .git()
        .reference(&format!("refs/heads/{BRANCH}"), main.parse().unwrap(), true, "")
        .unwrap();
    bench.github.change(|_| ());
    assert_eq!(said().await, "");
    bench.github.push("main", &[("other.txt", "moved\n")]);
    assert_eq!(said().await, "");
    // What we have pushed ourselves is no obstacle.
    bench.our_commit(BRANCH, &main, "the\n");
    assert_eq!(said().await, "");
    let theirs = bench.github.push(BRANCH, &[("mine.txt", "mine\n")]);
    let words = said().await;
    assert!(
        words.contains("has commits of other people") && words.contains(&theirs[..10]),
        "{words}"
    );
    // The same over REST.
    let refusal = serde_json::json!({"message": "Resource not accessible by integration"});
    bench.github.fault(Fault::once("POST", "graphql", Kind::Answer(403, refusal)).times(9));
    let words = said().await;
    assert!(words.contains("has commits of other people"), "{words}");
}

#[tokio::test]
async fn what_was_closed_by_half_is_finished_and_is_no_rejection() {
    let protected = || {
        let message = serde_json::json!({"message": "Cannot delete this branch", "status": "422",
            "documentation_url": "https://docs.github.com/rest"});
        Fault::once("DELETE", "/git/refs", Kind::Answer(422, message))
    };
    let half = async || {
        let bench = Bench::new(world()).await;
        let target = bench.ready(&campaign(""), "the\n").await;
        bench.publish(&target).await;
        bench.github.fault(protected());
        let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
        assert_eq!((summary.closed, summary.removed, summary.left), (1, 0, 1));
        let target = bench.fleet.store.target(target.id).await.unwrap();
        assert_eq!(target.state, TargetState::Superseded, "it is closed, whatever is left");
        (bench, target)
    };
    let (bench, target) = half().await;
    assert!(bench.tip(BRANCH).is_some());
    let summary = close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    assert_eq!((summary.closed, summary.removed, summary.left), (0, 1, 0));
    assert_eq!(bench.tip(BRANCH), None);
    assert_eq!(bench.github.comments(1).len(), 1);
    let target = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!((target.state, target.closing_at), (TargetState::Superseded, None));
    let writes = bench.github.writes().len();
    close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    assert_eq!(bench.github.writes().len(), writes, "nothing is left to do");

    // Before it is finished, another task may propose the very same change.
    let (bench, _) = half().await;
    let next = bench.ready(&campaign("verify: [make]\n"), "the\n").await;
    let next = bench.publish(&next).await;
    assert_eq!((next.state, next.pull_request), (TargetState::Open, Some(2)), "{:?}", next.reason);
}

#[tokio::test]
async fn our_own_closing_is_known_by_what_we_said_when_the_store_has_lost_it() {
    let bench = Bench::new(world()).await;
    let target = bench.ready(&campaign(""), "the\n").await;
    let target = bench.publish(&target).await;
    close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    // A copy of the database from before is put back.
    let url = format!("sqlite://{}", bench.folder.path().join("fleet.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let text = "UPDATE targets SET state = 'open', closing_at = NULL, closed_at = NULL";
    assert_eq!(sqlx::query(text).execute(&pool).await.unwrap().rows_affected(), 1);
    pool.close().await;
    close::close(&bench.fleet, "typos", &Options::default()).await.unwrap();
    let target = bench.fleet.store.target(target.id).await.unwrap();
    assert_eq!(target.state, TargetState::Superseded, "{:?}", target.reason);
    assert_eq!(bench.github.comments(1).len(), 1);
}

//! What a target's times say, and which repository it is of.

use patchwright_fleet::store::{Closing, SeenRepository, Store};
use patchwright_types::campaign::{JobEnd, NewTarget, Target, TargetEnd, TargetState};

use super::{
    Db, campaign, changeset, claim, claimed, ended, new_target, publish_job, queued, target_job,
    target_of,
};

/// Long enough that two times differ.
async fn a_moment() {
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
}

/// A repository whose pull request is open.
async fn opened(store: &Store, repository: &str) -> Target {
    queued(store, &campaign(), &[repository]).await;
    let (job, lease) = claimed(store, "w").await;
    let id = job.subject.parse().unwrap();
    store.begin_target(&lease, id, "run-1").await.unwrap();
    a_moment().await;
    let target = store.target(id).await.unwrap();
    let (change, publish) = (changeset(&target), publish_job(&target));
    let made = ended(TargetState::Ready);
    let done = JobEnd::Done;
    store.end_target(&lease, id, &made, Some(&change), Some(&publish), &done).await.unwrap();
    a_moment().await;
    let (_, lease) = claimed(store, "w").await;
    store.begin_publishing(&lease, id).await.unwrap();
    a_moment().await;
    let open = TargetEnd { pull_request: Some(7), writes: 3, ..ended(TargetState::Open) };
    store.end_target(&lease, id, &open, None, None, &done).await.unwrap();
    store.target(id).await.unwrap()
}

pub(super) async fn run_publishing_and_review_have_lengths_of_their_own(db: &Db) {
    let store = db.open().await;
    let open = opened(&store, "acme/one").await;
    let run = (open.started_at.unwrap(), open.ended_at.unwrap());
    let publishing = (open.publishing_at.unwrap(), open.published_at.unwrap());
    assert!(run.0 < run.1 && run.1 < publishing.0 && publishing.0 < publishing.1, "{open:?}");
    assert_eq!((open.writes, open.closed_at), (3, None));
    assert_eq!(open.worked_until(), Some(publishing.1));
    a_moment().await;
    // GitHub's clock is slow, and says that it was merged before it was open.
    let early = Some(publishing.1 - 60_000);
    assert!(store.observe_target(open.id, TargetState::Merged, None, early).await.unwrap());
    let merged = store.target(open.id).await.unwrap();
    assert_eq!((merged.started_at.unwrap(), merged.ended_at.unwrap()), run, "it is over");
    assert_eq!((merged.publishing_at.unwrap(), merged.published_at.unwrap()), publishing);
    assert_eq!(merged.closed_at, Some(publishing.1));
    assert_eq!(merged.worked_until(), Some(publishing.1), "a merge is none of our work");
}

/// As version 5 left it: the end of the run was overwritten by what came after it.
pub(super) async fn times_that_an_older_version_overwrote_are_read_from_the_events(db: &Db) {
    let store = db.open().await;
    let open = opened(&store, "acme/one").await;
    store.observe_target(open.id, TargetState::Merged, None, None).await.unwrap();
    let right = store.target(open.id).await.unwrap();
    store.close().await;
    for text in [
        "UPDATE targets SET ended_at = closed_at",
        "DROP INDEX targets_once",
        "DROP INDEX targets_by_id",
        "DROP INDEX targets_by_state",
        "DROP INDEX targets_misconfigured",
        "ALTER TABLE targets DROP COLUMN repository_id",
        "ALTER TABLE targets DROP COLUMN publishing_at",
        "ALTER TABLE targets DROP COLUMN published_at",
        "ALTER TABLE targets DROP COLUMN closed_at",
        "ALTER TABLE targets DROP COLUMN writes",
        "ALTER TABLE targets DROP COLUMN closing_at",
        "ALTER TABLE targets DROP COLUMN fits_sha",
        "ALTER TABLE targets DROP COLUMN checks",
        "ALTER TABLE targets DROP COLUMN setup_failed",
        "ALTER TABLE targets DROP COLUMN run_ms",
        "ALTER TABLE outages DROP COLUMN paused_at",
        "CREATE UNIQUE INDEX targets_once
            ON targets (campaign, (lower(repository)), (COALESCE(number, 0)), base_sha)",
        "DROP TABLE selected",
        "DROP TABLE selections",
        "DELETE FROM patchwright_schema WHERE version > 5",
    ] {
        db.sql(text).await;
    }
    let store = db.open().await;
    let read = store.target(open.id).await.unwrap();
    assert_eq!(read.started_at, right.started_at);
    // An event is written a moment after what it is about, and before what comes next.
    let order = [
        right.ended_at,
        read.ended_at,
        right.publishing_at,
        read.publishing_at,
        right.published_at,
        read.published_at,
        right.closed_at,
        read.closed_at,
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
    assert_eq!((read.repository_id, read.writes), (None, 0));
}

pub(super) async fn a_repository_is_what_its_id_says(db: &Db) {
    let store = db.open().await;
    let open = opened(&store, "acme/old").await;
    let id = campaign().id;
    let seen = |id: &str, name: &str, asked: &str| SeenRepository {
        id: id.to_owned(),
        name: name.to_owned(),
        asked: asked.to_owned(),
    };
    let of = |id: &str, name: &str, sha: &str| NewTarget {
        repository_id: Some(id.to_owned()),
        ..new_target(name, sha)
    };
    let known = async |asked: &[&str]| {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let found = store.targets_of(&id, &asked).await.unwrap();
        found.into_iter().map(|target| target.id).collect::<Vec<_>>()
    };
    assert_eq!(known(&["R_1", "acme/old", "acme/else"]).await, [open.id], "by its name so far");
    // A row of before anybody knew ids gets it, by the name that leads to it.
    let renamed = store.see_repositories(&id, &[seen("R_1", "acme/new", "ACME/old")]).await;
    assert_eq!(renamed.unwrap(), 1);
    let target = store.target(open.id).await.unwrap();
    assert_eq!(
        (target.repository.as_str(), target.repository_id.as_deref()),
        ("acme/new", Some("R_1"))
    );
    assert_eq!(store.changeset(open.id).await.unwrap().unwrap().repository, "acme/new");
    assert_eq!(
        store.add_targets(&id, &[of("R_1", "acme/new", "a")]).await.unwrap().work,
        0,
        "the same"
    );
    assert_eq!(known(&["R_1"]).await, [open.id]);
    assert_eq!(known(&["acme/new", "R_2"]).await, [open.id], "by the name that it has now");
    assert!(known(&["acme/old", "R_2"]).await.is_empty(), "it had that name before");
    // Another one has taken over the name, with the same commits.
    assert_eq!(store.add_targets(&id, &[of("R_2", "acme/old", "a")]).await.unwrap().work, 1);
    assert_eq!(store.view(&id).await.unwrap().targets.len(), 2);
    let history = async |name: &str, id: Option<&str>| {
        let found = store.history("tidy", name, id).await.unwrap();
        found.into_iter().map(|target| target.id).collect::<Vec<_>>()
    };
    assert_eq!(history("acme/old", Some("R_1")).await, [open.id]);
    assert_eq!(history("acme/new", None).await, [open.id]);
    assert!(!history("acme/old", Some("R_2")).await.contains(&open.id));
    // They change names: each row stays with its repository.
    store.see_repositories(&id, &[seen("R_1", "acme/x", "acme/x")]).await.unwrap();
    store.rename_target(open.id, "R_2", "acme/wrong").await.unwrap();
    assert_eq!(store.target(open.id).await.unwrap().repository, "acme/x", "it is another one's");
    let other = target_of(&store, "acme/old").await;
    assert_eq!(other.repository_id.as_deref(), Some("R_2"));
    // The base branch moves: the new target takes the place of the old one, whatever it is called.
    store.open_wave(&id, 0, &target_job).await.unwrap();
    assert_eq!(store.add_targets(&id, &[of("R_2", "acme/y", "b")]).await.unwrap().work, 1);
    assert_eq!(store.target(other.id).await.unwrap().state, TargetState::Superseded);
    let newest = known(&["R_2"]).await;
    assert!(newest.len() == 1 && newest[0] > other.id, "of each the newest: {newest:?}");
    let many: Vec<String> = (0..1_000).map(|number| format!("R_{number}")).collect();
    assert_eq!(store.targets_of(&id, &many).await.unwrap().len(), 2, "of any number");
    assert_eq!(claim(&store, "w").await, None);
}

pub(super) async fn what_we_began_to_close_is_no_rejection(db: &Db) {
    let store = db.open().await;
    let open = opened(&store, "acme/one").await;
    store.set_closing(open.id, Closing::Begun).await.unwrap();
    // Somebody looks at the pull requests before the command has written its end.
    assert!(store.observe_target(open.id, TargetState::Closed, None, None).await.unwrap());
    let target = store.target(open.id).await.unwrap();
    assert_eq!(target.state, TargetState::Superseded);
    assert!(target.closing_at.is_some(), "there may be something left to do");
    store.set_closing(open.id, Closing::Finished).await.unwrap();
    assert_eq!(store.target(open.id).await.unwrap().closing_at, None);
}

pub(super) async fn what_is_left_is_known_without_reading_the_targets(db: &Db) {
    let store = db.open().await;
    let row = campaign();
    queued(&store, &row, &["acme/1", "acme/2"]).await;
    let later = NewTarget { wave: 2, ..new_target("acme/3", "a") };
    store.add_targets(&row.id, &[later]).await.unwrap();
    let standing = store.campaign_progress(&row.id).await.unwrap();
    assert_eq!((standing.waiting, standing.busy, standing.running), (Some(2), true, false));
    let (job, lease) = claimed(&store, "w").await;
    let id: i64 = job.subject.parse().unwrap();
    store.begin_target(&lease, id, "run-1").await.unwrap();
    assert!(store.campaign_progress(&row.id).await.unwrap().running);
    let wrong = TargetEnd {
        class: Some(patchwright_types::campaign::ErrorClass::Configuration),
        ..ended(TargetState::Failed)
    };
    let failed = JobEnd::Failed { why: "no key".to_owned() };
    store.end_target(&lease, id, &wrong, None, None, &failed).await.unwrap();
    let standing = store.campaign_progress(&row.id).await.unwrap();
    assert!(standing.misconfigured && standing.busy && !standing.running);
    assert_eq!(store.count_targets(&row.id, &[TargetState::Failed]).await.unwrap(), 1);
    // A newer target of the same repository stands for it.
    let again = store.target(id).await.unwrap();
    store.add_targets(&row.id, &[new_target(&again.repository, "b")]).await.unwrap();
    let standing = store.campaign_progress(&row.id).await.unwrap();
    assert!(!standing.misconfigured, "{standing:?}");
    assert_eq!(standing.waiting, Some(0));
}

//! Campaigns, targets, changes, events, deliveries, schedules.

use patchwright_fleet::store::{KnownRepository, PaidReview, ReviewCaps, ReviewSlot, StoreError};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, Delivery, ErrorClass, JobEnd, JobKind, NewJob, NewTarget, Target,
    TargetEnd, TargetState,
};

use super::{
    Db, campaign, changeset, claim, claimed, ended, new_target, publish_job, queued, target_job,
    target_of,
};

pub(super) async fn a_campaign_is_put_once_and_keeps_what_happened(db: &Db) {
    let store = db.open().await;
    let first = store.put_campaign(&campaign()).await.unwrap();
    assert!(first.created_at > 1_600_000_000_000);
    store.set_tracking_issue(&first.id, "acme/ops#7").await.unwrap();
    store.set_campaign_state(&first.id, CampaignState::Paused, Some("stop")).await.unwrap();
    let wider = CampaignRow { concurrency: Some(9), spec: "{\"a\":1}".to_owned(), ..campaign() };
    let second = store.put_campaign(&wider).await.unwrap();
    assert_eq!((second.concurrency, second.spec.as_str()), (Some(9), "{\"a\":1}"));
    assert_eq!((second.state, second.reason.as_deref()), (CampaignState::Paused, Some("stop")));
    assert_eq!(second.tracking_issue.as_deref(), Some("acme/ops#7"));
    let other = CampaignRow { id: "other-1".to_owned(), name: "other".to_owned(), ..campaign() };
    store.put_campaign(&other).await.unwrap();
    assert_eq!(store.campaigns(Some("tidy")).await.unwrap(), [second]);
    assert_eq!(store.campaigns(None).await.unwrap().len(), 2);
    assert!(matches!(store.campaign("no").await, Err(StoreError::NotFound(_))));
    let stated = store.set_campaign_state("no", CampaignState::Done, None).await;
    assert!(matches!(stated, Err(StoreError::NotFound(_))));
}

pub(super) async fn targets_are_added_once_and_newer_ones_supersede(db: &Db) {
    let store = db.open().await;
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    let add = async |targets: &[NewTarget]| {
        let added = store.add_targets(&id, targets).await.unwrap();
        added.work + added.skipped
    };
    let skipped = NewTarget { skipped: Some("archived".to_owned()), ..new_target("acme/old", "a") };
    let review = NewTarget { number: Some(3), ..new_target("acme/one", "b") };
    let all = [new_target("acme/one", "a"), review.clone(), skipped];
    assert_eq!(add(&all).await, 3);
    assert_eq!(add(&all).await, 0, "they are there");
    assert_eq!(add(&[new_target("Acme/One", "a")]).await, 0, "however it is spelled");
    assert_eq!(target_of(&store, "acme/old").await.reason.as_deref(), Some("archived"));
    assert_eq!(add(&[new_target("acme/old", "a")]).await, 1, "it is archived no longer");
    assert_eq!(target_of(&store, "acme/old").await.state, TargetState::Waiting);

    // Queued at one commit, then the base branch moves.
    store.open_wave(&id, 0, &target_job).await.unwrap();
    assert_eq!(add(&[new_target("acme/one", "c")]).await, 1);
    let history = store.history("tidy", "ACME/one", None).await.unwrap();
    let states: Vec<_> = history.iter().map(|target| (target.number, target.state)).collect();
    let (queued, waiting) = (TargetState::Queued, TargetState::Waiting);
    assert_eq!(
        states,
        [(None, waiting), (Some(3), queued), (None, TargetState::Superseded)],
        "newest first; a review of a pull request is something else"
    );
    let view = store.view(&id).await.unwrap();
    assert_eq!(view.targets.len(), 3, "one row for each repository and number");
    let mut claimed_subjects = Vec::new();
    while let Some((job, _)) = claim(&store, "w").await {
        claimed_subjects.push(job.subject);
    }
    assert!(!claimed_subjects.contains(&history[2].id.to_string()), "nobody works on the old one");
    assert!(store.history("other", "acme/one", None).await.unwrap().is_empty());
}

pub(super) async fn waves_open_with_their_jobs(db: &Db) {
    let store = db.open().await;
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    let of = |name: &str, wave| NewTarget { wave, ..new_target(name, "a") };
    let all = [of("acme/1", 0), of("acme/2", 1), of("acme/3", 1), of("acme/4", 2)];
    store.add_targets(&id, &all).await.unwrap();
    assert_eq!(claim(&store, "w").await, None);
    assert_eq!(store.open_wave(&id, 0, &target_job).await.unwrap(), 1);
    assert_eq!(store.open_wave(&id, 0, &target_job).await.unwrap(), 0);
    assert_eq!(store.open_wave(&id, 1, &target_job).await.unwrap(), 2);
    assert_eq!(store.open_wave(&id, 0, &target_job).await.unwrap(), 0);
    assert_eq!(store.campaign(&id).await.unwrap().wave, 1);
    // One that joins an open wave later is not forgotten.
    store.add_targets(&id, &[of("acme/5", 0)]).await.unwrap();
    assert_eq!(store.open_wave(&id, 1, &target_job).await.unwrap(), 1);
    assert_eq!(target_of(&store, "acme/4").await.state, TargetState::Waiting);
    let mut count = 0;
    while claim(&store, "w").await.is_some() {
        count += 1;
    }
    assert_eq!(count, 4);
}

pub(super) async fn a_targets_end_is_written_whole(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let (job, lease) = claimed(&store, "w").await;
    let id = job.subject.parse().unwrap();
    store.begin_target(&lease, id, "run-1").await.unwrap();
    let target = store.target(id).await.unwrap();
    assert_eq!((target.state, target.attempts), (TargetState::Running, 1));
    assert!(target.started_at.is_some());
    let (change, publish) = (changeset(&target), publish_job(&target));
    let end = TargetEnd { reason: Some("3 files\0".to_owned()), ..ended(TargetState::Ready) };
    store.end_target(&lease, id, &end, Some(&change), Some(&publish), &JobEnd::Done).await.unwrap();

    let stored = store.changeset(id).await.unwrap().unwrap();
    assert_eq!(stored.pack, [0, 1, 2, 255]);
    assert_eq!(stored.title, "Tidy\u{fffd} up", "PostgreSQL takes no NUL");
    let same = patchwright_types::campaign::Changeset { title: stored.title.clone(), ..change };
    assert_eq!(stored, same);
    assert_eq!(store.same_change(&target, &same.change_id).await.unwrap().len(), 1);
    let other = Target { repository: "acme/two".to_owned(), ..target.clone() };
    assert!(store.same_change(&other, &same.change_id).await.unwrap().is_empty());
    assert!((store.campaign(&campaign().id).await.unwrap().spent_usd - 0.5).abs() < 1e-9);

    let (job, lease) = claimed(&store, "w").await;
    assert_eq!((job.kind, job.subject.as_str()), (JobKind::Publish, id.to_string().as_str()));
    store.begin_publishing(&lease, id).await.unwrap();
    let open = TargetEnd {
        pull_request: Some(12),
        url: Some("https://github.com/acme/one/pull/12".to_owned()),
        run: None,
        cost_usd: 0.0,
        tokens: 0,
        ..ended(TargetState::Open)
    };
    store.end_target(&lease, id, &open, None, None, &JobEnd::Done).await.unwrap();
    let target = store.target(id).await.unwrap();
    assert_eq!((target.state, target.pull_request), (TargetState::Open, Some(12)));
    assert_eq!((target.run.as_deref(), target.tokens), (Some("run-1"), 1_000));
    assert!((target.cost_usd - 0.5).abs() < 1e-9);
    let kinds: Vec<String> = store
        .events(&campaign().id, 0, 100)
        .await
        .unwrap()
        .into_iter()
        .filter(|event| event.target == Some(id))
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, ["queued", "running", "ready", "publishing", "open"]);
}

pub(super) async fn failed_targets_are_retried_by_class(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3"]).await;
    for class in [ErrorClass::Clone, ErrorClass::Checks, ErrorClass::Publish] {
        let (job, lease) = claimed(&store, "w").await;
        let id = job.subject.parse().unwrap();
        store.begin_target(&lease, id, "run-1").await.unwrap();
        let change = changeset(&store.target(id).await.unwrap());
        let change = (class == ErrorClass::Publish).then_some(&change);
        let end = TargetEnd { class: Some(class), ..ended(TargetState::Failed) };
        let job_end = JobEnd::Failed { why: "so it is".to_owned() };
        store.end_target(&lease, id, &end, change, None, &job_end).await.unwrap();
    }
    let id = campaign().id;
    let retry = async |classes: &[ErrorClass]| {
        store.retry_targets(&id, classes, &target_job, &publish_job).await.unwrap()
    };
    assert_eq!(retry(&[ErrorClass::Model]).await, 0);
    assert_eq!(retry(&[ErrorClass::Clone]).await, 1);
    assert_eq!(target_of(&store, "acme/1").await.state, TargetState::Queued);
    assert_eq!(retry(&[]).await, 2, "the rest");
    let published = target_of(&store, "acme/3").await;
    assert_eq!((published.state, published.attempts), (TargetState::Ready, 0));
    let mut kinds = Vec::new();
    while let Some((job, _)) = claim(&store, "w").await {
        assert_eq!(job.attempt, 1, "counted anew");
        kinds.push(job.kind);
    }
    kinds.sort();
    assert_eq!(
        kinds,
        [JobKind::Target, JobKind::Target, JobKind::Publish],
        "no model is asked twice"
    );
}

pub(super) async fn held_changes_are_published_later(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2"]).await;
    for _ in 0..2 {
        let (job, lease) = claimed(&store, "w").await;
        let id = job.subject.parse().unwrap();
        let change = changeset(&store.target(id).await.unwrap());
        let end = ended(TargetState::Held);
        store.end_target(&lease, id, &end, Some(&change), None, &JobEnd::Done).await.unwrap();
    }
    assert_eq!(claim(&store, "w").await, None);
    let first = target_of(&store, "acme/1").await.id;
    let id = campaign().id;
    assert_eq!(store.publish_held(&id, &[first], &publish_job).await.unwrap(), 1);
    assert_eq!(claimed(&store, "w").await.0.subject, first.to_string());
    assert_eq!(store.publish_held(&id, &[], &publish_job).await.unwrap(), 1);
    assert_eq!(store.publish_held(&id, &[], &publish_job).await.unwrap(), 0);
}

pub(super) async fn what_waits_to_be_published_is_looked_at_when_asked(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2"]).await;
    let id = campaign().id;
    for _ in 0..2 {
        let (job, lease) = claimed(&store, "w").await;
        let target = store.target(job.subject.parse().unwrap()).await.unwrap();
        let (change, publish) = (changeset(&target), publish_job(&target));
        let end = ended(TargetState::Ready);
        let (change, publish) = (Some(&change), Some(&publish));
        store.end_target(&lease, target.id, &end, change, publish, &JobEnd::Done).await.unwrap();
    }
    let why = || "waits".to_owned();
    let ends = [
        JobEnd::Later { after: 600_000, why: why() },
        JobEnd::Retry { after: 600_000, why: why() },
    ];
    for end in &ends {
        let (_, lease) = claimed(&store, "w").await;
        store.end_job(&lease, end).await.unwrap();
    }
    assert_eq!(claim(&store, "w").await, None);
    assert_eq!(store.publish_now(&id, &|name| name == "acme/2").await.unwrap(), 0);
    assert_eq!(store.publish_now(&id, &|_| true).await.unwrap(), 1, "not what failed");
    let first = target_of(&store, "acme/1").await;
    assert_eq!((first.state, first.reason), (TargetState::Ready, None));
    assert_eq!(claimed(&store, "w").await.0.subject, first.id.to_string());
}

pub(super) async fn what_the_forge_says_is_noted_unless_a_worker_is_at_it(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let (job, lease) = claimed(&store, "w").await;
    let id = job.subject.parse().unwrap();
    store.begin_target(&lease, id, "run-1").await.unwrap();
    assert!(!store.observe_target(id, TargetState::Merged, None, None).await.unwrap());
    let end = ended(TargetState::Open);
    store.end_target(&lease, id, &end, None, None, &JobEnd::Done).await.unwrap();
    assert!(store.observe_target(id, TargetState::Merged, None, None).await.unwrap());
    assert!(!store.observe_target(id, TargetState::Merged, None, None).await.unwrap());
    assert_eq!(store.target(id).await.unwrap().state, TargetState::Merged);
}

pub(super) async fn closing_cancels_what_is_queued(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3"]).await;
    let id = campaign().id;
    let later = NewTarget { wave: 4, ..new_target("acme/4", "a") };
    store.add_targets(&id, &[later]).await.unwrap();
    let (running, lease) = claimed(&store, "w").await;
    assert_eq!(store.cancel_jobs(&id, "closed").await.unwrap(), 3);
    assert_eq!(claim(&store, "w").await, None);
    let running: i64 = running.subject.parse().unwrap();
    for target in store.view(&id).await.unwrap().targets {
        let superseded = target.state == TargetState::Superseded;
        assert_eq!(superseded, target.id != running, "{target:?}");
    }
    store.end_job(&lease, &JobEnd::Done).await.unwrap();
}

pub(super) async fn a_damaged_row_is_told_and_nothing_is_written(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2"]).await;
    let id = campaign().id;
    let before = store.view(&id).await.unwrap().targets;
    db.sql("UPDATE jobs SET subject = 'nobody' WHERE subject = (SELECT MIN(subject) FROM jobs)")
        .await;
    let told = store.cancel_jobs(&id, "closed").await.unwrap_err().to_string();
    assert!(told.contains("`nobody` in `subject`"), "{told}");
    assert_eq!(store.view(&id).await.unwrap().targets, before, "nothing was cancelled");
}

pub(super) async fn events_come_in_order_and_in_pages(db: &Db) {
    let store = db.open().await;
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    for number in 0..5 {
        store.record(&id, None, "note", Some(&format!("event {number}"))).await.unwrap();
    }
    store.record("another", None, "note", None).await.unwrap();
    let first = store.events(&id, 0, 3).await.unwrap();
    let rest = store.events(&id, first[2].id, 100).await.unwrap();
    let texts: Vec<&str> =
        first.iter().chain(&rest).filter_map(|event| event.text.as_deref()).collect();
    assert_eq!(texts, ["event 0", "event 1", "event 2", "event 3", "event 4"]);
}

pub(crate) fn delivery(guid: &str) -> Delivery {
    Delivery {
        guid: guid.to_owned(),
        event: "issues".to_owned(),
        action: Some("labeled".to_owned()),
        repository: Some("acme/one".to_owned()),
        number: Some(4),
        installation: None,
        body: "{\"zen\": \"…\"}".to_owned(),
        received_at: 17,
    }
}

pub(crate) fn delivery_job(delivery: &Delivery) -> NewJob {
    NewJob {
        kind: JobKind::Delivery,
        key: format!("delivery:{}", delivery.guid),
        campaign: None,
        subject: delivery.guid.clone(),
        lane: None,
        organization: None,
        priority: 0,
        max_attempts: 3,
        reserve_usd: 0.0,
        run_at: 0,
    }
}

pub(super) async fn deliveries_are_stored_once(db: &Db) {
    let store = db.open().await;
    let all = [delivery("a"), delivery("b"), delivery("a")];
    assert_eq!(store.put_deliveries(&all, &delivery_job).await.unwrap(), [true, true, false]);
    let again = [delivery("b"), delivery("c")];
    assert_eq!(store.put_deliveries(&again, &delivery_job).await.unwrap(), [false, true]);
    // One that was given up is begun anew when it comes again, and one that was done is not.
    for (state, expected) in [("dead", true), ("failed", true), ("done", false)] {
        db.sql(&format!("UPDATE jobs SET state = '{state}', attempt = 4 WHERE subject = 'b'"))
            .await;
        db.sql("UPDATE deliveries SET body = '' WHERE guid = 'b'").await;
        let known = store.put_deliveries(&[delivery("b")], &delivery_job).await.unwrap();
        assert_eq!(known, [expected], "{state}");
        let stored = store.delivery("b").await.unwrap().body;
        assert_eq!(stored == delivery("b").body, expected, "{state}: {stored}");
    }
    db.sql("UPDATE jobs SET state = 'queued', attempt = 0 WHERE subject = 'b'").await;
    assert_eq!(store.delivery("a").await.unwrap(), delivery("a"));
    assert!(matches!(store.delivery("z").await, Err(StoreError::NotFound(_))));
    let asked: Vec<String> = (0..500).map(|n| format!("x{n}")).chain(["c".to_owned()]).collect();
    assert_eq!(store.known_deliveries(&asked).await.unwrap(), ["c"]);
    assert!(store.known_deliveries(&[]).await.unwrap().is_empty());
    let counts = store.job_counts().await.unwrap();
    assert_eq!(counts[&(JobKind::Delivery, "queued".to_owned())], 3);
}

pub(super) async fn schedules_fire_once_and_values_are_kept(db: &Db) {
    let (store, other) = (db.open().await, db.open().await);
    assert_eq!(store.last_fired("nightly").await.unwrap(), None);
    assert!(store.fire_once("nightly", "2026-11-20T02:00").await.unwrap());
    assert!(!other.fire_once("nightly", "2026-11-20T02:00").await.unwrap());
    assert!(other.fire_once("nightly", "2026-11-21T02:00").await.unwrap());
    assert!(other.fire_once("weekly", "2026-11-20T02:00").await.unwrap());
    assert_eq!(store.last_fired("nightly").await.unwrap().unwrap(), "2026-11-21T02:00");
    assert_eq!(store.value("cursor").await.unwrap(), None);
    store.set_value("cursor", "1").await.unwrap();
    other.set_value("cursor", "2").await.unwrap();
    assert_eq!(store.value("cursor").await.unwrap().as_deref(), Some("2"));
}

/// A target's repository, when nothing more is known of it than its name.
fn by_name(target: &patchwright_types::campaign::Target) -> KnownRepository {
    KnownRepository { id: target.repository_id.clone(), name: target.repository.clone() }
}

pub(super) async fn a_repository_comes_by_its_id(db: &Db) {
    let store = db.open().await;
    let mine = campaign().id;
    // Written down when nobody knew its id, by the name that it had then.
    queued(&store, &campaign(), &["acme/then"]).await;
    let file = Db::sqlite();
    let other = file.open().await;
    queued(&other, &campaign(), &["acme/then", "acme/not-ours"]).await;
    let mut ended_here = 0;
    while let Some((job, lease)) = claim(&other, "w").await {
        let id = job.subject.parse().unwrap();
        other.begin_target(&lease, id, &format!("run-{id}")).await.unwrap();
        let target = other.target(id).await.unwrap();
        let (end, change) = (ended(TargetState::Held), changeset(&target));
        other.end_target(&lease, id, &end, Some(&change), None, &JobEnd::Done).await.unwrap();
        ended_here += 1;
    }
    assert_eq!(ended_here, 2);
    let now = |target: &patchwright_types::campaign::Target| {
        if target.repository != "acme/then" {
            return Err("not selected".to_owned());
        }
        Ok(KnownRepository { id: Some("R_1".to_owned()), name: "acme/now".to_owned() })
    };
    for (came, refused) in [(1, 1), (0, 0)] {
        let report = store.import(&other, (&mine, &mine), &now).await.unwrap();
        assert_eq!((report.came, report.refused.len(), report.repeated), (came, refused, 0));
    }
    let view = store.view(&mine).await.unwrap();
    let names: Vec<_> = view.targets.iter().map(|one| one.repository.as_str()).collect();
    assert_eq!(names, ["acme/not-ours", "acme/now"], "one row each");
    let now = &view.targets[1];
    assert_eq!((now.repository_id.as_deref(), now.state), (Some("R_1"), TargetState::Held));
    let change = store.changeset(now.id).await.unwrap().unwrap();
    assert_eq!(change.repository, "acme/now", "its change goes with it");
    // What was refused was paid for as well.
    let paid: f64 = view.targets.iter().map(|one| one.cost_usd).sum();
    assert!((paid - 1.0).abs() < 1e-9, "{paid}");
    assert!((view.campaign.spent_usd - paid).abs() < 1e-9, "{}", view.campaign.spent_usd);
}

pub(super) async fn shards_come_together(db: &Db) {
    let store = db.open().await;
    let all = ["acme/1", "acme/2", "acme/3"];
    // The campaign is known here, one target has come further already.
    queued(&store, &campaign(), &["acme/1"]).await;
    let (job, lease) = claimed(&store, "w").await;
    let end = ended(TargetState::Open);
    let here: i64 = job.subject.parse().unwrap();
    store.end_target(&lease, here, &end, None, None, &JobEnd::Done).await.unwrap();
    for (shard, failed) in [("acme/2", false), ("acme/3", true)] {
        let file = Db::sqlite();
        let other = file.open().await;
        queued(&other, &campaign(), &all).await;
        while let Some((job, lease)) = claim(&other, "w").await {
            let id = job.subject.parse().unwrap();
            let target = other.target(id).await.unwrap();
            if target.repository != shard {
                continue;
            }
            other.begin_target(&lease, id, "run-1").await.unwrap();
            let state = if failed { TargetState::Failed } else { TargetState::Held };
            let end = TargetEnd { class: failed.then_some(ErrorClass::Checks), ..ended(state) };
            let change = changeset(&target);
            let change = (!failed).then_some(&change);
            other.end_target(&lease, id, &end, change, None, &JobEnd::Done).await.unwrap();
        }
        other.close().await;
        let other = file.open().await;
        let mine = campaign().id;
        let came =
            store.import(&other, (&mine, &mine), &|target| Ok(by_name(target))).await.unwrap();
        assert!(came.came >= 1 && came.refused.is_empty(), "{shard}: {came:?}");
        assert_eq!(
            store.import(&other, (&mine, &mine), &|target| Ok(by_name(target))).await.unwrap().came,
            0,
            "once"
        );
    }
    let targets = store.view(&campaign().id).await.unwrap().targets;
    let states: Vec<_> = targets.iter().map(|target| target.state).collect();
    assert_eq!(states, [TargetState::Open, TargetState::Held, TargetState::Failed]);
    assert_eq!(targets[2].class, Some(ErrorClass::Checks));
    assert_eq!((targets[1].run.as_deref(), targets[1].attempts), (Some("run-1"), 1));
    let change = store.changeset(targets[1].id).await.unwrap().unwrap();
    assert_eq!((change.target, change.pack.len()), (targets[1].id, 4));
    assert!((store.campaign(&campaign().id).await.unwrap().spent_usd - 1.5).abs() < 1e-9);
    let events = store.events(&campaign().id, 0, 100).await.unwrap();
    assert!(events.iter().any(|event| event.target == Some(targets[1].id) && event.kind == "held"));
    assert_eq!(store.publish_held(&campaign().id, &[], &publish_job).await.unwrap(), 1);
}

pub(super) async fn what_was_run_twice_counts_twice(db: &Db) {
    let store = db.open().await;
    store.put_campaign(&campaign()).await.unwrap();
    let mine = campaign().id;
    // Two databases that ran the same repository, and each of them comes twice.
    let files = [Db::sqlite(), Db::sqlite()];
    for (file, run) in files.iter().zip(["run-a", "run-b"]) {
        let other = file.open().await;
        queued(&other, &campaign(), &["acme/1"]).await;
        let (job, lease) = claimed(&other, "w").await;
        let id = job.subject.parse().unwrap();
        other.begin_target(&lease, id, run).await.unwrap();
        let end = TargetEnd { run: Some(run.to_owned()), ..ended(TargetState::Unchanged) };
        other.end_target(&lease, id, &end, None, None, &JobEnd::Done).await.unwrap();
        other.close().await;
    }
    let mut came = Vec::new();
    for file in files.iter().chain(&files) {
        let other = file.open().await;
        let imported =
            store.import(&other, (&mine, &mine), &|target| Ok(by_name(target))).await.unwrap();
        came.push((imported.came, imported.repeated));
        other.close().await;
    }
    assert_eq!(came, [(1, 0), (0, 1), (0, 0), (0, 0)]);
    let view = store.view(&mine).await.unwrap();
    assert_eq!((view.targets.len(), view.targets[0].run.as_deref()), (1, Some("run-a")));
    assert!((view.campaign.spent_usd - 1.0).abs() < 1e-9, "{}", view.campaign.spent_usd);
    assert!((view.targets[0].cost_usd - 1.0).abs() < 1e-9, "{}", view.targets[0].cost_usd);
}

pub(super) async fn jobs_of_some_repositories_are_claimed_and_no_others(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "other/3"]).await;
    let id = campaign().id;
    let claim = async |wanted: &(dyn Fn(&str) -> bool + Sync)| {
        let claimed = store.claim_some("w", &[JobKind::Target], (&id, wanted), 60_000).await;
        claimed.unwrap().map(|(job, _)| job.subject)
    };
    let of = async |name: &str| Some(target_of(&store, name).await.id.to_string());
    assert_eq!(claim(&|name: &str| name == "other/3").await, of("other/3").await);
    assert_eq!(claim(&|name: &str| name == "other/3").await, None, "it is taken");
    assert_eq!(claim(&|name: &str| name == "acme/2").await, of("acme/2").await);
    store.set_campaign_state(&id, CampaignState::Paused, None).await.unwrap();
    assert_eq!(claim(&|_| true).await, None, "the campaign is paused");
    store.set_campaign_state(&id, CampaignState::Running, None).await.unwrap();
    assert_eq!(claim(&|_| true).await, of("acme/1").await);
}

pub(super) async fn what_another_database_says_is_bounded(db: &Db) {
    let store = db.open().await;
    store.put_campaign(&campaign()).await.unwrap();
    let file = Db::sqlite();
    let other = file.open().await;
    queued(&other, &campaign(), &["acme/1", "acme/2", "acme/3", "evil/4"]).await;
    let mut foreign = campaign();
    foreign.id = "other-000000000000".to_owned();
    queued(&other, &foreign, &["acme/9"]).await;
    other.close().await;
    file.sql("UPDATE targets SET state = 'held', cost_usd = -5, wave = -3, attempts = -1").await;
    file.sql("UPDATE targets SET state = 'open', pull_request = 1 WHERE repository = 'acme/2'")
        .await;
    file.sql(
        "UPDATE targets SET state = 'unchanged', url = 'https://evil.example', pull_request = 7
         WHERE repository = 'acme/3'",
    )
    .await;
    let other = file.open().await;
    let not_ours = |target: &patchwright_types::campaign::Target| {
        if target.repository.starts_with("evil/") {
            return Err("not selected".to_owned());
        }
        Ok(by_name(target))
    };
    let came = store.import(&other, (&campaign().id, &campaign().id), &not_ours).await.unwrap();
    assert_eq!(came.came, 2, "what is open is not believed, other campaigns do not come");
    assert_eq!(came.refused, [("evil/4".to_owned(), "not selected".to_owned())]);
    let view = store.view(&campaign().id).await.unwrap();
    let seen: Vec<_> = view
        .targets
        .iter()
        .map(|target| (target.repository.as_str(), target.state, target.class))
        .collect();
    assert_eq!(
        seen,
        [
            ("acme/1", TargetState::Held, None),
            ("acme/3", TargetState::Unchanged, None),
            ("evil/4", TargetState::Failed, Some(ErrorClass::Policy)),
        ]
    );
    assert!(view.campaign.spent_usd.abs() < 1e-9, "nobody is paid back");
    let unchanged = &view.targets[1];
    assert_eq!((unchanged.url.as_deref(), unchanged.pull_request), (None, None));
    assert_eq!((unchanged.wave, unchanged.attempts), (0, 0));
    assert_eq!(store.campaigns(None).await.unwrap().len(), 1);
}

pub(super) async fn a_worker_of_one_campaign_takes_no_job_of_another(db: &Db) {
    let store = db.open().await;
    let mut other = campaign();
    other.id = "other-000000000000".to_owned();
    queued(&store, &other, &["acme/9"]).await;
    let of = async |id: &str| {
        store.claim_of("w", JobKind::ALL, Some(id), 60_000).await.unwrap().map(|(job, _)| job)
    };
    assert_eq!(of(&campaign().id).await, None);
    assert_eq!(of(&other.id).await.unwrap().campaign, Some(other.id.clone()));
}

pub(super) async fn what_has_ended_long_ago_is_removed(db: &Db) {
    let store = db.open().await;
    let job_of = |delivery: &Delivery| NewJob {
        kind: JobKind::Delivery,
        key: format!("delivery:{}", delivery.guid),
        campaign: None,
        subject: delivery.guid.clone(),
        lane: None,
        organization: None,
        priority: 0,
        max_attempts: 4,
        reserve_usd: 0.0,
        run_at: 0,
    };
    let all: Vec<Delivery> = (0..1_200)
        .map(|number| Delivery {
            guid: format!("g{number}"),
            event: "issues".to_owned(),
            action: None,
            repository: Some("acme/app".to_owned()),
            number: Some(7),
            installation: None,
            body: "{\"private\": true}".to_owned(),
            received_at: 1,
        })
        .collect();
    store.put_deliveries(&all, &job_of).await.unwrap();
    db.sql("UPDATE jobs SET state = 'done', updated_at = 1 WHERE subject <> 'g7'").await;
    let now = store.now().await.unwrap();
    db.sql(&format!("UPDATE deliveries SET received_at = {now} WHERE guid = 'g8'")).await;
    db.sql(&format!("UPDATE jobs SET updated_at = {now} WHERE subject = 'g8'")).await;
    queued(&store, &campaign(), &["acme/1"]).await;
    db.sql("UPDATE events SET at = 1").await;
    store.set_value("issue:acme/app#7", &format!("{} g1", now - 3_700_000)).await.unwrap();
    store.set_value("issue:acme/app#8", &format!("{now} g8")).await.unwrap();
    store.prune(3_600_000).await.unwrap();
    assert_eq!(store.value("issue:acme/app#7").await.unwrap(), None);
    assert!(store.value("issue:acme/app#8").await.unwrap().is_some());
    assert!(store.delivery("g1").await.is_err());
    assert!(store.delivery("g7").await.unwrap().body.contains("private"), "it waits");
    assert_eq!(store.delivery("g8").await.unwrap().body, "", "worked off just now");
    let jobs = store.job_counts().await.unwrap();
    assert_eq!(jobs[&(JobKind::Delivery, "done".to_owned())], 1);
    assert_eq!(jobs[&(JobKind::Delivery, "queued".to_owned())], 1);
    let events = async || store.events(&campaign().id, 0, 100).await.unwrap().len();
    assert!(events().await > 0, "the campaign is running");
    store.record(&campaign().id, None, "answer", Some("yes")).await.unwrap();
    db.sql("UPDATE campaigns SET state = 'done'").await;
    db.sql("UPDATE events SET at = 1").await;
    store.prune(3_600_000).await.unwrap();
    assert_eq!(events().await, 1, "answers stay");
    assert_eq!(store.prune(3_600_000).await.unwrap(), 0);
}

pub(super) async fn reviews_that_nobody_asked_for_are_counted_before_they_are_paid(db: &Db) {
    let store = db.open().await;
    let caps = ReviewCaps { per_pull_request: 2, per_author: 3, per_day: 4 };
    let ask = async |number, author, head: &str| {
        let wish = PaidReview { repository: "Acme/app", number, author, head };
        match store.begin_review(&wish, &caps).await.unwrap() {
            ReviewSlot::Free => "free".to_owned(),
            ReviewSlot::Full { limit, is_first } => format!("{limit} {is_first}"),
        }
    };
    for (number, author, head, wanted) in [
        (1, "eve", "a", "free"),
        (1, "eve", "a", "free"),
        (1, "eve", "b", "free"),
        (1, "eve", "c", "per-pull-request true"),
        (1, "eve", "d", "per-pull-request false"),
        (1, "eve", "b", "free"),
        (2, "Eve", "e", "free"),
        (2, "EVE", "f", "per-author true"),
        (3, "bob", "g", "free"),
        (3, "bob", "h", "per-day true"),
    ] {
        assert_eq!(ask(number, author, head).await, wanted, "{number} {author} {head}");
    }
    let other = PaidReview { repository: "acme/two", number: 1, author: "eve", head: "a" };
    assert_eq!(store.begin_review(&other, &caps).await.unwrap(), ReviewSlot::Free);
    // A day later.
    let old = store.now().await.unwrap() - 25 * 3_600_000;
    let value = store.value("reviews:acme/app").await.unwrap().unwrap();
    let mut book: serde_json::Value = serde_json::from_str(&value).unwrap();
    for begun in book["begun"].as_array_mut().unwrap() {
        begun["at"] = old.into();
    }
    store.set_value("reviews:acme/app", &book.to_string()).await.unwrap();
    assert_eq!(ask(1, "eve", "z").await, "free");
}

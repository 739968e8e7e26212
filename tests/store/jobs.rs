//! Claims, leases, limits, attempts, races.

use std::sync::Arc;

use patchwright_fleet::store::ListenEnd;
use patchwright_types::campaign::{
    CampaignRow, CampaignState, ErrorClass, JobEnd, JobKind, NewJob, TargetState,
};

use super::{
    Db, campaign, changeset, claim, claimed, ended, is_lost, publish_job, queued, target_job,
    target_of,
};

pub(super) async fn a_key_has_one_job(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let target = target_of(&store, "acme/one").await;
    assert!(!store.enqueue(&target_job(&target)).await.unwrap());
    let (_, lease) = claimed(&store, "w1").await;
    assert!(!store.enqueue(&target_job(&target)).await.unwrap());
    store.end_job(&lease, &JobEnd::Done).await.unwrap();
    assert!(!store.enqueue(&target_job(&target)).await.unwrap(), "whatever became of it");
    assert_eq!(claim(&store, "w1").await, None);
    assert_eq!(store.job_counts().await.unwrap()[&(JobKind::Target, "done".to_owned())], 1);
}

pub(super) async fn a_lane_has_one_runner(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let target = target_of(&store, "acme/one").await;
    let second = NewJob { key: "another".to_owned(), ..target_job(&target) };
    assert!(store.enqueue(&second).await.unwrap());
    let (first, lease) = claimed(&store, "w1").await;
    assert_eq!(claim(&store, "w2").await, None, "the repository is being worked on");
    store.end_job(&lease, &JobEnd::Done).await.unwrap();
    let (next, _) = claimed(&store, "w2").await;
    assert_ne!(first.id, next.id);
}

pub(super) async fn a_campaign_has_its_limits(db: &Db) {
    let store = db.open().await;
    let limited = CampaignRow { concurrency: Some(3), per_organization: Some(2), ..campaign() };
    let all = ["acme/1", "acme/2", "ACME/3", "other/1", "other/2"];
    queued(&store, &limited, &all).await;
    let mut held = Vec::new();
    while let Some((job, lease)) = claim(&store, "w").await {
        let target = store.target(job.subject.parse().unwrap()).await.unwrap();
        held.push((target.repository, lease));
    }
    let names: Vec<&str> = held.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["acme/1", "acme/2", "other/1"], "two of an owner, three in all");
    store.end_job(&held[2].1, &JobEnd::Done).await.unwrap();
    let (job, _) = claimed(&store, "w").await;
    assert_eq!(store.target(job.subject.parse().unwrap()).await.unwrap().repository, "other/2");
    // A publisher is no run.
    let target = target_of(&store, "acme/1").await;
    assert!(store.enqueue(&publish_job(&target)).await.unwrap());
    assert_eq!(claimed(&store, "w").await.0.kind, JobKind::Publish);
    // Another limit counts from the next claim on.
    let wider = CampaignRow { concurrency: Some(10), per_organization: None, ..limited };
    store.put_campaign(&wider).await.unwrap();
    claimed(&store, "w").await;
}

pub(super) async fn a_budget_is_reserved_before_it_is_spent(db: &Db) {
    let store = db.open().await;
    let poor = CampaignRow { budget_usd: Some(2.5), ..campaign() };
    queued(&store, &poor, &["acme/1", "acme/2", "acme/3", "acme/4"]).await;
    let (job, first) = claimed(&store, "w").await;
    claimed(&store, "w").await;
    assert_eq!(claim(&store, "w").await, None, "two dollars of 2.5 are reserved");
    let target = job.subject.parse().unwrap();
    let end = ended(TargetState::Unchanged);
    store.end_target(&first, target, &end, None, None, &JobEnd::Done).await.unwrap();
    assert!((store.campaign(&poor.id).await.unwrap().spent_usd - 0.5).abs() < 1e-9);
    let (_, third) = claimed(&store, "w").await;
    assert_eq!(claim(&store, "w").await, None, "0.5 are spent, two reserved");
    store.end_job(&third, &JobEnd::Failed { why: "no".to_owned() }).await.unwrap();
    let richer = CampaignRow { budget_usd: Some(100.0), ..poor };
    store.put_campaign(&richer).await.unwrap();
    claimed(&store, "w").await;
}

pub(super) async fn what_is_paused_waits_and_priorities_count(db: &Db) {
    let store = db.open().await;
    let campaign = campaign();
    queued(&store, &campaign, &["acme/1", "acme/2"]).await;
    let target = target_of(&store, "acme/2").await;
    assert!(store.enqueue(&publish_job(&target)).await.unwrap());
    let paused = CampaignState::Paused;
    assert!(
        store.set_campaign_state(&campaign.id, paused, Some("too many failures")).await.unwrap()
    );
    assert!(!store.set_campaign_state(&campaign.id, paused, None).await.unwrap());
    assert_eq!(claim(&store, "w").await, None);
    let delivery = NewJob {
        kind: JobKind::Delivery,
        key: "delivery:1".to_owned(),
        campaign: None,
        priority: 5,
        lane: None,
        ..target_job(&target)
    };
    let later = NewJob { key: "delivery:2".to_owned(), run_at: i64::MAX, ..delivery.clone() };
    assert!(store.enqueue(&later).await.unwrap());
    assert!(store.enqueue(&delivery).await.unwrap());
    let all = [JobKind::Target, JobKind::Publish, JobKind::Delivery];
    let (job, _) = store.claim("w", &all, 60_000).await.unwrap().unwrap();
    assert_eq!(job.kind, JobKind::Delivery, "it belongs to no campaign");
    assert_eq!(store.claim("w", &all, 60_000).await.unwrap(), None);
    store.set_campaign_state(&campaign.id, CampaignState::Running, None).await.unwrap();
    let mut kinds = Vec::new();
    while let Some((job, _)) = store.claim("w", &all, 60_000).await.unwrap() {
        kinds.push(job.kind);
    }
    assert_eq!(kinds, [JobKind::Target, JobKind::Target, JobKind::Publish]);
}

pub(super) async fn a_lost_lease_writes_nothing(db: &Db) {
    let (store, other) = (db.open().await, db.open().await);
    queued(&store, &campaign(), &["acme/one"]).await;
    let (job, old) = claimed(&store, "w1").await;
    let target: i64 = job.subject.parse().unwrap();
    store.begin_target(&old, target, "run-1").await.unwrap();
    assert!(store.remaining(&old).await.unwrap() > 50_000);
    db.expire().await;
    assert!(store.remaining(&old).await.unwrap() <= 0, "run out, but nobody else has it");
    let (again, new) = claimed(&other, "w2").await;
    assert_eq!((again.id, again.attempt), (job.id, 2));
    assert_eq!(new.epoch, old.epoch + 1);
    other.begin_target(&new, target, "run-2").await.unwrap();

    let before = store.target(target).await.unwrap();
    let events = store.events(&campaign().id, 0, 100).await.unwrap().len();
    let (end, change) = (ended(TargetState::Ready), changeset(&before));
    let publish = publish_job(&before);
    assert!(is_lost(&store.renew(&old).await));
    assert!(is_lost(&store.remaining(&old).await));
    assert!(is_lost(&store.begin_target(&old, target, "run-1").await));
    assert!(is_lost(&store.begin_publishing(&old, target).await));
    assert!(is_lost(&store.end_job(&old, &JobEnd::Done).await));
    let written =
        store.end_target(&old, target, &end, Some(&change), Some(&publish), &JobEnd::Done);
    assert!(is_lost(&written.await));
    // The same owner's name does not help, nor does the right epoch with another name.
    let mixed = patchwright_types::campaign::Lease { owner: "w1".to_owned(), ..new.clone() };
    assert!(is_lost(&store.end_job(&mixed, &JobEnd::Done).await));
    assert_eq!(store.target(target).await.unwrap(), before);
    assert_eq!(store.changeset(target).await.unwrap(), None);
    assert_eq!(store.events(&campaign().id, 0, 100).await.unwrap().len(), events);
    assert!(store.campaign(&campaign().id).await.unwrap().spent_usd.abs() < 1e-9);

    other.renew(&new).await.unwrap();
    other.end_job(&new, &JobEnd::Done).await.unwrap();
    assert!(is_lost(&other.end_job(&new, &JobEnd::Done).await), "it has ended");
}

pub(super) async fn a_late_renewal_counts_unless_the_lane_was_given_away(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let (_, lease) = claimed(&store, "w1").await;
    db.expire().await;
    store.renew(&lease).await.unwrap();
    assert!(store.remaining(&lease).await.unwrap() > 50_000);
    assert_eq!(claim(&store, "w2").await, None);

    let target = target_of(&store, "acme/one").await;
    let urgent = NewJob { key: "urgent".to_owned(), priority: 9, ..target_job(&target) };
    assert!(store.enqueue(&urgent).await.unwrap());
    db.expire().await;
    let (job, _) = claimed(&store, "w2").await;
    assert_ne!(job.id, lease.job);
    assert!(is_lost(&store.renew(&lease).await), "two would work on one repository");
}

pub(super) async fn a_job_whose_workers_die_is_buried(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one", "acme/two"]).await;
    for attempt in 1..=3 {
        let (job, _) = claimed(&store, "doomed").await;
        assert_eq!(job.attempt, attempt);
        db.sql("UPDATE jobs SET lease_until = 1, priority = 1 WHERE state = 'running'").await;
    }
    let (job, _) = claimed(&store, "w").await;
    let other = target_of(&store, "acme/two").await;
    assert_eq!(job.subject, other.id.to_string(), "the next one goes on");
    let target = target_of(&store, "acme/one").await;
    assert_eq!(target.state, TargetState::Failed);
    assert_eq!(target.class, Some(ErrorClass::Lost));
    assert_eq!(store.job_counts().await.unwrap()[&(JobKind::Target, "dead".to_owned())], 1);
    assert_eq!(claim(&store, "w").await, None);
}

pub(super) async fn attempts_are_counted_and_released_ones_are_not(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let id = target_of(&store, "acme/one").await.id;
    for _ in 0..5 {
        let (job, lease) = claimed(&store, "draining").await;
        assert_eq!(job.attempt, 1);
        store.begin_target(&lease, id, "run").await.unwrap();
        store.end_job(&lease, &JobEnd::Released).await.unwrap();
        let target = store.target(id).await.unwrap();
        assert_eq!((target.state, target.attempts), (TargetState::Queued, 0));
    }
    let retry = |after| JobEnd::Retry { after, why: "clone: timed out".to_owned() };
    for attempt in 1..=2 {
        let (job, lease) = claimed(&store, "w").await;
        assert_eq!(job.attempt, attempt);
        store.begin_target(&lease, id, "run").await.unwrap();
        store.end_job(&lease, &retry(0)).await.unwrap();
        assert_eq!(store.target(id).await.unwrap().state, TargetState::Queued);
    }
    let (_, lease) = claimed(&store, "w").await;
    store.begin_target(&lease, id, "run").await.unwrap();
    let queued = ended(TargetState::Queued);
    store.end_target(&lease, id, &queued, None, None, &retry(0)).await.unwrap();
    let target = store.target(id).await.unwrap();
    assert_eq!((target.state, target.attempts), (TargetState::Failed, 3));
    assert_eq!(target.reason.as_deref(), Some("clone: timed out"));
    assert_eq!(claim(&store, "w").await, None);

    // One that may be tried again waits first.
    let one = NewJob { key: "later".to_owned(), ..target_job(&target) };
    assert!(store.enqueue(&one).await.unwrap());
    let (_, lease) = claimed(&store, "w").await;
    store.end_job(&lease, &retry(3_600_000)).await.unwrap();
    assert_eq!(claim(&store, "w").await, None);
}

pub(super) async fn the_last_attempt_fails_the_target_too(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let id = target_of(&store, "acme/one").await.id;
    for state in [TargetState::Queued, TargetState::Queued, TargetState::Failed] {
        let (_, lease) = claimed(&store, "w").await;
        store.begin_target(&lease, id, "run").await.unwrap();
        let retry = JobEnd::Retry { after: 0, why: "clone: timed out".to_owned() };
        store.end_job(&lease, &retry).await.unwrap();
        let target = store.target(id).await.unwrap();
        assert_eq!((target.state, target.reason.as_deref()), (state, Some("clone: timed out")));
    }
    assert_eq!(claim(&store, "w").await, None);
}

pub(super) async fn what_a_target_waits_for_is_said_when_it_is_news(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let id = target_of(&store, "acme/one").await.id;
    let events = async || store.events(&campaign().id, 0, 100).await.unwrap().len();
    for (why, is_news) in
        [("the window is closed", true), ("the window is closed", false), ("no budget", true)]
    {
        let before = events().await;
        let (_, lease) = claimed(&store, "w").await;
        let later = JobEnd::Later { after: 0, why: why.to_owned() };
        store.end_job(&lease, &later).await.unwrap();
        let target = store.target(id).await.unwrap();
        assert_eq!((target.state, target.reason.as_deref()), (TargetState::Queued, Some(why)));
        assert_eq!(events().await > before, is_news, "{why}");
    }
}

pub(super) async fn clocks_that_jump_wedge_nothing(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one", "acme/two"]).await;
    let (first, _) = claimed(&store, "died").await;
    // It was taken when the clock was a year ahead, and its worker is dead.
    let year = 31_536_000_000_i64;
    let ahead = format!(
        "UPDATE jobs SET lease_until = lease_until + {year}, updated_at = updated_at + {year},
            run_at = updated_at + {year}"
    );
    db.sql(&ahead).await;
    let (again, _) = claimed(&store, "w").await;
    let (other, lease) = claimed(&store, "w").await;
    let mut ids = [again.id, other.id];
    ids.sort_unstable();
    assert!(ids.contains(&first.id) && ids[0] != ids[1], "leases and times ahead are void");
    // A clock that went ahead makes a lease look run out; its holder renews it in time.
    db.expire().await;
    store.renew(&lease).await.unwrap();
    assert!(store.remaining(&lease).await.unwrap() > 50_000);
    // One that went back a little takes nothing away from its holder.
    db.sql("UPDATE jobs SET lease_until = lease_until + 30000").await;
    store.renew(&lease).await.unwrap();
    assert!(store.remaining(&lease).await.unwrap() <= 60_000);
}

pub(super) async fn racers_have_one_winner(db: &Db) {
    const RACERS: usize = 8;
    const ROUNDS: usize = 25;
    let store = db.open().await;
    let mut stores = Vec::new();
    for _ in 0..RACERS {
        stores.push(db.open().await);
    }
    for round in 0..ROUNDS {
        let job = NewJob {
            kind: JobKind::Delivery,
            key: format!("delivery:{round}"),
            campaign: None,
            subject: round.to_string(),
            lane: None,
            organization: None,
            priority: 0,
            max_attempts: 3,
            reserve_usd: 0.0,
            run_at: 0,
        };
        assert!(store.enqueue(&job).await.unwrap());
        let line = Arc::new(tokio::sync::Barrier::new(RACERS));
        let racers: Vec<_> = stores
            .iter()
            .cloned()
            .enumerate()
            .map(|(racer, store)| {
                let line = Arc::clone(&line);
                tokio::spawn(async move {
                    line.wait().await;
                    store.claim(&format!("racer {racer}"), &[JobKind::Delivery], 60_000).await
                })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            winners.extend(racer.await.unwrap().unwrap());
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        store.end_job(&winners[0].1, &JobEnd::Done).await.unwrap();
    }
}

pub(super) async fn what_is_left_is_told(db: &Db) {
    let store = db.open().await;
    let kinds = [JobKind::Target, JobKind::Publish];
    let left = || async { store.outlook(&kinds).await.unwrap() };
    assert_eq!(left().await.waiting + left().await.running, 0);
    let poor = CampaignRow { budget_usd: Some(1.2), ..campaign() };
    queued(&store, &poor, &["acme/1", "acme/2"]).await;
    assert_eq!((left().await.waiting, left().await.next_in), (2, Some(0)));
    let (job, lease) = claimed(&store, "w").await;
    assert_eq!((left().await.waiting, left().await.running), (1, 1));
    let end = ended(TargetState::Unchanged);
    let target = job.subject.parse().unwrap();
    store.end_target(&lease, target, &end, None, None, &JobEnd::Done).await.unwrap();
    assert_eq!((left().await.waiting, left().await.running), (0, 0), "no money is left for it");
    let rich = CampaignRow { budget_usd: None, ..poor };
    store.put_campaign(&rich).await.unwrap();
    assert_eq!(left().await.waiting, 1);
    store.set_campaign_state(&rich.id, CampaignState::Paused, None).await.unwrap();
    assert_eq!(left().await.waiting, 0);
}

/// Each of many claims as long as it gets something.
async fn all_claim(db: &Db, racers: usize) -> Vec<patchwright_types::campaign::Job> {
    let line = Arc::new(tokio::sync::Barrier::new(racers));
    let mut tasks = Vec::new();
    for racer in 0..racers {
        let (store, line) = (db.open().await, Arc::clone(&line));
        tasks.push(tokio::spawn(async move {
            line.wait().await;
            let (owner, mut jobs) = (format!("racer {racer}"), Vec::new());
            while let Some((job, _)) = claim(&store, &owner).await {
                jobs.push(job);
            }
            jobs
        }));
    }
    let mut jobs = Vec::new();
    for task in tasks {
        jobs.extend(task.await.unwrap());
    }
    jobs
}

pub(super) async fn limits_hold_when_many_claim_at_once(db: &Db) {
    let store = db.open().await;
    let names: Vec<String> = (0..60).map(|number| format!("org{}/{number}", number % 3)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let limits = [
        ("runs", CampaignRow { concurrency: Some(7), ..campaign() }, 7),
        ("money", CampaignRow { budget_usd: Some(5.5), ..campaign() }, 5),
        ("owners", CampaignRow { per_organization: Some(2), ..campaign() }, 6),
    ];
    for (id, limited, most) in limits {
        let limited = CampaignRow { id: id.to_owned(), ..limited };
        // Lanes of their own, so that only the limit counts.
        let repositories: Vec<String> =
            names.iter().map(|name| name.replace('/', &format!("/{id}"))).collect();
        let repositories: Vec<&str> = repositories.iter().map(String::as_str).collect();
        queued(&store, &limited, &repositories).await;
        let taken = all_claim(db, 6).await;
        assert_eq!(taken.len(), most, "{id}");
    }
    // Two campaigns want the same repositories: each lane is given once.
    let first = CampaignRow { id: "first".to_owned(), ..campaign() };
    let second = CampaignRow { id: "second".to_owned(), ..campaign() };
    queued(&store, &first, &names).await;
    queued(&store, &second, &names).await;
    let mut subjects = Vec::new();
    for job in all_claim(db, 6).await {
        subjects.push(store.target(job.subject.parse().unwrap()).await.unwrap().repository);
    }
    subjects.sort();
    let mut once = subjects.clone();
    once.dedup();
    assert_eq!(subjects.len(), names.len());
    assert_eq!(subjects, once);
}

/// A full owner, a busy lane and jobs that are not due stand before everything else.
pub(super) async fn what_holds_back_many_holds_back_nobody_else(db: &Db) {
    let store = db.open().await;
    let limited = CampaignRow { per_organization: Some(1), ..campaign() };
    let mut names: Vec<String> = (0..30).map(|number| format!("big/{number}")).collect();
    names.push("small/1".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    queued(&store, &limited, &names).await;
    let target = target_of(&store, "big/0").await;
    let later = |key: &str| NewJob {
        key: key.to_owned(),
        lane: None,
        organization: None,
        priority: 50,
        run_at: i64::MAX,
        ..target_job(&target)
    };
    for number in 0..20 {
        assert!(store.enqueue(&later(&format!("later {number}"))).await.unwrap());
        let publish = NewJob { key: format!("publish {number}"), ..publish_job(&target) };
        assert!(store.enqueue(&publish).await.unwrap());
    }
    let other = NewJob {
        key: "another token".to_owned(),
        lane: Some("publish:other".to_owned()),
        run_at: 5,
        ..publish_job(&target)
    };
    assert!(store.enqueue(&other).await.unwrap());
    let mut found = Vec::new();
    while let Some((job, _)) = claim(&store, "w").await {
        let target = store.target(job.subject.parse().unwrap()).await.unwrap();
        found.push((job.kind, target.repository));
    }
    let expected = [
        (JobKind::Target, "big/0"),
        (JobKind::Publish, "big/0"),
        (JobKind::Target, "small/1"),
        (JobKind::Publish, "big/0"),
    ];
    let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
    let mut sorted = found.clone();
    sorted.sort_by(|a, b| a.1.cmp(&b.1));
    let mut wanted = expected.to_vec();
    wanted.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(sorted.len(), wanted.len(), "{found:?}");
    for each in wanted {
        assert!(found.contains(&each), "{each:?} in {found:?}");
    }
    // What is not due says when it will be.
    let soon =
        NewJob { key: "soon".to_owned(), run_at: store.now().await.unwrap() + 60_000, ..later("") };
    assert!(store.enqueue(&soon).await.unwrap());
    let due = store.next_due(&[JobKind::Target]).await.unwrap().expect("one is due");
    assert!((1..=60_000).contains(&due), "{due}");
    assert_eq!(store.next_due(&[JobKind::Delivery]).await.unwrap(), None);
}

pub(super) async fn news_of_work_is_told(db: &Db) {
    let (store, other) = (db.open().await, db.open().await);
    let patience = std::time::Duration::from_secs(30);
    let mut here = store.notifications();
    queued(&store, &campaign(), &["acme/one"]).await;
    tokio::time::timeout(patience, here.changed()).await.expect("in one process").unwrap();
    if store.is_file() {
        assert_eq!(other.listen(|| ()).await.unwrap(), ListenEnd::File);
        return;
    }
    let mut there = other.notifications();
    let (tell, told) = tokio::sync::oneshot::channel();
    let listener = tokio::spawn({
        let other = other.clone();
        async move { other.listen(|| tell.send(()).unwrap()).await }
    });
    tokio::time::timeout(patience, told).await.expect("it listens").unwrap();
    there.changed().await.unwrap();
    queued(&store, &CampaignRow { id: "next".to_owned(), ..campaign() }, &["acme/two"]).await;
    tokio::time::timeout(patience, there.changed()).await.expect("in another process").unwrap();
    // A pause is no news for a claim, its end is.
    let (_, _lease) = claimed(&store, "w").await;
    store.set_campaign_state("next", CampaignState::Paused, None).await.unwrap();
    there.mark_unchanged();
    store.set_campaign_state("next", CampaignState::Running, None).await.unwrap();
    tokio::time::timeout(patience, there.changed()).await.expect("it goes on").unwrap();
    listener.abort();
}

//! What pages are made of: how campaigns stand, what happened, what became of deliveries.

use patchwright_fleet::batch::history::history;
use patchwright_fleet::store::{Counted, EndedRun};
use patchwright_report::campaign::{PageOptions, page};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, Delivery, ErrorClass, JobEnd, JobKind, JobState, TargetEnd,
    TargetState,
};

use super::{Db, campaign, claimed, ended, new_target, queued};

pub(super) async fn campaigns_are_summed_up_without_being_read(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3"]).await;
    for (state, class) in
        [(TargetState::Failed, Some(ErrorClass::Clone)), (TargetState::Unchanged, None)]
    {
        let (job, lease) = claimed(&store, "w").await;
        let id = job.subject.parse().unwrap();
        store.begin_target(&lease, id, "run-1").await.unwrap();
        let end = TargetEnd { class, ..ended(state) };
        store.end_target(&lease, id, &end, None, None, &JobEnd::Done).await.unwrap();
    }
    // The newest target of a repository counts, and only that.
    store.add_targets(&campaign().id, &[new_target("Acme/1", "newer")]).await.unwrap();
    let done = CampaignRow { id: "done-1".to_owned(), ..campaign() };
    store.put_campaign(&done).await.unwrap();
    store.set_campaign_state(&done.id, CampaignState::Done, None).await.unwrap();
    let rows = store.campaign_summaries(10).await.unwrap();
    let numbers: Vec<_> =
        rows.iter().map(|row| (row.id.as_str(), row.targets, row.settled, row.failed)).collect();
    assert_eq!(numbers, [(campaign().id.as_str(), 3, 1, 0), ("done-1", 0, 0, 0)]);
    assert_eq!(rows[0].budget_usd, campaign().budget_usd);
    assert_eq!(store.campaign_summaries(1).await.unwrap().len(), 1, "what is not over comes first");
    let costs = store.campaign_costs(10).await.unwrap();
    assert_eq!(costs.len(), 2);
    assert!(costs.iter().any(|(id, _, usd)| *id == campaign().id && (*usd - 1.0).abs() < 1e-9));
}

pub(super) async fn a_history_is_complete_and_lists_the_newest(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2"]).await;
    let id = campaign().id;
    assert_eq!(store.newest_event("none").await.unwrap(), 0);
    let (job, lease) = claimed(&store, "w").await;
    let target = job.subject.parse().unwrap();
    store.begin_target(&lease, target, "run-1").await.unwrap();
    store.record(&id, Some(target), "answer", Some("an older answer")).await.unwrap();
    store.record(&id, Some(target), "answer", Some("the answer")).await.unwrap();
    let end = TargetEnd { class: Some(ErrorClass::Clone), ..ended(TargetState::Failed) };
    store.end_target(&lease, target, &end, None, None, &JobEnd::Done).await.unwrap();
    for number in 0..100 {
        store.record(&id, None, "wave", Some(&format!("filler {number}."))).await.unwrap();
    }
    let changes = store.state_changes(&id, 0, 100).await.unwrap();
    let states: Vec<_> = changes
        .iter()
        .filter(|change| change.target == target)
        .map(|change| change.state)
        .collect();
    assert_eq!(states, [TargetState::Queued, TargetState::Running, TargetState::Failed]);
    let last = changes.last().unwrap().event;
    assert!(store.state_changes(&id, last, 100).await.unwrap().is_empty());
    assert_eq!(store.answers(&id, 0, 9).await.unwrap(), [(target, "the answer".to_owned())]);
    assert!(store.answers(&id, target, 9).await.unwrap().is_empty());
    let newest = store.newest_events(&id, 2).await.unwrap();
    assert_eq!(newest[1].id, store.newest_event(&id).await.unwrap());
    let view = store.view(&id).await.unwrap();
    let html = page(&view, &history(&store, &view).await.unwrap(), &PageOptions::default());
    for (part, is_there) in [
        ("the answer", true),
        ("an older answer", false),
        ("filler 99.", true),
        ("filler 9.", false),
    ] {
        assert_eq!(html.contains(part), is_there, "{part}: {html}");
    }
}

pub(super) async fn what_became_of_a_delivery_is_told_by_its_job(db: &Db) {
    let store = db.open().await;
    let delivery = |guid: &str, at| Delivery {
        guid: guid.to_owned(),
        event: "issues".to_owned(),
        action: Some("labeled".to_owned()),
        repository: Some("acme/app".to_owned()),
        number: Some(7),
        installation: None,
        body: "{}".to_owned(),
        received_at: at,
    };
    let all: Vec<_> = (1..=5).map(|at| delivery(&format!("g{at}"), at)).collect();
    let config = patchwright_task::event::TriggerConfig::default();
    let job_of =
        |delivery: &Delivery| patchwright_fleet::server::deliver::job_of(delivery, &config);
    store
        .put_deliveries(&all, &|one| patchwright_types::campaign::NewJob {
            lane: None,
            ..job_of(one)
        })
        .await
        .unwrap();
    let ended = EndedRun {
        run: None,
        about: "issues.labeled".to_owned(),
        repository: "acme/app".to_owned(),
        number: Some(7),
        conclusion: "done".to_owned(),
        text: "done: opened #9".to_owned(),
        cost_usd: 0.0,
        milliseconds: 1,
    };
    for end in [
        JobEnd::Done,
        JobEnd::Failed { why: "it cannot be".to_owned() },
        JobEnd::Retry { after: 60_000, why: "not yet".to_owned() },
    ] {
        let (_, lease) =
            store.claim("w", &[JobKind::Delivery], 60_000).await.unwrap().expect("a job");
        store.end_delivery(&lease, &end, (&ended, Counted::AsItEnded)).await.unwrap();
    }
    store.claim("w", &[JobKind::Delivery], 60_000).await.unwrap().expect("a job");
    let rows = store.recent_deliveries(9).await.unwrap();
    let told: Vec<_> =
        rows.iter().map(|row| (row.guid.as_str(), row.state, row.text.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("g5", JobState::Queued, None),
            ("g4", JobState::Running, None),
            ("g3", JobState::Queued, Some("not yet")),
            ("g2", JobState::Failed, Some("it cannot be")),
            ("g1", JobState::Done, Some("done: opened #9")),
        ]
    );
    assert_eq!(store.recent_deliveries(2).await.unwrap().len(), 2);
}

pub(super) async fn a_lease_that_is_ended_can_be_claimed_and_its_holder_writes_nothing(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2"]).await;
    let (job, old) = claimed(&store, "dead").await;
    store.begin_target(&old, job.subject.parse().unwrap(), "run-1").await.unwrap();
    let (_, other) = claimed(&store, "alive").await;
    let held = store.held_leases().await.unwrap();
    assert_eq!(held.len(), 2);
    let dead: Vec<_> = held.into_iter().filter(|lease| lease.owner == "dead").collect();
    assert_eq!(store.end_leases(&dead, "taken over").await.unwrap(), 1);
    assert_eq!(store.end_leases(&dead, "taken over").await.unwrap(), 0, "once");
    let (again, lease) = claimed(&store, "heir").await;
    assert_eq!((again.id, again.attempt), (job.id, 2));
    assert!(super::is_lost(&store.end_job(&old, &JobEnd::Done).await));
    assert_eq!(store.end_leases(&dead, "taken over").await.unwrap(), 0, "another has it");
    store.renew(&lease).await.unwrap();
    store.renew(&other).await.unwrap();
    let events = store.newest_events(&campaign().id, 5).await.unwrap();
    let said = events.iter().filter(|event| event.text.as_deref() == Some("taken over"));
    assert_eq!(said.count(), 1, "{events:?}");
}

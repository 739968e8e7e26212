//! Services that fail for every job: when nothing is given out, who may look whether they work again.

use patchwright_base::error::Service;
use patchwright_fleet::store::{OutageEffect, OutageTimes, Store};
use patchwright_types::campaign::{CampaignState, JobEnd, Lease};

use super::{Db, campaign, claim, claimed, queued};

const TIMES: OutageTimes = OutageTimes {
    first: 60_000,
    longest: 300_000,
    patience_with_one: 3_600_000,
    patience: 24 * 3_600_000,
};

async fn cut(store: &Store, lease: &Lease, service: Service) -> OutageEffect {
    let cut = store.cut_off(lease, service, None, "502", TIMES).await.unwrap();
    let later = JobEnd::Later { after: 0, why: "502".to_owned() };
    store.end_job(lease, &later).await.unwrap();
    cut
}

/// The pause is over.
async fn pass(db: &Db) {
    assert!(db.sql("UPDATE outages SET until_at = 1").await > 0);
}

pub(super) async fn two_jobs_that_are_cut_off_stop_all_and_one_looks_again(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3", "acme/4"]).await;
    let (_, first) = claimed(&store, "a").await;
    let (_, second) = claimed(&store, "b").await;
    assert!(!cut(&store, &first, Service::ForgeApi).await.opened);
    let (_, third) = claimed(&store, "a").await;
    assert!(cut(&store, &second, Service::ForgeApi).await.opened);
    assert!(claim(&store, "b").await.is_none(), "nothing is given out");
    // One is let through, whoever asks, and what it finds decides.
    pass(db).await;
    let (probe, lease) = claimed(&store, "a").await;
    assert!(claim(&store, "b").await.is_none(), "one is enough");
    assert_eq!(probe.attempt, 1, "being cut off is no attempt");
    let again = cut(&store, &lease, Service::ForgeApi).await;
    assert!(!again.counts && again.next > 60_000, "{again:?}");
    assert!(claim(&store, "b").await.is_none());
    let view = store.view(&campaign().id).await.unwrap();
    assert_eq!((view.outages.len(), view.outages[0].service), (1, Service::ForgeApi));
    // A run that had begun before gets an answer.
    assert!(store.works_again(Service::ForgeApi, None).await.unwrap().is_some());
    assert!(store.works_again(Service::ForgeApi, None).await.unwrap().is_none(), "once");
    assert!(store.view(&campaign().id).await.unwrap().outages.is_empty());
    for owner in ["a", "b", "c"] {
        claimed(&store, owner).await;
    }
    store.end_job(&third, &JobEnd::Done).await.unwrap();
    let events = store.events(&campaign().id, 0, 100).await.unwrap();
    let told = events.iter().filter(|event| event.kind == "outage").count();
    assert_eq!(told, 2, "its beginning and its end");
}

pub(super) async fn a_model_is_only_waited_for_by_its_campaign(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3"]).await;
    // Both are under way before the first is cut off: one alone would be a suspicion.
    let leases = [claimed(&store, "a").await.1, claimed(&store, "b").await.1];
    for lease in &leases {
        cut(&store, lease, Service::Model).await;
    }
    assert!(claim(&store, "a").await.is_none());
    let other = patchwright_types::campaign::CampaignRow {
        id: "other-1".to_owned(),
        name: "other".to_owned(),
        ..campaign()
    };
    queued(&store, &other, &["acme/9"]).await;
    let (job, _) = claimed(&store, "a").await;
    assert_eq!(job.campaign.as_deref(), Some("other-1"));
    assert!(store.view("other-1").await.unwrap().outages.is_empty());
    store.set_campaign_state(&campaign().id, CampaignState::Paused, None).await.unwrap();
    assert!(store.view(&campaign().id).await.unwrap().outages.is_empty(), "it waits for people");
}

pub(super) async fn a_pause_that_a_wrong_clock_wrote_holds_nobody(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3"]).await;
    // Both are under way before the first limit, which pauses at once.
    let leases = [claimed(&store, "a").await.1, claimed(&store, "b").await.1];
    for lease in &leases {
        let limit = Some(40 * 24 * 3_600_000);
        let cut = store.cut_off(lease, Service::Git, limit, "a limit", TIMES).await.unwrap();
        assert!(cut.next <= 6 * 3_600_000, "as long as anybody believes: {cut:?}");
        store.end_job(lease, &JobEnd::Released).await.unwrap();
    }
    assert!(claim(&store, "a").await.is_none());
    assert!(db.sql("UPDATE outages SET until_at = until_at + 3456000000").await > 0);
    claimed(&store, "a").await;
}

/// All times are an hour ahead of a clock that was set back by one, also of an outage that had lasted longer.
pub(super) async fn a_clock_that_is_set_back_puts_no_pause_off(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/1", "acme/2", "acme/3"]).await;
    let leases = [claimed(&store, "a").await.1, claimed(&store, "b").await.1];
    for lease in &leases {
        cut(&store, lease, Service::Model).await;
    }
    assert!(claim(&store, "a").await.is_none());
    let back = "UPDATE outages SET until_at = until_at + 3600000, paused_at = paused_at + 3600000,
        since = since - 7200000";
    assert!(db.sql(back).await > 0);
    let view = store.view(&campaign().id).await.unwrap();
    assert!(view.outages[0].until <= view.now, "it is tried now: {:?}", view.outages);
    let (_, probe) = claimed(&store, "a").await;
    assert!(claim(&store, "b").await.is_none(), "one looks");
    let again = cut(&store, &probe, Service::Model).await;
    assert!(again.next <= 300_000, "as long as a pause is: {again:?}");
}

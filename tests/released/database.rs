//! A database with campaigns, targets and jobs in every state: written through the store, told by it again.

use std::path::Path;
use std::process::Command;

use patchwright_fleet::store::{Migration, Store, VERSION, file_url, look};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, ErrorClass, JobEnd, JobKind, NewTarget, TargetEnd, TargetState,
};
use serde_json::{Value, json};

use super::run;
use crate::store::{campaign, changeset, ended, new_target, publish_job, target_job};
use crate::support::postgres::Postgres;
use crate::support::world::TestWorld;

const NAMES: &[JobKind] = &[JobKind::Target];

/// How targets end, in the order in which they are claimed.
const ENDS: [TargetState; 10] = [
    TargetState::Ready,
    TargetState::Held,
    TargetState::Draft,
    TargetState::Open,
    TargetState::Merged,
    TargetState::Closed,
    TargetState::Unchanged,
    TargetState::Reported,
    TargetState::Failed,
    TargetState::Ready,
];

/// Fills an empty database.
async fn fill(store: &Store) {
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    for state in CampaignState::ALL {
        let row = CampaignRow { id: format!("{}-1", state.word()), ..campaign() };
        store.put_campaign(&row).await.unwrap();
        store.set_campaign_state(&row.id, *state, Some("a reason")).await.unwrap();
    }
    store.set_tracking_issue(&id, "acme/ops#7").await.unwrap();
    let in_wave = |name: &str, wave| NewTarget { wave, ..new_target(name, "a") };
    let skipped =
        NewTarget { skipped: Some("archived".to_owned()), ..new_target("acme/skipped", "a") };
    let mut targets = vec![skipped, in_wave("acme/queued", 1), in_wave("acme/waiting", 2)];
    targets.extend((0..=ENDS.len()).map(|number| in_wave(&format!("acme/app-{number}"), 0)));
    store.add_targets(&id, &targets).await.unwrap();
    store.open_wave(&id, 0, &target_job).await.unwrap();
    for state in ENDS {
        let (job, lease) = store.claim("w", NAMES, 60_000).await.unwrap().unwrap();
        let target = store.target(job.subject.parse().unwrap()).await.unwrap();
        store.begin_target(&lease, target.id, "run-1").await.unwrap();
        let is_ready = state == TargetState::Ready;
        let is_open = matches!(state, TargetState::Open | TargetState::Merged);
        let change = (is_ready || state == TargetState::Held).then(|| changeset(&target));
        let publish = is_ready.then(|| publish_job(&target));
        let end = TargetEnd {
            class: (state == TargetState::Failed).then_some(ErrorClass::Clone),
            reason: Some("a reason".to_owned()),
            pull_request: is_open.then_some(12),
            ..ended(state)
        };
        let (change, publish) = (change.as_ref(), publish.as_ref());
        store.end_target(&lease, target.id, &end, change, publish, &JobEnd::Done).await.unwrap();
    }
    let (job, lease) = store.claim("w", &[JobKind::Publish], 60_000).await.unwrap().unwrap();
    let target = job.subject.parse().unwrap();
    store.begin_publishing(&lease, target).await.unwrap();
    let (job, lease) = store.claim("w", NAMES, 600_000).await.unwrap().unwrap();
    store.begin_target(&lease, job.subject.parse().unwrap(), "run-2").await.unwrap();
    store.open_wave(&id, 1, &target_job).await.unwrap();
    // The base branch has moved.
    store
        .add_targets(&id, &[NewTarget { wave: 2, ..new_target("acme/waiting", "b") }])
        .await
        .unwrap();
    store.record(&id, None, "wave", Some("an event with ünïcode")).await.unwrap();
    let delivery = crate::store::delivery("guid-1");
    store.put_deliveries(&[delivery], &crate::store::delivery_job).await.unwrap();
    store.fire_once("nightly", "2026-11-20T02:00").await.unwrap();
    store.set_value("cursor", "7").await.unwrap();
    store.close_pace("token", 60_000).await.unwrap();
}

/// Everything that must be the same after an upgrade.
async fn summary(store: &Store) -> Value {
    let mut campaigns = Vec::new();
    for row in store.campaigns(None).await.unwrap() {
        campaigns.push(json!([row.id, row.name, row.state, row.reason, row.spent_usd, row.wave]));
    }
    campaigns.sort_by_key(Value::to_string);
    let id = campaign().id;
    let mut targets = Vec::new();
    for target in store.view(&id).await.unwrap().targets {
        for one in store.history("tidy", &target.repository, None).await.unwrap() {
            let change = store.changeset(one.id).await.unwrap();
            let change = change.map(|change| json!([change.title, change.body, change.pack]));
            targets.push(json!([
                one.repository,
                one.base_sha,
                one.wave,
                one.state,
                one.class,
                one.reason,
                one.run,
                one.cost_usd,
                one.tokens,
                one.attempts,
                one.pull_request,
                change,
            ]));
        }
    }
    targets.sort_by_key(Value::to_string);
    let jobs = store.job_counts().await.unwrap();
    let jobs: Vec<Value> =
        jobs.iter().map(|((kind, state), count)| json!([kind.word(), state, count])).collect();
    let events = store.events(&id, 0, 1_000).await.unwrap();
    let events: Vec<Value> =
        events.iter().map(|event| json!([event.repository, event.kind, event.text])).collect();
    let delivery = store.delivery("guid-1").await.unwrap();
    json!({
        "campaigns": campaigns,
        "targets": targets,
        "jobs": jobs,
        "events": events,
        "delivery": [delivery.event, delivery.body],
        "fired": store.last_fired("nightly").await.unwrap(),
        "value": store.value("cursor").await.unwrap(),
    })
}

pub(super) async fn record(folder: &Path, server: Option<&Postgres>) {
    let file = folder.join("fleet.db");
    let store = Store::open(&file_url(&file)).await.unwrap();
    fill(&store).await;
    let told = summary(&store).await;
    let mut states: Vec<&str> =
        told["targets"].as_array().unwrap().iter().map(|row| row[3].as_str().unwrap()).collect();
    states.sort_unstable();
    states.dedup();
    let mut all: Vec<&str> = TargetState::ALL.iter().map(|state| state.word()).collect();
    all.sort_unstable();
    assert_eq!(states, all, "a target in each state");
    store.close().await;
    let summary_text = serde_json::to_string_pretty(&told).unwrap();
    fs_err::write(folder.join("database.json"), summary_text + "\n").unwrap();
    run(Command::new("gzip").args(["-9", "-n"]).arg(&file));
    let Some(server) = server else { return };
    let url = server.database().await;
    let store = Store::open(&url).await.unwrap();
    fill(&store).await;
    store.close().await;
    let dump =
        run(Command::new(Postgres::program("pg_dump")).args(["--inserts", "--no-owner", &url]));
    // Settings and commands of the newest client alone.
    let is_plain = |line: &&str| {
        !line.starts_with("SET ") && !line.starts_with('\\') && !line.starts_with("--")
    };
    let lines: Vec<&str> = dump.lines().filter(is_plain).filter(|line| !line.is_empty()).collect();
    fs_err::write(folder.join("fleet.sql"), lines.join("\n") + "\n").unwrap();
}

pub(super) async fn read(folder: &Path, server: Option<&Postgres>) {
    let told: Value =
        serde_json::from_slice(&fs_err::read(folder.join("database.json")).unwrap()).unwrap();
    let place = tempfile::tempdir().unwrap();
    run(Command::new("cp").arg(folder.join("fleet.db.gz")).arg(place.path()));
    run(Command::new("gzip").arg("-d").arg(place.path().join("fleet.db.gz")));
    let file = place.path().join("fleet.db");
    let copy = opened(&file_url(&file), &told).await.map(|migrated| migrated.copy.is_some());
    assert_ne!(copy, Some(false), "an older file is copied first");
    tokio::task::block_in_place(|| {
        let world = TestWorld::local([]);
        let database = file.to_str().unwrap();
        let output =
            world.run(&["batch", "status", "tidy-0123456789ab", "--database", database, "--json"]);
        assert!(output.stdout.contains("acme/app-1"), "{}", output.text());
    });
    let dump = folder.join("fleet.sql");
    let Some(server) = server else { return };
    let url = server.database().await;
    let psql = Postgres::program("psql");
    run(Command::new(psql)
        .args(["--quiet", "--set", "ON_ERROR_STOP=1", "--file"])
        .arg(dump)
        .arg(&url));
    opened(&url, &told).await;
}

/// Opens a recorded database, compares everything in it, and works with it.
async fn opened(url: &str, told: &Value) -> Option<Migration> {
    let before = look(url).await.unwrap().expect("it has a version");
    let (store, migrated) = Store::open_and_tell(url).await.unwrap();
    assert_eq!(migrated.as_ref().map(|it| it.from), (before < VERSION).then_some(before));
    let now = summary(&store).await;
    assert_eq!(
        serde_json::to_string_pretty(&now).unwrap(),
        serde_json::to_string_pretty(told).unwrap()
    );
    let (job, lease) = store.claim("w", NAMES, 60_000).await.unwrap().expect("the queued one");
    store.begin_target(&lease, job.subject.parse().unwrap(), "run-3").await.unwrap();
    store.close().await;
    assert_eq!(look(url).await.unwrap(), Some(VERSION));
    migrated
}

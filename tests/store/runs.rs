//! What runs came to, as the dashboard asks for it.

use patchwright_fleet::store::{
    Counted, EndedRun, MOST_EXAMINED, PAGE, RunCursor, RunSearch, Store,
};
use patchwright_types::campaign::{
    Delivery, ErrorClass, JobEnd, JobKind, NewJob, TargetEnd, TargetState,
};

use super::{Db, campaign, claimed, ended, queued};

/// Twelve thousand runs of forty repositories; every thousandth one is refused.
const MANY: i64 = 12_000;
const FILL: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
     INSERT INTO runs (at, run, about, repository, number, conclusion, text, cost_usd, milliseconds)
     SELECT i * 1000, 'run-' || i, 'issues.labeled', 'Acme/app-' || (i % 40), i % 500,
        CASE WHEN i % 1000 = 0 THEN 'refused' ELSE 'done' END, 'text ' || i, 0.25, 1000 FROM n";

fn job_of(delivery: &Delivery) -> NewJob {
    NewJob {
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
    }
}

async fn delivered(store: &Store, guid: &str, number: i64) {
    let delivery = Delivery {
        guid: guid.to_owned(),
        event: "issues".to_owned(),
        action: None,
        repository: Some("acme/app".to_owned()),
        number: Some(number),
        installation: None,
        body: String::new(),
        received_at: 1,
    };
    store.put_deliveries(&[delivery], &job_of).await.unwrap();
}

fn run(conclusion: &str) -> EndedRun {
    EndedRun {
        run: Some("20261120-120000-0a1b2c3d".to_owned()),
        about: "issues.labeled".to_owned(),
        repository: "acme/app".to_owned(),
        number: Some(7),
        conclusion: conclusion.to_owned(),
        text: format!("{conclusion}: a\0b"),
        cost_usd: 0.5,
        milliseconds: 2_000,
    }
}

pub(super) async fn ends_are_counted_by_day_and_listed(db: &Db) {
    let store = db.open().await;
    for (number, conclusion, end) in [
        (1, "done", JobEnd::Done),
        (2, "done", JobEnd::Done),
        (3, "provider_error", JobEnd::Failed { why: "it was away".to_owned() }),
        (4, "interrupted", JobEnd::Released),
        // Listed as what it was, and summed with what was passed over.
        (6, "refused", JobEnd::Done),
        // Another attempt comes, and the run is counted with that.
        (5, "forge_error", JobEnd::Retry { after: 0, why: "it was away".to_owned() }),
    ] {
        delivered(&store, &format!("g{number}"), number).await;
        let taken = store.claim("a", &[JobKind::Delivery], 60_000).await.unwrap();
        let (_, lease) = taken.unwrap();
        let turned_away = conclusion == "refused";
        let counted = if turned_away { Counted::AsIgnored } else { Counted::AsItEnded };
        store.end_delivery(&lease, &end, (&run(conclusion), counted)).await.unwrap();
        // Written once, however often it is said.
        assert!(store.end_delivery(&lease, &end, (&run(conclusion), counted)).await.is_err());
        db.sql("UPDATE jobs SET state = 'cancelled' WHERE state = 'queued'").await;
    }
    // A campaign's target counts with the class of its failure.
    queued(&store, &campaign(), &["acme/1"]).await;
    let (job, lease) = claimed(&store, "a").await;
    let target = job.subject.parse().unwrap();
    store.begin_target(&lease, target, "run-2").await.unwrap();
    let end = TargetEnd { class: Some(ErrorClass::Checks), ..ended(TargetState::Failed) };
    store.end_target(&lease, target, &end, None, None, &JobEnd::Done).await.unwrap();

    let (today, days) = store.run_days(30).await.unwrap();
    let sums: Vec<(&str, i64, f64)> =
        days.iter().map(|day| (day.conclusion.as_str(), day.runs, day.cost_usd)).collect();
    assert_eq!(
        sums,
        [("checks", 1, 0.5), ("done", 2, 1.0), ("ignored", 1, 0.5), ("provider_error", 1, 0.5)]
    );
    assert!(days.iter().all(|day| day.day == today));
    let page = store.runs(&RunSearch::default()).await.unwrap();
    let listed: Vec<(&str, &str)> = page
        .rows
        .iter()
        .map(|row| (row.ended.conclusion.as_str(), row.ended.repository.as_str()))
        .collect();
    let app = "acme/app";
    assert_eq!(
        listed,
        [
            ("checks", "acme/1"),
            ("refused", app),
            ("provider_error", app),
            ("done", app),
            ("done", app)
        ]
    );
    assert_eq!(page.rows[0].ended.about, format!("campaign {}", campaign().id));
    db.sql("UPDATE runs SET at = 1").await;
    db.sql("UPDATE run_days SET day = 1").await;
    store.prune(3_600_000).await.unwrap();
    assert!(store.runs(&RunSearch::default()).await.unwrap().rows.is_empty());
    assert!(store.run_days(100_000).await.unwrap().1.is_empty());
}

pub(super) async fn a_search_reads_a_bounded_number_of_rows(db: &Db) {
    let store = db.open().await;
    db.sql(FILL).await;
    let of = |word: &str| Some(word.to_owned());
    let all = RunSearch::default();
    let bound = PAGE + 1;
    for (search, rows, most) in [
        (all.clone(), PAGE, bound),
        (RunSearch { repository: of("acme/APP-3"), ..all.clone() }, PAGE, bound),
        (RunSearch { number: Some(7), ..all.clone() }, 24, 24),
        (RunSearch { conclusion: of("refused"), ..all.clone() }, 12, 12),
        (RunSearch { conclusion: of("' OR 1=1 --"), ..all.clone() }, 0, 0),
        // An index finds the 300 of the repository; the rest is decided in them.
        (
            RunSearch { repository: of("acme/app-3"), conclusion: of("refused"), ..all.clone() },
            0,
            300,
        ),
        (RunSearch { text: of("TEXT 11999"), ..all.clone() }, 1, MOST_EXAMINED),
        (RunSearch { text: of("nowhere"), ..all.clone() }, 0, MOST_EXAMINED),
    ] {
        let page = store.runs(&search).await.unwrap();
        assert_eq!(page.rows.len(), rows, "{search:?}");
        assert!(page.examined <= most, "{search:?} read {}", page.examined);
    }
    // What one page does not reach, the ones after it do.
    let mut search = RunSearch { text: of("text 4"), number: None, ..all };
    let (mut found, mut pages) = (0, 0);
    loop {
        let page = store.runs(&search).await.unwrap();
        found += page.rows.iter().filter(|row| row.ended.text == "text 4").count();
        pages += 1;
        let Some(older) = page.older else { break };
        search.from = older;
        assert!(pages < 100, "no end");
    }
    assert_eq!(found, 1);
}

pub(super) async fn pages_meet_and_lose_nothing(db: &Db) {
    let store = db.open().await;
    db.sql(FILL).await;
    let ids = async |search: &RunSearch| {
        let page = store.runs(search).await.unwrap();
        (page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), page.newer, page.older)
    };
    let mut search =
        RunSearch { repository: Some("acme/app-0".to_owned()), ..RunSearch::default() };
    let mut down = Vec::new();
    loop {
        let (page, newer, older) = ids(&search).await;
        assert_eq!(newer.is_none(), down.is_empty(), "{search:?}");
        down.push(page);
        let Some(older) = older else { break };
        search.from = older;
    }
    assert_eq!(down.iter().map(Vec::len).collect::<Vec<_>>(), [50; 6]);
    assert!(down.concat().is_sorted_by(|a, b| a > b));
    // Back up by the links: the same pages.
    let mut up = vec![down.last().unwrap().clone()];
    let (_, mut newer, _) = ids(&search).await;
    while let Some(from) = newer {
        search.from = from;
        let (page, next, _) = ids(&search).await;
        up.push(page);
        newer = next;
    }
    up.reverse();
    assert_eq!(up, down);
    for edge in [RunCursor::Before(i64::MIN), RunCursor::After(i64::MAX), RunCursor::Before(-1)] {
        search.from = edge;
        assert!(ids(&search).await.0.is_empty(), "{edge:?}");
    }
    assert_eq!(MANY / 40, 300);
}

pub(super) async fn what_runs_and_waits_is_told_by_age(db: &Db) {
    let store = db.open().await;
    for number in 1..=70 {
        delivered(&store, &format!("g{number:02}"), number).await;
    }
    db.sql("UPDATE jobs SET created_at = 1000 - id").await;
    let (_, lease) = store.claim("a", &[JobKind::Delivery], 60_000).await.unwrap().unwrap();
    queued(&store, &campaign(), &["acme/1"]).await;
    let (job, target) = claimed(&store, "b").await;
    store.begin_target(&target, job.subject.parse().unwrap(), "run-9").await.unwrap();
    let running = store.running_jobs().await.unwrap();
    let who: Vec<(&str, Option<&str>)> = running
        .iter()
        .map(|job| (job.repository.as_deref().unwrap(), job.run.as_deref()))
        .collect();
    assert_eq!(who, [("acme/app", None), ("acme/1", Some("run-9"))]);
    let waiting = store.queued_jobs().await.unwrap();
    assert_eq!(waiting.len(), 50, "the list is bounded");
    assert!(waiting.is_sorted_by_key(|job| job.since));
    assert_eq!(waiting[0].number, Some(70));
    let why = "GitHub was away".to_owned();
    store.end_job(&lease, &JobEnd::Retry { after: 0, why: why.clone() }).await.unwrap();
    db.sql("UPDATE jobs SET created_at = 1 WHERE attempt = 1 AND state = 'queued'").await;
    assert_eq!(store.queued_jobs().await.unwrap()[0].why, Some(why));
}

//! `GET /metrics`: counters and gauges in Prometheus' text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::ServerState;
use patchwright_base::error::Result;
use patchwright_types::dollars;

/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Campaigns that have a series of their own.
const MOST_CAMPAIGNS: i64 = 100;

/// What this process has counted since it started.
#[derive(Default)]
pub(super) struct Counters(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// By outcome and status.
    answers: BTreeMap<(&'static str, u16), u64>,
    /// Answers in each bucket, not cumulative; the last is for what took longer.
    buckets: [u64; BUCKETS.len() + 1],
    seconds: f64,
    /// Runs of deliveries, by conclusion.
    runs: BTreeMap<String, u64>,
    run_seconds: f64,
    cost_usd: f64,
    caught_up: u64,
}

static TALLY: Counters = Counters(Mutex::new(Counts {
    answers: BTreeMap::new(),
    buckets: [0; BUCKETS.len() + 1],
    seconds: 0.0,
    runs: BTreeMap::new(),
    run_seconds: 0.0,
    cost_usd: 0.0,
    caught_up: 0,
}));

/// The one of this process.
pub(super) fn tally() -> &'static Counters {
    &TALLY
}

impl Counters {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock()
    }

    /// A webhook was answered.
    pub(super) fn answered(&self, outcome: &'static str, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|most| seconds <= *most).unwrap_or(BUCKETS.len());
        let mut counts = self.lock();
        *counts.answers.entry((outcome, status)).or_default() += 1;
        counts.seconds += seconds;
        if let Some(count) = counts.buckets.get_mut(bucket) {
            *count += 1;
        }
    }

    /// The work that a delivery set off has ended.
    pub(super) fn ran(&self, conclusion: &str, took: Duration, cost_usd: f64) {
        let mut counts = self.lock();
        *counts.runs.entry(conclusion.to_owned()).or_default() += 1;
        counts.run_seconds += took.as_secs_f64();
        counts.cost_usd += cost_usd.max(0.0);
    }

    /// A delivery was fetched that had not arrived.
    pub(super) fn caught_up(&self) {
        self.lock().caught_up += 1;
    }
}

/// The page.
pub(super) async fn text(shared: &ServerState) -> Result<String> {
    let store = &shared.fleet.store;
    let mut page = Page::default();
    page.family("patchwright_info", "gauge", "The version of this program.");
    page.sample("patchwright_info", &[("version", patchwright_base::VERSION)], 1.0);
    own(&mut page);
    page.family("patchwright_queue_waiting", "gauge", "Deliveries that wait to be stored.");
    page.sample("patchwright_queue_waiting", &[], count(shared.intake.waiting() as u64));
    page.family("patchwright_jobs", "gauge", "Jobs in the database, by kind and state.");
    for ((kind, state), jobs) in store.job_counts().await? {
        let labels = [("kind", kind.word()), ("state", state.as_str())];
        page.sample("patchwright_jobs", &labels, number(jobs));
    }
    page.family("patchwright_campaign_cost_usd", "gauge", "Dollars that a campaign has cost.");
    for (id, state, spent_usd) in store.campaign_costs(MOST_CAMPAIGNS).await? {
        let labels = [("campaign", id.as_str()), ("state", state.word())];
        page.sample("patchwright_campaign_cost_usd", &labels, dollars::round(spent_usd));
    }
    let paused = store.pace_closed_for(&shared.fleet.token).await?;
    page.family(
        "patchwright_github_paused_seconds",
        "gauge",
        "How long GitHub still wants this token to wait before it writes.",
    );
    page.sample("patchwright_github_paused_seconds", &[], number(paused.max(0)) / 1000.0);
    Ok(page.text)
}

/// What this process has counted.
fn own(page: &mut Page) {
    let counts = TALLY.lock();
    page.family("patchwright_webhook_answers_total", "counter", "Answers to webhooks.");
    for ((outcome, status), answers) in &counts.answers {
        let labels = [("outcome", *outcome), ("status", &status.to_string())];
        page.sample("patchwright_webhook_answers_total", &labels, count(*answers));
    }
    let name = "patchwright_webhook_answer_seconds";
    page.family(name, "histogram", "Time from the head of a webhook to its answer.");
    let mut below = 0;
    for (bucket, answers) in counts.buckets.iter().enumerate() {
        below += answers;
        let most = BUCKETS.get(bucket).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
        page.sample(&format!("{name}_bucket"), &[("le", &most)], count(below));
    }
    page.sample(&format!("{name}_sum"), &[], counts.seconds);
    page.sample(&format!("{name}_count"), &[], count(below));
    let name = "patchwright_deliveries_caught_up_total";
    page.family(name, "counter", "Deliveries that had not arrived and were fetched.");
    page.sample(name, &[], count(counts.caught_up));
    let name = "patchwright_delivery_runs_total";
    page.family(name, "counter", "Ended work that deliveries set off, by conclusion.");
    for (conclusion, runs) in &counts.runs {
        page.sample(name, &[("conclusion", conclusion)], count(*runs));
    }
    let name = "patchwright_delivery_run_seconds_total";
    page.family(name, "counter", "Time that this work took.");
    page.sample(name, &[], counts.run_seconds);
    let name = "patchwright_delivery_cost_usd_total";
    page.family(name, "counter", "Dollars that this work cost.");
    page.sample(name, &[], counts.cost_usd);
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

/// A label's value, as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn number(value: i64) -> f64 {
    value as f64
}

//! How long a run of a campaign takes on Docker from its claimed job to its first request to the model, with sandboxes
//! that wait for it and without, of a repository that has checks (which are run on the base first) and of one that has
//! none. `cargo bench --bench warm` with Docker and the test images.
//!
//! GitHub and the model are in this process; the worker is the program. Everything that a run does before it asks is in
//! it: GitHub is asked for the repository, the base is fetched, the sandbox is taken or made, the tree uploaded.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "it takes the time")]

#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "of the tests' world, one part is needed"
)]
#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use patchwright_fleet::store::Store;
use serde_json::{Value, json};
use support::github::{GitHub, fleet_name};
use support::model::{ModelServer, call, custom, say};
use support::world::{FILES, PATCH, TestWorld};

/// Runs, one after the other. The first finds nothing that waits for it, and is left out.
const RUNS: usize = 13;
const CAMPAIGN: &str = "name: warm\nselect:\n  organizations: [acme]\ntask:\n  prompt: Make `add` of {{ repository }} add.\n";

fn main() {
    let plain: Vec<_> = FILES.iter().filter(|(path, _)| *path != "test.sh").copied().collect();
    for (name, waiting, files) in [
        ("no checks, cold", "0", plain.as_slice()),
        ("no checks, warm", "2", plain.as_slice()),
        ("a check, cold", "0", FILES),
        ("a check, warm", "2", FILES),
    ] {
        let (mut times, journal) = measure(waiting, files);
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "{name}: from claim to first request, {} runs: p50 {} ms, p90 {} ms",
            times.len(),
            at(50),
            at(90)
        );
        println!("  the last of them: {}", journal.join(", "));
    }
}

/// Milliseconds of each run, and what the last one noted when.
fn measure(waiting: &str, files: &[(&str, &str)]) -> (Vec<i64>, Vec<String>) {
    let arrived: Arc<Mutex<BTreeMap<String, i64>>> = Arc::default();
    let seen = Arc::clone(&arrived);
    let github = GitHub::new().organization("acme").repositories(RUNS, |_| files.to_vec());
    let model = ModelServer::conversations(move |said| {
        let name = (1..=RUNS).map(fleet_name).find(|name| said.names(name));
        seen.lock().entry(name.unwrap_or_default()).or_insert_with(now);
        // So long that another sandbox is there for the next run: runs are further apart than that.
        let wait = json!({"command": "sleep 3"});
        vec![
            call("shell_command", wait),
            custom("apply_patch", PATCH),
            say("Add\n\nIt subtracted."),
        ]
    });
    let world = TestWorld::asking(github, model).in_docker().unset("PATCHWRIGHT_NOW");
    let config = format!("container: {{warm: {waiting}}}\n");
    std::fs::write(world.path("operator.yml"), config).unwrap();
    std::fs::write(world.path("campaign.yml"), CAMPAIGN).unwrap();
    let args = "batch run campaign.yml --model gpt-5.3-codex --config operator.yml --dry-run --concurrency 1";
    let args: Vec<&str> = args.split(' ').collect();
    let output = world.run(&args);
    assert_eq!(output.code, 0, "{}", output.text());
    let events = events(&format!("sqlite:{}", world.path("state/fleet.db").display()));
    let arrived = arrived.lock();
    let mut runs: Vec<(i64, i64)> = events
        .iter()
        .filter_map(|(repository, at)| Some((*at, *arrived.get(repository)? - at)))
        .collect();
    runs.sort_unstable();
    assert_eq!(runs.len(), RUNS);
    let last = runs[RUNS - 1];
    (runs[1..].iter().map(|(_, took)| *took).collect(), noted(&world, last))
}

/// When each run began, by repository.
fn events(url: &str) -> Vec<(String, i64)> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(url).await.unwrap();
        let campaign = store.campaigns(None).await.unwrap().remove(0).id;
        let events = store.events(&campaign, 0, 10_000).await.unwrap();
        let began = events.into_iter().filter(|event| event.kind == "running");
        began.map(|event| (event.repository.unwrap_or_default(), event.at)).collect()
    })
}

/// What the newest run's journal has before the first reply, with milliseconds since the run began.
fn noted(world: &TestWorld, (began, took): (i64, i64)) -> Vec<String> {
    let newest = world.runs().pop().unwrap();
    let journal = std::fs::read_to_string(newest.join("journal.jsonl")).unwrap();
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let noted = lines.map(|line| {
        let at: chrono::DateTime<chrono::Utc> = line["at"].as_str().unwrap().parse().unwrap();
        (line["is"].as_str().unwrap().to_owned(), at.timestamp_millis() - began)
    });
    let before = noted.take_while(|(_, at)| *at <= took + 5);
    before.map(|(is, at)| format!("{is} {at}")).collect()
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

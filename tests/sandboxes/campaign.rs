//! A campaign on Docker: its runs begin in sandboxes that have waited for them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use patchwright_base::clock::Clock;
use patchwright_fleet::store::{Store, file_url};

use crate::support::docker::docker;
use crate::support::github::{GitHub, fleet_name};
use crate::support::model::{ModelServer, custom, say};
use crate::support::world::{PATCH, TestWorld};

const RUNS: usize = 4;
const CAMPAIGN: &str = "name: warm\nselect:\n  organizations: [acme]\ntask:\n  prompt: Make `add` of {{ repository }} add.\n";
/// No check, which would run before the model is asked.
const FILES: &[(&str, &str)] =
    &[("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"), ("README.md", "# calc\n")];
/// The limit of memory by which containers of this test are known among those of others, in bytes.
const MEMORY: u64 = 391 << 20;

/// Names of the containers that were made to wait and have not ended, of this test.
fn made_to_wait() -> Vec<String> {
    let told = |args: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "asks the real Docker")]
        let output = Command::new("docker").args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ids = told(&["ps", "--quiet", "--filter", "label=patchwright.run=warm"]);
    let mut inspect = vec!["inspect", "--format", "{{.HostConfig.Memory}} {{.Name}}"];
    inspect.extend(ids.split_whitespace());
    let lines = if ids.trim().is_empty() { String::new() } else { told(&inspect) };
    let ours = |line: &str| Some(line.strip_prefix(&format!("{MEMORY} /"))?.to_owned());
    lines.lines().filter_map(ours).collect()
}

fn waits(name: &str) -> bool {
    name.starts_with("patchwright-warm-waiting")
}

/// What a request of a run that began in it saw: the time, whether the model was told what is installed, and the containers that were taken from those that wait.
#[derive(Clone)]
struct First {
    at: i64,
    knows_programs: bool,
    taken: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_a_campaign_begin_in_sandboxes_that_have_waited() {
    if docker().await.is_none() {
        return;
    }
    let seen: Arc<Mutex<BTreeMap<String, First>>> = Arc::default();
    let firsts = Arc::clone(&seen);
    let model = ModelServer::conversations(move |said| {
        let name = (1..=RUNS).map(fleet_name).find(|name| said.names(name)).unwrap();
        firsts.lock().entry(name).or_insert_with(|| {
            let at = Clock::default().now().timestamp_millis();
            let taken = made_to_wait().into_iter().filter(|name| !waits(name)).collect();
            // The next run finds one, however slow the machine is.
            let until = Instant::now() + Duration::from_mins(1);
            while Instant::now() < until && !made_to_wait().iter().any(|name| waits(name)) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let knows_programs = said.opening.contains("<programs>git</programs>");
            First { at, knows_programs, taken }
        });
        vec![custom("apply_patch", PATCH), say("Add\n\nIt subtracted.")]
    });
    let github = GitHub::new().organization("acme").repositories(RUNS, |_| FILES.to_vec());
    let world = TestWorld::asking(github, model).in_docker().unset("PATCHWRIGHT_NOW");
    let config = format!("container: {{warm: 1, memory: {MEMORY}}}\n");
    fs_err::write(world.path("operator.yml"), config).unwrap();
    fs_err::write(world.path("campaign.yml"), CAMPAIGN).unwrap();
    let args = "batch run campaign.yml --model gpt-5.3-codex --config operator.yml --dry-run --concurrency 1";
    let output = world.run(&args.split(' ').collect::<Vec<_>>()).expect(0);

    let seen = seen.lock().clone();
    let mut began = began(&world).await;
    began.sort_unstable();
    assert_eq!(began.len(), RUNS, "{}", output.text());
    for (number, (at, repository)) in began.iter().enumerate() {
        let first = &seen[repository];
        // That of the run before may not be gone yet.
        assert_eq!(first.taken.is_empty(), number == 0, "{number}: {:?}", first.taken);
        assert!(first.knows_programs, "{number}: an image is asked once, and all are told");
        eprintln!("run {number}: first request {} ms after its begin", first.at - at);
    }
    let mut taken: Vec<&String> = seen.values().flat_map(|first| &first.taken).collect();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), RUNS - 1, "each is used by one run: {taken:?}");
    assert_eq!(made_to_wait(), Vec::<String>::new(), "what waited is removed at the end");
}

/// When each run began, and of which repository it is.
async fn began(world: &TestWorld) -> Vec<(i64, String)> {
    let store = Store::open(&file_url(&world.path("state/fleet.db"))).await.unwrap();
    let campaign = store.campaigns(None).await.unwrap().remove(0).id;
    let events = store.events(&campaign, 0, 10_000).await.unwrap();
    let running = events.into_iter().filter(|event| event.kind == "running");
    running.map(|event| (event.at, event.repository.unwrap_or_default())).collect()
}

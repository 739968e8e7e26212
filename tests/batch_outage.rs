//! GitHub or the model is away in the middle of a campaign: everything waits, nothing is lost or paid twice.
//!
//! `OUTAGE_REPOSITORIES=200 cargo nextest run -E 'test(/batch_outage::a_campaign_sleeps/)' -j 1` is the same with campaigns
//! of two hundred repositories.

mod database; // one that goes away under the command
mod disk; // a full disk under the state folder and the database
mod engine; // Docker goes away, or has no room
mod held_back; // what waits, and what need not
mod limits; // how often, and for how long, before an attempt counts
mod pods; // clusters that give no sandboxes

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use patchwright_fleet::store::Store;
use patchwright_types::campaign::{Event, Target, TargetState};

use crate::batch_run::{CAMPAIGN, batch, counted, pulls, shell, states, write};
use crate::support::docker;
use crate::support::github::{GitHub, fleet_name};
use crate::support::model::{ModelServer, Turn, custom, say};
use crate::support::postgres::postgres;
use crate::support::world::{FILES, PATCH, TestWorld};

/// Turns of each conversation.
const TURNS: usize = 4;
const PATIENCE: Duration = Duration::from_mins(9);

/// Repositories of a campaign, where nobody wants more.
const REPOSITORIES: usize = 8;
const WORKERS: [&str; 4] = ["one", "two", "three", "four"];

/// How long a service is away, and how much shorter the test's time is.
#[derive(Clone, Copy, Debug)]
struct Away {
    minutes: u32,
    scale: f64,
}

impl Away {
    fn time(self) -> Duration {
        Duration::from_mins(self.minutes.into()).mul_f64(self.scale)
    }
}

const TWO_MINUTES: Away = Away { minutes: 2, scale: 0.01 };
const HALF_AN_HOUR: Away = Away { minutes: 30, scale: 0.01 };
const TWO_HOURS: Away = Away { minutes: 120, scale: 0.002 };

fn turns() -> Vec<Turn> {
    vec![
        shell("sleep 0.4"),
        custom("apply_patch", PATCH),
        shell("sleep 0.4"),
        say("Add instead of subtracting\n\nThe sign was wrong."),
    ]
}

/// Requests that were answered, for each repository that is named by them.
fn paid(world: &TestWorld, count: usize) -> BTreeMap<String, usize> {
    let requests = world.model.requests();
    let bodies: Vec<String> = requests.iter().map(|one| one.body.to_string()).collect();
    let asked = |name: &str| {
        let prompt = format!("In {name} `add` subtracts");
        bodies.iter().filter(|body| body.contains(&prompt)).count()
    };
    (1..=count).map(fleet_name).map(|name| (name.clone(), asked(&name))).collect()
}

fn world(count: usize) -> TestWorld {
    let github = GitHub::new().organization("acme").repositories(count, |_| FILES.to_vec());
    let model = ModelServer::conversations(|_| turns());
    let world = TestWorld::asking(github, model);
    write(&world, CAMPAIGN);
    world
}

fn worker(world: &TestWorld, name: &str) -> Child {
    start(world, name, &["--until-idle"], &[])
}

/// One with these arguments and variables besides.
fn start(world: &TestWorld, name: &str, more: &[&str], variables: &[(&str, &str)]) -> Child {
    let args = [&["worker", "--model", "gpt-5.3-codex", "--room", "1"], more].concat();
    let log = fs_err::File::create(world.path(&format!("{name}.log"))).unwrap();
    let mut command = world.command(&args);
    command
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(log.into_file())
        .spawn()
        .unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stored(url: &str) -> (Vec<Target>, Vec<Event>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(url).await.unwrap();
        let campaign = store.campaigns(None).await.unwrap().remove(0);
        let targets = store.view(&campaign.id).await.unwrap().targets;
        (targets, store.events(&campaign.id, 0, 100_000).await.unwrap())
    })
}

/// How many repositories a campaign has.
#[expect(clippy::disallowed_methods, reason = "a test that is made larger")]
fn repositories() -> usize {
    let asked = std::env::var("OUTAGE_REPOSITORIES");
    asked.map_or(REPOSITORIES, |count| count.parse().expect("a number"))
}

/// Four workers that share PostgreSQL; in the middle of their work the outage.
fn campaign_through(outage: impl Fn(&TestWorld, bool), whose: &str, away: Away) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(server) = runtime.block_on(postgres()) else { return };
    let url = runtime.block_on(server.database());
    let scale = away.scale.to_string();
    let count = repositories();
    let world = world(count)
        .set("DATABASE_URL", url.as_str())
        .set("PATCHWRIGHT_TIME_SCALE", scale.as_str());
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    let mut workers = WORKERS.map(|name| worker(&world, name));
    // Early enough that several runs have most of their requests before them.
    until("work", || pulls(&world).len() >= count / REPOSITORIES);

    outage(&world, true);
    let (before, begin) = (world.github.requests().len(), Instant::now());
    let mut seen = String::new();
    while let Some(left) = away.time().checked_sub(begin.elapsed()) {
        std::thread::sleep(left.min(Duration::from_secs(3)));
        let status = batch(&world, &["status"]);
        seen.push_str(&status.text());
    }
    let lasted = begin.elapsed();
    let asked = world.github.requests().len() - before;
    outage(&world, false);

    for worker in &mut workers {
        until("the end", || worker.try_wait().unwrap().is_some());
        assert!(worker.wait().unwrap().success());
    }
    let output = batch(&world, &["run"]).expect(0);
    let all = u64::try_from(count).unwrap();
    assert_eq!(states(&output), counted(&[("open", all)]), "{}", output.text());
    assert_eq!(pulls(&world).len(), count, "one pull request each");
    let (targets, events) = stored(&url);
    for target in &targets {
        assert_eq!((target.state, target.attempts), (TargetState::Open, 1), "{target:?}");
    }
    // What failed was not answered, and so not paid; everything that was answered is asked once.
    let paid = paid(&world, count);
    assert!(paid.values().all(|requests| *requests == TURNS), "{paid:?}");
    assert_eq!(world.model.requests().len(), TURNS * count);
    let told: Vec<&str> = events
        .iter()
        .filter(|event| event.kind == "outage")
        .filter_map(|event| event.text.as_deref())
        .collect();
    assert!(told.len().is_multiple_of(2), "{told:?}");
    // Probes, each with its own resends; four runs that tried all the time would be many more.
    let most = 60.0 * lasted.as_secs_f64().max(1.0) * (0.01 / away.scale);
    assert!(f64::from(u32::try_from(asked).unwrap()) < most, "{asked} requests in {lasted:?}");
    // A short one may be over before two runs have noticed it.
    if away.minutes <= 2 {
        return;
    }
    let last = told.last().expect("events of the outage");
    assert!(told[0].contains(whose) && last.ends_with("works again"), "{told:?}");
    assert!(seen.contains("\"outages\":[{"), "the status says it: {seen}");
    let logs = WORKERS.map(|name| fs_err::read_to_string(world.path(&format!("{name}.log"))));
    let log: String = logs.into_iter().map(Result::unwrap).collect();
    assert!(log.contains("no attempt is counted") && log.contains("works again"), "{log}");
}

fn github(world: &TestWorld, is_down: bool) {
    world.github.is_down(is_down);
}

fn model(world: &TestWorld, is_down: bool) {
    world.model.is_down(is_down);
}

#[test]
fn a_campaign_sleeps_through_two_minutes_without_github() {
    campaign_through(github, "GitHub", TWO_MINUTES);
}

#[test]
fn a_campaign_sleeps_through_half_an_hour_without_github() {
    campaign_through(github, "GitHub", HALF_AN_HOUR);
}

#[test]
fn a_campaign_sleeps_through_two_hours_without_github() {
    campaign_through(github, "GitHub", TWO_HOURS);
}

#[test]
fn a_campaign_sleeps_through_two_minutes_without_the_model() {
    campaign_through(model, "the model", TWO_MINUTES);
}

#[test]
fn a_campaign_sleeps_through_half_an_hour_without_the_model() {
    campaign_through(model, "the model", HALF_AN_HOUR);
}

#[test]
fn a_campaign_sleeps_through_two_hours_without_the_model() {
    campaign_through(model, "the model", TWO_HOURS);
}

#[test]
fn a_worker_without_docker_waits_for_it_and_fails_no_repository() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(_docker) = runtime.block_on(docker::docker()) else { return };
    let github = GitHub::new().organization("acme").repositories(2, |_| FILES.to_vec());
    let model = ModelServer::conversations(|_| {
        vec![custom("apply_patch", PATCH), say("Add\n\nThe sign was wrong.")]
    });
    let world = TestWorld::asking(github, model).in_docker();
    let socket = world.path("docker.sock");
    let world = world.set("DOCKER_HOST", format!("unix://{}", socket.display()));
    write(&world, CAMPAIGN);
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    let mut worker = worker(&world, "one");
    let log = || fs_err::read_to_string(world.path("one.log")).unwrap_or_default();
    until("the notice", || log().contains("no run is begun here until it does"));
    // Longer than several attempts would take.
    std::thread::sleep(Duration::from_secs(5));
    assert!(world.model.requests().is_empty());
    fs_err::os::unix::fs::symlink(docker::socket(), &socket).unwrap();
    until("the end", || worker.try_wait().unwrap().is_some());
    assert!(worker.wait().unwrap().success(), "{}", log());
    assert!(log().contains("Docker answers again"), "{}", log());
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    assert!(!batch(&world, &["status"]).stdout.contains(r#""attempts":2"#));
}

/// The registry is a port of this machine where nobody listens; the image is there later, as if it had been pulled.
#[test]
fn an_image_whose_registry_is_away_costs_no_repository_an_attempt() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(docker) = runtime.block_on(docker::docker()) else { return };
    let github = GitHub::new().organization("acme").repositories(2, |_| FILES.to_vec());
    let model = ModelServer::conversations(|_| {
        vec![custom("apply_patch", PATCH), say("Add\n\nThe sign was wrong.")]
    });
    let (repository, tag) = ("127.0.0.1:9/away", docker.run.as_str());
    let image = format!("{repository}:{tag}");
    let world = TestWorld::asking(github, model)
        .in_docker()
        .set("PATCHWRIGHT_IMAGE", image.as_str())
        .set("PATCHWRIGHT_TIME_SCALE", "0.02");
    write(&world, CAMPAIGN);
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    let mut worker = worker(&world, "one");
    let log = || fs_err::read_to_string(world.path("one.log")).unwrap_or_default();
    let failures = || log().matches("could not be pulled").count();
    // More than one repository has attempts, and then some.
    until("the failures", || failures() > 6);
    assert!(log().contains("one at a time until there are sandboxes again"), "{}", log());
    let options = bollard::query_parameters::TagImageOptionsBuilder::default();
    let options = options.repo(repository).tag(tag).build();
    runtime.block_on(docker.engine.tag_image(docker::IMAGE, Some(options))).unwrap();
    until("the end", || worker.try_wait().unwrap().is_some());
    let options = bollard::query_parameters::RemoveImageOptionsBuilder::default().build();
    runtime.block_on(docker.engine.remove_image(&image, Some(options), None)).unwrap();
    assert!(worker.wait().unwrap().success(), "{}", log());
    assert!(log().contains("there are sandboxes again"), "{}", log());
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    let status = batch(&world, &["status"]).stdout;
    for attempts in [r#""attempts":2"#, r#""attempts":3"#] {
        assert!(!status.contains(attempts), "{status}");
    }
}

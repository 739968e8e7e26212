//! What happens to fleets: two versions on one database, a replica that lacks the last second, clocks that disagree,
//! a campaign file that changes in the middle, an organisation that vanishes. Clear, paused rather than failed,
//! and nothing doubled.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use patchwright_fleet::store::{Store, VERSION};
use patchwright_types::campaign::{CampaignState, Target, TargetState};

use crate::batch_run::{CAMPAIGN, batch, counted, pulls, shell, states, write};
use crate::support::github::{GitHub, fleet_name};
use crate::support::model::{ModelServer, custom, say};
use crate::support::postgres::{PASSWORD, Postgres, postgres};
use crate::support::world::{FILES, PATCH, TestWorld};

const PATIENCE: Duration = Duration::from_mins(4);
/// Turns of each conversation.
const TURNS: usize = 3;

/// Runs that take a moment, so that something can happen in the middle of them.
fn world(count: usize, pause: &str) -> TestWorld {
    let github = GitHub::new().organization("acme").repositories(count, |_| FILES.to_vec());
    let pause = format!("sleep {pause}");
    let model = ModelServer::conversations(move |_| {
        vec![
            shell(&pause),
            custom("apply_patch", PATCH),
            say("Add instead of subtracting\n\nThe sign was wrong."),
        ]
    });
    let world = TestWorld::asking(github, model);
    write(&world, CAMPAIGN);
    world
}

const WORKER: [&str; 6] = ["worker", "--model", "gpt-5.3-codex", "--room", "2", "--until-idle"];

fn worker(world: &TestWorld, name: &str, env: &[(&str, &str)]) -> Child {
    let log = fs_err::File::create(world.path(&format!("{name}.log"))).unwrap();
    let mut command = world.command(&WORKER);
    command.envs(env.iter().copied()).stdout(Stdio::null()).stderr(log.into_file());
    command.spawn().unwrap()
}

fn log(world: &TestWorld, name: &str) -> String {
    fs_err::read_to_string(world.path(&format!("{name}.log"))).unwrap_or_default()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn queue(world: &TestWorld) {
    let args = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&args).expect(0);
}

/// The server, a database on it, and its name.
fn database() -> Option<(Postgres, String, tokio::runtime::Runtime)> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(postgres())?;
    let url = runtime.block_on(server.database());
    Some((server, url, runtime))
}

async fn sql(url: &str, statements: &[&str]) {
    sqlx::any::install_default_drivers();
    let pool = sqlx::any::AnyPoolOptions::new().max_connections(1).connect(url).await.unwrap();
    for text in statements {
        let text = sqlx::AssertSqlSafe((*text).to_owned());
        sqlx::query(text).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

async fn stored(url: &str) -> Vec<Target> {
    let store = Store::open(url).await.unwrap();
    let campaign = store.campaigns(None).await.unwrap().remove(0);
    let targets = store.view(&campaign.id).await.unwrap().targets;
    store.close().await;
    targets
}

fn end(worker: &mut Child) -> bool {
    until("the end of a worker", || worker.try_wait().unwrap().is_some());
    worker.wait().unwrap().success()
}

#[test]
fn a_worker_leaves_a_database_that_a_newer_version_has_taken_over() {
    let Some((_server, url, runtime)) = database() else { return };
    let world = world(3, "4").set("DATABASE_URL", url.as_str());
    queue(&world);
    let mut old = worker(&world, "old", &[]);
    until("a run", || !world.model.requests().is_empty());
    let newer = format!("INSERT INTO patchwright_schema (version, at) VALUES ({}, 0)", VERSION + 1);
    runtime.block_on(sql(&url, &[&newer]));
    assert!(!end(&mut old), "it says that it could not go on");
    let said = log(&world, "old");
    assert!(said.contains("made by a newer Patchwright"), "{said}");
    assert!(said.contains("hint: nothing was changed; use that version of Patchwright"), "{said}");
    // What is started with it now is refused in the same words, and changes nothing.
    let output = batch(&world, &["run"]);
    assert!(
        output.code != 0 && output.stderr.contains("made by a newer Patchwright"),
        "{}",
        output.text()
    );
    assert_eq!(pulls(&world), Vec::<String>::new());

    // Workers of that version go on with what it left.
    let known = format!("DELETE FROM patchwright_schema WHERE version > {VERSION}");
    runtime.block_on(sql(&url, &[&known]));
    let mut new = worker(&world, "new", &[]);
    assert!(end(&mut new), "{}", log(&world, "new"));
    for target in runtime.block_on(stored(&url)) {
        assert_eq!((target.state, target.attempts), (TargetState::Open, 1), "{target:?}");
    }
    assert_eq!(pulls(&world).len(), 3, "one pull request each");
    let asked = world.model.requests().len();
    assert!(asked <= 3 * TURNS + 2, "at most the turns that were cut are paid twice: {asked}");
}

/// The database as it was when it was copied takes the place of the one that everybody uses.
struct Replica<'a> {
    server: &'a Postgres,
    name: String,
}

impl<'a> Replica<'a> {
    fn of(server: &'a Postgres, url: &str) -> Replica<'a> {
        Replica { server, name: url.rsplit('/').next().unwrap().to_owned() }
    }

    async fn alone(&self, statements: &[String]) {
        let name = &self.name;
        let mut all = vec![
            format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
            format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            ),
            "SELECT pg_sleep(0.3)".to_owned(),
        ];
        all.extend(statements.iter().cloned());
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        sql(&self.server.address("postgres", PASSWORD), &all).await;
    }

    async fn copy(&self) {
        let name = &self.name;
        let copy = format!("CREATE DATABASE {name}_replica TEMPLATE {name}");
        self.alone(&[copy, format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")]).await;
    }

    async fn fail_over(&self) {
        let name = &self.name;
        // It only reads until it is promoted.
        let reads = "default_transaction_read_only";
        self.alone(&[
            "BEGIN".to_owned(),
            format!("ALTER DATABASE {name} RENAME TO {name}_gone"),
            format!("ALTER DATABASE {name}_replica RENAME TO {name}"),
            format!("ALTER DATABASE {name} SET {reads} = on"),
            "COMMIT".to_owned(),
            "SELECT pg_sleep(0.5)".to_owned(),
            format!("ALTER DATABASE {name} RESET {reads}"),
            format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            ),
        ])
        .await;
    }
}

#[test]
fn a_replica_that_lacks_what_happened_last_doubles_no_pull_request() {
    const ALL: usize = 10;
    let Some((server, url, runtime)) = database() else { return };
    let world = world(ALL, "0.3").set("DATABASE_URL", url.as_str());
    queue(&world);
    let mut workers = [worker(&world, "one", &[]), worker(&world, "two", &[])];
    let replica = Replica::of(&server, &url);
    until("two pull requests", || pulls(&world).len() >= 2);
    runtime.block_on(replica.copy());
    let copied = pulls(&world).len();
    until("what the replica lacks", || pulls(&world).len() >= copied + 2);
    runtime.block_on(replica.fail_over());
    let lacked = pulls(&world).len() - copied;
    for (worker, name) in workers.iter_mut().zip(["one", "two"]) {
        assert!(end(worker), "{}", log(&world, name));
    }
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", ALL as u64)]), "{}", output.text());
    assert_eq!(pulls(&world).len(), ALL, "one pull request each");
    // What was paid for in the lost time is known by the journals on this machine. A run that went on through it may
    // have lost its job, and with that the turn that it was in, or its place to another worker.
    let asked = world.model.requests().len();
    let most = (ALL + workers.len()) * TURNS;
    eprintln!("{asked} turns for {ALL} repositories, of which the replica lacked {lacked}");
    assert!(asked <= most, "{asked} turns, at most {most}");
    let logs = ["one", "two"].map(|name| log(&world, name)).concat();
    assert!(logs.contains("its result is taken again"), "{logs}");
    for target in runtime.block_on(stored(&url)) {
        assert_eq!(target.state, TargetState::Open, "{target:?}");
    }
}

/// A library that puts the clock of a process forward or back, as the machine's own would be.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long skew(void) {
    const char *text = getenv("CLOCK_SKEW");
    return text ? atol(text) : 0;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, at);
    if (done == 0 && id == CLOCK_REALTIME) at->tv_sec += skew();
    return done;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"#;

#[expect(clippy::disallowed_methods, reason = "starts the C compiler")]
fn clock(world: &TestWorld) -> String {
    let (source, library) = (world.path("clock.c"), world.path("clock.so"));
    fs_err::write(&source, CLOCK).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    library.display().to_string()
}

#[test]
fn workers_whose_clocks_disagree_by_minutes_do_each_thing_once() {
    const ALL: usize = 8;
    let Some((_server, url, runtime)) = database() else { return };
    // The clock of the machine, not the one that tests set.
    let world = world(ALL, "0.2").unset("PATCHWRIGHT_NOW").set("DATABASE_URL", url.as_str());
    let library = clock(&world);
    let now = |skew: &str| {
        let mut date = world.command(&["--version"]);
        date.envs([("LD_PRELOAD", library.as_str()), ("CLOCK_SKEW", skew)]);
        assert!(date.output().unwrap().status.success(), "the program starts with it");
    };
    now("420");
    queue(&world);
    let of = |skew| [("LD_PRELOAD", library.as_str()), ("CLOCK_SKEW", skew)];
    let mut workers = [worker(&world, "ahead", &of("420")), worker(&world, "behind", &of("-420"))];
    for (worker, name) in workers.iter_mut().zip(["ahead", "behind"]) {
        assert!(end(worker), "{}", log(&world, name));
    }
    assert_eq!(pulls(&world).len(), ALL);
    assert_eq!(world.model.requests().len(), ALL * TURNS, "every turn is paid for once");
    let runs = world.runs();
    let names = runs.iter().filter_map(|run| run.file_name()?.to_str()?.get(..13));
    let mut hours: Vec<&str> = names.collect();
    hours.sort_unstable();
    assert!(hours.len() >= ALL, "{hours:?}");
    for target in runtime.block_on(stored(&url)) {
        assert_eq!((target.state, target.attempts), (TargetState::Open, 1), "{target:?}");
        let (from, to) = (target.started_at.unwrap(), target.ended_at.unwrap());
        assert!((0..60_000).contains(&(to - from)), "a run of {} ms", to - from);
    }
}

#[test]
fn a_campaign_file_that_changes_in_the_middle_pauses_the_work_of_the_old_one() {
    let world = world(6, "0.5");
    let args = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--concurrency", "2"];
    let first = world.spawn(&args);
    until("a pull request", || !pulls(&world).is_empty());
    write(&world, &CAMPAIGN.replace("Make it add.", "Make it add, and say so."));
    let output = batch(&world, &["run"]).expect(0);
    assert!(output.stderr.contains("is paused: its file has changed"), "{}", output.text());
    assert_eq!(states(&output), counted(&[("open", 6)]), "{}", output.text());
    let first = world.wait(first);
    assert!(first.text().contains("its file has changed"), "{}", first.text());
    assert_eq!(pulls(&world).len(), 6, "one pull request each, whichever file it was made by");
    let url = patchwright_fleet::store::file_url(&world.path("state/fleet.db"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (states, failed) = runtime.block_on(async {
        let store = Store::open(&url).await.unwrap();
        let mut failed = 0;
        let mut states = Vec::new();
        for row in store.campaigns(None).await.unwrap() {
            states.push(row.state);
            let view = store.view(&row.id).await.unwrap();
            failed += view.targets.iter().filter(|one| one.state == TargetState::Failed).count();
        }
        (states, failed)
    });
    assert_eq!((states, failed), (vec![CampaignState::Done, CampaignState::Paused], 0));
}

/// They were there and in use when the campaign was planned.
#[test]
fn repositories_that_are_closed_or_moved_before_their_turn_are_told_apart() {
    let world = world(5, "0");
    queue(&world);
    let of = |number| world.github.of(&fleet_name(number));
    of(1).archive();
    of(2).change(|here| here.disabled = true);
    of(3).rename("moved");
    of(4).delete();
    let output = world.run(&WORKER);
    let said = world.run(&["batch", "status", "campaign.yml"]);
    let line = |name: &str| {
        let line = said.stdout.lines().find(|line| line.contains(name));
        line.unwrap_or_else(|| panic!("no {name}: {}", said.text())).to_owned()
    };
    for (number, word) in [(1, "is archived"), (2, "access blocked"), (4, "is gone, or")] {
        let line = line(&fleet_name(number));
        assert!(line.contains("access") && line.contains(word), "{line}\n{}", output.text());
    }
    for name in ["acme/moved", &fleet_name(5)] {
        assert!(line(name).contains("open"), "{}", said.text());
    }
    assert_eq!(pulls(&world).len(), 2, "{}", output.text());
}

#[test]
fn an_organisation_that_vanishes_pauses_the_campaign_until_it_is_back() {
    let world = world(4, "0.5");
    let args = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--concurrency", "1"];
    let first = world.spawn(&args);
    until("a pull request", || !pulls(&world).is_empty());
    let (repositories, owner) = {
        let mut github = world.github.world();
        (std::mem::take(&mut github.repositories), github.users.remove("acme").unwrap())
    };
    let first = world.wait(first);
    assert!(first.code != 0, "{}", first.text());
    assert!(first.stderr.contains("is paused: "), "{}", first.text());
    assert!(
        first.stderr.contains("`acme` is gone, has another name, or is hidden"),
        "{}",
        first.text()
    );
    let again = batch(&world, &["run"]);
    assert!(
        again.code != 0 && again.stderr.contains("under way, and is paused"),
        "{}",
        again.text()
    );
    assert!(again.stderr.contains("hint: nothing of it has failed"), "{}", again.text());
    let status = batch(&world, &["status"]);
    assert!(!status.stdout.contains("\"failed\":1"), "{}", status.text());
    {
        let mut github = world.github.world();
        github.repositories = repositories;
        github.users.insert("acme".to_owned(), owner);
    }
    let output = batch(&world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 4)]), "{}", output.text());
    assert_eq!(pulls(&world).len(), 4);
    let asked = world.model.requests().len();
    assert!(asked <= 4 * TURNS + 1, "at most the turn that was cut is paid twice: {asked}");
}

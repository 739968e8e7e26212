//! Workers: several processes on one database, killed, stopped and told to end.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use patchwright_fleet::store::Store;
use patchwright_types::campaign::{JobKind, Target, TargetState};
use serde_json::json;

use crate::support::github::GitHub;
use crate::support::model::{ModelServer, Turn, call, custom, say};
use crate::support::postgres::postgres;
use crate::support::world::{FILES, PATCH, TestWorld};

const CAMPAIGN: &str = "name: sums
select:
  organizations: [acme]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
verify: [sh test.sh]
";

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(3);

/// A world with so many repositories, in which each takes as long as a command.
fn world(count: usize, command: &str) -> TestWorld {
    let github = GitHub::new().organization("acme").repositories(count, |number| {
        let files = FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        files.chain([("NUMBER.md".to_owned(), format!("{number}\n"))]).collect::<Vec<_>>()
    });
    let command = command.to_owned();
    let model = ModelServer::conversations(move |_| -> Vec<Turn> {
        vec![
            call("shell_command", json!({"command": command})),
            custom("apply_patch", PATCH),
            say("Add instead of subtracting\n\nThe sign was wrong."),
        ]
    });
    let world = TestWorld::asking(github, model);
    fs_err::write(world.path("campaign.yml"), CAMPAIGN).unwrap();
    world
}

/// Queues the campaign and leaves it to workers.
fn queue(world: &TestWorld) {
    let args = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&args).expect(0);
}

/// A worker with a state folder of its own, as on another machine. What it says is in `NAME.log`.
fn worker(world: &TestWorld, name: &str, args: &[&str]) -> Child {
    let mut all = vec!["worker", "--model", "gpt-5.3-codex"];
    all.extend(args);
    let log = fs_err::File::create(world.path(&format!("{name}.log"))).unwrap();
    world
        .command(&all)
        .env("PATCHWRIGHT_STATE_DIR", world.path(name))
        .stdout(Stdio::null())
        .stderr(log.into_file())
        .spawn()
        .unwrap()
}

fn log(world: &TestWorld, name: &str) -> String {
    fs_err::read_to_string(world.path(&format!("{name}.log"))).unwrap_or_default()
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The exit code, once it has ended by itself.
fn ends(world: &TestWorld, name: &str, child: &mut Child) -> Option<i32> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("`{name}` does not end: {}", log(world, name));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// All targets, and the jobs by kind and state.
fn stored(url: &str) -> (Vec<Target>, BTreeMap<(JobKind, String), i64>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(url).await.unwrap();
        let mut targets = Vec::new();
        for campaign in store.campaigns(None).await.unwrap() {
            targets.extend(store.view(&campaign.id).await.unwrap().targets);
        }
        (targets, store.job_counts().await.unwrap())
    })
}

/// How many pull requests each repository has.
fn pulls(world: &TestWorld) -> Vec<usize> {
    world.github.world().repositories.iter().map(|one| one.pulls.len()).collect()
}

#[test]
fn workers_that_are_killed_or_stand_still_leave_one_pull_request_each() {
    const COUNT: usize = 6;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(server) = runtime.block_on(postgres()) else { return };
    let url = runtime.block_on(server.database());
    let world = world(COUNT, "sleep 1").set("DATABASE_URL", url.as_str());
    queue(&world);
    let options = ["--lease", "8s", "--room", "2", "--until-idle"];
    let mut killed = worker(&world, "killed", &options);
    until("work", || world.model.requests().len() >= 2);
    let mut stopped = worker(&world, "stopped", &options);
    signal(&killed, rustix::process::Signal::KILL);
    killed.wait().unwrap();
    let before = world.model.requests().len();
    until("more work", || world.model.requests().len() >= before + 2);
    signal(&stopped, rustix::process::Signal::STOP);
    let mut third = worker(&world, "third", &options);
    // Past its lease, and into what others have taken over.
    until("a takeover", || {
        let (_, jobs) = stored(&url);
        !jobs.contains_key(&(JobKind::Target, "queued".to_owned()))
    });
    std::thread::sleep(Duration::from_secs(10));
    signal(&stopped, rustix::process::Signal::CONT);
    assert_eq!(ends(&world, "third", &mut third), Some(0), "{}", log(&world, "third"));
    assert_eq!(ends(&world, "stopped", &mut stopped), Some(0), "{}", log(&world, "stopped"));

    let logs = || ["killed", "stopped", "third"].map(|name| log(&world, name)).join("\n");
    assert_eq!(pulls(&world), vec![1; COUNT], "{}", logs());
    let (targets, jobs) = stored(&url);
    assert_eq!(targets.len(), COUNT);
    for target in &targets {
        assert_eq!(target.state, TargetState::Open, "{target:?}\n{}", logs());
        assert!(target.pull_request.is_some());
    }
    assert!(targets.iter().any(|target| target.attempts > 1), "somebody was taken over from");
    let done = |kind| jobs.get(&(kind, "done".to_owned())).copied().unwrap_or_default();
    assert_eq!(done(JobKind::Target) + done(JobKind::Publish), 2 * i64::try_from(COUNT).unwrap());
    let writes = world.github.writes();
    let opened = writes.iter().filter(|write| write.ends_with("/pulls 201")).count();
    assert_eq!(opened, COUNT, "{writes:?}");
    assert_eq!(world.github.take_violations(), Vec::<String>::new());
}

#[test]
fn a_worker_that_is_told_to_end_finishes_what_it_has_and_takes_nothing_new() {
    let world = world(3, "sleep 1");
    let url = format!("sqlite:{}", world.path("fleet.db").display());
    let world = world.set("DATABASE_URL", url.as_str());
    queue(&world);
    let mut first = worker(&world, "first", &["--room", "1"]);
    until("work", || !world.model.requests().is_empty());
    signal(&first, rustix::process::Signal::TERM);
    assert_eq!(ends(&world, "first", &mut first), Some(0), "{}", log(&world, "first"));
    let said = log(&world, "first");
    assert!(said.contains("SQLite file, for workers of this machine only"), "{said}");
    assert!(said.contains("nothing new is taken"), "{said}");
    assert_eq!(world.model.requests().len(), 3, "the run came to its end");
    let states = || stored(&url).0.iter().map(|target| target.state).collect::<Vec<_>>();
    let queued = states().iter().filter(|state| **state == TargetState::Queued).count();
    assert_eq!(queued, 2, "{:?}", states());
    let mut second = worker(&world, "second", &["--until-idle"]);
    assert_eq!(ends(&world, "second", &mut second), Some(0), "{}", log(&world, "second"));
    assert_eq!(states(), [TargetState::Open; 3], "{}", log(&world, "second"));
    assert_eq!(pulls(&world), [1, 1, 1]);
}

#[test]
fn a_drain_that_takes_too_long_puts_the_work_back() {
    let world = world(1, "sleep 60");
    let url = format!("sqlite:{}", world.path("fleet.db").display());
    let world = world.set("DATABASE_URL", url.as_str());
    queue(&world);
    let mut first = worker(&world, "first", &["--drain", "1s"]);
    until("work", || !world.model.requests().is_empty());
    signal(&first, rustix::process::Signal::TERM);
    assert_eq!(ends(&world, "first", &mut first), Some(0), "{}", log(&world, "first"));
    let (targets, jobs) = stored(&url);
    assert_eq!((targets[0].state, targets[0].attempts), (TargetState::Queued, 0));
    assert_eq!(jobs.get(&(JobKind::Target, "queued".to_owned())), Some(&1));
    assert_eq!(pulls(&world), [0]);
}

#[test]
fn a_worker_says_what_is_wrong_before_it_takes_anything() {
    let world = TestWorld::new(GitHub::new(), []);
    let short = world.run(&["worker", "--lease", "1s"]).expect(2);
    assert!(short.stderr.contains("`--lease` is too short"), "{}", short.text());
    let bad = world.set("DATABASE_URL", "postgres://u:sesame-open@127.0.0.1:1/x");
    let down = bad.run(&["worker"]).expect(1);
    assert!(down.stderr.contains("postgres://u@127.0.0.1:1/x"), "{}", down.text());
    assert!(!down.stderr.contains("sesame"), "{}", down.text());
    let none = bad.set("DATABASE_URL", "mysql://u:sesame-open@db/x").run(&["worker"]).expect(2);
    assert!(
        none.stderr.contains("correct the address: `DATABASE_URL`, or the file of `--database`"),
        "{}",
        none.text()
    );
    assert!(!none.stderr.contains("sesame"), "{}", none.text());
}

#[test]
fn a_machine_that_can_keep_nothing_takes_no_job_and_costs_no_attempt() {
    let world = world(2, "true");
    let url = format!("sqlite:{}", world.path("shared.db").display());
    let world = world.set("DATABASE_URL", url.as_str());
    let mut child = worker(&world, "alone", &["--room", "1", "--until-idle"]);
    ends(&world, "alone", &mut child);
    // Whatever is in its way: a file takes no files.
    let mut child = worker(&world, "full", &["--room", "1"]);
    until("a worker", || world.path("full").is_dir());
    std::thread::sleep(Duration::from_secs(1));
    fs_err::remove_dir_all(world.path("full")).unwrap();
    fs_err::write(world.path("full"), "").unwrap();
    until("a word", || {
        log(&world, "full").contains("nothing is begun here until that is put right")
    });
    queue(&world);
    std::thread::sleep(Duration::from_secs(3));
    let (targets, _) = stored(&url);
    assert!(
        targets.iter().all(|one| (one.state, one.attempts) == (TargetState::Queued, 0)),
        "{targets:?}: {}",
        log(&world, "full")
    );
    fs_err::remove_file(world.path("full")).unwrap();
    until("pull requests", || pulls(&world) == vec![1; 2]);
    let said = log(&world, "full");
    assert_eq!(said.matches("nothing is begun here").count(), 1, "{said}");
    assert!(said.contains("the state folder takes files again"), "{said}");
    signal(&child, rustix::process::Signal::TERM);
    ends(&world, "full", &mut child);
}

#[test]
fn a_gate_on_open_pull_requests_opens_when_one_is_merged_though_no_command_watches() {
    let world = world(2, "true").set("PATCHWRIGHT_TIME_SCALE", "0.01");
    let url = format!("sqlite:{}", world.path("shared.db").display());
    let world = world.set("DATABASE_URL", url.as_str());
    let gate = "waves:\n  - size: 1\n    max-open-pull-requests: 0\n";
    let more = "tracking-issue: acme/app-001\n";
    fs_err::write(world.path("campaign.yml"), format!("{CAMPAIGN}{gate}{more}")).unwrap();
    queue(&world);
    let mut child = worker(&world, "alone", &["--room", "1"]);
    let all = || pulls(&world).iter().sum::<usize>();
    until("a pull request", || all() == 1);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(all(), 1, "the gate is shut: {}", log(&world, "alone"));
    let first = world.github.of("acme/app-001").pulls();
    let name = if first.is_empty() { "acme/app-002" } else { "acme/app-001" };
    let number = world.github.of(name).pulls()[0].number;
    world.github.of(name).merge(number);
    until("the next wave", || all() == 2);
    // The issue tells the end, although the command ended long ago.
    let told = || {
        let github = world.github.world();
        let issues = github.repositories.iter().flat_map(|one| one.issues.values());
        let bodies: Vec<String> = issues.filter_map(|issue| issue.body.clone()).collect();
        bodies.iter().any(|body| body.contains("2 of 2 done"))
    };
    until("the issue", told);
    signal(&child, rustix::process::Signal::TERM);
    ends(&world, "alone", &mut child);
}

#[test]
fn jobs_of_a_process_that_was_killed_are_taken_over_at_once_and_those_of_a_live_one_are_not() {
    let world = world(3, "sleep 3");
    let url = format!("sqlite:{}", world.path("shared.db").display());
    let world = world.set("DATABASE_URL", url.as_str());
    queue(&world);
    // The lease is the default, of two minutes.
    let mut alive = worker(&world, "alive", &["--room", "1", "--until-idle"]);
    until("work", || !world.model.requests().is_empty());
    let mut killed = worker(&world, "killed", &["--room", "1", "--until-idle"]);
    until("more work", || world.model.requests().len() >= 2);
    signal(&killed, rustix::process::Signal::KILL);
    let begin = Instant::now();
    // Nobody has asked yet how it ended: it is a process still, of which nothing runs.
    let mut heir = worker(&world, "heir", &["--room", "2", "--until-idle"]);
    assert_eq!(ends(&world, "heir", &mut heir), Some(0), "{}", log(&world, "heir"));
    assert_eq!(ends(&world, "alive", &mut alive), Some(0), "{}", log(&world, "alive"));
    assert!(begin.elapsed() < Duration::from_mins(1), "{:?}", begin.elapsed());
    killed.wait().unwrap();
    let logs = ["alive", "heir"].map(|name| log(&world, name)).join("\n");
    let taken = format!("taken over from a process that ended (process {} of ", killed.id());
    assert!(logs.contains(&taken), "{logs}");
    assert!(!logs.contains(&format!("(process {} of ", alive.id())), "{logs}");
    let (targets, _) = stored(&url);
    let attempts: Vec<i64> = targets.iter().map(|target| target.attempts).collect();
    assert_eq!(attempts.iter().sum::<i64>(), 4, "one was begun twice: {attempts:?}");
    assert_eq!(pulls(&world), vec![1; 3], "{logs}");
}

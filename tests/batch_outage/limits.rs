//! How often a job may lose its sandbox, and for how long there may be none, before an attempt counts; reviews and deliveries,
//! too.

use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_fleet::batch::outage::Outages;
use patchwright_fleet::store::Store;
use patchwright_forge::Role;
use patchwright_types::campaign::{ErrorClass, Target, TargetState};
use serde_json::{Value, json};

use super::{start, stored, until};
use crate::batch_run::{CAMPAIGN, shell, write};
use crate::sandbox_pods::{in_pods, server};
use crate::serve::{Serving, guid, labeled, served};
use crate::support::github::GitHub;
use crate::support::model::{ModelServer, Turn, call, custom, say};
use crate::support::pods::PodServer;
use crate::support::world::{FILES, PATCH, TestWorld, github};

/// Pods that may be taken away from one job without an attempt counted.
const FREE: usize = 5;
const ATTEMPTS: usize = 2;
/// What a pod is at when it has been at work for so long is the model's command.
const BEGINNING: Duration = Duration::from_secs(1);

/// A campaign of one repository, queued. `scale` makes a day as short as a test.
fn queued(
    server: &PodServer,
    github: GitHub,
    campaign: &str,
    turns: fn() -> Vec<Turn>,
    scale: &str,
) -> TestWorld {
    let model = ModelServer::conversations(move |_| turns());
    let world = in_pods(TestWorld::asking(github, model), server);
    let world = world.set("PATCHWRIGHT_TIME_SCALE", scale);
    write(&world, campaign);
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    world
}

fn sums() -> (GitHub, String) {
    let github = GitHub::new().organization("acme").repositories(1, |_| FILES.to_vec());
    (github, format!("{CAMPAIGN}limits:\n  max-attempts: {ATTEMPTS}\n"))
}

/// More turns than pods: a command that was cut off is not begun again, and the model goes on.
fn busy() -> Vec<Turn> {
    (0..20).map(|_| shell("sleep 100")).collect()
}

fn log(world: &TestWorld) -> String {
    fs_err::read_to_string(world.path("one.log")).unwrap_or_default()
}

/// The pods in which the model works.
fn at_work(server: &PodServer) -> Vec<String> {
    let works = |pod: &Value| {
        pod["metadata"]["labels"]["patchwright/purpose"] == "agent"
            && pod["status"]["phase"] == "Running"
    };
    let world = server.world();
    world.pods.iter().filter(|(_, pod)| works(pod)).map(|(name, _)| name.clone()).collect()
}

/// Takes away the pod in which the model works, each time that there is one, until `is_over`. How often.
fn evict_all(
    server: &PodServer,
    asked: impl Fn() -> usize,
    mut is_over: impl FnMut() -> bool,
) -> usize {
    let mut taken = 0;
    loop {
        let mut over = false;
        until("a pod", || {
            over = is_over();
            over || (!at_work(server).is_empty() && asked() > 0)
        });
        if over {
            return taken;
        }
        for pod in at_work(server) {
            server.evict(&pod);
        }
        taken += 1;
    }
}

fn ended(world: &TestWorld, mut worker: Child) -> Target {
    until("the end", || worker.try_wait().unwrap().is_some());
    assert!(worker.wait().unwrap().success(), "{}", log(world));
    let (mut targets, _) = stored(&format!("sqlite:{}", world.path("state/fleet.db").display()));
    targets.remove(0)
}

/// The only job of this world, which loses every pod that it gets.
fn fails_for_want_of_pods(server: &PodServer, world: &TestWorld) -> Target {
    let mut worker = start(world, "one", &["--until-idle"], &[]);
    let asked = || world.model.requests().len();
    let taken = evict_all(server, asked, || worker.try_wait().unwrap().is_some());
    let target = ended(world, worker);
    assert_eq!(taken, FREE + ATTEMPTS, "{target:?}\n{}", log(world));
    let how = (target.state, target.class);
    let expected = (TargetState::Failed, Some(ErrorClass::Sandbox));
    assert_eq!(how, expected, "{target:?}\n{}", log(world));
    assert_eq!(target.attempts, i64::try_from(ATTEMPTS).unwrap());
    target
}

#[test]
fn a_job_whose_pods_are_taken_away_again_and_again_fails() {
    let Some(server) = server() else { return };
    let (github, campaign) = sums();
    let world = queued(&server, github, &campaign, busy, "0.01");
    let target = fails_for_want_of_pods(&server, &world);
    assert!(target.reason.unwrap().contains("evicted"), "{}", log(&world));
}

#[tokio::test]
async fn how_often_a_job_lost_its_pod_is_known_to_every_process_until_the_job_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
    let store = Store::open(&url).await.unwrap();
    let process = || {
        let redactor = Arc::new(Redactor::default());
        Outages::new(store.clone(), Ui::plain(), redactor, 1.0, "token".to_owned())
    };
    for taken in 1..=FREE + 2 {
        let may = process().may_lose_pod(7).await.unwrap();
        assert_eq!(may, taken <= FREE, "{taken}");
    }
    assert!(process().may_lose_pod(8).await.unwrap(), "another job");
    store.prune(-1_000).await.unwrap();
    assert!(process().may_lose_pod(7).await.unwrap(), "nothing is left of it");
}

#[test]
fn a_quota_that_is_used_up_for_more_than_a_day_fails_the_job() {
    let Some(server) = server() else { return };
    let quota = "pods \"x\" is forbidden: exceeded quota: compute, requested: limits.memory=4Gi, used: limits.memory=8Gi, \
                 limited: limits.memory=8Gi";
    server.meets(&Method::POST, "/pods", 403, quota, 100_000);
    let (github, campaign) = sums();
    // A day is eight seconds.
    let world = queued(&server, github, &campaign, || vec![say("Never said.")], "0.0001");
    let worker = start(&world, "one", &["--until-idle"], &[]);
    let target = ended(&world, worker);
    let ended = (target.state, target.class);
    let expected = (TargetState::Failed, Some(ErrorClass::Sandbox));
    assert_eq!(ended, expected, "{target:?}\n{}", log(&world));
    assert!(target.reason.unwrap().contains("exceeded quota: compute"), "{}", log(&world));
    assert_eq!(target.attempts, i64::try_from(ATTEMPTS).unwrap());
    let asked = server.world().requests.iter().filter(|one| one.starts_with("POST")).count();
    assert!(asked > ATTEMPTS, "most of what failed counted as nothing: {asked}");
}

const REVIEWS: &str = "name: looks\nselect:\n  repositories: [acme/app]\nmode: review\n";

fn looks() -> Vec<Turn> {
    vec![
        call("shell_command", json!({"command": "sleep 6"})),
        say("Adds `divide`.\n\nVerdict: ready"),
    ]
}

fn with_pull() -> GitHub {
    let changed = &[("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n\ndivide() {\n  :\n}\n")];
    GitHub::new()
        .organization("acme")
        .repository("acme/app", FILES)
        .pull(8, "Add divide", "divide", changed)
        .by("rita")
        .body("Adds `divide`.")
}

#[test]
fn a_review_whose_pod_is_taken_away_is_made_once_and_counted_once() {
    let Some(server) = server() else { return };
    let world = queued(&server, with_pull(), REVIEWS, looks, "0.01");
    let mut worker = start(&world, "one", &["--until-idle"], &[]);
    until("a pod", || {
        assert!(worker.try_wait().unwrap().is_none(), "{}", log(&world));
        !at_work(&server).is_empty() && !world.model.requests().is_empty()
    });
    std::thread::sleep(BEGINNING);
    for pod in at_work(&server) {
        server.evict(&pod);
    }
    let target = ended(&world, worker);
    assert_eq!(target.state, TargetState::Reported, "{target:?}\n{}", log(&world));
    assert_eq!((target.attempts, target.class), (1, None), "{target:?}");
    assert_eq!(world.model.requests().len(), looks().len(), "{}", log(&world));
    let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
    let used = &result["spending"]["usage"];
    let used = |name: &str| used[name].as_i64().unwrap_or_default();
    let tokens = used("input") + used("output");
    assert!(tokens > 0 && target.tokens == tokens, "counted once: {target:?} {result}");
    assert_eq!(result["conclusion"], "done", "{result}");
}

#[test]
fn a_review_that_loses_its_pod_for_good_fails_after_all_its_attempts() {
    let Some(server) = server() else { return };
    let campaign = format!("{REVIEWS}limits:\n  max-attempts: {ATTEMPTS}\n");
    let world = queued(&server, with_pull(), &campaign, busy, "0.01");
    fails_for_want_of_pods(&server, &world);
}

#[test]
fn a_delivery_whose_pod_is_taken_away_goes_on_in_another() {
    let Some(server) = server() else { return };
    let turns =
        vec![shell("sleep 6"), custom("apply_patch", PATCH), say("Add\n\nThe sign was wrong.")];
    let asked_for = turns.len();
    let world = served(TestWorld::new(github().user("ann", Role::Write), turns));
    let world = in_pods(world, &server).set("PATCHWRIGHT_TIME_SCALE", "0.01");
    let serving = Serving::start(&world, &["--room", "1"]);
    serving.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    serving.until("no pod", || !at_work(&server).is_empty() && !world.model.requests().is_empty());
    std::thread::sleep(BEGINNING);
    for pod in at_work(&server) {
        server.evict(&pod);
    }
    serving.until("no pull request", || !world.github.pulls().is_empty());
    serving.until_idle();
    let done = serving.metric("patchwright_delivery_runs_total{conclusion=\"done\"}");
    assert_eq!(done.to_string(), "1");
    assert_eq!(world.model.requests().len(), asked_for, "{}", serving.said());
    // The attempt that lost its pod had asked the model as well.
    let result: Value = serde_json::from_str(&world.result("result.json")).unwrap();
    let cost = result["spending"]["cost_usd"].as_f64().unwrap();
    let counted = serving.metric("patchwright_delivery_cost_usd_total");
    assert!(cost > 0.0 && (counted - cost).abs() < 1e-9, "counted once: {counted} of {cost}");
}

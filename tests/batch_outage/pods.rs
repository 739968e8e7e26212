//! A cluster that gives no sandboxes for a while: its API server is away, a quota is used up, no node has room, pods are
//! taken away. No repository fails because of it, and what was answered is not asked of the model again.

use std::process::Child;
use std::time::Duration;

use axum::http::Method;
use patchwright_sandbox::Sandbox;
use serde_json::json;

use super::{TURNS, WORKERS, paid, start, stored, until};
use crate::batch_run::{CAMPAIGN, batch, counted, pulls, shell, states, write};
use crate::sandbox_pods::{connected, in_pods, server};
use crate::support::github::GitHub;
use crate::support::model::{ModelServer, custom, say};
use crate::support::pods::{Fate, PodServer};
use crate::support::world::{FILES, PATCH, TestWorld};

const REPOSITORIES: usize = 3;

fn world(server: &PodServer) -> TestWorld {
    let github = GitHub::new().organization("acme").repositories(REPOSITORIES, |_| FILES.to_vec());
    let model = ModelServer::conversations(|_| {
        vec![
            shell("sleep 1"),
            custom("apply_patch", PATCH),
            shell("sleep 1"),
            say("Add instead of subtracting\n\nThe sign was wrong."),
            // Where the sandbox ended under the patch, nothing has changed in the end, and the model is asked about that.
            custom("apply_patch", PATCH),
            say("Add instead of subtracting\n\nThe sign was wrong."),
        ]
    });
    let world = in_pods(TestWorld::asking(github, model), server);
    let world = world.set("PATCHWRIGHT_TIME_SCALE", "0.01");
    write(&world, CAMPAIGN);
    let queue = ["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"];
    world.run(&queue).expect(0);
    world
}

fn workers(world: &TestWorld) -> Vec<Child> {
    let names = WORKERS.iter().take(2);
    names.map(|name| start(world, name, &["--until-idle"], &[])).collect()
}

fn logs(world: &TestWorld) -> String {
    let log = |name: &&str| fs_err::read_to_string(world.path(&format!("{name}.log")));
    WORKERS.iter().take(2).map(|name| log(name).unwrap_or_default()).collect()
}

/// The model works in so many pods.
fn at_work(server: &PodServer) -> usize {
    let works = |pod: &serde_json::Value| {
        pod["metadata"]["labels"]["patchwright/purpose"] == "agent"
            && pod["status"]["phase"] == "Running"
    };
    server.world().pods.values().filter(|pod| works(pod)).count()
}

/// Everything came to its end as if nothing had been.
fn done(world: &TestWorld, server: &PodServer, workers: Vec<Child>) {
    for mut worker in workers {
        until("the end", || worker.try_wait().unwrap().is_some());
        assert!(worker.wait().unwrap().success(), "{}", logs(world));
    }
    let output = batch(world, &["run"]);
    let (targets, _) = stored(&format!("sqlite:{}", world.path("state/fleet.db").display()));
    assert_eq!(output.code, 0, "{}\n{}\n{targets:#?}", output.text(), logs(world));
    let all = u64::try_from(REPOSITORIES).unwrap();
    assert_eq!(states(&output), counted(&[("open", all)]), "{}\n{}", output.text(), logs(world));
    assert_eq!(pulls(world).len(), REPOSITORIES, "one pull request each");
    for target in &targets {
        assert_eq!(target.attempts, 1, "{target:?}\n{}", logs(world));
    }
    let paid = paid(world, REPOSITORIES);
    let is_asked_once = |requests: &usize| [TURNS, TURNS + 2].contains(requests);
    assert!(paid.values().all(is_asked_once), "{paid:?}\n{}", logs(world));
    // A server that is away keeps a worker from removing pods, and it may have ended before it was back.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let sandbox = connected(server, &world.path("state"), None).await;
        sandbox.sweep(None).await.unwrap();
    });
    server.until("the end of all pods", |world| world.pods.is_empty());
}

#[test]
fn a_campaign_sleeps_through_a_cluster_that_is_away() {
    let Some(server) = server() else { return };
    let world = world(&server);
    let workers = workers(&world);
    until("work", || at_work(&server) == 2 && world.model.requests().len() > 1);

    server.world().is_away = true;
    server.break_streams();
    until("the notice", || logs(&world).contains("no run is begun here until it does"));
    // Many times longer than a job waits that was put back.
    std::thread::sleep(Duration::from_secs(5));
    let asked = world.model.requests().len();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(world.model.requests().len(), asked, "nobody can work");
    server.world().is_away = false;

    done(&world, &server, workers);
    assert!(logs(&world).contains("the Kubernetes API answers again"), "{}", logs(&world));
}

/// It is back before anybody can ask: what was cut off is nobody's fault all the same.
#[test]
fn a_campaign_goes_on_after_a_restart_of_the_api_server_and_a_drain() {
    let Some(server) = server() else { return };
    let world = world(&server);
    let workers = workers(&world);
    until("work", || at_work(&server) > 0);
    server.break_streams();
    until("the end of a pod", || at_work(&server) == 0);
    until("work again", || at_work(&server) > 0);
    let pods = server.pods();
    for pod in &pods {
        server.evict(pod);
    }
    done(&world, &server, workers);
}

#[test]
fn a_campaign_waits_for_quota_and_room() {
    let Some(server) = server() else { return };
    let world = world(&server);
    let quota = "pods \"x\" is forbidden: exceeded quota: compute, requested: limits.memory=4Gi, used: limits.memory=8Gi, \
                 limited: limits.memory=8Gi";
    server.meets(&Method::POST, "/pods", 403, quota, 6);
    let workers = workers(&world);
    until("the notice", || logs(&world).contains("one at a time until there are sandboxes again"));
    assert!(logs(&world).contains("exceeded quota: compute"), "{}", logs(&world));
    let again = |line: &str| line == "there are sandboxes again";
    until("the end of the quota", || logs(&world).lines().any(again));

    let waits = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}]});
    server.world().fate = Fate::Waits(waits);
    until("the second notice", || logs(&world).contains("3 Insufficient memory"));
    server.world().fate = Fate::Runs;
    done(&world, &server, workers);
}

#[test]
fn a_campaign_waits_for_nodes_that_are_not_reached() {
    let Some(server) = server() else { return };
    let world = world(&server);
    let away = "error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused";
    // More than two workers ask before each gives up.
    server.meets(&Method::GET, "/exec", 500, away, 12);
    let workers = workers(&world);
    let asked = |request: &&String| request.contains("/exec?");
    until("two that got no sandbox", || server.world().requests.iter().filter(asked).count() >= 12);
    done(&world, &server, workers);
}

#[test]
fn a_campaign_waits_until_webhooks_leave_pods_as_they_are() {
    let Some(server) = server() else { return };
    let world = world(&server);
    let inject = |pod: &mut serde_json::Value| {
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({"name": "istio-proxy", "image": "a"}));
    };
    server.world().webhook = Some(Box::new(inject));
    let workers = workers(&world);
    until("the notice", || logs(&world).contains("one at a time until there are sandboxes again"));
    assert!(logs(&world).contains("has \"istio-proxy\" besides"), "{}", logs(&world));
    server.world().webhook = None;
    let level =
        "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": seccompProfile";
    server.meets(&Method::POST, "/pods", 403, level, 4);
    done(&world, &server, workers);
}

//! Servers beside a sandbox that is a pod: containers that share its network, and what is said of those that are not
//! there.

use std::collections::BTreeMap;

use patchwright_sandbox::image::NamedBy;
use patchwright_sandbox::services::{Service, ServiceState};
use patchwright_sandbox::{Sandbox, SandboxSpec};
use serde_json::json;

use super::{Pods, connected, in_pods, pods, server};
use crate::sandboxes::{sh, spec};
use crate::services::a_database_is_there;
use crate::support::cluster::schema;
use crate::support::docker::{BUSYBOX, IMAGE};
use crate::support::world::TestWorld;

/// Services run as their images say.
const TEMPLATE: &str = "apiVersion: v1\nkind: PodTemplate\nmetadata:\n  annotations:\n    patchwright/service-users: \
                        of-the-image\n";
/// Writes down what it is, and serves that.
const WEB: &str = "mkdir /tmp/w && cd /tmp/w && (id -u; id -g; ls /sys/class/net; echo \"$GREETING\"; touch /x && echo \
                   writes) >x 2>&1; echo begun; exec busybox httpd -f -p 8080";

#[expect(clippy::disallowed_methods, reason = "an image that no registry has")]
fn docker(args: &[&str]) -> String {
    let output = std::process::Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An image whose program is this script.
fn image(name: &str, script: &str) -> String {
    let container = docker(&["create", BUSYBOX, "true"]);
    let command = format!("CMD {}", json!(["sh", "-c", script]));
    docker(&["commit", "--change", &command, &container, name]);
    docker(&["rm", &container]);
    name.to_owned()
}

fn service(name: &str, image: &str) -> Service {
    Service { name: name.to_owned(), image: image.to_owned(), ..Service::default() }
}

fn with(pods: &Pods, services: Vec<Service>) -> SandboxSpec {
    SandboxSpec { services, ..spec(&pods.run, IMAGE) }
}

fn problems<'a>(states: &'a [ServiceState]) -> BTreeMap<&'a str, &'a str> {
    let problem = |state: &'a ServiceState| state.problem.as_deref().unwrap_or_default();
    states.iter().map(|state| (state.name.as_str(), problem(state))).collect()
}

fn get(host: &str) -> String {
    format!(
        "python3 -c \"import urllib.request as r; print(r.urlopen('http://{host}:8080/x', timeout=20).read().decode())\" 2>&1"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_a_locked_container_that_only_the_sandbox_reaches() {
    let Some(pods) = pods().await else { return };
    let web = Service {
        env: [("GREETING".to_owned(), "$(HOME) costs $$5".to_owned())].into(),
        ..service("web", &image("patchwright-pods-web:1", WEB))
    };
    let running = pods.sandbox.start(&with(&pods, vec![web])).await.unwrap();
    assert_eq!(problems(&running.services), BTreeMap::from([("web", "")]));
    assert_eq!(running.services[0].ports, [8080], "as it was seen to listen");
    let said = sh(&running, &get("web")).await;
    assert_eq!(said.trim(), "10000\n0\nlo\n$(HOME) costs $$5\ntouch: /x: Permission denied");
    assert_eq!(sh(&running, &get("localhost")).await.trim(), said.trim());
    // Neither its processes nor its files are those of the sandbox.
    assert_eq!(
        sh(&running, "ls /tmp/w 2>&1; ps ax | grep -c [h]ttpd").await,
        "ls: cannot access '/tmp/w': No such file or directory\n0"
    );
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    let world = pods.server.world();
    let pod = &world.made[0]["spec"];
    assert_eq!(schema::softness_at("restricted", pod), Vec::<String>::new());
    assert_eq!(pod["hostAliases"], json!([{"ip": "127.0.0.1", "hostnames": ["web"]}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_there_says_why_and_the_sandbox_is() {
    let Some(pods) = pods().await else { return };
    let killed = image("patchwright-pods-killed:1", "x=a; while :; do x=$x$x; done");
    let services = vec![
        service("cache", BUSYBOX),
        service("db", "patchwright-postgres:1"),
        service("killed", &killed),
        service("my_db", "postgres:16"),
        service("none", "patchwright-no-such-image:1"),
    ];
    let running = pods.sandbox.start(&with(&pods, services)).await.unwrap();
    let problems = problems(&running.services);
    for (name, expected) in [
        ("cache", "it ended with exit code 0"),
        ("db", "it ended with exit code"),
        ("killed", "it "),
        ("my_db", "a service of a pod is called by small letters"),
        (
            "none",
            "the image of the container `service-none` cannot be had (ImagePullBackOff: No such image",
        ),
    ] {
        assert!(problems[name].starts_with(expected), "{name}: {problems:?}");
    }
    let db = running.services.iter().find(|state| state.name == "db").unwrap();
    assert!(db.log.contains("POSTGRES_PASSWORD: is not set"), "what it printed: {db:?}");
    // Nothing of this keeps the sandbox from working, or hides its end.
    assert_eq!(sh(&running, "echo x").await, "x");
    pods.server.kill_for_memory(&running.id);
    assert!(crate::sandboxes::try_sh(&running, "true").await.is_err());
    assert_eq!(running.exit_reason().await.as_deref(), Some("out of memory (limit 256 MiB)"));
    running.stop().await.unwrap();
    pods.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_command_and_a_port_that_was_said_are_waited_for() {
    let Some(pods) = pods().await else { return };
    // The first port is open long before the service is what it is to be.
    let slow = image(
        "patchwright-pods-slow:1",
        "busybox httpd -p 8081; sleep 2; busybox httpd -p 8080; touch /tmp/ready; exec sleep 1000",
    );
    let healthy = Service { health: Some("test -e /tmp/ready".to_owned()), ..service("a", &slow) };
    let running = pods.sandbox.start(&with(&pods, vec![healthy])).await.unwrap();
    assert_eq!(problems(&running.services), BTreeMap::from([("a", "")]));
    assert_eq!(running.services[0].ports.first(), Some(&8080));
    running.stop().await.unwrap();
    let said = Service { ports: vec![8080], ..service("b", &slow) };
    let running = pods.sandbox.start(&with(&pods, vec![said])).await.unwrap();
    assert_eq!(running.services[0].ports, [8080]);
    assert!(sh(&running, &get("b")).await.contains("404"));
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_everybody_is_pulled_without_secrets_or_not_at_all() {
    let Some(pods) = pods().await else { return };
    let public =
        || Service { named_by: NamedBy::OneOfMany, ..service("db", "patchwright-no-such-image:1") };
    let secrets = "apiVersion: v1\nkind: PodTemplate\ntemplate:\n  spec:\n    imagePullSecrets: [{name: ours}]\n";
    let sandbox = connected(&pods.server, pods.state.path(), Some(secrets)).await;
    let running = sandbox.start(&with(&pods, vec![public()])).await.unwrap();
    let problems = problems(&running.services);
    assert!(problems["db"].contains("pulled with secrets of the operator"), "{problems:?}");
    running.stop().await.unwrap();
    let running = pods.sandbox.start(&with(&pods, vec![public()])).await.unwrap();
    running.stop().await.unwrap();
    let world = pods.server.world();
    assert_eq!(world.made[0]["spec"]["containers"].as_array().unwrap().len(), 1);
    let beside = &world.made[1]["spec"]["containers"][1];
    assert_eq!(beside["imagePullPolicy"], "Always");
    assert_eq!(beside["image"], "docker.io/library/patchwright-no-such-image:1");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_run_as_their_images_say_where_the_operator_and_the_namespace_let_them() {
    let Some(pods) = pods().await else { return };
    let sandbox = connected(&pods.server, pods.state.path(), Some(TEMPLATE)).await;
    let db = Service {
        env: [("POSTGRES_PASSWORD".to_owned(), "x".to_owned())].into(),
        health: Some("pg_isready -h localhost".to_owned()),
        ..service("db", "patchwright-postgres:1")
    };
    let Err(err) = sandbox.start(&with(&pods, vec![db.clone()])).await else {
        panic!("it started")
    };
    assert!(err.to_string().contains("violates PodSecurity \"restricted:latest\""), "{err}");
    pods.server.world().is_baseline = true;
    let running = sandbox.start(&with(&pods, vec![db])).await.unwrap();
    let states = &running.services;
    assert_eq!(problems(states), BTreeMap::from([("db", "")]), "{states:?}");
    let connect =
        "python3 -c \"import socket; socket.create_connection(('db', 5432)); print('open')\"";
    assert_eq!(sh(&running, connect).await, "open");
    assert_eq!(
        sh(&running, "id -u; grep -c CapEff:.0000000000000000 /proc/self/status").await,
        "10000\n1"
    );
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    let world = pods.server.world();
    let pod = &world.made[0]["spec"];
    assert_eq!(schema::softness_at("baseline", pod), Vec::<String>::new());
    let context = &pod["containers"][1]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["runAsNonRoot"]), (&json!(null), &json!(false)));
}

#[test]
fn a_database_that_ci_has_is_there_for_the_checks() {
    let Some(server) = server() else { return };
    server.world().is_baseline = true;
    let world = in_pods(TestWorld::local(crate::services::turns()), &server);
    fs_err::write(world.path("pods.yaml"), TEMPLATE).unwrap();
    let world = world.set("PATCHWRIGHT_SANDBOX_POD_TEMPLATE", "pods.yaml");
    a_database_is_there(&world);
    server.until("the end of all pods", |world| world.pods.is_empty());
    let made = server.world().made.clone();
    let beside = made.iter().filter(|pod| pod["spec"]["containers"][1]["name"] == "service-db");
    assert!(beside.count() >= 3, "for the base, the agent and the head");
}

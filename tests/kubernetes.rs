//! `worker --launch kubernetes`: jobs carried out in pods. The API server is ours
//! (`tests/support/kubernetes.rs`), pods are processes; no real cluster is asked.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::cluster::{rights, schema};
use crate::support::github::GitHub;
use crate::support::kubernetes::{Fate, Kubernetes, Meets, NAMESPACE};
use crate::support::model::{ModelServer, Turn, call, custom, say};
use crate::support::postgres::{PASSWORD, Postgres, postgres};
use crate::support::process::Process;
use crate::support::world::{FILES, KEY, PATCH, TestWorld};

const CAMPAIGN: &str = "name: sums
select:
  organizations: [acme]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
verify: [sh test.sh]
";

const TEMPLATE: &str = "apiVersion: v1
kind: PodTemplate
metadata:
  namespace: agents
template:
  metadata:
    labels: {team: builds}
  spec:
    containers:
      - name: patchwright
        image: ghcr.io/patchwright/patchwright:v0
        envFrom: [{secretRef: {name: patchwright}}]
";

/// A fleet with so many repositories, each with work that takes as long as a command; a queue; a cluster.
struct Cluster {
    world: TestWorld,
    kubernetes: Kubernetes,
    url: String,
    _server: Postgres,
}

fn cluster(count: usize, command: &str) -> Option<Cluster> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(postgres())?;
    let url = runtime.block_on(server.database());
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
    // Waits are long enough for a process to start on a busy machine.
    let world = TestWorld::asking(github, model)
        .set("DATABASE_URL", url.as_str())
        .set("PATCHWRIGHT_TIME_SCALE", "0.05");
    let (api, site, model) = (world.github.api_url(), world.github.server_url(), world.model.url());
    let secret = [
        ("DATABASE_URL", url.as_str()),
        ("GITHUB_API_URL", api.as_str()),
        ("GITHUB_SERVER_URL", site.as_str()),
        ("GITHUB_TOKEN", world.github.token()),
        ("OPENAI_BASE_URL", model.as_str()),
        ("OPENAI_API_KEY", KEY),
        ("PATCHWRIGHT_SANDBOX", "local"),
        ("PATCHWRIGHT_NOW", "2026-11-20T12:00:00Z"),
        ("PATCHWRIGHT_TIME_SCALE", "0.05"),
    ];
    let kubernetes = Kubernetes::start(&secret, &[KEY, world.github.token(), PASSWORD]);
    let world = world.set("KUBECONFIG", kubernetes.kubeconfig());
    world.write("pods.yaml", TEMPLATE);
    fs_err::write(world.path("campaign.yml"), CAMPAIGN).unwrap();
    world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"]).expect(0);
    Some(Cluster { world, kubernetes, url, _server: server })
}

impl Cluster {
    fn launcher(&self, args: &[&str]) -> Process<'_> {
        let template = self.world.path("pods.yaml").display().to_string();
        let mut all = vec!["worker", "--launch", "kubernetes", "--pod-template", template.as_str()];
        all.extend(["--lease", "20s", "--verbose"]);
        all.extend(args);
        self.world.process(&all)
    }

    /// How many pull requests each repository has.
    fn pulls(&self) -> Vec<usize> {
        self.world.github.world().repositories.iter().map(|one| one.pulls.len()).collect()
    }

    /// Each job of a target: state, attempts, reason.
    fn jobs(&self) -> Vec<(String, i64, String)> {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let pool = sqlx::PgPool::connect(&self.url).await.unwrap();
            let rows: Vec<(String, i64, Option<String>)> = sqlx::query_as(
                "SELECT state, attempt, why FROM jobs WHERE kind = 'target' ORDER BY id",
            )
            .fetch_all(&pool)
            .await
            .unwrap();
            pool.close().await;
            rows.into_iter()
                .map(|(state, tries, why)| (state, tries, why.unwrap_or_default()))
                .collect()
        })
    }

    /// Everything that could say why something went wrong.
    fn story(&self, launcher: &str) -> String {
        let world = self.kubernetes.world();
        format!("{launcher}\n{}\n{:#?}\n{:?}", world.logs(), world.requests, self.jobs())
    }

    fn nothing_is_left(&self, launcher: &str) {
        let story = self.story(launcher);
        let world = self.kubernetes.world();
        assert!(world.jobs.is_empty() && world.pods.is_empty(), "{story}");
    }
}

#[test]
fn each_run_is_a_pod_of_its_own_and_never_more_at_once_than_there_may_be() {
    let Some(cluster) = cluster(4, "sleep 1") else { return };
    let launcher = cluster.launcher(&["--room", "2", "--until-idle"]);
    let output = launcher.end().expect(0);
    assert_eq!(cluster.pulls(), vec![1; 4], "{}", cluster.story(&output.stderr));
    assert!(cluster.jobs().iter().all(|(state, tries, _)| state == "done" && *tries == 1));
    cluster.nothing_is_left(&output.stderr);
    let world = cluster.kubernetes.world();
    assert_eq!((world.made.len(), world.most), (4, 2), "{}", output.stderr);
    for job in &world.made {
        let spec = &job["spec"]["template"]["spec"];
        assert_eq!(schema::softness(spec), Vec::<String>::new());
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["team"], "builds");
        assert_eq!(job["spec"]["backoffLimit"], 0);
    }
    drop(world);
    // What runs in pods is said in the pods: this process asked the model nothing itself.
    assert!(output.stderr.contains(&format!("2 pods at once in the namespace `{NAMESPACE}`")));
}

/// A launcher meets this fate, says these words and gives the job back uncounted; when the fate has changed, the
/// work is done.
fn waits_for(fate: Fate, words: &str) -> Option<Cluster> {
    let cluster = cluster(1, "true")?;
    cluster.kubernetes.world().fate = fate;
    let launcher = cluster.launcher(&["--until-idle"]);
    launcher.wait_for(words);
    launcher.wait_until(|| cluster.jobs()[0].2.contains(words));
    let (state, tries, _) = cluster.jobs().remove(0);
    assert_eq!((state.as_str(), tries), ("queued", 0), "{}", cluster.story(&launcher.text()));
    cluster.kubernetes.world().fate = Fate::Runs;
    let output = launcher.end().expect(0);
    assert_eq!(cluster.pulls(), [1], "{}", cluster.story(&output.stderr));
    assert!(output.stderr.contains("pods run again"), "{}", output.stderr);
    cluster.nothing_is_left(&output.stderr);
    Some(cluster)
}

#[test]
fn a_pod_that_no_node_takes_is_said_and_costs_no_attempt() {
    let status = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }]});
    waits_for(Fate::Waits(status), "no node takes the pod (Unschedulable: 0/3 nodes are available");
}

#[test]
fn an_image_that_cannot_be_had_is_said_and_costs_no_attempt() {
    let status = json!({"phase": "Pending", "containerStatuses": [{
        "name": "patchwright", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"a\""}},
    }]});
    waits_for(Fate::Waits(status), "the image of the container `patchwright` cannot be had");
}

/// The status of the pod says nothing of it.
#[test]
fn a_volume_that_is_not_there_is_said_and_costs_no_attempt() {
    let why = "MountVolume.SetUp failed for volume \"keys\": secret \"signing\" not found";
    waits_for(
        Fate::Told("FailedMount", why),
        &format!("the pod does not start (FailedMount: {why})"),
    );
}

#[test]
fn a_quota_that_leaves_no_room_is_said_and_every_right_of_the_role_is_needed() {
    let quota = "exceeded quota: agents, requested: pods=1, used: pods=20, limited: pods=20";
    let Some(cluster) =
        waits_for(Fate::NoPod(quota.to_owned()), "the cluster makes no pod (FailedCreate")
    else {
        return;
    };
    // The one right that only a lost answer needs.
    let used = cluster.kubernetes.world().used.clone();
    let unused: BTreeSet<String> = rights("launcher.yaml").difference(&used).cloned().collect();
    assert!(unused.is_subset(&["get jobs".to_owned()].into()), "{unused:?}");
}

#[test]
fn a_pod_that_the_cluster_takes_away_costs_no_attempt_and_one_that_dies_does() {
    let Some(cluster) = cluster(1, "sleep 2") else { return };
    let launcher = cluster.launcher(&["--until-idle"]);
    let asked =
        |times: usize| launcher.wait_until(|| cluster.world.model.requests().len() >= times);
    asked(1);
    let pod = cluster.kubernetes.running().remove(0);
    cluster.kubernetes.evict(&pod);
    launcher.wait_for("the cluster took the pod away (EvictionByEvictionAPI");
    asked(2);
    let pod = cluster.kubernetes.running().remove(0);
    // The attempt of the evicted pod did not count; this one is the first.
    assert_eq!(cluster.jobs()[0].1, 1, "{}", launcher.text());
    cluster.kubernetes.kill_for_memory(&pod);
    launcher.wait_for("more memory than its pod may have");
    let output = launcher.end().expect(0);
    assert_eq!(cluster.pulls(), [1], "{}", cluster.story(&output.stderr));
    let (state, tries, _) = cluster.jobs().remove(0);
    assert_eq!((state.as_str(), tries), ("done", 2), "{}", output.stderr);
    cluster.nothing_is_left(&output.stderr);
}

/// Its pod stays, and the API server calls it running.
#[test]
fn a_pod_whose_node_is_gone_keeps_neither_its_job_nor_its_room() {
    let Some(cluster) = cluster(2, "sleep 2") else { return };
    let launcher = cluster.launcher(&["--room", "1", "--until-idle"]);
    launcher.wait_until(|| !cluster.world.model.requests().is_empty());
    let pod = cluster.kubernetes.running().remove(0);
    cluster.kubernetes.lose_node(&pod);
    launcher.wait_for(
        "its node does not say so: the cluster took the pod away (DeletionByTaintManager",
    );
    let output = launcher.end().expect(0);
    let story = cluster.story(&output.stderr);
    assert_eq!(cluster.pulls(), [1, 1], "{story}");
    assert!(
        cluster.jobs().iter().all(|(state, tries, _)| state == "done" && *tries == 1),
        "{story}"
    );
    let world = cluster.kubernetes.world();
    assert!(world.jobs.is_empty() && world.pods.keys().all(|name| *name == pod), "{story}");
}

#[test]
fn limits_lost_answers_and_watches_that_end_make_no_second_pod() {
    let Some(cluster) = cluster(3, "sleep 2") else { return };
    let limit = Meets::Answer(429, Some(("retry-after", "1")), "Too many requests".to_owned());
    cluster.kubernetes.meets(&Method::POST, "/jobs", &limit, 2);
    cluster.kubernetes.meets(&Method::POST, "/jobs", &Meets::Lost, 1);
    cluster.kubernetes.meets(&Method::DELETE, "/jobs", &Meets::Lost, 1);
    let away = Meets::Answer(503, None, "apiserver not ready".to_owned());
    let launcher = cluster.launcher(&["--room", "1", "--until-idle"]);
    cluster.kubernetes.until("a pod", |world| world.made.len() == 1);
    cluster.kubernetes.end_watches();
    cluster.kubernetes.until("a second pod", |world| world.made.len() == 2);
    // One of the watch, two of the list.
    cluster.kubernetes.meets(&Method::GET, "/pods", &away, 3);
    cluster.kubernetes.compact();
    let output = launcher.end().expect(0);
    assert_eq!(cluster.pulls(), vec![1; 3], "{}", cluster.story(&output.stderr));
    assert_eq!(cluster.kubernetes.world().made.len(), 3, "{}", output.stderr);
    assert!(output.stderr.contains("apiserver not ready"), "{}", output.stderr);
    assert!(output.stderr.contains("the Kubernetes API answers again"), "{}", output.stderr);
    let posts = |world: &Vec<String>| {
        world.iter().filter(|one| one.starts_with("POST") && one.contains("/jobs")).count()
    };
    // Two were limited, and one was sent again because its answer was lost.
    assert_eq!(posts(&cluster.kubernetes.world().requests), 6);
    cluster.nothing_is_left(&output.stderr);
}

#[test]
fn conflicts_lists_that_expire_and_exchanged_tokens_launch_no_pod_later() {
    let Some(cluster) = cluster(2, "sleep 1") else { return };
    let status = |code: u16, reason: &str, message: &str| {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message});
        Meets::Answer(code, None, body.to_string())
    };
    let expired = status(410, "Expired", "The provided continue parameter is too old");
    cluster.kubernetes.meets(&Method::GET, "/pods", &expired, 1);
    let conflict =
        status(409, "Conflict", "Operation cannot be fulfilled on resourcequotas \"compute\"");
    cluster.kubernetes.meets(&Method::POST, "/jobs", &conflict, 1);
    let launcher = cluster.launcher(&["--room", "1", "--until-idle"]);
    cluster.kubernetes.until("a pod", |world| world.made.len() == 1);
    cluster.kubernetes.rotate_token();
    let output = launcher.end().expect(0);
    assert_eq!(cluster.pulls(), [1, 1], "{}", cluster.story(&output.stderr));
    assert!(!output.stderr.contains("no pod is launched"), "{}", output.stderr);
    assert!(!output.stderr.contains("Unauthorized"), "{}", output.stderr);
    cluster.nothing_is_left(&output.stderr);
}

/// A server that has a list and forgets everything that was before it.
#[test]
fn a_launcher_whose_watches_all_expire_goes_by_lists_and_says_so_once() {
    let Some(cluster) = cluster(1, "sleep 1") else { return };
    cluster.kubernetes.expire_all_watches();
    let output = cluster.launcher(&["--until-idle"]).end().expect(0);
    assert_eq!(cluster.pulls(), [1], "{}", cluster.story(&output.stderr));
    let said = output.stderr.matches("(410): too old resource version").count();
    assert_eq!(said, 1, "{}", output.stderr);
    cluster.nothing_is_left(&output.stderr);
    let requests = cluster.kubernetes.world().requests.clone();
    let watches = requests.iter().filter(|request| request.contains("watch=1")).count();
    assert!(watches < 100, "it asks without end: {watches}");
}

#[test]
fn runs_outlive_their_launcher_and_the_next_one_tidies_up() {
    let Some(cluster) = cluster(2, "sleep 4") else { return };
    let launcher = cluster.launcher(&["--room", "2"]);
    launcher.wait_until(|| cluster.world.model.requests().len() >= 2);
    let first = launcher.kill();
    let pods = cluster.kubernetes.running();
    assert_eq!(pods.len(), 2, "{}", first.stderr);
    let second = cluster.launcher(&["--room", "2"]);
    cluster.kubernetes.until("the end of the pods", |world| world.jobs.is_empty());
    second.wait_until(|| cluster.pulls() == [1, 1]);
    let output = second.term().expect(0);
    let story = cluster.story(&format!("{}\n{}", first.stderr, output.stderr));
    assert_eq!(cluster.kubernetes.world().made.len(), 2, "{story}");
    assert!(
        cluster.jobs().iter().all(|(state, tries, _)| state == "done" && *tries == 1),
        "{story}"
    );
    assert!(output.stderr.contains("which no launcher looks after"), "{story}");
}

#[test]
fn a_launcher_that_is_told_to_end_leaves_what_runs_and_recalls_what_does_not() {
    let Some(cluster) = cluster(2, "sleep 4") else { return };
    let launcher = cluster.launcher(&["--room", "2"]);
    launcher.wait_until(|| !cluster.world.model.requests().is_empty());
    cluster.kubernetes.until("both pods", |world| world.made.len() == 2);
    launcher.wait_until(|| cluster.world.model.requests().len() >= 2);
    let output = launcher.term().expect(0);
    assert_eq!(cluster.kubernetes.running().len(), 2, "{}", cluster.story(&output.stderr));
    let status = json!({"phase": "Pending"});
    cluster.kubernetes.until("the end of the pods", |world| {
        world.pods.values().all(|pod| pod["status"]["phase"] == "Succeeded")
    });
    cluster.kubernetes.world().fate = Fate::Waits(status);
    // Nothing is left of work but publishing; a new campaign has pods that do not begin.
    let again = CAMPAIGN.replace("name: sums", "name: more");
    fs_err::write(cluster.world.path("more.yml"), again).unwrap();
    let args = ["batch", "run", "more.yml", "--model", "gpt-5.3-codex", "--detach"];
    cluster.world.run(&args).expect(0);
    let launcher = cluster.launcher(&["--room", "1"]);
    cluster.kubernetes.until("a third Job", |world| world.made.len() == 3);
    let output = launcher.term().expect(0);
    let story = cluster.story(&output.stderr);
    let name = cluster.kubernetes.world().made[2]["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(!cluster.kubernetes.world().jobs.contains_key(&name), "{story}");
    let queued = cluster.jobs().into_iter().filter(|(state, _, _)| state == "queued");
    assert!(queued.map(|(_, tries, _)| tries).all(|tries| tries == 0), "{story}");
}

#[test]
fn a_pod_that_was_made_weaker_on_its_way_in_does_not_run() {
    let Some(cluster) = cluster(1, "true") else { return };
    let pointer = "/spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem";
    cluster.kubernetes.world().webhook = Some((pointer.to_owned(), Value::from(false)));
    let launcher = cluster.launcher(&[]);
    launcher.wait_for("makes pods weaker than they were asked for");
    launcher.wait_for("readOnlyRootFilesystem");
    cluster.kubernetes.until("the end of it", |world| world.jobs.is_empty());
    launcher.term().expect(0);
    assert_eq!(cluster.pulls(), [0]);
    assert_eq!(cluster.jobs()[0].0, "queued");
}

/// What a webhook does to a pod.
type Change = fn(&mut Value);

/// A webhook changes pods, which the Job controller makes after the Job was looked at.
#[test]
fn a_pod_that_a_webhook_changed_does_not_run() {
    let Some(cluster) = cluster(1, "true") else { return };
    let changes: [(Change, &str); 4] = [
        (
            |spec| {
                let volume = json!({"name": "node", "hostPath": {"path": "/", "type": ""}});
                spec["volumes"].as_array_mut().unwrap().push(volume);
                let mounts = spec["containers"][0]["volumeMounts"].as_array_mut().unwrap();
                mounts.push(json!({"name": "node", "mountPath": "/node"}));
            },
            "it has files of its node (`\"/\"`)",
        ),
        (|spec| spec["hostNetwork"] = json!(true), "`hostNetwork` is true"),
        (
            |spec| spec["containers"][0]["image"] = json!("evil.example/x:1"),
            "image` is \"evil.example/x:1\" instead of \"ghcr.io/patchwright/patchwright:v0\"",
        ),
        (
            |spec| {
                let more = json!({"name": "istio-proxy", "image": "proxy"});
                spec["containers"].as_array_mut().unwrap().push(more);
            },
            "`containers` has \"istio-proxy\" besides",
        ),
    ];
    cluster.kubernetes.world().fate = Fate::Waits(json!({"phase": "Pending"}));
    cluster.kubernetes.world().pod_webhook = Some(Box::new(changes[0].0));
    let launcher = cluster.launcher(&["--until-idle"]);
    for (change, words) in changes {
        cluster.kubernetes.world().pod_webhook = Some(Box::new(change));
        launcher.wait_for(words);
    }
    {
        let mut world = cluster.kubernetes.world();
        world.pod_webhook = None;
        world.fate = Fate::Runs;
    }
    let output = launcher.end().expect(0);
    assert_eq!(cluster.pulls(), [1], "{}", cluster.story(&output.stderr));
    let (state, tries, _) = cluster.jobs().remove(0);
    assert_eq!((state.as_str(), tries), ("done", 1), "{}", output.stderr);
    cluster.nothing_is_left(&output.stderr);
}

/// The pod takes its job over before the watch reports it; it is checked even so.
#[test]
fn a_changed_pod_that_has_taken_its_job_over_does_not_go_on() {
    let Some(cluster) = cluster(1, "sleep 20") else { return };
    cluster.kubernetes.silence_all_watches();
    cluster.kubernetes.world().pod_webhook =
        Some(Box::new(|spec| spec["containers"][0]["securityContext"]["runAsUser"] = json!(0)));
    let launcher = cluster.launcher(&[]);
    launcher.wait_for("securityContext.runAsUser` is 0 instead of absent");
    cluster.kubernetes.until("the end of it", |world| world.jobs.is_empty());
    let output = launcher.term().expect(0);
    let (state, tries, why) = cluster.jobs().remove(0);
    assert_eq!((state.as_str(), tries), ("queued", 0), "{}", cluster.story(&output.stderr));
    assert!(why.contains("runAsUser"), "{why}");
    assert_eq!(cluster.pulls(), [0]);
}

#[test]
fn a_side_car_that_the_template_accepts_may_be_added() {
    let Some(cluster) = cluster(1, "true") else { return };
    let annotated = "metadata:\n  annotations: {patchwright/accepted-changes: istio-proxy}\n";
    cluster.world.write("pods.yaml", &TEMPLATE.replacen("metadata:\n", annotated, 1));
    cluster.kubernetes.world().pod_webhook = Some(Box::new(|spec| {
        spec["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "istio-proxy", "image": "proxy",
            "volumeMounts": [{"name": "istio-data", "mountPath": "/data"}]}));
        spec["volumes"].as_array_mut().unwrap().push(json!({"name": "istio-data", "emptyDir": {}}));
    }));
    let output = cluster.launcher(&["--until-idle"]).end().expect(0);
    assert_eq!(cluster.pulls(), [1], "{}", cluster.story(&output.stderr));
    assert_eq!(cluster.kubernetes.world().made.len(), 1, "{}", output.stderr);
}

/// The connection of a watch stays open and brings nothing: what it has not told of may be there.
#[test]
fn a_launcher_whose_watch_is_silent_leaves_the_pods_of_another_one_alone() {
    let Some(cluster) = cluster(2, "sleep 15") else { return };
    let first = cluster.launcher(&["--room", "1"]);
    first.wait_until(|| !cluster.world.model.requests().is_empty());
    cluster.kubernetes.silence_watches();
    let second = cluster.launcher(&["--room", "2"]);
    second.wait_until(|| cluster.pulls() == [1, 1]);
    let output = second.term().expect(0);
    let other = first.term().expect(0);
    let story = cluster.story(&format!("{}\n== the first\n{}", output.stderr, other.stderr));
    let world = cluster.kubernetes.world();
    assert_eq!(world.made.len(), 2, "{story}");
    assert!(!other.stderr.contains("somebody removed the pod"), "{story}");
    // It has asked for the pod that it did not know.
    let name = world.made[1]["metadata"]["name"].as_str().unwrap();
    let asked = format!("labelSelector=patchwright%2Fjob%3D{name}&");
    assert!(world.requests.iter().any(|request| request.contains(&asked)), "{story}");
    drop(world);
    assert!(
        cluster.jobs().iter().all(|(state, tries, _)| state == "done" && *tries == 1),
        "{story}"
    );
}

/// A proxy of the loopback that knows `CONNECT`; how many connections it has had.
fn tunnels() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let authority = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
                let mut server = TcpStream::connect(authority).unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut up, &mut server));
                let _ = std::io::copy(&mut down, &mut client);
            });
        }
    });
    (port, count)
}

#[test]
fn a_cluster_is_reached_through_the_proxies_that_kubectl_uses() {
    let Some(cluster) = cluster(1, "true") else { return };
    let template = cluster.world.path("pods.yaml").display().to_string();
    let launch = |no_proxy: &str| {
        let args =
            ["worker", "--launch", "kubernetes", "--pod-template", &template, "--until-idle"];
        let mut command = cluster.world.command(&args);
        // Nobody listens there.
        command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", no_proxy);
        cluster.world.process_of(command).end()
    };
    let plain = cluster.kubernetes.kubeconfig();
    let text = fs_err::read_to_string(&plain).unwrap();
    let (port, tunnels) = tunnels();
    let named = format!("', proxy-url: 'http://127.0.0.1:{port}'}}");
    fs_err::write(&plain, text.replacen("'}", &named, 1)).unwrap();
    let output = launch("*").expect(0);
    assert_eq!(cluster.pulls(), [1], "{}", cluster.story(&output.stderr));
    let count = tunnels.load(Ordering::Relaxed);
    assert!(count > 0);
    // That of the environment is for servers elsewhere.
    fs_err::write(&plain, text).unwrap();
    launch("other.test").expect(0);
    assert_eq!(tunnels.load(Ordering::Relaxed), count);
}

/// Found out before a job is claimed for which no pod could be made.
#[test]
fn rights_that_a_launcher_lacks_are_told_when_it_starts() {
    let Some(cluster) = cluster(1, "true") else { return };
    let doctor = || {
        let template = cluster.world.path("pods.yaml").display().to_string();
        cluster.world.run(&["doctor", "--launch", "kubernetes", "--pod-template", &template])
    };
    let output = doctor();
    let place = format!("ok    launcher: v1.33.2, the namespace `{NAMESPACE}` of ");
    for words in [place.as_str(), "ok    launcher rights: Jobs, pods and events"] {
        assert!(output.stdout.contains(words), "{words}: {}", output.text());
    }
    cluster.kubernetes.forbid("list events");
    let launcher = cluster.launcher(&[]);
    launcher.wait_for("warning: this launcher may not do `list events` in the namespace");
    cluster.kubernetes.until("a pod", |world| !world.made.is_empty());
    launcher.term().expect(0);
    for right in ["create jobs", "watch pods"] {
        cluster.kubernetes.forbid(right);
    }
    let made = cluster.kubernetes.world().made.len();
    let output = cluster.launcher(&[]).end().expect(1);
    for words in [
        &format!("this launcher may not do what it needs in the namespace `{NAMESPACE}` of "),
        ": `create jobs`, `watch pods`",
        "hint: give its account the rights of the Role in `docs/kubernetes/launcher.yaml`",
    ] {
        assert!(output.stderr.contains(words), "{words}: {}", output.text());
    }
    assert_eq!(cluster.kubernetes.world().made.len(), made);
    let output = doctor().expect(2);
    let words = "FAIL  launcher rights: not allowed: `create jobs`, `watch pods`, `list events`";
    assert!(output.stdout.contains(words), "{}", output.text());
}

#[test]
fn what_cannot_work_is_said_before_anything_is_claimed() {
    let Some(cluster) = cluster(1, "true") else { return };
    let forbidden = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "pods is forbidden: User \"x\" cannot list resource \"pods\""});
    let no = Meets::Answer(403, None, forbidden.to_string());
    cluster.kubernetes.meets(&Method::GET, "/pods", &no, 1);
    let output = cluster.launcher(&[]).end().expect(1);
    for words in ["says no (403): pods is forbidden", "docs/kubernetes/launcher.yaml"] {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    let template = TEMPLATE
        .replace("envFrom", "env: [{name: OPENAI_API_KEY, value: sk-abc}]\n        envFrom");
    cluster.world.write("pods.yaml", &template);
    let output = cluster.launcher(&[]).end().expect(2);
    assert!(output.stderr.contains("`OPENAI_API_KEY` stands in it as text"), "{}", output.stderr);
    assert!(!output.stderr.contains("sk-abc"), "{}", output.stderr);
    cluster.world.write("pods.yaml", TEMPLATE);

    let worker = |change: &dyn Fn(&mut std::process::Command), args: &[&str]| {
        let mut command = cluster.world.command(args);
        change(&mut command);
        cluster.world.process_of(command).end()
    };
    let launch = ["worker", "--launch", "kubernetes", "--pod-template", "pods.yaml"];
    let no_cluster = |command: &mut std::process::Command| {
        command.env_remove("KUBECONFIG");
    };
    let output = worker(&no_cluster, &launch).expect(2);
    assert!(output.stderr.contains("there is no Kubernetes cluster"), "{}", output.stderr);
    let no_database = |command: &mut std::process::Command| {
        command.env_remove("DATABASE_URL");
    };
    let output = worker(&no_database, &launch).expect(2);
    assert!(output.stderr.contains("pods cannot share a database"), "{}", output.stderr);
    let as_it_is = |_: &mut std::process::Command| {};
    let output = worker(&as_it_is, &launch[..3]).expect(2);
    assert!(output.stderr.contains("--pod-template"), "{}", output.stderr);
    // What a pod of long ago, or of another database, is told.
    let output = worker(&as_it_is, &["worker", "--one-job", "1/77", "--from", "others"]).expect(10);
    assert!(output.stderr.contains("job 1 is not there to be taken over"), "{}", output.stderr);
    let output = worker(&as_it_is, &["worker", "--one-job", "x", "--from", "others"]).expect(2);
    assert!(output.stderr.contains("JOB/EPOCH"), "{}", output.stderr);
    assert_eq!(cluster.jobs()[0].0, "queued");
    assert!(cluster.kubernetes.world().made.is_empty());
}
